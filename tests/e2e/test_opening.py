"""Opening by several threads is opening by one: they share its steps, and instructions that are made once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import edgert
from edgert.errors import EdgertError
from packer.api import compile_model
from packer.bundle.model import Bundle
from packer.bundle.writer import write_bundle
from tests.fuzz.seeds import TARGET

CORES = 4
LAYERS, CHANNELS, SIZE = 24, 64, 32  # so that the arena is large enough to be opened by all threads


@pytest.fixture(scope="module")
def bundle() -> Bundle:
    """Layers of 1x1 convolutions, of whose weights 95 % are zeros, for several cores."""
    rng = np.random.default_rng(0)
    nodes, weights = [], []
    for i in range(LAYERS):
        w = rng.standard_normal((CHANNELS, CHANNELS, 1, 1)) * (rng.random((CHANNELS, CHANNELS, 1, 1)) < 0.05)
        weights.append(numpy_helper.from_array(w.astype(np.float32), f"w{i}"))
        nodes.append(helper.make_node("Conv", [f"x{i}", f"w{i}"], [f"x{i + 1}"], f"conv{i}"))
    shape = [1, CHANNELS, SIZE, SIZE]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in ("x0", f"x{LAYERS}")]
    graph = helper.make_graph(nodes, "layers", ends[:1], ends[1:], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.checker.check_model(model)
    made = compile_model(model, targets=[TARGET], cores=(CORES,), implementation="unrolled", golden=False)
    assert {step.kernel for step in made.programs[0].steps} == {"conv_unrolled"}
    return made


def test_every_session_gives_the_same_bits(bundle: Bundle, tmp_path: Path) -> None:
    write_bundle(bundle, tmp_path / "model.edge")
    x = np.random.default_rng(1).standard_normal((1, CHANNELS, SIZE, SIZE)).astype(np.float32)

    def run(threads: int) -> bytes:
        with edgert.load(tmp_path / "model.edge", threads=threads, integrity="metadata") as session:
            assert session.describe().arena_bytes > 256 << 10
            (y,) = session.run(x).values()
            return bytes(y)

    want = run(1)
    for _ in range(25):
        for threads in range(2, CORES + 1):
            assert run(threads) == want


@pytest.mark.parametrize("bad", [(2, 9), (LAYERS - 1,)])
@pytest.mark.parametrize("operand", ["owners", "groups"])
def test_the_first_step_that_is_refused_says_why(
    bundle: Bundle, operand: str, bad: tuple[int, ...], tmp_path: Path
) -> None:
    """What is read when steps are prepared, and what is only read when they are proven."""
    (program,) = bundle.programs
    dtype = {"owners": np.uint8, "groups": np.int32}[operand]
    tensors = list(program.tensors)
    for layer in bad:
        step = next(step for step in program.steps if f"conv{layer}" in step.nodes)
        place = next(i for i in step.inputs if tensors[i].data is not None and tensors[i].type.dtype.numpy == dtype)
        data = tensors[place].data
        assert data is not None
        tensors[place] = replace(tensors[place], data=np.full_like(data, 31))
    broken = replace(bundle, programs=(replace(program, tensors=tuple(tensors)),))
    write_bundle(broken, tmp_path / "broken.edge")

    def told(threads: int) -> str:
        with pytest.raises(EdgertError) as caught:
            edgert.load(tmp_path / "broken.edge", threads=threads, integrity="metadata")
        return str(caught.value)

    want = told(1)
    assert f"'conv{bad[0]}'" in want
    for _ in range(10):
        assert told(CORES) == want
