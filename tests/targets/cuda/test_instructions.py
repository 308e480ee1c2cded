"""Every group of instructions against numpy, on random and edge values."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from tests.targets.cuda.driver import DEFAULT, TYPES, device, operate

RNG = np.random.default_rng(5)
N = 64
INTS = ("u16", "s16", "u32", "s32", "u64", "s64")


@pytest.fixture(autouse=True)
def emulator() -> Iterator[None]:
    with device(**DEFAULT), np.errstate(all="ignore"):
        yield


def integers(kind: str, n: int = N) -> np.ndarray:
    info = np.iinfo(TYPES[kind])
    values = RNG.integers(info.min, info.max, n, TYPES[kind], endpoint=True)
    values[:4] = 0, 1, info.max, info.min
    return values


def floats(kind: str = "f32", n: int = N) -> np.ndarray:
    values = (RNG.standard_normal(n) * 10.0 ** RNG.integers(-4, 4, n)).astype(TYPES[kind])
    values[:6] = 0.0, -0.0, 1.0, np.inf, -np.inf, np.nan
    return RNG.permutation(values)


def same(got: np.ndarray, want: np.ndarray) -> None:
    """Equal bits, but for the kinds of NaN."""
    assert got.dtype == want.dtype
    if got.dtype.kind == "f":
        nan = np.isnan(want)
        assert (np.isnan(got) == nan).all()
        got, want = got[~nan].view(f"u{got.itemsize}"), want[~nan].view(f"u{want.itemsize}")
    np.testing.assert_array_equal(got, want)


def minus(x: np.ndarray) -> np.ndarray:
    return (np.zeros_like(x) - x).astype(x.dtype)


BINARY: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul.lo": lambda a, b: a * b,
    "min": np.minimum,
    "max": np.maximum,
    "rem": lambda a, b: np.where(b == 0, a, np.fmod(a, np.where(b == 0, 1, b))).astype(a.dtype),
    "mul.hi": lambda a, b: np.array(
        [int(x) * int(y) >> 8 * a.itemsize & (1 << 8 * a.itemsize) - 1 for x, y in zip(a, b, strict=True)],
        f"u{a.itemsize}",
    ).view(a.dtype),
}


@pytest.mark.parametrize("kind", INTS)
@pytest.mark.parametrize("name", BINARY)
def test_integer_arithmetic(name: str, kind: str) -> None:
    a, b = integers(kind), RNG.permutation(integers(kind))
    same(operate(f"{name}.{kind} {{d}}, {{a}}, {{b}};", kind, (kind, a), (kind, b)), BINARY[name](a, b))


@pytest.mark.parametrize("kind", INTS)
def test_integer_division(kind: str) -> None:
    a, b = integers(kind), RNG.permutation(integers(kind))
    b[b == 0] = 3
    pairs = zip(a.tolist(), b.tolist(), strict=True)
    want = [abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1) for x, y in pairs]
    want = np.array([w & (1 << 8 * a.itemsize) - 1 for w in want], f"u{a.itemsize}").view(a.dtype)
    same(operate(f"div.{kind} {{d}}, {{a}}, {{b}};", kind, (kind, a), (kind, b)), want)


@pytest.mark.parametrize("kind", ["s16", "s32", "s64"])
def test_signs(kind: str) -> None:
    a = integers(kind)
    same(operate(f"neg.{kind} {{d}}, {{a}};", kind, (kind, a)), minus(a))
    same(operate(f"abs.{kind} {{d}}, {{a}};", kind, (kind, a)), np.where(a < 0, minus(a), a))


@pytest.mark.parametrize(("kind", "wide"), [("u16", "u32"), ("s16", "s32"), ("u32", "u64"), ("s32", "s64")])
def test_wide_products(kind: str, wide: str) -> None:
    a, b, c = integers(kind), RNG.permutation(integers(kind)), integers(wide)
    product = a.astype(TYPES[wide]) * b.astype(TYPES[wide])
    same(operate(f"mul.wide.{kind} {{d}}, {{a}}, {{b}};", wide, (kind, a), (kind, b)), product)
    same(operate(f"mad.wide.{kind} {{d}}, {{a}}, {{b}}, {{c}};", wide, (kind, a), (kind, b), (wide, c)), product + c)


@pytest.mark.parametrize("bits", [16, 32, 64])
def test_logic_and_shifts(bits: int) -> None:
    u, s, b = f"u{bits}", f"s{bits}", f"b{bits}"
    a, c = integers(u), RNG.permutation(integers(u))
    n = RNG.integers(0, 80, N).astype(np.uint32)
    for name, want in (("and", a & c), ("or", a | c), ("xor", a ^ c)):
        same(operate(f"{name}.{b} {{d}}, {{a}}, {{b}};", u, (u, a), (u, c)), want)
    same(operate(f"not.{b} {{d}}, {{a}};", u, (u, a)), ~a)
    within, some = n < bits, np.minimum(n, bits - 1)
    left = np.where(within, np.left_shift(a, some.astype(a.dtype)), 0).astype(a.dtype)
    right = np.where(within, np.right_shift(a, some.astype(a.dtype)), 0).astype(a.dtype)
    same(operate(f"shl.{b} {{d}}, {{a}}, {{b}};", u, (u, a), ("u32", n)), left)
    same(operate(f"shr.{u} {{d}}, {{a}}, {{b}};", u, (u, a), ("u32", n)), right)
    signed = a.view(TYPES[s])
    same(operate(f"shr.{s} {{d}}, {{a}}, {{b}};", s, (s, signed), ("u32", n)), signed >> some.astype(signed.dtype))


def test_bits_of_words() -> None:
    a, b, c = integers("u32"), integers("u32"), integers("u32")
    x, y, z = (v.astype(object) for v in (a, b, c))
    u = np.uint32
    same(operate("popc.b32 {d}, {a};", "u32", ("u32", a)), np.array([int(v).bit_count() for v in a], u))
    same(operate("clz.b32 {d}, {a};", "u32", ("u32", a)), np.array([32 - int(v).bit_length() for v in a], u))
    same(operate("brev.b32 {d}, {a};", "u32", ("u32", a)), np.array([int(f"{v:032b}"[::-1], 2) for v in a], u))
    top = np.array([(int(v).bit_length() - 1) & 0xFFFFFFFF for v in a], u)
    same(operate("bfind.u32 {d}, {a};", "u32", ("u32", a)), top)
    table = 0xE8  # the majority
    want = np.array([(p & q) | (p & r) | (q & r) for p, q, r in zip(x, y, z, strict=True)], u)
    same(operate(f"lop3.b32 {{d}}, {{a}}, {{b}}, {{c}}, {table};", "u32", ("u32", a), ("u32", b), ("u32", c)), want)
    n = RNG.integers(0, 40, N).astype(u)
    both = [int(q) << 32 | int(p) for p, q in zip(a, b, strict=True)]
    left = np.array([v << min(int(k), 32) >> 32 & 0xFFFFFFFF for v, k in zip(both, n, strict=True)], u)
    right = np.array([v >> (int(k) & 31) & 0xFFFFFFFF for v, k in zip(both, n, strict=True)], u)
    same(operate("shf.l.clamp.b32 {d}, {a}, {b}, {c};", "u32", ("u32", a), ("u32", b), ("u32", n)), left)
    same(operate("shf.r.wrap.b32 {d}, {a}, {b}, {c};", "u32", ("u32", a), ("u32", b), ("u32", n)), right)


def test_fields_and_permutation() -> None:
    a, b = integers("u32"), integers("u32")
    position, length = RNG.integers(0, 36, N).astype(np.uint32), RNG.integers(0, 36, N).astype(np.uint32)
    triples = list(zip(a.tolist(), position.tolist(), length.tolist(), strict=True))
    want = np.array([v >> p & (1 << n) - 1 for v, p, n in triples], np.uint32)
    fields = (("u32", position), ("u32", length))
    same(operate("bfe.u32 {d}, {a}, {b}, {c};", "u32", ("u32", a), *fields), want)

    def signed(v: int, p: int, n: int) -> int:
        top = min(p + n - 1, 31)
        return sum((v >> (p + i if i < n and p + i <= 31 else top) & 1) << i for i in range(32)) if n else 0

    want = np.array([signed(*t) for t in triples], np.uint32)
    same(operate("bfe.s32 {d}, {a}, {b}, {c};", "u32", ("u32", a), *fields), want)
    masks = [((1 << n) - 1) << p & 0xFFFFFFFF for _, p, n in triples]
    values = zip(triples, b.tolist(), masks, strict=True)
    want = np.array([w & ~m | t[0] << t[1] & m for t, w, m in values], np.uint32)
    same(operate("bfi.b32 {d}, {a}, {b}, {c}, {e};", "u32", ("u32", a), ("u32", b), *fields), want)
    bytes_ = np.stack([a, b], 1).view(np.uint8).reshape(N, 8)
    selector = RNG.integers(0, 8, (N, 4))
    packed = (selector << np.arange(0, 16, 4)).sum(1).astype(np.uint32)
    want = np.take_along_axis(bytes_, selector, 1).copy().view(np.uint32)[:, 0]
    same(operate("prmt.b32 {d}, {a}, {b}, {c};", "u32", ("u32", a), ("u32", b), ("u32", packed)), want)


@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_float_arithmetic(kind: str) -> None:
    a, b = floats(kind), floats(kind)
    for name, want in (("add.rn", a + b), ("sub.rn", a - b), ("mul.rn", a * b), ("div.rn", a / b)):
        same(operate(f"{name}.{kind} {{d}}, {{a}}, {{b}};", kind, (kind, a), (kind, b)), want)
    same(operate(f"min.{kind} {{d}}, {{a}}, {{b}};", kind, (kind, a), (kind, b)) + 0, np.fmin(a, b) + 0)
    same(operate(f"max.{kind} {{d}}, {{a}}, {{b}};", kind, (kind, a), (kind, b)) + 0, np.fmax(a, b) + 0)
    for name, want in (("neg", -a), ("abs", np.abs(a)), ("sqrt.rn", np.sqrt(a)), ("rcp.rn", 1 / a)):
        same(operate(f"{name}.{kind} {{d}}, {{a}};", kind, (kind, a)), want.astype(TYPES[kind]))


def test_fma_rounds_once() -> None:
    a, b = floats(), floats()
    c = -(a * b)  # what is left is the error of the product
    want = (a.astype(np.longdouble) * b.astype(np.longdouble) + c.astype(np.longdouble)).astype(np.float32)
    got = operate("fma.rn.f32 {d}, {a}, {b}, {c};", "f32", ("f32", a), ("f32", b), ("f32", c))
    same(got + 0, want + 0)
    finite = want[np.isfinite(want)]
    assert (finite != 0).any()


def test_rounding_flush_and_saturation() -> None:
    a, b = np.full(N, 1, np.float32), np.full(N, 2**-30, np.float32)
    up, down = np.nextafter(np.float32(1), np.float32(2)), np.float32(1)
    pair = (("f32", a), ("f32", b))
    same(operate("add.rp.f32 {d}, {a}, {b};", "f32", *pair), np.full(N, up))
    same(operate("add.rz.f32 {d}, {a}, {b};", "f32", *pair), np.full(N, down))
    same(operate("fma.rp.f32 {d}, {a}, {a}, {b};", "f32", *pair), np.full(N, up))
    tiny = np.full(N, -1e-40, np.float32)
    same(operate("mul.rn.f32 {d}, {a}, {b};", "f32", ("f32", tiny), ("f32", a)), tiny)
    same(operate("mul.rn.ftz.f32 {d}, {a}, {b};", "f32", ("f32", tiny), ("f32", a)), np.full(N, -0.0, np.float32))
    x = floats()
    got = operate("add.rn.sat.f32 {d}, {a}, {a};", "f32", ("f32", x))
    same(got, np.where(np.isnan(x), 0, np.clip(x + x, 0, 1)).astype(np.float32) + 0)


@pytest.mark.parametrize(("name", "function"), [("ex2", np.exp2), ("lg2", np.log2), ("sin", np.sin), ("cos", np.cos)])
def test_approximations(name: str, function: Callable[[np.ndarray], np.ndarray]) -> None:
    a = RNG.uniform(0.1, 6, N).astype(np.float32)
    got = operate(f"{name}.approx.ftz.f32 {{d}}, {{a}};", "f32", ("f32", a))
    np.testing.assert_allclose(got, function(a.astype(np.float64)), rtol=1e-5, atol=1e-6)
    root = operate("rsqrt.approx.f32 {d}, {a};", "f32", ("f32", a))
    np.testing.assert_allclose(root, a.astype(np.float64) ** -0.5, rtol=1e-6)


def test_halves() -> None:
    a, b, c = (RNG.standard_normal(2 * N).astype(np.float16) for _ in range(3))
    exact = a.astype(np.float64) * b + c
    words = [("f16x2", v.view(np.uint32)) for v in (a, b, c)]
    got = operate("fma.rn.f16x2 {d}, {a}, {b}, {c};", "f16x2", *words)
    same(got.view(np.float16), exact.astype(np.float16))
    same(operate("add.f16x2 {d}, {a}, {b};", "f16x2", *words[:2]).view(np.float16), a + b)
    x, y = floats("f16"), floats("f16")
    same(operate("mul.f16 {d}, {a}, {b};", "f16", ("f16", x), ("f16", y)), x * y)
    same(operate("neg.f16 {d}, {a};", "f16", ("f16", x)), -x)


COMPARISONS = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}


@pytest.mark.parametrize("kind", [*INTS, "f32", "f64", "f16"])
@pytest.mark.parametrize("name", COMPARISONS)
def test_comparisons(name: str, kind: str) -> None:
    a = floats(kind) if kind[0] == "f" else integers(kind)
    b = np.where(RNG.random(N) < 0.5, a, RNG.permutation(a))
    text = f".reg .pred %q; setp.{name}.{kind} %q, {{a}}, {{b}}; selp.b32 {{d}}, 1, 0, %q;"
    want = COMPARISONS[name](a, b)
    if kind[0] == "f" and name == "ne":
        want = (a < b) | (a > b)
    same(operate(text, "u32", (kind, a), (kind, b)), want.astype(np.uint32))


def test_unordered_comparison_with_two_results() -> None:
    a, b = floats(), floats()
    text = ".reg .pred %q, %s, %u; setp.gt.f32 %u, {a}, 0f00000000; setp.ltu.and.f32 %q|%s, {a}, {b}, !%u;"
    first = operate(text + "selp.b32 {d}, 1, 0, %q;", "u32", ("f32", a), ("f32", b))
    second = operate(text + "selp.b32 {d}, 1, 0, %s;", "u32", ("f32", a), ("f32", b))
    less, allowed = ~(a >= b), ~(a > 0)
    same(first, (less & allowed).astype(np.uint32))
    same(second, (~less & allowed).astype(np.uint32))


@pytest.mark.parametrize("out", [*INTS, "f32", "f64", "f16"])
@pytest.mark.parametrize("kind", [*INTS, "f32", "f64", "f16"])
def test_conversions(kind: str, out: str) -> None:
    a = RNG.uniform(-300, 300, N).astype(TYPES[kind]) if kind[0] == "f" else integers(kind)
    rounding = ""
    if out[0] == "f" and (kind[0] != "f" or TYPES[out]().nbytes < TYPES[kind]().nbytes):
        rounding = ".rn"
    if out[0] != "f" and kind[0] == "f":
        rounding = ".rzi"
        want = np.clip(
            np.trunc(a.astype(np.float64)), *(float(v) for v in (np.iinfo(TYPES[out]).min, np.iinfo(TYPES[out]).max))
        )
        want = want.astype(TYPES[out])
    else:
        want = a.astype(TYPES[out])
    same(operate(f"cvt{rounding}.{out}.{kind} {{d}}, {{a}};", out, (kind, a)), want)


def test_rounding_of_conversions() -> None:
    a = np.tile(np.array([0.5, 1.5, -0.5, -1.5, 2.4, -2.6, 3e9, np.nan], np.float32), N // 8)
    for name, function in (("rni", np.rint), ("rzi", np.trunc), ("rmi", np.floor), ("rpi", np.ceil)):
        want = np.where(np.isnan(a), 0, np.clip(function(a.astype(np.float64)), -(2**31), 2**31 - 1)).astype(np.int32)
        same(operate(f"cvt.{name}.s32.f32 {{d}}, {{a}};", "s32", ("f32", a)), want)
        same(operate(f"cvt.{name}.f32.f32 {{d}}, {{a}};", "f32", ("f32", a)), function(a))
    s = integers("s32")
    same(operate("cvt.sat.s16.s32 {d}, {a};", "s16", ("s32", s)), np.clip(s, -32768, 32767).astype(np.int16))


def test_moves_between_widths() -> None:
    a, b = integers("u32"), integers("u32")
    got = operate("mov.b64 {d}, {{{a}, {b}}};", "u64", ("u32", a), ("u32", b))
    same(got, a.astype(np.uint64) | b.astype(np.uint64) << np.uint64(32))
    same(operate(".reg .b16 %w; mov.b32 {{{d}, %w}}, {a};", "u16", ("u32", a)), a.astype(np.uint16))
    same(operate("mov.b32 {{_, {d}}}, {a};", "u16", ("u32", a)), (a >> 16).astype(np.uint16))
