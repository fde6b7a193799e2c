"""The k largest of each row, with their places, in JAX's order.

Largest first in IEEE's total order: NaN, inf, ..., 0, -0, ..., -inf, -NaN; of equal elements the lowest place
comes first.

- Rows up to the length that sort counts ranks for: the same, storing ranks below k.
- k up to :data:`INSERT_MAX`: one pass that skips blocks without an element larger than the current k-th, and
  inserts the others.
- larger k in long rows: elements larger than the k-th of those sorted so far are collected; whenever the
  collection is full, radix passes sort it and the first k remain.
- else: radix passes over (key, place) of the whole row, of which the first k are taken.
"""

from __future__ import annotations

import math

from ..core.builder import KernelBuilder
from ..core.dtypes import DType
from ..core.errors import NoKernel
from ..core.kernel import EMPTY, Kernel, Spec
from ..core.shapes import Rows
from ..core.target import KernelTarget
from ..core.values import Buffer, Value
from ..elements.keys import fold_back, keys_of, least_form, unfold
from .radix_passes import Digits, Lane, clear, count, passes
from .radix_sort import (
    Order,
    count_buffer,
    fill_rank_keys,
    load_words,
    place_of,
    rank,
    rank_keys,
    rank_max,
    sort_by,
    store_words,
    word_view,
)

#: Up to this k, elements are inserted into a list; its worst case is n*k moves.
INSERT_MAX = 32

_ORDER = Order(descending=True, total=True)
_ASCENDING = Order(total=True)


def check(operand: Spec, k: int, target: KernelTarget) -> None:
    """Raise :class:`NoKernel` unless the kernel can take the k largest of the rows of ``operand``."""
    if target.kind != "cpu":
        raise NoKernel("the top_k kernel is for CPUs")
    if operand.dtype.kind == "complex":
        raise NoKernel("complex numbers have no order")
    if not operand.shape or not 0 <= k <= operand.shape[-1]:
        raise NoKernel(f"k must be between 0 and the length of the last axis, got {k} for {operand}")
    if operand.shape[-1] >= 2**31:
        raise NoKernel("places are 32-bit")


def top_k(operand: Spec, k: int, target: KernelTarget) -> Kernel:
    """The kernel with results values ``[..., k]`` (operand's dtype) and places ``i32[..., k]``.

    Raises :class:`NoKernel`.
    """
    check(operand, k, target)
    rows = Rows(math.prod(operand.shape[:-1]), operand.shape[-1], 1)
    results = [
        Spec((*operand.shape[:-1], k), operand.dtype),
        Spec.of((*operand.shape[:-1], k), "i32"),
    ]
    if results[0].size == 0:
        return Kernel.nothing("top_k", [operand], results, [EMPTY, EMPTY], "no results")
    if rows.n <= rank_max(keys_of(0, operand.dtype), target):
        return _by_rank(operand, results, rows, k, target)
    if k <= INSERT_MAX:
        return _by_insertion(operand, results, rows, k, target)
    if rows.n >= 4 * collection(operand.dtype, k, target):
        return _by_collection(operand, results, rows, k, target)
    return _by_radix(operand, results, rows, k, target)


def collection(dtype: DType, k: int, target: KernelTarget) -> int:
    """How many elements are collected: room for some blocks, and few sorts of much more than k elements."""
    return max(4 * k, k + 4 * _block(dtype, target))


def _block(dtype: DType, target: KernelTarget) -> int:
    """Elements that are compared with the current k-th at once."""
    return 4 * target.lanes(dtype.bits)


def _any_larger(b: KernelBuilder, dtype: DType, source: Buffer, at: Value, vectors: int, least: Value) -> Value:
    """Whether any of the next vectors' elements has a larger key than ``least``."""
    lanes = b.target.lanes(dtype.bits)
    floor = b.broadcast(least, lanes)
    found: Value | None = None
    for v in range(vectors):
        key = _ASCENDING.signed(b, dtype, b.vload(lanes, source, at + v * lanes))
        larger = b.cmp("sgt", key, floor)
        found = larger if found is None else found | larger
    assert found is not None
    return b.reduce("or", found)


def _by_rank(operand: Spec, results: list[Spec], rows: Rows, k: int, target: KernelTarget) -> Kernel:
    b = KernelBuilder("top_k_rank", [operand], results, target)
    groups = rows.groups(target)
    source, values = word_view(b, 0, operand), word_view(b, 0, results[0], result=True)
    places = b.result(1, (results[1].size,))
    keys = keys_of(0, operand.dtype)
    arrays, lanes = rank_keys(b, keys, rows.n)
    with b.distributed(rows.count, groups) as row:
        start = rows.start(b, row)
        fill_rank_keys(b, arrays, keys, [operand], rows, start, _ORDER)
        with b.for_(0, rows.n) as loop:
            to = rank(b, arrays, lanes, loop.index)
            with b.if_(b.cmp("ult", to, k)):
                out = row * k + to
                store_words(b, load_words(b, source, operand, start + loop.index), values, out)
                b.store(b.cast(loop.index, "i32"), places, out)
    return b.build((groups,), f"top {k} of {rows.count} rows of {rows.n}: short rows, ranks counted")


