"""References as users have them: `new_ref`, reading and writing by index, views, `freeze`.

What they do is bound as a primitive (`ir/primitives/refs.py`): recorded in a trace, done at once outside any.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

import numpy as np

from quire.ir import dtypes
from quire.ir.avals import ShapedArray, aval_of
from quire.ir.primitives import refs
from quire.ir.primitives.elementwise import convert_element_type
from quire.ir.primitives.refs import Indexer, Slice
from quire.ir.references import ConcreteRef, Ref
from quire.ir.source import Source, current_source, where
from quire.ir.tracing import RefTracer, Tracer, current_trace
from quire.runtime.array import Array
from quire.runtime.placements import sharding_of

from .. import tree_util
from .operands import as_array
from .placement import put_sharded

# -- making and ending -------------------------------------------------------------------------------------------------


def new_ref(init_val: Any, *, memory_space: Any = None, kind: str | None = None) -> Any:
    """A reference that holds a copy of an array, and can be written to (`jax.new_ref`).

    Args:
        init_val: an array, a number or an array of keys.
        memory_space: None; there is one memory.
        kind: "no_grad_no_remat": values that are differentiated may be written to it, but no derivative goes through it.

    Raises:
        TypeError: init_val is no array.
        ValueError: another kind or memory space.

    Example:
        >>> import quire, quire.numpy as qnp
        >>> ref = quire.new_ref(qnp.zeros(3))
        >>> ref[1] = 5.0
        >>> ref[...].tolist()
        [0.0, 5.0, 0.0]
    """
    if memory_space is not None:
        raise ValueError(
            f"new_ref: memory_space must be None, got {memory_space!r}: arrays lie in their device's memory"
        )
    if isinstance(init_val, Ref):
        raise TypeError(
            f"new_ref: expected an array, got the reference {init_val.aval.short()}: read it first, ref[...]"
        )
    other = OTHER_VALUES.get(type(init_val))
    if other is not None:
        return other(init_val, kind)
    if not isinstance(init_val, Array | Tracer | np.ndarray | np.generic | bool | int | float | complex):
        raise TypeError(
            f"new_ref: expected an array or a number, got {init_val!r} of type {type(init_val).__name__}"
            f"{where(current_source())}: of a tree make one reference a leaf, with tree.map"
        )
    return refs.new_ref_p.bind(as_array(init_val), kind=kind, memory_space=None)


# Types of values that are made of arrays, with what makes a reference to one.
OTHER_VALUES: dict[type, Any] = {}


def empty_ref(ty: Any, memory_space: Any = None) -> Any:
    """A reference to an array of a type whose elements are not given yet; they are zeros.

    Args:
        ty: has a shape and a dtype.
        memory_space: None.

    Raises:
        ValueError: another memory space.
    """
    if memory_space is not None:
        raise ValueError(f"empty_ref: memory_space must be None, got {memory_space!r}")
    return refs.empty_ref_p.bind(
        ty=ShapedArray(tuple(ty.shape), dtypes.canonicalize(np.dtype(ty.dtype))), memory_space=None
    )


def freeze(ref: Any) -> Any:
    """What a reference holds; the reference cannot be used afterwards (`jax.freeze`). An array is returned as it is.

    Raises:
        TypeError: it is no reference.
        ValueError: it was frozen or freed before, or comes from outside of the function that is traced.
    """
    return _ended("freeze", ref, lambda: refs.freeze_p.bind(ref))


def free_ref(ref: Any) -> None:
    """End a reference: it cannot be used afterwards. Raises as `freeze`."""
    _ended("free_ref", ref, lambda: refs.free_ref_p.bind(ref))


def _ended(name: str, ref: Any, end: Any) -> Any:
    if isinstance(ref, RefOfParts):
        check_usable(ref, name)
        return ref.end(name)
    if name == "freeze" and isinstance(ref, Array | Tracer) and not isinstance(ref, Ref):
        return ref
    if not isinstance(ref, ConcreteRef | RefTracer):
        _no_ref(name, ref)
    check_usable(ref, name)
    trace = current_trace()
    if trace is not None and not (
        isinstance(ref, RefTracer) and ref.owner is trace and ref.variable not in trace.invars
    ):
        raise ValueError(
            f"{name}: the reference {ref.aval.short()} comes from outside of {trace.name}{where(current_source())}: end it "
            "where it was made"
        )
    out = end()
    ref.freed = (name, current_source())
    return out


def _no_ref(name: str, x: Any) -> NoReturn:
    said = aval_of(x).short() if hasattr(x, "aval") else f"{x!r} of type {type(x).__name__}"
    raise ValueError(f"{name}: expected a reference, got {said}{where(current_source())}: make one with quire.new_ref")


def check_usable(ref: Any, name: str) -> None:
    """Raise ValueError for a reference that was frozen or freed."""
    if ref.freed is not None:
        how, source = ref.freed
        said = ref.aval.short() if hasattr(ref, "aval") else f"to {ref.dtype}"
        raise ValueError(
            f"{name}: the reference {said} was ended by {how}{where(source)}, and is used again"
            f"{where(current_source())}: use the array that freeze returned"
        )


# -- reading and writing -----------------------------------------------------------------------------------------------


def get(ref: Any, idx: Any = None) -> Any:
    """What a reference, or a view of one, holds at an index; None is the whole: ``ref[idx]``.

    Raises:
        ValueError: it is no reference, was frozen, or the index reaches outside.
        TypeError: the index is none of integers, arrays of integers and slices.
    """
    if isinstance(ref, RefOfParts):
        check_usable(ref, "get")
        return ref.read(idx)
    base, indexers, operands = _place("get", ref, idx)
    return refs.get_p.bind(base, *operands, indexers=indexers)


def set(ref: Any, idx: Any, value: Any) -> None:
    """Write to a reference, or to a view of one, at an index; None is the whole: ``ref[idx] = value``.

    Raises:
        ValueError: as `get`; or the value has not the shape that the index selects, or another dtype.
        TypeError: as `get`; or the value is no array.
    """
    swap(ref, idx, value, "set")


def swap(ref: Any, idx: Any, value: Any, _function_name: str = "swap") -> Any:
    """Write as `set` does, and return what was there before."""
    if isinstance(ref, RefOfParts):
        check_usable(ref, _function_name)
        return ref.exchange(idx, value, _function_name)
    base, indexers, operands = _place(_function_name, ref, idx)
    return refs.swap_p.bind(base, _value(_function_name, base, value), *operands, indexers=indexers)


def addupdate(ref: Any, idx: Any, x: Any) -> None:
    """Add to what a reference, or a view of one, holds at an index; of equal positions each is added. Raises as `set`."""
    if isinstance(ref, RefOfParts):
        _no_sum(ref)
    base, indexers, operands = _place("addupdate", ref, idx)
    refs.addupdate_p.bind(base, _value("addupdate", base, x), *operands, indexers=indexers)


def _no_sum(ref: Any) -> NoReturn:
    raise TypeError(f"addupdate: values of dtype {ref.dtype} cannot be added{where(current_source())}")


def _place(name: str, ref: Any, idx: Any) -> tuple[Any, tuple[Indexer, ...], list[Any]]:
    """A reference, and an index of it as indexers with their operands."""
    if isinstance(ref, RefView):
        base, indexers, operands, shape = ref.ref, ref.indexers, ref.operands, ref.shape
    elif isinstance(ref, ConcreteRef | RefTracer):
        base, indexers, operands, shape = ref, (), (), ref.aval.shape
    else:
        _no_ref(name, ref)
    check_usable(base, name)
    found = parse_index(name, shape, idx)
    if found is None:
        return base, indexers, [*operands]
    return base, (*indexers, found[0]), [*operands, *found[1]]


def _value(name: str, ref: Any, value: Any) -> Any:
    """A value that is to be stored, as an array; numbers take the reference's dtype if they are of its kind."""
    if not isinstance(value, Array | Tracer | np.ndarray | np.generic | bool | int | float | complex):
        raise TypeError(
            f"{name}: expected an array or a number to store, got {value!r} of type {type(value).__name__}"
            f"{where(current_source())}"
        )
    aval = aval_of(value)
    want = ref.aval.dtype
    if aval.dtype != want and aval.weak_type and _kind(aval.dtype) == _kind(want):
        return convert_element_type(value, want)
    return as_array(value)


