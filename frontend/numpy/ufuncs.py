"""`ufunc`: elementwise functions as objects with `reduce`, `accumulate`, `reduceat`, `outer` and `at`; `frompyfunc`.

The ufuncs of jax.numpy (add, maximum, ...) are made here from the functions of elementwise.py and arithmetic.py, which
the rest of the package calls directly. A reduction or an update that has a primitive of its own takes that; any other
is a loop over the elements, in their order.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.dtypes import DType
from quire.ir.primitive import Primitive
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import reductions as rd
from quire.ir.primitives import structural as st
from quire.ir.tracing import bind

from .. import lax
from ..arrays.operands import (
    Value,
    as_axes,
    as_axis,
    broadcast_to,
    cast,
    check_arraylike,
    concrete,
    ensure,
    no_out,
    promote_dtypes,
    scalar_like,
    user_dtype,
)
from ..arrays.shape_struct import ShapeDtypeStruct
from ..compiling.api import eval_shape
from . import arithmetic, elementwise, reductions
from ._ops import add_, div_, mul_, select
from .elementwise import as_bool
from .gufunc import vectorize
from .joining import append
from .ranges import arange
from .shapes import moveaxis, ravel
from .taking import take

_OUT_WHERE = [inspect.Parameter(n, inspect.Parameter.KEYWORD_ONLY, default=None) for n in ("out", "where")]


class ufunc:
    """A function of `nin` numbers with `nout` results, applied to every element of its broadcast arguments.

    Args:
        func: the function, of scalar arrays.
        nin, nout: how many arguments it takes and results it gives.
        name: its name, by default `func`'s.
        nargs: how many arguments a call takes, `nin` by default (NumPy counts results too, JAX does not).
        identity: the value that changes nothing, with which a reduction of no elements begins; None if there is none.
        call, reduce, accumulate, at, reduceat: implementations to use for those methods.

    Attributes: `nin`, `nout`, `nargs` and `identity`, as given. Follows `numpy.ufunc`.

    >>> quire.numpy.add.reduce(quire.numpy.array([[1, 2], [3, 4]]))
    Array([4, 6], dtype=int32)
    """

    def __init__(
        self,
        func: Callable[..., Any],
        /,
        nin: int,
        nout: int,
        *,
        name: str | None = None,
        nargs: int | None = None,
        identity: Any = None,
        call: Callable[..., Any] | None = None,
        reduce: Callable[..., Any] | None = None,
        accumulate: Callable[..., Any] | None = None,
        at: Callable[..., Any] | None = None,
        reduceat: Callable[..., Any] | None = None,
    ) -> None:
        functools.update_wrapper(self, func, updated=())
        self.__name__ = name or getattr(func, "__name__", type(func).__name__)
        self.func, self.nin, self.nout, self.identity = func, nin, nout, identity
        self.nargs = nin if nargs is None else nargs
        self._call = call or self._vectorized
        self._reduce, self._accumulate, self._at, self._reduceat = reduce, accumulate, at, reduceat
        try:
            own = list(inspect.signature(func).parameters.values())
        except (TypeError, ValueError):
            return
        if all(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in own):
            self.__signature__ = inspect.Signature(
                [*own, *(p for p in _OUT_WHERE if p.name not in [o.name for o in own])]
            )

    def __setattr__(self, name: str, value: Any) -> None:
        if name in ("func", "nin", "nout", "nargs", "identity") and name in vars(self):
            raise AttributeError(f"attribute {name!r} of a ufunc is not writable")
        object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        return f"<quire.numpy.ufunc {self.__name__!r}>"

    def __hash__(self) -> int:
        return hash((self.func, self.__name__, self.identity, self.nin, self.nout, self.nargs))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ufunc):
            return NotImplemented
        mine = (self.func, self.__name__, self.identity, self.nin, self.nout, self.nargs)
        return mine == (other.func, other.__name__, other.identity, other.nin, other.nout, other.nargs)

    def __reduce__(self) -> Any:
        if _BUILT_IN.get(self.__name__) is self:
            return _built_in, (self.__name__,)
        return _unpickled, (self.func, self.nin, self.nout, self.__name__, self.identity)

    def __call__(self, *args: Any, out: None = None, where: None = None) -> Any:
        if out is not None or where is not None:
            self._unsupported(out, where)
        return self._call(*args)

    def _unsupported(self, out: Any, where: Any) -> None:
        no_out(self.__name__, out)
        if where is not None:
            raise NotImplementedError(
                f"quire.numpy.{self.__name__}: the 'where' argument is not supported: choose with "
                f"quire.numpy.where(mask, {self.__name__}(...), x)"
            )

    def _vectorized(self, *args: Any) -> Any:
        if len(args) != self.nin:
            raise TypeError(f"quire.numpy.{self.__name__}: takes {self.nin} arguments, got {len(args)}")
        check_arraylike(self.__name__, *args)
        return vectorize(self.func)(*args)

    def _binary(self, method: str) -> str:
        """The method's name in errors; ValueError unless the ufunc has two arguments and one result."""
        name = f"{self.__name__}.{method}"
        if self.nin != 2:
            raise ValueError(
                f"quire.numpy.{name}: only binary ufuncs have {method}, this one takes {self.nin} arguments"
            )
        if self.nout != 1:
            raise ValueError(f"quire.numpy.{name}: only ufuncs with one result have {method}, this one has {self.nout}")
        return name

    def _result_dtype(self, *args: Value) -> DType:
        scalars = [ShapeDtypeStruct((), a.aval.dtype) for a in args]
        return eval_shape(self._call, *scalars).dtype

    # -- reductions -----------------------------------------------------------------------------------------------

    def reduce(
        self,
        a: Any,
        axis: Any = 0,
        dtype: Any = None,
        out: None = None,
        keepdims: bool = False,
        initial: Any = None,
        where: Any = None,
    ) -> Value:
        """The elements along an axis combined by the function: ``f(f(a[0], a[1]), a[2])`` and so on.

        Args:
            a: an array.
            axis: the axis; None for all elements.
            dtype: the dtype to compute in, and of the result.
            out: not supported.
            keepdims: whether the axis stays, with size 1.
            initial: the value to begin with, by default the identity.
            where: a boolean array that broadcasts to `a`: which elements take part.

        Raises:
            ValueError: the function is not binary; or there are no elements, or a mask, and neither identity nor
                initial value.

        >>> quire.numpy.subtract.reduce(quire.numpy.array([9, 2, 3])).item()
        4
        """
        name = self._binary("reduce")
        no_out(name, out)
        x = ensure(name, a)
        if where is not None:
            mask = ensure(name, where, "where")
            if not dtypes.is_bool(mask.aval.dtype):
                raise ValueError(f"quire.numpy.{name}: where must be boolean, got {mask.aval.short()}")
            if self.identity is None and initial is None:
                raise ValueError(
                    f"quire.numpy.{name}: {self.__name__} has no identity: with a where mask give initial, the value "
                    "over no elements"
                )
        keywords = {"axis": axis, "dtype": dtype, "keepdims": keepdims, "initial": initial, "where": where}
        return (self._reduce or self._folded)(x, **keywords)

    def _folded(self, x: Value, *, axis: Any, dtype: Any, keepdims: bool, initial: Any, where: Any) -> Value:
        name = f"{self.__name__}.reduce"
        to = self._result_dtype(x, x) if dtype is None else user_dtype(name, dtype)
        if isinstance(axis, tuple):
            raise NotImplementedError(f"quire.numpy.{name}: axis must be an integer or None, got {axis}")
        kept = tuple(1 if axis is None or i == axis % x.ndim else n for i, n in enumerate(x.aval.shape))
        mask = None if where is None else broadcast_to(ensure(name, where), x.aval.shape)
        if axis is None:
            x, mask, axis = ravel(x), None if mask is None else ravel(mask), 0
        d = as_axis(name, axis, x.ndim)
        rows = cast(moveaxis(x, d, 0), to)
        masks = None if mask is None else moveaxis(mask, d, 0)
        start = self.identity if initial is None else initial
        if start is None:
            if not rows.aval.shape[0]:
                raise ValueError(
                    f"quire.numpy.{name}: zero-size array {x.aval.short()} over axis {d}: {self.__name__} has no identity, "
                    "give initial"
                )
            carry, rows = rows[0], rows[1:]
        else:
            carry = broadcast_to(cast(ensure(name, start, "initial"), to), rows.aval.shape[1:])

        def step(held: Value, row: Any) -> tuple[Value, None]:
            value, chosen = row
            new = cast(self._call(held, value), to)
            return (new if chosen is None else select(chosen, new, held)), None

        result = lax.scan(step, carry, (rows, masks))[0]
        return st.reshape(result, kept) if keepdims else result

    def accumulate(self, a: Any, axis: int = 0, dtype: Any = None, out: None = None) -> Value:
        """The reductions of all beginnings of an axis: ``r[0] = a[0]``, ``r[i] = f(r[i-1], a[i])``.

        Args:
            a: an array. axis: the axis. dtype: the dtype to compute in. out: not supported.

        Raises:
            ValueError: the ufunc is not binary, or axis is not one integer.

        >>> quire.numpy.maximum.accumulate(quire.numpy.array([1, 3, 2]))
        Array([1, 3, 3], dtype=int32)
        """
        name = self._binary("accumulate")
        no_out(name, out)
        x = ensure(name, a)
        if axis is None or isinstance(axis, tuple):
            raise ValueError(f"quire.numpy.{name}: axis must be one integer, got {axis}")
        return (self._accumulate or self._scanned)(x, axis=as_axis(name, axis, x.ndim), dtype=dtype)

    def _scanned(self, x: Value, *, axis: int, dtype: Any) -> Value:
        to = self._result_dtype(x, x) if dtype is None else user_dtype(f"{self.__name__}.accumulate", dtype)
        rows = cast(moveaxis(x, axis, 0), to)
        if not rows.aval.size:
            return cast(x, to)

        def step(held: Value, row: Value) -> tuple[Value, Value]:
            new = cast(self._call(held, row), to)
            return new, new

        first = rows[0]
        rest = lax.scan(step, first, rows[1:])[1]
        return moveaxis(append(rows[:1], rest, axis=0), 0, axis)

    def reduceat(self, a: Any, indices: Any, axis: int = 0, dtype: Any = None, out: None = None) -> Value:
        """Reductions of slices of an axis: of ``a[indices[i]:indices[i+1]]``, the last one to the end.

        Args:
            a: an array of at least one dimension.
            indices: a vector of integers; where one is not below the next, the result is ``a[indices[i]]``.
            axis: the axis. dtype: the dtype to compute in, by default a's. out: not supported.

        Raises:
            ValueError: the ufunc is not binary, a is 0-dimensional, indices are no vector of integers, or axis is not
                one integer.

        >>> quire.numpy.add.reduceat(quire.numpy.array([1, 2, 3, 4]), quire.numpy.array([0, 1]))
        Array([1, 9], dtype=int32)
        """
        name = self._binary("reduceat")
        no_out(name, out)
        x, starts = ensure(name, a), ensure(name, indices, "indices")
        if not x.ndim:
            raise ValueError(f"quire.numpy.{name}: needs an array of at least 1 dimension, got {x.aval.short()}")
        if starts.ndim != 1 or not dtypes.is_integer(starts.aval.dtype):
            raise ValueError(f"quire.numpy.{name}: indices must be a vector of integers, got {starts.aval.short()}")
        if axis is None or isinstance(axis, tuple | list):
            raise ValueError(f"quire.numpy.{name}: axis must be one integer, got {axis}")
        d = as_axis(name, axis, x.ndim)
        to = x.aval.dtype if dtype is None else user_dtype(name, dtype)
        rows = cast(moveaxis(x, d, 0), to)
        if not starts.aval.size:
            return moveaxis(rows[:0], 0, d)
        return moveaxis((self._reduceat or self._segments)(rows, starts), 0, d)

    def _segments(self, rows: Value, starts: Value) -> Value:
        """`reduceat` along the first axis: one walk over the rows, in which each enters the slices that hold it."""
        n, wide = rows.aval.shape[0], (starts.aval.shape[0],) + (1,) * (rows.ndim - 1)
        begin = st.reshape(cast(starts, dtypes.int32), wide)
        end = st.reshape(append(cast(starts, dtypes.int32)[1:], np.int32(n)), wide)

        def step(held: Value, row: Any) -> tuple[Value, None]:
            i, value = row
            new = cast(self._call(held, broadcast_to(value, held.aval.shape)), rows.aval.dtype)
            inside = broadcast_to(elementwise.logical_and(begin < i, i < end), held.aval.shape)
            return select(inside, new, held), None

        return lax.scan(step, take(rows, starts, axis=0), (arange(n, dtype=np.int32), rows))[0]

    def outer(self, A: Any, B: Any, /) -> Value:
        """The function of all pairs of elements: of the shape of A followed by that of B.

        >>> quire.numpy.multiply.outer(quire.numpy.array([1, 2]), quire.numpy.array([3, 4]))
        Array([[3, 4],
               [6, 8]], dtype=int32)
        """
        name = self._binary("outer")
        x, y = ensure(name, A), ensure(name, B)
        return self._call(st.reshape(x, (*x.aval.shape, *(1,) * y.ndim)), st.reshape(y, (1,) * x.ndim + y.aval.shape))

    # -- updates --------------------------------------------------------------------------------------------------

    def at(self, a: Any, indices: Any, b: Any = None, /, *, inplace: bool = True) -> Value:
        """The array with the function applied to the selected elements, again for one that is selected again.

        Args:
            a: an array.
            indices: an index, as in ``a[indices]``.
            b: the second argument of a binary ufunc; it broadcasts to ``a[indices]``.
            inplace: must be False: arrays are immutable, the result is a new one.

        Raises:
            NotImplementedError: `inplace` is not False.
            ValueError: b is missing for a binary ufunc, or given for a unary one.

        >>> quire.numpy.add.at(quire.numpy.zeros(3), quire.numpy.array([0, 0]), 2., inplace=False)
        Array([4., 0., 0.], dtype=float32)
        """
        name = f"{self.__name__}.at"
        if inplace:
            raise NotImplementedError(
                f"quire.numpy.{name}: arrays are immutable: give inplace=False and use the array that is returned"
            )
        args = [] if b is None else [ensure(name, b, "b")]
        if self.nin != 1 + len(args):
            raise ValueError(f"quire.numpy.{name}: {self.__name__} takes {self.nin} arguments, got {1 + len(args)}")
        return (self._at or self._updated)(ensure(name, a), indices, *args)

    def _updated(self, x: Value, indices: Any, *args: Value) -> Value:
        to = self._result_dtype(x, *args)
        n = x.aval.size
        where = st.reshape(arange(n, dtype=np.int32), x.aval.shape).at[indices].get(mode="fill", fill_value=n)
        args = tuple(ravel(broadcast_to(cast(v, to), where.aval.shape)) for v in args)
        where, flat = ravel(where), ravel(cast(x, to))

        def once(values: Value, at: Value, *operands: Value) -> Value:
            new = self._call(values.at[at].get(mode="clip"), *operands)
            return values.at[at].set(cast(new, to), mode="drop")

        known = concrete(where)
        if known is None:  # an element may be selected several times: one after the other

            def step(values: Value, row: Any) -> tuple[Value, None]:
                return once(values, *row), None

            flat = lax.scan(step, flat, (where, *args))[0]
        else:  # all first occurrences at once, then all second ones
            for group in _rounds(known):
                flat = once(flat, known[group], *[v[group] for v in args])
        return st.reshape(flat, x.aval.shape)


