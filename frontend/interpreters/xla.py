"""The few names of `jax.interpreters.xla` that libraries use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from quire.ir.avals import aval_of
from quire.ir.primitive import Primitive
from quire.ir.tracing import no_trace
from quire.runtime.devices import first_cpu

from ..absent_names import module_getattr
from ..eager.evaluation import programs
from ..extend.backend import Backend
from .registries import values


def apply_primitive(prim: Primitive, *args: Any, **params: Any) -> Any:
    """A primitive's value by a compiled program of it alone: ``p.def_impl(partial(apply_primitive, p))``.

    Raises NotImplementedError where it has no lowering.
    """
    with no_trace():
        operands = values(args)
        device = next((d for d in (getattr(x, "_device", None) for x in operands) if d is not None), None)
        base = first_cpu() if device is None else device.base
        out = programs.get(prim, params, [aval_of(x) for x in operands], base)(operands)
    return out if prim.multiple_results else out[0]


#: How values of a type become operands. quire takes what has `aval`, `__array__` or a pytree's registration, and asks
#: nothing here; libraries that copy one entry to another find NumPy's.
canonicalize_dtype_handlers: dict[type, Callable[[Any], Any]] = {np.ndarray: np.asarray}
pytype_aval_mappings: dict[type, Callable[[Any], Any]] = {np.ndarray: aval_of}

__all__ = ["Backend", "apply_primitive", "canonicalize_dtype_handlers", "pytype_aval_mappings"]

__getattr__ = module_getattr("quire.interpreters.xla", globals())
