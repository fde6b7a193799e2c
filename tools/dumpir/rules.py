"""Are the rules of the transformations right that a program went through? Checked equation by equation, by other means.

What `grad` or `vmap` made of a function is compared with nothing when the program itself is compared stage by stage: the
traced program has the derivative in it already. So for `--compare` the function before is run on random values, and for
each different equation of it, those of nested programs included,

- its derivative (jvp) is compared with central differences in double precision, where two step sizes agree,
- the transpose of that derivative by ``<ct, jvp(t)> = <vjp(ct), t>``,
- its batched form lane by lane,

all by the reference backend. Equations that hold programs are checked by what is in them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

import quire
from quire.backends.reference.engine import eval_jaxpr, observing
from quire.backends.reference.rules import reference
from quire.compiling.result_checks import quiet
from quire.ir import dtypes
from quire.ir.errors import QuireError
from quire.ir.jaxpr import ClosedJaxpr, Eqn, Jaxpr, Literal, Var, has_nested
from quire.ir.primitives.elementwise import nextafter_p, stop_gradient_p
from quire.ir.primitives.indexing import GatherScatterMode
from quire.ir.primitives.linalg import cholesky_p, eigh_p, svd_p
from quire.ir.tracing import Tracer
from quire.passes.checkify import slice_starts
from quire.passes.compare import random_inputs
from quire.watching.transformations import Transformation

from .answers import place_text
from .survey import eqn_text

Host = np.ndarray[Any, Any]
LANES = 3
MOST_ELEMENTS = 1 << 16
"""An equation of more elements is not run so often."""
STEP = 1e-3
LARGE = 1e6
SYMMETRIC = (cholesky_p, eigh_p)
"""Their rules read one triangle or both of a matrix that is symmetric, so its tangents are, too."""
DERIVATIVES = ("grad", "value_and_grad", "vjp", "jvp", "linearize", "jacfwd", "jacrev", "hessian")


@dataclass(frozen=True)
class Fault:
    """A rule that gives other numbers than what it stands for."""

    table: str
    eqn: Eqn
    text: str

    def __str__(self) -> str:
        at = f" (at {place_text(self.eqn.source)})" if self.eqn.source else ""
        name = self.eqn.primitive.name
        return f"the {self.table} rule of {name} is wrong{at}: {self.text}\n  {eqn_text(self.eqn)}"


@dataclass(frozen=True)
class Sample:
    """An equation with operands that a run had."""

    eqn: Eqn
    operands: tuple[Host, ...]
    results: tuple[Host, ...]


def samples(before: Jaxpr, captured: Sequence[Any] = (), seed: int = 0) -> list[Sample]:
    """Each different equation of a function, with the operands that it first had on random arguments.

    Arrays among the values that the function captured, its first inputs, are what they are: the -inf from which a maximum
    starts is no argument.
    """
    found: dict[Any, Sample] = {}

    def observe(eqn: Eqn, operands: Sequence[Host], results: Sequence[Host]) -> None:
        if (
            has_nested(eqn.params)
            or eqn.effects
            or max((x.size for x in (*operands, *results)), default=0) > MOST_ELEMENTS
        ):
            return
        key = (eqn.primitive, tuple(a.aval for a in eqn.inputs), repr(eqn.params))
        if key not in found and _keeps_promises(eqn, operands):
            found[key] = Sample(eqn, tuple(map(np.array, operands)), tuple(map(np.array, results)))

    values = random_inputs([*(v.aval for v in before.constvars), *before.in_avals], seed)
    # Integers may be indices that a gather was promised to be inside.
    values = [np.abs(x) % 2 if dtypes.is_integer(x.dtype) else x for x in values]
    for i, x in enumerate(captured, len(before.constvars)):
        if not isinstance(x, Tracer):
            values[i] = np.asarray(x)
    closed = quiet(ClosedJaxpr(Jaxpr((), (*before.constvars, *before.invars), before.outvars, before.eqns)))
    with observing(observe), np.errstate(all="ignore"):
        eval_jaxpr(closed, *values)
    return list(found.values())


def _keeps_promises(eqn: Eqn, operands: Sequence[Host]) -> bool:
    """False for indices, made of random values, that are outside where the program promises that they are not."""
    if eqn.params.get("mode") is not GatherScatterMode.PROMISE_IN_BOUNDS or (starts := slice_starts(eqn)) is None:
        return True
    at, axes, sizes = starts
    last = [operands[0].shape[a] - n for a, n in zip(axes, sizes)]
    return bool(np.all((operands[at] >= 0) & (operands[at] <= last)))


def check_rules(transformations: Sequence[Transformation]) -> tuple[Fault | None, dict[str, int]]:
    """The first wrong rule of the transformations, and how many equations were checked by which means."""
    counts = {"derivatives": 0, "transposes": 0, "batched": 0}
    seen: set[Any] = set()
    for t in transformations:
        kind = t.name.split(" ")[0]
        checks: list[tuple[str, Callable[[Sample], Iterator[Fault | None]]]] = []
        if kind in DERIVATIVES:
            checks = [("derivatives", _jvp), ("transposes", _transpose)]
        elif kind in ("vmap", "pmap"):
            checks = [("batched", _batching)]
        if not checks:
            continue
        try:
            found = samples(t.before, t.captured)
        except (QuireError, NotImplementedError, AssertionError, ValueError):
            continue
        for s in found:
            key = (kind, s.eqn.primitive, tuple(a.aval for a in s.eqn.inputs), repr(s.eqn.params))
            if key in seen:
                continue
            seen.add(key)
            for name, check in checks:
                fault, checked = _first(check, s)
                counts[name] += checked
                if fault is not None:
                    return fault, counts
    return None, counts


def _first(check: Callable[[Sample], Iterator[Fault | None]], s: Sample) -> tuple[Fault | None, int]:
    checked = 0
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            for fault in check(s):
                checked = 1
                if fault is not None:
                    return fault, 1
    except (
        QuireError,
        TypeError,
        ValueError,
        NotImplementedError,
    ):  # the primitive has no such rule, or not of these operands
        pass
    return None, checked


def _function(eqn: Eqn) -> Callable[..., list[Any]]:
    def f(*xs: Any) -> list[Any]:
        out = eqn.primitive.bind(*xs, **eqn.params)
        return list(out) if eqn.primitive.multiple_results else [out]

    return f


def _inexact(s: Sample) -> list[int]:
    """The operands by which an equation can be differentiated."""
    return [i for i, (a, x) in enumerate(zip(s.eqn.inputs, s.operands)) if not isinstance(a, Literal) and _real(x)]


def _real(x: Host) -> bool:
    return dtypes.is_inexact(x.dtype) and not dtypes.is_complex(x.dtype)


def _tangents(s: Sample, wrt: Sequence[int], seed: int = 7) -> list[Host]:
    rng = np.random.default_rng(seed)
    found = [rng.standard_normal(s.operands[i].shape).astype(s.operands[i].dtype) for i in wrt]
    # A number that stands for infinity does not move by a step.
    found = [np.where(np.abs(s.operands[i]) < LARGE, t, t.dtype.type(0)) for i, t in zip(wrt, found)]
    if s.eqn.primitive in SYMMETRIC:
        return [t + np.swapaxes(t, -1, -2) for t in found]
    return found


def _jvp_of(s: Sample, wrt: Sequence[int], tangents: Sequence[Host]) -> list[Host]:
    f = _function(s.eqn)

    def of_some(*xs: Any) -> list[Any]:
        whole = list(s.operands)
        for i, x in zip(wrt, xs):
            whole[i] = x
        return f(*whole)

    _, out = quire.jvp(of_some, tuple(s.operands[i] for i in wrt), tuple(tangents))
    return [np.asarray(x) for x in out]


def _jvp(s: Sample) -> Iterator[Fault | None]:
    """The derivative beside central differences of the reference rule in double precision."""
    rule = reference.get(s.eqn.primitive)
    wrt = _inexact(s)
    # stop_gradient is no function of numbers, and nextafter none of reals: their derivatives are none by decree.
    if (
        rule is None
        or not wrt
        or s.eqn.primitive in (stop_gradient_p, nextafter_p)
        or s.eqn.primitive.family in ("calls", "collectives")
    ):
        return
    tangents = _tangents(s, wrt)

    def at(h: float, tangents: Sequence[Host]) -> list[Host]:
        whole = [np.asarray(x, np.float64) if _real(x) else x for x in s.operands]
        for i, t in zip(wrt, tangents):
            whole[i] = whole[i] + h * t.astype(np.float64)
        out = rule(*whole, **s.eqn.params)
        return _turned(s, [np.asarray(x) for x in (out if isinstance(out, list | tuple) else [out])])

    def slope(h: float, tangents: Sequence[Host]) -> list[tuple[Host, Host]]:
        """The differences, and where they say anything: no kink, jump or pole lies between, and rounding is less."""
        found: list[tuple[Host, Host]] = []
        for p, m, x in zip(at(h, tangents), at(-h, tangents), at(0, tangents)):
            eps = ml_dtypes.finfo(p.dtype).eps if dtypes.is_inexact(p.dtype) else 0.0
            p, m, x = (np.asarray(v, np.float64) for v in (p, m, x))
            rounding = float(eps) * (np.abs(p) + np.abs(m))
            span = np.abs(p - m)
            smooth = np.abs((p + m) / 2 - x) <= 0.02 * span + rounding
            found.append(((p - m) / (2 * h), smooth & ((rounding <= 0.01 * span) | (rounding <= 1e-4 * h))))
        return found

    if not any(_real(r) for r in s.results):
        return
    got = _jvp_of(s, wrt, tangents)
    for k, (g, (coarse, wide), (fine, near)) in enumerate(zip(got, slope(STEP, tangents), slope(STEP / 4, tangents))):
        if not _real(s.results[k]) or g.size == 0:
            continue
        scale = np.maximum(np.abs(fine), np.sqrt(np.mean(np.where(np.isfinite(fine), fine, 0) ** 2)) + 1e-30)
        settled = wide & near & np.isfinite(coarse) & np.isfinite(fine) & (np.abs(coarse - fine) <= 1e-2 * scale)
        units = 1e-2 if s.results[k].dtype.itemsize >= 4 else 0.1
        wrong = settled & ~(
            np.abs(g.astype(np.float64) - fine) <= 5 * units * scale + 32 * float(ml_dtypes.finfo(g.dtype).eps)
        )
        for seed in (8, 9, 10):  # a derivative is linear, and the median of what is equal is not
            if wrong.any():
                others = _tangents(s, wrt, seed)
                other, both = (slope(STEP / 4, ts)[k][0] for ts in (others, [a + b for a, b in zip(tangents, others)]))
                wrong &= np.abs(fine + other - both) <= 0.02 * scale
        if wrong.any():
            index = tuple(int(i) for i in np.argwhere(wrong)[0])
            yield Fault(
                "jvp",
                s.eqn,
                f"{_number(g, index)} where differences give {fine[index]:.6g}; {int(wrong.sum())} of {g.size} elements",
            )
        else:
            yield None


def _turned(s: Sample, results: list[Host]) -> list[Host]:
    """Results of the sample's equation with the signs that its eigenvectors and singular vectors have in the sample.

    LAPACK need not choose the same ones in another precision.
    """
    if s.eqn.primitive is eigh_p:
        vectors, *others = results
        return [vectors * _signs(vectors, s.results[0])[..., None, :], *others]
    if s.eqn.primitive is svd_p and len(results) == 3:
        values, u, vh = results
        k = values.shape[-1]
        signs = _signs(u[..., :k], s.results[1][..., :k])
        u, vh = u.copy(), vh.copy()
        u[..., :k] *= signs[..., None, :]
        vh[..., :k, :] *= signs[..., None]
        return [values, u, vh]
    return results


def _signs(columns: Host, like: Host) -> Host:
    return np.where(np.sum(columns * like, axis=-2) < 0, -1.0, 1.0)


def _number(x: Host, index: tuple[int, ...]) -> str:
    at = f" at index {index}" if index else ""
    return f"{float(x[index]):.6g}{at}"


def _transpose(s: Sample) -> Iterator[Fault | None]:
    """<ct, jvp(t)> beside <vjp(ct), t>."""
    wrt = [i for i in _inexact(s)]
    if not wrt or not any(_real(r) for r in s.results):
        return
    f = _function(s.eqn)

    def of_some(*xs: Any) -> list[Any]:
        whole = list(s.operands)
        for i, x in zip(wrt, xs):
            whole[i] = x
        return [y for y, r in zip(f(*whole), s.results) if _real(r)]

    tangents = _tangents(s, wrt)
    out = [x for x, r in zip(_jvp_of(s, wrt, tangents), s.results) if _real(r)]
    rng = np.random.default_rng(11)
    cts = [rng.standard_normal(x.shape).astype(x.dtype) for x in out]
    _, pull = quire.vjp(of_some, *(s.operands[i] for i in wrt))
    back = [np.asarray(x) for x in pull(cts)]
    left, size = _dot(cts, out)
    right, other = _dot(back, tangents)
    units = 1e-4 if min(x.dtype.itemsize for x in (*out, *tangents)) >= 4 else 5e-2
    if np.isfinite(left) and np.isfinite(right) and abs(left - right) > units * (size + other + 1e-30):
        yield Fault("transpose", s.eqn, f"<vjp(ct), t> is {right:.6g}, <ct, jvp(t)> is {left:.6g}")
    else:
        yield None


def _dot(xs: Sequence[Host], ys: Sequence[Host]) -> tuple[float, float]:
    """An inner product, and its size: the norm of its terms' sizes."""
    terms = [np.asarray(x, np.float64) * np.asarray(y, np.float64) for x, y in zip(xs, ys) if x.dtype != dtypes.float0]
    return float(sum(t.sum() for t in terms)), float(sum(np.abs(t).sum() for t in terms))


