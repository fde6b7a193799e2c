"""The loops of a dispatch's operations, and which of them IREE tiles as one.

IREE 3.13 tiles all operations of a dispatch together: a loop of one that reads what another one computes is taken for the
loop that this is computed by, and both get the same tiles (its class IterationDimTracker). Where that makes one of two loops of the
same operation, because a sum is read along both (``s[None, :] - s[:, None]``) or what it is part of is read along one and it along
the other, the numbers are wrong, at every optimisation level and without a word. Without a reduction they are right.

For SPIR-V, where it has no better way, IREE gives the first loops of each operation to the threads of a workgroup, in their order,
and what one operation leaves for the next is in memory that they share: without a barrier between them. That is right where a
thread reads what it has written itself (`read_by_other_threads`).

Imported by the worker, beside which it lies.
"""

from __future__ import annotations

import mlir_c

TYPE_CHECKING = False
if TYPE_CHECKING:  # `typing` takes longer to import than all else here
    from collections.abc import Sequence

    Places = list[int | None]
    """For each dimension of an array the loop of the operation; None for those of one element."""

_ENDS = frozenset((b"flow.return", b"iree_tensor_ext.dispatch.tensor.store"))
_RESHAPES = frozenset((b"tensor.expand_shape", b"tensor.collapse_shape"))
_TILED = (b"linalg.", b"iree_linalg_ext.")
"""How the names of operations begin that are tiled."""
_MOVING = (b"tensor.",)
"""And of those that only move elements."""
_FILL = b"linalg.fill"
_NOT_REDUCING = frozenset(b"linalg." + name for name in (b"fill", b"transpose", b"broadcast", b"copy", b"map"))
MANY = 1000
"""More than the dimensions of any array."""
_REDUCTION = b"#linalg.iterator_type<reduction>"


def read_along_two(mlir: mlir_c.Mlir, body: Sequence[int]) -> int | None:
    """What is computed of a reduction, and an operation of a body must not read where all of them are one dispatch."""
    spaces = _Spaces()
    reduced = set[int]()  # what is computed of a reduction
    for op in body:
        name = mlir.name(op)
        if name == _FILL or not name.startswith((*_TILED, *_MOVING)):
            continue
        operands, results = mlir.operands(op), mlir.results(op)
        read = [x for x in mlir.read_by(op) if spaces.has(x)]
        of_reduced = next((x for x in read if x in reduced), None)
        places = _places(mlir, op, name, operands, results)
        if places is None:
            if of_reduced and any(mlir.name(user) not in _ENDS for x in results for user, _ in mlir.uses(x)):
                return of_reduced
            if name.startswith(_TILED) or of_reduced:
                reduced.update(results)
                for x in results:
                    spaces.add(x, [None if n == 1 else spaces.loop(op) for n in _shape(mlir, x)])
            continue
        if (wherever := next((x for x in read if x in reduced and x not in operands), None)) is not None:
            return wherever
        loops = dict[int, int]()
        for x, by in zip(operands, places, strict=False):
            if not spaces.has(x):
                continue
            if by is None:
                if x in reduced:
                    return x
            elif not spaces.join(x, _at(by, loops, op, spaces)) and of_reduced:
                return x if x in reduced else of_reduced
        for x, written in zip(results, places[len(places) - len(results) :], strict=True):
            spaces.add(x, _at(written or [], loops, op, spaces))
        if of_reduced or reducing_loops(mlir, op):
            reduced.update(results)
    return None


def read_by_other_threads(mlir: mlir_c.Mlir, body: Sequence[int]) -> int | None:
    """What an operation of a body reads by other loops than it is computed by, or by loops that are not known."""
    written: dict[int, Places] = {}
    for op in body:
        name = mlir.name(op)
        if name == _FILL or not name.startswith((*_TILED, *_MOVING)):
            continue
        operands, results = mlir.operands(op), mlir.results(op)
        places = _places(mlir, op, name, operands, results)
        for x in mlir.read_by(op):
            if x not in written:
                continue
            if places is None and name.startswith(_MOVING):
                if any(mlir.name(user) not in _ENDS for y in results for user, _ in mlir.uses(y)):
                    return x  # other elements of it are read than the threads have computed
            elif places is None or x not in operands:
                return x
            elif name in _RESHAPES:  # the same elements in the same order: by the loops that they are computed by
                written[results[0]] = _moved(written[x], places[0] or [], places[1] or [])
            elif any(
                by is None
                or any(a != b for a, b in zip(written[x], by, strict=True) if a is not None and b is not None)
                for y, by in zip(operands, places, strict=False)
                if y == x
            ):
                return x
        if name.startswith(_MOVING):
            continue
        for i, x in enumerate(results):
            own = places[len(places) - len(results) + i] if places else None
            if own is None:
                own = [None if n == 1 else MANY + d for d, n in enumerate(_shape(mlir, x))]  # none that another one has
            if any(loop is not None for loop in own):
                written[x] = own
    return None


