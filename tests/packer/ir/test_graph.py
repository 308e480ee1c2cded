"""The validator, and what every operator refuses."""

import re
from dataclasses import replace

import numpy as np
import pytest

from packer.ir import DType, Graph, Node, TensorType, Value
from packer.ir.ops import (
    Activation,
    ArgReduce,
    Attention,
    Binary,
    Compress,
    Concat,
    Conv,
    ConvTranspose,
    CumSum,
    DequantizeLinear,
    Expand,
    Gather,
    GatherElements,
    GatherND,
    GridSample,
    Lookup,
    LpNormalize,
    Lrn,
    MatMul,
    MaxUnpool,
    NonMaxSuppression,
    Normalize,
    OneHot,
    Op,
    Pad,
    Pool,
    QuantizedBinary,
    QuantizeLinear,
    Recurrent,
    Reduce,
    Reshape,
    Resize,
    ReverseSequence,
    RoiAlign,
    ScaleShift,
    ScatterElements,
    ScatterND,
    ShapeError,
    Slice,
    Softmax,
    Tile,
    TopK,
    Transpose,
    Trilu,
    Unary,
    Where,
)


def of(text: str) -> TensorType | None:
    """`f32[2,3]` as a type; `-` as an absent input."""
    if text == "-":
        return None
    name, shape = re.fullmatch(r"(\w+)\[([\d,]*)\]", text).groups()
    return TensorType(DType[name.upper()], tuple(int(n) for n in shape.split(",") if n))


