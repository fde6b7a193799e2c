"""Scatter: set, add, mul, min, max of windows of updates at indexed places of the operand.

Updates are applied one after the other in the order of the scatter dimensions (of equal places the last write
wins, sums are deterministic). A window that does not lie inside the operand is left out whole (``drop``) or
moved inside (``clip``); no index value of any type makes the kernel touch other memory. Loops run over the
dimensions of the updates in their order; neighbouring window dimensions that are contiguous in both arrays
become one, and the innermost run is vectorised.

On CPUs (`scatter_by_threads` is for GPUs) the work is spread over workgroups in one of two ways. Dimensions in which updates
cannot meet are shared out: batching, leading window dimensions that no index moves, and scatter dimensions where the program
promises that indices are unique. Else, each workgroup has a range of an indexed dimension of the operand: it goes through all
index vectors, and applies the windows that begin there. Where that range is one piece of memory, it can copy it before: an
operand that has to keep its elements is then copied by all workgroups. Small windows are cheaper to apply than to pass over: one
workgroup then has all.

Extremes of floats compare integers (`elements/keys.py`). With many updates the operand's elements are such keys meanwhile.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property

from quire.ir.primitives.indexing import ScatterDimensionNumbers

from ..core.builder import KernelBuilder
from ..core.errors import NoKernel
from ..core.kernel import Kernel, KernelChain, Spec
from ..core.shapes import shorter
from ..core.target import KernelTarget
from ..core.values import Value
from ..elements.combiner import Combiner
from .index_vectors import Components, IndexVectors, StoredVectors
from .scatter_by_threads import scatter_by_threads
from .update_axes import OPS, Axis, Mode, Place, ScatterOp, are_elements, merged, update_axes, window_sizes

#: Updates that are worth a workgroup of their own, and bytes that are read and written: others must be woken for them.
GROUP_UPDATES, GROUP_BYTES = 8192, 1 << 18
#: Listing windows, and passing over those that begin in another workgroup's range, takes as long as so many bytes.
PASSED_BYTES = 128
#: Extremes of floats compare keys: the operand is made of keys first, and numbers again at the end, for so many elements an update.
KEYS_WORTH = 4
#: The windows of a range are listed before they are applied: so many index vectors at a time.
LISTED = 512


def check(operand: Spec, indices: Spec, updates: Spec, dims: ScatterDimensionNumbers) -> None:
    """Raise :class:`NoKernel` unless the kernel can do the scatter."""
    if indices.dtype.kind not in ("int", "uint"):
        raise NoKernel(f"indices must be integers, got {indices.dtype.name}")
    if operand.dtype != updates.dtype:
        raise NoKernel(f"operand and updates differ: {operand.dtype.name} and {updates.dtype.name}")
    if not dims.scatter_dims_to_operand_dims:
        raise NoKernel("no dimension is indexed")
    sizes = window_sizes(operand, updates, dims)
    if any(w > d for w, d in zip(sizes, operand.shape)):
        raise NoKernel(f"a window {sizes} is larger than the operand {operand}")


def scatter(
    op: ScatterOp,
    operand: Spec,
    indices: Spec | IndexVectors,
    updates: Spec,
    dims: ScatterDimensionNumbers,
    target: KernelTarget,
    *,
    mode: Mode = "drop",
    keep: bool = False,
    unique: bool = False,
) -> Kernel | KernelChain:
    """The kernel with operands (operand, what the indices are made of, updates); its one result is the operand, updated.

    It is updated in place, and ``tied`` says so: an operand that must keep its value (``keep``) has to be copied by
    whoever calls. Where ``keep`` is given and ``tied`` is empty, the kernel makes the copy. ``unique``: no two index vectors
    are equal. Raises :class:`NoKernel`, also where the indices cannot be computed.
    """
    if isinstance(indices, Spec):
        indices = StoredVectors(indices)
    check(operand, indices.spec, updates, dims)
    operands = [operand, *indices.operands, updates]
    if updates.size == 0 or operand.size == 0:
        return Kernel.nothing(f"scatter_{op}", operands, [operand], [0], "no updates")
    if target.kind == "gpu":
        return scatter_by_threads(op, operand, indices, updates, dims, target, mode=mode, unique=unique)
    axes = _axes(operand, updates, dims)
    if unique and mode == "drop" and updates.size >= 2 * GROUP_UPDATES and are_elements(operand, updates, dims):
        axes = _freed(axes, target.workgroups)
    free = next((i for i, a in enumerate(axes) if a.role != "free"), len(axes))
    share = _share(operand, updates, dims, axes, target, keep)
    copies = keep and share is not None and share.whole
    extremes = op in ("max", "min") and operand.dtype.kind == "float" and share is not None and share.whole
    in_keys = extremes and updates.size * KEYS_WORTH >= operand.size
    b = KernelBuilder(f"scatter_{op}", operands, [operand], target, tied={} if copies else {0: 0})
    writer = _Writer(b, op, operand, indices, updates, dims, mode, in_keys)
    if share is None:
        shared = math.prod(a.size for a in axes[:free])
        groups = target.groups(updates.size, GROUP_UPDATES, shared)
        with b.distributed(shared, groups) as number:
            writer.positions(axes[free:], writer.origin().at(axes[:free], number))
        how = "in order of the updates"
    elif share.groups == 1:
        groups = 1
        writer.begin(b.index(0), b.index(operand.size), copies)
        if in_keys and len(axes) == 1 and axes[0].role == "scatter" and axes[0].update == 1:
            writer.blocks(axes[0])
        else:
            writer.positions(axes, writer.origin())
        writer.end(b.index(0), b.index(operand.size))
        how = "in order of the updates"
    else:
        groups = share.groups
        writer.ranges(axes, share, copies)
        how = f"{groups} ranges of dimension {share.dim}, each in order of the updates"
    place = "into a copy" if copies else "in place"
    made = "" if isinstance(indices, StoredVectors) else "; the indices computed here"
    where = "outside: dropped" if mode == "drop" else "outside: clipped"
    return b.build((groups,), f"scatter {op} of {updates} {place}, {how}; {where}{made}")


@dataclass(frozen=True)
class Share:
    """A dimension of the operand, indexed by component ``component``, that workgroups have ranges of.

    ``whole``: a range is one piece of memory, ``row`` elements for each index.
    """

    dim: int
    component: int
    size: int
    row: int
    groups: int
    whole: bool


def _share(
    operand: Spec, updates: Spec, dims: ScatterDimensionNumbers, axes: Sequence[Axis], target: KernelTarget, keep: bool
) -> Share | None:
    """The ranges of an indexed dimension that windows have one element of; None where dimensions are free."""
    if any(a.role == "free" for a in axes):
        return None
    sizes = window_sizes(operand, updates, dims)
    d = min(dims.scatter_dims_to_operand_dims)
    if sizes[d] != 1 or operand.shape[d] == 1:
        return None
    before = math.prod(operand.shape[:d])
    bytes_ = (updates.size + (operand.size if keep and before == 1 else 0)) * operand.dtype.nbytes
    passed = updates.size // math.prod(sizes) * PASSED_BYTES
    groups = min(operand.shape[d], target.workgroups, bytes_ // GROUP_BYTES, bytes_ // passed)
    row = math.prod(operand.shape[d + 1 :])
    return Share(d, dims.scatter_dims_to_operand_dims.index(d), operand.shape[d], row, max(1, groups), before == 1)


def _axes(operand: Spec, updates: Spec, dims: ScatterDimensionNumbers) -> list[Axis]:
    """The loops over the updates: free leading ones, scatter positions, then the rest of the window."""
    leading: list[Axis] = []
    scatter_axes: list[Axis] = []
    window: list[Axis] = []
    for axis in update_axes(operand, updates, dims):
        # A batching dimension separates updates; it may go outside where it already is.
        outside = axis.role == "free" and not scatter_axes
        (leading if outside else window if axis.batch is None else scatter_axes).append(axis)
    scatter_axes = [replace(a, role="scatter") for a in scatter_axes]
    window = [replace(a, role="window") for a in window]
    keep = [a for a in (*leading, *scatter_axes) if a.size > 1]
    return keep + merged([a for a in window if a.size > 1])


def _freed(axes: Sequence[Axis], enough: int) -> list[Axis]:
    """The axes with leading scatter positions free, as no two of them write one element: enough for all workgroups."""
    out: list[Axis] = []
    pieces = 1
    for axis in axes:
        free = axis.role == "scatter" and pieces < enough
        out.append(replace(axis, role="free") if free else axis)
        pieces *= axis.size
    return out


@dataclass(frozen=True)
class _Writer:
    """The inner part of a scatter kernel: from a position of the updates to the elements of its window."""

    b: KernelBuilder
    op: ScatterOp
    operand: Spec
    indices: IndexVectors
    updates: Spec
    dims: ScatterDimensionNumbers
    mode: Mode
    in_keys: bool = False
    """Whether the operand's elements are keys while updates are applied."""

    @cached_property
    def vectors(self) -> Components:
        """The index vectors."""
        return self.indices.opened(self.b, 1)

    def origin(self) -> Place:
        """The first element of everything."""
        return Place(self.b.index(0), self.b.index(0))

    # -- all of the operand ----------------------------------------------------------------------------------

    def positions(self, axes: Sequence[Axis], place: Place) -> None:
        """Loop over the scatter positions and apply each window."""
        b = self.b
        window = [a for a in axes if a.role == "window"]
        with ExitStack() as loops:
            for axis in axes:
                if axis.role != "window":
                    loop = loops.enter_context(b.for_(0, axis.size))
                    place = place.moved(loop.index, axis)
            inside, start, _ = self._start(place)
            if inside is not None:
                loops.enter_context(b.if_(inside))
            self._window(window, replace(place, operand=place.operand + start))

    def blocks(self, axis: Axis) -> None:
        """Apply updates of one element, neighbours in memory, to an operand of keys: their keys are made in vectors, many at a time."""
        b, combiner = self.b, self._combiner()
        new, lanes = len(b.operands) - 1, b.target.lanes(self.operand.dtype.bits)
        source = b.operand(new, (self.updates.size,), combiner.memory)
        target = b.result(0, (self.operand.size,), combiner.memory)
        keys = b.stack((LISTED,), combiner.memory)
        with b.for_(0, axis.size, LISTED) as block:
            stop = b.smin(block.index + LISTED, b.index(axis.size))
            whole = block.index + b.udiv(stop - block.index, lanes) * lanes
            for first, last, n in ((block.index, whole, lanes), (whole, stop, 1)):
                with b.for_(first, last, n) as loop:
                    (made,) = combiner.load(n, source, loop.index)
                    b.vstore(made, keys, loop.index - block.index)
            with b.for_(block.index, stop) as loop:
                inside, start, _ = self._start(self.origin().moved(loop.index, axis))
                with ExitStack() as stack:
                    if inside is not None:
                        stack.enter_context(b.if_(inside))
                    (key,) = combiner.combine([b.load(target, start)], [b.load(keys, loop.index - block.index)])
                    b.store(key, target, start)

    # -- a range of a dimension ------------------------------------------------------------------------------

    def ranges(self, axes: Sequence[Axis], share: Share, copies: bool) -> None:
        """This workgroup's range: copied if need be, then updated by the windows that begin in it."""
        b = self.b
        size = -(-share.size // share.groups)
        first = b.smin(b.workgroup_id() * size, b.index(share.size))
        last = b.smin(first + size, b.index(share.size))
        if share.whole:
            self.begin(first * share.row, last * share.row, copies)
        scatters = [a for a in axes if a.role != "window"]
        window = [a for a in axes if a.role == "window"]
        count = math.prod(a.size for a in scatters)
        listed = min(LISTED, count)
        to, of = b.stack((listed + 1,), "i64"), b.stack((listed + 1,), "i64")
        with b.for_(0, count, listed) as block:
            stop = b.smin(block.index + listed, b.index(count))
            # A window that is not of this range is overwritten in the list by the next one.
            with b.for_(block.index, stop, init=[b.index(0)]) as loop:
                place = self.origin().at(scatters, loop.index)
                inside, start, along = self._start(place, share.component)
                mine = b.cmp("ult", along - first, last - first)
                mine = mine if inside is None else mine & inside
                b.store(b.cast(place.operand + start, "i64"), to, loop.carried[0])
                b.store(b.cast(place.update, "i64"), of, loop.carried[0])
                loop.yield_(loop.carried[0] + b.cast(b.cast(mine, "i64", signed=False), "index"))
            with b.for_(0, loop.results[0]) as each:
                update, at = (b.cast(b.load(x, each.index), "index") for x in (of, to))
                self._window(window, Place(update, at))
        if share.whole:
            self.end(first * share.row, last * share.row)

    # -- before and after the updates --------------------------------------------------------------------------

    def begin(self, first: Value, last: Value, copies: bool) -> None:
        """Make these elements of the result the operand's, if they are not yet, and keys if need be."""
        if copies or self.in_keys:
            self._pass_over(first, last, copies, self._combiner().lift if self.in_keys else lambda x: x)

    def end(self, first: Value, last: Value) -> None:
        """Make these elements numbers again."""
        if self.in_keys:
            self._pass_over(first, last, False, self._combiner().lower)

    def _pass_over(self, first: Value, last: Value, copies: bool, change: Callable[[Value], Value]) -> None:
        """Store what `change` makes of these elements of the operand, or of the result as it is."""
        b, words = self.b, self.operand.dtype.words
        size, word = self.operand.size * words, self.operand.dtype.word
        result = b.result(0, (size,), word)
        source = b.operand(0, (size,), word) if copies else result
        lanes = b.target.lanes(int(word[1:]))
        start, stop = first * words, last * words
        whole = start + b.udiv(stop - start, 4 * lanes) * (4 * lanes)
        with b.for_(start, whole, 4 * lanes) as loop:
            values = [b.vload(lanes, source, loop.index + k * lanes) for k in range(4)]
            for k, x in enumerate(values):
                b.vstore(change(x), result, loop.index + k * lanes)
        with b.for_(whole, stop) as loop:
            b.vstore(change(b.vload(1, source, loop.index)), result, loop.index)

    def _combiner(self) -> Combiner:
        return Combiner(self.b, OPS[self.op], self.operand.dtype)

    # -- one window ------------------------------------------------------------------------------------------

    def _start(self, place: Place, component: int = 0) -> tuple[Value | None, Value, Value]:
        """Read an index vector: whether its window lies inside (None: always), how far from a place it begins, and one
        of its components, as far as it lies inside."""
        sizes, dims = window_sizes(self.operand, self.updates, self.dims), self.dims.scatter_dims_to_operand_dims
        moved = self.mode == "clip"
        return self.vectors.window(self._vector(place), dims, self.operand.shape, sizes, moved, component)

    def _vector(self, place: Place) -> list[Value]:
        """The place of an index vector; dimensions of size 1 have no loop."""
        rank = len(self.updates.shape) - len(self.dims.update_window_dims)
        return [place.vector.get(d, self.b.index(0)) for d in range(rank)]

    def _window(self, axes: Sequence[Axis], place: Place) -> None:
        b = self.b
        with ExitStack() as loops:
            run = 1
            if axes and axes[-1].update == 1 and axes[-1].operand == 1:
                run, axes = axes[-1].size, axes[:-1]
            for axis in axes:
                loop = loops.enter_context(b.for_(0, axis.size))
                place = place.moved(loop.index, axis)
            self._run(run, place)

    def _run(self, length: int, place: Place) -> None:
        """``length`` contiguous elements: whole vectors, then ever shorter ones."""
        b, dtype = self.b, self.operand.dtype
        lanes = b.target.lanes(dtype.bits if self.op == "set" else max(16, dtype.bits))
        whole = length // lanes * lanes
        if whole == lanes:
            self._elements(lanes, place, 0)
        elif whole:
            with b.for_(0, whole, lanes) as loop:
                self._elements(lanes, place, loop.index)
        for done, n in shorter(whole, length, lanes):
            self._elements(n, place, done)

    def _elements(self, n: int, place: Place, offset: Value | int) -> None:
        b, dtype = self.b, self.operand.dtype
        to, at = place.operand + offset, place.update + offset
        new = len(b.operands) - 1
        if self.op == "set":
            words = dtype.words
            target = b.result(0, (self.operand.size * words,), dtype.word)
            source = b.operand(new, (self.updates.size * words,), dtype.word)
            b.vstore(b.vload(n * words, source, at * words), target, to * words)
            return
        combiner = self._combiner()
        target = b.result(0, (self.operand.size * dtype.parts,), combiner.memory)
        source = b.operand(new, (self.updates.size * dtype.parts,), combiner.memory)
        add = combiner.load(n, source, at)
        if self.in_keys:
            (key,) = combiner.combine([b.vload(n, target, to)], add)
            b.vstore(key, target, to)
        else:
            combiner.store(combiner.combine(combiner.load(n, target, to), add), target, to)
