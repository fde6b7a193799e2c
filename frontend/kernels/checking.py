"""A kernel against its reference: random arguments of sizes around those of vectors and blocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from quire.ir import dtypes
from quire.ir.errors import KernelMismatchError

from .. import tree_util
from ..compiling.api import compile as compile_function
from ..numpy.dtype_info import finfo
from ..transforms.differentiation import vjp
from ..transforms.vectorization import vmap

if TYPE_CHECKING:
    from .definition import UserKernel

#: Where loops over blocks and vectors begin, end, or have a rest.
SIZES = (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 127, 129)


@dataclass(frozen=True)
class Checked:
    """What a check looked at: the shapes of each trial, and the largest difference relative to the tolerance."""

    shapes: tuple[tuple[tuple[int, ...], ...], ...]
    worst: float


def check(
    kernel: UserKernel, make: Callable[..., Sequence[Any]], *, trials: int = 8, seed: int = 0, rtol: float | None = None,
    atol: float | None = None, gradients: bool = True, **options: Any,
) -> Checked:  # fmt: skip
    """Compare the compiled kernel with its reference, and so their derivatives, and the kernel under `vmap`.

    Args:
        kernel: made by `quire.kernel`, with a reference.
        make: ``make(rng, size)`` gives the arguments of a trial; ``size()`` is one of `SIZES` by chance, ``size(a, b)`` one of
            those from a to b.
        trials: how many times.
        seed: of the random numbers.
        rtol, atol: what rounding explains; by default 64 units of the results' precision, relative and times the largest value.
        gradients: compare cotangents of floating arguments, too.
        options: those of the kernel.

    Returns:
        A `Checked`.

    Raises:
        KernelMismatchError: an element differs; the message says which, of which result, for which shapes.
        TypeError: the kernel has no reference.
    """
    if kernel.reference is None:
        raise TypeError(f"kernel {kernel.name} has no reference to compare with")
    rng = np.random.default_rng(seed)

    def size(low: int = 1, high: int = SIZES[-1]) -> int:
        return int(rng.choice([n for n in SIZES if low <= n <= high] or [low]))

    def ours(*args: Any) -> Any:
        return kernel(*args, **options)

    def theirs(*args: Any) -> Any:
        return kernel.reference(*args, **options)  # type: ignore[misc]

    seen: list[tuple[tuple[int, ...], ...]] = []
    worst = 0.0
    for trial in range(trials):
        args = [np.asarray(a) for a in make(rng, size)]
        shapes = tuple(a.shape for a in args)
        seen.append(shapes)
        pairs = [("result", compile_function(ours)(*args), theirs(*args))]
        inexact = [i for i, a in enumerate(args) if dtypes.is_inexact(a.dtype)]
        if gradients and inexact and trial % 2 == 0:
            out = tree_util.tree_map(lambda x: rng.normal(size=x.shape).astype(x.dtype), pairs[0][2])
            pairs.append(("cotangent", *(_cotangents(f, args, inexact, out) for f in (ours, theirs))))
        if trial % 2:
            stacked = [np.stack([a, np.flip(a)]) for a in args]
            pairs.append(("result under vmap", compile_function(vmap(ours))(*stacked), vmap(theirs)(*stacked)))
        for what, got, want in pairs:
            worst = max(worst, _compare(kernel.name, what, shapes, got, want, rtol, atol))
    return Checked(tuple(seen), worst)


def _cotangents(f: Callable[..., Any], args: Sequence[Any], inexact: Sequence[int], out: Any) -> Any:
    def of_floats(*floats: Any) -> Any:
        given = list(args)
        for i, x in zip(inexact, floats):
            given[i] = x
        return f(*given)

    def pulled(floats: Any, ct: Any) -> Any:
        return vjp(of_floats, *floats)[1](ct)

    return compile_function(pulled)(tuple(args[i] for i in inexact), out)


def _compare(name: str, what: str, shapes: Any, got: Any, want: Any, rtol: float | None, atol: float | None) -> float:
    worst = 0.0
    for n, (g, w) in enumerate(zip(tree_util.tree_leaves(got), tree_util.tree_leaves(want), strict=True)):
        mine, right = np.asarray(g), np.asarray(w)
        if mine.shape != right.shape or mine.dtype != right.dtype:
            raise KernelMismatchError(
                f"kernel {name}, {what} {n} for arguments of shapes {shapes}: it is {mine.dtype}{list(mine.shape)}, the "
                f"reference's {right.dtype}{list(right.shape)}"
            )
        if not right.size:
            continue
        if not dtypes.is_inexact(right.dtype):
            wrong, share = mine != right, np.zeros(right.shape)
        else:
            eps = float(finfo(right.dtype).eps)
            a, b = mine.astype(np.float64), right.astype(np.float64)
            finite = b[np.isfinite(b)]
            scale = float(np.abs(finite).max()) if finite.size else 0.0
            allowed = (64 * eps if rtol is None else rtol) * np.abs(b) + (64 * eps * scale if atol is None else atol)
            with np.errstate(invalid="ignore"):
                same = (a == b) | (np.isnan(a) & np.isnan(b))
                share = np.where(same, 0.0, np.abs(a - b) / np.maximum(allowed, np.finfo(np.float64).tiny))
            wrong = ~same & ~(share <= 1)
            worst = max(worst, float(share[~wrong].max()) if (~wrong).any() else 0.0)
        if wrong.any():
            at = tuple(int(i) for i in np.argwhere(wrong)[0])
            raise KernelMismatchError(
                f"kernel {name}, {what} {n} for arguments of shapes {shapes}: element {at} is {mine[at]}, the reference's "
                f"{right[at]} ({int(wrong.sum())} of {wrong.size} elements differ)"
            )
    return worst


__all__ = ["SIZES", "Checked", "check"]
