"""Functions with derivatives of the user's: custom_jvp, custom_vjp, custom_gradient, closure_convert."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

from quire.ir import dtypes
from quire.ir.avals import ShapedArray, aval_of
from quire.ir.config import config
from quire.ir.jaxpr import ClosedJaxpr
from quire.ir.primitives.calls import custom_jvp_call_p, custom_vjp_call_p
from quire.ir.primitives.elementwise import convert_element_type
from quire.ir.source import current_source, where
from quire.ir.tracing import Tracer, current_trace, eval_jaxpr, stand_in, trace_flat
from quire.passes.ad.rules import Zero, instantiate

from .. import tree_util
from ..arrays.key_array import PRNGKeyArray
from ..arrays.operands import as_array
from ..arrays.tangents import flatten_tangents
from ..compiling.arguments import signature_of
from .closures import ClosedOver, closed_over
from .functions import check_callable, name_of

FORWARDED = ("defjvp", "defjvps", "defvjp", "def_vmap")
"""Methods that give a rule: those that a function lacks are those of the function that it wraps."""


class SymbolicZero:
    """A tangent or cotangent that is zero everywhere, as rules with ``symbolic_zeros=True`` see and return it."""

    __slots__ = ("aval",)

    def __init__(self, aval: ShapedArray) -> None:
        self.aval = aval

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the array of zeros that it stands for."""
        return self.aval.shape

    @property
    def dtype(self) -> Any:
        """The dtype of the array of zeros that it stands for."""
        return self.aval.dtype

    def __repr__(self) -> str:
        return f"SymbolicZero({self.aval.short()})"

    def made_keys(self, impl: str) -> SymbolicZero:
        """That of an array of keys, from that of their words."""
        return SymbolicZero(self.aval.update(shape=self.aval.shape[:-1]))

    @staticmethod
    def from_primal_value(x: Any) -> SymbolicZero:
        """The zero tangent of a value."""
        return SymbolicZero(aval_of(x).tangent())


def zero_from_primal(x: Any, symbolic_zeros: bool = False) -> Any:
    """The zero tangents of a pytree of values, symbolic or as arrays."""
    from quire.passes.ad.rules import zeros

    def zero(leaf: Any) -> Any:
        aval = aval_of(leaf).tangent()
        return SymbolicZero(aval) if symbolic_zeros else zeros(aval)

    return tree_util.tree_map(zero, x)


@dataclass(frozen=True)
class CustomVJPPrimal:
    """An argument of a ``symbolic_zeros`` forward rule: its value, and whether it is differentiated."""

    value: Any
    perturbed: bool

    def made_keys(self, impl: str) -> CustomVJPPrimal:
        """That of an array of keys, from that of their words."""
        return CustomVJPPrimal(PRNGKeyArray(self.value, impl), self.perturbed)


def custom_vjp_primal_tree_values(tree: Any) -> Any:
    """The values of a pytree of `CustomVJPPrimal`, without what says whether they are differentiated.

    Raises:
        TypeError: a leaf is no `CustomVJPPrimal`.
    """

    def value(leaf: Any) -> Any:
        if type(leaf) is not CustomVJPPrimal:
            raise TypeError(f"custom_vjp_primal_tree_values: expected CustomVJPPrimal leaves, got {leaf!r}")
        return leaf.value

    return tree_util.tree_map(value, tree)


@dataclass(frozen=True)
class _Fixed:
    """Arguments that are not differentiated, compared by value where that is possible."""

    values: tuple[Any, ...]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Fixed) or len(self.values) != len(other.values):
            return False
        return all(x is y or (_hashable(x) and _hashable(y) and x == y) for x, y in zip(self.values, other.values))

    def __hash__(self) -> int:
        return hash(tuple(x if _hashable(x) else id(x) for x in self.values))


def _hashable(x: Any) -> bool:
    try:
        hash(x)
    except TypeError:
        return False
    return True


@dataclass(frozen=True)
class _Call:
    """The arguments of one call, split."""

    f: Callable[..., Any]  # of the differentiated arguments only
    fixed: _Fixed
    leaves: list[Any]
    tree: Any
    closed: ClosedOver

    @property
    def operands(self) -> list[Any]:
        """What rules are given, flat: what they close over comes first, so that every transformation takes it along."""
        return [*self.closed.tracers, *self.leaves]