def _kind(dtype: Any) -> int:
    return (dtypes.is_bool, dtypes.is_integer, dtypes.is_float, dtypes.is_complex).index(
        next(f for f in (dtypes.is_bool, dtypes.is_integer, dtypes.is_float, dtypes.is_complex) if f(dtype))
    )


def parse_index(name: str, shape: tuple[int, ...], idx: Any) -> tuple[Indexer, list[Any]] | None:
    """An index as users write it as an indexer with its operands; None for the whole.

    Raises:
        ValueError: there are more entries than dimensions, a number is out of bounds, or a slice goes backwards.
        TypeError: an entry is none of integers, arrays of integers, slices and the ellipsis.
    """
    if idx is None or idx is Ellipsis:
        return None
    given = list(idx) if isinstance(idx, tuple) else [idx]
    dots = [i for i, e in enumerate(given) if e is Ellipsis]
    if len(dots) > 1:
        raise ValueError(f"{name}: an index of a reference can have one ellipsis, got {idx!r}{where(current_source())}")
    if any(e is None for e in given) or len(given) - len(dots) > len(shape):
        raise ValueError(
            f"{name}: the index {idx!r} has more entries than the reference has dimensions, its shape is {shape}"
            f"{where(current_source())}: new dimensions are made of what is read"
        )
    at = dots[0] if dots else len(given)
    given[at : at + len(dots)] = [slice(None)] * (len(shape) - (len(given) - len(dots)))
    operands: list[Any] = []
    entries = tuple(_entry(name, e, n, operands) for e, n in zip(given, shape, strict=True))
    if all(e is not None and e.covers(n) for e, n in zip(entries, shape)):
        return None
    return Indexer(entries), operands


