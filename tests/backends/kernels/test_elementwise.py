"""Elementwise clusters as kernels: every form, size, dtype and formula, against the reference backend."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import quire
import quire.numpy as qnp
from quire import lax
from quire.backends.kernel_forms import WITHOUT, WITHOUT_DOUBLE
from quire.backends.kernels.core.builder import KernelBuilder
from quire.backends.kernels.core.errors import NoKernel
from quire.backends.kernels.core.kernel import Spec
from quire.backends.kernels.core.target import GPU
from quire.backends.kernels.elements.memory import Memory
from quire.backends.kernels.elements.operations import Elements
from quire.backends.kernels.fused.elementwise import elementwise_kernel
from quire.backends.stablehlo.kernel_calls import kernel_target
from quire.backends.stablehlo.loop_kernels import expander
from quire.backends.targets import TARGETS
from quire.compiling.lowering import lower_optimized
from quire.compiling.request import Request
from quire.ir import dtypes
from quire.ir.avals import ShapedArray
from quire.ir.config import config
from quire.ir.jaxpr import ClosedJaxpr
from quire.ir.parser import parse
from quire.ir.primitive import Primitive
from quire.ir.primitives import elementwise as ew
from quire.passes.manager import PassManager
from tests.helpers import Case, check, trace

R = np.random.default_rng(0)


def array(*shape: int, dtype: str = "float32") -> np.ndarray:
    if dtype == "bool":
        return R.random(shape) < 0.5
    if "int" in dtype:
        return R.integers(-50 if dtype[0] == "i" else 0, 100, shape).astype(dtype)
    x = R.normal(size=shape)
    if dtype.startswith("complex"):
        return (x + 1j * R.normal(size=shape)).astype(dtype)
    return x.astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)


def chain(x, *others):
    """Many equations, of few operations each."""
    for k in range(4):
        for y in others or (x,):
            x = qnp.maximum(x * (1 + k) + y, x - y) * 0.5
        x = qnp.where(x > 0.3 * k, x, -x)
    return x


def in_blocks(x, row, column):
    """Rows that are repeated, and numbers of one row each."""
    for _ in range(4):
        x = (x * row + column[:, None]) * row - column[:, None]
    return x


def integers(x, y):
    for k in range(4):
        x = qnp.where(x > y, x // (y + k), (x ^ y) + (x >> 1)) % (y | 1)
    return x, x > y


def two_results(x, y):
    z = chain(x, y)
    return z, z > 0.5, (z * 10).astype(qnp.int32)


def spread(x, row, column, one):
    return chain(x, row, column, one)


NAN = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 1e30, 1e-30] * 3, np.float32)


def bytes_only(x, y):
    """Nothing that is computed is wider than a byte, or two: vectors have so many elements."""
    for k in range(4):
        x = qnp.where(x > y + k, qnp.maximum(x, y) - (y ^ k), (x * 3) | (y >> 1))
    return x, x > y


def blended(x, y):
    return ((x.astype("uint16") * 3 + y.astype("uint16") + 1) >> 2).astype("uint8"), x == y


CASES = [
    *[Case(f"{n} elements", chain, [array(n), array(n)], rtol=1e-5) for n in (1, 2, 3, 5, 8, 16, 17, 31, 100, 4099)],
    Case("a scalar", lambda x, y: chain(x, y), [np.float32(0.7), np.float32(-0.2)], rtol=1e-5),
    Case("several workgroups", chain, [array(60_001)], rtol=1e-5),
    Case("scalar operand", lambda x, s: chain(x, s), [array(50, 3), np.float32(0.3)], rtol=1e-5),
    Case("rows", spread, [array(37, 53), array(53), array(37, 1), array(1, 1)], rtol=1e-5),
    Case("long rows", spread, [array(2, 30_011), array(30_011), array(2, 1), array(1, 1)], rtol=1e-5),
    Case("short rows", spread, [array(37, 3), array(3), array(37, 1), array(1, 1)], rtol=1e-5),
    Case("a middle dimension", lambda x, y: chain(x, y[:, None]), [array(5, 7, 64), array(5, 64)], rtol=1e-5),
    Case("a middle one, short", lambda x, y: chain(x, y[:, None]), [array(5, 7, 3), array(5, 3)], rtol=1e-5),
    Case("iota", lambda x: chain(x + lax.broadcasted_iota(qnp.float32, (6, 7, 5), 1)), [array(6, 7, 5)], rtol=1e-5),
    Case("reshapes", lambda x, y: chain(chain(x).reshape(6, 8), y).reshape(-1), [array(48), array(8)], rtol=1e-5),
    Case("results of three dtypes", two_results, [array(33, 5), array(33, 5)], rtol=1e-5),
    Case("bool operands", lambda x, m: chain(qnp.where(m, x, -x * 2)), [array(45), array(45, dtype="bool")], rtol=1e-5),
    Case("special values", lambda x: chain(x), [NAN], rtol=1e-5),
    Case("functions", lambda x: chain(qnp.tanh(x) * qnp.exp(-x * x) + qnp.log1p(abs(x))), [array(99)], rtol=2e-5, atol=1e-6),
    Case("sine and cosine", lambda x: chain(qnp.sin(x * 100), qnp.cos(x)), [array(99)], rtol=1e-4, atol=1e-5),
    Case("an enormous sine", lambda x: qnp.sin(x) + qnp.cos(x) + qnp.tan(x), [array(40) * 1e20], rtol=1e-4, atol=1e-5),
    *[Case(f"{d}", integers, [array(41, dtype=d), array(41, dtype=d)]) for d in ("int32", "uint8", "int16", "uint32")],
    Case("bfloat16", chain, [array(41, dtype="bfloat16")], rtol=6e-2, atol=6e-2),
    Case("float16", chain, [array(41, dtype="float16")], rtol=2e-2, atol=2e-2),
    Case("complex", lambda z, w: qnp.exp(z * w) / (w + 3) + qnp.sqrt(z), [array(29, dtype="complex64"), array(29, dtype="complex64")], rtol=1e-4, atol=1e-4),
    *[
        Case(f"{f.__name__} of {n} {d}", f, [array(n, dtype=d), array(n, dtype=d)])
        for f in (bytes_only, blended) for n in (7, 63, 4099, 40009) for d in ("uint8", "int8")
    ],
    Case("bytes and a row of them", lambda x, y: bytes_only(x, y), [array(150, 301, dtype="uint8"), array(301, dtype="uint8")]),
    Case("masks", lambda x, y: ((x & ~y) ^ (x | y), x == y), [array(70001, dtype="bool"), array(70001, dtype="bool")]),
    *[
        Case(f"blocks of rows of {n} {d}", in_blocks, [array(m, n, dtype=d), array(n, dtype=d), array(m, dtype=d)], rtol=r, atol=10 * r)
        for n, m, d, r in (
            (3, 977, "float32", 1e-5), (5, 331, "float32", 1e-5), (7, 64, "float32", 1e-5), (12, 401, "float32", 1e-5),
            (3, 977, "float64", 1e-5), (3, 977, "uint8", 0), (6, 977, "int16", 0), (3, 977, "complex64", 1e-4),
            (3, 977, "bfloat16", 6e-2), (3, 40_001, "float32", 1e-5), (24, 350, "float32", 1e-5), (20, 350, "float32", 1e-5),
        )
    ],
    Case("blocks with masks", lambda x, m: chain(qnp.where(m[:, None], x, 0)), [array(977, 3), array(977, dtype="bool")], rtol=1e-5),
    Case("pixels", lambda x, a, b: chain((x.astype("float32") / 255 - a) / b), [array(20, 31, 3, dtype="uint8"), array(3), array(3) + 9], rtol=1e-5),
]  # fmt: skip


def fused(case: Case) -> ClosedJaxpr:
    return PassManager(TARGETS["cpu"].pipeline, target=TARGETS["cpu"]).run(trace(case.f, case.args))


def lowered_text(program):
    return lower_optimized(Request(program, TARGETS["cpu"], "f"), program).module.text()


def test_kernels_compute_what_the_reference_does():
    check(CASES)


@pytest.mark.parametrize("case", CASES, ids=[c.name for c in CASES])
def test_each_case_is_one_kernel(case):
    text = lowered_text(fused(case))
    assert text.count("= flow.dispatch @") == 1 and "elementwise equations" in text


def test_double_precision():
    with config.override(enable_x64=True):
        x, y = array(77, dtype="float64"), array(77, dtype="float64")
        check(
            [
                Case("chain", chain, [x, y], rtol=1e-12),
                Case("functions", lambda x, y: qnp.exp(qnp.sin(x)) * qnp.log(abs(y) + 1) + qnp.tanh(x) ** 3, [x, y], rtol=1e-11),
                Case("int64", integers, [array(77, dtype="int64"), array(77, dtype="int64")]),
                Case("gamma functions", lambda x: (lax.lgamma(x), lax.digamma(x)), [x * 5], rtol=1e-9, atol=1e-10),
            ]
        )  # fmt: skip


# -- special functions ------------------------------------------------------------------------------------------------

POSITIVE = np.abs(R.normal(size=90) * 3).astype(np.float32) + np.float32(1e-3)
EDGES = np.array([0.0, -0.0, 1, 2, 0.5, -0.5, -1, -2.5, 30, -30, np.inf, -np.inf, np.nan, 1e-20], np.float32)
REAL = np.concatenate([R.normal(size=90).astype(np.float32) * 5, EDGES])
UNIT = np.concatenate([R.uniform(-1, 1, 90), [0, 1, -1, 0.999999, -2, np.nan]]).astype(np.float32)
SPECIAL = [
    Case("lgamma", lax.lgamma, [REAL], rtol=1e-5, atol=2e-6),
    Case("digamma", lax.digamma, [REAL[REAL != 0]], rtol=3e-5, atol=3e-6),
    Case("erf_inv", lambda x: lax.erf_inv(x) + lax.erf(x), [UNIT], rtol=1e-5, atol=1e-6),
    Case("erfc", lambda x: lax.erfc(x) * lax.erfc(x * 0.1), [REAL], rtol=3e-6, atol=1e-37),
    Case("igamma", lambda a, x: (lax.igamma(a, x), lax.igammac(a, x)), [POSITIVE, POSITIVE[::-1].copy()], rtol=1e-5, atol=1e-37),
    Case("igamma at edges", lax.igamma, [*map(np.ravel, np.meshgrid(EDGES, EDGES))], rtol=1e-5, atol=1e-30),
    Case("igamma_grad_a", lax.igamma_grad_a, [POSITIVE, POSITIVE[::-1].copy()], rtol=1e-4, atol=1e-6),
    Case("betainc", lax.betainc, [POSITIVE, POSITIVE[::-1].copy(), R.uniform(0, 1, 90).astype(np.float32)], rtol=1e-5, atol=1e-30),
    Case("zeta", lax.zeta, [POSITIVE + 1, POSITIVE[::-1].copy()], rtol=1e-5),
    Case("polygamma", lax.polygamma, [np.floor(POSITIVE), POSITIVE[::-1].copy()], rtol=1e-4),
    Case("pow", lambda x, y: x**y + qnp.arctan2(x, y), [*map(np.ravel, np.meshgrid(EDGES, EDGES))], rtol=1e-5),
]  # fmt: skip


def test_formulas_with_loops_are_kernels_and_right():
    """Where StableHLO's form is a chlo operation or a loop of its own: one kernel each, its numbers the reference's."""
    check(SPECIAL)
    for case in SPECIAL:
        text = lowered_text(fused(case))
        assert "stablehlo.while" not in text and "elementwise equations" in text, case.name


def primitives() -> list[Primitive]:
    return [p for p in vars(ew).values() if isinstance(p, Primitive) and p.family == "elementwise"]


PARAMS = {
    "integer_pow": {"y": 3}, "round": {"rounding_method": 1}, "reduce_precision": {"exponent_bits": 5, "mantissa_bits": 7},
    "convert_element_type": {"new_dtype": dtypes.float32, "weak_type": False},
}  # fmt: skip


def test_elementwise_primitives_have_the_forms_that_the_target_says():
    has_form = TARGETS["cpu"].has_form
    target, expand = kernel_target(TARGETS["cpu"]), expander(TARGETS["cpu"])
    assert target is not None
    missing: list[str] = []
    lacking: set[tuple[str, str]] = set()
    found: set[tuple[str, str]] = set()
    with config.override(enable_x64=True):
        for p in dict.fromkeys(primitives()):
            for name in ("float32", "float64", "bfloat16", "complex64", "int32", "uint8", "int64", "bool"):
                for n in (1, 2, 3):
                    params = PARAMS.get(p.name, {})
                    if p is ew.bitcast_convert_type_p:
                        params = {"new_dtype": np.dtype(f"i{np.dtype(name).itemsize}" if name != "bfloat16" else "i2")}
                    avals = [ShapedArray((8,), dtypes.as_dtype(name))] * n
                    if p is ew.select_n_p:
                        avals[0] = ShapedArray((8,), dtypes.bool_)
                    try:
                        out = p.infer(avals, params)
                    except (TypeError, ValueError):
                        continue
                    out = out[0] if isinstance(out, tuple | list) else out
                    b = KernelBuilder("k", [Spec.of((8,), a.dtype) for a in avals], [Spec.of((8,), out.dtype)], target)
                    e = Elements(b, expand)
                    try:
                        xs = [
                            Memory(e, b.operand(i, (8 * Memory.numbers(a.dtype),), Memory.element(a.dtype)), a.dtype).load(0, 8)
                            for i, a in enumerate(avals)
                        ]  # fmt: skip
                        e.apply(p, params, [a.dtype for a in avals], out.dtype, xs)
                    except NoKernel as reason:
                        if has_form(p, avals[-1].dtype):
                            missing.append(f"{p.name} of {name}: {reason}")
                        lacking.add((p.name, name))
                    else:
                        found.add((p.name, name))
    assert not [m for m in missing if "bitcast" not in m]
    denied = {(p.name, "float64") for p in WITHOUT_DOUBLE} | {(p.name, "float32") for p in WITHOUT}
    assert denied <= lacking and not denied & found


# -- what is shared, what is declined -----------------------------------------------------------------------------------


def test_arrays_of_any_size_share_an_executable():
    """Large leaves of an optimizer's update: one text, a dispatch each."""

    def update(*xs):
        return [chain(qnp.sin(x), x * 2) for x in xs]

    args = [array(n, m) for n, m in ((400, 800), (500, 900), (1600, 200), (300, 701), (100_001, 1))]
    case = Case("leaves", update, args, rtol=1e-5)
    text = lowered_text(fused(case))
    assert text.count("= flow.dispatch @") == 5 and text.count("stream.executable private") == 1