def _rounds(positions: np.ndarray[Any, Any]) -> list[np.ndarray[Any, Any]]:
    """Indices into `positions` in groups without repetition: the first occurrences, the second ones, ..."""
    order = np.argsort(positions, kind="stable")
    ordered = positions[order]
    new = np.concatenate([[True], ordered[1:] != ordered[:-1]]) if ordered.size else np.zeros(0, bool)
    first = np.maximum.accumulate(np.where(new, np.arange(ordered.size), 0)) if ordered.size else ordered
    rank = np.empty(ordered.size, np.int64)
    rank[order] = np.arange(ordered.size) - first
    return [np.flatnonzero(rank == r) for r in range(int(rank.max(initial=-1)) + 1)]


def _built_in(name: str) -> ufunc:
    return _BUILT_IN[name]


def _unpickled(func: Callable[..., Any], nin: int, nout: int, name: str, identity: Any) -> ufunc:
    return ufunc(func, nin, nout, name=name, identity=identity)


def frompyfunc(func: Callable[..., Any], /, nin: int, nout: int, *, identity: Any = None) -> ufunc:
    """A ufunc of a function of scalars.

    Args:
        func: a function of `nin` scalar arrays that returns `nout` of them (a tuple for several).
        identity: the value that changes nothing, with which reductions begin.

    Follows `numpy.frompyfunc`; unlike there the function is traced, and the results have its dtypes.

    >>> halves = quire.numpy.frompyfunc(lambda x, y: (x + y) / 2, 2, 1)
    >>> halves.accumulate(quire.numpy.array([0., 4., 8.]))
    Array([0., 2., 5.], dtype=float32)
    """
    return ufunc(func, nin, nout, identity=identity)


