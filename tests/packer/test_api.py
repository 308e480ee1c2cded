"""pack: what it refuses, that a file appears whole or not at all, what several targets share, progress."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from edgert import reader
from packer.api import compile_model, pack
from packer.errors import ModelError
from targets.base import TargetError


def network(name: str = "y") -> onnx.ModelProto:
    """name = relu(conv(x, w)), x [1,3,6,6], w [17,3,3,3]."""
    weights = np.random.default_rng(0).standard_normal((17, 3, 3, 3)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w"], ["c"]), helper.make_node("Relu", ["c"], [name])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 6, 6])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 17, 4, 4])],
        [numpy_helper.from_array(weights, "w")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_errors_before_anything_is_written(tmp_path: Path) -> None:
    output = tmp_path / "model.edge"
    with pytest.raises(ModelError, match="output folder does not exist"):
        pack(network(), tmp_path / "missing" / "model.edge")
    with pytest.raises(TargetError, match=r"unknown target 'abacus'; known: .*cpu"):
        pack(network(), output, targets=("cpu", "abacus"))
    with pytest.raises(TargetError, match="no target"):
        pack(network(), output, targets=())
    with pytest.raises(TargetError, match="programs of a bundle: expected at most 1024, got 1025: name fewer"):
        pack(network(), output, cores=range(1, 1026))
    with pytest.raises(ModelError, match="zero character"):
        pack(network("y\0"), output)
    for atol, rtol in ((-1e-3, 0.0), (0.0, float("nan")), (float("inf"), 0.0)):
        with pytest.raises(ValueError, match="tolerances"):
            pack(network(), output, atol=atol, rtol=rtol)
    assert list(tmp_path.iterdir()) == []


def test_a_size_along_two_axes_is_refused(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("NonZero", ["x"], ["a"]),
        helper.make_node("Transpose", ["a"], ["t"]),
        helper.make_node("Add", ["a", "t"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4])],
        [helper.make_tensor_value_info("y", TensorProto.INT64, [None, None])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    with pytest.raises(ModelError, match="more than one axis"):
        pack(model, tmp_path / "model.edge")


def no_space(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Writing fails after a while."""
    real = os.fdopen

    def fdopen(descriptor: int, mode: str) -> object:
        file = real(descriptor, mode)

        class Full:
            left = 3

            def __enter__(self) -> Full:
                return self

            def __exit__(self, *_: object) -> None:
                file.close()

            def write(self, data: bytes) -> int:
                self.left -= 1
                if not self.left:
                    no_space()
                return file.write(data)

        return Full()

    monkeypatch.setattr(os, "fdopen", fdopen)


FAULTS: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "write": full_disk,
    "fsync": lambda patch: patch.setattr(os, "fsync", no_space),
    "chmod": lambda patch: patch.setattr(os, "chmod", no_space),
    "replace": lambda patch: patch.setattr(os, "replace", no_space),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_failure_leaves_the_old_file_and_nothing_else(
    fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = tmp_path / "model.edge"
    output.write_bytes(b"what was there")
    with monkeypatch.context() as patch:
        FAULTS[fault](patch)
        with pytest.raises(OSError, match="No space left"):
            pack(network(), output)
    assert [path.name for path in tmp_path.iterdir()] == ["model.edge"]
    assert output.read_bytes() == b"what was there"
    pack(network(), output)
    reader.read(output)
    assert [path.name for path in tmp_path.iterdir()] == ["model.edge"]


def test_an_interruption_leaves_nothing(tmp_path: Path) -> None:
    def interrupt(stage: str, fraction: float) -> None:
        if stage == "write" and fraction > 0.5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pack(network(), tmp_path / "model.edge", progress=interrupt)
    assert list(tmp_path.iterdir()) == []


def test_the_file_has_the_permissions_of_any_new_file(tmp_path: Path) -> None:
    (tmp_path / "other").touch()
    name = "m" * 250 + ".edge"  # as long as names may be
    pack(network(), tmp_path / name)
    assert (tmp_path / name).stat().st_mode == (tmp_path / "other").stat().st_mode


def test_targets_share_weights(tmp_path: Path) -> None:
    names = ("cpu", "cpu-x86_64") if os.uname().machine == "x86_64" else ("cpu", "cpu-aarch64")
    report = pack(network(), tmp_path / "model.edge", targets=(*names, "cpu"), cores=(1,))
    assert [program.target for program in report.programs] == list(names)
    assert report.bytes == (tmp_path / "model.edge").stat().st_size
    bundle = reader.read(tmp_path / "model.edge")
    assert [program.target for program in bundle.programs] == list(names)
    plans = [f"plan {name}/1" for name in names]
    assert [segment.name for segment in bundle.segments] == ["weights", "golden", *plans]
    assert [bundle.segments[program.plan].name for program in bundle.programs] == plans
    places = [
        [(t.index, t.offset, t.bytes) for t in program.tensors if t.place == "segment"] for program in bundle.programs
    ]
    assert places[0] == places[1]
    alone = pack(network(), tmp_path / "alone.edge", cores=(1,))
    assert report.bytes <= alone.bytes + 4096  # the plan's page


def test_progress_is_told_in_order(tmp_path: Path) -> None:
    calls: list[tuple[str, float]] = []
    pack(network(), tmp_path / "model.edge", progress=lambda stage, fraction: calls.append((stage, fraction)))
    stages = list(dict.fromkeys(stage for stage, _ in calls))
    assert stages == ["import", "optimize", "plan", "golden", "lower", "write"]
    written = [fraction for stage, fraction in calls if stage == "write"]
    assert written == sorted(written)
    assert written[-1] == 1.0


def test_without_golden_there_is_no_sample() -> None:
    assert compile_model(network(), golden=False).goldens == ()
    assert len(compile_model(network()).goldens) == 1
