"""Arguments of a compiled function: static ones taken out, the others flattened and named."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from quire.ir.avals import ShapedArray, aval_of
from quire.ir.source import current_source, where

from .. import tree_util


def signature_of(f: Callable[..., Any]) -> inspect.Signature | None:
    """The signature of a callable; None for builtins that have none."""
    try:
        return inspect.signature(f)
    except (TypeError, ValueError):
        return None


def _as_tuple(value: Any) -> tuple[Any, ...]:
    if value is None:
        return ()
    if isinstance(value, int | str):
        return (value,)
    if hasattr(value, "__index__") and not getattr(value, "ndim", 0):  # a number of NumPy's
        return (operator.index(value),)
    if isinstance(value, Iterable):
        return tuple(value)
    raise TypeError(f"expected an int, a str or a sequence of them, got {value!r}")


def resolve(f: Callable[..., Any], what: str, nums: Any, names: Any) -> tuple[frozenset[int], frozenset[str]]:
    """Argument numbers and names that mean the same parameters, each inferred from the other as in JAX.

    Raises ValueError for a number or name that the function does not have.
    """
    numbers, named = _as_tuple(nums), _as_tuple(names)
    signature = signature_of(f)
    if signature is None:
        if named and what == "donate":  # by position they would not be found
            raise ValueError(
                f"donate_argnames={names!r}: the signature of {getattr(f, '__name__', f)!r} is not known: give positions in "
                "donate_argnums"
            )
        return frozenset(int(n) for n in numbers), frozenset(named)
    parameters = list(signature.parameters.values())
    positional = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    variadic = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    keywords = any(p.kind is p.VAR_KEYWORD for p in parameters)
    found_numbers: set[int] = set()
    for n in numbers:
        n = int(n)
        if n < 0 and not variadic:
            n += len(positional)
        if not 0 <= n < len(positional) and not variadic:
            raise ValueError(
                f"{what}_argnums={nums}: {getattr(f, '__name__', f)} has {len(positional)} positional arguments"
            )
        found_numbers.add(n)
    for name in named:
        if name not in signature.parameters and not keywords:
            raise ValueError(
                f"{what}_argnames={names!r}: {getattr(f, '__name__', f)} has no argument {name!r}, it takes "
                f"{', '.join(signature.parameters)}"
            )
    for name in named:
        if name in signature.parameters and signature.parameters[name].kind in (
            inspect.Parameter.POSITIONAL_ONLY,
            inspect.Parameter.VAR_POSITIONAL,
        ):
            raise ValueError(
                f"{what}_argnames={names!r}: {name!r} of {getattr(f, '__name__', f)} cannot be given by name: give its "
                f"position in {what}_argnums"
            )
    if numbers and not named and names is None:
        named = tuple(positional[n] for n in found_numbers if 0 <= n < len(positional))
    elif named and not numbers and nums is None:
        found_numbers = {positional.index(n) for n in named if n in positional}
    return frozenset(found_numbers), frozenset(named)


@dataclass(frozen=True, slots=True)
class Static:
    """A static argument in a signature: equal by value and type."""

    value: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Static) and type(self.value) is type(other.value) and self.value == other.value

    def __hash__(self) -> int:
        return hash(self.value)


def check_hashable(value: Any, name: str, function: str) -> None:
    """Raise ValueError for a static argument that cannot be hashed."""
    try:
        hash(value)
    except TypeError as error:
        raise ValueError(
            f"static argument {name} of {function} has type {type(value).__name__}, which cannot be hashed "
            f"({error}){where(current_source())}: a static argument selects the compiled variant, so it must be hashable "
            "(a tuple instead of a list) and immutable; or pass it as an array, not static"
        ) from None


def leaf_names(f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[str]:
    """The path of each leaf in terms of the function's parameters: ``x``, ``params['w'][0]``."""
    signature = signature_of(f)
    names = {i: f"args[{i}]" for i in range(len(args))}
    if signature is not None:
        positional = [
            p for p in signature.parameters.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
        ]
        rest = next((p.name for p in signature.parameters.values() if p.kind is p.VAR_POSITIONAL), None)
        for i in range(len(args)):
            if i < len(positional):
                names[i] = positional[i].name
            elif rest is not None:
                names[i] = f"{rest}[{i - len(positional)}]"
    out: list[str] = []
    for i, a in enumerate(args):
        out.extend(names[i] + path for path in _paths(a))
    for k in sorted(kwargs):
        out.extend(k + path for path in _paths(kwargs[k]))
    return out


def _paths(tree: Any) -> list[str]:
    import optree

    paths, _, _ = optree.tree_flatten_with_path(tree, none_is_leaf=False, namespace=tree_util.BOUNDARY)
    return ["".join(f"[{p!r}]" for p in path) for path in paths]


def check_leaves(leaves: Sequence[Any], names: Callable[[], list[str]], function: str) -> list[ShapedArray]:
    """The avals of the leaves.

    Raises:
        TypeError: a leaf is no array; the message names the argument.
        OverflowError: a Python integer does not fit its dtype; the message names the argument.
    """
    avals: list[ShapedArray] = []
    for i, x in enumerate(leaves):
        try:
            avals.append(aval_of(x))
        except TypeError as error:
            raise TypeError(
                f"argument {names()[i]} of {function}: {error}{where(current_source())}. If it is not an array but "
                "selects what is computed, mark it static (static_argnums or static_argnames)"
            ) from None
        except OverflowError as error:
            raise OverflowError(f"argument {names()[i]} of {function}: {error}{where(current_source())}") from None
    return avals