# -- the ufuncs of jax.numpy ----------------------------------------------------------------------------------------------


def _monoid_reduce(name: str, p: Primitive, combine: Callable[..., Value], neutral: Any, logical: bool) -> Any:
    """`reduce` by a reduction primitive of integers and bool."""

    def apply(x: Value, *, axis: Any, dtype: Any, keepdims: bool, initial: Any, where: Any) -> Value:
        if logical:
            x = as_bool(x)
        elif dtype is not None:
            x = cast(x, user_dtype(f"{name}.reduce", dtype))
        axes = tuple(sorted(as_axes(f"{name}.reduce", axis, x.ndim)))
        if where is not None:
            mask = broadcast_to(ensure(name, where), x.aval.shape)
            x = select(mask, x, broadcast_to(cast(neutral, x.aval.dtype), x.aval.shape))
        try:
            result = bind(p, (x,), {"axes": axes}) if axes else x
        except TypeError as error:
            raise elementwise.named(error, f"{name}.reduce") from None
        if initial is not None:
            result = cast(combine(result, ensure(name, initial, "initial")), x.aval.dtype)
        if keepdims:
            result = st.reshape(result, tuple(1 if i in axes else n for i, n in enumerate(x.aval.shape)))
        return cast(result, user_dtype(f"{name}.reduce", dtype)) if logical and dtype is not None else result

    return apply


