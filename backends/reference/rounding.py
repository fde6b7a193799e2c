"""How far rounding may take a program's results: the program is run several times with noise in place of rounding.

Each inexact result of an equation is moved by a few units in its last place, sums by what their length and the size of
their terms allow, special functions and decompositions by what a change of their operands does. What moves elements a
little moves the program's results by as much as another order of evaluation, a fused multiply-add or another
approximation of a function may. Values that are exact (small integers, sums without rounding) stay, so that ``floor`` and
comparisons of them do too; where noise decides a comparison, the results of both sides are seen. Every other run takes
numbers that are too small to be normal for zeros, as compiled programs do.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from quire.ir import dtypes
from quire.ir.jaxpr import ClosedJaxpr, Eqn
from quire.ir.primitive import Primitive
from quire.ir.primitives import contraction as ct
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import linalg as la
from quire.ir.primitives import reductions as rd
from quire.ir.primitives import windows as wd
from quire.ir.tracing import hooks

from .engine import Array, eval_jaxpr, evaluate, noisy

SAMPLES = 8
ONE_WAY = 2
"""How many of them move all elements of a result the same way, as an approximation does near one operand: sums of such
errors grow with their number, not with its root."""
AMPLITUDE = 4.0
"""In units of the last place; of float16 and bfloat16, of which a few are much, a half."""
FUNCTION_AMPLITUDE = 48.0
"""Of functions that are approximated."""

_OF_TERMS = (ew.lgamma_p, ew.digamma_p, rd.cumlogsumexp_p)
"""Functions with results near zero that are differences of terms of the size of 1, or of the operand's elements."""


def _sums(p: Primitive) -> bool:
    """Whether a result is a sum of elements, or may be: what a function of the program's reduces."""
    known = p.combine is ew.add_p or p.combine is ew.sub_p or p.family == "contraction"
    return known or p is rd.reduce_p or p is wd.reduce_window_p


def spread(program: ClosedJaxpr, args: Sequence[Any], results: Sequence[Array]) -> list[Array]:
    """For each of `results` (of the reference backend on `args`), how far its elements may be off.

    Float64 arrays; infinite where nothing is sure: an integer that noise changes, a NaN that it makes.
    """
    found = [np.zeros(r.shape) for r in results]
    for seed in range(SAMPLES):
        with noisy(_Noise(seed)):
            sample = eval_jaxpr(program, *args)
        for moved, s, r in zip(found, sample, results, strict=True):
            np.maximum(moved, _distance(s, r), out=moved)
    return [_generous(moved, r) for moved, r in zip(found, results)]


def _distance(a: Array, b: Array) -> Array:
    if a.dtype == dtypes.float0:
        return np.zeros(a.shape)
    if not dtypes.is_inexact(a.dtype):
        return np.where(a == b, 0.0, np.inf)
    wide = np.complex128 if dtypes.is_complex(a.dtype) else np.float64
    x, y = a.astype(wide), b.astype(wide)
    with np.errstate(all="ignore"):
        same = (x == y) | (np.isnan(x) & np.isnan(y))
        away = np.abs(x - y)
    return np.where(same, 0.0, np.where(np.isfinite(away), away, np.inf))


def _generous(moved: Array, result: Array) -> Array:
    """Twice what was seen, and twice what nine of ten elements moved by, in proportion to the element.

    Where rounding decides one in twenty of an array's comparisons, it may decide each of them.
    """
    if not moved.size:
        return moved
    if not dtypes.is_inexact(result.dtype):
        return np.full_like(moved, np.inf) if np.count_nonzero(moved) * 20 >= moved.size else moved
    with np.errstate(all="ignore"):
        size = np.abs(result.astype(np.complex128 if dtypes.is_complex(result.dtype) else np.float64))
        known = np.isfinite(moved) & np.isfinite(size) & (size > 0)
        usual = np.quantile(moved[known] / size[known], 0.9) if known.any() else 0.0
        return 2 * moved + 2 * usual * np.where(np.isfinite(size), size, 0.0)