def _by_radix(operand: Spec, results: list[Spec], rows: Rows, k: int, target: KernelTarget) -> Kernel:
    groups, n, dtype = rows.groups(target), rows.n, operand.dtype
    key = keys_of(0, dtype)[0]
    packed = key.bits <= 32
    scratch = [Spec.of((groups * 2 * n,), "u64")]
    if not packed:
        scratch.append(Spec.of((groups * 2 * n,), "u32"))
    b = KernelBuilder("top_k_radix", [operand], results, target, scratch=scratch)
    values, places = word_view(b, 0, results[0], result=True), b.result(1, (results[1].size,))
    digits = Digits.of(key.bits, n)
    counts = count_buffer(b, [digits])
    base = b.workgroup_id() * (2 * n)
    lanes = [Lane(b.result(2 + i), base) for i in range(len(scratch))]
    with b.distributed(rows.count, groups) as row:
        start = rows.start(b, row)
        side = sort_by(b, [operand], rows, start, key, lanes, digits, counts, b.index(0), True, _ORDER)
        _first(b, dtype, lanes, base + side, values, places, row, k)
    return b.build((groups,), f"top {k} of {rows.count} rows of {n}: large k, radix passes")


def _by_collection(operand: Spec, results: list[Spec], rows: Rows, k: int, target: KernelTarget) -> Kernel:
    groups, n, dtype = rows.groups(target), rows.n, operand.dtype
    packed = dtype.bits <= 32
    room, block = collection(dtype, k, target), _block(dtype, target)
    scratch = [Spec.of((groups * 2 * room,), "u64")]
    if not packed:
        scratch.append(Spec.of((groups * 2 * room,), "u32"))
    b = KernelBuilder("top_k_collect", [operand], results, target, scratch=scratch)
    source, values = word_view(b, 0, operand), word_view(b, 0, results[0], result=True)
    places = b.result(1, (results[1].size,))
    digits = Digits.of(dtype.bits, room)
    counts = count_buffer(b, [digits])
    least = b.stack((1,), dtype.word)  # key of the k-th of those sorted so far
    state = b.stack((2,), "i64")  # number of elements collected; side of the memory they are on
    base = b.workgroup_id() * (2 * room)
    lanes = [Lane(b.result(2 + i), base) for i in range(len(scratch))]

    def put(form: Value, place: Value, at: Value) -> None:
        word = b.cast(form, "i64", signed=False)
        if packed:
            word = (word << 32) | b.cast(place, "i64")
        else:
            b.store(b.cast(place, "i32"), lanes[1].memory, base + at)
        b.store(word, lanes[0].memory, base + at)

    def form_of(word: Value) -> Value:
        return b.cast(word >> 32 if packed else word, dtype.word)

    def collected() -> tuple[Value, Value]:
        return b.cast(b.load(state, 0), "index"), b.cast(b.load(state, 1), "index")

    def sort_collection() -> Value:
        """Sort what is collected; the side on which it is."""
        fill, side = collected()
        with b.for_(fill, room) as pad:
            # The lowest key: what pads comes after what was collected, also after equal elements.
            put(b.const(least_form(dtype), dtype.word), b.index(0), side + pad.index)
        clear(b, counts, digits)
        with b.for_(0, room) as loop:
            word = b.load(lanes[0].memory, base + side + loop.index)
            count(b, counts, _ORDER.of_form(b, dtype, form_of(word)), digits)
        return passes(b, lanes, room, counts, digits, lambda word: _ORDER.of_form(b, dtype, form_of(word)), side)

    def offer(first: Value, stop: Value, start: Value) -> None:
        """Collect what is larger than the k-th so far of the elements from ``first`` to ``stop``."""
        fill, _ = collected()
        with b.if_(b.cmp("ugt", fill, room - block)):
            side = sort_collection()
            last = form_of(b.load(lanes[0].memory, base + side + (k - 1)))
            b.store(_ASCENDING.signed(b, dtype, fold_back(b, dtype, last)), least, 0)
            b.store(k, state, 0)
            b.store(b.cast(side, "i64"), state, 1)
        with b.for_(first, stop) as loop:
            word = b.load(source, start + loop.index)
            with b.if_(b.cmp("sgt", _ASCENDING.signed(b, dtype, word), b.load(least, 0))):
                fill, side = collected()
                put(unfold(b, dtype, word), loop.index, side + fill)
                b.store(b.cast(fill + 1, "i64"), state, 0)

    with b.distributed(rows.count, groups) as row:
        start = rows.start(b, row)
        b.store(k, state, 0)
        b.store(0, state, 1)
        b.store(1 << (dtype.bits - 1), least, 0)
        with b.for_(0, k) as loop:
            put(unfold(b, dtype, b.load(source, start + loop.index)), loop.index, loop.index)
        with b.for_(k, n, block) as loop:
            stop = b.smin(loop.index + block, b.index(n))
            with b.if_(b.cmp("eq", stop - loop.index, block), ["i1"]) as maybe:
                maybe.yield_(_any_larger(b, dtype, source, start + loop.index, 4, b.load(least, 0)))
                maybe.else_()
                maybe.yield_(b.const(1, "i1"))
            with b.if_(maybe.results[0]):
                offer(loop.index, stop, start)
        side = sort_collection()
        _first(b, dtype, lanes, base + side, values, places, row, k)
    return b.build((groups,), f"top {k} of {rows.count} rows of {n}: larger elements collected and sorted")