def _extremum_reduce(f: Callable[..., Value]) -> Any:
    def apply(x: Value, *, dtype: Any, **keywords: Any) -> Value:
        return f(x if dtype is None else cast(x, user_dtype(f"{f.__name__}imum.reduce", dtype)), **keywords)

    return apply


def _log_sum_exp(base: float) -> Any:
    """`reduce` of logaddexp: the logarithm of the sum of powers of a base, which cannot overflow."""
    scale = math.log(base)

    def apply(x: Value, *, axis: Any, dtype: Any, keepdims: bool, initial: Any, where: Any) -> Value:
        x = elementwise.inexact_operand(
            "logaddexp.reduce", x if dtype is None else cast(x, user_dtype("reduce", dtype))
        )
        x = cast(x, x.aval.dtype)
        low = scalar_like(-math.inf, x)
        mask = None if where is None else broadcast_to(ensure("logaddexp.reduce", where), x.aval.shape)
        if mask is not None:
            x = select(mask, x, low)
        top = reductions.max(_real(x), axis, keepdims=True, initial=-math.inf)
        top = ew.stop_gradient(select(ew.is_finite_p.bind(top), top, 0.0))
        powers = ew.exp_p.bind(mul_(add_(x, broadcast_to(cast(ew.neg_p.bind(top), x.aval.dtype), x.aval.shape)), scale))
        total = reductions.sum(powers, axis, keepdims=keepdims)
        result = add_(div_(ew.log_p.bind(total), scale), st.reshape(cast(top, x.aval.dtype), total.aval.shape))
        if initial is not None:
            result = (arithmetic.logaddexp if base == math.e else arithmetic.logaddexp2)(result, initial)
        return result

    return apply


