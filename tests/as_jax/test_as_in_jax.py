"""Programs as users of JAX write them, run unchanged under JAX and under quire: functions that are values, rules and their errors."""

from __future__ import annotations

import collections.abc
import functools
import threading
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import quire

from .test_behaviour import described

jax = pytest.importorskip("jax")

X = np.arange(1, 4, dtype=np.float32)


def outcome(f: Callable[[], Any]) -> Any:
    """What it gives, or the name of the error that it raises."""
    try:
        return f()
    except Exception as error:
        return type(error).__name__.removeprefix("Jax")


def functions_of_derivatives_are_pytrees(api: Any) -> Any:
    sin, tree_map = api.numpy.sin, api.tree_util.tree_map
    linearized = api.jit(lambda x, y: api.linearize(lambda x, y: {"a": sin(x) * y, "b": x * y}, x, y))
    out, push = linearized(X, np.float32(2))
    tangents = (np.ones(3, np.float32), np.float32(0.5))
    doubled = tree_map(lambda r: r * 2, push)
    of_table = api.linear_transpose(lambda x: api.numpy.take(W, np.array([0, 2]), 0) @ x, X[:2])
    return [
        out, push(*tangents), api.jit(lambda p, *ts: p(*ts))(push, *tangents), doubled(*tangents),
        api.vmap(push, (0, None))(np.eye(3, dtype=np.float32), np.float32(0)),
        of_table(np.ones(2, np.float32)), api.jit(lambda t, ct: t(ct))(of_table, np.ones(2, np.float32)),
    ]  # fmt: skip


W = np.arange(6, dtype=np.float32).reshape(3, 2)


def arguments_that_pullbacks_keep(api: Any) -> Any:
    _, pull = api.vjp(lambda x, w: api.numpy.sin(x @ w), X, W)
    before = pull(np.ones(2, np.float32))
    kept = [getattr(a, "shape", type(a).__name__) for a in pull.args_res]
    pull.args_res = [X, 2 * W]
    after = pull(np.ones(2, np.float32))
    _, product = api.vjp(lambda x, y: x * y, np.float32(3), np.float32(5))
    product.args_res[0] = np.float32(7)
    key, f = api.random.key(0), lambda d, k, x: d["a"] * x * x * api.random.uniform(k)
    arguments = ({"a": np.float32(3), "b": None}, key, np.float32(2))
    with_none = [api.vjp(f, *arguments)[1], api.jit(lambda *a: api.vjp(f, *a)[1])(*arguments)]
    assert type(with_none[0].args_res[1]).__name__ == "NotNeeded"
    return before, kept, after, product(np.float32(1)), [p(np.float32(1))[0::2] for p in with_none]


def transposes_of_integers(api: Any) -> Any:
    n = np.arange(3, dtype=np.int32)
    return [
        api.linear_transpose(lambda x: x * 2, n)(n), outcome(lambda: api.linear_transpose(lambda x: x * 2.5, n)(X)),
        api.linear_transpose(lambda x, y: x * 2, X, X)(X),
    ]  # fmt: skip


def errors_of_derivatives(api: Any) -> Any:
    identity = lambda x: x  # noqa: E731
    push = api.linearize(lambda x: x * 2, X)[1]
    return [outcome(f) for f in (
        lambda: api.grad(identity, argnums=1)(2.0), lambda: api.jacrev(identity, argnums=1)(2.0),
        lambda: api.vjp(lambda x: (x, x), X)[1](X), lambda: push(X, X), lambda: push(X[:2]),
        lambda: push(np.arange(3, dtype=np.int32)), lambda: api.jvp(identity, (X,), (X[:2],)),
        lambda: api.checkpoint(lambda x: x if x > 0 else -x)(2.0),
        lambda: api.checkpoint(identity, static_argnums=1)(2.0),
    )]  # fmt: skip


