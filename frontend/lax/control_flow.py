"""Control flow: cond, switch, while_loop, fori_loop, scan, map."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.avals import NO_AXES, aval_of
from quire.ir.config import config
from quire.ir.errors import TracerBoolConversionError
from quire.ir.primitives import control_flow as cf
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import structural as st
from quire.tree_util import flatten_arrays, tree_unflatten
from quire.watching.key_reuse import check_equation

from ..arrays.placement import as_device
from ..transforms.vectorization import vmap
from ._tracing import (
    Traced,
    check_callable,
    check_carry,
    common_consts,
    concrete_value,
    differs,
    function_name,
    path,
    promote_carry,
    show_tree,
    trace,
)
from ._varying import alike, cast

_MISSING: Any = object()


def _scalar_pred(api: str, pred: Any) -> Any:
    """pred as a bool scalar value."""
    try:
        aval = aval_of(pred)
    except TypeError:
        raise TypeError(
            f"{api}: pred must be a bool or number scalar, got {pred!r} of type {type(pred).__name__}"
        ) from None
    if aval.shape:
        raise TypeError(
            f"{api}: pred must be a scalar, got {aval.short()}: reduce it with all() or any(), or use where"
        )
    return pred if dtypes.is_bool(aval.dtype) else ew.ne(pred, np.zeros((), aval.dtype))


def _batching(api: str, batching: str) -> dict[str, str]:
    """The parameter of the primitive; the default is not written down."""
    if batching not in ("select", "loop"):
        raise ValueError(f'{api}: batching must be "select" or "loop", got {batching!r}')
    return {} if batching == "select" else {"batching": batching}


def cond(pred: Any, true_fun: Callable[..., Any], false_fun: Callable[..., Any], *operands: Any,
         operand: Any = _MISSING, linear: Any = None, batching: str = "select") -> Any:  # fmt: skip
    """``true_fun(*operands) if pred else false_fun(*operands)``, deciding while the program runs.

    Args:
        pred: a scalar, bool or number (not zero is true).
        true_fun, false_fun: functions of the operands that return the same pytree structure, shapes and dtypes.
        operands: pytrees of arrays; `operand` is the keyword form of one operand.
        batching: what `vmap` does where pred differs between lanes: "select" computes both branches for every lane;
            "loop" takes lane after lane and runs one branch alone, good for a rare costly branch.

    ``cond(pred, x, true_fun, y, false_fun)`` applies each function to an operand of its own.

    Raises TypeError when pred is no scalar or the branches return different types.

    Example: ``lax.cond(x > 0, lambda x: x, lambda x: -x, x)``.
    """
    if operand is not _MISSING:
        if operands:
            raise TypeError(
                f"cond: give operands by position or as operand=, not both (got {len(operands)} and operand=)"
            )
        operands = (operand,)
    if len(operands) == 2 and callable(operands[1]) and callable(false_fun) and not callable(true_fun):
        # JAX's older form: cond(pred, true_operand, true_fun, false_operand, false_fun)
        (true_operand, on_true, false_operand, on_false) = (true_fun, false_fun, *operands)
        return cond(
            pred, lambda x, _: on_true(x), lambda _, y: on_false(y), true_operand, false_operand, batching=batching
        )
    how = _batching("cond", batching)
    check_callable("cond", "true_fun", true_fun)
    check_callable("cond", "false_fun", false_fun)
    pred = _scalar_pred("cond", pred)
    if config.options.disable_jit and (known := concrete_value(pred)) is not None:
        return true_fun(*operands) if bool(known) else false_fun(*operands)
    leaves, in_tree = flatten_arrays(tuple(operands))
    avals = [aval_of(x) for x in leaves]
    branches = [trace(false_fun, in_tree, avals, "branch"), trace(true_fun, in_tree, avals, "branch")]
    _check_branches("cond", ["true_fun", "false_fun"], branches[::-1])
    consts, jaxprs = common_consts(branches)
    index = ew.convert_element_type(pred, np.int32)
    given, jaxprs = alike(index, [*consts, *leaves], jaxprs)
    check_equation("cond", {"branches": jaxprs}, [index, *given])
    out = cf.cond_p.bind(index, *given, branches=tuple(jaxprs), **how)
    return tree_unflatten(branches[0].out_tree, out)


def switch(index: Any, branches: Sequence[Callable[..., Any]], *operands: Any, operand: Any = _MISSING,
           batching: str = "select") -> Any:  # fmt: skip
    """``branches[index](*operands)``; an index out of range is clamped to the nearest branch.

    Args:
        index: an integer scalar.
        branches: functions of the operands that return the same pytree structure, shapes and dtypes.
        batching: as for `cond`.

    Raises TypeError when the index is no integer scalar or the branches return different types, ValueError without
    branches.

    Example: ``lax.switch(i, [lambda x: x, lambda x: 2 * x], x)``.
    """
    if operand is not _MISSING:
        if operands:
            raise TypeError("switch: give operands by position or as operand=, not both")
        operands = (operand,)
    how = _batching("switch", batching)
    branches = tuple(branches)
    for i, f in enumerate(branches):
        check_callable("switch", f"branches[{i}]", f)
    if not branches:
        raise ValueError("switch: expected at least one branch, got an empty sequence")
    aval = aval_of(index)
    if aval.shape or not dtypes.is_integer(aval.dtype):
        raise TypeError(f"switch: index must be an integer scalar, got {aval.short()}")
    if len(branches) == 1:
        return branches[0](*operands)
    if config.options.disable_jit and (known := concrete_value(index)) is not None:
        return branches[min(max(int(known), 0), len(branches) - 1)](*operands)
    leaves, in_tree = flatten_arrays(tuple(operands))
    avals = [aval_of(x) for x in leaves]
    traced = [trace(f, in_tree, avals, "branch") for f in branches]
    _check_branches("switch", [f"branches[{i}]" for i in range(len(branches))], traced)
    consts, jaxprs = common_consts(traced)
    last = len(branches) - 1
    if aval.dtype.itemsize > 4 or dtypes.is_unsigned(aval.dtype):  # clamp before narrowing
        top = min(last, np.iinfo(aval.dtype).max)
        index = ew.min(index, np.asarray(top, aval.dtype)[()])
        index = index if dtypes.is_unsigned(aval.dtype) else ew.max(index, np.asarray(0, aval.dtype)[()])
    index = ew.clamp(np.int32(0), ew.convert_element_type(index, np.int32), np.int32(last))
    given, jaxprs = alike(index, [*consts, *leaves], jaxprs)
    check_equation("cond", {"branches": jaxprs}, [index, *given])
    return tree_unflatten(traced[0].out_tree, cf.cond_p.bind(index, *given, branches=tuple(jaxprs), **how))


def _check_branches(api: str, names: Sequence[str], traced: Sequence[Traced]) -> None:
    first = traced[0]
    for name, other in zip(names[1:], traced[1:]):
        if first.out_tree != other.out_tree:
            raise TypeError(
                f"{api}: {names[0]} and {name} must return the same structure.\n"
                f"  {names[0]} returns {show_tree(first.out_tree)}\n  {name} returns {show_tree(other.out_tree)}"
            )
        wrong = [
            f"  output{path(first.out_tree, i)}: {names[0]} returns {a.short()}, {name} returns {b.short()}"
            for i, (a, b) in enumerate(zip(first.out_avals, other.out_avals))
            if a.strong().update(vma=NO_AXES) is not b.strong().update(vma=NO_AXES) or differs(a, b)
        ]
        if wrong:
            raise TypeError(
                f"{api}: {names[0]} and {name} must return the same shapes and dtypes:\n"
                + "\n".join(wrong)
                + "\n  Convert one of them (astype, reshape)."
            )


# -- while ------------------------------------------------------------------------------------------------------------


def while_loop(cond_fun: Callable[[Any], Any], body_fun: Callable[[Any], Any], init_val: Any, *,
               max_steps: int | None = None) -> Any:  # fmt: skip
    """``val = init_val; while cond_fun(val): val = body_fun(val); return val``.

    Args:
        cond_fun: takes the carry, returns a bool scalar.
        body_fun: takes the carry, returns the next one: the same pytree structure, shapes and dtypes.
        init_val: the first carry, a pytree of arrays.
        max_steps: the loop ends after so many iterations at the latest. Such a loop can be differentiated in
            reverse: it is run again in checkpointed blocks, with memory that grows as the square root of max_steps.
            Without it, only forward differentiation is possible.

    Raises TypeError when the carry changes its type or cond_fun returns no bool scalar, ValueError for a negative
    max_steps or one that is a bool.

    Example: ``lax.while_loop(lambda x: x < 100, lambda x: 2 * x, 1)``.
    """
    check_callable("while_loop", "cond_fun", cond_fun)
    check_callable("while_loop", "body_fun", body_fun)
    if max_steps is not None and (isinstance(max_steps, bool) or operator.index(max_steps) < 0):
        raise ValueError(f"while_loop: max_steps must be a non-negative int, got {max_steps!r}")
    if config.options.disable_jit:
        try:
            return _python_while(cond_fun, body_fun, init_val, max_steps)
        except TracerBoolConversionError:
            pass  # its condition is traced, by `vmap` or the like: only a loop of the program goes as it says
    leaves, carry_tree = flatten_arrays(init_val)
    in_tree = flatten_arrays((init_val,))[1]
    body = trace(body_fun, in_tree, [aval_of(x) for x in leaves], "body")
    while (promoted := promote_carry(leaves, body.out_avals)) is not None:
        leaves = promoted
        body = trace(body_fun, in_tree, [aval_of(x) for x in leaves], "body")
    avals = [aval_of(x) for x in leaves]
    check_carry("while_loop", f"body_fun {function_name(body_fun)}", carry_tree, avals, body.out_tree, body.out_avals)
    test = trace(cond_fun, in_tree, avals, "condition")
    out = test.out_avals
    if not test.out_tree.is_leaf() or len(out) != 1 or out[0].shape or not dtypes.is_bool(out[0].dtype):
        given = ", ".join(a.short() for a in out)
        raise TypeError(
            f"while_loop: cond_fun {function_name(cond_fun)} must return a bool scalar, got {given or 'no array'}"
            + (f" in {show_tree(test.out_tree)}" if not test.out_tree.is_leaf() else "")
        )
    varies = out[0].vma
    if varies and any(varies - a.vma for a in avals):  # devices leave the loop at different turns
        return while_loop(cond_fun, body_fun, tree_unflatten(carry_tree, cast(leaves, varies)), max_steps=max_steps)
    params: dict[str, Any] = {
        "cond_jaxpr": test.closed, "body_jaxpr": body.closed,
        "cond_nconsts": len(test.captured), "body_nconsts": len(body.captured),
    }  # fmt: skip
    check_equation("while", params, [*test.captured, *body.captured, *leaves])
    if max_steps is None:
        result = cf.while_p.bind(*test.captured, *body.captured, *leaves, **params)
    else:
        result = cf.bounded_while_p.bind(*test.captured, *body.captured, *leaves, **params, max_steps=int(max_steps))
    return tree_unflatten(carry_tree, result)


def _python_while(cond_fun: Any, body_fun: Any, val: Any, max_steps: int | None) -> Any:
    steps = 0
    while steps != max_steps and bool(cond_fun(val)):
        val = body_fun(val)
        steps += 1
    return val


def fori_loop(lower: Any, upper: Any, body_fun: Callable[[Any, Any], Any], init_val: Any, *,
              unroll: int | bool | None = None) -> Any:  # fmt: skip
    """``val = init_val; for i in range(lower, upper): val = body_fun(i, val); return val``.

    Args:
        lower, upper: real scalars. When both are known while tracing the loop is a `scan` over integers (which can be
            differentiated in reverse), otherwise a `while_loop`.
        body_fun: takes the index and the carry, returns the next carry of the same structure and types.
        init_val: the first carry, a pytree of arrays.
        unroll: iterations in one loop step (True: all); only for bounds that are known.

    Raises TypeError when the bounds are no real scalars of one dtype or the carry changes its type, ValueError for
    an `unroll` where a bound is not known while tracing.

    Example: ``lax.fori_loop(0, 10, lambda i, x: x + i, 0)``.
    """
    check_callable("fori_loop", "body_fun", body_fun)
    for name, bound in (("lower", lower), ("upper", upper)):
        a = aval_of(bound)
        if a.shape or not (dtypes.is_integer(a.dtype) or dtypes.is_float(a.dtype)):
            raise TypeError(f"fori_loop: {name} must be a real scalar, got {a.short()}")
    la, ua = aval_of(lower), aval_of(upper)
    dtype, weak = dtypes.promote([(la.dtype, la.weak_type), (ua.dtype, ua.weak_type)])
    low, high = concrete_value(lower), concrete_value(upper)
    if low is not None and high is not None:  # floats are cut, as in JAX
        trips = max(int(high) - int(low), 0)
        if config.options.disable_jit:
            for i in range(int(low), int(high)):
                init_val = body_fun(i, init_val)
            return init_val

        def step(carry: Any, _: Any) -> tuple[Any, None]:
            i, val = carry
            return (ew.add(i, 1), body_fun(i, val)), None

        is_default = weak and dtype == dtypes.canonicalize(dtypes.int64) or dtypes.is_float(dtype)
        first: Any = int(low) if is_default else np.asarray(int(low), dtype)[()]
        (_, result), _ = _scan("fori_loop", body_fun, step, (first, init_val), None, trips, unroll=unroll or 1)
        return result
    if unroll is not None:
        raise ValueError("fori_loop: unroll needs bounds that are known while the function is traced")
    lower, upper = (ew.convert_element_type(x, dtype, weak) for x in (lower, upper))
    result = while_loop(
        lambda c: ew.lt(c[0], c[1]), lambda c: (ew.add(c[0], 1), c[1], body_fun(c[0], c[2])), (lower, upper, init_val)
    )
    return result[2]


def platform_dependent(
    *args: Any, default: Callable[..., Any] | None = None, **per_platform: Callable[..., Any]
) -> Any:
    """What the function for the platform gives: ``cpu=f, cuda=g``, or `default` for any other.

    The platform is that of the default device where the call is traced or run (`jax.default_device` chooses): JAX decides when
    the program is lowered. The other functions are not traced.

    Args:
        args: what the function takes.
        default: for platforms that are not named.
        per_platform: a function by the name of each platform: cpu, cuda, vulkan, rocm, tpu.

    Raises:
        TypeError: one of them is not callable.
        ValueError: a platform is called gpu.
        NotImplementedError: there is no function for the platform.

    >>> float(quire.lax.platform_dependent(2.0, cpu=lambda x: x + 1, default=lambda x: x))
    3.0
    """
    for name, f in (*per_platform.items(), *(() if default is None else (("default", default),))):
        check_callable("platform_dependent", name, f)
    if "gpu" in per_platform:
        raise ValueError("platform_dependent: gpu names no platform: use cuda, vulkan or rocm")
    platform = as_device(None).platform
    chosen = per_platform.get(platform, default)
    if chosen is None:
        raise NotImplementedError(
            f"platform_dependent: there is no function for platform {platform!r}, only for {', '.join(per_platform) or 'none'}: "
            "give it, or default="
        )
    return chosen(*args)


# -- scan --------------------------------------------------------------------------------------------------------------


def scan(f: Callable[[Any, Any], tuple[Any, Any]], init: Any, xs: Any = None, length: int | None = None,
         reverse: bool = False, unroll: int | bool = 1, _split_transpose: bool = False) -> tuple[Any, Any]:  # fmt: skip
    """``for x in xs: carry, y = f(carry, x)``; the final carry and the stacked ys.

    Args:
        f: takes the carry and one slice of xs; returns the next carry (same structure, shapes, dtypes) and y.
        init: the first carry, a pytree of arrays.
        xs: a pytree of arrays whose first dimension is iterated over; None for none.
        length: the number of iterations; needed when xs holds no arrays.
        reverse: go from the last index to the first; ys stay at the index of their iteration.
        unroll: iterations in one step of the compiled loop (True: all).

    Raises TypeError when the carry changes its type, ValueError when leading dimensions disagree.

    Example: ``lax.scan(lambda c, x: (c + x, c), 0., xs)`` gives the sum and the exclusive prefix sums.
    """
    check_callable("scan", "f", f)
    return _scan("scan", f, f, init, xs, length, reverse, unroll)


def _scan(api: str, user: Any, f: Callable[[Any, Any], Any], init: Any, xs: Any, length: int | None,
          reverse: bool = False, unroll: int | bool = 1) -> tuple[Any, Any]:  # fmt: skip
    xs_flat, xs_tree = flatten_arrays(xs)
    length = _scan_length(api, xs_flat, xs_tree, length)
    unroll = _unroll(api, unroll, length)
    init_flat, carry_tree = flatten_arrays(init)
    if config.options.disable_jit and length > 0:
        return _python_scan(f, init, xs_flat, xs_tree, length, reverse)
    in_tree = flatten_arrays((init, xs))[1]
    x_avals = [aval_of(x) for x in xs_flat]
    x_avals = [_row_of(a) for a in x_avals]
    what = f"body_fun {function_name(user)}" if api == "fori_loop" else f"f {function_name(user)}"

    def body_of(leaves: Sequence[Any]) -> tuple[Traced, Any, int]:
        carry_out: Any = None

        def pair(carry: Any, x: Any) -> Any:
            nonlocal carry_out
            out = f(carry, x)
            if not isinstance(out, tuple | list) or len(out) != 2:
                raise TypeError(f"{api}: {what} must return a pair (carry, y), got {type(out).__name__}: {out!r}")
            carry_out = flatten_arrays(out[0])[1]
            return tuple(out)

        pair.__name__ = function_name(user)
        traced = trace(pair, in_tree, [*(aval_of(x) for x in leaves), *x_avals], "body")
        return traced, carry_out, carry_out.num_leaves

    body, carry_out, n = body_of(init_flat)
    while (promoted := promote_carry(init_flat, body.out_avals[:n])) is not None:
        init_flat = promoted
        body, carry_out, n = body_of(init_flat)
    check_carry(api, what, carry_tree, [aval_of(x) for x in init_flat], carry_out, body.out_avals[:n])
    about = {"jaxpr": body.closed, "num_consts": len(body.captured), "num_carry": n, "length": length}
    check_equation("scan", about, [*body.captured, *init_flat, *xs_flat])
    out = cf.scan(body.captured, init_flat, xs_flat, body.closed, length=length, reverse=bool(reverse), unroll=unroll)
    y_tree = body.out_tree.child(1)
    return tree_unflatten(carry_tree, out[:n]), tree_unflatten(y_tree, out[n:])


def _row_of(aval: Any) -> Any:
    """The type of what one step of a scan takes. Raises ShardingTypeError where a device would have no row of its own to give."""
    row = aval.along(0)
    if aval.division is not None and aval.sharding.spec[0] is not None:
        raise ValueError(f"0th dimension of all xs should be replicated. Got {aval.sharding.spec}")
    return row


def _scan_length(api: str, xs: Sequence[Any], tree: Any, length: int | None) -> int:
    sizes: list[int] = []
    for i, x in enumerate(xs):
        a = aval_of(x)
        if not a.shape:
            raise ValueError(
                f"{api}: xs{path(tree, i)} is {a.short()}: every xs must have a leading dimension to scan over"
            )
        sizes.append(a.shape[0])
    if length is not None:
        try:
            length = operator.index(length)
        except TypeError:
            raise TypeError(f"{api}: length must be an int known while tracing, got {length!r}") from None
        wrong = [f"xs{path(tree, i)} has {n}" for i, n in enumerate(sizes) if n != length]
        if wrong:
            raise ValueError(f"{api}: length is {length}, but the leading dimension of {', '.join(wrong)}")
        if length < 0:
            raise ValueError(f"{api}: length must not be negative, got {length}")
        return length
    if not sizes:
        raise ValueError(f"{api}: xs holds no arrays: give length=")
    if len(set(sizes)) > 1:
        given = ", ".join(f"xs{path(tree, i)}: {n}" for i, n in enumerate(sizes))
        raise ValueError(f"{api}: all xs must have the same leading dimension, got {given}")
    return sizes[0]


def _unroll(api: str, unroll: int | bool, length: int) -> int:
    if isinstance(unroll, bool):
        return max(length, 1) if unroll else 1
    if unroll < 0:
        raise ValueError(f"{api}: unroll must be an int that is not negative or a bool, got {unroll!r}")
    return max(int(unroll), 1)


def _python_scan(f: Any, carry: Any, xs: Sequence[Any], tree: Any, length: int, reverse: bool) -> tuple[Any, Any]:
    ys: list[Any] = [None] * length
    y_tree: Any = None
    for i in reversed(range(length)) if reverse else range(length):
        carry, y = f(carry, tree_unflatten(tree, [_row(x, i) for x in xs]))
        ys[i], y_tree = flatten_arrays(y)
    columns = zip(*ys)
    stacked = [st.concatenate([st.reshape(r, (1, *aval_of(r).shape)) for r in column], 0) for column in columns]
    return carry, tree_unflatten(y_tree, stacked)


def _row(x: Any, i: int) -> Any:
    shape = aval_of(x).shape
    row = st.slice(x, (i, *(0 for _ in shape[1:])), (i + 1, *shape[1:]))
    return st.reshape(row, shape[1:])


# -- map, associative_scan ---------------------------------------------------------------------------------------------


def map(f: Callable[[Any], Any], xs: Any, *, batch_size: int | None = None) -> Any:
    """``stack([f(x) for x in xs])``, as a loop; with `batch_size`, as a loop over vectorised batches of so many
    (0: all in one).

    Args:
        f: takes one slice of xs along the first dimension.
        xs: a pytree of arrays with the same leading dimension.

    Raises as `scan`, and ValueError for a batch_size below 0.

    Example: ``lax.map(lambda x: x @ x, matrices)`` needs the memory of one product at a time.
    """
    check_callable("map", "f", f)
    if batch_size is None:
        return _scan("map", f, lambda _, x: ((), f(x)), (), xs, None)[1]
    if operator.index(batch_size) < 0:
        raise ValueError(f"map: batch_size must be an int of 0 or more, got {batch_size!r}")

    leaves, tree = flatten_arrays(xs)
    n = _scan_length("map", leaves, tree, None)
    batch_size = batch_size or max(n, 1)
    whole = n // batch_size * batch_size
    batched = vmap(f)
    parts: list[Any] = []
    if whole:
        rows = [
            st.reshape(st.slice_in_dim(x, 0, whole), (whole // batch_size, batch_size, *aval_of(x).shape[1:]))
            for x in leaves
        ]
        out = _scan("map", f, lambda _, x: ((), batched(x)), (), tree_unflatten(tree, rows), None)[1]
        out_leaves, out_tree = flatten_arrays(out)
        out_leaves = [st.reshape(y, (whole, *aval_of(y).shape[2:])) for y in out_leaves]
        parts.append((out_leaves, out_tree))
    if whole < n or not whole:
        rest = batched(tree_unflatten(tree, [st.slice_in_dim(x, whole, n) for x in leaves]))
        parts.append(flatten_arrays(rest))
    columns = zip(*(p[0] for p in parts))
    return tree_unflatten(parts[0][1], [c[0] if len(c) == 1 else st.concatenate(c, 0) for c in columns])


__all__ = ["cond", "fori_loop", "map", "platform_dependent", "scan", "switch", "while_loop"]
