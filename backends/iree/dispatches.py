"""Dispatches of which IREE 3.13 makes wrong code, or none: found, and taken apart.

For any target: one in which an operation reads what another one computes along two of its loops (iteration_spaces.py); and a slice
with strides of what its dispatch computes (``x.astype("float32")[::2]``): of an array that is no longer than a tile, the first
elements are taken. IREE clones what only widens elements into the dispatches that read it, after these have been formed.

For SPIR-V: one in which an operation reads by other loops than it is computed by what another one computes (iteration_spaces.py).

For the CPU:

A dispatch that stores what its softmax reads: no code is found for it, but only after half of a compile.

A dispatch that stores a reduction, or what is computed of it, and reduces in its turn what that is part of
(``s = prod(x, 0)``, ``y = x * s - t``, ``sum(y, 0)``, of which s is stored). What the last reduction reads is computed
within its loop, for a step at a time; so is s, whole each time, in memory that the turn before has left something in.

A dispatch that stores a result of an operation, of which something else in it reads another one that begins as the same
uninitialised array as a third (complex numbers in their parts: ``x * c`` beside a sum of what is spread of x). Where the last tile
is shorter than the others, both are written to one place.

A dispatch that reduces, and takes one element of an array to compute with what was reduced (``x[i] + sum(a * b)`` in reverse of
a loop, fuzz seed 83001876): for some no code is found, or the compiler crashes; the element is a vector without dimensions.

Where IREE has formed dispatches as regions of the host's functions, the stored value and what it is computed from leave such
a region (`take_apart`), and another one is formed of them. What comes of the regions is looked at once more (`fault`).

Imported by the worker, beside which it lies.
"""

from __future__ import annotations

import iteration_spaces
import mlir_c

STORED_SOFTMAX = "a softmax of a value that is stored too is restricted to workgroup distributed contexts"
STORED_REDUCTION = "a reduction is stored by the dispatch that reduces what it is part of"
STORED_PARTS = "two results that begin as one array are read by a dispatch that stores a third"
PICKED = "an element is taken from an array beside what was reduced"
STRIDED = "a slice with strides is of what its dispatch computes"
READ_ALONG_TWO = "an operation reads what its dispatch computes along two loops"
OTHER_THREADS = "an operation reads what other threads of its dispatch compute"
"""What is wrong with a module's dispatches (`fault`), in words that `service.RETRIES` knows."""

CPU, SPIRV = "llvm-cpu", "-spirv"
"""IREE's backend for the CPU, and how the names of those end whose code is SPIR-V."""

_STORE = b"iree_tensor_ext.dispatch.tensor.store"
_REGION = b"flow.dispatch.region"
MOST_ARRAYS, MOST_BUFFERS = 60, 28
"""A dispatch can be given 64 arrays; as SPIR-V as many as the device has storage buffers for, which are 31 and more."""
_BEGINS = frozenset((b"arith.constant", b"tensor.empty", b"linalg.fill"))


def dissolve_wide(mlir: mlir_c.Mlir, module: int, backend: str) -> None:
    """Put what regions of more arrays than a dispatch can be given hold back into the function.

    IREE joins all scalar operations next to each other, however many; a program with such a dispatch is compiled, and then
    not loaded.
    """
    most = MOST_BUFFERS if backend.endswith(SPIRV) else MOST_ARRAYS
    for region in mlir.in_hosts(module, frozenset((_REGION,))):
        *body, end = mlir.operations(mlir.first_block(region))
        own = {x for op in body for x in mlir.results(op)}
        given = {x for op in body for x in mlir.read_by(op)} - own
        if len(given) + len(mlir.results(region)) <= most:
            continue
        for op in body:
            mlir.mlirOperationMoveBefore(op, region)
        for x, result in zip(mlir.operands(end), mlir.results(region), strict=True):
            mlir.mlirValueReplaceAllUsesOfWith(result, x)
        mlir.mlirOperationDestroy(region)