def _unit(dtype: Any) -> float:
    return float(ml_dtypes.finfo(dtype).eps)


def _flushed(x: Array) -> Array:
    """x with zeros in place of numbers that are not normal; the same array where there are none."""
    if not dtypes.is_inexact(x.dtype) or dtypes.is_complex(x.dtype):
        return x
    small = (x != 0) & (np.abs(x) < ml_dtypes.finfo(x.dtype).tiny)
    return np.where(small, x.dtype.type(0), x) if small.any() else x


def _knows(arrays: dict[int, weakref.ref[Array]], x: Array) -> bool:
    known = arrays.get(id(x))
    return known is not None and known() is x


class _Noise:
    """One sample: called after each equation, gives the results to go on with."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.rng = np.random.default_rng(seed)
        self.flushes = seed % 2 == 1
        self.one_way = seed >= SAMPLES - ONE_WAY
        self.unrounded: dict[int, weakref.ref[Array]] = {}
        """bfloat16 results, by identity, which each of their uses may or may not find rounded."""
        self.products: dict[int, weakref.ref[Array]] = {}
        """Products, and what only moves their elements: one operation with the addition that reads them, or not."""

    def __call__(self, eqn: Eqn, operands: Sequence[Array], results: Sequence[Array]) -> Sequence[Array]:
        moves = eqn.primitive.rounding != "exact" and eqn.primitive.family not in ("structural", "indexing")
        adds = eqn.primitive in (ew.add_p, ew.sub_p)
        loose = [_knows(self.unrounded, x) or (adds and _knows(self.products, x)) for x in operands]
        if moves and any(loose):
            operands = [
                self._moved(x, np.abs(x).astype(np.float64) * _unit(x.dtype)) if is_loose else x
                for x, is_loose in zip(operands, loose)
            ]
            try:
                results = evaluate(eqn.primitive, operands, eqn.params, [v.aval for v in eqn.outputs])
            except Exception:  # what calls a function, or a loop
                pass
        out = self._results(eqn, operands, results)
        if self.flushes and moves:
            out = [_flushed(x) for x in out]
        moved = eqn.primitive.family == "structural" and len(operands) == 1 and _knows(self.products, operands[0])
        for x, r in zip(out, results, strict=True):
            if x.dtype == dtypes.bfloat16 and (x is not r or any(loose)):
                self.unrounded[id(x)] = weakref.ref(x)
            if moved or (eqn.primitive is ew.mul_p and dtypes.is_inexact(x.dtype)):
                self.products[id(x)] = weakref.ref(x)
        return out

    def _results(self, eqn: Eqn, operands: Sequence[Array], results: Sequence[Array]) -> Sequence[Array]:
        p = eqn.primitive
        if p.rounding == "exact" or not any(r.size and dtypes.is_inexact(r.dtype) for r in results):
            return results
        with np.errstate(all="ignore"):
            if _sums(p):
                return self._sum(eqn, operands, results)
            if p.combine is ew.mul_p:
                longest = max(x.size for x in operands) / max(1, min(r.size for r in results))
                if p is rd.cumprod_p:
                    longest = operands[0].shape[eqn.params["axis"]]
                return [self._relative(r, AMPLITUDE * max(1.0, longest) ** 0.5) for r in results]
            if p in _OF_TERMS:
                return [self._of_terms(operands[0], r) for r in self._function(eqn, operands, AMPLITUDE, False)]
            if p.rounding == "nearest":
                return [self._arithmetic(p, operands, r) for r in results]
            if p.family == "elementwise":
                return self._function(eqn, operands, FUNCTION_AMPLITUDE, False)
            if p.family in ("linalg", "fft"):
                return self._turned(p, self._function(eqn, operands, AMPLITUDE, True))
            if eqn.params.get("update_jaxpr") is not None:  # a function of elements within a scatter
                return [self._relative(r, AMPLITUDE) for r in results]
        return results

    def _turned(self, p: Primitive, results: Sequence[Array]) -> Sequence[Array]:
        """Eigenvectors and singular vectors turned round: any direction, and any basis of what has none, is as right."""
        if p is la.eigh_p:
            v, w = results
            return [v * self._directions(w, v.dtype)[..., None, :], w]
        if p is la.svd_p and len(results) == 3:
            s, u, vh = results
            by, k = self._directions(s, u.dtype), s.shape[-1]
            u, vh = u.copy(), vh.copy()
            u[..., :k] *= by[..., None, :]
            vh[..., :k, :] *= by.conj()[..., :, None]
            for rest in (u[..., k:], vh[..., k:, :].swapaxes(-1, -2)):
                if rest.size:
                    n = rest.shape[-1]
                    rest[:] = rest @ np.linalg.qr(self.rng.normal(size=(n, n)))[0].astype(rest.dtype)
            return [s, u, vh]
        return results

    def _directions(self, like: Array, dtype: Any) -> Array:
        """A number of size 1 for each vector: 1 or -1 for real ones; -1 in the first sample."""
        if self.seed == 0:
            return np.full(like.shape, -1, dtype)
        angle = self.rng.uniform(0, 2 * np.pi, like.shape)
        return (
            np.where(angle < np.pi, 1, -1).astype(dtype)
            if not dtypes.is_complex(dtype)
            else np.exp(1j * angle).astype(dtype)
        )

    def _uniform(self, like: Array) -> Array:
        u = self._parts(like)
        return u + 1j * self._parts(like) if dtypes.is_complex(like.dtype) else u

    def _parts(self, like: Array) -> Array:
        u = self.rng.uniform(-1, 1, like.shape)
        return np.copysign(u, self.rng.uniform(-1, 1)) if self.one_way else u

    def _moved(self, x: Array, by: Any) -> Array:
        """x with noise of the size `by`; infinities and NaN as they are."""
        wide = np.complex128 if dtypes.is_complex(x.dtype) else np.float64
        return np.where(np.isfinite(x), x.astype(wide) + by * self._uniform(x), x).astype(x.dtype)

    def _relative(self, x: Array, units: float) -> Array:
        if not dtypes.is_inexact(x.dtype):
            return x
        if x.dtype in (dtypes.float16, dtypes.bfloat16):
            # What is used at once is not rounded to bfloat16: noise must reach the next number.
            units = min(units, FUNCTION_AMPLITUDE) / (4 if x.dtype == dtypes.bfloat16 else 8)
        return self._moved(x, np.abs(x).astype(np.float64) * (_unit(x.dtype) * units))

    def _of_terms(self, operand: Array, x: Array) -> Array:
        finite = np.abs(operand[np.isfinite(operand)]).astype(np.float64)
        size = max(1.0, float(finite.max()) if finite.size else 0.0)
        units = AMPLITUDE / 8 if x.dtype in (dtypes.float16, dtypes.bfloat16) else AMPLITUDE
        return self._moved(x, _unit(x.dtype) * units * np.maximum(np.abs(x).astype(np.float64), size))

    def _arithmetic(self, p: Primitive, operands: Sequence[Array], result: Array) -> Array:
        if p is ew.convert_element_type_p:
            narrower = dtypes.is_inexact(operands[0].dtype) and operands[0].dtype.itemsize > result.dtype.itemsize
            if narrower and result.dtype == dtypes.bfloat16:  # what is converted back at once may not be rounded at all
                wide = operands[0].astype(np.float64)
                return np.where(
                    wide == result,
                    result,
                    self._moved(wide, np.abs(wide) * _unit(result.dtype) / 2).astype(result.dtype),
                )
            return self._where_rounded(result, operands[0] == result, AMPLITUDE / 2) if narrower else result
        exact = _integral(result)
        for x in operands:
            exact = exact & _integral(x)
        if p in (ew.add_p, ew.sub_p, ew.mul_p):
            wide = _WIDER.get(result.dtype)
            if wide is not None:
                a, b = (x.astype(wide) for x in operands)
                exact |= getattr(np, p.numpy)(a, b) == result
        return self._where_rounded(result, exact, AMPLITUDE)

    def _where_rounded(self, x: Array, exact: Array, units: float) -> Array:
        return x if np.all(exact) else np.where(exact, x, self._relative(x, units))

    def _sum(self, eqn: Eqn, operands: Sequence[Array], results: Sequence[Array]) -> Sequence[Array]:
        """By what each of n terms may lose, times the root of n."""
        positive = [np.abs(x).astype(x.dtype) if dtypes.is_inexact(x.dtype) else x for x in operands]
        try:
            sizes = evaluate(eqn.primitive, positive, eqn.params, [v.aval for v in eqn.outputs])
        except Exception:  # a reduction by a user's function need not take such operands
            sizes = [np.abs(r) for r in results]
        whole = all(np.all(_integral(x)) for x in operands if dtypes.is_inexact(x.dtype))
        out: list[Array] = []
        for r, s in zip(results, sizes):
            if not dtypes.is_inexact(r.dtype):
                out.append(r)
                continue
            unit, size = _unit(r.dtype), np.abs(s).astype(np.float64)
            if whole and np.all(size < 1 / unit):
                out.append(r)
                continue
            root = max(1.0, max(x.size for x in operands) / max(1, r.size)) ** 0.5
            if eqn.primitive in (ct.dot_general_p, rd.cumsum_p):
                root = max(1.0, float(operands[0].size) / max(1, _rows(eqn, operands[0]))) ** 0.5
            if r.dtype in (dtypes.float16, dtypes.bfloat16):
                root = 1.0  # they are added up in float32
            out.append(self._moved(r, unit * root * size))
        return out

    def _function(self, eqn: Eqn, operands: Sequence[Array], units: float, together: bool) -> Sequence[Array]:
        """With moved operands; `together`: by what is small beside the largest element."""

        def move(x: Array, by: float) -> Array:
            if not (x.size and dtypes.is_inexact(x.dtype)):
                return x
            if not together:
                return self._relative(x, by)
            finite = np.abs(x[np.isfinite(x)]).astype(np.float64)
            return self._moved(x, (finite.max() if finite.size else 0.0) * _unit(x.dtype) * by)

        moved = [move(x, AMPLITUDE / 2) for x in operands]
        results = evaluate(eqn.primitive, moved, eqn.params, [v.aval for v in eqn.outputs])
        return [move(r, units) for r in results]


_WIDER: dict[Any, Any] = {
    dtypes.float16: np.float64, dtypes.bfloat16: np.float64, dtypes.float32: np.float64, dtypes.float64: np.longdouble,
    dtypes.complex64: np.complex128,
}  # fmt: skip


def _integral(x: Array) -> Any:
    """Where an array holds integers that its dtype holds exactly, and their sums and products too."""
    if not dtypes.is_inexact(x.dtype):
        return np.ones(x.shape, bool)
    if dtypes.is_complex(x.dtype):
        return _integral(x.real) & _integral(x.imag)
    return (x == np.floor(x)) & (np.abs(x.astype(np.float64)) < 1 / _unit(x.dtype))


def _rows(eqn: Eqn, x: Array) -> int:
    """How many sums go over an operand."""
    if eqn.primitive is rd.cumsum_p:
        return x.size // max(1, x.shape[eqn.params["axis"]])
    contract: tuple[int, ...] = eqn.params["dimension_numbers"][0][0]
    length = 1
    for d in contract:
        length *= x.shape[d]
    return x.size // max(1, length)


Perturb = Callable[[Eqn, Sequence[Array], Sequence[Array]], Sequence[Array]]

hooks.spread = spread
