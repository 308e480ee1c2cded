"""Instructions that sessions make of weights: where they lie, and that sessions do without where none may be made."""

from __future__ import annotations

import sys
from pathlib import Path
from subprocess import run

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from edgert import _native, load
from edgert.samples import random_inputs
from packer.api import pack

PIECE = 64 << 10  # bytes: memory for a worker's instructions comes in such pieces
MDWE = 65  # PR_SET_MDWE of prctl: memory that was written cannot be made executable any more

pytestmark = pytest.mark.skipif("avx512" not in _native.isas(), reason="needs a processor with AVX-512")


@pytest.fixture(
    params=[
        (64, 3, 8, 1, True),
        (128, 1, 16, 1, True),
        (256, 1, 14, 1, True),
        (64, 3, 40, 1, False),
        (64, 3, 8, 9, False),
    ],
    ids=str,
)
def layers(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, int, bool]:
    """Pruned layers of so many channels, a kernel, rows and a number, and an input that is added to each: of few rows,
    and if all have room, their instructions are made when the session is opened, where nothing is bound yet. Groups of
    filters load their inputs on their own, from where the first one keeps them, or from where they are copied to."""
    channels, kernel, side, count, once = request.param
    rng, nodes, weights, shape = np.random.default_rng(0), [], [], (1, channels, side, side)
    for i in range(count):
        w = rng.standard_normal((channels, channels, kernel, kernel)).astype(np.float32)
        weights.append(numpy_helper.from_array(np.where(w > 1.3, w, 0), f"w{i}"))
        before, after = f"y{i - 1}" if i else "x", f"y{i}" if i < count - 1 else "y"
        nodes.append(helper.make_node("Conv", [before, f"w{i}"], [f"c{i}"], pads=[kernel // 2] * 4))
        nodes.append(helper.make_node("Add", [f"c{i}", "r"], [after]))
    x, r, y = (helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape) for name in "xry")
    graph = helper.make_graph(nodes, "layers", [x, r], [y], weights)
    path = tmp_path / "layers.edge"
    pack(helper.make_model(graph), path, targets=["cpu-x86_64-avx512"], cores=(1,), implementation="unrolled")
    return path, count, once


def test_short_code_is_made_once(layers: tuple[Path, int, bool]) -> None:
    """And needs no memory for instructions among that of the worker."""
    bundle, count, once = layers
    with load(bundle) as session:
        assert (session.describe().steps, session.describe().slow_steps) == (count, 0)
        scratch = session.describe().scratch_bytes
        assert (scratch > 0 and scratch % PIECE == 0) != once


DENIED = """
import ctypes, sys
import numpy as np
from edgert import load
if ctypes.CDLL(None).prctl(%d, 1, 0, 0, 0):
    sys.exit(77)
with load(sys.argv[1]) as session:
    assert session.describe().slow_steps == session.describe().steps
    np.save(sys.argv[3], session.run(dict(np.load(sys.argv[2])))["y"])
"""


def test_where_nothing_can_be_executed_the_bits_are_the_same(layers: tuple[Path, int, bool], tmp_path: Path) -> None:
    bundle = layers[0]
    given, found = tmp_path / "inputs.npz", tmp_path / "y.npy"
    with load(bundle) as session:
        inputs = random_inputs(session.inputs)
        want = session.run(inputs)["y"]
    np.savez(given, **inputs)
    done = run([sys.executable, "-c", DENIED % MDWE, bundle, given, found], capture_output=True, text=True)
    if done.returncode == 77:
        pytest.skip("needs Linux 6.3, whose processes can forbid themselves to execute what they wrote")
    assert done.returncode == 0, done.stderr
    assert np.load(found).tobytes() == want.tobytes()
