"""The few names of `jax.interpreters.pxla` that libraries use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from quire.ir.avals import ShapedArray

from ..absent_names import module_getattr

Index = Any
MeshAxisName = Any

#: How the memory of results becomes arrays, by type. quire makes its arrays itself, and asks nothing here.
global_result_handlers: dict[type, Callable[..., Any]] = {ShapedArray: lambda *_, **__: lambda x: x}

__all__ = ["Index", "MeshAxisName", "global_result_handlers"]

__getattr__ = module_getattr("quire.interpreters.pxla", globals())
