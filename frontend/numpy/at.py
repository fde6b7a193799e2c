"""``x.at[index]``: updates of an immutable array, which return a new one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from quire.ir.primitives import elementwise as ew
from quire.ir.sharding import says_nothing

from ..arrays.explicit import placed_as, told
from . import divide, indexing, ones_like, power

Value = Any


class IndexHelper:
    """``x.at``: index it to get an `IndexUpdate`."""

    __slots__ = ("array",)

    def __init__(self, array: Value) -> None:
        self.array = array

    def __getitem__(self, index: Any) -> IndexUpdate:
        return IndexUpdate(self.array, index)

    def __repr__(self) -> str:
        return f"IndexHelper({self.array!r})"


class IndexUpdate:
    """``x.at[index]``: its methods return x with the selected elements changed.

    Every method takes:

    - ``mode``: what an index outside the array does: "drop" (the default of updates: nothing), "clip" (the nearest
      position), "promise_in_bounds" (the caller promises that there is none), for `get` also "fill" (the element is
      `fill_value`); by default `get` clamps.
    - ``indices_are_sorted``, ``unique_indices``: promises that permit faster programs; results for broken ones are
      undefined.
    - ``wrap_negative_indices``: whether negative indices count from the end (True).

    Values are cast to the array's dtype, with a FutureWarning where it cannot hold theirs.

    Example:
        >>> import quire.numpy as jnp
        >>> jnp.arange(3).at[1].add(10)
        Array([ 0, 11,  2], dtype=int32)
    """

    __slots__ = ("array", "index")

    def __init__(self, array: Value, index: Any) -> None:
        self.array = array
        self.index = index

    def __repr__(self) -> str:
        return f"IndexUpdate({self.array!r}, {self.index!r})"

    def get(
        self,
        *,
        mode: Any = None,
        fill_value: Any = None,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        wrap_negative_indices: bool = True,
        out_sharding: Any = None,
    ) -> Value:
        """``x[index]`` with a rule for indices outside the array.

        `fill_value` is what mode "fill" gives there: by default NaN, for integers the least (unsigned: largest) value.
        """
        if not says_nothing(out_sharding):
            with told():
                found = self.get(
                    mode=mode, fill_value=fill_value, indices_are_sorted=indices_are_sorted,
                    unique_indices=unique_indices, wrap_negative_indices=wrap_negative_indices,
                )  # fmt: skip
                return placed_as(found, out_sharding, "x.at[...].get")
        return indexing.get(
            self.array, self.index, mode=mode, fill_value=fill_value, indices_are_sorted=indices_are_sorted,
            unique_indices=unique_indices, wrap_negative_indices=wrap_negative_indices,
        )  # fmt: skip

    def set(self, values: Any, **options: Any) -> Value:
        """x with the selected elements replaced: ``x[index] = values``."""
        return self._update(values, "set", options)

    def add(self, values: Any, **options: Any) -> Value:
        """x with values added; an element selected several times gets all of them."""
        return self._update(values, "add", options)

    def subtract(self, values: Any, **options: Any) -> Value:
        """x with values subtracted; an element selected several times loses all of them."""
        return self._update(values, "subtract", options)

    def multiply(self, values: Any, **options: Any) -> Value:
        """x with the selected elements multiplied."""
        return self._update(values, "multiply", options)

    def divide(self, values: Any, **options: Any) -> Value:
        """x with the selected elements divided (a float array for an integer x)."""
        return _placed("divide", options, lambda rest: divide(self.array, self._factors(values, rest)))

    def power(self, values: Any, **options: Any) -> Value:
        """x with the selected elements raised to powers; for repeated ones the exponents are multiplied."""
        return _placed("power", options, lambda rest: power(self.array, self._factors(values, rest)))

    def min(self, values: Any, **options: Any) -> Value:
        """x with the selected elements replaced by the smaller of them and the values."""
        return self._update(values, "min", options)

    def max(self, values: Any, **options: Any) -> Value:
        """x with the selected elements replaced by the larger of them and the values."""
        return self._update(values, "max", options)

    def apply(self, func: Callable[[Value], Value], **options: Any) -> Value:
        """x with a scalar function applied to the selected elements; repeatedly to repeated ones."""
        x = self.array

        def typed(v: Value) -> Value:
            return ew.convert_element_type(func(v), x.aval.dtype)

        return _placed("apply", options, lambda rest: indexing.update(x, self.index, 0, "apply", apply=typed, **rest))

    sub, mul, div, pow = subtract, multiply, divide, power

    def _factors(self, values: Any, options: dict[str, Any]) -> Value:
        return indexing.update(ones_like(self.array), self.index, values, "multiply", **options)

    def _update(self, values: Any, how: str, options: dict[str, Any]) -> Value:
        if not options:
            return indexing.update(self.array, self.index, values, how)
        return _placed(how, options, lambda rest: indexing.update(self.array, self.index, values, how, **rest))


_OPTIONS = ("mode", "indices_are_sorted", "unique_indices", "wrap_negative_indices")


def _placed(name: str, options: dict[str, Any], f: Callable[[dict[str, Any]], Value]) -> Value:
    """What `f` makes with the options of an update, divided as `out_sharding` among them says. Raises TypeError for unknown ones."""
    wanted = options.pop("out_sharding", None)
    for option in options:
        if option not in _OPTIONS:
            raise TypeError(
                f"x.at[...].{name}: unknown argument {option!r}: expected {', '.join(_OPTIONS)}, out_sharding"
            )
    if says_nothing(wanted):
        return f(options)
    with told():
        return placed_as(f(options), wanted, f"x.at[...].{name}")
