"""The process of a peer: peer_worker.py SPECIFICATION (JSON). Needs numpy and the engine.

The specification: engine, model (a file it loads), threads, x (a .npy file), shapes (of the outputs), y (the .npz file
that the outputs of the first run go to). The process answers with one line of JSON about opening and the first run, and
then for each line on its input, a number of seconds, runs the network for so long and answers with the times.
"""

from __future__ import annotations

import json
import mmap
import os
import re
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

Run = Callable[[], list[np.ndarray]]
Start = Callable[[], Run]
LEAST, MOST_SECONDS = 2, 1.0  # runs of a turn; seconds after which no more than LEAST are made


def edgert(spec: dict[str, Any], x: np.ndarray) -> Start:
    from edgert import load
    from edgert._native import library

    library()  # loaded before time is taken, as others' are where they are imported

    def start() -> Run:
        spec["session"] = session = load(spec["model"], threads=spec["threads"], integrity=spec["integrity"])
        outputs = {info.name: np.empty(info.shape, info.dtype) for info in session.outputs}
        session.bind({session.inputs[0].name: x}, outputs)
        found = list(outputs.values())

        def run() -> list[np.ndarray]:
            session.run()
            return found

        return run

    return start


def onnxruntime(spec: dict[str, Any], x: np.ndarray) -> Start:
    import onnxruntime

    def start() -> Run:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = spec["threads"]
        options.log_severity_level = 3
        session = onnxruntime.InferenceSession(spec["model"], options, providers=["CPUExecutionProvider"])
        name = session.get_inputs()[0].name
        return lambda: session.run(None, {name: x})

    return start


def openvino(spec: dict[str, Any], x: np.ndarray) -> Start:
    import openvino

    def start() -> Run:
        core = openvino.Core()
        network = core.read_model(spec["model"])
        network.reshape(list(x.shape))
        settings = {
            "INFERENCE_NUM_THREADS": spec["threads"],
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_PRECISION_HINT": spec["precision"],  # its default is bf16 where the processor has it
        }
        request = core.compile_model(network, "CPU", settings).create_infer_request()
        return lambda: list(request.infer([x]).values())

    return start


def ncnn(spec: dict[str, Any], x: np.ndarray) -> Start:
    import ncnn

    def start() -> Run:
        net = ncnn.Net()
        net.opt.num_threads = spec["threads"]
        net.opt.use_vulkan_compute = False
        for half in ("use_fp16_packed", "use_fp16_storage", "use_fp16_arithmetic", "use_bf16_storage"):
            setattr(net.opt, half, False)  # its default for fully connected layers: a thousand times the error
        if net.load_param(spec["model"]) or net.load_model(spec["model"].replace(".param", ".bin")):
            raise ValueError("ncnn cannot load what was converted for it")
        source, names = net.input_names()[0], sorted(net.output_names())
        mat = ncnn.Mat(np.ascontiguousarray(x[0])).clone()

        def run() -> list[np.ndarray]:
            with net.create_extractor() as extractor:
                extractor.input(source, mat)
                return [np.array(extractor.extract(name)[1]) for name in names]

        run.net = net  # type: ignore[attr-defined]
        return run

    return start


def mnn(spec: dict[str, Any], x: np.ndarray) -> Start:
    import MNN

    def start() -> Run:
        interpreter = MNN.Interpreter(spec["model"])
        session = interpreter.createSession({"numThread": spec["threads"], "precision": "high", "backend": "CPU"})
        source = interpreter.getSessionInput(session)
        planar = MNN.Tensor_DimensionType_Caffe
        given = MNN.Tensor(x.shape, MNN.Halide_Type_Float, x, planar)
        outputs = interpreter.getSessionOutputAll(session).values()
        found = [np.empty(output.getShape(), np.float32) for output in outputs]
        taken = [MNN.Tensor(y.shape, MNN.Halide_Type_Float, y, planar) for y in found]

        def run() -> list[np.ndarray]:
            source.copyFrom(given)
            interpreter.runSession(session)
            for output, target in zip(outputs, taken, strict=True):
                output.copyToHostTensor(target)
            return [np.array(target.getNumpyData()) for target in taken]

        return run

    return start


