"""`quire.from_jax`: programs of the real JAX as quire's functions, compared with JAX's own numbers."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import quire
from quire.ir.errors import UnsupportedError

jax = pytest.importorskip("jax")
import jax.extend.core.primitives as jax_primitives  # noqa: E402
import jax.numpy as jnp  # noqa: E402
from jax import lax as jlax  # noqa: E402
from jax._src.lax.windowed_reductions import _select_and_scatter as select_and_scatter  # noqa: E402
from jax.ad_checkpoint import checkpoint_name  # noqa: E402

from quire.importers import from_jax as _table  # noqa: E402, F401
from quire.importers.counterparts import has_counterpart, nested_in  # noqa: E402

from .jax_table import Entry, entries, gradient  # noqa: E402

X = np.array([0.5, -1.0, 2.0], np.float32)
W = (np.arange(6.0).reshape(3, 2) / 5).astype(np.float32)

#: Of the table of operations: those that have all primitives of all of them.
COVERING = (
    "np.linalg.det(x)", "np.intersect1d(x, y, size=5)", "scipy.sparse.linalg.gmres(lambda v: x @ v, y, maxiter=2)[0]",
    "np.fft.rfft(x)", "np.arcsinh(x)", "scipy.special.gammainc(x, y)", "lax.bessel_i1e(x)",
    "random.truncated_normal(x, -1, 1, (20,))", "np.roots(x, strip_zeros=False)", "random.PRNGKey(x)", "np.angle(x)",
    "np.select([x > 1, x < -1], [x, -x], 0)", "np.sinh(x)", "lax.digamma(x)",
    "lax.reduce_window(x, -np.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), 'VALID')",
    "np.searchsorted(x, y)", "np.ldexp(x, y)", "np.isfinite(x)", "np.left_shift(x, y)", "np.bitwise_xor(x, y)",
    "lax.clz(x)", "lax.population_count(x)", "lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN)",
    "lax.reduce_precision(x, 5, 10)", "lax.mulhi(x, y)", "lax.igammac(x, y)", "lax.zeta(x, y)", "lax.betainc(x, y, z)",
    "lax.rng_bit_generator(x, (8,))", "lax.reduce_xor(x, (0,))", "lax.ragged_dot(x, y, z)",
    "lax.conv_transpose(x, y, (2, 2), 'SAME')", "lax.approx_max_k(x, 5)",
    "quire.pure_callback(lambda a: a, x, x, vmap_method='sequential')", "lax.linalg.tridiagonal_solve(x, y, z, w)",
    "lax.linalg.householder_product(x, y)", "lax.linalg.hessenberg(x)", "lax.linalg.tridiagonal(x)", "np.acos(x)",
    "np.asin(x)", "np.atan(x)", "np.atanh(x)", "lax.acosh(x)", "lax.exp2(x)", "lax.tan(x)", "lax.cbrt(x)",
    "lax.unstack(x)", "lax.linalg.qr(x)", "quire.experimental.io_callback(lambda a: a, x, x)",
    "lax.optimization_barrier((x, y))[0] + y", "lax.reduce_window(x, 1.0, lax.mul, (3,), (1,), 'SAME')",
    "(quire.debug.callback(lambda a: None, x), x + 1)[1]", "lax.composite(lambda a: a * 2, 'my.double')(x)",
    "lax.scatter_sub(x, y, z, lax.ScatterDimensionNumbers((1,), (0,), (0,)))",
    "lax.scatter_mul(x, y, z, lax.ScatterDimensionNumbers((1,), (0,), (0,)))",
    "lax.scatter_min(x, y, z, lax.ScatterDimensionNumbers((1,), (0,), (0,)))",
    "lax.scatter_max(x, y, z, lax.ScatterDimensionNumbers((1,), (0,), (0,)))",
    "lax.reduce(x, np.float32(0), lambda a, b: a + b * 2, (1,))", "np.partition(x, 7)", "random.fold_in(x, y)",
    "lax.full_like(x, 2.0) + lax.empty((3,), 'float32') + lax.full((3,), 1.0)", "np.nanprod(x)",
    "quire.vmap(lambda a: (lax.pmax(a, 'i'), lax.all_gather(a, 'i'), lax.ppermute(a, 'i', [(0, 1), (1, 2), (2, 0)])), "
    "axis_name='i')(x)",
    "custom(x)", "lax.logistic(x)", "lax.reduce_window(x, 0.0, lax.add, (1, 3, 3, 1), (1, 1, 1, 1), 'SAME')",
    "lax.reduce_window(x, np.inf, lax.min, (3,), (2,), 'VALID')",
    "quire.vmap(quire.grad(lambda a, b: np.sum(np.tanh(a @ b))), in_axes=(None, 0))(x, y)",
    "quire.checkpoint(lambda a: np.sin(np.sin(a) @ y))(x)", "lax.erfc(x)",
    "lax.cond(y > 0, np.sin, lambda a: a * 2, x)",
    "quire.vmap(lambda a: lax.psum(a, 'i') + lax.axis_index('i'), axis_name='i')(x)", "nn.elu(x)", "lax.cummax(x, 0)",
    "lax.cummin(x, 0)", "np.digitize(x, y)", "lax.cumlogsumexp(x, 0)",
)  # fmt: skip

P = jax_primitives
#: Primitives of JAX that no public function of the table gives, or that need a program of their own.
FURTHER = {
    "select_and_gather_add": lambda x: jax.jvp(
        lambda a: jlax.reduce_window(a, -np.inf, jlax.max, (2,), (1,), "VALID"), (x,), (x * 3,)
    ),
    "threefry2x32": lambda x: P.threefry2x32_p.bind(*[jnp.arange(3, dtype=jnp.uint32)] * 4),
    "name": lambda x: jax.checkpoint(
        lambda a: checkpoint_name(jnp.sin(a), "kept") ** 2,
        policy=jax.checkpoint_policies.save_only_these_names("kept"),
    )(x),
    "eq_to": lambda x: [p.bind(a, b) for p in (P.eq_to_p, P.le_to_p, P.lt_to_p) for a in (x, SPECIAL) for b in (x, SPECIAL[::-1])],
    "select_and_scatter": lambda x: select_and_scatter(
        x, jlax.ge, (2,), (1,), ((0, 0),), x[1:], np.float32(0), lambda a, b: a * b + a
    ),
    "pmin": lambda x: jax.vmap(
        lambda a: (jlax.pmin(a, "i"), jlax.psum_scatter(jnp.stack([a, a, a]), "i"), jlax.all_to_all(jnp.stack([a] * 3), "i", 0, 0)),
        axis_name="i",
    )(x),
    "lu_pivots_to_permutation": lambda x: jax.scipy.linalg.lu_solve(jax.scipy.linalg.lu_factor(W @ W.T + jnp.eye(3)), x),
    "ormqr": lambda x: jax.lax.linalg.qr(W, pivoting=True)[:2],
    "custom_linear_solve": lambda x: jlax.custom_linear_solve(lambda v: v * 2, x, lambda f, b: b / 2, symmetric=True),
    "while": lambda x: jax.vmap(lambda a: jlax.while_loop(lambda c: c[0] < 5, lambda c: (c[0] + 1 + a * 0, c[1] * a), (a, a)))(x),
    "scan": lambda x: jlax.scan(lambda c, a: (jnp.sin(c * a), c), 1.0, x, reverse=True),
    "debug_print": lambda x: (jax.debug.print("{} {k}", x, k=3), x)[1],
    "floor": lambda x: (jnp.floor(x), jnp.ceil(x), jlax.clamp(-0.5, x, 1.0), x <= 0.5),
    "eigh": lambda x: (jnp.abs(jnp.linalg.eigh(W @ W.T)[0]), jnp.linalg.svd(W)[1], jnp.abs(jax.scipy.linalg.schur(W[:2])[0][1, 0])),
    "rng_uniform": lambda x: jlax.rng_uniform(0.0, 1.0, (8,)) >= 0,
    "sharding_constraint": lambda x: jlax.with_sharding_constraint(x, jax.sharding.SingleDeviceSharding(jax.devices()[0])),
    "sort": lambda x: jlax.sort((jnp.round(x), x), num_keys=2),
    "top_k": lambda x: jlax.top_k(x, 2),
    "scatter": lambda x: x.at[jnp.array([0, 7, -1])].apply(jnp.sin, mode="drop"),
    "gather": lambda x: x.at[jnp.array([0, 7, -5])].get(mode="fill", fill_value=9.0),
}  # fmt: skip
SPECIAL = np.array([0.5, np.inf, -np.inf], np.float32)
#: Collectives and keys have tests below; JAX makes no calls of these forms any more.
NOT_TRIED = [
    "all_gather",
    "all_to_all",
    "axis_index",
    "call",
    "closed_call",
    "ppermute",
    "random_gamma",
    "random_split",
]
NO_COUNTERPART = {"after_all", "create_token", "custom_lin", "empty2", "get", "ragged_all_to_all", "swap"}


def flat(tree: Any) -> list[np.ndarray[Any, Any]]:
    """The leaves of results, of quire's or JAX's, as NumPy arrays; keys as their words."""
    leaves = []
    for x in jax.tree_util.tree_leaves(tree):
        kind = type(getattr(x, "dtype", None)).__name__
        leaves.append(np.asarray(x.base if kind == "KeyDType" else jax.random.key_data(x) if kind == "KeyTy" else x))
    return leaves


def same(got: Any, want: Any, rtol: float = 1e-4) -> None:
    got, want = flat(got), flat(want)
    assert len(got) == len(want)
    for g, w in zip(got, want):
        assert (g.shape, g.dtype) == (w.shape, w.dtype)
        if w.dtype.itemsize:
            wide = np.complex128 if w.dtype.kind == "c" else np.float64
            np.testing.assert_allclose(g.astype(wide), w.astype(wide), rtol=rtol, atol=rtol)


def jitted(f: Any, *args: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return jax.jit(f)(*args)


def names_in(jaxpr: Any, found: set[str]) -> set[str]:
    for eqn in jaxpr.eqns:
        found.add(eqn.primitive.name)
        for value in eqn.params.values():
            for inner in nested_in(value):
                names_in(inner, found)
    return found


# -- all primitives ---------------------------------------------------------------------------------------------------------

TABLE = {e.text: e for e in entries()}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("part", range(6))
def test_operations_of_the_table(part):
    for entry in [TABLE[text] for text in COVERING][part::6]:
        f = quire.from_jax(entry.f)
        try:
            same(f(*entry.args), jitted(entry.f, *entry.args))
            if entry.grad:
                want = jitted(gradient(jax, entry.f, entry.args), *entry.args)
                same(gradient(quire, f, entry.args)(*entry.args), want, 1e-3)
        except Exception as error:
            error.add_note(f"operation: {entry.text}")
            raise


@pytest.mark.parametrize("name", FURTHER)
def test_primitives_by_programs_of_their_own(name):
    same(quire.from_jax(FURTHER[name])(X), jitted(FURTHER[name], X))


def test_every_primitive_of_lax_is_tried_or_named():
    """Those that the programs above use, and those without a counterpart, are all that JAX has in `jax.extend`."""
    public = {getattr(jax_primitives, n).name for n in dir(jax_primitives) if n.endswith("_p")}
    assert {n for n in public if not has_counterpart(n)} == NO_COUNTERPART
    used: set[str] = set()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for e in [*(TABLE[t] for t in COVERING), *(Entry(n, f, [X], False) for n, f in FURTHER.items())]:
            names_in(jax.make_jaxpr(e.f)(*e.args).jaxpr, used)
            if e.grad:
                names_in(jax.make_jaxpr(gradient(jax, e.f, e.args))(*e.args).jaxpr, used)
    left = sorted(public - used - NO_COUNTERPART)
    assert left == NOT_TRIED, str(left)


# -- what else is JAX's ---------------------------------------------------------------------------------------------------------


def test_pytrees_static_arguments_and_weak_types():
    def f(p, n, *, scale, deep=None):
        return {"y": [p["w"] * scale, None], "n": (n * 1.0, jnp.sum(p["w"]) * 2)}

    q = quire.from_jax(f, static_argnums=1, static_argnames="deep")
    args = ({"w": X}, 3)
    assert isinstance(q(*args, scale=2.5)["y"][0], quire.Array)
    same(q(*args, scale=2.5, deep=(1, 2)), {"n": (np.float32(3), X.sum() * 2), "y": [X * 2.5]})
    out = quire.jit(lambda x, s: q({"w": x}, 3, scale=s))(X, 2.5)
    assert out["y"][1] is None
    same(quire.from_jax(lambda x: x * 2)(jnp.float16(3)), jnp.float16(6))
    assert quire.from_jax(lambda x: x + 1)(2).weak_type


def test_under_transformations():
    def f(w, x):
        return jnp.sum(jnp.tanh(x @ w) ** 2) + jax.nn.logsumexp(w)

    q = quire.from_jax(f)
    same(quire.jit(quire.grad(q))(W, X), jax.grad(f)(W, X))
    same(quire.hessian(q)(W, X), jax.hessian(f)(W, X), 1e-3)
    xs = np.stack([X, X * 2])
    same(quire.vmap(q, (None, 0))(W, xs), jax.vmap(f, (None, 0))(W, xs))
    same(
        quire.jit(lambda w, xs: quire.lax.scan(lambda c, x: (c + q(w, x), c), 0.0, xs))(W, xs),
        jax.lax.scan(lambda c, x: (c + f(w=W, x=x), c), 0.0, xs),
    )
    collective = quire.from_jax(lambda x: jlax.psum(x, "i") - jlax.axis_index("i"))
    same(quire.vmap(collective, axis_name="i")(X), X.sum() - np.arange(3.0, dtype=np.float32))

    def moving(x):
        rows = jlax.all_gather(x, "i")
        return rows, jlax.ppermute(x, "i", [(0, 1), (1, 2), (2, 0)]), jlax.all_to_all(rows * x, "i", 0, 0)

    same(quire.vmap(quire.from_jax(moving), axis_name="i")(X), jax.vmap(moving, axis_name="i")(X))


def test_a_jaxpr_and_a_traced_stage():
    table = jnp.arange(4.0, dtype=np.float32)
    closed = jax.make_jaxpr(lambda x, i: (x @ W, table[i]))(X, 1)
    q = quire.from_jax(closed)
    same(q(X, 1), [X @ W, table[1]])
    same(quire.jit(q)(X, 1), [X @ W, table[1]])
    same(quire.from_jax(jax.jit(jnp.sin).trace(X))(X), [np.sin(X)])
    with pytest.raises(TypeError, match=r"takes 2 arrays, got 1"):
        q(X)
    with pytest.raises(TypeError, match=r"argument 0 of the jaxpr is f32\[3\], got f32\[2\]"):
        q(X[:2], 1)
    with pytest.raises(TypeError, match="expected a function or a closed jaxpr of JAX, got 3"):
        quire.from_jax(3)


def test_lines_and_names_of_the_user():
    def f(x):
        return jnp.sin(x) * 2

    jaxpr = quire.make_jaxpr(quire.from_jax(f))(X)
    source = jaxpr.eqns[0].source
    assert source.file == __file__ and source.function.endswith("f")
    assert source.line == f.__code__.co_firstlineno + 1


def test_keys():
    def f(key, n):
        keys = jax.random.split(key, 3)
        more = jax.vmap(jax.random.split)(keys)[:, 1]
        last = jlax.scan(lambda k, x: (jax.random.fold_in(k, x), k), keys[0], jnp.arange(3))
        return (
            jax.random.normal(more[1], (2,)),
            jnp.concatenate([keys, more]),
            last,
            jax.random.bits(key, (3,), "uint8"),
        )

    same(quire.from_jax(f)(quire.random.key(7), 3), f(jax.random.key(7), 3))
    got = quire.from_jax(lambda k: k)(quire.random.split(quire.random.key(1)))
    assert got.dtype == quire.random.key_dtype() and got.shape == (2,)
    raw = quire.random.PRNGKey(3)
    same(quire.from_jax(jax.random.uniform)(raw), jax.random.uniform(jax.random.PRNGKey(3)))
    alpha = np.array([0.5, 2.0], np.float32)
    gamma = quire.from_jax(lambda k, a: jax.random.gamma(k, a))
    same(quire.jit(gamma)(quire.random.key(2), alpha), jax.random.gamma(jax.random.key(2), alpha))
    with pytest.raises(UnsupportedError, match="Threefry"):
        quire.from_jax(lambda x: jax.random.key_data(jax.random.key(0, impl="rbg")) + x)(np.uint32(1))


def test_custom_rules_are_kept():
    @jax.custom_jvp
    def forward(x, n):
        return jnp.sin(x) + n

    forward.defjvp(lambda p, t: (forward(*p), t[0] * 3))

    @jax.custom_vjp
    def backward(x, y, n):
        return jnp.sin(x) * y + n

    backward.defvjp(
        lambda x, y, n: (backward(x, y, n), (x, {"y": y}, jnp.cos(x))),
        lambda r, ct: (ct * 5 + r[0] + r[2], None, np.zeros((), jax.dtypes.float0)),
    )

    @jax.custom_batching.custom_vmap
    def batched(x, y):
        return x + y

    batched.def_vmap(lambda size, mapped, x, y: (x * y, True))

    def f(x, y):
        return forward(x * 2, 3) + backward(x, y, 2)

    q = quire.from_jax(f)
    same(quire.grad(q, (0, 1))(0.5, 2.0), jax.grad(f, (0, 1))(0.5, 2.0))
    same(quire.jit(quire.grad(q, (0, 1)))(0.5, 2.0), jax.grad(f, (0, 1))(0.5, 2.0))
    same(quire.vmap(quire.grad(q))(X, X), jax.vmap(jax.grad(f))(X, X))
    same(quire.jvp(quire.from_jax(forward), (X, 1), (X, np.zeros((), quire.float0))), (np.sin(X) + 1, X * 3))
    same(quire.vmap(quire.from_jax(batched), (0, None))(X, X[0]), X * X[0])

    def symbolic(x):
        return [x]

    symbolic = jax.custom_jvp(symbolic)

    def rule(p, t):
        (x,), (dx,) = p, t
        return symbolic(x), [dx * 7 if not isinstance(dx, jax.custom_derivatives.SymbolicZero) else dx]

    symbolic.defjvp(rule, symbolic_zeros=True)
    same(quire.grad(quire.from_jax(lambda x: symbolic(x)[0] + symbolic(2.0)[0]))(1.0), np.float32(7))


def test_policies_of_checkpoint():
    def f(policy):
        return lambda x: jnp.sum(
            jax.checkpoint(lambda a: jnp.sin(checkpoint_name(jnp.sin(a) @ W, "kept")), policy=policy)(x)
        )

    for policy in (None, jax.checkpoint_policies.dots_saveable, jax.checkpoint_policies.save_only_these_names("kept")):
        same(quire.jit(quire.grad(quire.from_jax(f(policy))))(X), jax.grad(f(policy))(X))
    kept = jax.checkpoint_policies.save_only_these_names("kept")
    jaxpr = str(quire.make_jaxpr(quire.value_and_grad(quire.from_jax(f(kept))))(X))
    nothing = jax.checkpoint_policies.nothing_saveable
    without = str(quire.make_jaxpr(quire.value_and_grad(quire.from_jax(f(nothing))))(X))
    assert jaxpr.count("dot_general") < without.count("dot_general")


def test_host_functions(capsys):
    seen: list[Any] = []

    def f(x):
        jax.debug.callback(seen.append, x)
        jax.debug.print("x is {} of {n}", x[0], n=3)
        return jax.pure_callback(lambda a: np.asarray(a) * 2, jax.ShapeDtypeStruct((3,), np.float32), x)

    same(quire.jit(quire.from_jax(f))(X), X * 2)
    assert len(seen) == 1
    assert capsys.readouterr().out == "x is 0.5 of 3\n"


def test_what_has_no_counterpart_is_named_with_its_lines():
    def f(x):
        y = jax.ffi.ffi_call("nowhere", jax.ShapeDtypeStruct((3,), np.float32))(x)
        return jlax.cond(x[0] > 0, lambda: (jax.lax.create_token(), y)[1], lambda: y)

    with pytest.raises(UnsupportedError) as error:
        quire.from_jax(f)(X)
    text = str(error.value)
    line = f.__code__.co_firstlineno
    assert f"ffi_call (at {__file__}:{line + 1}, in " in text
    assert f"create_token (at {__file__}:{line + 2}, in " in text
    with pytest.raises(UnsupportedError, match="64-bit dtypes are off"), jax.enable_x64(True):
        quire.from_jax(jax.make_jaxpr(jnp.sin)(np.float64(1)))
    with pytest.raises(TypeError, match="List it in static_argnums"):
        quire.from_jax(lambda x, s: x)(X, "text")


def test_64_bits():
    with quire.enable_x64(True):
        same(quire.from_jax(lambda x: jnp.sin(x) * 2)(np.float64(0.5)), np.sin(0.5) * 2, 1e-14)
    assert quire.from_jax(lambda x: x * 2)(np.float64(0.5)).dtype == np.float32


def test_products_of_floats_as_integers():
    def f(x):
        return jnp.matmul(x, x, preferred_element_type=jnp.int32)

    x = np.array([[1.7, 2.5], [0.6, -3.2]], np.float32)
    np.testing.assert_array_equal(quire.from_jax(f)(x), f(x))
