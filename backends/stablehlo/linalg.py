"""StableHLO lowering of linear algebra.

Where compiled code can call Python (the CPU), the operation is a call of LAPACK; elsewhere it is made of ordinary
operations (`linalg_forms`), for those that have such a form.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from quire.backends.reference.rule_call import RuleCall
from quire.ir.avals import ShapedArray
from quire.ir.primitive import Primitive
from quire.ir.primitives import linalg as la

from ..kernels import NoKernel
from . import linalg_forms
from .host_calls import emit_host_call
from .loop_kernels import straight_as_kernel
from .lowering import FORMULAS, Ctx, lowering, traced_rule

_SMALL = {
    la.cholesky_p: linalg_forms.UNROLLED, la.triangular_solve_p: linalg_forms.UNROLLED, la.lu_p: linalg_forms.UNROLLED,
    la.eig_p: linalg_forms.EIG_UP_TO,
}  # fmt: skip
"""Up to which size the form, which is written out and fused then, is quicker than a call of LAPACK."""


def _is_small(p: Primitive, avals: Sequence[ShapedArray]) -> bool:
    if p is la.triangular_solve_p and 1 in avals[1].shape[-2:]:
        return False  # IREE fails to translate the form for batches of single right-hand sides
    return max(avals[0].shape[-2:]) <= _SMALL.get(p, -1) and avals[0].size > 0


_FORMS = {p: traced_rule(form) for p, form in linalg_forms.FORMS.items()}


def _rule(p: Primitive) -> Callable[..., Any]:
    def rule(ctx: Ctx, *operands: Any, **params: Any) -> Any:
        if not ctx.target.host_functions or _is_small(p, ctx.avals_in):
            form = _FORMS.get(p)
            if form is None or p is la.eig_p and not _is_small(p, ctx.avals_in):
                raise ctx.unsupported(p.name, "it needs LAPACK, which only the cpu target calls")
            if p is la.eig_p and _is_small(p, ctx.avals_in):
                jaxpr = FORMULAS[form](ctx.target, p, ctx.avals_in, params)
                results = straight_as_kernel(ctx, jaxpr, operands) if jaxpr is not None else None
                if results is not None and not isinstance(results, NoKernel):
                    return results if p.multiple_results else results[0]
            return form(ctx, *operands, **params)
        function = RuleCall(p, tuple(params.items()), tuple(a.strong() for a in ctx.avals_out))
        return emit_host_call(ctx, function, operands, ctx.avals_out, share=True, borrow=True)

    return rule


for _p in (
    la.cholesky_p, la.triangular_solve_p, la.lu_p, la.lu_pivots_to_permutation_p, la.qr_p, la.geqrf_p,
    la.householder_product_p, la.eigh_p, la.eig_p, la.svd_p, la.schur_p, la.hessenberg_p, la.tridiagonal_p,
    la.tridiagonal_solve_p,
):  # fmt: skip
    lowering.add(_p, _rule(_p))
