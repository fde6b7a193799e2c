"""What a value is computed from: the operations of one block that IREE may put into one dispatch with its reader.

IREE 3.13 gets some operations wrong by what their operand comes from. The forms in `hlo` ask here, and put a barrier
between the two.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from typing import Any

import iree.compiler.ir as mlir
import numpy as np

Value = Any

_STORED = frozenset(
    "stablehlo." + n
    for n in (
        "iota", "constant", "optimization_barrier", "while", "if", "case", "reduce", "reduce_window", "dot_general",
        "convolution", "sort", "scatter", "gather", "fft", "custom_call", "select_and_scatter",
    )
)  # fmt: skip
"""Operations whose results are stored, or are no function of single elements."""
_OF_FIRST = frozenset("stablehlo." + n for n in ("dynamic_slice", "dynamic_update_slice"))
"""Operations of which only the first operand counts: the others are scalars, or replace a part."""
_MOST = 256
"""The most operations that are looked at for one question, so that lowering stays linear in the program."""


def _walk(x: Value, sources: Callable[[Value], Iterable[Value]]) -> Iterator[Value | None]:
    """x and, step by step, what `sources` gives for a value; None, and the end, where there is more than is looked at."""
    pending, seen = [x], set[Any]()
    while pending:
        x = pending.pop()
        if x in seen:
            continue
        if len(seen) == _MOST:
            yield None
            return
        seen.add(x)
        yield x
        pending.extend(sources(x))


def _origins(x: Value, moving: frozenset[str] = frozenset()) -> Iterator[Value | None]:
    """x and what it is computed from, up to what is stored; None where there is more than is looked at.

    `moving` are operations that are looked through, although their results are stored: of branches what each of them
    gives counts, of loops the initial value and what a turn gives, of others the first operand.
    """
    return _walk(x, lambda v: _computed_from(v, moving))


def _computed_from(x: Value, moving: frozenset[str]) -> list[Value]:
    owner = x.owner
    moves = not isinstance(owner, mlir.Block) and owner.name in moving
    if moves and owner.name in _CONTROL:
        return _given(x)
    if not moves and _is_stored(owner):
        return []
    operands = list(owner.operands)
    if (
        moves
        and owner.name == "stablehlo.gather"
        and (_is_splat(operands[1].owner) or is_uniform(operands[1], frozenset()))
    ):
        return []  # one element again and again, whatever the others are
    if not moves and _forgets(owner):
        return operands[1:2] if owner.name == "stablehlo.select" else []
    operands = operands[: 1 if moves or owner.name in _OF_FIRST else None]
    return [v for v in operands if 0 not in mlir.RankedTensorType(v.type).shape]


def _forgets(owner: Any) -> bool:
    """Whether the elements of a result may be equal whatever those of the operands are: IREE may know the result.

    Integers compared with themselves, or with the least or largest of their type; those that take on such a number; what either of
    two equal values is selected from, which is then what counts.
    """
    name = owner.name.removeprefix("stablehlo.")
    operands = list(owner.operands)
    if name == "select":
        return operands[1] == operands[2] or (_splat_value(operands[1]) or 0) == (_splat_value(operands[2]) or 1)
    if name not in _OF_ITSELF | _OF_EXTREMES or not operands:
        return False
    if not isinstance(mlir.RankedTensorType(operands[0].type).element_type, mlir.IntegerType):
        return False
    if name in _OF_ITSELF and operands[0] == operands[1]:
        return True
    return name in _OF_EXTREMES and any(_splat_value(v) is not None for v in operands)


_OF_ITSELF = frozenset(("compare", "subtract", "xor", "divide", "remainder"))
_OF_EXTREMES = frozenset(("compare", "or", "and", "maximum", "minimum", "clamp", "multiply", "power"))


_CONTROL = frozenset("stablehlo." + n for n in ("if", "case", "while"))


def _given(x: Value) -> list[Value]:
    """What may become a result of a branch or a loop, but for what a loop passes on unchanged."""
    owner, k = x.owner, mlir.OpResult(x).result_number
    blocks = [region.blocks[0] for region in owner.regions]
    if owner.name != "stablehlo.while":
        return [list(block.operations)[-1].operands[k] for block in blocks]
    body = blocks[1]
    new = list(body.operations)[-1].operands[k]
    return [owner.operands[k]] if new == body.arguments[k] else [owner.operands[k], new]


def _is_stored(owner: Any) -> bool:
    if isinstance(owner, mlir.Block) or owner.name in _STORED:
        return True
    return not (owner.name.startswith("stablehlo.") or owner.name == "func.call")


def is_uniform(x: Value, folded: frozenset[str] | None = None) -> bool:
    """Whether x is computed from constants of equal elements alone, or may be, and is not itself such a constant.

    IREE folds it to one number, and a reduction in the same dispatch then takes this number once. `folded`: the operations that
    are looked through, all that IREE does unless said; of none for indices, so that nested ones are looked at once.
    """
    folded = _FOLDED_OF_EQUAL if folded is None else folded
    if not isinstance(x.owner, mlir.Block) and x.owner.name == "stablehlo.constant":
        return False
    for v in _origins(x, folded):
        if v is None:
            return True
        looked_through = not isinstance(v.owner, mlir.Block) and v.owner.name in folded
        if _is_stored(v.owner) and not looked_through and not _is_splat(v.owner):
            return False
    return True


_FOLDED_OF_EQUAL = _CONTROL | frozenset("stablehlo." + n for n in ("gather", "sort"))
"""Operations whose result IREE knows where all elements are equal, or what all branches and turns give."""


def _is_splat(owner: Any) -> bool:
    if isinstance(owner, mlir.Block) or owner.name != "stablehlo.constant":
        return False
    return mlir.DenseElementsAttr(owner.attributes["value"]).is_splat


def were_integers(x: Value) -> bool:
    """Whether elements of x are integers, or were converted from such and moved since; or may be."""
    return any(
        v is None or isinstance(mlir.RankedTensorType(v.type).element_type, mlir.IntegerType)
        for v in _walk(x, _moved_from)
    )


def _moved_from(x: Value) -> list[Value]:
    """The values whose elements, converted or not, are those of x, or may be."""
    owner = x.owner
    if isinstance(owner, mlir.Block):
        return []
    if owner.name in _CONTROL:
        return _given(x)
    return list(owner.operands)[slice(*_MOVED[owner.name])] if owner.name in _MOVED else []


_MOVED: dict[str, tuple[int | None, ...]] = {
    f"stablehlo.{name}": operands
    for operands, names in {
        (1,): ("reshape", "transpose", "broadcast_in_dim", "slice", "reverse", "convert", "dynamic_slice", "gather"),
        (2,): ("pad", "dynamic_update_slice"),
        (None,): ("concatenate",),
        (1, None): ("select",),
    }.items()
    for name in names
}
"""Operations whose results have elements of operands, and the slice that takes these operands."""


_SAME_ELEMENTS = frozenset(
    "stablehlo." + n for n in ("reshape", "bitcast_convert", "convert", "real", "imag", "complex")
)


def is_padded(x: Value, inside: bool) -> bool:
    """Whether x is the result of a pad, with padding between elements if `inside`, or otherwise of an update of a part."""
    for made in _makers(x):
        if made.name == "stablehlo.dynamic_update_slice" and not inside:
            return True
        if made.name == "stablehlo.pad" and (
            not inside or any(mlir.DenseI64ArrayAttr(made.attributes["interior_padding"]))
        ):
            return True
    return False


def is_padded_with_other(x: Value, value: Value) -> bool:
    """Whether x is what was computed element by element, padded with another value than `value`."""
    return any(
        made.name == "stablehlo.pad"
        and not _is_stored(made.operands[0].owner)
        and (_splat_value(made.operands[1]) or made.operands[1]) != (_splat_value(value) or value)
        for made in _makers(x)
    )


def _makers(x: Value) -> Iterator[Any]:
    """The operations that make the elements of x, or may: also in branches and loops, and where they are given to those."""
    for v in _walk(x, _same_elements):
        if v is not None and not isinstance(v.owner, mlir.Block) and v.owner.name not in _SAME_ELEMENTS | _CONTROL:
            yield v.owner


def _same_elements(x: Value) -> list[Value]:
    if isinstance(x.owner, mlir.Block):
        return []
    if x.owner.name in _CONTROL:
        return _given(x)
    return list(x.owner.operands) if x.owner.name in _SAME_ELEMENTS else []


def passed_on(x: Value) -> Value | None:
    """The value that x is, if x is a result of branches which all give that value, or of a loop that does not change it.

    IREE leaves such branches and loops out, and the reader then reads the value itself.
    """
    if isinstance(x.owner, mlir.Block) or x.owner.name not in _CONTROL:
        return None
    first, *others = _given(x)
    return first if all(v == first for v in others) else None


def takes_strides(x: Value) -> bool:
    """Whether x is computed, in one dispatch with its reader, from a slice whose elements have others between; or may be.

    IREE reads such a slice as a view with strides, which its code for a reversed one cannot be translated with. It moves
    transposes, so that a slice of a transpose may be cut from what is transposed.
    """
    found = list(_origins(x))
    if any(v is None for v in found):
        return True
    owners = [v.owner for v in found if v is not None and not isinstance(v.owner, mlir.Block)]
    orders = [None, *(_permutation(o) for o in owners if o.name == "stablehlo.transpose")]
    return any(_is_strided(o, order) for o in owners for order in orders)


def _permutation(transpose: Any) -> list[int]:
    return [int(i) for i in mlir.DenseI64ArrayAttr(transpose.attributes["permutation"])]


def is_part(x: Value) -> bool:
    """Whether x is part of a larger array."""
    return not isinstance(x.owner, mlir.Block) and x.owner.name in _PARTS


_PARTS = frozenset({"stablehlo.slice", "stablehlo.dynamic_slice"})


def _is_strided(owner: Any, order: list[int] | None = None) -> bool:
    """Whether an operation is a slice with strides, or one element of each of many rows, which comes to the same.

    `order` is the permutation of a transpose that the slice may be moved before or behind.
    """
    if owner.name not in _PARTS:
        return False
    if owner.name == "stablehlo.slice" and any(n != 1 for n in mlir.DenseI64ArrayAttr(owner.attributes["strides"])):
        return True
    of, shape = (list(mlir.RankedTensorType(v.type).shape) for v in (owner.operands[0], owner.results[0]))
    if order is None:
        return _takes_some(of, shape)
    if len(order) != len(of):
        return False
    back = sorted(range(len(order)), key=order.__getitem__)
    return any(_takes_some([of[i] for i in p], [shape[i] for i in p]) for p in (order, back))


def _takes_some(of: list[int], shape: list[int]) -> bool:
    """Whether a part of that shape has one element of each row where rows are longer."""
    inner = 0
    while inner < len(shape) and shape[-1 - inner] == 1:
        inner += 1
    return inner < len(shape) and any(n != 1 for n in of[len(of) - inner :])


_into_splats: ContextVar[list[Value] | None] = ContextVar("quire_into_splats", default=None)
"""The pads and updates of the module that is being built."""


def put_into_splat(x: Value) -> Value:
    """x, the result of a pad or of an update of a part, as one of those that `apart_from_one_another` looks at."""
    found = _into_splats.get()
    if found is not None:
        found.append(x)
    return x


@contextlib.contextmanager
def apart_from_one_another() -> Iterator[None]:
    """While a module is built: of what is put into equal splats, all but the first comes from a barrier.

    IREE 3.13 makes one splat of equal ones, and one dispatch of several results with what they have in common. Of results
    put into one splat it writes the first over the splat before it reads this for the others.
    """
    found: list[Value] = []
    token = _into_splats.set(found)
    try:
        yield
    finally:
        _into_splats.reset(token)
    seen = set[tuple[Any, ...]]()
    for x in found:
        made = x.owner
        which = 1 if made.name == "stablehlo.pad" else 0  # the padding value; what is updated
        value = _splat_value(made.operands[which])
        if value is None and which == 0:
            continue
        value = value or made.operands[which]
        key = (x.type, value)
        if key in seen:
            part = 1 - which
            with mlir.InsertionPoint(made), made.location:
                kept = mlir.Operation.create(
                    "stablehlo.optimization_barrier", results=[made.operands[part].type], operands=[made.operands[part]]
                )
            made.operands[part] = kept.result
        seen.add(key)


def integer(x: Value) -> int | None:
    """The integer that a scalar is, if it is a constant's."""
    if isinstance(x.owner, mlir.Block) or x.owner.name != "stablehlo.constant":
        return None
    found = np.asarray(mlir.DenseElementsAttr(x.owner.attributes["value"]))
    return int(found) if found.shape == () and found.dtype.kind in "iu" else None


def _splat_value(x: Value) -> Any:
    """The number of which a value is made, as an attribute; None if it is not of one constant."""
    while not isinstance(x.owner, mlir.Block) and x.owner.name in _REPEATING:
        x = x.owner.operands[0]
    if not _is_splat(x.owner):
        return None
    return mlir.DenseElementsAttr(x.owner.attributes["value"]).get_splat_value()


_REPEATING = frozenset("stablehlo." + n for n in ("reshape", "broadcast_in_dim"))
