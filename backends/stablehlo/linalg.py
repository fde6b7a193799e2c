"""StableHLO lowering of linear algebra.

Where compiled code can call Python (the CPU), the operation is a call of LAPACK; elsewhere it is made of ordinary
operations (`linalg_forms`), for those that have such a form.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from quire.backends.reference.engine import evaluate
from quire.ir.avals import ShapedArray
from quire.ir.primitive import Primitive
from quire.ir.primitives import linalg as la

from . import linalg_forms
from .host_calls import emit_host_call
from .lowering import Ctx, lowering, traced_rule


@lru_cache(maxsize=512)
def _host_function(
    p: Primitive, params: tuple[tuple[str, Any], ...], out_avals: tuple[ShapedArray, ...]
) -> Callable[..., Any]:
    """The reference rule as a function of arrays; the same object for the same operation, so that calls share it."""
    keywords: Mapping[str, Any] = dict(params)

    def call(*operands: Any) -> Any:
        return evaluate(p, operands, keywords, out_avals)

    call.__name__ = p.name
    return call


_FORMS = {p: traced_rule(form) for p, form in linalg_forms.FORMS.items()}


def _rule(p: Primitive) -> Callable[..., Any]:
    def rule(ctx: Ctx, *operands: Any, **params: Any) -> Any:
        if not ctx.target.host_functions:
            form = _FORMS.get(p)
            if form is None:
                raise ctx.unsupported(p.name, "it needs LAPACK, which only the cpu target calls")
            return form(ctx, *operands, **params)
        function = _host_function(p, tuple(params.items()), tuple(a.strong() for a in ctx.avals_out))
        return emit_host_call(ctx, function, operands, ctx.avals_out, share=True)

    return rule


for _p in (
    la.cholesky_p, la.triangular_solve_p, la.lu_p, la.lu_pivots_to_permutation_p, la.qr_p, la.geqrf_p,
    la.householder_product_p, la.eigh_p, la.eig_p, la.svd_p, la.schur_p, la.hessenberg_p, la.tridiagonal_p,
    la.tridiagonal_solve_p,
):  # fmt: skip
    lowering.add(_p, _rule(_p))