ATTENTION = Attention(0.5, *((0, 1, 2),) * 4)
CONV = Conv((1, 1), (0, 0, 0, 0), (1, 1))
TRANSPOSE = ConvTranspose((1, 1), (0, 0, 0, 0), (1, 1), (0, 0))
MAX = Pool("max", (2, 2), (1, 1), (0, 0, 0, 0), (1, 1))
PAIR = QuantizedBinary("add", (0, 0, 0), (1.0, 1.0))
LSTM = Recurrent("lstm", "forward", 2, ("sigmoid", "tanh", "tanh"), (0.0,) * 3, (0.0,) * 3)
RESIZE = Resize((2, 4), (1.0, 2.0))
REFUSED: list[tuple[Op, str, str]] = [
    (Unary("relu"), "", "1 inputs"),
    (Unary("relu"), "-", "present"),
    (Unary("relu"), "bool[2]", "relu: input of f32"),
    (Unary("sine"), "f32[2]", "kind"),
    (Binary("add"), "f32[2] i32[2]", "second input of f32"),
    (Binary("add"), "f32[2] f32[3]", "broadcast"),
    (Binary("and"), "f32[2] f32[2]", "bool"),
    (Binary("equal", Activation("relu")), "f32[2] f32[2]", "f32 result"),
    (Binary("add", Activation("is_nan")), "f32[2] f32[2]", "activation"),
    (Where(), "f32[2] f32[2] f32[2]", "condition of bool"),
    (Where(), "bool[2] f32[2] i32[2]", "third input"),
    (ScaleShift(), "f32[2,3] f32[2] f32[3]", r"scale of shape \[3\]"),
    (ScaleShift(), "f32[3] f32[3] f32[3]", "rank 2"),
    (QuantizeLinear(1), "f32[2,3] f32[2] u8[3]", r"scale of shape \[3\]"),
    (QuantizeLinear(2), "f32[2,3] f32[3] u8[3]", "axis within"),
    (QuantizeLinear(0), "f32[2,3] f32[] f32[]", "zero_point of u8"),
    (Lookup(), "u8[2] u8[255]", r"table of shape \[256\]"),
    (Lookup(), "i8[2] u8[256]", "x of u8"),
    (Lookup(), "u8[2] i8[256]", "table of u8"),
    (PAIR, "u8[2] i8[2]", "b of u8"),
    (PAIR, "i8[2] u8[2]", "a of u8"),
    (PAIR, "u8[2] u8[3]", "broadcast"),
    (replace(PAIR, kind="sub"), "u8[2] u8[2]", "kind"),
    (replace(PAIR, zeros=(0, 0)), "u8[2] u8[2]", "3 zeros"),
    (replace(PAIR, scales=(1.0,)), "u8[2] u8[2]", "2 scales"),
    (replace(PAIR, zeros=(0, 0, 256)), "u8[2] u8[2]", "zero points"),
    (replace(PAIR, scales=(1.0, float("nan"))), "u8[2] u8[2]", "scales of at most"),
    (replace(PAIR, lo=9, hi=8), "u8[2] u8[2]", "lo no larger"),
    (DequantizeLinear(0), "u8[2] f32[] i8[]", "zero_point of u8"),
    (DequantizeLinear(0), "f32[2] f32[]", "x of u8"),
    (Reshape((4,)), "f32[2,3]", "6 elements"),
    (Reshape((-1, 6)), "f32[2,3]", "static"),
    (Transpose((0, 0)), "f32[2,3]", "permutation"),
    (Slice((0,), (1,), (3,)), "f32[2]", r"within 0\.\.1"),
    (Slice((1,), (-1,), (3,)), "f32[2]", r"1\.\.-1"),
    (Slice((0,), (0,), (1,)), "f32[2]", "other than 0"),
    (Slice((0,), (1,), (1,)), "f32[2,2]", "2 starts"),
    (Concat(1), "f32[2,3] f32[3,3]", r"input 1 of shape \[2,3\]"),
    (Concat(0), "f32[2] i32[2]", "input 1 of f32"),
    (Concat(0), "", "1 input or more"),
    (Concat(2), "f32[2,2]", "axis"),
    (Expand((2,)), "f32[3]", "broadcast"),
    (Expand((3,)), "f32[2,3]", "broadcasts to"),
    (Tile((2,)), "f32[2,3]", "2 repeats"),
    (Pad((0, -3)), "f32[2]", "crop"),
    (Pad((0, 1), "edge"), "f32[0]", "non-empty"),
    (Pad((0, 0), "mirror"), "f32[2]", "mode"),
    (Pad((0, 0)), "f32[2] i32[]", "value of f32"),
    (CONV, "f32[1,4,5,5] f32[8,3,3,3]", "4 / 1 input channels"),
    (CONV, "f32[1,4,5,5] f32[8,4,3,3] f32[7]", r"bias of shape \[8\]"),
    (CONV, "f32[1,4,5,5] f32[8,4,3,3] - f32[1,8,5,5]", r"residual of shape \[1,8,3,3\]"),
    (CONV, "f32[1,4,2,5] f32[8,4,3,3]", "no larger than the padded input"),
    (CONV, "f32[1,4,5] f32[8,4,3]", "1 strides"),
    (CONV, "f32[4,5] f32[8,4]", "rank 3 to 5"),
    (replace(CONV, group=3), "f32[1,3,5,5] f32[8,1,3,3]", "divisible by group 3"),
    (replace(CONV, pads=(0, 0, 0, -1)), "f32[1,4,5,5] f32[8,4,3,3]", "pads of 0 or more"),
    (replace(CONV, strides=(0, 1)), "f32[1,4,5,5] f32[8,4,3,3]", "strides of 1"),
    (TRANSPOSE, "f32[1,4,5,5] f32[3,8,3,3]", "4 input channels"),
    (replace(TRANSPOSE, pads=(9, 0, 9, 0)), "f32[1,4,5,5] f32[4,8,3,3]", "no larger than the full output"),
    (MAX, "i32[1,2,3,3]", "x of f32 or i8 or u8"),
    (MAX, "f32[1,2,3]", "2"),
    (replace(MAX, kind="average"), "u8[1,2,3,3]", "x of f32"),
    (MaxUnpool((1, 1, 4), (1, 1, 5)), "f32[1,1,2] i64[1,1,2]", "index_shape within"),
    (MatMul(), "f32[2,3] f32[2,3]", r"rows in b \(2\)"),
    (MatMul(), "f32[] f32[2]", "matrices"),
    (MatMul(), "f32[2,3] f32[3,4] f32[3]", "broadcast"),
    (MatMul(Activation("relu")), "i32[2,3] i32[3,4]", "f32 result"),
    (ATTENTION, "f32[2,3,4] f32[2,5,3] f32[2,5,6]", "as many columns in q as in k"),
    (ATTENTION, "f32[2,3,4] f32[2,5,4] f32[2,3,6]", "as many rows in k as in v"),
    (ATTENTION, "f32[2,3,4] f32[2,0,4] f32[2,0,6]", "as many rows in k as in v, and some"),
    (ATTENTION, "f32[2,3,4] f32[5,4] f32[2,5,6]", "k_axes that order 2 dimensions"),
    (ATTENTION, "f32[2,3,4] f32[3,5,4] f32[2,5,6]", "broadcast"),
    (ATTENTION, "f32[2,3,4] f32[2,5,4] f32[2,5,6] f32[4,1,3,5]", r"mask that broadcasts to \(2, 3, 5\)"),
    (replace(ATTENTION, y_axes=(0, 1, 1)), "f32[2,3,4] f32[2,5,4] f32[2,5,6]", "y_axes that order 3"),
    (Reduce("sum", (1, 0)), "f32[2,3]", "increasing"),
    (Reduce("sum", (0,)), "bool[2]", "sum of f32"),
    (Reduce("log_sum", (0,)), "i32[2]", "log_sum of f32"),
    (ArgReduce("max", 0), "f32[0,2]", "entries along axis 0"),
    (CumSum(2), "f32[2,2]", "axes"),
    (Softmax("softmax", (0, 2)), "f32[2,2,2]", "neighbouring"),
    (Normalize((3,), 1e-5), "f32[2,2]", "axes"),
    (LpNormalize(0, 3), "f32[2]", "p of 1 or 2"),
    (Lrn(0, 1.0, 1.0, 1.0), "f32[2,2]", "size"),
    (Gather(0), "f32[2] f32[2]", "indices of i32 or i64"),
    (Gather(0), "f32[0] i64[2]", "entries along"),
    (GatherElements(0), "f32[2,3] i64[2,4]", "indices within"),
    (GatherND(), "f32[2] i64[3,2]", "at most 1 coordinates"),
    (GatherND(1), "f32[2,3] i64[3,1]", "equal first 1"),
    (ScatterElements(0), "f32[2] i64[2] f32[3]", r"updates of shape \[2\]"),
    (ScatterElements(0, "sub"), "f32[2] i64[2] f32[2]", "reduction"),
    (ScatterND(), "f32[2,3] i64[2,1] f32[2,2]", r"updates of shape \[2,3\]"),
    (OneHot(3, 4), "i64[2] f32[2]", "axis within"),
    (OneHot(0, 4), "i64[2] f32[3]", r"values of shape \[2\]"),
    (TopK(3, 0), "f32[2]", r"k within 0\.\.2"),
    (NonMaxSuppression(1, 0.5, 0.0), "f32[1,4,4] f32[1,2,5]", r"scores of shape \[1,2,4\]"),
    (Compress(0), "f32[2] bool[3]", "at most 2 conditions"),
    (Trilu(True), "f32[2]", "rank 2"),
    (ReverseSequence(0, 0), "f32[2,2] i64[2]", "axes"),
    (ReverseSequence(0, 1), "f32[2,3] i64[3]", r"sequence_lens of shape \[2\]"),
    (RESIZE, "f32[2,2,2]", "3 output extents"),
    (replace(RESIZE, mode="linear"), "u8[2,2]", "x of f32"),
    (replace(RESIZE, scales=(1.0, 0.0)), "f32[2,2]", "scales above 0"),
    (RESIZE, "f32[2,0]", "resized"),
    (replace(RESIZE, coordinate="tf_crop_and_resize"), "f32[2,2]", "4 roi values"),
    (RoiAlign("avg", 2, 2, 0, 1.0, True), "f32[1,2,4,4] f32[3,5] i64[3]", r"rois \[R,4\]"),
    (GridSample("linear", "zeros"), "f32[1,2,4,4] f32[1,3,3,3]", r"grid of shape \[1,3,3,2\]"),
    (LSTM, "f32[5,3,4] f32[1,8,4] f32[1,8,3]", r"R of shape \[1,8,2\]"),
    (LSTM, "f32[5,3,4] f32[1,8,4] f32[1,8,2] - i64[3]", "sequence_lens of i32"),
    (replace(LSTM, kind="gru"), "f32[5,3,4] f32[1,6,4] f32[1,6,2]", "2 activations"),
]


