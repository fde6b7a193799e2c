"""Stable sort of N operands along one dimension by the first ``num_keys`` of them, in JAX's order.

Rows (all other dimensions) are spread over workgroups; within a row:

- up to :func:`rank_max` elements: the rank of each element is counted with vectors, and every operand is
  stored at its rank;
- one operand of one part: radix passes move the values themselves. The digit is taken from the canonical key
  while the original bits travel, so -0, 0 and NaN payloads come out as they went in, in stable order;
- one key of up to 32 bits: the same, with the element's place in the lower half of a 64-bit word;
- else: for each key from the last to the first, radix passes over (key, place).

Other operands are gathered by the place at the end. Cost: O(n) passes for any input.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..core.builder import KernelBuilder
from ..core.dtypes import DType
from ..core.kernel import Kernel, Spec
from ..core.shapes import Rows
from ..core.target import KernelTarget
from ..core.values import Buffer, Value, vector
from ..elements.keys import Key, fold_back, merged, ordered, unfold
from .radix_passes import Digits, Lane, clear, count, count_buffer, passes

#: The longest rows sorted by counting ranks (n*n/lanes compares; radix costs some 2 us a row in any case).
RANK_MAX = 128


@dataclass(frozen=True)
class Order:
    """Which way keys go; sort makes -0 and 0 equal and NaNs too, top_k takes IEEE's total order."""

    descending: bool = False
    total: bool = False

    def signed(self, b: KernelBuilder, dtype: DType, word: Value) -> Value:
        """The key of an element's bits under signed comparison."""
        return ordered(b, dtype, word, signed=True, descending=self.descending, total=self.total)

    def of_form(self, b: KernelBuilder, dtype: DType, form: Value) -> Value:
        """The unsigned key of an unfolded element."""
        return merged(b, dtype, form, descending=self.descending, total=self.total)


def sort(operands: Sequence[Spec], rows: Rows, keys: Sequence[Key], target: KernelTarget, order: Order) -> Kernel:
    """The kernel that sorts the rows of ``operands`` by some keys; see `quire.backends.kernels.ordering.choice`."""
    if rows.n <= rank_max(keys, target):
        return _rank_sort(operands, rows, keys, target, order)
    if len(operands) == 1 and len(keys) == 1:
        return _radix_values(operands[0], rows, keys[0], target, order)
    return _radix_places(operands, rows, keys, target, order)


def word_view(b: KernelBuilder, i: int, spec: Spec, *, result: bool = False) -> Buffer:
    """All words of an operand or result, flat."""
    view = b.result if result else b.operand
    return view(i, (spec.size * spec.dtype.words,), spec.dtype.word)


def load_words(b: KernelBuilder, memory: Buffer, spec: Spec, at: Value) -> list[Value]:
    """The words of the element at flat place ``at``."""
    words = spec.dtype.words
    return [b.load(memory, at * words + w) for w in range(words)]


def store_words(b: KernelBuilder, values: Sequence[Value], memory: Buffer, at: Value) -> None:
    """Write the words of the element at flat place ``at``."""
    for w, value in enumerate(values):
        b.store(value, memory, at * len(values) + w)


def load_key(b: KernelBuilder, spec: Spec, key: Key, at: Value) -> Value:
    """The bits of one key of the element at flat place ``at``."""
    memory = b.operand(key.operand, (spec.size * spec.dtype.parts,), key.word)
    return b.load(memory, at * spec.dtype.parts + key.part)


# -- up to rank_max elements ---------------------------------------------------------------------------------


def rank_max(keys: Sequence[Key], target: KernelTarget) -> int:
    """The longest rows whose ranks are counted: up to 16 vectors, which are unrolled."""
    return min(RANK_MAX, 16 * target.lanes(_rank_bits(keys)))


def _rank_bits(keys: Sequence[Key]) -> int:
    """The common width in which the keys are compared."""
    return max(32, *(key.bits for key in keys))


