"""The demo: pack a pruned network, test it, classify digits it never saw, compare with ONNX, draw some of them."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import edgert
from edgert.demo.digits import Digits, load_digits
from edgert.demo.picture import choose, draw
from edgert.demo.train import MODEL

__all__ = ["Answers", "run"]

_COLUMNS, _ROWS = 10, 4  # of the picture
_WARMUP, _RUNS = 200, 2000


@dataclass(frozen=True, slots=True, eq=False)
class Answers:
    """What one implementation says about the held-out digits: probabilities [n,10] and its median time in seconds."""

    name: str
    probabilities: npt.NDArray[np.float32]
    seconds: float

    @property
    def digits(self) -> npt.NDArray[np.int64]:
        found: npt.NDArray[np.int64] = self.probabilities.argmax(axis=1)
        return found

    def accuracy(self, labels: npt.NDArray[np.int64]) -> float:
        return float((self.digits == labels).mean())


def run(output_dir: str | os.PathLike[str]) -> int:
    """The whole demo, told on the console; returns 0, or 1 if the self-test or the comparison fails."""
    from rich.console import Console

    from packer.api import pack

    console = Console(highlight=False, soft_wrap=True)

    def tell(topic: str, text: str) -> None:
        console.print(f"  [bold]{topic:<9}[/bold] {text}")

    folder = Path(output_dir)
    folder.mkdir(parents=True, exist_ok=True)
    model, bundle = folder / MODEL.name, folder / MODEL.with_suffix(".edge").name
    shutil.copyfile(MODEL, model)
    digits = load_digits()
    console.print("[bold]A pruned network for handwritten digits, from ONNX to this machine[/bold]\n")
    tell("model", f"{model}: {_summary(model)}")

    report = pack(model, bundle)
    program = report.programs[0]
    tell(
        "pack",
        f"{bundle}: {report.bytes:,} bytes, {program.steps} steps, {program.arena_bytes:,} bytes of working memory, "
        f"in {report.seconds:.1f} s",
    )
    passed = _selftest(bundle, tell)

    ours, theirs = _edgert_answers(bundle, digits), _onnx_answers(model, digits)
    labels = digits.test_labels
    difference = float(np.abs(ours.probabilities - theirs.probabilities).max())
    tell("accuracy", " | ".join(f"{a.name} {a.accuracy(labels):.1%}" for a in (ours, theirs)))
    tell("", f"on {len(labels)} digits kept from training; probabilities differ by at most {difference:.0e}")
    tell("latency", " | ".join(f"{a.name} {a.seconds * 1e6:.1f} us" for a in (ours, theirs)) + "  (median, 1 thread)")

    picture, sample = folder / "digits.png", folder / "digit.npy"
    shown = choose(labels, ours.digits, _COLUMNS, _ROWS)
    certainty = ours.probabilities.max(axis=1)
    title = f"{int((ours.digits == labels).sum())} of {len(labels)} digits right; the last ones here are the mistakes"
    draw(picture, title, digits.test_images[shown], labels[shown], ours.digits[shown], certainty[shown], _COLUMNS)
    np.save(sample, digits.test_images[:1])
    tell("picture", str(picture))

    command = _command()
    console.print("\n[bold]Next[/bold]")
    console.print(f"  {command} info {bundle}    layers, sizes, sparsity, memory", markup=False)
    console.print(f"  {command} run {bundle} --input image={sample}    one digit, a {labels[0]}", markup=False)
    console.print(f"  {command} bench {bundle}    latency in detail", markup=False)
    console.print(f"  {command} pack your.onnx -o your.edge    your own network", markup=False)
    agree = difference < 1e-4
    if not agree:
        console.print("\n[bold red]The bundle and the ONNX model disagree.[/bold red]")
    return 0 if passed and agree else 1


def _summary(model: Path) -> str:
    """Operators, and how many of the weights are zero."""
    import onnx

    graph = onnx.load(model).graph
    weights = [onnx.numpy_helper.to_array(t) for t in graph.initializer if len(t.dims) > 1]
    total, kept = sum(w.size for w in weights), sum(map(np.count_nonzero, weights))
    kinds = ", ".join(dict.fromkeys(node.op_type for node in graph.node))
    return f"{kinds}; {total:,} weights, {1 - kept / total:.1%} of them zero"


def _selftest(bundle: Path, tell: Callable[[str, str], None]) -> bool:
    from edgert.selftest import selftest

    verdict = selftest(bundle, threads=1, duration=0.2)
    reproduced = sum(output.passed for output in verdict.outputs)
    facts = f"integrity {verdict.integrity}, {reproduced} of {len(verdict.outputs)} golden outputs reproduced"
    tell("selftest", f"{'PASS' if verdict.passed else 'FAIL'}: {facts}")
    return verdict.passed


def _edgert_answers(bundle: Path, digits: Digits) -> Answers:
    with edgert.load(bundle, threads=1) as session:
        image = np.empty((1, 1, 8, 8), np.float32)
        probabilities = np.empty((1, 10), np.float32)
        session.bind({"image": image}, {"probabilities": probabilities})
        found = []
        for one in digits.test_images:
            image[0] = one
            session.run()
            found.append(probabilities[0].copy())
        seconds = _median_time(session.run)
    return Answers("edgert", np.stack(found), seconds)


def _onnx_answers(model: Path, digits: Digits) -> Answers:
    """By onnxruntime if it is installed, else by ONNX's own (slow) reference."""
    infer: Callable[..., Sequence[Any]]
    try:
        import onnxruntime
    except ImportError:
        from onnx.reference import ReferenceEvaluator

        name, runs, infer = "onnx reference", 20, ReferenceEvaluator(str(model)).run
    else:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        name, runs = "onnxruntime", _RUNS
        infer = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"]).run
    found = np.concatenate([np.asarray(infer(None, {"image": image[None]})[0]) for image in digits.test_images])
    one = digits.test_images[:1]
    return Answers(name, found, _median_time(lambda: infer(None, {"image": one}), runs))


def _median_time(call: Callable[[], object], runs: int = _RUNS) -> float:
    """Seconds."""
    times = []
    for _ in range(min(_WARMUP, runs)):
        call()
    for _ in range(runs):
        began = time.perf_counter_ns()
        call()
        times.append(time.perf_counter_ns() - began)
    return float(np.median(times)) / 1e9


def _command() -> str:
    """How to call the command line from this shell."""
    if shutil.which("edgert"):
        return "edgert"
    script = Path(sys.executable).parent / "edgert"
    if not script.exists():
        return f"{Path(sys.executable).name} -m edgert"
    return os.path.relpath(script) if Path.cwd() in script.parents else str(script)