def store_before_strides(mlir: mlir_c.Mlir, module: int) -> None:
    """Make a region of each operation outside of the regions of which a slice with strides is taken.

    It would be cloned into the dispatches that read the slice.
    """
    for op in mlir.in_hosts(module, frozenset((b"tensor.extract_slice",))):
        if not mlir.takes_strides(op) or _in_region(mlir, op):
            continue
        made = _made_by(mlir, mlir.mlirOperationGetOperand(op, 0))
        if made and not _in_region(mlir, made):
            _make_region(mlir, [made], before=mlir.mlirOperationGetNextInBlock(made))


def _made_by(mlir: mlir_c.Mlir, value: int) -> int:
    """The operation that computes the elements of a value, which others may only move; 0 where it is not of this function."""
    while not mlir.mlirValueIsABlockArgument(value):
        op = mlir.mlirOpResultGetOwner(value)
        if not mlir.name(op).startswith(b"tensor."):
            return op if mlir.name(op).startswith(b"linalg.") and mlir.name(op) not in _BEGINS else 0
        if not mlir.mlirOperationGetNumOperands(op):
            return 0
        value = mlir.mlirOperationGetOperand(op, 0)
    return 0


def _in_region(mlir: mlir_c.Mlir, op: int) -> bool:
    return mlir.name(mlir.mlirOperationGetParentOperation(op)) == _REGION


def _make_region(mlir: mlir_c.Mlir, ops: list[int], before: int) -> None:
    """Put operations into a region of their own, before another one, which gives all arrays that are used elsewhere.

    Numbers that are (elements that were read, what is computed of them) are computed again there: a region gives none.
    """
    location, context = mlir.mlirOperationGetLocation(ops[0]), mlir.mlirOperationGetContext(ops[0])
    before = _repeat_numbers(mlir, ops, before)
    block = mlir.mlirBlockCreate(0, None, None)
    for op in ops:
        mlir.mlirOperationRemoveFromParent(op)
        mlir.mlirBlockAppendOwnedOperation(block, op)
    users = {x: _used_outside(mlir, x, set(ops)) for op in ops for x in mlir.results(op)}
    given = [x for x, outside in users.items() if outside]
    mlir.create(b"flow.return", given, [], {}, last_in=block, location=location)
    regions = [mlir.mlirRegionCreate(), mlir.mlirRegionCreate()]
    mlir.mlirRegionAppendOwnedBlock(regions[0], block)
    sizes = mlir.mlirAttributeParseGet(context, mlir_c.text(b"array<i32: 0, 0>"))
    types = [mlir.mlirValueGetType(x) for x in given]
    made = mlir.create(_REGION, [], types, {b"operandSegmentSizes": sizes}, before=before, regions=regions)
    for x, new in zip(given, mlir.results(made), strict=True):
        for user, number in users[x]:
            mlir.mlirOperationSetOperand(user, number, new)


def _used_outside(mlir: mlir_c.Mlir, value: int, ops: set[int]) -> list[tuple[int, int]]:
    """The uses of a value but for those by some operations, and within them."""

    def among(user: int) -> bool:
        while user and user not in ops:
            user = mlir.mlirOperationGetParentOperation(user)
        return bool(user)

    return [(user, k) for user, k in mlir.uses(value) if not among(user)]


def _repeat_numbers(mlir: mlir_c.Mlir, ops: list[int], before: int) -> int:
    """Compute what is no array once more before an operation for its users outside of `ops`; the first operation that does."""
    first = before
    for op in reversed(ops):
        users = [(x, k, u) for k, x in enumerate(mlir.results(op)) for u in _used_outside(mlir, x, set(ops))]
        if not users or all(mlir.mlirTypeIsATensor(mlir.mlirValueGetType(x)) for x, _, _ in users):
            continue
        copy = mlir.mlirOperationClone(op)
        mlir.mlirBlockInsertOwnedOperationBefore(mlir.mlirOperationGetBlock(first), first, copy)
        made = list(mlir.results(copy))
        for _, k, (user, number) in users:
            mlir.mlirOperationSetOperand(user, number, made[k])
        first = copy
    return first


