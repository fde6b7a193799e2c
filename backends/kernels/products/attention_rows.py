"""What attention is made of: the cluster between its products, and the forms of these that kernels take."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from quire.ir.jaxpr import Jaxpr, Var

from ..core.dtypes import DType, dtype_of
from ..core.errors import NoKernel
from ..core.kernel import Spec
from ..elements.operations import Expand
from .matrices import Product


@dataclass(frozen=True)
class AttentionRows:
    """The cluster between the products: its inputs of the numbers ``products`` are first products (``scores``), others
    are operands; the output of the number ``summed`` is what the second product sums over, and those of the numbers
    ``stored`` are results."""

    jaxpr: Jaxpr
    products: tuple[int, ...]
    summed: int
    stored: tuple[int, ...]
    expand: Expand

    @property
    def scores(self) -> list[Var]:
        """The first products."""
        return [self.jaxpr.invars[i] for i in self.products]

    @property
    def others(self) -> list[Var]:
        """The inputs that are operands of the kernel, after those of the products."""
        return [v for i, v in enumerate(self.jaxpr.invars) if i not in self.products]

    @property
    def results(self) -> list[Var]:
        """The rows that are stored: the kernel's first results."""
        return [self.output(i) for i in self.stored]

    def output(self, number: int) -> Var:
        """The output of a number."""
        v = self.jaxpr.outvars[number]
        if not isinstance(v, Var):
            raise NoKernel("rows that are a literal")
        return v


def check(products: Sequence[Product], rows: AttentionRows, total: DType, specs: Sequence[Spec]) -> None:
    """Raise :class:`NoKernel` unless kernels take products of this form; arguments as of `attention.attention`."""
    *firsts, second = products
    *operands, out = specs
    space = rows.scores[0].aval.shape
    queries, keys = space[-2:]
    for scores in (dtype_of(v.aval.dtype) for v in rows.scores):
        if total.kind != "float" or total.bits < 32 or scores != total or out.dtype != total:
            raise NoKernel(f"sums in {total.name} of {scores.name} scores and {out.dtype.name} results")
    result = dtype_of(rows.output(rows.summed).aval.dtype)
    if result.kind != "float" or any(s.dtype.kind != "float" or s.dtype.bits > total.bits for s in operands):
        raise NoKernel("operands of other kinds than the sums")
    batches = math.prod(space[:-2])
    forms = [(p.m, p.n, p.outer, p.batches) for p in firsts]
    whole = all(form == (queries, keys, (), batches) for form in forms)
    if not whole or (second.m, second.k, second.outer, second.batches) != (queries, keys, (), batches):
        products_ = " and ".join(map(str, (*firsts, second)))
        raise NoKernel(f"products {products_} of other forms than rows by columns")
    if second.out.column != 1:
        raise NoKernel("a result that is not stored by rows")