def _moved(computed: Places, before: Places, after: Places) -> Places:
    """The loops of an array as a reshape gives it that only adds and takes away dimensions of one element."""
    loops = {at: loop for at, loop in zip(before, computed, strict=True) if at is not None}
    return [None if at is None else loops[at] for at in after]


def reducing_loops(mlir: mlir_c.Mlir, op: int) -> int:
    """The number of a reduction's loops; 0 for all other operations."""
    name = mlir.name(op)
    if name != b"linalg.generic":
        return MANY if name.startswith(b"linalg.") and name not in _NOT_REDUCING else 0
    kinds = mlir.attribute(op, b"iterator_types")
    reduction = mlir.mlirAttributeParseGet(mlir.mlirOperationGetContext(op), mlir_c.text(_REDUCTION))
    loops = mlir.mlirArrayAttrGetNumElements(kinds)
    return loops if any(mlir.mlirArrayAttrGetElement(kinds, i) == reduction for i in range(loops)) else 0


def has_no_loops(mlir: mlir_c.Mlir, op: int) -> bool:
    """Whether an operation computes one element, in a region of its own."""
    is_generic = mlir.name(op) == b"linalg.generic"
    return is_generic and not mlir.mlirArrayAttrGetNumElements(mlir.attribute(op, b"iterator_types"))


def _at(places: Places, loops: dict[int, int], op: int, spaces: _Spaces) -> Places:
    """An operation's own loops as those of the dispatch."""
    for i in places:
        if i is not None and i not in loops:
            loops[i] = spaces.loop(op)
    return [None if i is None else loops[i] for i in places]


class _Spaces:
    """Union-find over the loops of a dispatch's operations."""

    def __init__(self) -> None:
        self._parent: list[int] = []
        self._owners: list[set[int]] = []
        self._of_value: dict[int, Places] = {}

    def has(self, value: int) -> bool:
        """Whether an array of more than one element is computed here."""
        return value in self._of_value

    def loop(self, op: int) -> int:
        """A new loop of an operation."""
        self._parent.append(len(self._parent))
        self._owners.append({op})
        return len(self._parent) - 1

    def add(self, value: int, places: Places) -> None:
        """What an operation computes, by these loops."""
        if any(i is not None for i in places):
            self._of_value[value] = places

    def join(self, value: int, places: Places) -> bool:
        """Take the loops that a value is read by for those that it is computed by; whether no two of one operation are one then.

        Those that would be are not joined.
        """
        right = True
        for a, b in zip(self._of_value[value], places, strict=True):
            if a is None or b is None:
                continue
            one, other = self._root(a), self._root(b)
            if one == other:
                continue
            if not self._owners[one].isdisjoint(self._owners[other]):
                right = False
                continue
            self._parent[other] = one
            self._owners[one] |= self._owners[other]
        return right

    def _root(self, loop: int) -> int:
        while self._parent[loop] != loop:
            loop = self._parent[loop]
        return loop


def _shape(mlir: mlir_c.Mlir, value: int) -> list[int]:
    kind = mlir.mlirValueGetType(value)
    if not mlir.mlirTypeIsATensor(kind):
        return []
    return [mlir.mlirShapedTypeGetDimSize(kind, d) for d in range(mlir.mlirShapedTypeGetRank(kind))]


def _places(
    mlir: mlir_c.Mlir, op: int, name: bytes, operands: list[int], results: list[int]
) -> list[Places | None] | None:
    """For each operand and each result the loops that go over its dimensions, None where they do not; None for other operations.

    An operation of linalg writes its results where its last operands are.
    """
    if name in _RESHAPES:
        before, after = (_shape(mlir, x) for x in (operands[0], results[0]))
        if [n for n in before if n != 1] != [n for n in after if n != 1]:
            return None
        return [_in_order(before), _in_order(after)]
    if name == b"linalg.softmax":
        every = [None if n == 1 else i for i, n in enumerate(_shape(mlir, results[0]))]
        return [every for _ in range(3)]
    maps = mlir.mlirLinalgGetIndexingMapsAttribute(op) if name.startswith(b"linalg.") else None
    if not maps:
        return None
    found: list[Places | None] = [
        _projected(mlir, mlir.mlirAffineMapAttrGetValue(mlir.mlirArrayAttrGetElement(maps, i)), _shape(mlir, x))
        for i, x in enumerate(operands)
    ]
    return found + found[len(found) - len(results) :]


def _in_order(shape: list[int]) -> Places:
    loops = iter(range(len(shape)))
    return [None if n == 1 else next(loops) for n in shape]


def _projected(mlir: mlir_c.Mlir, by: int, shape: list[int]) -> Places | None:
    """The loops of a map, where each of its results is one."""
    found: Places = []
    for d, n in enumerate(shape):
        expression = mlir.mlirAffineMapGetResult(by, d)
        if n == 1:
            found.append(None)
        elif mlir.mlirAffineExprIsADim(expression):
            found.append(mlir.mlirAffineDimExprGetPosition(expression))
        else:
            return None
    return found