def _batching(s: Sample) -> Iterator[Fault | None]:
    """The batched equation lane by lane: all operands batched, and each alone."""
    free = [i for i, a in enumerate(s.eqn.inputs) if isinstance(a, Var) and s.operands[i].dtype != dtypes.float0]
    if not free:
        return
    rng = np.random.default_rng(5)

    def lanes(x: Host) -> Host:
        return np.stack([rng.permutation(x.reshape(-1)).reshape(x.shape) if k else x for k in range(LANES)])

    f = _function(s.eqn)
    sets = [free] if len(free) == 1 else [free, *([i] for i in free)]
    for chosen in sets:
        whole = [lanes(x) if i in chosen else x for i, x in enumerate(s.operands)]
        axes = tuple(0 if i in chosen else None for i in range(len(whole)))
        got = [np.asarray(x) for x in quire.vmap(f, in_axes=axes)(*whole)]
        for lane in range(LANES):
            one = [x[lane] if i in chosen else x for i, x in enumerate(whole)]
            for k, (g, w) in enumerate(zip(got, map(np.asarray, f(*one)))):
                wrong = ~_same(g[lane], w)
                if wrong.any():  # sums of what cancels differ more, by how they are ordered
                    wrong = ~_same(g[lane], w, _rounding(f, one, k))
                if wrong.any():
                    index = tuple(int(i) for i in np.argwhere(wrong)[0])
                    yield Fault(
                        "batching", s.eqn, f"lane {lane} has {g[lane][index]} at index {index}, alone it is {w[index]}"
                    )
                    return
    yield None


