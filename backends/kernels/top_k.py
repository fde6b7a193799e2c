"""The k largest of each row, with their places, in JAX's order.

Largest first; every NaN counts as larger than inf; 0 is larger than -0; of equal elements the lowest place
comes first.

- Rows up to the length that sort counts ranks for: the same, storing ranks below k.
- k up to :data:`INSERT_MAX`: one pass that skips blocks without an element larger than the current k-th, and
  inserts the others.
- else: radix passes over (key, place), of which the first k are taken.
"""

from __future__ import annotations

import math

from .builder import KernelBuilder
from .dtypes import DType
from .kernel import EMPTY, Kernel, Spec
from .keys import fold_back, keys_of
from .radix import Digits, Lane
from .sort import (
    RANK_MAX,
    Order,
    Rows,
    count_buffer,
    fill_rank_keys,
    load_words,
    place_of,
    rank,
    rank_keys,
    sort_by,
    store_words,
    word_view,
)
from .target import KernelTarget
from .values import Buffer, Value

#: Up to this k, elements are inserted into a list; its worst case is n*k moves.
INSERT_MAX = 32

_ORDER = Order(descending=True, zeros_equal=False)


def applies(operand: Spec, k: int, target: KernelTarget) -> str | None:
    """None where the kernel can take the k largest of the rows of ``operand``, else why not."""
    if target.kind != "cpu":
        return "the top_k kernel is for CPUs"
    if operand.dtype.kind == "complex":
        return "complex numbers have no order"
    if not operand.shape or not 0 <= k <= operand.shape[-1]:
        return f"k must be between 0 and the length of the last axis, got {k} for {operand}"
    if operand.shape[-1] >= 2**31:
        return "places are 32-bit"
    return None


def top_k(operand: Spec, k: int, target: KernelTarget) -> Kernel:
    """The kernel with results values ``[..., k]`` (operand's dtype) and places ``i32[..., k]``.

    Raises ``ValueError`` where :func:`applies` says so.
    """
    why = applies(operand, k, target)
    if why is not None:
        raise ValueError(f"top_k of {operand}: {why}")
    rows = Rows(math.prod(operand.shape[:-1]), operand.shape[-1], 1)
    results = [
        Spec((*operand.shape[:-1], k), operand.dtype),
        Spec.of((*operand.shape[:-1], k), "i32"),
    ]
    if results[0].size == 0:
        return Kernel.nothing("top_k", [operand], results, [EMPTY, EMPTY], "no results")
    if rows.n <= RANK_MAX:
        return _by_rank(operand, results, rows, k, target)
    if k <= INSERT_MAX:
        return _by_insertion(operand, results, rows, k, target)
    return _by_radix(operand, results, rows, k, target)


def _by_rank(operand: Spec, results: list[Spec], rows: Rows, k: int, target: KernelTarget) -> Kernel:
    b = KernelBuilder("top_k_rank", [operand], results, target)
    groups = rows.groups(target)
    source, values = word_view(b, 0, operand), word_view(b, 0, results[0], result=True)
    places = b.result(1, (results[1].size,))
    keys = keys_of(0, operand.dtype)
    arrays, lanes = rank_keys(b, keys, rows.n)
    with b.spread(rows.count, groups) as row:
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
    with b.spread(rows.count, groups) as row:
        start = rows.start(b, row)
        side = sort_by(b, [operand], rows, start, key, lanes, digits, counts, b.index(0), True, _ORDER)
        with b.for_(0, k) as loop:
            here, out = base + side + loop.index, row * k + loop.index
            head = b.load(lanes[0].memory, here)
            place = place_of(b, head if packed else b.load(lanes[1].memory, here), packed)
            form = b.cast(head >> 32 if packed else head, dtype.word)
            b.store(fold_back(b, dtype, form), values, out)
            b.store(b.cast(place, "i32"), places, out)
    return b.build((groups,), f"top {k} of {rows.count} rows of {n}: large k, radix passes")


def _by_insertion(operand: Spec, results: list[Spec], rows: Rows, k: int, target: KernelTarget) -> Kernel:
    b = KernelBuilder("top_k_insert", [operand], results, target)
    groups, n, dtype = rows.groups(target), rows.n, operand.dtype
    source, values = word_view(b, 0, operand), word_view(b, 0, results[0], result=True)
    places = b.result(1, (results[1].size,))
    best, where = b.stack((k,), dtype.word), b.stack((k,), "i32")
    ascending = Order(zeros_equal=False)
    lanes = target.lanes(dtype.bits)
    block = lanes * 4
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
        key = ascending.signed(b, dtype, b.load(source, start + i))
        with b.if_(b.cmp("sgt", key, b.load(best, k - 1))):
            insert(key, i, b.index(k))

    def hits(at: Value, vectors: int) -> Value:
        """Whether any of the next elements is larger than the current k-th."""
        least = b.broadcast(b.load(best, k - 1), lanes)
        found: Value | None = None
        for v in range(vectors):
            key = ascending.signed(b, dtype, b.vload(lanes, source, at + v * lanes))
            larger = b.cmp("sgt", key, least)
            found = larger if found is None else found | larger
        assert found is not None
        return b.reduce("or", found)

    with b.spread(rows.count, groups) as row:
        start = rows.start(b, row)
        with b.for_(0, k) as first:
            insert(ascending.signed(b, dtype, b.load(source, start + first.index)), first.index, first.index)
        with b.for_(0, blocks) as loop:
            begin = loop.index * block + k
            with b.if_(hits(start + begin, 4)):
                with b.for_(begin, begin + block, lanes) as part:
                    with b.if_(hits(start + part.index, 1)):
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