def _real(x: Value) -> Value:
    return ew.real_p.bind(x) if dtypes.is_complex(x.aval.dtype) else x


def _cumulative(f: Callable[..., Value], p: Primitive | None = None) -> Any:
    """`accumulate` of an associative function: by its primitive, or in a logarithmic number of steps."""

    def apply(x: Value, *, axis: int, dtype: Any) -> Value:
        if f in _LOGICAL:
            x = as_bool(x)
        elif f in _LOGARITHMS:
            x = ensure(f.__name__, elementwise.inexact_operand(f.__name__, x))
        if dtype is not None:
            x = cast(x, user_dtype(f"{f.__name__}.accumulate", dtype))
        if p is not None and not dtypes.is_complex(x.aval.dtype):
            return bind(p, (x,), {"axis": axis, "reverse": False})
        return lax.associative_scan(f, cast(x, x.aval.dtype), axis=axis)

    return apply


_LOGICAL = (elementwise.logical_and, elementwise.logical_or, elementwise.logical_xor)
_LOGARITHMS = (arithmetic.logaddexp, arithmetic.logaddexp2)


def _scatter_at(method: str, keeps_dtype: bool) -> Any:
    """`at` by an update of the same meaning."""

    def apply(x: Value, indices: Any, b: Value) -> Value:
        if dtypes.is_bool(x.aval.dtype) and keeps_dtype:
            numbers = getattr(cast(x, dtypes.int32).at[indices], method)(cast(as_bool(b), dtypes.int32))
            return as_bool(numbers)
        if not keeps_dtype:
            x, b = promote_dtypes(x, b)
        return getattr(x.at[indices], method)(b)

    return apply


