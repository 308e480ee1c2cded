"""One kernel step on numpy arrays, on every instruction set of this machine, and what every kernel promises.

Kernels are those of build/native, brought up to date once per process, or of the library EDGERT_TEST_KERNELS names.
"""

from __future__ import annotations

import ctypes
import functools
import os
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from packer.ir.ops import Op
from packer.ir.rounding import nearest
from packer.ir.types import DType, TensorType
from targets.base import Attribute, Layout, attributes_of, stored_bytes
from targets.cpu.packing import depth16, weight16
from targets.cpu.precision import halves, rounded
from tests.runtime_c.native import BUILD, build

# The kernels with vector loops. The others get none: one that uses some must be named here.
VECTORIZED = frozenset((
    "arg_reduce", "attention", "binary", "conv", "conv_bf16", "conv_depthwise", "conv_depthwise_integer",
    "conv_depthwise_planar", "conv_depthwise_quantized", "conv_direct", "conv_im2col_caffe", "conv_im2col_nhwc",
    "conv_integer", "conv_quantized", "conv_sparse", "conv_transpose", "conv_unrolled", "conv_unrolled_quantized",
    "conv_winograd", "conv_winograd_bf16", "dequantize_linear", "dynamic_levels", "linear", "linear_integer",
    "linear_masked", "linear_quantized", "linear_sliced", "linear_sparse", "lookup", "lrn", "matmul", "normalize",
    "pool", "quantize_linear", "quantized_binary", "recurrent", "recurrent_sliced", "reduce", "scale_shift", "softmax",
    "sum", "unary",
))  # fmt: skip
BAD_STEP = 11
CODE = ("tasks", "all", "none")  # as step.c numbers them


class Rejected(ValueError):
    """`prepare` refused the step; the text is the runtime's message."""


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p), ("name", ctypes.c_char_p), ("bytes", ctypes.c_size_t), ("elements", ctypes.c_int64),
        ("shape", ctypes.c_int64 * 8), ("whole", ctypes.c_int64 * 8), ("halo", ctypes.c_uint32 * 4),
        ("rank", ctypes.c_uint8), ("dtype", ctypes.c_uint8), ("layout", ctypes.c_uint8), ("constant", ctypes.c_bool),
        ("compact", ctypes.c_bool),
    )  # fmt: skip


class _Attribute(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p), ("ints", ctypes.POINTER(ctypes.c_int64)), ("floats", ctypes.POINTER(ctypes.c_float)),
        ("text", ctypes.c_char_p), ("n_ints", ctypes.c_uint32), ("n_floats", ctypes.c_uint32),
    )  # fmt: skip


@functools.cache
def library() -> ctypes.CDLL:
    """The kernels under test."""
    path = os.environ.get("EDGERT_TEST_KERNELS")
    found = ctypes.CDLL(path or str(build(BUILD, targets=("kernels",)) / "tests" / "kernels.so"))
    found.edgert_last_error.restype = found.ert_test_isa.restype = ctypes.c_char_p
    return found


@functools.cache
def isas() -> tuple[str, ...]:
    """The instruction sets this machine executes, best first; the last one is the scalar specification."""
    names: list[str] = []
    while name := library().ert_test_isa(len(names)):
        names.append(name.decode())
    return tuple(names)


