"""quire.scipy: SciPy's functions on quire's arrays, as jax.scipy has them. The submodules load when first used."""

from __future__ import annotations

from ..absent_names import module_getattr

#: Submodules that are imported when first used.
_LAZY = (
    "cluster",
    "fft",
    "integrate",
    "interpolate",
    "linalg",
    "ndimage",
    "optimize",
    "signal",
    "sparse",
    "spatial",
    "special",
    "stats",
)
__getattr__ = module_getattr("quire.scipy", globals(), _LAZY)


def __dir__() -> list[str]:
    return sorted([*_LAZY, *(n for n in globals() if n.startswith("__"))])
