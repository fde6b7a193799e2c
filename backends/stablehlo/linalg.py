"""StableHLO lowering of linear algebra: the choice between a kernel, a call of LAPACK and a form.

Small matrices have kernels (`quire.backends.kernels.linalg`). Larger ones are a call of LAPACK where compiled code can call
Python (the CPU); elsewhere they are made of ordinary operations (`linalg_forms`), for those that have such a form. What was
chosen is printed above the module (`dumpir --stage stablehlo`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from quire.backends.reference.rule_call import RuleCall
from quire.ir.avals import ShapedArray
from quire.ir.primitive import Primitive
from quire.ir.primitives import linalg as la

from ..kernels import Kernel, KernelTarget, NoKernel
from ..kernels.linalg import check_worth, linalg_kernel
from . import linalg_forms
from .host_calls import emit_host_call
from .kernel_calls import attempt, call
from .loop_kernels import expander, straight_as_kernel
from .lowering import FORMULAS, Ctx, lowering, traced_rule


def _is_small(p: Primitive, avals: Sequence[ShapedArray]) -> bool:
    return p is la.eig_p and max(avals[0].shape[-2:]) <= linalg_forms.EIG_UP_TO and avals[0].size > 0


def _has_signs(ctx: Ctx, p: Primitive, params: Mapping[str, Any]) -> bool:
    """Whether kernels and LAPACK may choose other signs, which users see: in samples of a normal distribution, say."""
    vectors = {0} if p is la.eigh_p else {1, 2} if p is la.svd_p and params["compute_uv"] else set[int]()
    return not vectors <= {*ctx.unread}


_FORMS = {p: traced_rule(form) for p, form in linalg_forms.FORMS.items()}


def _rule(p: Primitive) -> Callable[..., Any]:
    def rule(ctx: Ctx, *operands: Any, **params: Any) -> Any:
        def make(target: KernelTarget) -> Kernel:
            if ctx.target.host_functions and not ctx.in_loop:
                if _has_signs(ctx, p, params):
                    raise NoKernel("outside of loops the signs of its vectors are LAPACK's")
                check_worth(p, ctx.avals_in, ctx.avals_out, target)
            return linalg_kernel(p, params, ctx.avals_in, ctx.avals_out, target, expander(ctx.target))

        kernel = attempt(ctx, make)
        if not isinstance(kernel, NoKernel):
            ctx.chose(f"kernel: {kernel.reason}")
            results = call(ctx, kernel, operands)
            return results if p.multiple_results else results[0]
        small = _is_small(p, ctx.avals_in)
        if ctx.target.host_functions and not small:
            ctx.chose(f"LAPACK: {kernel.reason}")
            results = tuple(a.strong() for a in ctx.avals_out)
            function = RuleCall(p, tuple(params.items()), results, frozenset(ctx.unread))
            return emit_host_call(ctx, function, operands, ctx.avals_out, share=True, borrow=True)
        form = _FORMS.get(p)
        if form is None or p is la.eig_p and not small:
            raise ctx.unsupported(p.name, "it needs LAPACK, which only the cpu target calls")
        ctx.chose(f"ordinary operations: {kernel.reason}")
        if small:
            jaxpr = FORMULAS[form](ctx.target, p, ctx.avals_in, params)
            results = straight_as_kernel(ctx, jaxpr, operands) if jaxpr is not None else None
            if results is not None and not isinstance(results, NoKernel):
                return results if p.multiple_results else results[0]
        return form(ctx, *operands, **params)

    return rule


for _p in (
    la.cholesky_p, la.triangular_solve_p, la.lu_p, la.lu_pivots_to_permutation_p, la.qr_p, la.geqrf_p,
    la.householder_product_p, la.eigh_p, la.eig_p, la.svd_p, la.schur_p, la.hessenberg_p, la.tridiagonal_p,
    la.tridiagonal_solve_p,
):  # fmt: skip
    lowering.add(_p, _rule(_p))
