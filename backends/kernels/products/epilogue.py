"""What is computed of a contraction's result, element by element, before it is stored.

The sums of a tile are put down in memory of the workgroup's own, and a loop over its rows computes the results from
there: one short piece of text for any epilogue and any tile, and no registers that the inner loop would miss. Each
element of the results is computed once, and what else is read is read at its place right before.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from quire.ir.dtypes import DType as IrDType
from quire.ir.jaxpr import Jaxpr

from ..core.builder import STACK_BYTES, KernelBuilder
from ..core.dtypes import DType
from ..core.errors import NoKernel
from ..core.kernel import Spec
from ..core.values import Operand, Value
from ..elements.operations import Expand
from ..fused.cluster import ReductionCluster, Space
from ..fused.values import Frame, Values


@dataclass(frozen=True)
class Epilogue:
    """Elementwise equations on a contraction's result.

    The first input of ``jaxpr`` is that result, in its own dtype and shape; the others are operands of the kernel
    after the contraction's. The outputs, all of the result's shape, are the kernel's results.
    """

    jaxpr: Jaxpr
    expand: Expand

    @property
    def operands(self) -> list[Spec]:
        """The operands beside the contraction's."""
        return [Spec.of(v.aval.shape, v.aval.dtype) for v in self.jaxpr.invars[1:]]

    @property
    def results(self) -> list[Spec]:
        """The kernel's results."""
        return [Spec.of(v.aval.shape, v.aval.dtype) for v in self.jaxpr.outvars]

    def holding(self, total: DType) -> int | None:
        """The number of a result in whose memory sums of this dtype can be continued."""
        return next((i for i, spec in enumerate(self.results) if spec.dtype == total), None)

    def __str__(self) -> str:
        names = dict.fromkeys(e.primitive.name for e in self.jaxpr.eqns if e.primitive.name != "broadcast_in_dim")
        return (
            f"epilogue of {len(self.jaxpr.eqns)} equations ({', '.join(list(names)[:6])}{', ...' * (len(names) > 6)})"
        )


class EpilogueWriter:
    """Writes the results of tiles of ``rows`` x ``width`` sums, for an array of ``columns`` neighbouring elements a row.

    Raises :class:`NoKernel` while it is made, or by `store`, where there is no kernel of the epilogue.
    """

    def __init__(
        self, b: KernelBuilder, epilogue: Epilogue, total: DType, columns: int, tile: tuple[int, int], groups: int
    ) -> None:
        jaxpr = epilogue.jaxpr
        self.b, self.total = b, total
        self.seed = jaxpr.invars[0]
        shape = self.seed.aval.shape
        self.columns = columns
        self.emitter = Values(
            ReductionCluster(jaxpr, Space(shape, _first_column(shape, columns), len(shape))), b, epilogue.expand,
            {v: 2 + i for i, v in enumerate(jaxpr.invars[1:])},
        )  # fmt: skip
        self.rows, self.width = tile
        self.groups = groups
        size = self.rows * self.width
        if b.stack_bytes + size * total.nbytes <= STACK_BYTES:
            self.memory, self.at = b.stack((size,), total.scalar), 0
        else:  # a line of the cache apart
            self.at = size + 64
            self.memory = b.more_scratch(Spec.of((groups * self.at,), total))

    def store(
        self, sums: Sequence[Value], lanes: int, row: Value, step: int, column: Value, skipped: tuple[Operand, Operand]
    ) -> None:
        """Compute and store the results of a tile's sums, vectors of them row by row.

        ``row`` is the first one's number in the array of (rows, columns), ``step`` the distance of neighbours, and
        ``column`` the first column. The first ``skipped`` rows and columns are those of another tile, and so are
        columns beyond the array.
        """
        b = self.b
        base = self.at and b.workgroup_id() * self.at
        for i, x in enumerate(sums):
            b.vstore(x, self.memory, base + b.index(i * lanes))
        while lanes > max(2, self.columns):
            lanes //= 2
        first, left = skipped
        stop: Operand = self.width
        whole: Operand = stop
        if self.columns % self.width:
            stop = b.smin(b.index(self.columns) - column, self.width)
            whole = left + b.udiv(stop - left, lanes) * lanes
        with b.for_(first, self.rows) as r:
            line = base + r.index * self.width
            number = row + r.index * step
            with b.for_(left, whole, lanes) as c:
                self._element(line + c.index, number, column + c.index, lanes)
            if self.columns % lanes:
                with b.for_(whole, stop) as c:
                    self._element(line + c.index, number, column + c.index, 0)

    def _element(self, place: Value, row: Value, column: Value, width: int) -> None:
        emitter, b = self.emitter, self.b
        x = b.vload(width, self.memory, place) if width else b.load(self.memory, place)
        at = Frame(row, column, 0, width, 0)
        emitter.rows = {}
        wide: IrDType = self.total.numpy()
        at.values[self.seed] = emitter.elements.convert(x, wide, self.seed.aval.dtype)
        emitter.store_full(at)


def _first_column(shape: Sequence[int], columns: int) -> int:
    """The first of the dimensions that make the columns."""
    for first in range(len(shape), -1, -1):
        if math.prod(shape[first:]) == columns:
            return first
    raise NoKernel(f"columns of {columns} elements, which are no dimensions of the result")