class Ranks:
    """The signed keys of one short row on the stack, of one width, padded to whole vectors."""

    def __init__(self, b: KernelBuilder, keys: Sequence[Key], n: int) -> None:
        bits = _rank_bits(keys)
        self.b, self.keys, self.n, self.lanes = b, keys, n, b.target.lanes(bits)
        padded = -(-n // self.lanes) * self.lanes
        self.arrays = [b.stack((padded,), f"i{bits}") for _ in keys]

    def fill(self, operands: Sequence[Spec], start: Value, inner: int, order: Order) -> None:
        """Load the keys of the row at ``start``, whose elements are ``inner`` apart."""
        b = self.b
        for array, key in zip(self.arrays, self.keys):
            with b.for_(0, self.n) as loop:
                word = load_key(b, operands[key.operand], key, start + loop.index * inner)
                value = order.signed(b, key.dtype, word)
                b.store(b.cast(value, array.elem), array, loop.index)
            for i in range(self.n, array.shape[0]):
                b.store((1 << (int(array.elem[1:]) - 1)) - 1, array, i)  # never before a real element

    def of(self, i: Value) -> Value:
        """How many elements of the row come before element ``i``, by key and then by place."""
        b, lanes, elem = self.b, self.lanes, self.arrays[0].elem
        mine = [b.broadcast(b.load(array, i), lanes) for array in self.arrays]
        place = b.broadcast(b.cast(i, elem), lanes)
        before = b.const(0, vector(lanes, elem))
        for j in range(0, self.arrays[0].shape[0], lanes):
            less = b.cmp("slt", b.const_vector(range(j, j + lanes), elem), place)
            for array, key in reversed(list(zip(self.arrays, mine))):
                other = b.vload(lanes, array, j)
                less = b.cmp("slt", other, key) | (b.cmp("eq", other, key) & less)
            before = before + b.cast(less, elem, signed=False)
        return b.cast(b.reduce("add", before), "index")


def _rank_sort(operands: Sequence[Spec], rows: Rows, keys: Sequence[Key], target: KernelTarget, order: Order) -> Kernel:
    b = KernelBuilder("sort_rank", operands, operands, target)
    groups = rows.groups(target)
    sources = [word_view(b, i, spec) for i, spec in enumerate(operands)]
    targets = [word_view(b, i, spec, result=True) for i, spec in enumerate(operands)]
    ranks = Ranks(b, keys, rows.n)
    with b.distributed(rows.count, groups) as row:
        start = rows.start(b, row)
        ranks.fill(operands, start, rows.inner, order)
        with b.for_(0, rows.n) as loop:
            to = start + ranks.of(loop.index) * rows.inner
            at = start + loop.index * rows.inner
            for spec, source, destination in zip(operands, sources, targets):
                store_words(b, load_words(b, source, spec, at), destination, to)
    return b.build((groups,), f"sort of {rows.count} rows of {rows.n}: short rows, ranks counted with vectors")


# -- radix ---------------------------------------------------------------------------------------------------


def _radix_values(spec: Spec, rows: Rows, key: Key, target: KernelTarget, order: Order) -> Kernel:
    groups = rows.groups(target)
    b = KernelBuilder("sort_radix", [spec], [spec], target)
    source, destination = word_view(b, 0, spec), word_view(b, 0, spec, result=True)
    digits = Digits.of(key.bits, rows.n)
    counts = count_buffer(b, [digits])
    lane = Lane.of(b, f"u{key.bits}", rows.n, groups)

    def key_of(word: Value) -> Value:
        return order.of_form(b, key.dtype, word)

    with b.distributed(rows.count, groups) as row:
        start = rows.start(b, row)
        clear(b, counts, digits)
        with b.for_(0, rows.n) as loop:
            word = unfold(b, key.dtype, b.load(source, start + loop.index * rows.inner))
            b.store(word, lane.memory, lane.base + loop.index)
            count(b, counts, key_of(word), digits)
        side = passes(b, [lane], rows.n, counts, digits, key_of, b.index(0))
        vectors = target.lanes(key.bits) if rows.inner == 1 else 1
        whole = rows.n // vectors * vectors
        if vectors > 1:
            with b.for_(0, whole, vectors) as loop:
                words = b.vload(vectors, lane.memory, lane.base + side + loop.index)
                b.vstore(fold_back(b, key.dtype, words), destination, start + loop.index)
        else:
            whole = 0
        with b.for_(whole, rows.n) as loop:
            word = b.load(lane.memory, lane.base + side + loop.index)
            b.store(fold_back(b, key.dtype, word), destination, start + loop.index * rows.inner)
    return b.build((groups,), f"sort of {rows.count} rows of {rows.n}: radix, {digits.passes} passes on values")


class Places:
    """The places of n elements beside their unfolded keys, in memory of each workgroup's own: what radix passes sort.

    One key of 32 bits or fewer and its place are one word (``packed``); else each place is in an array of its own.
    """

    def __init__(self, b: KernelBuilder, keys: Sequence[Key], n: int, groups: int, order: Order) -> None:
        self.b, self.n, self.order = b, n, order
        self.packed = len(keys) == 1 and keys[0].bits <= 32
        self.digits = {key: Digits.of(key.bits, n) for key in keys}
        self.counts = count_buffer(b, list(self.digits.values()))
        self.lanes = [Lane.of(b, word, n, groups) for word in ("u64", "u32")[: 1 if self.packed else 2]]

    @property
    def base(self) -> Value:
        """Where this workgroup's memory begins."""
        return self.lanes[0].base

    def put(self, form: Value, place: Value | None, at: Value) -> Value:
        """Write a key and its place (None: it is there already); the word that the passes sort."""
        b = self.b
        word = b.cast(form, "i64", signed=False)
        if self.packed:
            assert place is not None
            word = (word << 32) | b.cast(place, "i64")
        elif place is not None:
            b.store(b.cast(place, "i32"), self.lanes[1].memory, at)
        b.store(word, self.lanes[0].memory, at)
        return word

    def form(self, word: Value, elem: str) -> Value:
        """The key in a word."""
        return self.b.cast(word >> 32 if self.packed else word, elem)

    def word(self, at: Value) -> Value:
        """The word at a place of the memory."""
        return self.b.load(self.lanes[0].memory, at)

    def at(self, at: Value) -> tuple[Value, Value]:
        """The word at a place of the memory, and the place, as an index, that is there."""
        word = self.word(at)
        return word, self._place(self.b.cast(word, "i32") if self.packed else self.b.load(self.lanes[1].memory, at))

    def _place(self, number: Value) -> Value:
        return self.b.cast(number, "index", signed=False)

    def sorted(self, key: Key, side: Value, each: Callable[[Value, Value], Value]) -> Value:
        """Bring what is on a side into stable order by a key; ``each(i, at)`` gives the word of element i. The new side."""
        b, digits = self.b, self.digits[key]

        def key_of(word: Value) -> Value:
            return self.order.of_form(b, key.dtype, self.form(word, key.word))

        clear(b, self.counts, digits)
        with b.for_(0, self.n) as loop:
            count(b, self.counts, key_of(each(loop.index, self.base + side + loop.index)), digits)
        return passes(b, self.lanes, self.n, self.counts, digits, key_of, side)

    def sort_by(self, key: Key, side: Value, operand: Spec, start: Value, inner: int, first: bool) -> Value:
        """Bring the places of a row (in their order when ``first``) into stable order by one key of it; the new side."""

        def each(i: Value, at: Value) -> Value:
            place = i if first else self._place(self.b.load(self.lanes[1].memory, at))
            bits = load_key(self.b, operand, key, start + place * inner)
            return self.put(unfold(self.b, key.dtype, bits), place if first else None, at)

        return self.sorted(key, side, each)


def _radix_places(
    operands: Sequence[Spec], rows: Rows, keys: Sequence[Key], target: KernelTarget, order: Order
) -> Kernel:
    groups, n = rows.groups(target), rows.n
    b = KernelBuilder("sort_places", operands, operands, target)
    sources = [word_view(b, i, spec) for i, spec in enumerate(operands)]
    targets = [word_view(b, i, spec, result=True) for i, spec in enumerate(operands)]
    places = Places(b, keys, n, groups, order)
    with b.distributed(rows.count, groups) as row:
        start = rows.start(b, row)
        side: Value = b.index(0)
        for key in reversed(keys):
            side = places.sort_by(key, side, operands[key.operand], start, rows.inner, key is keys[-1])
        direct = keys[0].dtype.parts == 1  # the last key sorted by is still there, in order: no gather for it
        with b.for_(0, n) as loop:
            head, place = places.at(places.base + side + loop.index)
            to = start + loop.index * rows.inner
            at = start + place * rows.inner
            for i, spec in enumerate(operands):
                if i == 0 and direct:
                    values = [fold_back(b, spec.dtype, places.form(head, spec.dtype.word))]
                else:
                    values = load_words(b, sources[i], spec, at)
                store_words(b, values, targets[i], to)
    how = "key and place in one word" if places.packed else f"{len(keys)} keys with places"
    return b.build((groups,), f"sort of {rows.count} rows of {n}: radix, {how}")