def take_apart(mlir: mlir_c.Mlir, module: int, backend: str, filled: bool = False) -> bool:
    """Move out of each region that would be wrong a value which it computes; whether there was one.

    The value and what it is computed from come before the region, where dispatches are to be formed again; or as a region of their
    own where the regions have been `filled` with what had been left between them, with which IREE would fill them again.
    """
    changed = False
    for region in mlir.in_hosts(module, frozenset((_REGION,))):
        *body, end = mlir.operations(mlir.first_block(region))
        found = _wrong(mlir, body, set(mlir.operands(end)), backend)
        if found:
            _move_out(mlir, region, body, end, found[0], filled)
            changed = True
    return changed


def fault(mlir: mlir_c.Mlir, module: int, backend: str) -> str | None:
    """What is wrong with one of the dispatches that have been formed, if anything is."""
    for executable in mlir.named(mlir.first_block(module), b"flow.executable"):
        for inner in mlir.named(mlir.first_block(executable), b"builtin.module"):
            for function in mlir.named(mlir.first_block(inner), b"func.func"):
                body = list(mlir.operations(mlir.first_block(function)))
                stored = {mlir.mlirOperationGetOperand(op, 0) for op in body if mlir.name(op) == _STORE}
                if found := _wrong(mlir, body, stored, backend):
                    return found[1]
    return None


def _wrong(mlir: mlir_c.Mlir, body: list[int], stored: set[int], backend: str) -> tuple[int, str] | None:
    """A value that must not be computed where the operations of a body are one dispatch, and why."""
    if backend == CPU:
        for op in body:
            if mlir.name(op) == b"linalg.softmax" and (x := mlir.mlirOperationGetOperand(op, 0)) in stored:
                return x, STORED_SOFTMAX
        if len(stored) > 1 and (value := _reduced_again(mlir, body, stored)):
            return value, STORED_REDUCTION
        if len(stored) > 1 and (value := _parts_of_one(mlir, body, stored)):
            return value, STORED_PARTS
        if value := _beside_picked(mlir, body):
            return value, PICKED
    if value := _sliced_with_strides(mlir, body):
        return value, STRIDED
    if value := iteration_spaces.read_along_two(mlir, body):
        return value, READ_ALONG_TWO
    if backend.endswith(SPIRV) and (value := iteration_spaces.read_by_other_threads(mlir, body)):
        return value, OTHER_THREADS
    return None


def _sliced_with_strides(mlir: mlir_c.Mlir, body: list[int]) -> int | None:
    """What is computed here and sliced with strides."""
    inside = set(body)
    for op in body:
        if mlir.takes_strides(op) and (made := _made_by(mlir, mlir.mlirOperationGetOperand(op, 0))) in inside:
            return mlir.mlirOperationGetResult(made, 0)
    return None


def _parts_of_one(mlir: mlir_c.Mlir, body: list[int], stored: set[int]) -> int | None:
    """A stored result of an operation of which another result is read here, which is written from one array on with a third."""
    several = [op for op in body if mlir.name(op) == b"linalg.generic" and len(mlir.results(op)) > 1]
    if not any(x in stored for op in several for x in mlir.results(op)):
        return None
    read = {x for op in body if mlir.name(op).startswith(b"linalg.") for x in mlir.operands(op)}
    begins: list[int] = []
    of_stored = dict[int, int]()
    for op in body:
        if mlir.name(op) != b"linalg.generic":
            continue
        results = mlir.results(op)
        value = next((x for x in results if x in stored), None)
        for x, begin in zip(results, mlir.operands(op)[-len(results) :], strict=True):
            if x in read and x not in stored:
                begins.append(begin)
                if value is not None:
                    of_stored[begin] = value
    return next((value for begin, value in of_stored.items() if begins.count(begin) > 1), None)


