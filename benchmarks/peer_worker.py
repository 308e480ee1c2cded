"""The process of a peer: peer_worker.py ENGINE MODEL SHAPE THREADS. Needs numpy and the engine, nothing of this
project."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable

import numpy as np


def onnxruntime_runner(model: str, x: np.ndarray, threads: int) -> Callable[[], object]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    return lambda: session.run(None, {name: x})


def openvino_runner(model: str, x: np.ndarray, threads: int) -> Callable[[], object]:
    import openvino

    core = openvino.Core()
    network = core.read_model(model)
    network.reshape(list(x.shape))
    settings = {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32"}
    request = core.compile_model(network, "CPU", settings).create_infer_request()
    return lambda: request.infer([x])


RUNNERS = {"onnxruntime": onnxruntime_runner, "openvino": openvino_runner}


def main() -> None:
    engine, model, shape, threads = sys.argv[1:5]
    x = np.random.default_rng(0).standard_normal(json.loads(shape)).astype(np.float32)
    run = RUNNERS[engine](model, x, int(threads))
    run()
    print("[]", flush=True)
    for _ in sys.stdin:
        run()
        times: list[float] = []
        while len(times) < 3 or sum(times) < 0.15:
            begin = time.perf_counter()
            run()
            times.append(time.perf_counter() - begin)
            if sum(times) > 1.0:
                break
        print(json.dumps(times), flush=True)


if __name__ == "__main__":
    main()