def deepsparse(spec: dict[str, Any], x: np.ndarray) -> Start:
    os.environ["NM_DISABLE_ANALYTICS"] = "1"
    import deepsparse

    def start() -> Run:
        engine = deepsparse.Engine(model=spec["model"], batch_size=1, num_cores=spec["threads"])
        return lambda: engine.run([x])

    return start


def litert(spec: dict[str, Any], x: np.ndarray) -> Start:
    from ai_edge_litert.interpreter import Interpreter

    def start() -> Run:
        interpreter = Interpreter(spec["model"], num_threads=spec["threads"])
        interpreter.allocate_tensors()
        source, outputs = interpreter.get_input_details()[0], interpreter.get_output_details()
        given = x if tuple(source["shape"]) == x.shape else np.ascontiguousarray(np.moveaxis(x, 1, -1))

        def run() -> list[np.ndarray]:
            interpreter.set_tensor(source["index"], given)
            interpreter.invoke()
            return [interpreter.get_tensor(output["index"]) for output in outputs]

        return run

    return start


ENGINES = {
    "edgert": edgert,
    "onnxruntime": onnxruntime,
    "openvino": openvino,
    "ncnn": ncnn,
    "mnn": mnn,
    "deepsparse": deepsparse,
    "litert": litert,
}


def planar(y: np.ndarray, shape: list[int]) -> np.ndarray:
    """An output in the model's order, if an engine gives it with the channels last or without dimensions of one."""
    channels_last = shape[:1] + shape[2:] + shape[1:2]
    if list(y.shape) != shape and list(y.shape) == channels_last:
        y = np.moveaxis(y, -1, 1)
    return np.ascontiguousarray(y).reshape(shape)


def turn(run: Run, seconds: float) -> list[float]:
    """Seconds of a few runs after one that is not timed."""
    run()
    times: list[float] = []
    while len(times) < LEAST or sum(times) < seconds:
        begin = time.perf_counter()
        run()
        times.append(time.perf_counter() - begin)
        if sum(times) > MOST_SECONDS and len(times) >= LEAST:
            break
    return times


def peak_mb() -> float:
    """The most memory that this process ever had resident, in 1e6 bytes."""
    with open("/proc/self/status") as status:
        found = re.search(r"VmHWM:\s+(\d+)", status.read())
    assert found
    return int(found[1]) * 1024e-6


def page_in_ms(path: str, memory: int) -> float:
    """Milliseconds to map a file and touch each page of it, and to touch so many bytes of new memory: in whole huge
    pages where there are such, or in small ones if it is little."""
    huge, small = 2 << 20, 256 << 10
    size = memory if memory <= small else -(-memory // huge) * huge
    begin = time.perf_counter()
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as pages:
        np.frombuffer(pages, np.uint8)[:: mmap.PAGESIZE].max()
    with mmap.mmap(-1, size + huge, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as pages:
        if memory > small:
            pages.madvise(mmap.MADV_HUGEPAGE)
        found = np.frombuffer(pages, np.uint8)
        first = -found.ctypes.data % huge
        found[first : first + memory : mmap.PAGESIZE] = 1
        del found  # which keeps the mapping open
    return (time.perf_counter() - begin) * 1e3


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what engines print is no answer
    spec = json.loads(sys.argv[1])
    x = np.load(spec["x"])
    start = ENGINES[spec["engine"]](spec, x)
    begin = time.perf_counter()
    run = start()
    opened = time.perf_counter()
    outputs = run()
    done = time.perf_counter()
    found = {"open_ms": (opened - begin) * 1e3, "first_ms": (done - opened) * 1e3, "peak_mb": peak_mb()}
    if spec["engine"] == "edgert":
        used = spec["session"].describe()
        found["page_in_ms"] = page_in_ms(spec["model"], used.arena_bytes + used.scratch_bytes)
    wanted = [planar(y, shape) for y, shape in zip(outputs, spec["shapes"], strict=True)]
    np.savez(spec["y"], *wanted)
    print(json.dumps(found), file=answers, flush=True)
    for line in sys.stdin:
        print(json.dumps(turn(run, float(line))), file=answers, flush=True)


if __name__ == "__main__":
    main()
