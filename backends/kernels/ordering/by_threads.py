"""Sort and top_k on GPUs: a bitonic network for rows of up to some ten thousand elements, radix passes for longer ones."""

from __future__ import annotations

from collections.abc import Sequence

from ..core.builder import KernelBuilder
from ..core.kernel import Kernel, KernelChain, Spec
from ..core.shapes import Rows
from ..core.target import KernelTarget
from ..core.values import Value
from ..elements.keys import Key, keys_of
from . import bitonic, radix_by_threads
from .radix_sort import Order, load_words, store_words, word_view
from .rows_by_threads import Finish, Sorting

#: The shortest rows that are sorted by radix passes, for each 32 bits of their keys: the network's steps grow with the
#: square of the logarithm of the length, the passes with the bits.
RADIX_LENGTH = 1 << 16


def sort(
    operands: Sequence[Spec], rows: Rows, keys: Sequence[Key], target: KernelTarget, order: Order
) -> Kernel | KernelChain:
    """The kernels that sort the rows of ``operands`` by some keys; see `quire.backends.kernels.ordering.choice`."""
    sorting = Sorting(tuple(operands), rows, tuple(keys), order, target)

    def finish(b: KernelBuilder, row: Value, i: Value, place: Value) -> None:
        start = rows.start(b, row)
        for o, spec in enumerate(operands):
            source, to = word_view(b, o, spec), word_view(b, o, spec, result=True)
            values = load_words(b, source, spec, start + place * rows.inner)
            store_words(b, values, to, start + i * rows.inner)

    return _run(sorting, list(operands), rows.n, finish, f"sort of {rows.count} rows of {rows.n}")


def top_k(operand: Spec, results: Sequence[Spec], rows: Rows, k: int, target: KernelTarget) -> Kernel | KernelChain:
    """The kernels of the k largest of each row; see `quire.backends.kernels.ordering.choice`."""
    return _with_places(operand, results, rows, k, target, Order(descending=True, total=True), f"top {k}")


def sorted_with_places(operand: Spec, target: KernelTarget) -> Kernel | KernelChain:
    """The kernels of a vector's stable sort. The results: the numbers, and where each was (i32)."""
    results = [operand, Spec.of(operand.shape, "i32")]
    return _with_places(
        operand, results, Rows.of(operand.shape, 0), operand.size, target, Order(False), "sort with places"
    )


def _with_places(
    operand: Spec, results: Sequence[Spec], rows: Rows, k: int, target: KernelTarget, order: Order, what: str
) -> Kernel | KernelChain:
    """The kernels of the first k in this order of each row, and of their places."""
    sorting = Sorting((operand,), rows, tuple(keys_of(0, operand.dtype)), order, target)

    def finish(b: KernelBuilder, row: Value, i: Value, place: Value) -> None:
        values = load_words(b, word_view(b, 0, operand), operand, row * rows.n + place)
        store_words(b, values, word_view(b, 0, results[0], result=True), row * k + i)
        b.store(b.cast(place, "i32"), b.result(1, (results[1].size,)), row * k + i)

    return _run(sorting, list(results), k, finish, f"{what} of {rows.count} rows of {rows.n}")


def _run(s: Sorting, results: Sequence[Spec], count: int, finish: Finish, what: str) -> Kernel | KernelChain:
    words = -(-sum(key.bits for key in s.keys) // 32)
    form = radix_by_threads if s.rows.n >= RADIX_LENGTH * words else bitonic
    return form.run(s, results, count, finish, what)
