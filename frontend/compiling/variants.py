"""The compiled variants of a function: their signatures, how often each was used, and why each was necessary."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from quire.ir.avals import ShapedArray
from quire.passes.cost import Cost


@dataclass(frozen=True)
class Signature:
    """What a variant was compiled for.

    Attributes:
        names: the path of each array argument, as ``x`` or ``params['w']``.
        avals: the type of each.
        devices: the device of each (None for the default).
        static: name and value of each static argument.
        structure: the tree structure of the arguments.
        options: the values of the options that tracing depends on.
    """

    names: tuple[str, ...]
    avals: tuple[ShapedArray, ...]
    devices: tuple[Any, ...]
    static: tuple[tuple[str, Any], ...]
    structure: Any
    options: tuple[Any, ...]

    def __str__(self) -> str:
        arrays = [f"{n}: {a.short()}{'*' if a.weak_type else ''}" for n, a in zip(self.names, self.avals)]
        return "(" + ", ".join([*arrays, *(f"{n}={v!r}" for n, v in self.static)]) + ")"

    def difference(self, old: Signature) -> str:
        """What differs from an older signature: the argument, its property, the old value, the new value."""
        if self.structure != old.structure:
            return f"tree structure of the arguments: {old.structure} -> {self.structure}"
        for (name, new_value), (_, old_value) in zip(self.static, old.static):
            if new_value != old_value:
                return f"static argument {name}: {old_value!r} -> {new_value!r}"
        for name, a, b, d, e in zip(self.names, old.avals, self.avals, old.devices, self.devices):
            if a.shape != b.shape:
                return f"shape of {name}: {a.shape} -> {b.shape}"
            if a.dtype != b.dtype:
                return f"dtype of {name}: {a.dtype} -> {b.dtype}"
            if a.weak_type != b.weak_type:
                return f"weak type of {name}: {a.weak_type} -> {b.weak_type}"
            if d != e:
                return f"device of {name}: {d} -> {e}"
        if self.options != old.options:
            return "an option of quire.config changed"
        return "nothing differs"

    def distance(self, old: Signature) -> int:
        """How much differs, shapes and dtypes counting most: the nearest older variant explains a new one."""
        if self.structure != old.structure:
            return 1000
        arrays = sum(
            2 * (a.shape != b.shape) + 2 * (a.dtype != b.dtype) + (a.weak_type != b.weak_type)
            for a, b in zip(self.avals, old.avals)
        )
        return arrays + sum(a != b for a, b in zip(self.static, old.static)) + (self.options != old.options)


@dataclass
class VariantInfo:
    """One compiled variant.

    Attributes:
        signature: what it was compiled for.
        reason: what made it necessary: the first call, or the property that differs from the nearest variant.
        trace_seconds, compile_seconds: what it cost.
        from_cache: whether the program came from the persistent cache.
        cost: the estimated work of one call.
        uses: how often it was called.
    """

    signature: Signature
    reason: str
    trace_seconds: float = 0.0
    compile_seconds: float = 0.0
    from_cache: bool = False
    cost: Cost | None = None
    uses: int = 0

    def __str__(self) -> str:
        source = "cache" if self.from_cache else "compiled"
        work = f", {self.cost.flops:.3g} flops, {self.cost.bytes:.3g} bytes" if self.cost else ""
        return (
            f"{self.signature}: used {self.uses}x, traced in {self.trace_seconds * 1e3:.1f} ms, {source} in "
            f"{self.compile_seconds * 1e3:.1f} ms{work}; {self.reason}"
        )


@dataclass(frozen=True)
class CacheInfo:
    """The variants of a compiled function, oldest first, and the number of calls that found one ready."""

    name: str
    variants: tuple[VariantInfo, ...] = field(default_factory=tuple)

    @property
    def misses(self) -> int:
        """How many calls had to compile."""
        return len(self.variants)

    @property
    def hits(self) -> int:
        """How many calls found their variant ready."""
        return sum(max(v.uses - 1, 0) for v in self.variants)

    @property
    def currsize(self) -> int:
        """How many variants there are."""
        return len(self.variants)

    def __str__(self) -> str:
        lines = [f"{self.name}: {len(self.variants)} variants, {self.hits} hits"]
        return "\n".join([*lines, *(f"  {v}" for v in self.variants)])


def explain(new: Signature, known: Sequence[VariantInfo]) -> str:
    """Why a new variant is necessary."""
    if not known:
        return "the first call"
    nearest = min(known, key=lambda v: new.distance(v.signature))
    return new.difference(nearest.signature)


# Where the functions are defined whose first calls have been explained.
_explained: set[str] = set()


def explain_miss(name: str, place: str, reason: str, known: Sequence[VariantInfo]) -> str:
    """Why a call is traced, for a log; of functions that are made anew for each call, which no cache can know, it says that."""
    if known:
        return f"{name} is compiled anew: {reason}"
    text = f"never seen function {name}{place}"
    if place and place in _explained:
        text += (
            ", but seen another function defined on the same line: one that is made for each call is traced for each"
        )
    _explained.add(place)
    return text
