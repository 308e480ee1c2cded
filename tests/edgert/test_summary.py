"""What a bundle holds, layer by layer: one row an operator, each weight counted once, however it is cut."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto, helper, numpy_helper
from typer.testing import CliRunner

from edgert.cli import app
from edgert.reader import Program, read
from edgert.summary import ProgramSummary, summarize
from packer.api import pack
from tests.edgert.device_bundles import two_runs, write
from tests.runtime_c.bundles import CORES


def model(nodes: list, weights: dict[str, np.ndarray], shape: tuple[int, ...], out: tuple[int, ...]) -> ModelProto:
    initializers = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    x, y = helper.make_tensor_value_info("x", 1, shape), helper.make_tensor_value_info("y", 1, out)
    graph = helper.make_graph(nodes, "g", [x], [y], initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def summaries(made: ModelProto, folder: Path, **options: object) -> list[tuple[Program, ProgramSummary]]:
    pack(made, folder / "m.edge", golden=False, **options)  # type: ignore[arg-type]
    bundle = read(folder / "m.edge")
    return [(program, summarize(bundle, program)) for program in bundle.programs]


def sparse(*shape: int) -> np.ndarray:
    """Every fourth a zero, but no channel that has no other elements."""
    found = np.arange(1, math.prod(shape) + 1, dtype=np.float32)
    numbers = np.arange(found.size)
    found[(numbers + numbers // 64) % 4 == 0] = 0
    return found.reshape(shape)


@pytest.mark.parametrize("search", ["exact", "rows", "none"])
def test_each_weight_counts_once_however_it_is_cut(tmp_path: Path, search: str) -> None:
    nodes = [
        helper.make_node("Conv", ["x", "a"], ["t"], "first", pads=[1] * 4),
        helper.make_node("Conv", ["t", "b"], ["y"], "second"),
    ]
    made = model(nodes, {"a": sparse(64, 16, 3, 3), "b": sparse(32, 64, 1, 1)}, (1, 16, 40, 40), (1, 32, 40, 40))
    for program, found in summaries(made, tmp_path, cores=(1, 2, 3), search=search, implementation="packed"):
        layers = {layer.nodes[0]: layer for layer in found.layers if layer.nodes}
        assert sorted(layers) == ["first", "second"]
        first, second = layers["first"], layers["second"]
        assert (first.weights, first.nonzeros) == (64 * 16 * 9, 64 * 16 * 9 * 3 // 4)
        assert (second.weights, second.nonzeros) == (32 * 64, 32 * 64 * 3 // 4)
        assert first.stored_bytes + second.stored_bytes == found.weights_bytes == 4 * (first.weights + second.weights)
        assert found.sparsity == pytest.approx(0.25)
        assert second.outputs == ("float32[1,32,40,40]",)
        assert sorted(i for layer in found.layers for i in layer.steps) == list(range(found.steps))
        assert (found.cores, found.steps) == (program.cores, len(program.steps))
        assert found.phases == 1 + max(step.phase for step in program.steps)


def test_partial_sums_and_their_sum_are_one_layer(tmp_path: Path) -> None:
    nodes = [helper.make_node("Conv", ["x", "a"], ["y"], "deep")]
    made = model(nodes, {"a": sparse(16, 4096, 1, 1)}, (1, 4096, 3, 3), (1, 16, 3, 3))
    sums = 0
    for _, found in summaries(made, tmp_path, cores=(2, 4), partial_sums=True):
        (layer,) = [layer for layer in found.layers if layer.nodes]
        assert (layer.weights, layer.nonzeros) == (4096 * 16, 4096 * 16 * 3 // 4)
        assert (layer.outputs, layer.tiles) == (("float32[1,16,3,3]",), 0)
        sums += "sum" in layer.kernel or "binary" in layer.kernel
    assert sums > 0


def test_shared_weights_count_once_in_the_program(tmp_path: Path) -> None:
    nodes = [helper.make_node("MatMul", [a, "w"], [b], a) for a, b in (("x", "t"), ("t", "u"), ("u", "y"))]
    made = model(nodes, {"w": sparse(32, 32)}, (1, 32), (1, 32))
    for _, found in summaries(made, tmp_path, implementation="packed"):
        assert [layer.weights for layer in found.layers if layer.nodes] == [1024] * 3
        assert found.weights_bytes == 4096
        assert found.sparsity == pytest.approx(0.25)


def test_a_layer_that_hands_on_tiles(tmp_path: Path) -> None:
    """What two convolutions have between them is larger than any cache near a core."""
    nodes = [
        helper.make_node("Conv", ["x", "a"], ["t"], "wide", pads=[1] * 4),
        helper.make_node("MaxPool", ["t"], ["y"], "pool", kernel_shape=[2, 2], strides=[2, 2]),
    ]
    made = model(nodes, {"a": sparse(64, 3, 3, 3)}, (1, 3, 448, 448), (1, 64, 224, 224))
    tiled = 0
    for program, found in summaries(made, tmp_path, cores=(1, 2)):
        wide, pool = (next(layer for layer in found.layers if name in layer.nodes) for name in ("wide", "pool"))
        assert pool.tiles == 0
        assert pool.outputs == ("float32[1,64,224,224]",)
        if wide.tiles:
            tiled += 1
            assert wide.tiles == len(wide.steps) == len(pool.steps)
            assert wide.outputs[0] == f"float32[{','.join(map(str, last_output(program, wide.steps[-1])))}]"
    assert tiled > 0


def test_values_have_the_shapes_of_the_network_wherever_they_lie(tmp_path: Path) -> None:
    """Also where there is room between their planes."""
    nodes = [
        helper.make_node("Conv", ["x", "a"], ["t"], "first", pads=[1] * 4),
        helper.make_node("Conv", ["t", "b"], ["y"], "second", pads=[1] * 4),
    ]
    weights = {"a": sparse(32, 16, 3, 3), "b": sparse(16, 32, 3, 3)}
    for array in weights.values():
        array[np.arange(array.size).reshape(array.shape) % 11 != 0] = 0
    made = model(nodes, weights, (1, 16, 64, 64), (1, 16, 64, 64))
    ((program, found),) = summaries(made, tmp_path, cores=(1,))
    assert any(tensor.name.endswith(":spaced") for tensor in program.tensors)
    outputs = {name: layer.outputs for layer in found.layers for name in layer.nodes}
    assert outputs == {"first": ("float32[1,32,64,64]",), "second": ("float32[1,16,64,64]",)}


def last_output(program: Program, step: int) -> tuple[int, ...]:
    return program.tensors[program.steps[step].outputs[0]].shape


def test_programs_of_cores() -> None:
    bundle = read(CORES)
    for program in bundle.programs:
        found = summarize(bundle, program)
        assert [layer.nodes for layer in found.layers] == [("activate",), ("shift",), ("find",), ("turn",)]
        assert [len(layer.steps) for layer in found.layers] == [program.cores, 1, 1, program.cores]
        assert found.phases == 3
        assert found.layers[0].outputs == found.layers[0].inputs


def test_the_weights_of_streams_are_all_there_were(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Conv", ["x", "a"], ["t"], "grouped", group=2),
        helper.make_node("Flatten", ["t"], ["f"], "flat"),
        helper.make_node("MatMul", ["f", "b"], ["y"], "product"),
    ]
    weights = {"a": sparse(64, 8, 3, 3), "b": sparse(64 * 9, 50)}
    made = model(nodes, weights, (1, 16, 5, 5), (1, 50))
    for _, found in summaries(made, tmp_path, cores=(1, 2), implementation="sparse"):
        layers = {layer.nodes[0]: layer for layer in found.layers if layer.nodes}
        for layer, weight in ((layers["grouped"], weights["a"]), (layers["product"], weights["b"])):
            assert layer.kernel.endswith("_sparse")
            assert (layer.weights, layer.nonzeros) == (weight.size, weight.size * 3 // 4)
        assert found.sparsity == pytest.approx(0.25)


def test_layers_on_a_device_and_its_code(tmp_path: Path) -> None:
    bundle = read(write(tmp_path / "device.edge", two_runs().program()))
    found = summarize(bundle, bundle.programs[0])
    assert (found.device, found.device_bytes, found.modules) == ("sm_62", 5 * 1216, 3)
    assert (found.device_layers, found.copies, len(found.layers)) == (3, 5, 9)
    assert found.sparsity is None, "the code leaves zeros out, and the constants do not tell of them"
    text = CliRunner().invoke(app, ["info", str(tmp_path / "device.edge")]).stdout
    assert re.search(r"\n  weights [\d.]+ KiB\n", text)
    assert {layer.nodes: layer.entries for layer in found.layers if layer.kernel == "launch"} == {
        ("scale",): ("scale",),
        ("shift",): ("shift",),
        ("product",): ("scale",),
    }
    assert (found.cubin_bytes, found.ptx_bytes) == (0, sum(module.ptx_stored for module in bundle.programs[0].modules))