def block16(x: np.ndarray) -> np.ndarray:
    """[N,C,...] as [N,blocks,...,16], or [C] as [blocks,16], the unspecified lanes poisoned."""
    if x.ndim == 1:
        return block16(x[None])[0]
    padded = np.full((x.shape[0], -(-x.shape[1] // 16) * 16, *x.shape[2:]), _poison(x.dtype), x.dtype)
    padded[:, : x.shape[1]] = x
    split = padded.reshape(x.shape[0], padded.shape[1] // 16, 16, *x.shape[2:])
    return np.ascontiguousarray(np.moveaxis(split, 2, -1))


STORED = {
    Layout.PLANAR: np.ascontiguousarray,
    Layout.BLOCK16: block16,
    Layout.WEIGHT16: weight16,
    Layout.DEPTH16: depth16,
}


@dataclass(frozen=True, slots=True)
class Box:
    """Where an operand begins within the larger tensor, of shape `whole`, that it is a view of."""

    whole: tuple[int, ...]
    begin: tuple[int, ...]


def _lanes(layout: Layout, rank: int) -> int:
    """The axis that the layout rounds up to whole blocks, or -1."""
    return {Layout.BLOCK16: min(1, rank - 1), Layout.WEIGHT16: 1, Layout.DEPTH16: 0}.get(layout, -1)


def _units(layout: Layout, rank: int) -> list[int]:
    """What a view may begin at multiples of, along every axis; 0: it takes the whole axis."""
    kernel = rank - {Layout.WEIGHT16: 3, Layout.DEPTH16: 1}.get(layout, rank)
    units = [1] * (rank - kernel) + [0] * kernel
    if layout is not Layout.PLANAR:
        units[_lanes(layout, rank)] = 16
    if layout is Layout.WEIGHT16:
        units[2] = 16
    return units


def random_box(rng: np.random.Generator, shape: Sequence[int], layout: Layout, less: int = 11) -> Box:
    """Any view that the format allows, but for parts of kernels in the layouts of weights: blocks of 16 begin at
    multiples of 16 and end there or with the larger tensor, which may be `less` than whole blocks."""
    whole, begin = [], []
    for size, unit in zip(shape, _units(layout, len(shape)), strict=True):
        before, behind = (unit * int(n) for n in rng.choice((0, 0, 1, 2), 2))
        if unit == 16:
            behind = 0 if size % 16 else max(behind - int(rng.choice((0, less))), 0)
        whole.append(before + size + behind)
        begin.append(before)
    return Box(tuple(whole), tuple(begin))


def _padded(shape: Sequence[int], layout: Layout) -> tuple[int, ...]:
    """The shape with the lanes that the layout stores past the end."""
    return tuple(-(-n // 16) * 16 if i == _lanes(layout, len(shape)) else n for i, n in enumerate(shape))


@functools.lru_cache(256)
def _positions(whole: tuple[int, ...], layout: Layout, pairs: bool) -> np.ndarray:
    """Where each element of a tensor, padding lanes included, is stored."""
    shape = _padded(whole, layout)
    count = int(np.prod(shape, dtype=np.int64))
    found = np.empty(count, np.int64)
    stored = STORED[layout](np.arange(count, dtype=np.float64).reshape(shape))
    if pairs:  # of rows of 16
        stored = stored.reshape(-1, 2, 16).transpose(0, 2, 1)
    found[stored.reshape(-1).astype(np.int64)] = np.arange(count)
    return found.reshape(shape)


def _poison(dtype: np.dtype) -> object:
    """A value that shows in results: NaN, or the largest integer."""
    kind = dtype.kind
    return np.nan if kind == "f" else True if kind == "b" else np.iinfo(dtype).max


class _Buffer:
    """Memory of one operand, aligned to its element and no more, or to lines of the cache, between guards that must not
    change. Of a larger tensor nothing else may change either, and what lies around an input is poison."""

    GUARD = 64

    def __init__(self, type: TensorType, layout: Layout, data: np.ndarray | None, box: Box | None, aligned: bool):
        whole, begin = (box.whole, box.begin) if box else (type.shape, (0,) * type.rank)
        bytes = stored_bytes(TensorType(type.dtype, whole), layout)
        self.memory = np.full(bytes + 2 * self.GUARD + 64, 0xC3, np.uint8)
        first = -self.memory.ctypes.data % 64 + self.GUARD
        first += type.dtype.bytes if layout is Layout.PLANAR and not aligned else 0
        self.stored = self.memory[first : first + bytes]
        inside = tuple(slice(b, b + n) for b, n in zip(begin, type.shape, strict=True))
        ends = zip(_padded(whole, layout), whole, inside, strict=True)
        owned = tuple(slice(s.start, stored if s.stop == n else s.stop) for stored, n, s in ends)
        pairs = type.dtype is DType.BF16 and layout is Layout.WEIGHT16
        positions = _positions(whole, layout, pairs)
        self.type, self.taken, self.owned = type, positions[inside], positions[owned].reshape(-1)
        if data is not None:
            around = np.full(whole, _poison(data.dtype), data.dtype)
            around[inside] = data
            stored = STORED[layout](around)
            if stored.dtype.kind == "f":
                packed = layout is Layout.WEIGHT16
                stored = rounded(stored, type.dtype) if packed else halves(nearest(stored, type.dtype), type.dtype)
            self.stored[:] = stored.reshape(-1).view(np.uint8)
        self.before = self.memory.copy()
        at = int(self.owned.min()) if self.owned.size else 0
        self.tensor = _Tensor(
            self.stored.ctypes.data + at * type.dtype.bytes,
            b"operand",
            stored_bytes(type, layout),
            type.elements,
            (ctypes.c_int64 * 8)(*type.shape),
            (ctypes.c_int64 * 8)(*whole),
            (ctypes.c_uint32 * 4)(),
            type.rank,
            type.dtype,
            layout,
            False,
            self.owned.size == 0 or self.owned.max() - at + 1 == self.owned.size,
        )

    def value(self) -> np.ndarray:
        return np.asarray(self.stored.view(self.type.dtype.numpy)[self.taken])

    def check(self, written: bool) -> None:
        """Nothing changed but the elements of an operand that was written."""
        changed = self.memory != self.before
        if written:
            first = self.stored.ctypes.data - self.memory.ctypes.data
            changed[first : first + self.stored.size].reshape(-1, self.type.dtype.bytes)[self.owned] = False
        assert not changed.any(), "written outside the output" if written else "an input was written"


def _attribute(a: Attribute) -> _Attribute:
    ints, floats = (ctypes.c_int64 * len(a.ints))(*a.ints), (ctypes.c_float * len(a.floats))(*a.floats)
    return _Attribute(a.name.encode(), ints, floats, a.text.encode(), len(a.ints), len(a.floats))


def types_of(inputs: Sequence[np.ndarray | None]) -> list[TensorType | None]:
    """What inputs of a step are."""
    return [None if x is None else TensorType(DType.of(x.dtype), x.shape) for x in inputs]


def run_step(
    kernel: str,
    inputs: Sequence[np.ndarray | None],
    outputs: Sequence[TensorType],
    attributes: Sequence[Attribute] = (),
    layouts: Layout | Sequence[Layout] = Layout.PLANAR,
    isa: str = "scalar",
    inplace: int | None = None,
    workers: int = 1,
    piece: int = 0,
    boxes: Sequence[Box | None] = (),
    constants: Sequence[int] = (),
    weights: DType | None = None,
    code: str = "tasks",
    aligned: bool = False,
) -> list[np.ndarray]:
    """The outputs of one step.

    `layouts`: of the inputs, then of the outputs, or one for all; `inplace`: the input that the first output lies over;
    `boxes`: of the larger tensors that the inputs, then the outputs, are views of, if any are; `constants`: inputs that
    are known when the step is prepared; `weights`: what input 1 is rounded to; `code`: whether there
    is memory for instructions of "tasks", also for those that "all" share, or "none"; `aligned`: operands begin with
    lines of the cache.
    """
    operands = len(inputs) + len(outputs)
    lay = [layouts] * operands if isinstance(layouts, Layout) else list(layouts)
    values, types = [*inputs, *[None] * len(outputs)], [*types_of(inputs), *outputs]
    if weights is not None:
        types[1] = TensorType(weights, types[1].shape)
    views = list(boxes) or [None] * operands
    rows = zip(types, lay, values, views, strict=True)
    buffers = [None if t is None else _Buffer(t, layout, x, box, aligned) for t, layout, x, box in rows]
    sources, targets = buffers[: len(inputs)], [b for b in buffers[len(inputs) :] if b]
    for constant in (sources[i] for i in constants):
        assert constant is not None
        constant.tensor.constant = True
    if inplace is not None:
        taken = sources[inplace]
        assert taken is not None
        targets[0] = taken
    pointers = (ctypes.POINTER(_Tensor) * max(len(sources), 1))(*[s and ctypes.pointer(s.tensor) for s in sources])
    results = (ctypes.POINTER(_Tensor) * len(targets))(*[ctypes.pointer(t.tensor) for t in targets])
    table = (_Attribute * max(len(attributes), 1))(*map(_attribute, attributes))
    allowed = ctypes.c_uint32()
    status = library().ert_test_step(
        kernel.encode(), isa.encode() if kernel in VECTORIZED else None, pointers, len(sources), results, len(targets),
        table, len(attributes), workers, ctypes.c_int64(piece), CODE.index(code), ctypes.byref(allowed),
    )  # fmt: skip
    if status:
        message = library().edgert_last_error().decode()
        assert status == BAD_STEP, message
        raise Rejected(message)
    assert inplace is None or allowed.value >> inplace & 1, f"{kernel} does not allow its output over input {inplace}"
    for source in sources:
        if source is not None and source not in targets:
            source.check(written=False)
    for target in targets:
        target.check(written=True)
    return [t.value() for t in targets]


def cut_by(
    function: str, results: int, inputs: Sequence[np.ndarray], output: TensorType, attributes: Sequence[Attribute],
    *isa: bytes,
) -> list[int]:  # fmt: skip
    """How a kernel would cut a step: what a function of cuts.c finds."""
    types = [*types_of(inputs), output]
    buffers = [_Buffer(t, Layout.PLANAR, x, None, True) for t, x in zip(types, [*inputs, None], strict=True) if t]
    pointers = (ctypes.POINTER(_Tensor) * len(buffers))(*[ctypes.pointer(b.tensor) for b in buffers])
    outputs = ctypes.byref(pointers, ctypes.sizeof(ctypes.c_void_p) * len(inputs))
    table = (_Attribute * len(attributes))(*map(_attribute, attributes))
    found = (ctypes.c_int64 * results)()
    status = getattr(library(), function)(*isa, pointers, len(inputs), outputs, table, len(table), found)
    assert status == 0, library().edgert_last_error().decode()
    return list(found)


def run_partitions(
    kernel: str,
    inputs: Sequence[np.ndarray | None],
    outputs: Sequence[TensorType],
    attributes: Sequence[Attribute] = (),
    **how: object,
) -> list[np.ndarray]:
    """The outputs of one step: the same bits on one worker at once and on three task by task, and from and to views if
    the kernel takes them."""
    one = run_step(kernel, inputs, outputs, attributes, **how)  # type: ignore[arg-type]
    many = run_step(kernel, inputs, outputs, attributes, workers=3, piece=1, **how)  # type: ignore[arg-type]
    for a, b in zip(one, many, strict=True):
        assert a.tobytes() == b.tobytes(), f"results depend on the partition: {kernel} {attributes} {how}"
    if takes_views(kernel):
        check_views(kernel, inputs, outputs, one, attributes, **how)
    return one


def takes_views(kernel: str) -> bool:
    """Whether the kernel's operands may be views."""
    return bool(library().ert_test_views(kernel.encode()))


def check_views(
    kernel: str,
    inputs: Sequence[np.ndarray | None],
    outputs: Sequence[TensorType],
    compact: Sequence[np.ndarray],
    attributes: Sequence[Attribute] = (),
    **how: object,
) -> None:
    """With every operand embedded in a larger tensor a step gives the same bits, and touches nothing else of it."""
    types = [*types_of(inputs), *outputs]
    rng = np.random.default_rng(zlib.crc32(repr((kernel, types, attributes, how)).encode()))
    given = how.get("layouts", Layout.PLANAR)
    layouts = [given] * len(types) if isinstance(given, Layout) else given
    less = 10 if "weights" in how else 11  # pairs of channels stay
    boxes = [t and random_box(rng, t.shape, layout, less) for t, layout in zip(types, layouts, strict=True)]  # type: ignore
    views = run_step(kernel, inputs, outputs, attributes, workers=2, boxes=boxes, **how)  # type: ignore[arg-type]
    for a, b in zip(compact, views, strict=True):
        assert a.tobytes() == b.tobytes(), f"results depend on what surrounds the operands: {kernel} {attributes} {how}"


def check_step(
    kernel: str,
    inputs: Sequence[np.ndarray | None],
    expected: Sequence[np.ndarray],
    outputs: Sequence[TensorType],
    attributes: Sequence[Attribute] = (),
    tolerance: float = 0.0,
    **how: object,
) -> None:
    """Every instruction set gives what is expected, in any partition: exactly, or floats within `tolerance` of the
    largest finite value, which counts as 1 if it is less."""
    for isa in isas() if kernel in VECTORIZED else isas()[-1:]:
        shapes = [None if x is None else x.shape for x in inputs]
        what = f"{kernel} on {isa}, shapes {shapes}, {attributes}, {how}"
        found = run_partitions(kernel, inputs, outputs, attributes, isa=isa, **how)
        for got, want in zip(found, expected, strict=True):
            assert got.shape == want.shape, what
            if tolerance and want.dtype.kind == "f":
                with np.errstate(over="ignore"):
                    want = want.astype(np.float32)
                scale = max(1.0, float(np.abs(want[np.isfinite(want)]).max(initial=0)))
                np.testing.assert_allclose(got, want, rtol=0, atol=tolerance * scale, err_msg=what)
            else:
                np.testing.assert_array_equal(got, want, err_msg=what)


def run_op(op: Op, inputs: Sequence[np.ndarray | None], kernel: str, **how: object) -> list[np.ndarray]:
    """The kernel's outputs for an operator on the scalar instruction set: the same bits in any partition."""
    return run_partitions(kernel, inputs, op.infer(types_of(inputs)), attributes_of(op), **how)


def check_op(
    op: Op,
    inputs: Sequence[np.ndarray | None],
    kernel: str,
    tolerance: float = 0.0,
    outputs: int | None = None,
    **how: object,
) -> None:
    """`check_step` of the first `outputs` outputs (None: all) against the operator's reference, computed in float64
    where there is a tolerance."""
    exact = [x.astype(np.float64) if tolerance and x is not None and x.dtype == np.float32 else x for x in inputs]
    expected, types = op.reference(*exact)[:outputs], op.infer(types_of(inputs))[:outputs]
    check_step(kernel, inputs, expected, types, attributes_of(op), tolerance, **how)


def random_array(rng: np.random.Generator, shape: Sequence[int], dtype: DType | np.dtype | type) -> np.ndarray:
    """Random values of any element type, with ties."""
    numpy = dtype.numpy if isinstance(dtype, DType) else np.dtype(dtype)
    if numpy.kind == "f":
        return rng.standard_normal(shape).astype(numpy)
    return rng.integers(0 if numpy.kind in "ub" else -50, 2 if numpy.kind == "b" else 50, shape).astype(numpy)


def pruned(rng: np.random.Generator, shape: Sequence[int], density: float) -> np.ndarray:
    """Random floats, of which so many are not zero."""
    return np.where(rng.random(shape) < density, random_array(rng, shape, DType.F32), np.float32(0))
