"""What a user-written kernel is given: places in a grid, spans, loops, and operations on tiles.

One program of the grid is one workgroup's work at a time. On a CPU tiles are computed in vectors along their last dimension,
on a GPU by the threads of the workgroup, element by element; barriers are where memory that they share is written.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from quire.ir import dtypes
from quire.ir.avals import ShapedArray
from quire.ir.dtypes import DType
from quire.ir.errors import KernelError
from quire.ir.primitive import PRIMITIVES, Primitive
from quire.ir.primitives import elementwise as ew
from quire.ir.source import current_source, where

from ...kernel_forms import WITHOUT
from ..core.builder import STACK_BYTES, KernelBuilder
from ..core.dtypes import dtype_of
from ..core.errors import NoKernel
from ..core.kernel import Spec
from ..core.values import Value
from ..elements.memory import Memory
from ..elements.monoids import accumulated, neutral
from ..elements.operations import Element, Elements, Expand, across
from ..products.plans import tile as register_tile
from .arrays import Access, Load, Ref
from .indices import Index, Span
from .tiles import Elementwise, Kept, Number, Place, Places, Scalar, Tile

#: So many vectors are summed side by side, where a reduction is long enough.
_CHAINS = 4


class Block:
    """The first argument of a kernel's function, by custom `k`."""

    def __init__(self, name: str, builder: KernelBuilder, expand: Expand) -> None:
        self.name = name
        self.builder = builder
        self.elements = Elements(builder, expand)
        self.grid: tuple[int, ...] = ()
        self._programs: tuple[Index, ...] = ()
        self._scopes = [0]
        self._made = 0
        self.refs: list[Ref] = []
        self._open_loops: list[Any] = []
        self.groups = 1  # workgroups that run the kernel
        self._shared = 0  # bytes that a GPU's threads share

    # -- errors and scopes

    def error(self, message: str) -> KernelError:
        """The error of a mistake in the kernel, with the line of the kernel that makes it."""
        return KernelError(f"kernel {self.name}: {message}{where(current_source())}")

    @property
    def gpu(self) -> bool:
        """Whether threads of a GPU run the kernel."""
        return self.builder.target.kind == "gpu"

    @property
    def scope(self) -> int:
        """The innermost loop or branch that is being written."""
        return self._scopes[-1]

    def check_scope(self, scope: int, source: Any) -> None:
        """Raise KernelError where a value of a loop or branch is used after it."""
        if scope not in self._scopes:
            raise KernelError(
                f"kernel {self.name}: a value that was made within a loop or k.when{where(source)} is used after it"
                f"{where(current_source())}: write it to k.scratch there"
            )

    def check_finished(self) -> None:
        """Raise KernelError where a loop was left by break or return: its body is written once, to its end."""
        if self._open_loops:
            raise KernelError(
                f"kernel {self.name}: a k.loop is left by break or return{where(self._open_loops[-1])}: its body is written once "
                "for all turns; use k.when within it"
            )

    @contextmanager
    def _scoped(self) -> Iterator[None]:
        # What was read before is kept now: the loop may write it.
        for ref in self.refs:
            for load in list(ref.pending.values()):
                load.kept = self.keep(load) if load.kept is None else load.kept
        self._made += 1
        self._scopes.append(self._made)
        yield
        self._scopes.pop()

    # -- places

    def new_index(self, value: Value, low: int, high: int) -> Index:
        """An index between two bounds."""
        return Index(self, value, low, high, self.scope)

    def as_index(self, x: Any) -> Index:
        """An index, or a Python number as one. Raises KernelError for anything else."""
        if isinstance(x, Index):
            return x
        if isinstance(x, int) and not isinstance(x, bool):
            return Index(self, self.builder.index(x), x, x, 0)
        raise self.error(f"{x!r} is no index: expected a Python int, k.program_id, or a loop's index")

    def set_programs(self, programs: Sequence[Index], grid: tuple[int, ...]) -> None:
        """Say which program of the grid is being written."""
        self._programs, self.grid = tuple(programs), grid

    def program_id(self, axis: int = 0) -> Index:
        """Which program of the grid this is. Raises KernelError for an axis that the grid does not have."""
        if not 0 <= axis < len(self._programs):
            raise self.error(f"program_id({axis}): the grid {self.grid} has {len(self.grid)} axis/axes")
        return self._programs[axis]

    def num_programs(self, axis: int = 0) -> int:
        """How many programs there are along an axis of the grid."""
        return self.grid[axis]

    def span(self, start: Any, size: int) -> Span:
        """So many neighbouring places from a start on; the size is a Python number. Raises KernelError for none."""
        if not isinstance(size, int) or size < 1:
            raise self.error(f"span: the size is {size!r}, expected a Python int of 1 or more")
        return Span(self, self.as_index(start), size)

    def loop(self, start: Any, stop: Any, step: int = 1) -> Iterator[Index]:
        """``for i in k.loop(start, stop, step)``: the body is written once. What it carries is in `scratch`.

        Raises KernelError for a step that is no positive number, and at the kernel's end where the loop was left early.
        """
        first, end = self.as_index(start), self.as_index(stop)
        if not isinstance(step, int) or step < 1:
            raise self.error(f"loop: the step is {step!r}, expected a Python int of 1 or more")
        line = current_source()
        last = first.low + max(end.high - 1 - first.low, 0) // step * step if first.low == first.high else end.high - 1
        self._open_loops.append(line)
        with self._scoped(), self.builder.for_(first.value, end.value, step) as loop:
            yield self.new_index(loop.index, first.low, max(last, first.low))
            self._open_loops.pop()

    @contextmanager
    def when(self, condition: Any) -> Iterator[None]:
        """``with k.when(condition)``: what is written within happens only where a tile of one bool is true.

        Raises KernelError for other conditions.
        """
        tile = self.as_tile(condition, dtypes.bool_)
        if tile.shape or tile.dtype != dtypes.bool_:
            raise self.error(
                f"when: the condition is a tile of shape {tile.shape} and dtype {tile.dtype}, expected one bool"
            )
        value: Any = self.elements.lift(tile.at(Place(())), dtypes.bool_)
        with self._scoped(), self.builder.if_(value):
            yield

    # -- tiles

    def tile_of_index(self, index: Index) -> Tile:
        """An index as an int32."""
        self.check_scope(index.scope, None)
        return Scalar(self, self.builder.cast(index.value, "i32"), dtypes.int32)

    def tile_of_span(self, span: Span) -> Tile:
        """A span's places as int32."""
        return Places(self, span)

    def as_tile(self, x: Any, like: DType | None = None) -> Tile:
        """A tile, or an index, a span or a number as one. Raises KernelError for anything else."""
        if isinstance(x, Tile):
            return x
        if isinstance(x, Index | Span):
            return x.tile()
        if isinstance(x, Ref):
            raise self.error(f"{x.name} is an array: read a tile of it, {x.name}[...]")
        if isinstance(x, bool | int | float):
            dtype = like if like is not None else dtypes.bool_ if isinstance(x, bool) else dtypes.float32
            if isinstance(x, float) and dtypes.is_integer(dtype):
                raise self.error(f"the number {x} meets a tile of {dtype}: convert the tile with k.cast")
            return Number(self, dtype.type(x).item() if not dtypes.is_float(dtype) else x, dtype)
        raise self.error(
            f"{type(x).__name__} is no tile: expected what is read from an array, a span, an index or a number"
        )

    def check_broadcast(self, shape: tuple[int, ...], to: tuple[int, ...], what: str) -> None:
        """Raise KernelError for a shape that cannot be broadcast to another one."""
        fits = len(shape) <= len(to) and all(a in (1, b) for a, b in zip(shape[::-1], to[::-1]))
        if not fits:
            raise self.error(f"{what} has shape {shape}, which does not fit {to}")

    def apply(self, p: Primitive, operands: Sequence[Any], **params: Any) -> Tile:
        """An elementwise primitive of tiles and numbers. Raises KernelError for dtypes or shapes that do not fit."""
        # A number's dtype is that of the first tile beside it; the condition of select_n is no such tile.
        beside = operands[1:] if p is ew.select_n_p else operands
        like = next(
            (x.dtype if isinstance(x, Tile) else dtypes.int32 for x in beside if isinstance(x, Tile | Index | Span)),
            None,
        )
        tiles = [
            self.as_tile(x, dtypes.bool_ if p is ew.select_n_p and i == 0 else like) for i, x in enumerate(operands)
        ]
        shape: tuple[int, ...] = ()
        for t in tiles:
            n = max(len(shape), t.ndim)
            a, b = (1,) * (n - len(shape)) + shape, (1,) * (n - t.ndim) + t.shape
            if any(x != y and 1 not in (x, y) for x, y in zip(a, b)):
                raise self.error(
                    f"{p.name} of tiles of shapes {', '.join(str(t.shape) for t in tiles)}, which do not fit together"
                )
            shape = tuple(max(x, y) for x, y in zip(a, b))
        several = {t.dtype for t in (tiles[1:] if p is ew.select_n_p else tiles)}
        if len(several) > 1:
            found = " and ".join(sorted(d.name for d in several))
            raise self.error(f"{p.name} of tiles of {found}: convert one with k.cast")
        try:
            out = p.infer([ShapedArray((), t.dtype) for t in tiles], params)[0]
        except (TypeError, ValueError) as error:
            raise self.error(f"{error}: k.cast converts a tile") from None
        return Elementwise(self, p, params, shape, out.dtype, tiles)

    def cast(self, x: Any, dtype: Any) -> Tile:
        """A tile in another dtype."""
        import numpy as np

        return self.apply(ew.convert_element_type_p, (x,), new_dtype=np.dtype(dtype), weak_type=False)

    def where(self, condition: Any, x: Any, y: Any) -> Tile:
        """x where the condition holds, else y."""
        return self.apply(ew.select_n_p, (self.as_tile(condition, dtypes.bool_), y, x))

    def full(self, shape: Sequence[int], value: Any, dtype: Any) -> Tile:
        """A tile of one number."""
        import numpy as np

        number = self.as_tile(value, np.dtype(dtype))
        return _Spread(self, number, tuple(shape))

    def keep(self, x: Any) -> Tile:
        """A tile computed now, in the workgroup's memory: for what is used more than once and costs much."""
        tile = self.as_tile(x)
        if not tile.shape:
            value = self.elements.lift(tile.at(Place(())), tile.dtype)
            return Scalar(self, value, tile.dtype)
        memory, start = self.memory(math.prod(tile.shape), tile.dtype)

        def put(place: Place) -> None:
            memory.store(tile.at(place), self.builder.add(self.flat(place.indices, tile.shape), start), place.width)

        self.each(tile.shape, put)
        self._barrier()
        return Kept(self, memory, start, tile.shape, tile.dtype)

    def scratch(self, shape: Sequence[int], dtype: Any) -> Ref:
        """Memory of the workgroup's own, shared by its threads, that may be read and written; it begins with any values."""
        import numpy as np

        sizes, d = tuple(shape), np.dtype(dtype)
        memory, start = self.memory(math.prod(sizes), d)
        ref = Ref(self, "scratch", sizes, d, memory, self.builder.index(start), written=True)
        self.refs.append(ref)
        return ref

    def memory(self, count: int, dtype: DType) -> tuple[Memory, Value | int]:
        """New memory for so many elements of the workgroup's own, and where in it they begin.

        On a CPU it is of the stack and, where that is used up, a part of an array that all workgroups share. On a GPU
        the workgroup's threads share it.

        Raises NoKernel where a GPU's workgroup has no more.
        """
        b, spec = self.builder, Spec((count,), dtype_of(dtype))
        size = spec.size * spec.dtype.nbytes
        if self.gpu:
            self._shared += size
            if self._shared > b.target.shared_bytes:
                raise NoKernel(f"more than {b.target.shared_bytes} bytes of a workgroup's shared memory")
            return Memory(self.elements, b.shared((count,), Memory.element(dtype)), dtype), 0
        if b.stack_bytes + size <= STACK_BYTES:
            return Memory.on_stack(self.elements, count, dtype), 0
        whole = Spec((count * self.groups,), spec.dtype)
        buffer = b.more_scratch(whole, whole.shape, Memory.element(dtype))
        return Memory(self.elements, buffer, dtype), b.mul(b.workgroup_id(), count)

    # -- reductions and products

    def sum(self, x: Any, axis: int | Sequence[int] | None = None) -> Tile:
        """The sum over some axes, all by default; of 16-bit floats in float32, and rounded at the end."""
        return self._reduce(ew.add_p, x, axis)

    def prod(self, x: Any, axis: int | Sequence[int] | None = None) -> Tile:
        """The product over some axes."""
        return self._reduce(ew.mul_p, x, axis)

    def max(self, x: Any, axis: int | Sequence[int] | None = None) -> Tile:
        """The maximum over some axes; NaN if there is one."""
        return self._reduce(ew.max_p, x, axis)

    def min(self, x: Any, axis: int | Sequence[int] | None = None) -> Tile:
        """The minimum over some axes; NaN if there is one."""
        return self._reduce(ew.min_p, x, axis)

    def any(self, x: Any, axis: int | Sequence[int] | None = None) -> Tile:
        """Whether one of some bools holds."""
        return self._reduce(ew.or_p, x, axis)

    def all(self, x: Any, axis: int | Sequence[int] | None = None) -> Tile:
        """Whether all of some bools hold."""
        return self._reduce(ew.and_p, x, axis)

    def dot(self, x: Any, y: Any) -> Tile:
        """The matrix product of two tiles of one dtype; of 16-bit floats in float32, and rounded at the end.

        Raises KernelError for other shapes.
        """
        a, b = self.as_tile(x), self.as_tile(y)
        if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0] or a.dtype != b.dtype:
            raise self.error(
                f"dot of tiles {a.dtype}{list(a.shape)} and {b.dtype}{list(b.shape)}: expected (m, k) and (k, n)"
            )
        a, b = (t if isinstance(t, Load | Kept) else self.keep(t) for t in (a, b))
        (m, depth), n = a.shape, b.shape[1]
        wide, builder = accumulated(ew.add_p, a.dtype), self.builder
        memory, first = self.memory(m * n, a.dtype)

        def number(t: Tile, indices: tuple[Value, ...], width: int) -> Any:
            return self._converted(t.at(Place(indices, width)), a.dtype, wide, width)

        def sums(rows: Sequence[Value], columns: Sequence[Value], width: int) -> None:
            """Rows times columns, or vectors of them, in one pass along the depth."""
            zero: Any = self.elements.lift(0, wide, width)
            with builder.for_(0, depth, 1, [zero] * (len(rows) * len(columns))) as loop:
                right = [number(b, (loop.index, j), width) for j in columns]
                total: list[Value] = []
                for i in rows:
                    left = number(a, (i, loop.index), 0)
                    left = builder.broadcast(left, width) if width else left
                    for y in right:
                        before = loop.carried[len(total)]
                        total.append(
                            builder.multiply_add(left, y, before)
                            if width and wide != dtypes.bool_
                            else self.elements.binary(
                                ew.add_p, wide, before, self.elements.binary(ew.mul_p, wide, left, y)
                            )
                        )
                loop.yield_(*total)
            for k, (i, j) in enumerate((i, j) for i in rows for j in columns):
                value = self._converted(loop.results[k], wide, a.dtype, width)
                memory.store(value, builder.add(self.flat((i, j), (m, n)), first), width)

        lanes = 0 if self.gpu or wide == dtypes.bool_ else builder.target.lanes(8 * wide.itemsize)
        if lanes and n >= lanes:
            mr, nv = register_tile(m, n, lanes, builder.target)
            nv = min(nv, n // lanes)
            # Blocks at the ends are moved back inside: what two of them compute is the same.
            with self._blocks(m, mr) as i, self._blocks(n, nv * lanes) as j:
                sums([builder.add(i, r) for r in range(mr)], [builder.add(j, v * lanes) for v in range(nv)], lanes)
        else:
            self.each((m, n), lambda place: sums(place.indices[:1], place.indices[1:], place.width))
        self._barrier()
        return Kept(self, memory, first, (m, n), a.dtype)

    @contextmanager
    def _blocks(self, count: int, size: int) -> Iterator[Value]:
        """A loop over the starts of blocks, the last of which is moved back where they do not divide."""
        b = self.builder
        with b.for_(0, count, size) as loop:
            yield b.smin(loop.index, b.index(count - size)) if count % size else loop.index

    def _converted(self, x: Element, old: DType, new: DType, width: int) -> Any:
        lifted = self.elements.lift(x, old, width)
        return lifted if old == new else self.elements.convert(lifted, old, new)

    def _reduce(self, p: Primitive, x: Any, axis: int | Sequence[int] | None) -> Tile:
        tile = self.as_tile(x)
        given = range(tile.ndim) if axis is None else [axis] if isinstance(axis, int) else axis
        axes = sorted({a + tile.ndim if a < 0 else a for a in given})
        if not tile.shape or not axes:
            return tile
        if axes[0] < 0 or axes[-1] >= tile.ndim:
            raise self.error(f"a tile of shape {tile.shape} has no axis {axis}")
        if (p in (ew.or_p, ew.and_p)) != (tile.dtype == dtypes.bool_):
            raise self.error(
                f"a reduction by {p.name} of a tile of {tile.dtype}: bools have any and all, numbers the others"
            )
        kept = tuple(n for d, n in enumerate(tile.shape) if d not in axes)
        wide = accumulated(p, tile.dtype)
        if not kept:
            return Scalar(self, self._converted(self._whole(p, tile, wide), wide, tile.dtype, 0), tile.dtype)
        memory, first = self.memory(math.prod(kept), tile.dtype)

        def one(place: Place) -> None:
            value = self._converted(self._along(p, tile, axes, wide, place), wide, tile.dtype, place.width)
            memory.store(value, self.builder.add(self.flat(place.indices, kept), first), place.width)

        # Along the last dimension one row at a time is reduced in vectors, over others several columns are.
        self.each(kept, one, vectors=tile.ndim - 1 not in axes)
        self._barrier()
        return Kept(self, memory, first, kept, tile.dtype)

    def _whole(self, p: Primitive, tile: Tile, wide: DType) -> Any:
        """All elements of a tile combined."""
        if not self.gpu:
            return self._along(p, tile, range(tile.ndim), wide, Place(()))
        b, threads = self.builder, self.builder.target.threads
        total, here = math.prod(tile.shape), b.thread_id()
        start: Any = self.elements.lift(neutral(p, wide), wide)
        with b.for_(here, total, threads, [start]) as loop:
            place = Place(self._unflat(loop.index, tile.shape))
            loop.yield_(
                self.elements.binary(p, wide, loop.carried[0], self._converted(tile.at(place), tile.dtype, wide, 0))
            )
        shared, _ = self.memory(threads, wide)
        shared.store(loop.results[0], here)
        self._barrier()
        half = threads // 2
        while half:
            with b.if_(b.cmp("ult", here, half)):
                shared.store(self.elements.binary(p, wide, shared.load(here), shared.load(b.add(here, half))), here)
            self._barrier()
            half //= 2
        found = shared.load(0)
        self._barrier()  # the memory may be written again in the next turn of a loop
        return found

    def _along(self, p: Primitive, tile: Tile, axes: Sequence[int], wide: DType, place: Place) -> Any:
        """The elements at a place of the dimensions that stay, combined over the axes."""
        b, last = self.builder, tile.ndim - 1
        lanes = self._lanes(wide)

        def indices(over: Sequence[Value]) -> tuple[Value, ...]:
            stay, gone = iter(place.indices), iter(over)
            return tuple(next(gone) if d in axes else next(stay) for d in range(tile.ndim))

        def combined(state: Any, over: Sequence[Value], width: int) -> Any:
            x = self._converted(tile.at(Place(indices(over), width)), tile.dtype, wide, width)
            return self.elements.binary(p, wide, state, x)

        def over_rows(state: list[Any], outer: Sequence[int], row: Callable[[list[Any], list[Value]], list[Any]],
                      over: list[Value]) -> list[Any]:  # fmt: skip
            if not outer:
                return row(state, over)
            with b.for_(0, tile.shape[outer[0]], 1, state) as loop:
                loop.yield_(*over_rows(loop.carried, outer[1:], row, [*over, loop.index]))
            return loop.results

        start = neutral(p, wide)
        if last not in axes or self.gpu:  # vectors, if any, are of several results
            first = [self.elements.lift(start, wide, place.width)]
            return over_rows(first, list(axes), lambda s, over: [combined(s[0], over, place.width)], [])[0]
        n, outer = tile.shape[last], list(axes[:-1])
        chains = _CHAINS if n >= 2 * _CHAINS * lanes else 1
        whole = n // (lanes * chains) * (lanes * chains)

        def row(state: list[Any], over: list[Value]) -> list[Any]:
            *vectors, rest = state
            if whole:
                with b.for_(0, whole, lanes * chains, vectors) as loop:
                    loop.yield_(
                        *(combined(c, [*over, b.add(loop.index, i * lanes)], lanes) for i, c in enumerate(loop.carried))
                    )
                vectors = loop.results
            if whole < n:
                with b.for_(whole, n, 1, [rest]) as loop:
                    loop.yield_(combined(loop.carried[0], [*over, loop.index], 0))
                rest = loop.results[0]
            return [*vectors, rest]

        first = [self.elements.lift(start, wide, lanes)] * chains if whole else []
        *vectors, rest = over_rows([*first, self.elements.lift(start, wide)], outer, row, [])
        if not vectors:
            return rest
        total = vectors[0]
        for v in vectors[1:]:
            total = self.elements.binary(p, wide, total, v)
        return self.elements.binary(
            p, wide, rest, across(self.elements, total, wide, partial(self.elements.binary, p, wide))
        )

    # -- loops over elements

    def store(self, access: Access, value: Any) -> None:
        """Write a tile. Raises KernelError for another dtype, or a shape that does not fit."""
        array = access.array
        tile = self.as_tile(value, array.dtype)
        if tile.dtype != array.dtype:
            raise self.error(
                f"a tile of {tile.dtype} is written to {array}: convert it with k.cast(tile, {array.dtype.name!r})"
            )
        self.check_broadcast(tile.shape, access.shape, "the tile")
        in_passing = array.prepare_store(tile, access)
        self.each(access.shape, lambda place: self._write(access, tile, place))
        for load in in_passing:
            load.stale = True
            array.pending.pop(id(load), None)
        self._barrier()

    def _write(self, access: Access, tile: Tile, place: Place) -> None:
        b, memory = self.builder, access.array.memory
        flat, step, inside = access.at(place)
        if inside is None:
            memory.store(self.elements.lift(tile.at(place), tile.dtype, place.width), flat, place.width, step)
            return
        if not place.width:
            with b.if_(inside):
                memory.store(tile.at(place), flat)
            return
        value: Any = self.elements.lift(tile.at(place), tile.dtype, place.width)

        def one_by_one() -> None:
            for lane in range(place.width):
                with b.if_(b.extract(inside, lane)):
                    memory.store(b.extract(value, lane), b.add(flat, lane * step))

        if step != 1 or tile.dtype == dtypes.bool_:
            one_by_one()
        elif access.may_precede:
            with b.if_(b.cmp("sge", flat, 0)) as branch:
                b.vstore(value, memory.buffer, access.pointed(flat), mask=inside)
                branch.else_()
                one_by_one()
        else:
            b.vstore(value, memory.buffer, access.pointed(flat), mask=inside)

    def each(self, shape: tuple[int, ...], body: Callable[[Place], None], vectors: bool = True) -> None:
        """Loops over the places of a shape: in vectors along the last dimension, or shared among a GPU's threads."""
        b = self.builder
        if self.gpu:
            here = b.thread_id()
            if math.prod(shape) == 1:
                with b.if_(b.cmp("eq", here, 0)):
                    body(Place((b.index(0),) * len(shape)))
                return
            with b.for_(here, math.prod(shape), b.target.threads) as loop:
                body(Place(self._unflat(loop.index, shape)))
            return
        if not shape:
            body(Place(()))
            return
        lanes = self.builder.target.lanes(32) if vectors else 0

        def nest(d: int, over: tuple[Value, ...]) -> None:
            n = shape[d]
            if d < len(shape) - 1:
                if n == 1:
                    nest(d + 1, (*over, b.index(0)))
                    return
                with b.for_(0, n) as loop:
                    nest(d + 1, (*over, loop.index))
                return
            whole = n // lanes * lanes if lanes else 0
            if whole:
                with b.for_(0, whole, lanes) as loop:
                    body(Place((*over, loop.index), lanes))
            if whole < n:
                with b.for_(whole, n) as loop:
                    body(Place((*over, loop.index)))

        nest(0, ())

    def flat(self, indices: Sequence[Value], shape: Sequence[int]) -> Value:
        """The flat place of an element of a row-major shape."""
        b = self.builder
        at: Value | None = None
        for i, n in zip(indices, shape, strict=True):
            at = i if at is None else b.add(b.mul(at, n), i)
        return b.index(0) if at is None else at

    def _unflat(self, at: Value, shape: Sequence[int]) -> tuple[Value, ...]:
        found: list[Value] = []
        for n in shape[:0:-1]:
            at, rest = self.builder.divmod(at, n)
            found.append(rest)
        return (at, *found[::-1]) if shape else ()

    def _lanes(self, dtype: DType) -> int:
        return self.builder.target.lanes(32)

    def _barrier(self) -> None:
        if self.gpu:
            self.builder.barrier()


class _Spread(Tile):
    """One number in a shape."""

    def __init__(self, block: Block, number: Tile, shape: tuple[int, ...]) -> None:
        super().__init__(block, shape, number.dtype, (number,))

    def element(self, place: Place) -> Element:
        """The number."""
        return self.parts[0].at(place)


def _unary(name: str, p: Primitive) -> Callable[[Block, Any], Tile]:
    def method(self: Block, x: Any) -> Tile:
        return self.apply(p, (x,))

    method.__name__ = name
    method.__doc__ = f"The primitive `{p.name}` of each element."
    return method


def _binary(name: str, p: Primitive) -> Callable[[Block, Any, Any], Tile]:
    def method(self: Block, x: Any, y: Any) -> Tile:
        return self.apply(p, (x, y))

    method.__name__ = name
    method.__doc__ = f"The primitive `{p.name}` of two tiles, element by element."
    return method


# Functions of one number have their primitives' names (``~`` is "not"), those of two NumPy's.
for _p in PRIMITIVES.values():
    if _p.family == "elementwise" and _p.arity == 1 and not _p.params and _p.weight and _p not in WITHOUT | {ew.not_p}:
        setattr(Block, _p.name, _unary(_p.name, _p))
for _name, _p in (("maximum", ew.max_p), ("minimum", ew.min_p), ("power", ew.pow_p), ("arctan2", ew.atan2_p)):
    setattr(Block, _name, _binary(_name, _p))

__all__ = ["Block"]