def what_jit_and_pmap_refuse(api: Any) -> Any:
    def generator(x: Any) -> Any:
        yield x

    return [outcome(f) for f in (
        lambda: api.jit(staticmethod(lambda x: x)), lambda: api.jit(generator)(X),
        lambda: api.jit(max, donate_argnames="x")(X), lambda: api.pmap(lambda x: x, in_axes="a")(X),
        lambda: api.pmap(lambda x: x, out_axes=1.5)(X), lambda: hash(api.numpy.ones(2)),
    )]  # fmt: skip


def checkpoints_trace_once(api: Any) -> Any:
    traced = []

    def f(x: Any, scale: Any = 2.0) -> Any:
        traced.append(x.shape)
        return api.numpy.sin(api.numpy.sin(x)) * scale

    g = api.checkpoint(f)
    found = [g(X), g(X + 1), api.grad(lambda x: g(x).sum())(X), api.checkpoint(f)(X), g(X[:2]), g(X, scale=X)]
    return found, traced


def rules_given_to_what_wraps_a_function(api: Any) -> Any:
    @api.custom_batching.custom_vmap
    @api.custom_vjp
    def f(x: Any) -> Any:
        return x * 2

    f.defvjp(lambda x: (x * 2, None), lambda _, g: (g * 7,))
    f.def_vmap(lambda size, batched, xs: (xs * 3, batched[0]))
    return api.vmap(f)(X), outcome(lambda: f.no_such_method)


def values_without_perturbations(api: Any) -> Any:
    values = api.custom_derivatives.custom_vjp_primal_tree_values

    @api.custom_vjp
    def f(p: Any, x: Any) -> Any:
        return p["a"] * x

    f.defvjp(
        lambda *args: (f(*values(args)), values(args)),
        lambda r, g: ({"a": g * r[1]}, g * r[0]["a"]),
        symbolic_zeros=True,
    )
    return api.grad(f, (0, 1))({"a": 2.0}, 3.0), outcome(lambda: values([1]))


def cotangents_of_other_shapes(api: Any) -> Any:
    @api.custom_vjp
    def f(x: Any) -> Any:
        return x.sum()

    f.defvjp(lambda x: (x.sum(), None), lambda _, g: (g,))
    found = [outcome(lambda: api.grad(f)(X))]
    api.config.update("jax_disable_bwd_checks", True)
    try:
        found.append(api.numpy.shape(api.grad(f)(X)))
    finally:
        api.config.update("jax_disable_bwd_checks", False)
    return found


def blocks_without_tracing(api: Any) -> Any:
    f = api.jit(lambda x: x + 1)
    f(X)
    with api.no_tracing():
        found = [f(X), outcome(lambda: f(X[:2])), outcome(lambda: api.make_jaxpr(lambda x: x * 3)(2.0))]
    with api.no_execution():
        found.append(outcome(lambda: f(X)))
    return [*found, f(X[:2])]


def values_fetched(api: Any) -> Any:
    x = api.numpy.ones(2)
    fetched = api.device_get([1, True, 2.5, np.float32(3), x])
    copied = api.copy_to_host_async([1, x])
    return [
        [type(v).__name__ for v in fetched], copied[1] is x, copied[0],
        isinstance(x, collections.abc.Hashable),
    ]  # fmt: skip


def collectives_within_custom_rules(api: Any) -> Any:
    """The rules are applied after vmap, and still know its axis."""
    psum = functools.partial(api.lax.psum, axis_name="i")

    @api.custom_jvp
    def f(x: Any) -> Any:
        return x * psum(x)

    f.defjvp(lambda p, t: (f(*p), 2 * t[0] * psum(p[0]) + p[0] * psum(t[0])))

    @api.custom_vjp
    def g(x: Any) -> Any:
        return x * psum(x)

    g.defvjp(lambda x: (g(x), (x, psum(x))), lambda r, ct: (3 * ct * r[1] + psum(ct * r[0]),))
    lanes = lambda h: api.vmap(h, axis_name="i")  # noqa: E731
    return [
        api.grad(lambda x: lanes(f)(x).sum())(X), api.jvp(lanes(f), (X,), (X,)), lanes(api.grad(f))(X),
        api.grad(lambda x: lanes(g)(x).sum())(X), lanes(api.grad(g))(X), api.jit(api.jacrev(lanes(g)))(X),
        api.grad(lambda c: lanes(lambda x: f(x * c))(X).sum())(2.0),
        api.grad(lambda c: lanes(lambda x: x * f(c))(X).sum())(2.0),
        api.grad(lambda c: lanes(lambda x: g(x * c))(X).sum())(2.0),
    ]  # fmt: skip


