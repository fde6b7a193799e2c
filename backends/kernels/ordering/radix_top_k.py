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

from collections.abc import Sequence
from dataclasses import dataclass

from ..core.builder import KernelBuilder
from ..core.dtypes import DType
from ..core.kernel import Kernel, Spec
from ..core.shapes import Rows
from ..core.target import KernelTarget
from ..core.values import Value
from ..elements.keys import fold_back, keys_of, least_form, unfold
from .radix_sort import Order, Places, Ranks, load_words, rank_max, store_words, word_view

#: Up to this k, elements are inserted into a list; its worst case is n*k moves.
INSERT_MAX = 32

_ORDER = Order(descending=True, total=True)
_ASCENDING = Order(total=True)


def top_k(operand: Spec, results: Sequence[Spec], rows: Rows, k: int, target: KernelTarget) -> Kernel:
    """The kernel of the k largest of each row; see `quire.backends.kernels.ordering.choice`."""
    problem = _Problem(operand, tuple(results), rows, k, target)
    if rows.n <= rank_max(keys_of(0, operand.dtype), target):
        return _by_rank(problem)
    if k <= INSERT_MAX:
        return _by_insertion(problem)
    if rows.n >= 4 * collection(operand.dtype, k, target):
        return _by_collection(problem)
    return _by_radix(problem)


def collection(dtype: DType, k: int, target: KernelTarget) -> int:
    """How many elements are collected: room for some blocks, and few sorts of much more than k elements."""
    return max(4 * k, k + 4 * _block(dtype, target))


def _block(dtype: DType, target: KernelTarget) -> int:
    """Elements that are compared with the current k-th at once."""
    return 4 * target.lanes(dtype.bits)


@dataclass(frozen=True)
class _Problem:
    """What is asked for: the k largest of each row of an operand."""

    operand: Spec
    results: tuple[Spec, ...]
    rows: Rows
    k: int
    target: KernelTarget


class _Writer:
    """A kernel that is being written: the operand, the results, and how they are read and written."""

    def __init__(self, name: str, p: _Problem) -> None:
        self.b = b = KernelBuilder(f"top_k_{name}", [p.operand], p.results, p.target)
        self.rows, self.k, self.dtype = p.rows, p.k, p.operand.dtype
        self.lanes = p.target.lanes(self.dtype.bits)
        self.groups = p.rows.groups(p.target)
        self.source, self.values = word_view(b, 0, p.operand), word_view(b, 0, p.results[0], result=True)
        self.places = b.result(1, (p.results[1].size,))

    def key(self, at: Value) -> Value:
        """The ascending signed key of an element."""
        return _ASCENDING.signed(self.b, self.dtype, self.b.load(self.source, at))

    def any_larger(self, at: Value, vectors: int, least: Value) -> Value:
        """Whether any of the next vectors' elements has a larger key than ``least``."""
        b, floor = self.b, self.b.broadcast(least, self.lanes)
        found: Value | None = None
        for v in range(vectors):
            key = _ASCENDING.signed(b, self.dtype, b.vload(self.lanes, self.source, at + v * self.lanes))
            larger = b.cmp("sgt", key, floor)
            found = larger if found is None else found | larger
        assert found is not None
        return b.reduce("or", found)

    def put(self, out: Value, words: Sequence[Value], place: Value) -> None:
        """Write a result: the words of an element, and its place in the row (i32)."""
        store_words(self.b, words, self.values, out)
        self.b.store(place, self.places, out)

    def put_first(self, row: Value, sorted_: Places, side: Value) -> None:
        """Write the first k of what is sorted."""
        b = self.b
        with b.for_(0, self.k) as loop:
            word, place = sorted_.at(sorted_.base + side + loop.index)
            form = sorted_.form(word, self.dtype.word)
            self.put(row * self.k + loop.index, [fold_back(b, self.dtype, form)], b.cast(place, "i32"))

    def build(self, how: str) -> Kernel:
        """The finished kernel."""
        return self.b.build((self.groups,), f"top {self.k} of {self.rows.count} rows of {self.rows.n}: {how}")


def _by_rank(p: _Problem) -> Kernel:
    w = _Writer("rank", p)
    b = w.b
    ranks = Ranks(b, keys_of(0, w.dtype), w.rows.n)
    with b.distributed(w.rows.count, w.groups) as row:
        start = w.rows.start(b, row)
        ranks.fill([p.operand], start, 1, _ORDER)
        with b.for_(0, w.rows.n) as loop:
            to = ranks.of(loop.index)
            with b.if_(b.cmp("ult", to, w.k)):
                words = load_words(b, w.source, p.operand, start + loop.index)
                w.put(row * w.k + to, words, b.cast(loop.index, "i32"))
    return w.build("short rows, ranks counted")