def label(value: object) -> str:
    return type(value).__name__ if isinstance(value, Op) else str(value)


@pytest.mark.parametrize(("op", "types", "message"), REFUSED, ids=label)
def test_operators_refuse(op: Op, types: str, message: str) -> None:
    with pytest.raises(ShapeError, match=message) as caught:
        op.infer([of(text) for text in types.split()])
    assert re.match("expected .*, got ", str(caught.value))


F = TensorType(DType.F32, (2, 3))


def graph(**changes: object) -> Graph:
    """x -> relu -> a; a + w -> y."""
    weights = Value.constant("w", np.ones((2, 3), np.float32))
    nodes = (Node(Unary("relu"), ("x",), ("a",), ("first",)), Node(Binary("add"), ("a", "w"), ("y",), ("second",)))
    values = {**{n: Value(n, F) for n in "xay"}, "w": weights}
    return replace(Graph("g", ("x",), ("y",), nodes, values), **changes)


def test_a_valid_graph() -> None:
    graph().validate()


def test_validator_finds_each_flaw() -> None:
    relu, add = graph().nodes
    values = graph().values
    wrong = Value("a", TensorType(DType.F32, (3, 2)))
    stale = Value("w", TensorType(DType.F32, (6,)), values["w"].data)
    for changes, message in [
        ({"nodes": (add, relu)}, "Binary 'second': input 'a' is used before it is defined"),
        ({"nodes": (relu, replace(add, outputs=("a",)))}, "output 'a' is defined twice"),
        ({"nodes": (relu, replace(add, outputs=("w",)))}, "output 'w' is defined twice"),
        ({"nodes": (replace(relu, outputs=("a", "y")), add)}, "expected at most 1 outputs, got 2"),
        ({"values": {**values, "a": wrong}}, r"output 'a' is f32\[3,2\], inferred f32\[2,3\]"),
        ({"values": {**values, "w": stale}}, "broadcast|does not match"),
        ({"nodes": (relu,), "values": {**values, "w": stale}, "outputs": ("a",)}, "constant 'w' does not match"),
        ({"nodes": (relu,)}, "graph output 'y' is never defined"),
    ]:
        with pytest.raises(ShapeError, match=message):
            graph(**changes).validate()


def test_replaced_drops_what_is_unused() -> None:
    relu, _ = graph().nodes
    smaller = graph(outputs=("a",)).replaced([relu])
    assert set(smaller.values) == {"x", "a"}
    assert set(graph().values) == {"x", "a", "y", "w"}
    smaller.validate()


def test_constants_are_read_only_copies() -> None:
    data = np.ones(3, np.float32)
    value = Value.constant("c", data)
    data[0] = 5
    assert value.data.tolist() == [1, 1, 1]
    with pytest.raises(ValueError, match="read-only"):
        value.data[0] = 2