def _entry(name: str, e: Any, n: int, operands: list[Any]) -> Slice | None:
    """One entry of an index, for a dimension of length n; integers and arrays become operands."""
    if isinstance(e, slice):
        if e.step is not None and operator.index(e.step) < 1:
            raise ValueError(
                f"{name}: a slice of a reference must have a step of 1 or more, got {e.step}{where(current_source())}"
            )
        start, stop, step = e.indices(n)
        return Slice(start, len(range(start, stop, step)), step)
    if isinstance(e, bool | np.bool_) or not isinstance(e, int | np.integer | np.ndarray | Array | Tracer):
        _bad_entry(name, e)
    aval = aval_of(e)
    if dtypes.is_bool(aval.dtype):
        raise TypeError(
            f"{name}: a reference cannot be indexed by a mask, {aval.short()}{where(current_source())}: read it, and store "
            "quire.numpy.where(mask, new, ref[...])"
        )
    if not dtypes.is_integer(aval.dtype):
        _bad_entry(name, e)
    if not aval.shape and not isinstance(e, Tracer):
        number = int(e)
        if not -n <= number < n:
            raise ValueError(
                f"{name}: index {number} is out of bounds for a dimension of length {n}{where(current_source())}"
            )
        e = number + n if number < 0 else number
    operands.append(as_array(e) if isinstance(e, np.ndarray) else e)
    return None


def _bad_entry(name: str, e: Any) -> NoReturn:
    said = aval_of(e).short() if hasattr(e, "aval") else f"{e!r} of type {type(e).__name__}"
    raise TypeError(
        f"{name}: a reference is indexed by integers, arrays of integers and slices, got {said}{where(current_source())}"
    )


