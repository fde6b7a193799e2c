# ruff: noqa: E501 - tables
"""checkpoint: the same gradients, and policies that really decide what is kept for the backward pass."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import quire
import quire.numpy as qnp
from quire.ad_checkpoint import checkpoint_name
from quire.ir.jaxpr import ClosedJaxpr, Jaxpr
from quire.passes.ad.linearize import linearize_jaxpr

from .jax_oracle import W, X, check

P = quire.checkpoint_policies


def two_layers(n: Any, x: Any) -> Any:
    return n.sin(n.sin(W.T @ x) @ W.T).sum()


def policy(q: Any, name: str) -> Any:
    return getattr(q.checkpoint_policies, name)


CASES: dict[str, Any] = {
    "plain": lambda q, n, l: q.grad(q.checkpoint(lambda x: two_layers(n, x)))(X),
    "remat": lambda q, n, l: q.grad(q.remat(lambda x: two_layers(n, x), prevent_cse=False))(X),
    "decorator": lambda q, n, l: q.grad(
        functools.partial(q.checkpoint, policy=policy(q, "dots_saveable"))(lambda x: two_layers(n, x))
    )(X),
    "twice": lambda q, n, l: q.grad(q.grad(q.checkpoint(lambda x: n.sin(n.sin(x)))))(0.5),
    "hessian": lambda q, n, l: q.hessian(q.checkpoint(lambda x: two_layers(n, x)))(X),
    "vmap": lambda q, n, l: q.vmap(q.grad(q.checkpoint(lambda x: n.sin(n.sin(x)))))(X),
    "grad of vmap": lambda q, n, l: q.grad(lambda x: q.vmap(q.checkpoint(lambda x: n.sin(n.sin(x))))(x).sum())(X),
    "jit": lambda q, n, l: q.jit(q.value_and_grad(q.checkpoint(lambda x: two_layers(n, x))))(X),
    "static": lambda q, n, l: q.grad(q.checkpoint(lambda x, k: n.sin(x) if k == "s" else x, static_argnums=(1,)))(
        0.5, "s"
    ),
    "in scan": lambda q, n, l: q.grad(lambda x: l.scan(q.checkpoint(lambda c, y: (n.sin(c * y), None)), x, X)[0])(0.5),
    "tree": lambda q, n, l: q.grad(q.checkpoint(lambda p: (n.sin(p["a"]) * p["b"]).sum()))({"a": X, "b": X}),
    **{
        name: lambda q, n, l, name=name: q.grad(q.checkpoint(lambda x: two_layers(n, x), policy=policy(q, name)))(X)
        for name in ("everything_saveable", "nothing_saveable", "dots_saveable", "dots_with_no_batch_dims_saveable")
    },
}


@pytest.mark.parametrize("name", CASES)
def test_like_jax(name: str) -> None:
    check(CASES[name])


def named(x: Any) -> Any:
    h = checkpoint_name(qnp.sin(W.T @ x), "hidden")
    return (qnp.exp(h) @ W.T).sum()


def residual_sizes(f: Any) -> list[tuple[int, ...]]:
    """The shapes of what a function keeps for its backward pass beside its argument."""
    jaxpr = quire.make_jaxpr(f)(X).jaxpr
    consts = len(jaxpr.constvars)
    open_jaxpr = Jaxpr((), (*jaxpr.constvars, *jaxpr.invars), jaxpr.outvars, jaxpr.eqns)
    split = linearize_jaxpr(ClosedJaxpr(open_jaxpr), (*[False] * consts, True))
    kept = split.known.jaxpr.outvars[split.num_known_out :]
    return [v.aval.shape for v in kept if v not in split.known.jaxpr.invars]


@pytest.mark.parametrize(
    ("rule", "kept"),
    [(None, 0), (P.nothing_saveable, 0), (P.dots_saveable, 1), (P.everything_saveable, 2),
     (P.save_only_these_names("hidden"), 1), (P.save_only_these_names("other"), 0),
     (P.save_any_names_but_these("hidden"), 0), (P.save_any_names_but_these("other"), 1)],
)  # fmt: skip
def test_policies_decide_what_is_kept(rule: Any, kept: int) -> None:
    assert len(residual_sizes(quire.checkpoint(named, policy=rule))) == kept
    np.testing.assert_allclose(quire.grad(quire.checkpoint(named, policy=rule))(X), quire.grad(named)(X), rtol=1e-6)


def count(jaxpr: Any, name: str) -> int:
    from quire.ir.jaxpr import nested_jaxprs

    n = 0
    for eqn in jaxpr.eqns:
        n += eqn.primitive.name == name
        n += sum(count(getattr(j, "jaxpr", j), name) for j in nested_jaxprs(eqn.params))
    return n


@pytest.mark.parametrize(("rule", "sines"), [(P.nothing_saveable, 4), (P.everything_saveable, 2)])
def test_what_is_not_kept_is_computed_again(rule: Any, sines: int) -> None:
    f = quire.checkpoint(lambda x: qnp.exp(qnp.sin(qnp.exp(qnp.sin(x)))).sum(), policy=rule)
    assert count(quire.make_jaxpr(quire.value_and_grad(f))(X).jaxpr, "sin") == sines


def test_errors() -> None:
    with pytest.raises(TypeError, match="checkpoint: expected a function, got 3 of type int"):
        quire.checkpoint(3)
    with pytest.raises(ValueError, match="needs at least 3 positional arguments"):
        quire.checkpoint(lambda x: x, static_argnums=(2,))(1.0)


def layers_in_a_scan(q: Any, n: Any, l: Any, x: Any) -> Any:
    named = (
        q.ad_checkpoint.checkpoint_name if q is quire else __import__("jax.ad_checkpoint").ad_checkpoint.checkpoint_name
    )

    def body(c: Any, y: Any) -> Any:
        h = named(n.sin(W.T @ c * y), "hidden")
        return n.exp(n.tanh(h) @ W.T / 9), q.jit(lambda h: n.cos(named(h * 2, "inner")))(h).sum()

    c, ys = l.scan(body, x, n.arange(4.0))
    branch = lambda f: lambda z: f(named(n.sin(z), "hidden"))  # noqa: E731
    picked = l.cond(ys.sum() > 0, branch(n.exp), branch(lambda h: n.cos(named(h + 1, "inner"))), c)
    return (l.switch(1, [lambda z: z, branch(n.tanh)], picked) * c).sum() + ys.sum()


NESTED: dict[str, Any] = {
    "dots": lambda p: p.dots_saveable,
    "everything": lambda p: p.everything_saveable,
    "hidden": lambda p: p.save_only_these_names("hidden"),
    "inner": lambda p: p.save_only_these_names("inner"),
    "both": lambda p: p.save_from_both_policies(p.save_only_these_names("hidden"), p.dots_saveable),
    "but hidden": lambda p: p.save_any_names_but_these("hidden"),
}


def test_policies_within_loops_and_branches_like_jax() -> None:
    def derivatives(q: Any, n: Any, l: Any) -> Any:
        f = functools.partial(layers_in_a_scan, q, n, l)
        kept = {name: q.checkpoint(f, policy=rule(q.checkpoint_policies)) for name, rule in NESTED.items()}
        plain = {name: (q.value_and_grad(g)(X), q.vmap(q.grad(g))(n.stack([X, 2 * X]))) for name, g in kept.items()}
        return [
            plain,
            q.jit(lambda x: {name: q.grad(kept[name])(x) for name in ("both", "inner")})(X),
            q.jacfwd(q.grad(kept["hidden"]))(X),
        ]

    check(derivatives, rtol=2e-5)


@pytest.mark.parametrize("name", NESTED)
def test_what_a_policy_keeps_of_loops_and_branches(name: str) -> None:
    """What is kept is computed in the first pass alone."""
    f = quire.checkpoint(functools.partial(layers_in_a_scan, quire, qnp, quire.lax), policy=NESTED[name](P))
    plain = quire.checkpoint(functools.partial(layers_in_a_scan, quire, qnp, quire.lax))
    made, again = (count(quire.make_jaxpr(quire.value_and_grad(g))(X).jaxpr, "tanh") for g in (f, plain))
    assert (made < again) == (name == "everything")
    made, again = (count(quire.make_jaxpr(quire.value_and_grad(g))(X).jaxpr, "dot_general") for g in (f, plain))
    assert (made < again) == (name in ("dots", "everything", "both"))
    kept = {s for s in residual_sizes(f) if s not in residual_sizes(plain)}
    assert kept, "a policy that names something within the loop keeps it"


def with_effects(q: Any, n: Any, l: Any, seen: Any, x: Any) -> Any:
    """Derivatives need what is computed in a loop and a branch with callbacks, and what a callback returned."""

    def body(c: Any, y: Any) -> Any:
        q.debug.callback(lambda v: seen.append(float(v)), c)
        return n.sin(c * y), n.cos(c)

    c, ys = l.scan(body, x, n.arange(1.0, 4.0))
    z = q.pure_callback(lambda v: np.float32(v * 2), q.ShapeDtypeStruct((), "float32"), l.stop_gradient(c))
    return (
        l.cond(x > 0, lambda a: (q.debug.callback(lambda v: seen.append(float(v)), a), n.sin(a * z))[1], lambda a: a, c)
        * ys.sum()
    )


def test_effects_happen_once() -> None:
    def derivatives(q: Any, n: Any, l: Any) -> Any:
        out = []
        for name in ("nothing_saveable", "dots_saveable", "everything_saveable"):
            f = q.checkpoint(functools.partial(with_effects, q, n, l, []), policy=policy(q, name))
            out += [q.grad(f)(0.5), q.jit(q.value_and_grad(f))(0.5)]
        return out

    check(derivatives)
    for name in ("nothing_saveable", "everything_saveable"):
        seen: list[float] = []
        f = quire.checkpoint(functools.partial(with_effects, quire, qnp, quire.lax, seen), policy=policy(quire, name))
        quire.block_until_ready(quire.jit(quire.grad(f))(0.5))
        assert len(seen) == 4

    def noted(x: Any) -> Any:
        result = quire.ShapeDtypeStruct((), "float32")
        y = quire.experimental.io_callback(
            lambda v: np.float32(seen.append(1) or v * 3), result, quire.lax.stop_gradient(x)
        )
        return qnp.sin(x * y) * y

    seen.clear()
    np.testing.assert_allclose(quire.jit(quire.grad(quire.checkpoint(noted)))(0.5), np.cos(0.75) * 2.25, rtol=1e-6)
    assert len(seen) == 1
