"""Sorting and searching."""

from __future__ import annotations

from ..builder import Builder


def sort(b: Builder) -> object:
    x = b.pick("fiu", least_ndim=1)
    axis = b.rng.randint(-x.ndim, x.ndim - 1)
    return b.emit(f"np.{b.one('sort', 'argsort')}({{0}}, axis={axis}{b.one('', ', descending=True')})", x)


def sort_several(b: Builder) -> object:
    x = b.pick("fiu", least_ndim=1)
    y = b.pick(accept=lambda v: v.shape == x.shape)
    return b.emit(
        f"lax.sort(({{0}}, {{1}}), dimension={b.rng.randrange(x.ndim)}, num_keys={b.one(1, 1, 2) if y.kind in 'fiu' else 1})",
        x,
        y,
    )


def top_k(b: Builder) -> object:
    x = b.pick("fiu", least_ndim=1, nonempty=True)
    return b.emit(f"lax.top_k({{0}}, {b.rng.randint(1, min(4, x.shape[-1]))})", x)


def searchsorted(b: Builder) -> object:
    x = b.pick("fi", ndim=1)
    y = b.pick(x.kind, lambda v: v.dtype == x.dtype)
    return b.emit(
        b.one(
            "np.searchsorted(np.sort({0}), {1})",
            "np.searchsorted(np.sort({0}), {1}, side='right')",
            "np.digitize({1}, np.sort({0}))",
        ),
        x,
        y,
    )


def unique(b: Builder) -> object:
    x = b.pick("i", nonempty=True)
    n = b.rng.randint(1, 5)
    options = [
        f"np.unique({{0}}, size={n}, fill_value=-1)",
        f"np.flatnonzero({{0}}, size={n}, fill_value=0)",
        f"np.bincount(np.abs({{0}}).reshape(-1), length={n})",
    ]
    if x.ndim:
        options.append(f"np.nonzero({{0}}, size={n})[0]")
    return b.emit(b.one(*options), x)


def interpolate(b: Builder) -> object:
    x = b.pick("f", ndim=1, nonempty=True)
    y = b.pick("f", lambda v: v.aval == x.aval)
    z = b.pick("f", lambda v: v.dtype == x.dtype)
    return b.emit("np.interp({2}, np.cumsum(np.abs({0}) + 0.1), {1})", x, y, z)


FAMILY = (sort, sort, sort_several, top_k, searchsorted, unique, interpolate)
