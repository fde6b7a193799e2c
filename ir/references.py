"""References: values that are written to. What a trace and the runtime know of them; users' methods are attached above.

A reference names a place that holds an array. Outside any trace the place is a `ConcreteRef`, which holds the array it has
now; in a trace it is a variable of type `AbstractRef`, and reading and writing are equations with effects, which the pass
`discharge` turns into values.
"""

from __future__ import annotations

from typing import Any, ClassVar, NoReturn

from .avals import AbstractValue, AxisNames, ShapedArray
from .dtypes import DType, float0
from .source import Source

NEW_EFFECT, READ_EFFECT, WRITE_EFFECT, ADD_EFFECT, FREE_EFFECT = (
    "new ref", "read ref", "write ref", "accumulate ref", "free ref"
)  # fmt: skip
# An equation with any effect is never removed, and keeps its place among the others.
REF_EFFECTS = frozenset((NEW_EFFECT, READ_EFFECT, WRITE_EFFECT, ADD_EFFECT, FREE_EFFECT))


class AbstractRef(AbstractValue):
    """The type of a reference: that of the array it holds, printed ``Ref{f32[3]}``.

    `kind` None is the usual one. Into one of kind "no_grad_no_remat" values that are differentiated may be written; no
    derivative goes through it.

    Interned as `ShapedArray` is.
    """

    __slots__ = ("inner_aval", "kind")
    _interned: ClassVar[dict[tuple[ShapedArray, str | None], AbstractRef]] = {}
    inner_aval: ShapedArray
    kind: str | None

    def __new__(cls, inner_aval: ShapedArray, kind: str | None = None) -> AbstractRef:
        self = cls._interned.get((inner_aval, kind))
        if self is None:
            self = object.__new__(cls)
            self.inner_aval = inner_aval
            self.kind = kind
            self = cls._interned.setdefault((inner_aval, kind), self)
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return (AbstractRef, (self.inner_aval, self.kind))

    def __repr__(self) -> str:
        return self.short()

    def short(self) -> str:
        """The printed form: ``Ref{f32[3]}``; a star within marks a weak type, as of arrays."""
        inner = self.inner_aval.short() + ("*" if self.inner_aval.weak_type else "")
        return f"Ref{{{inner}}}" if self.kind is None else f"Ref{{{inner}, {self.kind}}}"

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the array."""
        return self.inner_aval.shape

    @property
    def dtype(self) -> DType:
        """The dtype of the array."""
        return self.inner_aval.dtype

    @property
    def ndim(self) -> int:
        """The number of dimensions of the array."""
        return self.inner_aval.ndim

    @property
    def size(self) -> int:
        """The number of elements of the array."""
        return self.inner_aval.size

    @property
    def nbytes(self) -> int:
        """The bytes of the array."""
        return self.inner_aval.nbytes

    @property
    def weak_type(self) -> bool:
        """False: a reference takes part in no promotion."""
        return False

    @property
    def vma(self) -> AxisNames:
        """The mesh axes along which the array varies."""
        return self.inner_aval.vma

    @property
    def manual(self) -> AxisNames:
        """What the array's type says of manual axes."""
        return self.inner_aval.manual

    @property
    def division(self) -> None:
        """None: what lies in a reference is not said to be divided."""
        return None

    def undivided(self) -> AbstractRef:
        """Itself."""
        return self

    def along(self, dim: int) -> AbstractRef:
        """The type of a reference to a slice along a dimension."""
        return AbstractRef(self.inner_aval.undivided().along(dim), self.kind)

    def cotangent(self) -> ShapedArray:
        """The type of a cotangent: as `tangent`."""
        return self.tangent()

    def update(self, **changes: Any) -> AbstractRef:
        """The type of a reference to an array with some properties replaced, as by `ShapedArray.update`."""
        return AbstractRef(self.inner_aval.update(**changes), self.kind)

    def strong(self) -> AbstractRef:
        """The type of a reference to an array without the weak type."""
        return AbstractRef(self.inner_aval.strong(), self.kind) if self.inner_aval.weak_type else self

    def tangent(self) -> ShapedArray:
        """The type of a tangent: a reference that is closed over has none."""
        return ShapedArray(self.shape, float0, False, self.manual)


class Ref:
    """A reference to an array that can be written to: `isinstance(x, quire.Ref)` holds inside a traced function too.

    Make one with `quire.new_ref`. ``ref[...]`` reads it, ``ref[i] = v`` and ``ref[i] += v`` write to it.
    """

    __slots__ = ()
    aval: Any

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        if cls is Ref:
            raise TypeError("a reference is made by quire.new_ref(x), not by quire.Ref")
        return object.__new__(cls)


class ConcreteRef(Ref):
    """A reference outside any trace.

    Attributes:
        aval: its type.
        value: the array that it holds now; None once it is freed.
        freed: where that was, if it was: the name of the function and the user's line.
    """

    __slots__ = ("aval", "value", "freed", "__weakref__")
    aval: AbstractRef
    value: Any
    freed: tuple[str, Source | None] | None

    def __init__(self, aval: AbstractRef, value: Any) -> None:
        self.aval = aval
        self.value = value
        self.freed = None


def refuse_refs(what: str, avals: Any) -> NoReturn:
    """Raise TypeError for an operation that was given a reference."""
    found = next(a for a in avals if type(a) is AbstractRef)
    raise TypeError(f"{what}: expected arrays, got a reference {found.short()}: read it first, with ref[...]")
