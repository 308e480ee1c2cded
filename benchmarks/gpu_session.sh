#!/bin/sh
# Measures this machine's NVIDIA GPU in under 10 minutes: benchmarks/gpu_session.sh [--help]. Needs Python with numpy,
# onnx and flatbuffers, a C compiler and cmake; PyTorch, onnxruntime-gpu, ptxas and ncu are used where they are.
set -eu
# where toolkits and drivers are that are on no path
PATH="$PATH:/usr/local/cuda/bin"
export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}/usr/local/nvidia/lib64"
cd "$(dirname "$0")/.."
for python in ${EDGERT_PYTHON:-} .venv/bin/python python3; do
  if command -v "$python" >/dev/null && "$python" -c 'import flatbuffers, numpy, onnx' 2>/dev/null; then
    PYTHONUNBUFFERED=1 exec "$python" -m benchmarks.gpu "$@"
  fi
done
echo "no Python with numpy, onnx and flatbuffers: pip install numpy onnx flatbuffers, or set EDGERT_PYTHON" >&2
exit 1