# -- what references have ----------------------------------------------------------------------------------------------


class _Access:
    """The methods of references and of views: attached to `Ref`, which `ir` declares, and inherited by views."""

    __slots__ = ()
    shape: tuple[int, ...]

    def __getitem__(self, idx: Any) -> Any:
        return get(self, idx)

    def __setitem__(self, idx: Any, value: Any) -> None:
        set(self, idx, value)

    @property
    def at(self) -> RefIndexer:
        """``ref.at[idx]`` is a view: what is read from and written to it is that part of the reference."""
        return RefIndexer(self)

    def get(self, idx: Any = None) -> Any:
        """What it holds at an index; the whole without one."""
        return get(self, idx)

    def set(self, value: Any, idx: Any = None) -> None:
        """Write at an index; the whole without one."""
        set(self, idx, value)

    def swap(self, value: Any, idx: Any = None) -> Any:
        """Write at an index, the whole without one, and return what was there."""
        return swap(self, idx, value)

    def addupdate(self, value: Any, idx: Any = None) -> None:
        """Add at an index; to the whole without one."""
        addupdate(self, idx, value)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a reference to a scalar")
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        return (get(self, i) for i in range(len(self)))

    def __bool__(self) -> NoReturn:
        raise TypeError("a reference is neither true nor false: read it, ref[...]")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NoReturn:
        raise TypeError("NumPy was given a reference: read it first, ref[...]")


class RefIndexer:
    """``ref.at``; see there."""

    __slots__ = ("of",)

    def __init__(self, of: Any) -> None:
        self.of = of

    def __getitem__(self, idx: Any) -> RefView:
        base, indexers, operands = _place("at", self.of, idx)
        return RefView(base, indexers, operands)


class RefView(_Access):
    """A part of a reference: reading and writing it reads and writes the reference."""

    __slots__ = ("ref", "indexers", "operands", "shape")

    def __init__(self, ref: Any, indexers: tuple[Indexer, ...], operands: Sequence[Any]) -> None:
        self.ref = ref
        self.indexers = indexers
        self.operands = tuple(operands)
        self.shape = refs.indexed_shape("at", ref.aval.shape, indexers, [aval_of(x) for x in operands])

    @property
    def dtype(self) -> Any:
        """The elements' dtype."""
        return self.ref.aval.dtype

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return int(np.prod(self.shape, dtype=np.int64))

    def __repr__(self) -> str:
        return f"<view {self.ref.aval.inner_aval.update(shape=self.shape).short()} of {self.ref!r}>"


def _view_parts(view: RefView) -> tuple[tuple[Any, ...], Any]:
    return (view.ref, *view.operands), (view.indexers, view.shape)


def _view_of_parts(about: Any, parts: Sequence[Any]) -> RefView:
    view = RefView.__new__(RefView)  # the parts need not be values: names, numbers of axes
    view.ref, *operands = parts
    view.operands = tuple(operands)
    view.indexers, view.shape = about
    return view


# Within a traced function a view is one of the reference that the function is given.
tree_util.register_boundary_node(RefView, _view_parts, _view_of_parts)


class RefOfParts(Ref):
    """A reference to what is made of arrays, such as typed keys: another class knows how."""

    __slots__ = ()

    def read(self, idx: Any) -> Any:
        """What it holds at an index."""
        raise NotImplementedError

    def exchange(self, idx: Any, value: Any, name: str) -> Any:
        """Write at an index; what was there."""
        raise NotImplementedError

    def end(self, name: str) -> Any:
        """What it holds, for the last time."""
        raise NotImplementedError


def _repr(self: ConcreteRef) -> str:
    if self.freed is not None:
        return f"Ref(<ended by {self.freed[0]}{where(self.freed[1])}>, {self.aval.inner_aval.short()})"
    text = repr(self.value)
    return "Ref" + text.removeprefix("Array") if text.startswith("Array") else f"Ref({text})"


