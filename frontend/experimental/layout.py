"""How arrays lie in memory (`jax.experimental.layout`): always row by row, the last axis innermost.

`Layout` and `Format` are taken where JAX takes them; a layout that is not row by row is an error.
"""

from __future__ import annotations

from typing import Any

from ..absent_names import module_getattr
from ..arrays.layouts import Format, Layout


def with_layout_constraint(x: Any, layouts: Any) -> Any:
    """The values as they are: they lie row by row, as any layout says that exists here.

    Follows `jax.experimental.layout.with_layout_constraint`.
    """
    return x


__all__ = ["Format", "Layout", "with_layout_constraint"]

__getattr__ = module_getattr("quire.experimental.layout", globals())
