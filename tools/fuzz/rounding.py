"""Which differences rounding explains.

Results are close where they agree to some roundings of the dtype. Where they are not, the program runs some times by the
reference with each rounded result moved by a rounding at random: as far as that moves an element, rounding may have
moved it in the compiled program. Moving also decides the other way in comparisons of what is nearly equal, so that
results which differ by a choice are explained too, and those that nothing moves are not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as onp

from quire.backends import reference
from quire.backends.reference.engine import observing
from quire.ir import dtypes
from quire.ir.jaxpr import ClosedJaxpr, Eqn

Array = onp.ndarray[Any, Any]

#: Equal to that many units in the last place of the largest element: not looked at further.
CLOSE = 24
SAMPLES = 8
#: How far beyond what the samples show a difference may go.
MARGIN = 24
#: Primitives that move elements or choose among them: exact.
EXACT = frozenset(
    "abs neg sign floor ceil round max min clamp copy convert_element_type select_n reshape transpose broadcast_in_dim "
    "slice pad concatenate rev squeeze expand_dims gather scatter dynamic_slice dynamic_update_slice sort iota real imag "
    "complex conj reduce_max reduce_min argmax argmin cummax cummin reduce_precision bitcast_convert_type copy_p "
    "scatter_max scatter_min stop_gradient optimization_barrier reduce_window_max reduce_window_min top_k jit checkpoint "
    "remat cond while scan custom_jvp_call custom_vjp_call split squeeze nextafter is_finite".split()
)
#: Primitives that add up many elements: their operands are moved too, because the order of the sum is free.
SUMS = frozenset(
    "reduce_sum reduce_prod cumsum cumprod cumlogsumexp dot_general conv_general_dilated fft reduce_window_sum "
    "reduce_window scatter_add scatter_mul reduce cholesky triangular_solve lu qr eigh svd solve".split()
)


def _wide(x: Array) -> Array:
    return x.astype(onp.complex128 if dtypes.is_complex(x.dtype) else onp.float64)


def _unit(dtype: Any) -> float:
    return float(ml_dtypes.finfo(dtype).eps)


def too_far(got: Array, want: Array, units: float = CLOSE) -> Array:
    """Where two arrays of one type differ by more than that many units in the last place of the larger elements."""
    if not dtypes.is_inexact(want.dtype):
        return onp.asarray(got != want)
    g, w = _wide(got), _wide(want)
    with onp.errstate(all="ignore"):
        finite = onp.isfinite(w)
        scale = onp.max(onp.abs(w), initial=0.0, where=finite)
        bound = units * _unit(want.dtype) * (onp.abs(w) + min(1.0, scale) * 0.05) + 1e-35
        same = (g == w) | (onp.isnan(g) & onp.isnan(w)) | (onp.abs(g - w) <= onp.where(finite, bound, 0))
    return ~same


def _moved(rng: onp.random.Generator, x: Array) -> Array:
    if not dtypes.is_inexact(x.dtype) or not x.size:
        return x
    factor = 1 + _unit(x.dtype) * rng.uniform(-2, 2, x.shape)
    with onp.errstate(all="ignore"):
        wide = _wide(x)
        if dtypes.is_complex(x.dtype):
            wide = wide + onp.abs(wide) * _unit(x.dtype) * 1j * rng.uniform(-2, 2, x.shape)
        return onp.asarray(wide * factor).astype(x.dtype)


def moved_results(program: ClosedJaxpr, args: Sequence[Array], seed: int) -> list[Array]:
    """The results of one run with each rounding moved at random."""
    rng = onp.random.default_rng(seed)

    def move(eqn: Eqn, operands: Sequence[Array], results: list[Array]) -> None:
        name = eqn.primitive.name
        if name in EXACT:
            return
        if name in SUMS and any(x.size for x in operands):
            shaken = [_moved(rng, x) for x in operands]
            avals = [v.aval for v in eqn.outputs]
            results[:] = reference.evaluate(eqn.primitive, shaken, eqn.params, avals)
        results[:] = [_moved(rng, x) for x in results]

    with observing(move):
        return reference.eval_jaxpr(program, *args)


def unexplained(
    program: ClosedJaxpr, args: Sequence[Array], pairs: Sequence[tuple[Array, Array] | None], center: Sequence[Array]
) -> list[int]:
    """The numbers of the results whose pair (got, want) differs by more than rounding explains; `center` are the
    reference's results. A pair that need not be looked at is None."""
    samples = [moved_results(program, args, 1 + k) for k in range(SAMPLES)]
    left: list[int] = []
    for i, pair in enumerate(pairs):
        if pair is not None and not _explained(*pair, center[i], [s[i] for s in samples]):
            left.append(i)
    return left


def _explained(got: Array, want: Array, center: Array, samples: Sequence[Array]) -> bool:
    bad = too_far(got, want)
    if not dtypes.is_inexact(want.dtype):
        varied = onp.zeros(want.shape, bool)
        for s in samples:
            varied |= s != center
        return not onp.any(bad & ~varied)
    with onp.errstate(all="ignore"):
        middle = _wide(center)
        spread = onp.zeros(want.shape)
        loose = onp.zeros(want.shape, bool)  # NaN or infinite in one of the samples
        for s in samples:
            distance = onp.abs(_wide(s) - middle)
            loose |= ~onp.isfinite(distance) & ~(onp.isnan(s) & onp.isnan(middle)) & (s != center)
            spread = onp.fmax(spread, onp.nan_to_num(distance, nan=0, posinf=0))
        within = onp.abs(_wide(got) - _wide(want)) <= MARGIN * spread + CLOSE * _unit(want.dtype) * onp.abs(middle)
    return not onp.any(bad & ~within & ~loose)