def _facts() -> dict[str, Any]:
    def of(name: str, doc: str) -> property:
        return property(lambda self: getattr(self.aval, name), doc=doc)

    return {
        "shape": of("shape", "The shape of the array."),
        "dtype": of("dtype", "The elements' dtype."),
        "ndim": of("ndim", "The number of dimensions."),
        "size": of("size", "The number of elements."),
        "weak_type": of("weak_type", "False: a reference takes part in no promotion."),
    }


_OF_THE_ARRAY = (
    "sharding",
    "committed",
    "format",
    "devices",
    "is_deleted",
    "unsafe_buffer_pointer",
    "nbytes",
    "itemsize",
)


def _array_attribute(self: ConcreteRef, name: str) -> Any:
    if name in _OF_THE_ARRAY and self.freed is None:
        return getattr(self.value, name)
    hint = ": read it first, ref[...]" if hasattr(Array, name) else ""
    raise AttributeError(f"a reference has no attribute {name!r}{hint}")


def _block_until_ready(self: ConcreteRef) -> ConcreteRef:
    """Wait until the array has been computed; returns the reference."""
    if self.freed is None:
        self.value.block_until_ready()
    return self


def attach() -> None:
    """Give references their methods; done when this module is imported."""
    for name, member in vars(_Access).items():
        if name not in ("__slots__", "__module__", "__doc__", "__annotations__", "__dict__", "__weakref__", "shape"):
            setattr(Ref, name, member)
    Ref.__module__ = "quire"
    for name, member in _facts().items():
        setattr(Ref, name, member)
    ConcreteRef.__name__ = "Ref"  # as Python's messages name it
    ConcreteRef.__repr__ = _repr  # type: ignore[method-assign]
    ConcreteRef.__getattr__ = _array_attribute  # type: ignore[attr-defined]
    ConcreteRef.block_until_ready = _block_until_ready  # type: ignore[attr-defined]


attach()


def lying_as(old: Any, new: Any) -> Any:
    """The new array of a reference where the old one lies, if that was said of it."""
    if type(old) is not Array or old._device is None or type(new) is not Array or new._device is old._device:
        return new
    return put_sharded(new, sharding_of(old._device))


def refuse_refs(leaves: Sequence[Any], what: str, paths: Any = None) -> None:
    """Raise ValueError where a traced function returns a reference.

    Args:
        leaves: its results.
        what: the function, for the message.
        paths: gives the place of a result among all, if it is called.
    """
    for i, x in enumerate(leaves):
        if isinstance(x, Ref):
            at = f" at result{paths(i)}" if paths is not None else ""
            made = f" {x.owner.describe(x)}." if isinstance(x, RefTracer) else ""
            here = "" if " (at " in made else where(current_source())
            raise ValueError(
                f"{what} returned a reference {x.aval.short()}{at}, but references cannot be returned{here}.{made} Return "
                "what it holds, ref[...], or write to one that is given"
            )


def check_references(references: Sequence[Any], names: Sequence[str], what: str) -> None:
    """Raise ValueError where a reference that is given to a function was freed, or is given twice."""
    for ref in references:
        if isinstance(ref, ConcreteRef | RefTracer):
            check_usable(ref, what)
    check_once(references, names, what)


def check_once(references: Sequence[Any], names: Sequence[str], what: str, source: Source | None = None) -> None:
    """Raise ValueError where one reference is given to a function twice, or closed over and given too."""
    seen: dict[int, str] = {}
    for ref, name in zip(references, names, strict=True):
        before = seen.setdefault(id(ref), name)
        if before is not name:
            raise ValueError(
                f"{what}: the reference {ref.aval.short()} is given twice, as {before} and as {name}"
                f"{where(source or current_source())}: only one name of a reference may be used in a function"
            )