def traced_with_axes(api: Any) -> Any:
    made = api.make_jaxpr(lambda x: api.lax.psum(x, "i"), axis_env=[("i", 4)])(X)
    return [v.aval.shape for v in made.jaxpr.outvars], made.jaxpr.eqns[0].params["axes"]


def dtypes_of_64_bits(api: Any) -> Any:
    """Allowed one by one, where they were asked for."""
    np_ = api.numpy
    api.config.update("jax_explicit_x64_dtypes", "allow")
    try:
        x = np_.ones(3, "float64")
        found = [
            x, x + 1, x * np.float32(2), np_.arange(3, dtype="int64") + np.int32(1), np_.ones(2), np_.arange(2), x.astype("float32"),
            np_.sum(x), api.jit(lambda x: np_.sin(x) * 2)(x), api.grad(lambda x: np_.sum(x**2))(x), np_.result_type("float64", "float32"),
            api.numpy.float64(2), np_.zeros_like(x), np_.linspace(0, 1, 3), np_.asarray([1.5]), np_.float32(1) + np_.float64(2),
        ]  # fmt: skip
    finally:
        api.config.update("jax_explicit_x64_dtypes", "warn")
    return found


def options_of_blocks_and_of_the_process(api: Any) -> Any:
    config, state = api.config, api.enable_x64
    found = [state.value, state.name, outcome(lambda: bool(state))]
    dtype = lambda: str(api.numpy.ones(1, float).dtype)  # noqa: E731
    try:
        with api.enable_x64(True):
            config.update("jax_enable_x64", False)
            config.update("jax_numpy_rank_promotion", "raise")
            found += [
                config.jax_enable_x64,
                config.jax_numpy_rank_promotion,
                dtype(),
                state.get_global(),
                state.get_local(),
            ]
            state.set_global(True)
            with api.enable_x64(False):
                config.update("jax_enable_x64", True)
                found += [config.jax_enable_x64, dtype(), state.get_global()]
        found += [config.jax_enable_x64, config.jax_numpy_rank_promotion, dtype()]
        state.set_global(False)
        entered, changed, seen = threading.Event(), threading.Event(), []

        def other() -> None:
            with api.enable_x64(True):
                api.jit(lambda x: x)(1.0)
                entered.set()
                changed.wait()
                seen.append((config.jax_enable_x64, config.jax_numpy_rank_promotion))

        thread = threading.Thread(target=other)
        thread.start()
        entered.wait()
        config.update("jax_numpy_rank_promotion", "allow")
        changed.set()
        thread.join()
        before = state.swap_local(True)
        found += [seen, state.value, state.get_global(), state.get_local(), dtype()]
        state.set_local(before)
        found += [state.value, dtype()]
    finally:
        config.update("jax_enable_x64", False)
        config.update("jax_numpy_rank_promotion", "allow")
    return found


def warned(f: Callable[[], Any]) -> Any:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = outcome(f)
    return str(getattr(found, "dtype", found)), any("Explicitly requested dtype" in str(w.message) for w in caught)