class _Custom:
    """What both kinds have in common: the function, and which of its arguments are not differentiated."""

    def __init__(
        self, fun: Callable[..., Any], nondiff_argnums: Sequence[int] = (), nondiff_argnames: Sequence[str] = ()
    ) -> None:
        check_callable(fun, type(self).__name__)
        functools.update_wrapper(cast("Any", self), fun)
        self.fun = fun
        self._name = name_of(fun)
        numbers = {int(n) for n in nondiff_argnums}
        signature = signature_of(fun)
        if nondiff_argnames and signature is not None:
            parameters = list(signature.parameters)
            numbers |= {parameters.index(n) for n in nondiff_argnames}
        self._nondiff = tuple(sorted(numbers))

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(cast("Any", self), instance)

    def __getattr__(self, name: str) -> Any:
        if name in FORWARDED and "fun" in vars(self):
            return getattr(self.fun, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _resolved(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """All arguments by position, defaults filled in."""
        if not kwargs and signature_of(self.fun) is None:
            return args
        try:
            bound = inspect.signature(self.fun).bind(*args, **kwargs)
        except (TypeError, ValueError):
            if kwargs:
                raise TypeError(
                    f"{self._name}: the keyword arguments {', '.join(kwargs)} cannot be resolved to positions, as a "
                    f"{type(self).__name__} function needs"
                ) from None
            return args
        bound.apply_defaults()
        # The defaults of keyword-only parameters are the function's own affair.
        given = [k for k in bound.kwargs if k in kwargs]
        if given:
            raise TypeError(
                f"{self._name}: keyword-only arguments {', '.join(given)} are not possible in a "
                f"{type(self).__name__} function: make them positional"
            )
        return bound.args

    def _split(self, args: tuple[Any, ...], *rules: Callable[..., Any]) -> _Call:
        bad = [n for n in self._nondiff if not -len(args) <= n < len(args)]
        if bad:
            raise ValueError(f"{self._name}: nondiff_argnums {bad} but there are {len(args)} arguments")
        fixed_at = {n % len(args) for n in self._nondiff}
        fixed = tuple(args[i] for i in sorted(fixed_at))
        dynamic = tuple(a for i, a in enumerate(args) if i not in fixed_at)

        def f(*given: Any) -> Any:
            full = list(given)
            for i in sorted(fixed_at):
                full.insert(i, args[i])
            return self.fun(*full)

        leaves, tree = tree_util.flatten_arrays(dynamic)
        for x in leaves:
            try:
                aval_of(x)
            except TypeError:
                raise TypeError(
                    f"{self._name}: an argument holds {x!r} of type {type(x).__name__}, which is no array: list its "
                    f"position in nondiff_argnums{where(current_source())}"
                ) from None
        closed = ClosedOver(()) if current_trace() is None else closed_over((*rules, *fixed, self.fun))
        return _Call(f, _Fixed(fixed), leaves, tree, closed)

    def _traced(self, call: _Call) -> tuple[Any, list[Any], Any]:
        """The primal function as a jaxpr, what it captured, and its output's tree."""
        out_tree: Any = None

        def flat(*xs: Any) -> list[Any]:
            nonlocal out_tree
            leaves = xs[len(call.closed) :]  # what the function itself closes over is captured
            out, out_tree = tree_util.flatten_arrays(call.f(*tree_util.tree_unflatten(call.tree, leaves)))
            return out

        avals = [aval_of(x) for x in call.operands]
        jaxpr, captured, _ = trace_flat(flat, avals, name=self._name, staging=False, values=call.operands)
        return jaxpr, captured, out_tree


def _recording(call: _Call) -> bool:
    trace = current_trace()
    return trace is not None and (trace.staging or any(isinstance(x, Tracer) for x in call.operands))


# -- custom_jvp -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _AsCalled:
    """A rule of the user's, under the width of numbers that was in force where its function was called.

    A rule is asked for later, when a block with ``enable_x64`` may be over, and its results are to fit the function's.
    """

    rule: Callable[..., Any]
    enable_x64: bool

    def __call__(self, *args: Any) -> Any:
        if config.options.enable_x64 == self.enable_x64:
            return self.rule(*args)
        with config.override(enable_x64=self.enable_x64):
            return self.rule(*args)


def _as_called(rule: Callable[..., Any]) -> _AsCalled:
    return _AsCalled(rule, config.options.enable_x64)


def _check_like(rule: str, name: str, outs: Sequence[Any], want: Sequence[ShapedArray]) -> None:
    """Raise TypeError unless a rule's outputs have the types of the function's."""
    for i, (x, aval) in enumerate(zip(outs, want, strict=True)):
        got = aval_of(x)
        if got.shape != aval.shape or (got.dtype != aval.dtype and not got.weak_type):
            which = f" {i}" if len(outs) > 1 else ""
            raise TypeError(
                f"{rule} must return what {name} returns: output{which} is {aval.short()}, the rule returned {got.short()}"
            )


def _tangent(t: Any, symbolic: bool) -> Any:
    """A tangent or cotangent as a rule of the user's sees it."""
    if type(t) is Zero and symbolic:
        return SymbolicZero(t.aval)
    aval = t.aval if type(t) is Zero else aval_of(t)
    return np.zeros(aval.shape, dtypes.float0) if aval.dtype == dtypes.float0 else as_array(instantiate(t))


@dataclass(frozen=True)
class _JvpRule:
    """``(primals, tangents) -> (results, tangents)``, flat, from the user's rule."""

    rule: Callable[..., Any]
    fixed: _Fixed
    in_tree: Any
    out_tree: Any
    name: str
    symbolic_zeros: bool
    out_avals: tuple[ShapedArray, ...]
    closed: ClosedOver

    def __call__(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        n = len(self.closed)  # the function does not read these operands: their tangents are nobody's
        return self.closed.call(self._called, primals[:n], primals[n:], tangents[n:])

    def _called(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        primals = [as_array(x) for x in primals]
        ts = [_tangent(t, self.symbolic_zeros) for t in tangents]
        out = self.rule(
            *self.fixed.values,
            tree_util.tree_unflatten(self.in_tree, primals),
            tree_util.tree_unflatten(self.in_tree, ts),
        )
        if not isinstance(out, tuple | list) or len(out) != 2:
            raise TypeError(
                f"the jvp rule of {self.name} must return a pair (primal output, tangent output), it returned {out!r}"
            )
        outs, out_tree = tree_util.flatten_arrays(out[0])
        out_ts, tangent_tree = flatten_tangents(out[1], out_tree, self.out_avals)
        if out_tree != self.out_tree:
            raise TypeError(
                f"the jvp rule of {self.name} must return the output's tree structure {self.out_tree}, got {out_tree}"
            )
        if tangent_tree != out_tree:
            raise TypeError(
                f"the jvp rule of {self.name} must return primal and tangent outputs of one tree structure, got "
                f"{out_tree} and {tangent_tree}"
            )
        _check_like(f"the jvp rule of {self.name}", self.name, outs, self.out_avals)
        results: list[Any] = []
        for x, t in zip(outs, out_ts):
            want = aval_of(x).tangent()
            if isinstance(t, SymbolicZero):
                results.append(Zero(want))
                continue
            got = aval_of(t)
            if got.shape != want.shape or (got.dtype != want.dtype and not got.weak_type):
                raise TypeError(
                    f"the jvp rule of {self.name} must return a tangent of type {want.short()} for the output "
                    f"{aval_of(x).short()}, got {got.short()}"
                )
            results.append(Zero(want) if want.dtype == dtypes.float0 else _as_dtype(t, want))
        return list(map(stand_in, outs)), list(map(stand_in, results))


def _as_dtype(x: Any, aval: ShapedArray) -> Any:
    return x if aval_of(x).dtype == aval.dtype else convert_element_type(x, aval.dtype)


class custom_jvp(_Custom):
    """A function whose forward derivative (and so every derivative) is given by the user.

    Args:
        fun: the function.
        nondiff_argnums: positions of arguments that are not arrays or are not differentiated; the rule gets them first.

    Example:
        >>> import quire, quire.numpy as qnp
        >>> @quire.custom_jvp
        ... def f(x):
        ...     return qnp.sin(x)
        >>> @f.defjvp
        ... def f_jvp(primals, tangents):
        ...     (x,), (t,) = primals, tangents
        ...     return f(x), 2.0 * t
        >>> float(quire.grad(f)(0.5))
        2.0
    """

    def __init__(
        self, fun: Callable[..., Any], nondiff_argnums: Sequence[int] = (), nondiff_argnames: Sequence[str] = ()
    ) -> None:
        super().__init__(fun, nondiff_argnums, nondiff_argnames)
        self.jvp: Callable[..., Any] | None = None
        self._symbolic_zeros = False

    def defjvp(self, jvp: Callable[..., Any], symbolic_zeros: bool = False) -> Callable[..., Any]:
        """Give the rule ``jvp(*nondiff, primals, tangents) -> (output, output tangent)``; usable as a decorator.

        With `symbolic_zeros`, tangents that are zero are `SymbolicZero` objects instead of arrays.
        """
        self.jvp = jvp
        self._symbolic_zeros = symbolic_zeros
        return jvp

    def defjvps(self, *jvps: Callable[..., Any] | None) -> None:
        """Give a rule for each argument: ``jvps[i](tangent, output, *primals)``; None where the derivative is zero.

        Raises:
            TypeError: the function was made with nondiff_argnums.
        """
        if self._nondiff:
            raise TypeError(f"{self._name}: defjvps does not go with nondiff_argnums; use defjvp")

        def rule(primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Any, Any]:
            out = self(*primals)
            total: Any = None
            for t, f in zip(tangents, jvps):
                if f is not None:
                    term = f(t, out, *primals)
                    total = term if total is None else _tree_add(total, term)
            if total is None:
                total = tree_util.tree_map(zero_from_primal, out)
            return out, total

        self.defjvp(rule)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.jvp is None:
            raise AttributeError(
                f"no jvp rule is defined for the custom_jvp function {self._name}: give one with {self._name}.defjvp"
            )
        call = self._split(self._resolved(args, kwargs), self.jvp)
        if not _recording(call):
            return call.f(*tree_util.tree_unflatten(call.tree, call.leaves))
        jaxpr, captured, out_tree = self._traced(call)
        rule = _JvpRule(
            _as_called(self.jvp),
            call.fixed,
            call.tree,
            out_tree,
            self._name,
            self._symbolic_zeros,
            tuple(jaxpr.out_avals),
            call.closed,
        )
        outs = custom_jvp_call_p.bind(
            *captured, *call.operands, name=self._name, call_jaxpr=_closed(jaxpr), jvp_jaxpr_fun=rule,
            num_consts=len(captured), symbolic_zeros=self._symbolic_zeros,
        )  # fmt: skip
        return tree_util.tree_unflatten(out_tree, outs)


def _closed(jaxpr: Any) -> Any:
    return ClosedJaxpr(jaxpr, ())


def _tree_add(a: Any, b: Any) -> Any:
    return tree_util.tree_map(lambda x, y: x + y, a, b)


def define_partials(f: custom_jvp, *partials: Callable[..., Any] | None) -> None:
    """As `f.defjvps(*partials)`, of a function with one result, but an argument whose tangent is zero has no part in the sum.

    So a derivative by one argument is no NaN where the one by another argument is infinite.
    """

    def rule(primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Any, Any]:
        out = f(*primals)
        moved = [(t, by) for t, by in zip(tangents, partials) if by is not None and not isinstance(t, SymbolicZero)]
        if not moved:
            return out, SymbolicZero.from_primal_value(out)
        total, *rest = (by(t, out, *primals) for t, by in moved)
        for term in rest:
            total = total + term
        return out, total

    f.defjvp(rule, symbolic_zeros=True)


# -- custom_vjp -----------------------------------------------------------------------------------------------------------


@dataclass
class _Residuals:
    """The tree of the residuals, known once the forward rule has run, and those that are Python's numbers, by position.

    A number of Python stays what it is: the backward rule may branch on it.
    """

    tree: Any = None
    numbers: dict[int, Any] = field(default_factory=dict)

    def split(self, residuals: Any) -> list[Any]:
        """The residuals that are arrays; the others are kept."""
        leaves, self.tree = tree_util.flatten_arrays(residuals)
        self.numbers = {i: x for i, x in enumerate(leaves) if type(x) in (bool, int, float, complex)}
        return [x for i, x in enumerate(leaves) if i not in self.numbers]

    def joined(self, arrays: Sequence[Any]) -> Any:
        """All residuals, as the forward rule returned them."""
        rest = iter(arrays)
        n = len(arrays) + len(self.numbers)
        leaves = [self.numbers[i] if i in self.numbers else next(rest) for i in range(n)]
        return tree_util.tree_unflatten(self.tree, leaves)


@dataclass(frozen=True)
class _Forward:
    """``(args, nonzeros) -> (results, residuals)``, flat, from the user's forward rule."""

    rule: Callable[..., Any]
    nondiff: tuple[int, ...]
    fixed: _Fixed
    in_tree: Any
    out_tree: Any
    name: str
    symbolic_zeros: bool
    residuals: _Residuals = field(compare=False)
    out_avals: tuple[ShapedArray, ...]
    closed: ClosedOver

    def __call__(self, args: Sequence[Any], nonzeros: Sequence[bool]) -> tuple[list[Any], list[Any]]:
        n = len(self.closed)
        outs, residuals = self.closed.call(self._called, args[:n], args[n:], nonzeros[n:])
        return outs, [*args[:n], *residuals]  # the backward rule may close over the same values

    def _called(self, args: Sequence[Any], nonzeros: Sequence[bool]) -> tuple[list[Any], list[Any]]:
        args = [as_array(x) for x in args]
        if self.symbolic_zeros:
            args = [CustomVJPPrimal(x, bool(nz)) for x, nz in zip(args, nonzeros, strict=True)]
        full = list(tree_util.tree_unflatten(self.in_tree, args))
        n = len(full) + len(self.nondiff)
        for i, x in zip(sorted(k % n for k in self.nondiff), self.fixed.values):
            full.insert(i, x)
        out = self.rule(*full)
        if not isinstance(out, tuple | list) or len(out) != 2:
            raise TypeError(
                f"the forward rule of {self.name} must return a pair (output, residuals), it returned {out!r}"
            )
        outs, out_tree = tree_util.flatten_arrays(out[0])
        if out_tree != self.out_tree:
            raise TypeError(
                f"the forward rule of {self.name} must return the output's tree structure {self.out_tree} first, got "
                f"{out_tree}"
            )
        _check_like(f"the forward rule of {self.name}", self.name, outs, self.out_avals)
        return list(map(stand_in, outs)), list(map(stand_in, self.residuals.split(out[1])))


@dataclass(frozen=True)
class _Backward:
    """``(residuals, cotangents) -> cotangents of the arguments``, flat, from the user's backward rule."""

    rule: Callable[..., Any]
    fixed: _Fixed
    in_tree: Any
    in_avals: tuple[ShapedArray, ...]
    out_tree: Any
    name: str
    residuals: _Residuals = field(compare=False)
    closed: ClosedOver

    def __call__(self, residuals: Sequence[Any], cotangents: Sequence[Any]) -> list[Any]:
        n = len(self.closed)
        found = self.closed.call(self._called, residuals[:n], residuals[n:], cotangents)
        return [*([None] * n), *found]

    def _called(self, residuals: Sequence[Any], cotangents: Sequence[Any]) -> list[Any]:
        cts = [_tangent(ct, True) for ct in cotangents]
        found = self.rule(
            *self.fixed.values,
            self.residuals.joined(residuals),
            tree_util.tree_unflatten(self.out_tree, cts),
        )
        if isinstance(found, list):
            found = tuple(found)
        arguments = tree_util.tree_unflatten(self.in_tree, list(range(len(self.in_avals))))
        if not isinstance(found, tuple) or len(found) != len(arguments):
            raise TypeError(
                f"the backward rule of {self.name} must return a tuple with a cotangent for each of its "
                f"{len(arguments)} differentiated arguments, it returned {found!r}"
            )
        result: list[Any] = [None] * len(self.in_avals)
        for position, (ct, indices) in enumerate(zip(found, arguments)):
            given, prefix = tree_util.flatten_arrays(ct, is_leaf=lambda x: x is None)
            try:
                parts = prefix.flatten_up_to(indices)
            except ValueError:
                parts = None
            # None stands for zeros, of all that the argument has in its place.
            leaves = None if parts is None else [tree_util.flatten_arrays(part)[0] for part in parts]
            if leaves is None or any(len(n) != 1 for n, value in zip(leaves, given) if value is not None):
                raise TypeError(
                    f"the backward rule of {self.name} must return for argument {position} a cotangent of tree "
                    f"structure {tree_util.flatten_arrays(indices)[1]}, got {prefix}"
                )
            for places, value in zip(leaves, given):
                if value is not None:
                    result[places[0]] = stand_in(self._checked(value, self.in_avals[places[0]], position))
        return result

    def _checked(self, value: Any, aval: ShapedArray, position: int) -> Any:
        want = aval.tangent()
        if (
            value is None
            or isinstance(value, SymbolicZero)
            and value.shape == want.shape
            or want.dtype == dtypes.float0
        ):
            return None
        got = value.aval if isinstance(value, SymbolicZero) else aval_of(value)
        if got.shape != want.shape and not config.options.disable_bwd_checks:
            raise ValueError(
                f"the backward rule of {self.name} must return a cotangent of shape {want.shape} for argument "
                f"{position} of type {aval.short()}, got {got.short()}"
            )
        return _as_dtype(value, want)


class custom_vjp(_Custom):
    """A function whose reverse derivative is given by the user.

    Args:
        fun: the function.
        nondiff_argnums: positions of arguments that are not arrays or are not differentiated; `fwd` gets them in
            their places, `bwd` gets them first.

    Example:
        >>> import quire, quire.numpy as qnp
        >>> @quire.custom_vjp
        ... def f(x):
        ...     return qnp.sin(x)
        >>> f.defvjp(lambda x: (f(x), x), lambda x, ct: (3.0 * ct,))
        >>> float(quire.grad(f)(0.5))
        3.0
    """

    def __init__(
        self, fun: Callable[..., Any], nondiff_argnums: Sequence[int] = (), nondiff_argnames: Sequence[str] = ()
    ) -> None:
        super().__init__(fun, nondiff_argnums, nondiff_argnames)
        self.fwd: Callable[..., Any] | None = None
        self.bwd: Callable[..., Any] | None = None
        self._symbolic_zeros = False

    def defvjp(
        self,
        fwd: Callable[..., Any],
        bwd: Callable[..., Any],
        symbolic_zeros: bool = False,
        optimize_remat: bool = False,
    ) -> None:
        """Give the rules: ``fwd(*args) -> (output, residuals)``, ``bwd(*nondiff, residuals, cotangent) -> tuple``.

        With `symbolic_zeros`, `fwd` gets `CustomVJPPrimal` leaves and `bwd` `SymbolicZero` cotangents.
        `optimize_remat` is accepted and changes nothing: residuals are never computed twice.
        """
        self.fwd, self.bwd, self._symbolic_zeros = fwd, bwd, symbolic_zeros

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.fwd is None or self.bwd is None:
            raise AttributeError(
                f"no vjp rules are defined for the custom_vjp function {self._name}: give them with {self._name}.defvjp"
            )
        call = self._split(self._resolved(args, kwargs), self.fwd, self.bwd)
        if not _recording(call):
            return call.f(*tree_util.tree_unflatten(call.tree, call.leaves))
        jaxpr, captured, out_tree = self._traced(call)
        residuals = _Residuals()
        fwd = _Forward(
            _as_called(self.fwd), self._nondiff, call.fixed, call.tree, out_tree, self._name, self._symbolic_zeros, residuals,
            tuple(jaxpr.out_avals), call.closed,
        )  # fmt: skip
        avals = tuple(aval_of(x) for x in call.leaves)
        bwd = _Backward(
            _as_called(self.bwd), call.fixed, call.tree, avals, out_tree, self._name, residuals, call.closed
        )
        outs = custom_vjp_call_p.bind(
            *captured, *call.operands, name=self._name, call_jaxpr=_closed(jaxpr), fwd_jaxpr_thunk=fwd, bwd=bwd,
            num_consts=len(captured), symbolic_zeros=self._symbolic_zeros,
        )  # fmt: skip
        return tree_util.tree_unflatten(out_tree, outs)


def custom_gradient(fun: Callable[..., Any]) -> Callable[..., Any]:
    """A function given together with its gradient: ``fun(*args)`` returns (output, vjp).

    ``vjp(cotangent)`` returns the arguments' cotangents: one value for one argument, else a tuple.
    """
    check_callable(fun, "custom_gradient")

    @custom_vjp
    @functools.wraps(fun)
    def wrapped(*args: Any) -> Any:
        return fun(*args)[0]

    def forward(*args: Any) -> tuple[Any, Any]:
        out, rule = fun(*args)
        out_leaves, out_tree = tree_util.flatten_arrays(out)
        in_leaves, in_tree = tree_util.flatten_arrays(args)

        def flat(*cts: Any) -> list[Any]:
            found = rule(tree_util.tree_unflatten(out_tree, cts))
            if len(args) == 1 and not (isinstance(found, tuple | list) and len(found) == 1):
                found = (found,)
            leaves, tree = tree_util.flatten_arrays(tuple(found))
            if tree != in_tree:
                raise TypeError(
                    f"custom_gradient of {name_of(fun)}: the vjp function must return the arguments' tree structure "
                    f"{in_tree}, got {tree}"
                )
            return leaves

        cts = [aval_of(x).tangent() for x in out_leaves]
        jaxpr, captured, _ = trace_flat(flat, cts, name=f"custom_gradient of {name_of(fun)}")
        return out, tree_util.Partial(functools.partial(_apply_pullback, jaxpr, out_tree, in_tree), captured)

    def backward(residual: Any, cotangent: Any) -> Any:
        return residual(cotangent)

    wrapped.defvjp(forward, backward)
    return wrapped


def _apply_pullback(jaxpr: Any, out_tree: Any, in_tree: Any, captured: Sequence[Any], cotangent: Any) -> Any:
    cts, _ = tree_util.flatten_arrays(cotangent)
    return tree_util.tree_unflatten(in_tree, eval_jaxpr(jaxpr, (), [*captured, *cts]))


def closure_convert(fun: Callable[..., Any], *example_args: Any) -> tuple[Callable[..., Any], list[Any]]:
    """`fun` as a function without captured traced values, and the list of them.

    Returns (converted, values): ``converted(*args, *values)`` equals ``fun(*args)``. Used to give a custom_vjp
    function everything that it is to be differentiated by.
    """
    leaves, tree = tree_util.flatten_arrays(example_args)
    out_tree: Any = None

    def flat(*xs: Any) -> list[Any]:
        nonlocal out_tree
        out, out_tree = tree_util.flatten_arrays(fun(*tree_util.tree_unflatten(tree, xs)))
        return out

    jaxpr, captured, _ = trace_flat(flat, [aval_of(x) for x in leaves], name=f"closure_convert of {name_of(fun)}")
    hoisted = [isinstance(c, Tracer) and dtypes.is_inexact(c.aval.dtype) for c in captured]
    values = [c for c, h in zip(captured, hoisted) if h]

    def converted(*args_and_values: Any) -> Any:
        n = len(args_and_values) - len(values)
        args, given = args_and_values[:n], iter(args_and_values[n:])
        xs, args_tree = tree_util.flatten_arrays(args)
        if args_tree != tree:
            raise TypeError(
                f"closure_convert of {name_of(fun)}: the arguments must have the structure {tree}, got {args_tree}"
            )
        consts = [next(given) if h else c for c, h in zip(captured, hoisted)]
        return tree_util.tree_unflatten(out_tree, eval_jaxpr(jaxpr, (), [*consts, *xs]))

    return converted, values
