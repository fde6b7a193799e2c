"""StableHLO lowering of linear algebra: the choice between a kernel, a call of LAPACK and a form.

Small matrices have kernels (`quire.backends.kernels.linalg`). Larger ones are a call of LAPACK where compiled code can call
Python (the CPU); elsewhere they are made of ordinary operations (`linalg_forms`), for those that have such a form. What was
chosen is printed above the module (`dumpir --stage stablehlo`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from quire.backends.reference.rule_call import RuleCall
from quire.ir.avals import ShapedArray
from quire.ir.primitive import Primitive
from quire.ir.primitives import linalg as la

from ..kernels import KernelTarget, NoKernel
from ..kernels.core.kernel import Kernel
from ..kernels.linalg import linalg_kernel
from . import linalg_forms
from .host_calls import emit_host_call
from .kernel_calls import attempt, call
from .loop_kernels import expander, straight_as_kernel
from .lowering import FORMULAS, Ctx, lowering, traced_rule

#: Up to which size matrices have kernels: as measured, larger ones are done sooner by LAPACK.
KERNELS_UP_TO = {
    la.cholesky_p: 64, la.lu_p: 64, la.triangular_solve_p: 64, la.lu_pivots_to_permutation_p: 64, la.geqrf_p: 32,
    la.householder_product_p: 32, la.qr_p: 32, la.eigh_p: 16, la.svd_p: 16,
}  # fmt: skip


def _kernel(ctx: Ctx, p: Primitive, params: Any, target: KernelTarget) -> Kernel:
    largest = max(max(a.shape[-2:]) for a in ctx.avals_in)
    if largest > KERNELS_UP_TO.get(p, 0):
        raise NoKernel(f"LAPACK is quicker for sizes above {KERNELS_UP_TO[p]}" if p in KERNELS_UP_TO else p.name)
    return linalg_kernel(p, params, ctx.avals_in, ctx.avals_out, target, expander(ctx.target))


def _is_small(p: Primitive, avals: Sequence[ShapedArray]) -> bool:
    return p is la.eig_p and max(avals[0].shape[-2:]) <= linalg_forms.EIG_UP_TO and avals[0].size > 0


_FORMS = {p: traced_rule(form) for p, form in linalg_forms.FORMS.items()}


def _rule(p: Primitive) -> Callable[..., Any]:
    def rule(ctx: Ctx, *operands: Any, **params: Any) -> Any:
        kernel = attempt(ctx, lambda target: _kernel(ctx, p, params, target))
        if not isinstance(kernel, NoKernel):
            ctx.chose(f"kernel: {kernel.reason}")
            results = call(ctx, kernel, operands)
            return results if p.multiple_results else results[0]
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