def requests_of_64_bits(api: Any) -> Any:
    n, lax, r, x, m = api.numpy, api.lax, api.random, api.numpy.ones(2), api.numpy.ones((2, 2))
    key = r.key(0)
    found = [
        warned(lambda d=d, f=f: f(d))
        for d in (np.dtype("float64"), "float64", np.float64, n.float64, float, np.dtype("int64"), "int64", int)
        for f in (
            lambda d: n.zeros(1, d), x.astype, lambda d: n.array([1], d), lambda d: lax.convert_element_type(x, d),
            lambda d: lax.full((1,), 1, d),lambda d: lax.iota(d, 2),
            lambda d: lax.broadcasted_iota(d, (2, 2), 0),
        )
    ]  # fmt: skip
    pairs = (((1,), (0,)), ((), ()))
    found += [warned(f) for f in (
        lambda: lax.dot(m, m, preferred_element_type="float64"), lambda: lax.argmax(m, 0, "int64"),
        lambda: lax.dot_general(m, m, pairs, preferred_element_type=np.float64), lambda: lax.bitcast_convert_type(x, "int64"),
        lambda: r.normal(key, (2,), "float64"), lambda: r.normal(key, (2,), float), lambda: r.bits(key, (2,), "uint64"),
        lambda: n.sum(x, dtype=np.dtype("float64")), lambda: x.view("int64"), lambda: n.eye(2, dtype=np.float64),
        lambda: lax.conv_general_dilated(m[None, None], m[None, None], (1, 1), "VALID", preferred_element_type="float64"),
    )]  # fmt: skip
    pair = [
        (float, "float32"),
        ("float64", "float32"),
        (float, int),
        (np.int64, "int32"),
        (bool, int),
        (n.float64, n.int64),
    ]
    limits = [(n.finfo(d).bits, n.finfo(d).dtype) for d in (float, "float64", np.complex128, np.float32, x)]
    return found, [str(n.promote_types(*p)) for p in pair], limits, [n.iinfo(d).max for d in (int, "int64", np.int32)]


def tangents_of_keys(api: Any) -> Any:
    key, uniform = api.random.key(0), api.random.uniform
    one, keys, zero = np.float32(1), api.random.split(key, 3), np.zeros((), api.dtypes.float0)
    seen: list[Any] = []
    found: list[Any] = []
    kinds = lambda *ts: seen.append([(type(t).__name__ == "SymbolicZero", t.dtype == zero.dtype, t.shape) for t in ts])  # noqa: E731

    def derivatives(f: Any) -> None:
        loss = lambda x, k: f(x, k, 3)[0]  # noqa: E731
        found.extend([
            api.grad(loss)(one, key), api.jit(api.grad(loss))(one, key), api.vmap(api.grad(loss), (None, 0))(one, keys),
            api.jit(api.grad(lambda x: api.vmap(f, (None, 0, None))(x, keys, 3)[0].sum()))(one),
        ])  # fmt: skip

    for symbolic in (False, True):

        @api.custom_jvp
        def f(x: Any, k: Any, n: Any) -> Any:
            return x * uniform(k), k, n

        def rule(primals: Any, tangents: Any, f: Any = f) -> Any:
            kinds(*tangents[1:])
            return f(*primals), (2 * tangents[0] * uniform(primals[1]), tangents[1], tangents[2])

        f.defjvp(rule, symbolic_zeros=symbolic)
        derivatives(f)

        @api.custom_vjp
        def g(x: Any, k: Any, n: Any) -> Any:
            return x * uniform(k), k, n

        def forward(x: Any, k: Any, n: Any, g: Any = g, symbolic: bool = symbolic) -> Any:
            x, k, n = (v.value for v in (x, k, n)) if symbolic else (x, k, n)
            return g(x, k, n), k

        def backward(k: Any, cts: Any) -> Any:
            kinds(*cts[1:])
            return cts[0] * uniform(k) * 3, zero if k.shape == () else None, None

        g.defvjp(forward, backward, symbolic_zeros=symbolic)
        derivatives(g)
    both = lambda k, x: (k, x * uniform(k))  # noqa: E731
    shapes = lambda *ts: [(t.shape, t.dtype) for t in ts]  # noqa: E731
    _, (of_key, tangent) = api.jvp(both, (key, np.float32(2)), (zero, np.float32(1)))
    found += [tangent, shapes(of_key), shapes(api.jvp(lambda k: k, (keys,), (np.zeros(3, zero.dtype),))[1])]
    found += [api.linearize(both, key, np.float32(2))[1](zero, np.float32(3))[1]]
    of_key, ct = api.vjp(both, key, np.float32(2))[1]((zero, np.float32(1)))
    return found, sorted(map(str, seen)), shapes(of_key), ct