def test_reasons_where_there_is_no_kernel():
    target, expand = kernel_target(TARGETS["cpu"]), expander(TARGETS["cpu"])
    assert target is not None
    empty = trace(lambda x: x + 1, [array(0)]).jaxpr
    with pytest.raises(NoKernel, match="arrays without elements"):
        elementwise_kernel(empty, (0,), target, expand, 1)
    total = trace(lambda x: qnp.sum(x), [array(4)]).jaxpr
    with pytest.raises(NoKernel, match="another size"):
        elementwise_kernel(total, (4,), target, expand, 1)
    gpu = elementwise_kernel(trace(lambda x: x + 1, [array(4)]).jaxpr, (4,), GPU, expand, 1).kernel
    assert "a thread for each element" in gpu.reason


def test_a_donated_argument_and_one_that_is_not():
    """The kernel writes memory of its own, or the donated one's; the other argument stays as it was."""
    f = quire.compile(lambda x, y: (chain(x, y), chain(y, x)), donate_argnums=0)
    x, y = array(300), array(300)
    given = qnp.array(y)
    got = f(qnp.array(x), given)
    np.testing.assert_array_equal(given, y)
    want = quire.compile(lambda x, y: (chain(x, y), chain(y, x)))(x, y)
    np.testing.assert_array_equal(got[0], want[0])
    np.testing.assert_array_equal(got[1], want[1])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rounding_to_even_has_numpys_bits(dtype):
    """Halves, zeros' signs, and numbers around those that have no bits for fractions."""
    edges = [
        0.0,
        -0.0,
        0.5,
        -0.5,
        1.5,
        2.5,
        -3.5,
        2.0**22 + 0.5,
        2.0**23 - 0.5,
        2.0**23 + 1,
        2.0**52 - 0.5,
        np.inf,
        -np.inf,
        np.nan,
    ]
    numbers = np.concatenate(
        [edges, np.arange(-300, 300) / 4, R.normal(size=40000) * 10.0 ** R.integers(-9, 18, 40000)]
    ).astype(dtype)
    with quire.enable_x64(dtype == "float64"):
        found = np.asarray(quire.jit(lambda x: qnp.round(x))(numbers))
    assert found.dtype == dtype
    np.testing.assert_array_equal(found.view(f"i{found.itemsize}"), np.round(numbers).view(f"i{found.itemsize}"))


def test_a_value_that_is_several_results_is_written_to_each():
    program = parse("""
    { lambda ; a:f32[65]. let
        b:f32[65] c:f32[65] d:f32[65] = fusion[
          axes=()
          jaxpr={ lambda ; e:f32[65]. let f:f32[65] = sin e g:f32[65] = cos f in (g, g, f) }
          kind=elementwise
          space=(65,)
        ] a
        h:f32[65] = neg b
        i:f32[65] = transpose[permutation=(0,)] c
      in (h, i, d) }""")
    x = array(65)
    h, i, d = quire.jit(quire.core.jaxpr_as_fun(program))(x)
    np.testing.assert_allclose(d, np.sin(x), rtol=1e-6)
    np.testing.assert_allclose(i, np.cos(np.sin(x)), rtol=1e-6)
    np.testing.assert_allclose(h, -np.cos(np.sin(x)), rtol=1e-6)
