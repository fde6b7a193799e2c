"""Tracing of the functions that control flow takes, and the messages about what they return."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import optree

from quire.ir import dtypes
from quire.ir.avals import ShapedArray, aval_of
from quire.ir.jaxpr import ClosedJaxpr, Jaxpr
from quire.ir.primitives.collectives import pvary
from quire.ir.primitives.elementwise import convert_element_type
from quire.ir.tracing import Tracer, merge_captured, trace_flat
from quire.tree_util import flatten_arrays, tree_unflatten

from ..arrays.references import refuse_refs


class Traced:
    """A function traced on given avals: its jaxpr, what it captured (the first inputs), its output's structure."""

    __slots__ = ("jaxpr", "captured", "out_tree")

    def __init__(self, jaxpr: Jaxpr, captured: list[Any], out_tree: Any) -> None:
        self.jaxpr = jaxpr
        self.captured = captured
        self.out_tree = out_tree

    @property
    def out_avals(self) -> list[ShapedArray]:
        """The avals of the results, flattened."""
        return self.jaxpr.out_avals

    @property
    def closed(self) -> ClosedJaxpr:
        """The jaxpr without constants: what the function captured are its first inputs."""
        return ClosedJaxpr(self.jaxpr, ())


def function_name(f: Any) -> str:
    """How messages call a function."""
    return getattr(f, "__name__", None) or type(f).__name__


def trace(f: Callable[..., Any], in_tree: Any, avals: Sequence[ShapedArray], what: str) -> Traced:
    """Trace `f`, which takes the arguments of `in_tree` (a tuple's structure)."""
    out_tree: Any = None

    def flat(*leaves: Any) -> list[Any]:
        nonlocal out_tree
        out, out_tree = flatten_arrays(f(*tree_unflatten(in_tree, leaves)))
        refuse_refs(out, f"{what} {function_name(f)}", lambda i: path(out_tree, i))
        for i, leaf in enumerate(out):
            try:
                aval_of(leaf)
            except TypeError as error:
                raise TypeError(
                    f"{what} {function_name(f)} returned a value that is not an array at output{path(out_tree, i)}: "
                    f"{error}"
                ) from None
        return out

    jaxpr, captured, _ = trace_flat(flat, avals, name=f"{what} {function_name(f)}")
    return Traced(jaxpr, captured, out_tree)


def path(tree: Any, i: int) -> str:
    """Leaf i of a structure as it would be written: ``[0]['w']``; empty for a lone leaf."""
    return "".join(f"[{k!r}]" for k in optree.treespec_paths(tree)[i])


def check_callable(api: str, argument: str, f: Any) -> None:
    """Raise TypeError unless f, the argument of that name of a public function, can be called."""
    if not callable(f):
        raise TypeError(f"{api}: {argument} must be a function, got {f!r} of type {type(f).__name__}")


def common_consts(traced: Sequence[Traced]) -> tuple[list[Any], list[ClosedJaxpr]]:
    """The union of what some functions captured, and their jaxprs taking all of it first."""
    return merge_captured([t.jaxpr for t in traced], [t.captured for t in traced])


def promote_carry(values: Sequence[Any], avals_out: Sequence[ShapedArray]) -> list[Any] | None:
    """A loop's initial carry as its body gives it back; None if nothing changes.

    Weakly typed values take the dtype that comes back for them, and in a `shard_map` all that comes back varying varies
    from the start. The second is more than JAX does, which asks for `lax.pcast`: numbers and derivatives are those of the
    program with it.
    """
    out, changed = list(values), False
    if len(out) != len(avals_out):
        return None
    for i, (x, want) in enumerate(zip(values, avals_out)):
        a = aval_of(x)
        if a.weak_type and a.dtype != want.dtype:
            dtype, _ = dtypes.promote([(a.dtype, True), (want.dtype, want.weak_type)])
            if dtype != a.dtype:
                out[i], changed = convert_element_type(x, dtype), True
        if want.vma and want.vma - a.vma:
            out[i], changed = pvary(out[i], sorted(want.vma, key=str)), True
    return out if changed else None


def check_carry(api: str, what: str, in_tree: Any, in_avals: Sequence[ShapedArray], out_tree: Any,
                out_avals: Sequence[ShapedArray]) -> None:  # fmt: skip
    """Raise TypeError unless a loop's body returns the structure and the types of the carry it takes."""
    if in_tree != out_tree:
        raise TypeError(
            f"{api}: {what} must return a carry of the structure it takes.\n"
            f"  the carry it takes:   {show_tree(in_tree)}\n"
            f"  the carry it returns: {show_tree(out_tree)}"
        )
    wrong = [
        f"  carry{path(in_tree, i)}: takes {a.short()}, returns {b.short()}{_difference(a, b)}"
        for i, (a, b) in enumerate(zip(in_avals, out_avals))
        if a.strong() is not b.strong() or differs(a, b)
    ]
    if wrong:
        raise TypeError(
            f"{api}: {what} must return the types of the carry it takes:\n"
            + "\n".join(wrong)
            + "\n  Convert the initial carry or what the body returns (astype, reshape)."
        )


def differs(a: ShapedArray, b: ShapedArray) -> bool:
    """Whether two types are divided differently along explicit axes of the mesh in force."""
    return a.division is not b.division and a.sharding.spec != b.sharding.spec


def _difference(a: ShapedArray, b: ShapedArray) -> str:
    if a.shape == b.shape and a.dtype == b.dtype and a.vma == b.vma:
        return f" (one is divided otherwise: give quire.reshard(x, {a.sharding.spec}) of what comes back)"
    if a.shape == b.shape and a.dtype == b.dtype:
        axes = sorted(map(str, a.vma - b.vma))
        return f" (one varies along {', '.join(axes)}: give lax.pcast(x, {tuple(axes)}, to='varying') of the other)"
    if a.shape != b.shape and a.dtype != b.dtype:
        return " (shape and dtype differ)"
    return " (the shapes differ)" if a.shape != b.shape else " (the dtypes differ)"


def show_tree(tree: Any) -> str:
    """A structure with stars for leaves, as a user would write it."""
    text = str(tree)
    return (
        text.removeprefix("PyTreeSpec(").rsplit(", namespace=", 1)[0].removesuffix(")")
        if text.startswith("PyTreeSpec(")
        else text
    )


def concrete_value(x: Any) -> Any | None:
    """The value of x if it is known now, else None."""
    return x.concrete() if isinstance(x, Tracer) else x