def strict_promotion(api: Any) -> Any:
    n = api.numpy
    x, i, b = n.ones(2), n.arange(2), n.ones(2) > 0
    with api.numpy_dtype_promotion("strict"):
        return [outcome(lambda f=f: f().dtype) for f in (
            lambda: x + True, lambda: True + x, lambda: x + 1, lambda: x + 1.0, lambda: i + True, lambda: i + 1.0,
            lambda: x * b, lambda: n.maximum(x, True), lambda: i & True, lambda: b | True, lambda: x == True,  # noqa: E712
            lambda: x < True, lambda: x**2, lambda: i**2, lambda: n.ones(2) * True, lambda: x % True, lambda: n.hypot(x, 1),
            lambda: n.left_shift(i, True), lambda: n.arctan2(x, True), lambda: n.where(b, x, 0), lambda: i / 2, lambda: i // 2,
            lambda: n.add(1, 2.0), lambda: n.add(1, True), lambda: x + np.bool_(True), lambda: x + np.float32(1),
        )]  # fmt: skip


def gumbel_modes(api: Any) -> Any:
    r = api.random
    key = r.key(5)
    found = [np.round(np.asarray(r.gumbel(key, (40,), d, m)).astype(np.float32), 2 if d != "float32" else 5).tolist()
             for d in ("float32", "bfloat16") for m in (None, "low", "high", "highest")]  # fmt: skip
    found += [api.jit(lambda k: r.gumbel(k, (2, 3), mode="highest"))(key)]
    found += [
        r.categorical(key, np.arange(5.0, dtype=np.float32), shape=(6,), mode="highest", replace=again)
        for again in (True,)
    ]
    found += [r.categorical(key, np.arange(5.0, dtype=np.float32), shape=(3,), mode="highest", replace=False)]
    found += [r.choice(key, 5, (3,), False, np.ones(5, np.float32) / 5, mode="highest")]
    api.config.update("jax_high_dynamic_range_gumbel", True)
    try:
        found.append(api.vmap(lambda k: r.gumbel(k, (3,)))(r.split(key, 2)))
    finally:
        api.config.update("jax_high_dynamic_range_gumbel", False)
    return found


def donations_to_pmap(api: Any) -> Any:
    deleted = []
    for donated in (0, (0,), (), (1,)):
        x, y = api.numpy.ones((1, 3)), api.numpy.ones((1, 3))
        api.pmap(lambda x, y: x + y, donate_argnums=donated)(x, y)
        deleted.append((x.is_deleted(), y.is_deleted()))
    return deleted


def steps_of_a_compilation(api: Any) -> Any:
    f = api.jit(
        lambda x, d, *, y=2.0: {"s": x + d["a"] + y},
        donate_argnums=(0,),
        compiler_options={"xla_cpu_enable_fast_math": False},
    )
    traced = f.trace(X, {"a": 1.0}, y=3.0)
    lowered = traced.lower()
    compiled = lowered.compile(compiler_options={"xla_embed_ir_in_executable": True})
    shapes = lambda tree: api.tree_util.tree_map(lambda a: (a.shape, str(a.dtype), a.weak_type), tree)  # noqa: E731
    found = [shapes(s.in_avals) for s in (traced, lowered, compiled)] + [shapes(traced.out_avals), f(X, {"a": 1.0})]
    found += [s.donate_argnums for s in (traced, lowered, compiled)]
    formats = api.tree_util.tree_leaves([compiled.input_formats, compiled.output_formats])
    found += [[f.layout.major_to_minor for f in formats], str(compiled.output_formats["s"].sharding.device_set)]
    found += [
        compiled.out_info["s"].sharding == compiled.output_shardings["s"],
        type(lowered.out_info["s"].sharding).__name__,
    ]
    found += [
        outcome(lambda: lowered.compile(compiler_options={"invalid_key": 1})),
        outcome(lambda: lowered.compile({"xla_x": None})),
    ]
    inner = api.jit(lambda x: x + 1, compiler_options={"xla_embed_ir_in_executable": True})
    return [*found, outcome(lambda: api.jit(lambda x: inner(x) * 2)(X)), api.jit(lambda x: x, compiler_options={})(X)]