def _reduced_again(mlir: mlir_c.Mlir, body: list[int], stored: set[int]) -> int | None:
    """What is stored of a reduction, where another reduction reads what is computed of it along more dimensions."""
    nothing = (iteration_spaces.MANY, 0)
    of_reduction = set[int]()  # what is computed of a reduction
    of_stored = dict[
        int, tuple[int, int]
    ]()  # what is computed of a stored one: that of fewest dimensions, and how many
    for op in body:
        results, operands = mlir.results(op), mlir.operands(op)
        loops = iteration_spaces.reducing_loops(mlir, op)
        fewest = min((of_stored[x] for x in operands if x in of_stored), default=nothing)
        if fewest[0] < loops:
            return fewest[1]
        if loops or not of_reduction.isdisjoint(operands):
            of_reduction.update(results)
            for x in results:
                own = (mlir.mlirShapedTypeGetRank(mlir.mlirValueGetType(x)), x) if x in stored else nothing
                if min(fewest, own) < nothing:
                    of_stored[x] = min(fewest, own)
    return None


def _beside_picked(mlir: mlir_c.Mlir, body: list[int]) -> int | None:
    """What is computed of a reduction, where an operation without loops reads it that takes an element of an array."""
    of_reduction = set[int]()
    for op in body:
        read = [x for x in mlir.operands(op) if x in of_reduction]
        if read and iteration_spaces.has_no_loops(mlir, op):
            inner = mlir.operations(mlir.first_block(op))
            if any(mlir.name(x) == b"tensor.extract" for x in inner):
                return read[0]
        if read or iteration_spaces.reducing_loops(mlir, op):
            of_reduction.update(mlir.results(op))
    return None


def _move_out(mlir: mlir_c.Mlir, region: int, body: list[int], end: int, value: int, formed: bool) -> None:
    """Put a value and what it is computed from before a region; what stays behind becomes regions of what belongs together.

    What leaves becomes regions too if it is to be `formed`.
    """
    given = _given(mlir, body)
    leaving = set(given)
    asked = [value]
    inside = set(body)
    while asked:
        x = asked.pop()
        op = 0 if mlir.mlirValueIsABlockArgument(x) else mlir.mlirOpResultGetOwner(x)
        if op in inside and op not in leaving:
            leaving.add(op)
            asked.extend(mlir.read_by(op))
    for op in body:
        if op in leaving:
            mlir.mlirOperationMoveBefore(op, region)
    for x, result in zip(mlir.operands(end), mlir.results(region), strict=True):
        mlir.mlirValueReplaceAllUsesOfWith(result, x)
    mlir.mlirOperationDestroy(end)
    left = [op for op in body if op in leaving and op not in given] if formed else []
    for group in (*_connected(mlir, left), *_connected(mlir, [op for op in body if op not in leaving])):
        _make_region(mlir, group, before=region)
    mlir.mlirOperationDestroy(region)


def _given(mlir: mlir_c.Mlir, body: list[int]) -> set[int]:
    """Of a region's operations what arrays begin as, and numbers of which none is of what the region computes.

    They are cloned into the regions that read them when these are filled.
    """
    given: set[int] = set()
    for op in body:
        whole = all(mlir.mlirTypeIsATensor(mlir.mlirValueGetType(x)) for x in mlir.results(op))
        if whole and mlir.name(op) not in _BEGINS:
            continue
        made = {x for other in body if other not in given for x in mlir.results(other)}
        if not made & set(mlir.read_by(op)):
            given.add(op)
    return given


def _connected(mlir: mlir_c.Mlir, ops: list[int]) -> list[list[int]]:
    """Operations in groups of those that read what others of them compute, each in order."""
    groups: list[list[int]] = []
    for op in ops:
        read = set(mlir.read_by(op))
        with_it = [g for g in groups if any(x in read for other in g for x in mlir.results(other))]
        groups = [g for g in groups if g not in with_it] + [
            sorted((x for g in with_it for x in g), key=ops.index) + [op]
        ]
    return groups
