"""A probe runs exactly the piece of work it is for, twice, the second time with weights of its own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from edgert.bench import bind_all
from edgert.session import load
from packer.bundle.model import Place
from packer.bundle.writer import write_bundle
from packer.ir import Block, DType, TensorType
from packer.ir.ops import Concat, Conv, MatMul
from packer.planner.costs import signature, work_of
from packer.tune.candidates import Candidate, Candidates
from packer.tune.probe import probe
from targets.base import Form, Layout, Work, resolve
from tests.packer.tune.networks import network

TARGET = resolve("cpu")
CANDIDATES = Candidates(network(), TARGET, (3,), {}).all


def test_there_are_candidates_of_every_operator_and_algorithm() -> None:
    kinds = {(type(c.work.op).__name__, c.form.implementation) for c in CANDIDATES}
    assert {kind for kind, _ in kinds} == {"Conv", "Pool", "Softmax"}  # a Concat is a view
    assert {"packed", "im2col-caffe", "im2col-nhwc"} <= {name for kind, name in kinds if kind == "Conv"}
    assert len({c.signature for c in CANDIDATES}) == len(CANDIDATES)


@pytest.mark.parametrize("candidate", CANDIDATES[:: len(CANDIDATES) // 20], ids=lambda c: c.signature)
def test_every_probe_runs(candidate: Candidate, tmp_path: Path) -> None:
    made = probe(candidate.work, candidate.form, TARGET)
    write_bundle(made.bundle, tmp_path / "probe.edge", durable=False)
    with load(tmp_path / "probe.edge", threads=1) as session:
        bind_all(session)
        outputs = session.run()
    assert all(np.isfinite(array).all() for array in outputs.values())
    assert [output.shape for output in session.outputs] == [type.shape for type in candidate.work.outputs]


def test_the_rehearsal_has_everything_but_the_weights_in_common() -> None:
    candidate = next(c for c in CANDIDATES if c.form.implementation == "packed" and c.work.outputs[0].shape[1] == 32)
    made = probe(candidate.work, candidate.form, TARGET)
    program = made.bundle.programs[0]
    before, step = program.steps[made.step - 1], program.steps[made.step]
    assert (before.kernel, before.attributes, before.outputs) == (step.kernel, step.attributes, step.outputs)
    for a, b in zip(before.inputs, step.inputs, strict=True):
        if program.tensors[b].place is Place.SEGMENT:
            data, other = program.tensors[a].data, program.tensors[b].data
            assert data is not None
            assert other is not None
            assert data.tobytes() != other.tobytes()
        else:
            assert a == b


@pytest.mark.parametrize(("size", "rows"), [(32, 33), (28, 28)])
def test_planes_lie_as_far_apart_as_in_a_network(size: int, rows: int, tmp_path: Path) -> None:
    op, shapes = Conv((1, 1), (1, 1, 1, 1), (1, 1)), ((1, 32, size, size), (48, 32, 3, 3), (48,))
    types = tuple(TensorType(DType.F32, shape) for shape in shapes)
    work = Work(op, types, op.infer(types), (False, True, True), 0.2)
    planar = Form((Layout.PLANAR,) * 3, (Layout.PLANAR,), "sparse")
    made = probe(work, planar, TARGET)
    program = made.bundle.programs[0]
    step = program.steps[made.step]
    assert step.kernel == "conv_sparse"
    for number in (step.inputs[0], *step.outputs):
        root = program.tensors[number].root
        assert program.tensors[number if root < 0 else root].type.shape[2] == rows
    write_bundle(made.bundle, tmp_path / "probe.edge", durable=False)
    with load(tmp_path / "probe.edge", threads=1) as session:
        bind_all(session)
        assert [array.shape for array in session.run().values()] == [(1, 48, size, size)]


def test_a_probe_is_the_same_every_time(tmp_path: Path) -> None:
    candidate = CANDIDATES[0]
    for name in ("a", "b"):
        write_bundle(probe(candidate.work, candidate.form, TARGET).bundle, tmp_path / name, durable=False)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_the_signature_is_that_of_the_node_it_stands_for() -> None:
    graph = network()
    for node in graph.nodes:
        if isinstance(node.op, Concat):
            continue
        for form in TARGET.forms(graph, node):
            assert signature(work_of(graph, node), form) in {c.signature for c in CANDIDATES}


def test_weights_are_as_sparse_as_the_work_says() -> None:
    x = TensorType(DType.F32, (1, 100, 9, 9))
    op, weights = Conv((1, 1), (0, 0, 0, 0), (1, 1)), TensorType(DType.F32, (40, 100, 1, 1))
    work = Work(op, (x, weights), op.infer((x, weights)), (False, True), 0.2)
    made = probe(work, Form((Layout.PLANAR, Layout.PLANAR), (Layout.PLANAR,), "sparse"), TARGET)
    program = made.bundle.programs[0]
    first, second = (program.tensors[step.inputs[1]].data for step in program.steps)
    assert first is not None
    assert second is not None
    assert second.size == pytest.approx(0.2 * 4000, rel=0.15)
    np.testing.assert_array_equal(first, -second)


@pytest.mark.parametrize("block", [Block(4, 1), Block(1, 4)], ids=str)
def test_blocks_of_a_matrix_are_those_of_the_work(block: Block) -> None:
    x, weights = TensorType(DType.F32, (1, 300)), TensorType(DType.F32, (300, 40))
    work = Work(MatMul(), (x, weights), MatMul().infer((x, weights)), (False, True), 0.2, block)
    made = probe(work, Form((Layout.PLANAR, Layout.PLANAR), (Layout.PLANAR,), "sparse"), TARGET)
    step = made.bundle.programs[0].steps[made.step]
    values, indices = (made.bundle.programs[0].tensors[i].data for i in step.inputs[1:3])
    assert values is not None
    assert indices is not None
    assert values.size == 4 * indices.size == pytest.approx(0.2 * 12000, rel=0.15)
    assert {a.ints for a in step.attributes if a.name == "together"} == {block[:2] if block.channels > 1 else block[:1]}