def _by_radix(p: _Problem) -> Kernel:
    w = _Writer("radix", p)
    b, keys = w.b, keys_of(0, w.dtype)
    places = Places(b, keys, w.rows.n, w.groups, _ORDER)
    with b.distributed(w.rows.count, w.groups) as row:
        start = w.rows.start(b, row)
        w.put_first(row, places, places.sort_by(keys[0], b.index(0), p.operand, start, 1, True))
    return w.build("large k, radix passes")


def _by_collection(p: _Problem) -> Kernel:
    w = _Writer("collect", p)
    b, k, n, dtype, (key,) = w.b, w.k, w.rows.n, w.dtype, keys_of(0, w.dtype)
    room, block = collection(dtype, k, p.target), _block(dtype, p.target)
    places = Places(b, [key], room, w.groups, _ORDER)
    least = b.stack((1,), dtype.word)  # key of the k-th of those sorted so far
    state = b.stack((2,), "i64")  # number of elements collected; side of the memory they are on

    def collect(form: Value, place: Value, at: Value) -> None:
        places.put(form, place, places.base + at)

    def collected() -> tuple[Value, Value]:
        return b.cast(b.load(state, 0), "index"), b.cast(b.load(state, 1), "index")

    def sort_collection() -> Value:
        """Sort what is collected; the side on which it is."""
        fill, side = collected()
        with b.for_(fill, room) as pad:
            # The lowest key: what pads comes after what was collected, also after equal elements.
            collect(b.const(least_form(dtype), dtype.word), b.index(0), side + pad.index)
        return places.sorted(key, side, lambda _, at: places.word(at))

    def offer(first: Value, stop: Value, start: Value) -> None:
        """Collect what is larger than the k-th so far of the elements from ``first`` to ``stop``."""
        fill, _ = collected()
        with b.if_(b.cmp("ugt", fill, room - block)):
            side = sort_collection()
            last = places.form(places.word(places.base + side + (k - 1)), dtype.word)
            b.store(_ASCENDING.signed(b, dtype, fold_back(b, dtype, last)), least, 0)
            b.store(k, state, 0)
            b.store(b.cast(side, "i64"), state, 1)
        with b.for_(first, stop) as loop:
            word = b.load(w.source, start + loop.index)
            with b.if_(b.cmp("sgt", _ASCENDING.signed(b, dtype, word), b.load(least, 0))):
                fill, side = collected()
                collect(unfold(b, dtype, word), loop.index, side + fill)
                b.store(b.cast(fill + 1, "i64"), state, 0)

    with b.distributed(w.rows.count, w.groups) as row:
        start = w.rows.start(b, row)
        b.store(k, state, 0)
        b.store(0, state, 1)
        b.store(1 << (dtype.bits - 1), least, 0)
        with b.for_(0, k) as loop:
            collect(unfold(b, dtype, b.load(w.source, start + loop.index)), loop.index, loop.index)
        with b.for_(k, n, block) as loop:
            stop = b.smin(loop.index + block, b.index(n))
            with b.if_(b.cmp("eq", stop - loop.index, block), ["i1"]) as maybe:
                maybe.yield_(w.any_larger(start + loop.index, 4, b.load(least, 0)))
                maybe.else_()
                maybe.yield_(b.const(1, "i1"))
            with b.if_(maybe.results[0]):
                offer(loop.index, stop, start)
        w.put_first(row, places, sort_collection())
    return w.build("larger elements collected and sorted")


def _by_insertion(p: _Problem) -> Kernel:
    w = _Writer("insert", p)
    b, k, n = w.b, w.k, w.rows.n
    best, where = b.stack((k,), w.dtype.word), b.stack((k,), "i32")
    block = _block(w.dtype, p.target)
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
        key = w.key(start + i)
        with b.if_(b.cmp("sgt", key, b.load(best, k - 1))):
            insert(key, i, b.index(k))

    with b.distributed(w.rows.count, w.groups) as row:
        start = w.rows.start(b, row)
        with b.for_(0, k) as first:
            insert(w.key(start + first.index), first.index, first.index)
        with b.for_(0, blocks) as loop:
            begin = loop.index * block + k
            with b.if_(w.any_larger(start + begin, 4, b.load(best, k - 1))):
                with b.for_(begin, begin + block, w.lanes) as part:
                    with b.if_(w.any_larger(start + part.index, 1, b.load(best, k - 1))):
                        with b.for_(part.index, part.index + w.lanes) as one:
                            offer(one.index, start)
        with b.for_(k + blocks * block, n) as tail:
            offer(tail.index, start)
        with b.for_(0, k) as loop:
            place = b.load(where, loop.index)
            words = load_words(b, w.source, p.operand, start + b.cast(place, "index"))
            w.put(row * k + loop.index, words, place)
    return w.build("one pass with insertion")
