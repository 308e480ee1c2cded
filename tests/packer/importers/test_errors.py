"""What is wrong with a model is said once, completely, in at most four lines, and nothing but ModelError comes out."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from packer.errors import ModelError, UnsupportedOperators
from packer.importers import import_onnx
from packer.importers.onnx.walk import LARGEST_DEPTH
from tests.packer.importers.models import info, model, noise, single

F32 = np.float32


def message(built: onnx.ModelProto | Path, **options: object) -> ModelError:
    with pytest.raises(ModelError) as caught:
        import_onnx(built, **options)  # type: ignore[arg-type]
    assert 1 <= len(str(caught.value).splitlines()) <= 4
    return caught.value


def node(op_type: str, inputs: list[str], outputs: list[str], **more: object) -> onnx.NodeProto:
    return helper.make_node(op_type, inputs, outputs, **more)


def test_all_unsupported_operators_are_listed() -> None:
    built = model(
        [
            node("Unique", ["x"], ["a"], name="first"),
            node("Relu", ["a"], ["b"]),
            node("Unique", ["b"], ["c"]),
            node("FooBar", ["c"], ["d"], domain="com.example", name="mine"),
            node("Dropout", ["x", "", "yes"], ["e"], name="drop"),
            node("Add", ["d", "e"], ["y"]),
        ],
        [info("x", F32, [3])],
        [info("y", F32, None)],
        initializers={"yes": np.array(True)},
    )
    error = message(built)
    assert isinstance(error, UnsupportedOperators)
    assert [(o.op_type, o.nodes, o.reason) for o in error.operators] == [
        ("Dropout", ("drop",), "training mode"),
        ("Unique", ("first", "Unique_2"), ""),
        ("com.example.FooBar", ("mine",), ""),
    ]
    assert error.what == "4 nodes cannot be packed: unsupported operators"
    assert error.hint


def test_unsupported_operators_win_over_later_errors() -> None:
    built = model(
        [node("FooBar", ["x"], ["a"]), node("Transpose", ["x"], ["y"], perm=[5])],
        [info("x", F32, [3])],
        [info("y", F32, None), info("a", F32, None)],
    )
    assert isinstance(message(built), UnsupportedOperators)


def test_what_contributes_to_no_output_is_ignored() -> None:
    built = model(
        [node("FooBar", ["x"], ["a"]), node("Transpose", ["x"], ["b"], perm=[5]), node("Neg", ["x"], ["y"])],
        [info("x", F32, [3])],
        [info("y", F32, None)],
    )
    assert [type(n.op).__name__ for n in import_onnx(built).nodes] == ["Unary"]


def test_unsupported_inside_a_function_is_named_by_its_path() -> None:
    function = helper.make_function(
        "local", "F", ["x"], ["y"], [node("FooBar", ["x"], ["y"])], [helper.make_opsetid("", 21)]
    )
    built = model(
        [node("F", ["x"], ["y"], domain="local", name="outer")], [info("x", F32, [3])], [info("y", F32, None)]
    )
    built.functions.append(function)
    error = message(built)
    assert isinstance(error, UnsupportedOperators)
    assert error.operators[0].nodes == ("outer/FooBar_0",)


def test_a_shape_that_is_an_input_is_named() -> None:
    built, _ = single("Reshape", [noise(6), np.array([2, 3])])
    error = message(built)
    assert error.input_name == "x1"
    assert "--pin x1=" in error.hint
    assert "'node'" in error.where
    assert "'x1'" in error.got


def test_a_shape_computed_from_integer_inputs_names_the_input() -> None:
    built = model(
        [node("Mul", ["n", "n"], ["m"]), node("Expand", ["x", "m"], ["y"])],
        [info("x", F32, [1]), info("n", np.int64, [1])],
        [info("y", F32, None)],
    )
    assert message(built).input_name == "n"


def test_a_shape_computed_from_data_names_no_input() -> None:
    built = model(
        [node("Cast", ["x"], ["n"], to=TensorProto.INT64), node("Expand", ["x", "n"], ["y"])],
        [info("x", F32, [3])],
        [info("y", F32, None)],
    )
    error = message(built)
    assert error.input_name is None
    assert error.hint


@pytest.mark.parametrize(
    ("nodes", "text"),
    [
        ([node("Relu", ["nothing"], ["y"])], "used before it is defined"),
        ([node("Relu", ["x"], ["z"])], "never computed"),
        ([node("Relu", [], ["y"])], "missing"),
        ([node("Relu", ["x"], ["y"]), node("Neg", ["x"], ["y"])], "not well formed"),
        ([node("Relu", ["x"], ["x"]), node("Neg", ["x"], ["y"])], "not well formed"),
        ([node("Transpose", ["x"], ["y"], perm=[0, 0])], "no permutation"),
        ([node("Transpose", ["x"], ["y"], perm=1)], "another type"),
        ([node("Softmax", ["x"], ["y"], axis=7)], "out of range"),
        ([node("Concat", ["x", "x"], ["y"])], "'axis' is missing"),
        ([node("Conv", ["x", "x"], ["y"])], "do not fit"),
        ([node("MatMul", ["x", "x"], ["y"])], "do not fit"),
        ([node("Relu", ["x"], ["y", "z"])], "too many outputs"),
        ([node("Einsum", ["x"], ["y"], equation="ijk->i")], "do not match"),
    ],
)
def test_malformed_nodes(nodes: list[onnx.NodeProto], text: str) -> None:
    error = message(model(nodes, [info("x", F32, [2, 3])], [info("y", F32, None)]))
    assert text in str(error)


@pytest.mark.parametrize(
    "data", [b"", b"garbage", b"version https://git-lfs.github.com/spec/v1\n", bytes(1000), b"\x08\x07"]
)
def test_files_that_are_no_models(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(data)
    assert message(path).what == "not an ONNX model"


def test_files_that_are_not_there(tmp_path: Path) -> None:
    assert "cannot be read" in message(tmp_path / "none.onnx").what
    assert "no file" in message(tmp_path).what


def test_damaged_models_give_model_errors_only(tmp_path: Path) -> None:
    """Random bytes of a real graph changed: an import works or raises ModelError."""
    built = model(
        [
            node("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1]),
            node("Relu", ["a"], ["b"]),
            node("MaxPool", ["b"], ["c"], kernel_shape=[2, 2], strides=[2, 2]),
            node("Shape", ["c"], ["s"]),
            node("Reshape", ["c", "s"], ["d"]),
            node("Flatten", ["d"], ["e"]),
            node("Gemm", ["e", "v"], ["f"], transB=1),
            node("Softmax", ["f"], ["y"], axis=1),
        ],
        [info("x", F32, ["N", 2, 8, 8])],
        [info("y", F32, None)],
        initializers={"w": noise(3, 2, 3, 3), "v": noise(4, 48)},
    )
    good = built.SerializeToString()
    import_onnx(built)
    path, rng, messages = tmp_path / "model.onnx", random.Random(0), []
    for _ in range(400):
        data = bytearray(good)
        for _ in range(rng.randint(1, 4)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        path.write_bytes(data[: rng.choice([len(data), rng.randrange(len(data))])])
        try:
            import_onnx(path)
        except ModelError as error:
            messages.append(str(error))
    assert 0 < len(messages) < 400
    assert all(1 <= len(text.splitlines()) <= 4 for text in messages)


def test_opsets_that_are_not_known() -> None:
    for opset in (0, 9999):
        built, _ = single("Relu", [noise(2)])
        built.opset_import[0].version = opset
        assert "opset" in message(built).what


def recursive(name: str, body: list[str]) -> onnx.FunctionProto:
    nodes, last = [], "x"
    for index, callee in enumerate(body):
        nodes.append(node(callee, [last], [f"t{index}"], domain="local"))
        last = f"t{index}"
    return helper.make_function(
        "local", name, ["x"], [last], nodes, [helper.make_opsetid("", 21), helper.make_opsetid("local", 1)]
    )


def test_functions_that_call_themselves() -> None:
    built = model([node("F", ["x"], ["y"], domain="local")], [info("x", F32, [1])], [info("y", F32, None)])
    built.functions.append(recursive("F", ["F"]))
    assert "too deep" in message(built).what


def test_functions_that_grow_without_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("packer.importers.onnx.walk.LARGEST_NODES", 1000)
    built = model([node("F0", ["x"], ["y"], domain="local")], [info("x", F32, [1])], [info("y", F32, None)])
    depth = LARGEST_DEPTH - 2
    built.functions.extend(recursive(f"F{i}", [f"F{i + 1}"] * 2) for i in range(depth))
    built.functions.append(
        helper.make_function(
            "local", f"F{depth}", ["x"], ["y"], [node("Neg", ["x"], ["y"])], [helper.make_opsetid("", 21)]
        )
    )
    assert "too many nodes" in message(built).what


def test_constants_that_take_too_much_memory() -> None:
    nodes = [node("ConstantOfShape", ["n"], ["a"]), node("ReduceSum", ["a"], ["y"])]
    built = model(nodes, [], [info("y", F32, None)], initializers={"n": np.array([1 << 20, 1 << 20])})
    assert "too large" in message(built).what
    nodes = [node("Tile", ["x", "n"], ["a"]), node("ReduceSum", ["a"], ["y"])]
    built = model(nodes, [], [info("y", F32, None)], initializers={"n": np.array([1 << 50]), "x": np.ones(1, F32)})
    assert "too large" in message(built).what


def test_loops_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("packer.importers.onnx.walk.LARGEST_NODES", 1000)
    body = helper.make_graph([], "body", [info("i", np.int64, []), info("c", np.bool_, []), info("v", F32, [1])],
                             [info("c", np.bool_, []), info("v", F32, [1])])  # fmt: skip
    built = model([node("Loop", ["", "", "x"], ["y"], body=body)], [info("x", F32, [1])], [info("y", F32, None)])
    assert "too many nodes" in message(built).what


def test_string_tensors() -> None:
    built = model(
        [node("Identity", ["s"], ["z"]), node("Neg", ["x"], ["y"])], [info("x", F32, [1])], [info("y", F32, None)]
    )
    built.graph.initializer.append(helper.make_tensor("s", TensorProto.STRING, [1], [b"text"]))
    assert "string" in message(built).what


def test_tensors_that_do_not_hold_what_they_declare() -> None:
    built, _ = single("Add", [noise(3), noise(3)], constant=[1])
    built.graph.initializer[0].dims[0] = 4
    assert "initializer 'x1'" in message(built).where
    built.graph.initializer[0].dims[0] = -1
    assert "negative" in message(built).what


def test_standard_functions_that_onnx_itself_fails_to_build() -> None:
    """The body of FlexAttention takes names of its subgraph into text that onnx parses."""
    modifier = helper.make_graph(
        [node("Mul", ["s", "no name|"], ["t"])],
        "modifier",
        [info("s", F32, None)],
        [info("t", F32, None)],
        [numpy_helper.from_array(np.float32(2), "no name|")],
    )
    built = model(
        [node("FlexAttention", ["q", "q", "q"], ["y"], domain="ai.onnx.preview", score_mod=modifier)],
        [info("q", F32, [1, 1, 2, 4])],
        [info("y", F32, None)],
    )
    built.opset_import.append(helper.make_opsetid("ai.onnx.preview", 1))
    assert message(built)