def _scatter_reduceat(method: str, general: Callable[..., Value]) -> Any:
    """`reduceat` at increasing indices that are known: every row is added to the first one of its slice."""

    def apply(rows: Value, starts: Value) -> Value:
        known = concrete(starts)
        n = rows.aval.shape[0]
        if known is None or not known.size or dtypes.is_bool(rows.aval.dtype):
            return general(rows, starts)
        known = np.where(known < 0, known + n, known)
        if (np.diff(known) <= 0).any() or known[0] < 0 or known[-1] >= n:
            return general(rows, starts)
        slice_of = np.searchsorted(known, np.arange(n), side="right") - 1
        rest = np.setdiff1d(np.arange(known[0], n), known)
        first = take(rows, known, axis=0)
        return getattr(first.at[slice_of[rest]], method)(take(rows, rest, axis=0)) if rest.size else first

    return apply


def _made(
    f: Callable[..., Any], identity: Any = None, nin: int = 2, scatter: str | None = None, **methods: Any
) -> ufunc:
    if scatter is not None:
        methods["at"] = _scatter_at(scatter, keeps_dtype=scatter not in ("max", "min"))
    made = ufunc(f, nin, 1, identity=identity, call=f, **methods)
    made.__module__ = "quire.numpy"
    if scatter not in (None, "subtract"):
        made._reduceat = _scatter_reduceat(scatter, made._segments)
    return made


def _bits(f: Callable[..., Any], identity: Any, p: Primitive, logical: bool = False) -> ufunc:
    reduce = _monoid_reduce(f.__name__, p, f, identity, logical)
    return _made(f, identity, reduce=reduce, accumulate=_cumulative(f))


def _sums(f: Callable[..., Any]) -> Any:
    def apply(x: Value, *, axis: int, dtype: Any) -> Value:
        return f(x, axis=axis, dtype=dtype)

    return apply


add = _made(elementwise.add, 0, scatter="add", reduce=reductions.sum, accumulate=_sums(reductions.cumsum))
subtract = _made(elementwise.subtract, scatter="subtract")
multiply = _made(
    elementwise.multiply, 1, scatter="multiply", reduce=reductions.prod, accumulate=_sums(reductions.cumprod)
)
maximum = _made(
    elementwise.maximum, scatter="max", reduce=_extremum_reduce(reductions.max),
    accumulate=_cumulative(elementwise.maximum, rd.cummax_p),
)  # fmt: skip
minimum = _made(
    elementwise.minimum, scatter="min", reduce=_extremum_reduce(reductions.min),
    accumulate=_cumulative(elementwise.minimum, rd.cummin_p),
)  # fmt: skip
bitwise_and = _bits(elementwise.bitwise_and, -1, rd.reduce_and_p)
bitwise_or = _bits(elementwise.bitwise_or, 0, rd.reduce_or_p)
bitwise_xor = _bits(elementwise.bitwise_xor, 0, rd.reduce_xor_p)
logical_and = _bits(elementwise.logical_and, True, rd.reduce_and_p, logical=True)
logical_or = _bits(elementwise.logical_or, False, rd.reduce_or_p, logical=True)
logical_xor = _bits(elementwise.logical_xor, False, rd.reduce_xor_p, logical=True)
logaddexp = _made(
    arithmetic.logaddexp, -math.inf, reduce=_log_sum_exp(math.e),
    accumulate=_cumulative(arithmetic.logaddexp, rd.cumlogsumexp_p),
)  # fmt: skip
logaddexp2 = _made(
    arithmetic.logaddexp2, -math.inf, reduce=_log_sum_exp(2.0), accumulate=_cumulative(arithmetic.logaddexp2)
)
negative = _made(elementwise.negative, nin=1)
_BUILT_IN = {
    u.__name__: u
    for u in (
        add, subtract, multiply, maximum, minimum, bitwise_and, bitwise_or, bitwise_xor, logical_and, logical_or,
        logical_xor, logaddexp, logaddexp2, negative,
    )
}  # fmt: skip


__all__ = [
    "add", "bitwise_and", "bitwise_or", "bitwise_xor", "frompyfunc", "logaddexp", "logaddexp2", "logical_and",
    "logical_or", "logical_xor", "maximum", "minimum", "multiply", "negative", "subtract", "ufunc",
]  # fmt: skip
