"""Pieces of the metadata are compared with their digests before they are used, and only those that are."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import edgert
from edgert.errors import CorruptError
from edgert.reader import read
from tests.edgert.edge_files import HEADER, PAGE, metadata_length
from tests.edgert.networks import packed

CORES, SHAPE, LAYERS = (1, 2, 4), [1, 8, 12, 12], 40


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of many small layers, for several cores."""
    rng = np.random.default_rng(1)
    weights = [numpy_helper.from_array(rng.standard_normal((8, 8, 1, 1), np.float32), f"w{k}") for k in range(LAYERS)]
    nodes = [helper.make_node("Conv", [f"x{k}", f"w{k}"], [f"x{k + 1}"], f"conv{k}") for k in range(LAYERS)]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, SHAPE) for name in ("x0", f"x{LAYERS}")]
    model = helper.make_model(helper.make_graph(nodes, "layers", ends[:1], ends[1:], weights), ir_version=9)
    return packed(model, tmp_path_factory.mktemp("metadata"), cores=CORES)


def run(file: bytes | Path, cores: int) -> bytes:
    x = np.random.default_rng(0).standard_normal(SHAPE).astype(np.float32)
    with edgert.load(file, threads=cores, integrity="metadata") as session:
        assert session.describe().cores == cores
        return b"".join(bytes(y) for y in session.run(x).values())


def test_damage_is_found_where_it_is_looked_at(path: Path) -> None:
    good = path.read_bytes()
    end = HEADER + metadata_length(good)
    starts = range(HEADER, end, PAGE)
    assert len(starts) > 4
    want = run(path, 1)
    refused = dict.fromkeys(CORES, 0)
    for at in starts:
        broken = bytearray(good)
        broken[at + (min(at + PAGE, end) - at) // 2] ^= 16
        for integrity in ("full", "metadata"):
            with pytest.raises(CorruptError, match=f"metadata, from byte {at}:"):
                read(broken, integrity)
        with pytest.raises(CorruptError, match=f"metadata, from byte {at} of the file"):
            edgert.load(bytes(broken))
        for cores in CORES:
            try:
                assert run(bytes(broken), cores) == want
            except CorruptError:
                refused[cores] += 1
    assert all(refused.values())
    assert min(refused.values()) < len(starts)


def test_sessions_that_open_at_the_same_time(path: Path) -> None:
    want = run(path, 1)
    for _ in range(20):
        first = edgert.load(path, threads=1, integrity="metadata")
        with ThreadPoolExecutor(4) as pool:
            forks = list(pool.map(lambda _, session=first: session.fork(), range(4)))
        x = np.random.default_rng(0).standard_normal(SHAPE).astype(np.float32)
        for session in (first, *forks):
            assert b"".join(bytes(y) for y in session.run(x).values()) == want
            session.close()
