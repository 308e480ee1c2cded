"""Static shapes, pinned values, element types and names of inputs and outputs."""

from __future__ import annotations

import time

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from packer.errors import ModelError
from packer.importers import import_onnx
from packer.ir import DType
from tests.packer.importers.models import check, info, model, noise, run, single

F32 = np.float32


def relu(shape: list[int | str | None] | None, dtype: object = F32) -> onnx.ModelProto:
    return model([helper.make_node("Relu", ["x"], ["y"])], [info("x", dtype, shape)], [info("y", dtype, None)])


@pytest.mark.parametrize("first", ["batch", None, -1])
def test_an_unknown_batch_is_one(first: str | int | None) -> None:
    built = relu([first, 3])
    assert import_onnx(built).type("x").shape == (1, 3)
    assert import_onnx(built, shapes={"x": (5, 3)}).type("y").shape == (5, 3)


def test_other_unknown_dimensions_are_named_with_the_flag() -> None:
    with pytest.raises(ModelError) as caught:
        import_onnx(relu(["N", 3, "height", 4]))
    assert "dimension 2 of input 'x'" in caught.value.what
    assert caught.value.got == "Nx3xheightx4"
    assert "--shape x=1x3x224x4" in caught.value.hint
    assert import_onnx(relu(["N", 3, "height", 4]), shapes={"x": (1, 3, 2, 4)}).type("y").shape == (1, 3, 2, 4)


def test_no_shape_at_all() -> None:
    with pytest.raises(ModelError, match="--shape x="):
        import_onnx(relu(None))
    assert import_onnx(relu(None), shapes={"x": ()}).type("y").shape == ()


def test_symbols_hold_for_all_inputs() -> None:
    built = model(
        [helper.make_node("MatMul", ["a", "b"], ["y"])],
        [info("a", F32, ["n", "k"]), info("b", F32, ["k", "n"])],
        [info("y", F32, None)],
    )
    assert import_onnx(built, shapes={"a": (2, 3)}).type("b").shape == (3, 2)
    with pytest.raises(ModelError, match="pinned twice"):
        import_onnx(built, shapes={"a": (2, 3), "b": (4, 2)})


@pytest.mark.parametrize("shape", [(2,), (1, 4), (1, -3), (1, 3, 1)])
def test_shapes_that_do_not_fit(shape: tuple[int, ...]) -> None:
    with pytest.raises(ModelError, match="does not fit"):
        import_onnx(relu(["N", 3]), shapes={"x": shape})


def test_shapes_of_no_input() -> None:
    with pytest.raises(ModelError, match="no input 'z'"):
        import_onnx(relu([3]), shapes={"z": (3,)})


def test_initializers_that_are_inputs_are_constants() -> None:
    built, feeds = single("Add", [noise(3), noise(3)], opset=8, constant=[1])
    built.graph.input.append(info("x1", F32, [3]))
    built.ir_version = 3
    graph = check(built, feeds)
    assert graph.inputs == ("x0",)
    assert graph.constant("x1") is not None


def test_pinned_values_are_constants() -> None:
    built, feeds = single("Reshape", [noise(6), np.array([2, 3])])
    graph = import_onnx(built, constants={"x1": feeds["x1"]})
    assert graph.inputs == ("x0",)
    assert graph.type("y0").shape == (2, 3)
    with pytest.raises(ModelError, match="another element type"):
        import_onnx(built, constants={"x1": np.array([2, 3], np.int32)})
    with pytest.raises(ModelError, match="no input 'q' to give a value"):
        import_onnx(built, constants={"q": feeds["x1"]})
    with pytest.raises(ModelError, match="does not fit"):
        import_onnx(built, constants={"x1": np.array([1, 2, 3])})


