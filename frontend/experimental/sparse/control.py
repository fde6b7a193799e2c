"""Rules of `sparsify` for what holds programs: calls, conditions and loops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from quire.ir.jaxpr import ClosedJaxpr, Jaxpr, Literal, Var
from quire.ir.source import use_source

from ... import lax, tree_util
from ...compiling.api import eval_shape
from ...numpy import result_type
from .rules import RULES, apply, rule
from .todense import IDENTITY
from .values import SparsifyEnv, SparsifyValue, is_sparse, spvalues_to_arrays

Value = Any


def eval_sparse(
    env: SparsifyEnv, jaxpr: Jaxpr, consts: Sequence[SparsifyValue], args: Sequence[SparsifyValue]
) -> list[SparsifyValue]:
    """The values of a jaxpr for values, equation by equation. Raises NotImplementedError for a primitive without a rule."""
    found: dict[Var, SparsifyValue] = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*consts, *args), strict=True))

    def read(a: Any) -> SparsifyValue:
        return env.dense(a.python_value) if isinstance(a, Literal) else found[a]

    for eqn in jaxpr.eqns:
        inputs = [read(a) for a in eqn.inputs]
        if eqn.source is None:
            out = apply(env, eqn.primitive, inputs, eqn.params)
        else:
            with use_source(eqn.source):
                out = apply(env, eqn.primitive, inputs, eqn.params)
        found.update(zip(eqn.outputs, out, strict=True))
    return [read(a) for a in jaxpr.outvars]


def eval_closed(env: SparsifyEnv, closed: ClosedJaxpr, args: Sequence[SparsifyValue]) -> list[SparsifyValue]:
    """The values of a closed jaxpr for values."""
    return eval_sparse(env, closed.jaxpr, [env.dense(c) for c in closed.consts], args)


def on_arrays(closed: ClosedJaxpr) -> Callable[..., list[Any]]:
    """A closed jaxpr as a function of arrays, sparse ones among them."""

    def call(*arrays: Any) -> list[Any]:
        env = SparsifyEnv()
        return spvalues_to_arrays(env, eval_closed(env, closed, [env.value(x) for x in arrays]))

    return call


def _results(env: SparsifyEnv, arrays: Sequence[Any]) -> list[SparsifyValue]:
    return [env.value(x) for x in arrays]


@rule("jit", "checkpoint", "custom_jvp_call", "custom_vjp_call", "closed_call")
def _call(env: SparsifyEnv, *values: SparsifyValue, **params: Any) -> list[SparsifyValue]:
    if params.get("name") == IDENTITY:
        return [env.dense(env.array(v).todense()) for v in values]
    return eval_closed(env, params.get("call_jaxpr") or params["jaxpr"], values)


def _types(arrays: Any) -> tuple[Any, list[Any]]:
    """The tree of arrays without what is known of indices, and the types of the buffers."""
    leaves, tree = tree_util.tree_flatten(arrays, is_leaf=is_sparse)
    kinds = [(type(x), x.shape) if is_sparse(x) else None for x in leaves]
    return (tree, kinds), [(tuple(np.shape(b)), result_type(b)) for b in tree_util.tree_leaves(arrays)]


def _plain(arrays: Any) -> Any:
    """Arrays of whose indices nothing is known: the same tree whatever is known."""

    def forget(x: Any) -> Any:
        if not is_sparse(x):
            return x
        buffers, (shape, *_) = x.tree_flatten()
        return type(x).tree_unflatten((shape, False, False), buffers)

    return tree_util.tree_map(forget, arrays, is_leaf=is_sparse)


@rule("cond")
def _cond(
    env: SparsifyEnv, index: SparsifyValue, *values: SparsifyValue, branches: Any, **_: Any
) -> list[SparsifyValue]:
    arrays = [env.array(v) for v in values]
    functions = [on_arrays(b) for b in branches]
    outs = [eval_shape(f, *arrays) for f in functions]
    types = [_types(out) for out in outs]
    if any(t != types[0] for t in types[1:]):
        # Branch 0 is that of False.
        first, second = (1, 0) if len(types) == 2 else (0, next(i for i, t in enumerate(types) if t != types[0]))
        names = ("true_fun", "false_fun") if len(types) == 2 else (f"branch {first}", f"branch {second}")
        raise TypeError(
            f"sparsified {names[0]} output must have same type structure as sparsified {names[1]} output, got {outs[first]} and "
            f"{outs[second]}"
        )
    same = all(tree_util.tree_structure(o) == tree_util.tree_structure(outs[0]) for o in outs)
    bodies = functions if same else [lambda *xs, f=f: _plain(f(*xs)) for f in functions]
    return _results(env, lax.switch(env.data(index), bodies, *arrays))


def _carried(what: str, body: Callable[[Any], Any], carry: Any) -> Any:
    """The carry of a loop, with no more known of its indices than what the body keeps. Raises TypeError where its types change."""
    out = eval_shape(body, carry)
    before, after = _types(carry), _types(out)
    if before[0] != after[0] or before[1] != after[1]:
        raise TypeError(
            f"sparsified {what}: the body must give a carry of the types that it is given, got {carry} and {out}"
        )
    return carry if tree_util.tree_structure(out) == tree_util.tree_structure(carry) else _plain(carry)


@rule("while")
def _while(
    env: SparsifyEnv, *values: SparsifyValue, cond_jaxpr: ClosedJaxpr, body_jaxpr: ClosedJaxpr, cond_nconsts: int,
    body_nconsts: int, **_: Any,
) -> list[SparsifyValue]:  # fmt: skip
    arrays = [env.array(v) for v in values]
    of_cond, of_body = arrays[:cond_nconsts], arrays[cond_nconsts : cond_nconsts + body_nconsts]
    cond, body = on_arrays(cond_jaxpr), on_arrays(body_jaxpr)
    first = arrays[cond_nconsts + body_nconsts :]
    carry = _carried("while_loop", lambda c: body(*of_body, *c), first)
    keep: Callable[[Any], Any] = (lambda c: c) if carry is first else _plain
    out = lax.while_loop(lambda c: cond(*of_cond, *c)[0], lambda c: keep(body(*of_body, *c)), carry)
    return _results(env, out)


@rule("scan")
def _scan(
    env: SparsifyEnv, *values: SparsifyValue, jaxpr: ClosedJaxpr, length: int, reverse: bool, num_consts: int, num_carry: int,
    unroll: int = 1, **_: Any,
) -> list[SparsifyValue]:  # fmt: skip
    arrays = [env.array(v) for v in values]
    n = num_consts + num_carry
    consts, first, xs = arrays[:num_consts], arrays[num_consts:n], arrays[n:]
    if any(is_sparse(x) for x in xs):
        raise NotImplementedError("sparse rule for scan is not implemented for sparse arrays that are scanned over.")
    body = on_arrays(jaxpr)

    def step(carry: Any, x: Any) -> tuple[Any, Any]:
        out = body(*consts, *carry, *x)
        if any(is_sparse(y) for y in out[num_carry:]):
            raise NotImplementedError("sparse rule for scan is not implemented for sparse outputs.")
        return out[:num_carry], out[num_carry:]

    carry = _carried("scan", lambda c: step(c, [x[0] for x in xs])[0], first)
    keep: Callable[[Any], Any] = (lambda c: c) if carry is first else _plain

    def kept(c: Any, x: Any) -> tuple[Any, Any]:
        out, ys = step(c, x)
        return keep(out), ys

    last, ys = lax.scan(kept, carry, xs, length=length, reverse=reverse, unroll=unroll)
    return _results(env, [*last, *ys])


__all__ = ["RULES", "eval_closed", "eval_sparse"]