def _first(
    b: KernelBuilder,
    dtype: DType,
    lanes: list[Lane],
    begin: Value,
    values: Buffer,
    places: Buffer,
    row: Value,
    k: int,
) -> None:
    """Write the first k of the sorted (form, place) pairs from ``begin`` on."""
    packed = len(lanes) == 1
    with b.for_(0, k) as loop:
        here, out = begin + loop.index, row * k + loop.index
        head = b.load(lanes[0].memory, here)
        place = place_of(b, head if packed else b.load(lanes[1].memory, here), packed)
        form = b.cast(head >> 32 if packed else head, dtype.word)
        b.store(fold_back(b, dtype, form), values, out)
        b.store(b.cast(place, "i32"), places, out)


def _by_insertion(operand: Spec, results: list[Spec], rows: Rows, k: int, target: KernelTarget) -> Kernel:
    b = KernelBuilder("top_k_insert", [operand], results, target)
    groups, n, dtype = rows.groups(target), rows.n, operand.dtype
    source, values = word_view(b, 0, operand), word_view(b, 0, results[0], result=True)
    places = b.result(1, (results[1].size,))
    best, where = b.stack((k,), dtype.word), b.stack((k,), "i32")
    lanes, block = target.lanes(dtype.bits), _block(dtype, target)
    blocks = (n - k) // block

    def insert(key: Value, i: Value, filled: Value) -> None:
        """Insert into the first ``filled`` entries, after those not smaller."""
        with b.while_([filled]) as loop:
            (at,) = loop.before
            with b.if_(b.cmp("ugt", at, 0), ["i1"]) as inside:
                inside.yield_(b.cmp("slt", b.load(best, at - 1), key))
                inside.else_()
                inside.yield_(b.const(0, "i1"))
            loop.condition(inside.results[0], at)
            (at,) = loop.after
            with b.if_(b.cmp("ult", at, k)):  # the smallest of a full list falls off
                b.store(b.load(best, at - 1), best, at)
                b.store(b.load(where, at - 1), where, at)
            loop.yield_(at - 1)
        b.store(key, best, loop.results[0])
        b.store(b.cast(i, "i32"), where, loop.results[0])

    def offer(i: Value, start: Value) -> None:
        key = _ASCENDING.signed(b, dtype, b.load(source, start + i))
        with b.if_(b.cmp("sgt", key, b.load(best, k - 1))):
            insert(key, i, b.index(k))

    with b.distributed(rows.count, groups) as row:
        start = rows.start(b, row)
        with b.for_(0, k) as first:
            insert(_ASCENDING.signed(b, dtype, b.load(source, start + first.index)), first.index, first.index)
        with b.for_(0, blocks) as loop:
            begin = loop.index * block + k
            with b.if_(_any_larger(b, dtype, source, start + begin, 4, b.load(best, k - 1))):
                with b.for_(begin, begin + block, lanes) as part:
                    least = b.load(best, k - 1)
                    with b.if_(_any_larger(b, dtype, source, start + part.index, 1, least)):
                        with b.for_(part.index, part.index + lanes) as one:
                            offer(one.index, start)
        with b.for_(k + blocks * block, n) as tail:
            offer(tail.index, start)
        _take(b, dtype, operand, source, where, values, places, start, row, k)
    return b.build((groups,), f"top {k} of {rows.count} rows of {n}: one pass with insertion")


def _take(
    b: KernelBuilder,
    dtype: DType,
    operand: Spec,
    source: Buffer,
    where: Buffer,
    values: Buffer,
    places: Buffer,
    start: Value,
    row: Value,
    k: int,
) -> None:
    """Write the elements at ``where`` and their places."""
    with b.for_(0, k) as loop:
        place = b.load(where, loop.index)
        at = start + b.cast(place, "index")
        store_words(b, load_words(b, source, operand, at), values, row * k + loop.index)
        b.store(place, places, row * k + loop.index)
