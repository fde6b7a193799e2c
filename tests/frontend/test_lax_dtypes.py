"""quire.lax takes and refuses the dtypes that jax.lax does, and gives results of the same dtypes and shapes.

Python numbers are left out: in quire.lax they take the dtype of the other operand, in jax.lax they have one of their own.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from itertools import product
from typing import Any

import jax
import numpy as np
import pytest

import quire
import quire.numpy as qnp
from quire import lax
from quire.ir.config import config

DTYPES = (
    "bool int8 uint8 int16 int32 uint32 int64 uint64 float16 bfloat16 float32 float64 complex64 complex128"
).split()

UNARY = (
    "abs acos acosh asin asinh atan atanh bessel_i0e bessel_i1e bitwise_not cbrt ceil clz conj cos cosh cumlogsumexp cummax "
    "cummin cumprod cumsum digamma erf erf_inv erfc exp exp2 expm1 floor imag is_finite lgamma log log1p logistic neg "
    "population_count real reciprocal round rsqrt sign sin sinh sort sqrt square stop_gradient tan tanh"
).split()
BINARY = (
    "add atan2 bitwise_and bitwise_or bitwise_xor complex div dot eq ge gt igamma igamma_grad_a igammac le lt max min mul "
    "mulhi ne nextafter polygamma pow rem shift_left shift_right_arithmetic shift_right_logical sub zeta"
).split()
REDUCTIONS = [f"reduce_{name}" for name in "sum prod max min and or xor".split()]
COMPUTATIONS = "add mul max min bitwise_and bitwise_or bitwise_xor".split()
UPDATES = "scatter scatter_add scatter_mul scatter_min scatter_max scatter_sub".split()

# The functions of the library, arrays of which dtypes go in, and the arrays' shapes.
Call = Callable[..., Any]
ONE: dict[str, tuple[Call, tuple[int, ...]]] = {
    **{name: (lambda l, x, name=name: getattr(l, name)(x), (3,)) for name in UNARY},
    **{name: (lambda l, x, name=name: getattr(l, name)(x, (0,)), (3,)) for name in REDUCTIONS},
    **{f"integer_pow {y}": (lambda l, x, y=y: l.integer_pow(x, y), (3,)) for y in (0, 1, 2, 3, -1, -2)},
    **{f"argmax {d}": (lambda l, x, d=d: l.argmax(x, 0, d), (3,)) for d in ("int8", "uint8", "int32", "float32", "bool")},
    **{f"convert {t.__name__}": (lambda l, x, t=t: l.convert_element_type(x, t), (3,)) for t in (bool, int, float, complex)},
    **{
        f"reduce {name}": (lambda l, x, name=name: l.reduce(x, x[0] * x[0], getattr(l, name), (0,)), (3,))
        for name in COMPUTATIONS
    },
    **{
        f"reduce_window {name}": (
            lambda l, x, name=name: l.reduce_window(x, np.ones((), x.dtype), getattr(l, name), (2,), (1,), "VALID"),
            (3,),
        )
        for name in COMPUTATIONS
    },
    **{
        name: (
            lambda l, x, name=name: getattr(l, name)(x, np.zeros((2, 1), "i"), x[:2], l.ScatterDimensionNumbers((), (0,), (0,))),
            (3,),
        )
        for name in UPDATES
    },
    "round to even": (lambda l, x: l.round(x, l.RoundingMethod.TO_NEAREST_EVEN), (3,)),
    "reduce_precision": (lambda l, x: l.reduce_precision(x, 5, 3), (3,)),
    "scalar": (lambda l, x: [l.sub(x, x[0]), l.max(x, x[:1])], (3,)),
    "associative_scan": (lambda l, x: l.associative_scan(l.add, x), (3,)),
    "full_like": (lambda l, x: l.full_like(x, 1.5), (3,)),
    "top_k": (lambda l, x: l.top_k(x, 2), (3,)),
    "sort_key_val": (lambda l, x: l.sort_key_val(x, x), (3,)),
    "approx_max_k": (lambda l, x: l.approx_max_k(x, 2), (3,)),
    "conv": (lambda l, x: l.conv(x, x[:, :, :2], (1,), "VALID"), (2, 2, 5)),
    "fft": (lambda l, x: l.fft(x, l.FftType.FFT, (3,)), (3,)),
    "rfft": (lambda l, x: l.fft(x, l.FftType.RFFT, (3,)), (3,)),
    "irfft": (lambda l, x: l.fft(x, l.FftType.IRFFT, (4,)), (3,)),
    "batch_matmul": (lambda l, x: l.batch_matmul(x, x), (2, 3, 3)),
}  # fmt: skip
DECOMPOSITIONS = "cholesky eig eigh hessenberg lu qr schur svd tridiagonal".split()
TWO: dict[str, tuple[Call, tuple[int, ...], tuple[int, ...]]] = {
    **{name: (lambda l, x, y, name=name: getattr(l, name)(x, y), (3,), (3,)) for name in BINARY},
    "clamp": (lambda l, x, y: l.clamp(y, x, y), (3,), ()),
    "select": (lambda l, x, y: l.select(np.ones(3, bool), x, y), (3,), (3,)),
    "select_n": (lambda l, which, x: l.select_n(which, x, x), (3,), (3,)),
    "betainc": (lambda l, x, y: l.betainc(x, y, x), (3,), (3,)),
    "convert": (lambda l, x, y: l.convert_element_type(x, y.dtype), (3,), (3,)),
    "bitcast": (lambda l, x, y: l.bitcast_convert_type(x, y.dtype), (3,), (3,)),
    "bitcast of rows": (lambda l, x, y: l.bitcast_convert_type(x, y.dtype), (3, 2), (3,)),
    "concatenate": (lambda l, x, y: l.concatenate([x, y], 0), (3,), (3,)),
    "pad": (lambda l, x, y: l.pad(x, y, [(1, 1, 0)]), (3,), ()),
    "dynamic_update_slice": (lambda l, x, y: l.dynamic_update_slice(x, y, (0,)), (3,), (2,)),
    "dynamic_slice": (lambda l, x, i: l.dynamic_slice(x, (i,), (2,)), (3,), ()),
}  # fmt: skip

# Of those for which operands of two dtypes are no mistake all pairs are looked at, of the others pairs of these.
MIXED = "convert", "bitcast", "select_n"
SOME = "bool uint8 int32 float32 complex64".split()

# What quire refuses and jax.lax lets pass until it compiles or runs the program.
LATE = {
    "cumlogsumexp": "float16 bfloat16 float32 float64 complex64 complex128",
    "clamp": " ".join(d for d in DTYPES if not d.startswith("complex")),
    **dict.fromkeys(DECOMPOSITIONS, " ".join(d for d in DTYPES if not d.endswith("float16"))),
}


def outcome(module: Any, numpy: Any, f: Call, avals: list[Any]) -> Any:
    """The dtypes and shapes of the results and their tree, or "refused"."""
    try:
        out = module.eval_shape(lambda *xs: f(module.lax, *xs), *avals)
    except (TypeError, ValueError):
        return "refused"
    leaves, tree = jax.tree_util.tree_flatten(out)
    return str(tree), [(str(v.dtype), v.shape, v.weak_type) for v in leaves]


def differences(name: str, f: Call, shapes: tuple[tuple[int, ...], ...], dtypes: list[str]) -> list[str]:
    wrong: list[str] = []
    pairs = product(dtypes if name in MIXED else SOME, repeat=2)
    for given in [(d,) for d in dtypes] if len(shapes) == 1 else dict.fromkeys([*zip(dtypes, dtypes), *pairs]):
        if given[0] not in LATE.get(name, given[0]).split():
            continue
        avals = [(s, np.dtype(jax.numpy.dtype(d))) for s, d in zip(shapes, given)]
        got = outcome(quire, qnp, f, [quire.ShapeDtypeStruct(*a) for a in avals])
        want = outcome(jax, jax.numpy, f, [jax.ShapeDtypeStruct(*a) for a in avals])
        if got != want:
            wrong.append(f"{name} of {', '.join(given)}: {got} instead of {want}")
    return wrong


def test_functions_of_one_array():
    wrong: list[str] = []
    table = dict(ONE)
    for name in DECOMPOSITIONS:
        table[name] = (lambda l, x, name=name: getattr(l.linalg, name)(x), (3, 3))
    with config.override(enable_x64=True), jax.enable_x64(True), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of complex numbers converted to real ones
        for name, (f, shape) in table.items():
            wrong += differences(name, f, (shape,), DTYPES)
    # A matrix of bools is no matrix to decompose: its results are of weak type in JAX.
    wrong = [w for w in wrong if not w.startswith(("cholesky of bool", "eigh of bool"))]
    assert not wrong, "\n".join(wrong)


def test_functions_of_two_arrays():
    with config.override(enable_x64=True), jax.enable_x64(True), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of complex numbers converted to real ones
        wrong = [w for name, (f, *shapes) in TWO.items() for w in differences(name, f, tuple(shapes), DTYPES)]
    assert not wrong, "\n".join(wrong)


B = np.array([True, False, True])
U = np.arange(3, dtype=np.uint8)
F = np.ones(3, np.float32)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: lax.add(B, B),
            r"lax\.add: operand 0 bool\[3\] has dtype bool, expected a number .*: use lax\.bitwise_or, or",
        ),
        (
            lambda: lax.mul(B, True),
            r"lax\.mul: operand 0 bool\[3\] has dtype bool, expected a number .* use lax\.bitwise_and",
        ),
        (lambda: lax.reduce(B, False, lax.add, (0,)), r"lax\.add: operand 0 bool\[\] has dtype bool"),
        (lambda: lax.sub(B, B), r"sub: operand 0 bool\[3\] has dtype bool, expected a number dtype"),
        (lambda: lax.reduce_sum(B, (0,)), r"reduce_sum: .*bool\[3\]"),
        (lambda: lax.integer_pow(B, 1), r"lax\.integer_pow: operand bool\[3\]"),
        (lambda: lax.abs(U), r"lax\.abs: operand u8\[3\] .*: what is unsigned is its own absolute value"),
        (lambda: lax.real(F), r"lax\.real: operand f32\[3\] .* expected a complex dtype: use quire\.numpy\.real"),
        (lambda: lax.conj(U), r"lax\.conj: operand u8\[3\] .* expected .*: use quire\.numpy\.conj"),
        (lambda: lax.add(U, F), r"add: the operands must have one dtype, got u8\[3\], f32\[3\]"),
    ],
)
def test_what_is_refused(call, message):
    with pytest.raises(TypeError, match=message):
        call()


def test_numpy_goes_on_with_what_lax_refuses():
    @quire.jit
    def f(b: Any, u: Any, x: Any) -> Any:
        return [
            qnp.add(b, b[1]), b + ~b, qnp.multiply(b, b[::-1]), b * ~b, qnp.sum(b), qnp.prod(b), qnp.maximum(b, ~b),
            qnp.abs(u), qnp.real(x), qnp.imag(x), qnp.conj(x), qnp.cumsum(b), qnp.linalg.norm(x),
            qnp.vdot(x, x), qnp.square(b), b @ b,
        ]  # fmt: skip

    want = [
        B, [True] * 3, B, [False] * 3, 2, 0, [True] * 3, U, F, 0 * F, F, [1, 1, 2], np.sqrt(3), 3, B, True,
    ]  # fmt: skip
    for got, w in zip(f(B, U, F), want, strict=True):
        np.testing.assert_allclose(got, w, rtol=1e-6)


def test_values_of_what_is_converted_first():
    x = np.array([3, 1, 2], np.int16)
    m = np.array([[2, 1, 0], [1, 3, 1], [0, 1, 2]], np.int32)

    def f(q: Any) -> Any:
        l = q.lax  # noqa: E741
        return q.jit(
            lambda x, m: [
                l.fft(x, l.FftType.FFT, (3,)), l.fft(x, l.FftType.RFFT, (3,)), l.fft(x, l.FftType.IRFFT, (4,)),
                l.linalg.cholesky(m), l.linalg.eigh(m)[1], l.conj(F), l.select_n((x - 1).astype("uint8"), x, x + 1, x + 2),
                l.bitcast_convert_type(x > 1, bool), l.bitcast_convert_type(x * 1j, "complex64"),
            ]
        )(x, m)  # fmt: skip

    for got, want in zip(f(quire), f(jax), strict=True):
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