def shapes_with_shardings(api: Any) -> Any:
    kind = api.sharding.AxisType
    found = []
    for axis in (kind.Explicit, kind.Auto):
        mesh = api.make_mesh((1,), ("x",), axis_types=(axis,))
        place = api.sharding.NamedSharding(mesh, api.sharding.PartitionSpec("x"))
        struct, value = (
            api.ShapeDtypeStruct((4,), "float32", sharding=place),
            api.device_put(np.ones(4, np.float32), place),
        )
        asked = api.jit(lambda x: x * 2, out_shardings=place)
        double = lambda x: x * 2  # noqa: E731
        for out in (
            api.eval_shape(double, struct), api.eval_shape(double, value), api.eval_shape(asked, np.ones(4, np.float32)),
            asked.trace(np.ones(4, np.float32)).out_info, asked.lower(struct).out_info, asked.lower(value).compile().out_info,
        ):  # fmt: skip
            found.append((out.shape, None if out.sharding is None else tuple(out.sharding.spec)))
    return found


def tokens(api: Any) -> Any:
    lax = api.lax
    token = lax.after_all(lax.create_token(), lax.create_token())
    kind = type(token)

    out = api.jit(lambda t, x: (lax.after_all(t), x * 2))(token, X)
    return [
        isinstance(out[0], kind), out[1], len(api.tree_util.tree_leaves(token)),
        api.vmap(lambda x: (lax.create_token(x), x + 1)[1])(X), api.grad(lambda x: (lax.create_token(x), x * 3)[1])(1.0),
        outcome(lambda: lax.after_all(1)), type(api.typeof(token)).__name__, isinstance(lax.after_all(), kind),
    ]  # fmt: skip


def small_things(api: Any) -> Any:
    class Wrapped:
        shape, dtype = (2,), np.dtype("float32")

        def __jax_array__(self) -> Any:
            return api.numpy.ones(2)

    def documented(x: Any) -> Any:
        """Doubles."""
        return x * 2

    context, spec = api.make_user_context(1), api.sharding.PartitionSpec
    x = api.numpy.ones(3)
    context.set_global(5)
    found = [context.get_global(), context.value]
    context.set_global(1)
    doc = api.vmap(documented).__doc__
    found += [context.value, doc[:32], doc[doc.index("Original") :], api.vmap(lambda x: x).__doc__[:21]]
    found += [
        outcome(lambda: api.ShapeDtypeStruct((), None)),
        x.on_device_size_in_bytes(),
        str(api.numpy.result_type(Wrapped(), 1)),
    ]
    found += [
        api.ShapeDtypeStruct.like(x).sharding,
    ]
    found += [
        outcome(lambda k=k: str(spec("x", ("y", "z"), **k)))
        for k in ({"unreduced": {"x"}}, {"reduced": {"z"}}, {"unreduced": {"a"}})
    ]
    found += [outcome(lambda: api.device_put(x, may_alias=True, donate=True)), api.numpy.isscalar(Wrapped())]
    found += [len(api.make_jaxpr(lambda: api.lax.broadcast(np.float32(3), ()))().jaxpr.eqns)]
    return [*found, outcome(lambda: spec(unreduced={"x"}, reduced={"x"}))]


