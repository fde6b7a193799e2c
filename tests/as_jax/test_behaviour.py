"""Behaviour that libraries rely on, beyond names: each snippet runs under JAX and under quire, and gives the same."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import quire

jax = pytest.importorskip("jax")


def described(api: Any, tree: Any) -> Any:
    """A tree with each array as its dtype, shape, weak type and elements; other leaves as they are."""

    def leaf(x: Any) -> Any:
        if not hasattr(x, "dtype"):
            return x
        values = np.asarray(x)
        kept = values.tolist() if values.dtype.kind in "biu" else np.round(values.astype(np.float64), 5).tolist()
        return (str(x.dtype), x.shape, bool(getattr(x, "weak_type", False)), kept)

    return api.tree_util.tree_map(leaf, tree)


def weak_types_of_derivatives(api: Any) -> Any:
    np_ = api.numpy
    f = lambda x: x * 2  # noqa: E731
    return [
        api.grad(f)(1.0), api.grad(lambda x: np_.sin(x) ** 3)(1.0), api.vjp(f, 1.0)[1](1.0),
        api.jvp(f, (1.0,), (1.0,)), api.grad(lambda x: np_.sum(np_.arange(3.0) * x))(2.0),
        api.grad(lambda x: np_.sum(f(x)))(np_.ones(2)), api.value_and_grad(lambda x: x**2)(np.float32(3)),
        api.jit(api.grad(lambda x: x**3))(2.0), api.grad(api.grad(lambda x: x**4))(1.5),
        api.grad(lambda x, y: x * np_.sum(y), (0, 1))(2.0, np_.ones(2)),
    ]  # fmt: skip


def cotangents_of_none(api: Any) -> Any:
    @api.custom_vjp
    def f(p: Any, x: Any) -> Any:
        return p["a"] * x

    f.defvjp(lambda p, x: (f(p, x), (p, x)), lambda r, g: ({"a": g * r[1], "b": None, "c": None}, None))
    p = {"a": 2.0, "b": (1.0, np.ones(2, np.float32)), "c": None}
    return [api.grad(f, (0, 1))(p, 3.0), api.jit(api.grad(f, (0, 1)))(p, 3.0)]


def residuals_that_are_numbers(api: Any) -> Any:
    @api.custom_vjp
    def f(x: Any) -> Any:
        return x * 2

    seen = []

    def backward(r: Any, g: Any) -> Any:
        seen.append([isinstance(n, kind) for n, kind in ((r[0], bool), (r[1], int), (r[3], float))])
        return (g * r[2] * (3 if r[0] else 5) + r[1],)

    f.defvjp(lambda x: (f(x), (True, 7, x, 0.5)), backward)
    out = [api.grad(f)(2.0), api.jit(api.grad(f))(2.0), api.vmap(api.grad(f))(np.arange(3, dtype=np.float32))]
    return [out, seen]


def bounds_of_one_element(api: Any) -> Any:
    key, one = api.random.key(0), np.zeros(1, np.float32)
    return [api.random.uniform(key, s, minval=one, maxval=2.0) for s in ((), (1,), (3,))]


def ranges_with_a_step_and_no_stop(api: Any) -> Any:
    calls = [((11,), 3), ((5,), 1), ((5.5,), 2), ((2, 9), 2), ((5,), -1), ((-5,), -2), ((3,), 0.5)]
    return [[api.numpy.arange(*a, step=s), api.jit(lambda a=a, s=s: api.numpy.arange(*a, step=s))()] for a, s in calls]


def loops_that_ask_for_their_lane(api: Any) -> Any:
    lax, zeros = api.lax, np.zeros(4, np.int32)

    def count(x: Any) -> Any:
        return lax.while_loop(lambda x: x < lax.axis_index("i"), lambda x: x + 2, x)

    halves = lambda x: lax.fori_loop(0, 4, lambda k, c: c * 0.5 + lax.axis_index("i") * k, x)  # noqa: E731
    return [
        api.vmap(count, axis_name="i")(zeros), api.vmap(api.jit(count), axis_name="i")(zeros),
        api.vmap(lambda _, x: count(x), in_axes=(0, None), axis_name="i")(zeros, 0),
        api.jit(api.vmap(halves, axis_name="i"))(np.ones(4, np.float32)),
    ]  # fmt: skip


def symbolic_zeros(api: Any) -> Any:
    @api.custom_vjp
    def f(x: Any, y: Any) -> Any:
        return x * y

    def forward(x: Any, y: Any) -> Any:
        return x.value * y.value, (x.perturbed, y.perturbed, y.value)

    f.defvjp(forward, lambda r, g: (r[2] * g if r[:2] == (True, False) else None, None), symbolic_zeros=True)
    return api.grad(lambda x: f(x, 3.0))(2.0)


def custom_rules_of_partials(api: Any) -> Any:
    g = api.custom_jvp(functools.partial(lambda x, y: x * y, y=3.0))
    g.defjvp(lambda p, t: (g(*p), 4.0 * t[0]))

    @functools.partial(api.custom_jvp, nondiff_argnums=(1, 3))
    def h(x: Any, axis: Any = None, scale: Any = 2.0, twice: bool = False) -> Any:
        return api.numpy.sum(x, axis) * scale * (2 if twice else 1)

    h.defjvp(lambda axis, twice, p, t: (h(p[0], axis, p[1], twice), 7.0 * api.numpy.sum(t[0], axis)))
    x = np.ones((2, 3), np.float32)
    return [g(2.0), api.grad(g)(2.0), h(x, twice=True), api.grad(lambda x: h(x, twice=True))(x)]


def shapes_of_functions_that_close_over_tracers(api: Any) -> Any:
    def f(x: Any) -> Any:
        n = api.eval_shape(lambda y: x + y, api.ShapeDtypeStruct((3,), "float32")).shape[0]
        return n * len(api.make_jaxpr(lambda y: x + y)(1.0).jaxpr.eqns) * x

    return [api.jit(f)(2.0), api.grad(f)(2.0)]


def types_in_place_of_arrays(api: Any) -> Any:
    class Typed:
        shape, dtype = (3,), np.dtype("float32")

    aval = api.core.ShapedArray((2,), np.dtype("float32"))
    double = lambda x: x * 2  # noqa: E731
    return [
        api.eval_shape(double, Typed()).shape, api.eval_shape(double, aval).shape,
        api.linear_transpose(double, Typed())(np.ones(3, np.float32)),
        api.linear_transpose(double, aval)(np.ones(2, np.float32)),
        api.make_jaxpr(double)(Typed()).out_avals[0].shape, api.jit(double).lower(aval).compile()(np.ones(2, np.float32)),
        api.ShapeDtypeStruct((2,), "float32").update(shape=(3,), dtype="int32").shape,
    ]  # fmt: skip


def compile_time_evaluation(api: Any) -> Any:
    def f(x: Any) -> Any:
        with api.ensure_compile_time_eval():
            y = api.numpy.sin(x) + api.numpy.cos(api.numpy.arange(3.0))
            n = int(api.numpy.sum(api.numpy.arange(4)))
        return y * n

    g = api.vmap(lambda x: api.lax.scan(lambda c, _: (f(c).sum(), c), x, None, length=2))
    return [api.jit(f)(2.0), api.grad(lambda x: f(x).sum())(1.0), g(np.ones(2, np.float32))]


def dictionaries_in_sorted_order(api: Any) -> Any:
    orders: list[Any] = []

    def f(d: Any) -> Any:
        orders.append(list(d))
        return d

    tree = {"b": 1.0, "a": {"d": 2.0, "c": (3.0, 4.0)}}
    for out in (
        api.jit(f)(tree),
        api.tree_util.tree_map(lambda x: x + 1, tree),
        api.vmap(f)({"y": np.ones(2), "x": np.ones(2)}),
    ):
        orders.append([list(out), [list(v) for v in out.values() if isinstance(v, dict)]])
    api.grad(lambda d: f(d)["b"] * 2)({"b": 1.0, "a": 2.0})
    return orders


def conditions_with_two_operands(api: Any) -> Any:
    cond = api.lax.cond
    return [cond(c, 1.0, lambda x: x + 1, 2.0, lambda y: y * 5) for c in (True, False)]


def functions_without_names(api: Any) -> Any:
    class Function:
        __name__ = None

        def __call__(self, x: Any) -> Any:
            return x + 1

    return [api.vmap(Function())(np.arange(3.0, dtype=np.float32)), api.grad(Function())(1.0), api.jit(Function())(1.0)]


def texts_and_modules(api: Any) -> Any:
    lowered = api.jit(lambda x: api.numpy.sin(x)).lower(1.0)
    module = lowered.compiler_ir("stablehlo")
    text = lowered.as_text(dialect="stablehlo")
    return [
        "@main(%arg0: tensor<f32>" in text,
        "@main(%arg0: tensor<f32>" in str(module),
        "loc(" in lowered.as_text(debug_info=True),
    ]


def pullbacks_are_pytrees(api: Any) -> Any:
    np_ = api.numpy

    @api.jit
    def forward(x: Any, y: Any) -> Any:
        return api.vjp(lambda x, y: {"a": np_.sin(x) * y, "b": np_.sum(x)}, x, y)

    x, y = np.arange(3, dtype=np.float32), np.float32(2.0)
    out, pull = forward(x, y)
    ct = {"a": np.ones(3, np.float32), "b": np.float32(3.0)}
    twice = api.tree_util.tree_map(lambda r: r * 1, pull)
    return [
        out,
        pull(ct),
        api.jit(lambda p, ct: p(ct))(pull, ct),
        twice(ct),
        api.grad(lambda x: forward(x, y)[1](ct)[1])(x),
    ]


def what_is_like_an_array(api: Any) -> Any:
    from_typing = api.typing.ArrayLike
    return [
        isinstance(x, from_typing) for x in (1, 2.0, True, np.ones(2), np.float32(1), api.numpy.ones(2), "a", [1.0])
    ]


def rules_of_vmap_under_derivatives(api: Any) -> Any:
    seen: list[Any] = []

    @api.custom_batching.custom_vmap
    def f(x: Any, y: Any) -> Any:
        return api.numpy.sin(x) * y

    @f.def_vmap
    def rule(size: int, batched: Any, xs: Any, ys: Any) -> Any:
        seen.append(list(batched))
        return api.numpy.cos(xs) * ys, batched[0] or batched[1]

    xs, one = np.arange(3.0, dtype=np.float32), np.float32(0.5)
    derivative = lambda x, y, tx, ty: api.jvp(f, (x, y), (tx, ty))  # noqa: E731
    found = [
        api.vmap(derivative)(xs, xs, xs, xs), api.vmap(derivative, (0, None, 0, None))(xs, one, xs, one),
        api.vmap(derivative, (0, None, None, None))(xs, one, one, one),
        api.vmap(derivative, (None, None, 0, None), (None, 0))(one, one, xs, one), api.jacfwd(f)(xs, xs),
        api.jvp(api.vmap(f), (xs, xs), (xs, xs)), api.vmap(api.vmap(derivative, (0, None, 0, None)), (None, 0, None, 0))(xs, xs, xs, xs),
    ]  # fmt: skip
    return found, seen


def cotangents_of_integers(api: Any) -> Any:
    pull = api.vjp(lambda x: (x, np.int32(3)), np.float32(1))[1]
    return [pull((np.float32(2), c)) for c in (1, np.int32(2), np.float32(3))]


def conditions_that_pass_values_on(api: Any) -> Any:
    def f(x: Any, y: Any, z: Any) -> Any:
        return api.lax.cond(x < 3, lambda x, y, z: (x * 2, y, z), lambda x, y, z: (x * 3, y, x + 0 * z), x, y, z)

    return api.vmap(f, (0, None, None), (0, None, 0))(np.arange(5, dtype=np.int32), np.float32(3), np.int32(4))


def loops_by_numbers_of_every_kind(api: Any) -> Any:
    lax = api.lax
    halves = lax.fori_loop(0.5, 3.0, lambda i, c: c + i, 0.0)
    with api.disable_jit():
        lanes = api.vmap(lambda x: lax.while_loop(lambda c: c < 5, lambda c: c * 2, x))(
            np.arange(1.0, 4.0, dtype=np.float32)
        )
    return halves, lanes, [lax.map(lambda x: x * 2, np.arange(5), batch_size=n) for n in (0, 1, 2, 8)]


def evaluations_of_primitives_replaced(api: Any) -> Any:
    sin_p, calls = api.lax.sin_p, []
    own = sin_p.impl
    try:
        sin_p.def_impl(lambda x, **params: calls.append(1) or own(x, **params))
        found = api.lax.sin(np.float32(1))
    finally:
        sin_p.def_impl(own)
    return found, len(calls), api.lax.sin(np.float32(1)), len(calls)


def sums_over_sizes_of_one(api: Any) -> Any:
    x, y = np.arange(20.0, dtype=np.float32).reshape(1, 4, 5), np.arange(18.0, dtype=np.float32).reshape(3, 1, 6)
    return api.numpy.einsum("cij,cjk->cik", x, y), api.numpy.einsum("cij,cjk->k", x[0:1], y)


def nodes_of_trees(api: Any) -> Any:
    t = api.tree_util
    pair = t.tree_structure([0, 0])
    found: list[Any] = [t.is_tree_node(c) for c in (list, dict, tuple, int, type(None))]
    found += [t.default_registry.flatten_one_level(3), list(t.flatten_one_level([1, (2,)])[0])]
    for f in (
        lambda: t.flatten_one_level(3),
        lambda: t.flatten_one_level_with_keys(3),
        lambda: t.tree_transpose(pair, pair, [[1, 2], [3]]),
        lambda: api.jit(lambda a, /, *args: a, static_argnames=("a",)),
        lambda: api.jit(lambda a, *args: a, static_argnames=("args",)),
        lambda: api.jit(lambda a, *args: a, static_argnums=(0, -99)) and None,
        lambda: len(api.ShapeDtypeStruct((), "float32")),
        lambda: len(api.ShapeDtypeStruct((3, 2), "float32")),
    ):
        try:
            found.append(f())
        except (TypeError, ValueError) as error:
            found.append(type(error).__name__)
    return found


def copies_that_are_asked_for(api: Any) -> Any:
    x = api.numpy.arange(3)
    y = api.device_put(x, may_alias=False)
    return y is x, api.device_put(x, may_alias=True) is x, y


def signs_of_every_dtype(api: Any) -> Any:
    return [api.random.rademacher(api.random.key(0), (6,), d) for d in ("float32", "int8", "uint8", "bool")]


def static_indices(api: Any) -> Any:
    def reads(index: Any) -> list[Any]:
        return [lambda x: x[index], api.jit(lambda x: x.at[index].get()), lambda x: x.at[index].get(mode="clip")]

    found = []
    x = api.numpy.arange(6.0).reshape(2, 3)
    api.config.update("jax_check_static_indices", True)
    try:
        for read in (f for i in (1, -3, (0, 3), (slice(5), -4), ([0, 1], 7), (None, 1, 2)) for f in reads(i)):
            try:
                found.append(read(x))
            except IndexError:
                found.append("outside")
    finally:
        api.config.update("jax_check_static_indices", False)
    return found


def donations_of_arguments(api: Any) -> Any:
    f = api.jit(lambda x, c, *, y: x + c["a"] + y, donate_argnums=(0,))
    traced = f.trace(np.ones(3, np.float32), {"a": 2.0}, y=np.float32(1))
    infos = api.tree_util.tree_leaves([traced.args_info, traced.lower().args_info])
    return [(i.shape, str(i.dtype), i.donated) for i in infos]


def types_of_keys(api: Any) -> Any:
    key = api.random.key(0)
    kept = api.ShapeDtypeStruct.like(key)
    shaped = api.eval_shape(lambda k: k, kept)
    found = [str(api.numpy.result_type(key)), str(api.dtypes.result_type(key, key)), shaped == kept, shaped != kept]
    found += [str(key.dtype) == str(kept.dtype), key.copy_to_host_async()]
    try:
        found.append(api.numpy.result_type(key, 1.0))
    except (TypeError, ValueError):
        found.append("refused")
    return found


def functions_by_platform(api: Any) -> Any:
    f = lambda x: api.lax.platform_dependent(x, cpu=api.numpy.sin, default=api.numpy.cos)  # noqa: E731
    x = np.arange(3.0, dtype=np.float32)
    found = [
        f(x),
        api.jit(f)(x),
        api.vmap(f)(x),
        api.grad(f)(1.0),
        api.lax.platform_dependent(x, tpu=api.numpy.exp, default=lambda x: x),
    ]
    for wrong in ({"tpu": api.numpy.sin}, {"gpu": api.numpy.sin}, {"cpu": 3}):
        try:
            api.lax.platform_dependent(x, **wrong)
        except (NotImplementedError, ValueError, TypeError) as error:
            found.append(type(error).__name__)
    return found


def minima_of_functions_of_complex_numbers(api: Any) -> Any:
    z0 = np.array([1.0, 2.0 - 3.0j, -5.0j], np.complex64)

    def f(z: Any) -> Any:
        return api.numpy.sum(api.numpy.array([1.0, 2.0, 0.5]) * api.numpy.abs(z - z0) ** 2)

    import importlib

    found = importlib.import_module(f"{api.__name__}.scipy.optimize").minimize(
        f, np.zeros(3, np.complex64), method="l-bfgs-experimental-do-not-rely-on-this", options={"gtol": 1e-5}
    )
    x = np.asarray(found.x)
    return (
        str(found.x.dtype),
        np.round(x.real, 3).tolist(),
        np.round(x.imag, 3).tolist(),
        found.jac.dtype,
        bool(found.success),
    )


SNIPPETS = [
    donations_of_arguments, types_of_keys, functions_by_platform, minima_of_functions_of_complex_numbers,
    rules_of_vmap_under_derivatives, cotangents_of_integers, conditions_that_pass_values_on, loops_by_numbers_of_every_kind,
    evaluations_of_primitives_replaced, sums_over_sizes_of_one, nodes_of_trees, copies_that_are_asked_for, signs_of_every_dtype,
    static_indices,
    pullbacks_are_pytrees, what_is_like_an_array, bounds_of_one_element, loops_that_ask_for_their_lane, ranges_with_a_step_and_no_stop,
    weak_types_of_derivatives, cotangents_of_none, residuals_that_are_numbers, symbolic_zeros, custom_rules_of_partials,
    shapes_of_functions_that_close_over_tracers, types_in_place_of_arrays, compile_time_evaluation,
    dictionaries_in_sorted_order, conditions_with_two_operands, functions_without_names, texts_and_modules,
]  # fmt: skip


@pytest.mark.parametrize("snippet", SNIPPETS, ids=lambda f: f.__name__)
def test_as_under_jax(snippet: Any) -> None:
    assert described(quire, snippet(quire)) == described(jax, snippet(jax))


def test_tolerances_by_dtype() -> None:
    from quire.test_util import check_grads

    wrong = quire.custom_jvp(lambda x: quire.numpy.sin(x))
    wrong.defjvp(lambda p, t: (wrong(*p), 2 * t[0] * quire.numpy.cos(p[0])))
    loose = {np.dtype("float32"): 5.0}
    check_grads(wrong, (np.float32(0.5),), 1, atol=loose, rtol=loose)
    with pytest.raises(AssertionError):
        check_grads(wrong, (np.float32(0.5),), 1, atol={np.float64: 5.0}, rtol={np.float64: 5.0})


def test_what_xla_alone_has_says_so() -> None:
    lowered = quire.jit(lambda x: x + 1).lower(1.0)
    with pytest.raises(NotImplementedError, match="programs are run by IREE, so there is no executable of XLA"):
        lowered.compile().runtime_executable()
    with pytest.raises(ValueError, match="Unknown dialect: hlo. Programs are lowered to StableHLO"):
        lowered.as_text(dialect="hlo")
    with pytest.raises(ValueError, match="give a stage or a dialect, not both"):
        lowered.as_text("jaxpr", dialect="stablehlo")
    with pytest.raises(TypeError, match="ShapeDtypeStruct.update: unknown size"):
        quire.ShapeDtypeStruct((2,), "float32").update(size=3)