@pytest.mark.parametrize("element", [TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16])
def test_floats_of_any_type_come_in_and_go_out_in_float32(element: int) -> None:
    dtype = helper.tensor_dtype_to_np_dtype(element)
    x, w = noise(2, 3), noise(3, 4).astype(dtype)
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    built = model([node], [info("x", element, [2, 3])], [info("y", element, None)], initializers={"w": w})
    graph = import_onnx(built)
    assert graph.type("x").dtype == graph.type("y").dtype == DType.F32
    (got,) = run(graph, {"x": x})
    assert got.dtype == F32
    np.testing.assert_allclose(got, x.astype(np.float64) @ w.astype(np.float64), rtol=1e-5, atol=1e-6)
    pinned = import_onnx(built, constants={"x": x.astype(dtype)})
    assert pinned.inputs == ()
    np.testing.assert_allclose(pinned.constant("y"), x.astype(dtype).astype(F32) @ w.astype(F32), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("element", [TensorProto.STRING, TensorProto.INT4, TensorProto.COMPLEX64])
def test_inputs_and_outputs_of_other_types(element: int) -> None:
    with pytest.raises(ModelError, match="input 'x' has an element type"):
        import_onnx(relu([3], element))
    built = model(
        [helper.make_node("Cast", ["x"], ["y"], to=element)], [info("x", F32, [3])], [info("y", element, None)]
    )
    with pytest.raises(ModelError, match="output 'y' has an element type"):
        import_onnx(built)


def test_inputs_that_are_no_tensors() -> None:
    built = relu([3])
    built.graph.input[0].type.CopyFrom(helper.make_sequence_type_proto(helper.make_tensor_type_proto(1, [3])))
    with pytest.raises(ModelError, match="no tensor"):
        import_onnx(built)


@pytest.mark.parametrize("element", [TensorProto.DOUBLE, TensorProto.FLOAT16])
def test_other_floats_inside_are_computed_in_float32(element: int) -> None:
    dtype = helper.tensor_dtype_to_np_dtype(element)
    built = model(
        [
            helper.make_node("Cast", ["x"], ["a"], to=element),
            helper.make_node("Mul", ["a", "w"], ["b"]),
            helper.make_node("Cast", ["b"], ["y"], to=TensorProto.FLOAT),
        ],
        [info("x", F32, [3])],
        [info("y", F32, None)],
        initializers={"w": np.array([0.1, 1, 2], dtype)},
    )
    graph = check(built, {"x": noise(3)}, tolerance=2e-3)
    assert {value.type.dtype for value in graph.values.values()} == {DType.F32}
    assert len(graph.nodes) == 1


def test_double_constants_fold_in_double() -> None:
    built = model(
        [helper.make_node("Sub", ["a", "b"], ["c"]), helper.make_node("Cast", ["c"], ["d"], to=TensorProto.FLOAT),
         helper.make_node("Add", ["x", "d"], ["y"])],
        [info("x", F32, [1])],
        [info("y", F32, None)],
        initializers={"a": np.array([1 + 1e-12]), "b": np.array([1.0])},
    )  # fmt: skip
    (y,) = run(import_onnx(built), {"x": np.zeros(1, F32)})
    assert y[0] == pytest.approx(1e-12, rel=1e-3)


def test_casts_to_half_round_constants() -> None:
    built = model(
        [helper.make_node("Cast", ["a"], ["b"], to=TensorProto.FLOAT16), helper.make_node("Cast", ["b"], ["c"], to=1),
         helper.make_node("Add", ["x", "c"], ["y"])],
        [info("x", F32, [1])],
        [info("y", F32, None)],
        initializers={"a": np.array([0.1], F32)},
    )  # fmt: skip
    (y,) = run(import_onnx(built), {"x": np.zeros(1, F32)})
    assert y[0] == np.float32(np.float16(0.1))


def four_bits(x: np.ndarray) -> onnx.TensorProto:
    return helper.make_tensor("w", TensorProto.INT4, x.shape, x.reshape(-1).tolist())


def test_four_bit_weights_are_decoded() -> None:
    w = np.arange(-8, 7).reshape(3, 5)
    built = model(
        [helper.make_node("DequantizeLinear", ["w", "s"], ["d"]), helper.make_node("MatMul", ["x", "d"], ["y"])],
        [info("x", F32, [2, 3])],
        [info("y", F32, None)],
        initializers={"s": np.array(0.5, F32)},
    )
    built.graph.initializer.append(four_bits(w))
    x = noise(2, 3)
    (y,) = run(import_onnx(built), {"x": x})
    np.testing.assert_allclose(y, x @ (w * F32(0.5)), 1e-6, 1e-6)


def test_quantising_to_four_bits_is_not_taken_for_eight() -> None:
    built = model(
        [
            helper.make_node("QuantizeLinear", ["x", "s", "w"], ["q"]),
            helper.make_node("DequantizeLinear", ["q", "s"], ["y"]),
        ],
        [info("x", F32, [3])],
        [info("y", F32, None)],
        initializers={"s": np.array(0.5, F32)},
    )
    built.graph.initializer.append(four_bits(np.array(0)))
    with pytest.raises(ModelError, match="int4"):
        import_onnx(built)


def test_outputs_keep_names_and_order() -> None:
    built = model(
        [
            helper.make_node("Relu", ["x"], ["a"]),
            helper.make_node("Identity", ["a"], ["same"]),
            helper.make_node("Dropout", ["a"], ["again"]),
            helper.make_node("Identity", ["x"], ["input"]),
            helper.make_node("Identity", ["c"], ["constant"]),
            helper.make_node("Shape", ["x"], ["shape"]),
        ],
        [info("x", F32, [2])],
        [info(n, F32, None) for n in ("same", "again", "input", "constant", "c")] + [info("shape", np.int64, None)],
        initializers={"c": noise(2)},
    )
    graph = check(built, {"x": noise(2, seed=1)})
    assert graph.outputs == ("same", "again", "input", "constant", "c", "shape")


def test_an_output_that_is_an_input() -> None:
    built = model([], [info("x", F32, [2])], [info("x", F32, [2])])
    assert import_onnx(built).outputs == ("x",)


def test_sources_are_the_nodes_names() -> None:
    built = model(
        [
            helper.make_node("Relu", ["x"], ["a"]),
            helper.make_node("Gemm", ["a", "w"], ["y"], name="fc", transB=1, alpha=2.0),
        ],
        [info("x", F32, [2, 3]), info("w", F32, [4, 3])],
        [info("y", F32, None)],
    )
    assert {node.sources for node in import_onnx(built).nodes} == {("Relu_0",), ("fc",)}


def test_names_do_not_collide() -> None:
    """Tensors named as the importer names its own are kept apart."""
    built = model(
        [
            helper.make_node("HardSwish", ["x"], ["Gemm_1.transpose"]),
            helper.make_node("Gemm", ["Gemm_1.transpose", "w"], ["Gemm_1.matmul"], transB=1),
            helper.make_node("Neg", ["Gemm_1.matmul"], ["y"]),
        ],
        [info("x", F32, [2, 3]), info("w", F32, [4, 3])],
        [info("y", F32, None)],
    )
    check(built, {"x": noise(2, 3), "w": noise(4, 3)})


def test_the_same_model_gives_the_same_graph() -> None:
    built, _ = single("Einsum", [noise(2, 3), noise(3, 4)], equation="ij,jk->ki")
    first, second = import_onnx(built), import_onnx(built)
    assert first.nodes == second.nodes
    assert list(first.values) == list(second.values)


def test_sparse_initializers() -> None:
    built, feeds = single("Add", [noise(2, 3), np.zeros((2, 3), F32)], constant=[1])
    for indices in (np.array([1, 5]), np.array([[0, 1], [1, 2]])):
        sparse = helper.make_sparse_tensor(
            numpy_helper.from_array(np.array([5, 7], F32), "x1"), numpy_helper.from_array(indices, "indices"), [2, 3]
        )
        del built.graph.initializer[:], built.graph.sparse_initializer[:]
        built.graph.sparse_initializer.append(sparse)
        (y,) = run(import_onnx(built), feeds)
        np.testing.assert_array_equal(y - feeds["x0"] != 0, [[False, True, False], [False, False, True]])
    sparse.indices.CopyFrom(numpy_helper.from_array(np.array([1, 6]), "indices"))
    del built.graph.sparse_initializer[:]
    built.graph.sparse_initializer.append(sparse)
    with pytest.raises(ModelError, match="does not hold"):
        import_onnx(built)


def test_constants_are_read_only_and_contiguous() -> None:
    built = model(
        [helper.make_node("Transpose", ["w"], ["t"]), helper.make_node("MatMul", ["x", "t"], ["y"])],
        [info("x", F32, [2, 3])],
        [info("y", F32, None)],
        initializers={"w": noise(4, 3)},
    )
    graph = import_onnx(built)
    (weights,) = (value.data for value in graph.values.values() if value.data is not None)
    assert weights.flags.c_contiguous
    assert not weights.flags.writeable


def test_nodes_in_another_order() -> None:
    """Some converters append nodes at the end."""
    nodes = [helper.make_node(op, [x], [y]) for op, x, y in (("Neg", "c", "y"), ("Exp", "b", "c"), ("Relu", "x", "b"))]
    x = noise(3)
    graph = import_onnx(model(nodes, [info("x", F32, [3])], [info("y", F32, None)]))
    np.testing.assert_allclose(run(graph, {"x": x})[0], -np.exp(np.maximum(x, 0)), rtol=1e-6)
    nodes[2].input[0] = "y"
    with pytest.raises(ModelError, match="used before it is defined"):
        import_onnx(model(nodes, [info("x", F32, [3])], [info("y", F32, None)]))


def test_a_long_model_backwards() -> None:
    count = 5000
    nodes = [helper.make_node("Neg", [f"x{k}"], [f"x{k + 1}"]) for k in range(count)]
    built = model(nodes[::-1], [info("x0", F32, [3])], [info(f"x{count}", F32, None)])
    begin = time.perf_counter()
    assert len(import_onnx(built).nodes) == count
    assert time.perf_counter() - begin < 5