def _rounding(f: Callable[..., list[Any]], operands: Sequence[Host], k: int) -> float:
    """How far a result moves, as a root mean square, where operands move by some units in the last place."""
    rng = np.random.default_rng(3)
    near = [
        x * (1 + 8 * np.finfo(x.dtype).eps * rng.uniform(-1, 1, x.shape)).astype(x.dtype) if x.dtype.kind == "f" else x
        for x in operands
    ]
    a, b = (np.asarray(f(*xs)[k]) for xs in (operands, near))
    if a.dtype.kind != "f":
        return 0.0
    d = a.astype(np.float64) - b.astype(np.float64)
    return float(np.sqrt(np.mean(np.where(np.isfinite(d), d, 0) ** 2)))


def _same(x: Host, y: Host, rounding: float = 0.0) -> Host:
    """Where two arrays agree, which is nowhere if their shapes do not."""
    if x.shape != y.shape:
        return np.zeros(y.shape, bool)
    if not dtypes.is_inexact(x.dtype):
        return np.asarray(x == y)
    a, b = (v.astype(np.complex128 if dtypes.is_complex(x.dtype) else np.float64) for v in (x, y))
    scale = np.abs(b) + np.sqrt(np.mean(np.where(np.isfinite(b), np.abs(b), 0) ** 2)) + 1e-30
    units = 1e-4 if x.dtype.itemsize >= 4 else 5e-2
    return np.asarray((a == b) | (np.isnan(a) & np.isnan(b)) | (np.abs(a - b) <= units * scale + 10 * rounding))


__all__ = ["Fault", "check_rules"]
