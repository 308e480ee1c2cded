# Two images: `packer` turns ONNX into bundles, `runtime` (the default) only runs them.
#   docker build --target packer -t edgert-packer .
#   docker build -t edgert .
#   docker run --rm -v "$PWD:/data" edgert-packer pack model.onnx -o model.edge
#   docker run --rm -v "$PWD:/data" edgert selftest model.edge

FROM python:3.11-slim-bookworm AS build
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*
WORKDIR /source
COPY . .
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.11-slim-bookworm AS packer
COPY --from=build /wheels /wheels
RUN wheel=$(ls /wheels/edgert-*.whl) && pip install --no-cache-dir "$wheel[demo]" && rm -rf /wheels
WORKDIR /data
ENTRYPOINT ["edgert"]

FROM python:3.11-slim-bookworm AS runtime
COPY --from=build /wheels /wheels
RUN pip install --no-cache-dir /wheels/edgert-*.whl && rm -rf /wheels
RUN useradd --create-home edgert
USER edgert
WORKDIR /data
ENTRYPOINT ["edgert"]