def kinds_and_limits_of_narrow_dtypes(api: Any) -> Any:
    n = api.numpy
    kinds = (
        np.floating,
        np.inexact,
        np.number,
        np.generic,
        np.integer,
        np.signedinteger,
        np.unsignedinteger,
        np.float64,
    )
    named = ("real floating", "numeric", "signed integer", "unsigned integer", "integral", "complex floating")
    return [
        [[n.issubdtype(d, k) for k in kinds], [n.isdtype(d, k) for k in named], outcome(lambda d=d: n.finfo(d).bits), outcome(lambda d=d: n.iinfo(d).max)]
        for d in ("float8_e5m2", "float8_e4m3fn", "float4_e2m1fn", "int4", "int2", "uint4", "uint2", "bfloat16", "int8")
    ]  # fmt: skip


SNIPPETS = [
    kinds_and_limits_of_narrow_dtypes,
    small_things,
    steps_of_a_compilation, shapes_with_shardings, tokens,
    requests_of_64_bits, tangents_of_keys, strict_promotion, gumbel_modes, donations_to_pmap,
    options_of_blocks_and_of_the_process,
    functions_of_derivatives_are_pytrees, arguments_that_pullbacks_keep, transposes_of_integers, errors_of_derivatives,
    what_jit_and_pmap_refuse, checkpoints_trace_once, rules_given_to_what_wraps_a_function, values_without_perturbations,
    cotangents_of_other_shapes, blocks_without_tracing, values_fetched, collectives_within_custom_rules, traced_with_axes,
    dtypes_of_64_bits,
]  # fmt: skip


@pytest.mark.parametrize("snippet", SNIPPETS, ids=lambda f: f.__name__)
def test_as_in_jax(snippet: Any) -> None:
    assert described(quire, snippet(quire)) == described(jax, snippet(jax))


def test_backward_rules_with_collectives_of_what_no_lane_changes() -> None:
    """JAX has lost the axis when it applies the rule (NameError)."""

    @quire.custom_vjp
    def f(x: Any) -> Any:
        return x * quire.lax.psum(x, "i")

    f.defvjp(lambda x: (f(x), x), lambda x, ct: (ct * quire.lax.psum(x, "i") + quire.lax.psum(ct * x, "i"),))
    assert quire.grad(lambda c: quire.vmap(lambda x: x * f(c), axis_name="i")(X).sum())(2.0) == 2 * 2 * 3 * 6


def test_checkpoint_runs_plainly_without_jit() -> None:
    """JAX traces it even then."""
    with quire.disable_jit():
        assert quire.checkpoint(lambda x: x if x > 0 else -x)(-2.0) == 2


def test_tokens_are_carried_by_loops() -> None:
    """JAX's scan fails on them."""

    def step(carry: Any, x: Any) -> Any:
        token, total = carry
        return (quire.lax.after_all(token, quire.lax.create_token(x)), total + x), x

    (last, total), _ = quire.lax.scan(step, (quire.lax.create_token(), np.float32(0)), X)
    assert isinstance(last, quire.extend.core.Token) and total == 6


@pytest.mark.parametrize("dtype", ["uint8", "int16", "uint32", "float16", "bfloat16"])
def test_weak_types_of_other_dtypes_than_those_of_numbers(dtype: str) -> None:
    """Rules and interpreters make them, by `convert_element_type(x, dtype, weak_type=True)`."""
    from jax._src.lax.lax import _convert_element_type

    from quire.ir.primitives.elementwise import convert_element_type

    def derived(api: Any, x: Any) -> Any:
        n = api.numpy
        found = [
            x,
            x + 1,
            1 + x,
            x + x,
            -x,
            x + 1.0,
            n.sin(x),
            x + n.ones(2),
            x * n.ones(2, "int8"),
            n.where(True, x, x),
            x / x,
        ]
        return [(str(y.dtype), y.weak_type) for y in found], [
            str(r(x, *y)) for r in (n.result_type, api.dtypes.result_type) for y in ((), (1,), (n.float16(1),))
        ]

    kind = np.dtype(quire.numpy.dtype(dtype))
    theirs = _convert_element_type(jax.numpy.int32(1), kind, weak_type=True)
    assert derived(quire, convert_element_type(quire.numpy.int32(1), kind, weak_type=True)) == derived(jax, theirs)
