"""Programs of 64-bit numbers that are evaluated where `enable_x64` is off: the block in which they were traced is over."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

from . import dtypes
from .avals import ShapedArray
from .config import config
from .jaxpr import Jaxpr

P = ParamSpec("P")
R = TypeVar("R")


def _is_wide(jaxpr: Jaxpr) -> bool:
    found: Any = (v.aval for v in (*jaxpr.invars, *(v for e in jaxpr.eqns for v in e.outputs)))
    return any(type(a) is ShapedArray and a.dtype in dtypes.WIDE for a in found)


def keeps_wide(f: Callable[Concatenate[Jaxpr, P], R]) -> Callable[Concatenate[Jaxpr, P], R]:
    """An evaluation of a jaxpr, within which NumPy's scalars of 64 bits are of 64 bits if the jaxpr has such values.

    Literals and the constants of rules are scalars of NumPy, which else become ones of 32 bits where `enable_x64` is off.
    """

    @functools.wraps(f)
    def evaluate(jaxpr: Jaxpr, *args: P.args, **kwargs: P.kwargs) -> R:
        options = config.options
        if (
            not ShapedArray.any_wide
            or options.enable_x64
            or options.explicit_x64_dtypes == "allow"
            or not _is_wide(jaxpr)
        ):
            return f(jaxpr, *args, **kwargs)
        with config.override(explicit_x64_dtypes="allow"):
            return f(jaxpr, *args, **kwargs)

    return evaluate
