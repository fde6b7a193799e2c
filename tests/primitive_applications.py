# ruff: noqa: E501 - tables
"""One or more applications of every primitive, at points where it is differentiable: for tests of rules.

`APPLICATIONS` is a table of functions of flat float64 (or complex, integer, bool) arrays. The tests of derivatives and of
batching run over all of them, and check that no primitive is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.avals import ShapedArray, aval_of
from quire.ir.config import config
from quire.ir.jaxpr import ClosedJaxpr, Jaxpr
from quire.ir.primitive import PRIMITIVES
from quire.ir.primitives import calls
from quire.ir.primitives import contraction as ct
from quire.ir.primitives import control_flow as cf
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import fft as ff
from quire.ir.primitives import indexing as ix
from quire.ir.primitives import linalg as la
from quire.ir.primitives import random as rn
from quire.ir.primitives import reductions as rd
from quire.ir.primitives import sharding as sh
from quire.ir.primitives import sorting as so
from quire.ir.primitives import structural as st
from quire.ir.primitives import windows as wn
from quire.ir.sharding import AbstractMesh, NamedSharding
from quire.ir.sharding import PartitionSpec as P
from quire.ir.tracing import eval_jaxpr, trace_flat

Value = Any


@dataclass(frozen=True)
class Application:
    """A function of flat arrays and arguments for it.

    Attributes:
        order: up to which derivative it is checked; 0: only batching.
        batch: whether its batching is checked.
    """

    name: str
    f: Callable[..., Any]
    args: Sequence[np.ndarray[Any, Any]]
    order: int = 2
    batch: bool = True


APPLICATIONS: list[Application] = []


def add(name: str, f: Callable[..., Any], *args: Any, order: int = 2, batch: bool = True) -> None:
    APPLICATIONS.append(Application(name, f, [np.asarray(a) for a in args], order, batch))


def values(*shape: int, low: float = -1.5, high: float = 1.5, seed: int = 0, dtype: Any = np.float64) -> Any:
    """Distinct numbers in a range, none near zero."""
    rng = np.random.default_rng(seed)
    n = int(np.prod(shape))
    x = low + (high - low) * (rng.permutation(n) + 0.5 + rng.uniform(-0.2, 0.2, n)) / max(n, 1)
    x = np.where(np.abs(x) < 0.05, 0.07, x).reshape(shape)
    return (x + 1j * rng.uniform(0.2, 1, shape)).astype(dtype) if np.dtype(dtype).kind == "c" else x.astype(dtype)


V, V2, POS = values(2, 3), values(2, 3, seed=1), values(2, 3, low=0.3, high=2.5)
C, C2 = values(2, 3, dtype=np.complex128), values(2, 3, seed=1, dtype=np.complex128)
INTS = np.array([[3, -2, 7], [1, 12, -5]], np.int32)

_DOMAIN = {
    **dict.fromkeys(("log", "log1p", "sqrt", "rsqrt", "cbrt", "lgamma", "digamma"), (0.4, 2.5)),
    **dict.fromkeys(("asin", "acos", "atanh", "erf_inv"), (-0.8, 0.8)),
    "acosh": (1.3, 3.0), "tan": (-1.0, 1.0),
}  # fmt: skip
_UNARY = (
    "neg", "sign", "abs", "floor", "ceil", "square", "exp", "exp2", "expm1", "log", "log1p", "logistic", "sin", "cos",
    "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "sqrt", "rsqrt", "cbrt", "erf",
    "erfc", "erf_inv", "lgamma", "digamma", "bessel_i0e", "bessel_i1e", "copy", "stop_gradient", "is_finite",
)  # fmt: skip
_COMPLEX = (
    "neg", "abs", "square", "exp", "log", "sin", "cos", "tan", "sinh", "cosh", "tanh", "sqrt", "rsqrt", "real", "imag",
    "conj", "sign", "log1p", "expm1", "logistic",
)  # fmt: skip
_BINARY = ("add", "sub", "mul", "div", "rem", "max", "min", "atan2", "nextafter")
_PREDICATES = ("eq", "ne", "lt", "le", "gt", "ge")


def _elementwise() -> None:
    for name in _UNARY:
        low, high = _DOMAIN.get(name, (-1.5, 1.5))
        p = PRIMITIVES[name]
        # stop_gradient is not what differences see
        add(name, p.bind, values(2, 3, low=low, high=high), order=0 if name == "stop_gradient" else 2)
    for name in _COMPLEX:
        f = getattr(ew, name)
        add(f"{name} complex", f, C, order=2)
    for name in _BINARY:
        p = PRIMITIVES[name]
        order = 0 if name == "nextafter" else 2
        add(name, p.bind, V, POS, order=order)
        add(f"{name} with a scalar", p.bind, V, values(low=0.4, high=0.9), order=order)
        add(f"{name} of a scalar", p.bind, values(low=1.1, high=1.2), POS, order=order)
    for name in ("add", "sub", "mul", "div"):
        add(f"{name} complex", PRIMITIVES[name].bind, C, C2)
    for name in _PREDICATES:
        add(name, PRIMITIVES[name].bind, V, V2, order=0)
    for name in ("and", "or", "xor", "mulhi", "shift_left", "shift_right_logical", "shift_right_arithmetic"):
        add(name, PRIMITIVES[name].bind, INTS, np.abs(INTS) % 5, order=0)
    for name in ("not", "population_count", "clz"):
        add(name, PRIMITIVES[name].bind, INTS, order=0)
    add("pow", ew.pow, POS, V)
    add("pow complex", ew.pow, C, C2)
    add("integer_pow", lambda x: ew.integer_pow(x, 3), V)
    add("integer_pow negative", lambda x: ew.integer_pow(x, -2), POS)
    add("igamma", ew.igamma, np.full((2, 3), 1.7), POS, order=0)
    add("igamma by x", lambda x: ew.igamma(np.full((2, 3), 1.7), x), POS)
    add("igammac by x", lambda x: ew.igammac(np.full((2, 3), 1.7), x), POS)
    add("igammac", ew.igammac, np.full((2, 3), 1.7), POS, order=1)
    add("igamma by both", ew.igamma, np.full((2, 3), 1.7), POS, order=1)
    add("igamma_grad_a", ew.igamma_grad_a, np.full((2, 3), 1.7), POS, order=0)
    add("random_gamma_grad", ew.random_gamma_grad, np.full((2, 3), 1.7), POS, order=0)
    add("polygamma", lambda x: ew.polygamma(np.full((2, 3), 1.0), x), POS)
    add("polygamma of two", ew.polygamma, np.full((2, 3), 1.0), POS, order=0)
    add("zeta", lambda q: ew.zeta(np.full((2, 3), 2.5), q), POS)
    add(
        "betainc",
        lambda x: ew.regularized_incomplete_beta(np.full((3,), 1.5), np.full((3,), 2.5), x),
        values(3, low=0.2, high=0.8),
    )
    add(
        "betainc of three",
        ew.regularized_incomplete_beta,
        np.full(3, 1.5),
        np.full(3, 2.5),
        values(3, low=0.2, high=0.8),
        order=0,
    )
    add("complex", ew.complex, V, V2)
    add("round", lambda x: ew.round(x, 1), V)
    add("select_n", lambda x, y: ew.select_n(np.array([[True, False, True]] * 2), x, y), V, V2)
    add(
        "select_n of three",
        lambda w, x, y, z: ew.select_n(w, x, y, z),
        np.array([0, 2, 1], np.int32),
        V[0],
        V[1],
        V2[0],
    )
    add("select_n scalar", lambda p, x, y: ew.select_n(p, x, y), np.array(True), V, V2)
    add("clamp", ew.clamp, np.float64(-0.8), V, np.float64(0.9))
    add("clamp arrays", ew.clamp, V - 0.3, V2, V + 0.4)
    add("convert_element_type", lambda x: ew.convert_element_type(x, np.complex128), V)
    add("convert to int", lambda x: ew.convert_element_type(x, np.int32), V, order=0)
    add("bitcast_convert_type", lambda x: ew.bitcast_convert_type(x, np.int64), V, order=0)
    add("reduce_precision", lambda x: ew.reduce_precision(x, 11, 52), V)


def _structural() -> None:
    add("broadcast_in_dim", lambda x: st.broadcast_in_dim(x, (2, 4, 3), (0, 2)), V)
    add("broadcast_in_dim of size 1", lambda x: st.broadcast_in_dim(x, (2, 4, 3), (1, 2)), values(1, 3))
    add("reshape", lambda x: st.reshape(x, (3, 2)), V)
    add("transpose", lambda x: st.transpose(x, (2, 0, 1)), values(2, 3, 2))
    add("squeeze", lambda x: st.squeeze(x, (1,)), values(2, 1, 3))
    add("rev", lambda x: st.rev(x, (1,)), V)
    add("concatenate", lambda x, y: st.concatenate([x, y, x], 1), V, values(2, 2, seed=3))
    add("pad", lambda x, v: st.pad(x, v, ((1, 2, 1), (0, 1, 0))), V, values())
    add("pad negative", lambda x, v: st.pad(x, v, ((0, 0, 0), (-1, 1, 0))), V, values())
    add("slice", lambda x: st.slice(x, (0, 1), (2, 3)), V)
    add("slice strided", lambda x: st.slice(x, (1, 0), (5, 3), (2, 2)), values(6, 3))
    add("split", lambda x: list(st.split_p.bind(x, sizes=(1, 2), axis=1)), V)
    add("tile", lambda x: st.tile_p.bind(x, reps=(2, 3)), V)
    add("optimization_barrier", lambda x, y: st.optimization_barrier_p.bind(x, y), V, V2)


def _reductions() -> None:
    for name in ("reduce_sum", "reduce_prod", "reduce_max", "reduce_min"):
        for axes in ((0,), (1,), (0, 1)):
            add(f"{name} {axes}", lambda x, p=PRIMITIVES[name], a=axes: p.bind(x, axes=a), V)
    add("reduce_sum complex", lambda x: rd.reduce_sum(x, (0,)), C)
    for name in ("reduce_and", "reduce_or", "reduce_xor"):
        add(name, lambda x, p=PRIMITIVES[name]: p.bind(x, axes=(0,)), INTS, order=0)
    add("reduce", lambda x: rd.reduce([x], [0.0], lambda a, b: ew.add(ew.mul(a, 1.0), b), (1,)), V, order=0)
    for name in ("argmax", "argmin"):
        add(name, lambda x, p=PRIMITIVES[name]: p.bind(x, axes=(1,), index_dtype=dtypes.int32), V, order=0)
    for name in ("cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp"):
        for reverse in (False, True):
            add(f"{name} {reverse}", lambda x, p=PRIMITIVES[name], r=reverse: p.bind(x, axis=1, reverse=r), V)
        add(f"{name} axis 0", lambda x, p=PRIMITIVES[name]: p.bind(x, axis=0, reverse=False), V)


def _windows() -> None:
    window = {"window_dimensions": (2, 2), "window_strides": (1, 2), "padding": ((1, 0), (0, 1)),
              "base_dilation": (1, 1), "window_dilation": (1, 1)}  # fmt: skip
    x = values(3, 4)
    for name in ("reduce_window_sum", "reduce_window_max", "reduce_window_min"):
        add(name, lambda x, p=PRIMITIVES[name]: p.bind(x, **window), x)
    add("reduce_window", lambda x: wn.reduce_window([x], [1.0], lambda a, b: ew.mul(a, b), (2, 2), (1, 1)), x, order=0)
    add(
        "select_and_scatter_add",
        lambda s, x: wn.select_and_scatter_add(s, x, "ge", (2, 2), (1, 2), ((0, 0), (0, 0))), values(2, 2), x, order=0,
    )  # fmt: skip
    add(
        "select_and_scatter_add by source",
        lambda s: wn.select_and_scatter_add(s, x, "ge", (2, 2), (1, 2), ((0, 0), (0, 0))), values(2, 2),
    )  # fmt: skip
    add(
        "select_and_gather_add by tangents",
        lambda t: wn.select_and_gather_add(t, x, "ge", (2, 2), (1, 2), ((0, 0), (0, 0)), (1, 1), (1, 1)), values(3, 4, seed=2),
    )  # fmt: skip
    add(
        "select_and_scatter",
        lambda x, s: wn.select_and_scatter(x, s, 0.0, ew.ge, ew.add, (2, 2), (1, 2), ((0, 0), (0, 0))), x, values(2, 2),
        order=0,
    )  # fmt: skip


def _contractions() -> None:
    def dot(numbers: Any) -> Callable[..., Value]:
        return lambda a, b: ct.dot_general(a, b, numbers)

    add("dot_general", dot((((1,), (0,)), ((), ()))), V, values(3, 4))
    add("dot_general transposed", dot((((0,), (1,)), ((), ()))), values(3, 2), values(4, 3))
    add("dot_general batch", dot((((2,), (1,)), ((0,), (0,)))), values(2, 3, 4), values(2, 4, 2))
    add("dot_general two batch", dot((((1,), (3,)), ((0, 2), (1, 0)))), values(2, 3, 2), values(2, 2, 3, 3))
    add("dot_general outer", dot((((), ()), ((), ()))), values(2), values(3))
    add("dot_general complex", dot((((1,), (0,)), ((), ()))), C, values(3, 2, dtype=np.complex128))
    numbers = ct.ConvDimensionNumbers((0, 1, 2), (0, 1, 2), (0, 1, 2))

    def conv(x: Value, k: Value, stride: int = 1, dilation: int = 1, groups: int = 1) -> Value:
        return ct.conv_general_dilated(x, k, (stride,), ((1, 0),), (1,), (dilation,), numbers, groups, 1, None, None)

    add("conv", conv, values(2, 2, 5), values(3, 2, 2))
    add("conv strided", lambda x, k: conv(x, k, 2, 2), values(2, 2, 6), values(3, 2, 2))
    add("conv grouped", lambda x, k: conv(x, k, groups=2), values(2, 4, 5), values(4, 2, 2))


def _indexing() -> None:
    x, idx = values(4, 3), np.array([[2], [0], [3]], np.int32)
    rows = ix.GatherDimensionNumbers(offset_dims=(1,), collapsed_slice_dims=(0,), start_index_map=(0,))
    add("gather", lambda x, i: ix.gather(x, i, rows, (1, 3)), x, idx)
    add(
        "gather out of bounds",
        lambda x, i: ix.gather(x, i, rows, (1, 3), mode="fill", fill_value=0.0),
        x,
        np.array([[2], [9]], np.int32),
    )
    into = ix.ScatterDimensionNumbers(
        update_window_dims=(1,), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,)
    )
    for name in ("scatter", "scatter_add", "scatter_sub", "scatter_mul", "scatter_min", "scatter_max"):
        unique = name == "scatter_mul"
        f = getattr(ix, name)
        add(
            name, lambda x, i, u, f=f, q=unique: f(x, i, u, into, unique_indices=q, indices_are_sorted=False), x, idx,
            values(3, 3, seed=5), order=1 if name in ("scatter_min", "scatter_max") else 2,
        )  # fmt: skip
    add("dynamic_slice", lambda x, i, j: ix.dynamic_slice(x, (i, j), (2, 2)), x, np.int32(1), np.int32(1))
    add(
        "dynamic_update_slice",
        lambda x, u, i, j: ix.dynamic_update_slice(x, u, (i, j)),
        x,
        values(2, 2, seed=7),
        np.int32(1),
        np.int32(0),
    )


def _sorting() -> None:
    add("sort", lambda x: so.sort_p.bind(x, dimension=1, is_stable=True, num_keys=1), values(2, 5))
    add(
        "sort of two",
        lambda x, y: so.sort_p.bind(x, y, dimension=0, is_stable=True, num_keys=1),
        values(5, 2),
        values(5, 2, seed=3),
    )
    add("top_k", lambda x: so.top_k_p.bind(x, k=2, axis=1)[0], values(2, 5))


def _closed(f: Callable[..., Any], *avals: ShapedArray) -> ClosedJaxpr:
    jaxpr, captured, _ = trace_flat(f, avals, name="nested")
    assert not captured
    return ClosedJaxpr(jaxpr)


def f64(*shape: int) -> ShapedArray:
    return ShapedArray(shape, dtypes.float64)


def _calls() -> None:
    body = _closed(lambda x, y: [ew.mul(ew.sin(x), y), ew.exp(y)], f64(2, 3), f64(2, 3))
    add(
        "jit",
        lambda x, y: calls.jit_p.bind(x, y, name="g", jaxpr=body, inline=False, donated_invars=(False, False)),
        V,
        V2,
    )
    add(
        "checkpoint",
        lambda x, y: calls.checkpoint_p.bind(x, y, jaxpr=body, prevent_cse=True, differentiated=False, policy=None),
        V,
        V2,
    )
    add("name", lambda x: calls.name(x, "x"), V)


def _control_flow() -> None:
    v = f64(3)
    branches = (_closed(lambda x, y: [ew.mul(ew.sin(x), y)], v, v), _closed(lambda x, y: [ew.exp(y)], v, v))
    for i in (0, 1):
        add(f"cond {i}", lambda x, y, i=i: cf.cond(np.int32(i), [x, y], branches), V[0], V[1])
    add("cond by index", lambda i, x, y: cf.cond(i, [x, y], branches), np.int32(1), V[0], V[1])
    body = _closed(lambda w, c, x: [ew.sin(ew.mul(ew.add(c, x), w)), ew.mul(c, x)], v, v, v)
    for reverse in (False, True):
        add(
            f"scan {reverse}",
            lambda w, c, xs, r=reverse: cf.scan([w], [c], [xs], body, length=4, reverse=r),
            V[0],
            V[1],
            values(4, 3),
        )
    i32 = ShapedArray((), dtypes.int32)
    test = _closed(lambda i, c: [ew.lt(i, np.int32(3))], i32, v)
    step = _closed(lambda w, i, c: [ew.add(i, np.int32(1)), ew.sin(ew.mul(c, w))], v, i32, v)
    loop: dict[str, Any] = {"cond_jaxpr": test, "body_jaxpr": step, "cond_nconsts": 0, "body_nconsts": 1}
    add("while", lambda w, c: cf.while_p.bind(w, np.int32(0), c, **loop)[1], V[0], V[1], order=0)
    add("bounded_while", lambda w, c: cf.bounded_while_p.bind(w, np.int32(0), c, **loop, max_steps=5)[1], V[0], V[1])
    until = _closed(lambda s, c: [ew.lt(rd.reduce_sum(c, (0,)), s)], f64(), v)
    double = _closed(lambda c: [ew.mul(c, 1.5)], v)
    add(
        "while by value",
        lambda s, c: cf.while_p.bind(s, c, cond_jaxpr=until, body_jaxpr=double, cond_nconsts=1, body_nconsts=0),
        np.float64(9.0), POS[0], order=0,
    )  # fmt: skip


def _linear_algebra() -> None:
    rng = np.random.default_rng(0)
    a = rng.normal(size=(3, 3)) + 3 * np.eye(3)
    spd = a @ a.T / 3 + np.eye(3)

    def symmetric(x: Value) -> Value:
        return ew.mul(ew.add(x, st.transpose(x, (1, 0))), 0.5)

    add("cholesky", lambda x: la.cholesky(symmetric(x)), spd)
    for left in (True, False):
        add(
            f"triangular_solve {left}",
            lambda a, b, left=left: la.triangular_solve(a, b, left_side=left, lower=True), np.tril(a), values(3, 3),
        )  # fmt: skip
    add("lu", lambda x: la.lu(x)[0], a)
    add("lu pivots", lambda x: la.lu_pivots_to_permutation(la.lu(x)[1], 3), a, order=0)
    add("qr", lambda x: la.qr(x, full_matrices=False), rng.normal(size=(4, 3)))
    add("eigh", lambda x: la.eigh(symmetric(x))[-1], np.diag([1.0, 2.5, 4.0]) + 0.1 * rng.normal(size=(3, 3)))
    add("svd", lambda x: la.svd(x, full_matrices=False)[0], rng.normal(size=(3, 3)) + np.diag([1.0, 3.0, 6.0]))
    add(
        "eig",
        lambda x: la.eig(x, compute_left_eigenvectors=False, compute_right_eigenvectors=False)[0],
        np.diag([1.0, 2.5, 4.0]) + 0.1 * rng.normal(size=(3, 3)),
        order=1,
    )
    add(
        "tridiagonal_solve",
        la.tridiagonal_solve,
        np.array([0.0, 0.3, 0.2]),
        np.array([2.0, 3.0, 2.5]),
        np.array([0.4, 0.1, 0.0]),
        values(3, 2),
    )
    for name, f in (
        ("geqrf", la.geqrf), ("schur", la.schur), ("hessenberg", la.hessenberg),
        ("tridiagonal", lambda x: la.tridiagonal(symmetric(x))),
    ):  # fmt: skip
        add(name, f, a, order=0)
    add("householder_product", lambda x: la.householder_product(*la.geqrf(x)), a, order=0)


def _others() -> None:
    add("fft", lambda x: ff.fft(x, "FFT", (4,)), values(2, 4, dtype=np.complex128))
    add("ifft", lambda x: ff.fft(x, "IFFT", (4,)), values(2, 4, dtype=np.complex128))
    add("rfft", lambda x: ff.fft(x, "RFFT", (4,)), values(2, 4))
    add("irfft", lambda x: ff.fft(x, "IRFFT", (4,)), values(2, 3, dtype=np.complex128))
    bits = np.arange(6, dtype=np.uint32)
    add("threefry2x32", rn.threefry2x32_p.bind, np.uint32(3), np.uint32(7), bits, bits + 1, order=0)


def _shardings() -> None:
    mesh = AbstractMesh((2, 3), ("x", "y"))
    for spec in (P("x"), P(("x", "y"), None), P(None, P.UNCONSTRAINED)):
        sharding = NamedSharding(mesh, spec)
        add(f"sharding_constraint {spec}", lambda x, s=sharding: sh.sharding_constraint(x, s), V)


for _family in (
    _elementwise, _structural, _reductions, _windows, _contractions, _indexing, _sorting, _calls, _control_flow,
    _linear_algebra, _others, _shardings,
):  # fmt: skip
    with config.override(enable_x64=True):
        _family()


def traced(a: Application) -> Callable[..., list[Any]]:
    """The application as a function that applies its jaxpr, so that Python is run once."""
    jaxpr, captured, _ = trace_flat(
        lambda *xs: (lambda out: list(out) if isinstance(out, list | tuple) else [out])(a.f(*xs)),
        [aval_of(x) for x in a.args], name=a.name,
    )  # fmt: skip
    return lambda *xs: eval_jaxpr(jaxpr, (), [*captured, *xs])


def primitives_of(jaxpr: Jaxpr) -> set[str]:
    """The names of the primitives of a jaxpr and of those nested in it."""
    from quire.ir.jaxpr import nested_jaxprs

    found: set[str] = set()
    for eqn in jaxpr.eqns:
        found.add(eqn.primitive.name)
        for inner in nested_jaxprs(eqn.params):
            found |= primitives_of(inner.jaxpr if isinstance(inner, ClosedJaxpr) else inner)
    return found


def primitive_names(a: Application) -> set[str]:
    """The primitives that an application uses."""
    jaxpr, _, _ = trace_flat(
        lambda *xs: (lambda out: list(out) if isinstance(out, list | tuple) else [out])(a.f(*xs)),
        [aval_of(x) for x in a.args], name=a.name,
    )  # fmt: skip
    return primitives_of(jaxpr)
