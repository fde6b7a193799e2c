"""`pjit`, the older name of `jit`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..compiling.api import jit
from ..compiling.compiled_function import CompiledFunction
from ..compiling.shardings import UNSAID


def pjit(
    fun: Callable[..., Any],
    in_shardings: Any = UNSAID,
    out_shardings: Any = UNSAID,
    static_argnums: Any = None,
    static_argnames: Any = None,
    donate_argnums: Any = None,
    donate_argnames: Any = None,
    **options: Any,
) -> CompiledFunction:
    """`quire.jit`, whose PartitionSpecs mean the mesh of a block ``with mesh:`` too, as in programs from before `set_mesh`.

    There, None in place of a sharding means that the array is whole on each device of the mesh; without a block, that it lies
    where it is, as in `jit`.

    Follows `jax.experimental.pjit.pjit`; arguments and errors are those of `quire.jit`.

    >>> import numpy as np
    >>> from quire.experimental.pjit import pjit
    >>> from quire.sharding import Mesh, PartitionSpec as P
    >>> with Mesh(np.array(quire.devices()[:1]), ("x",)):
    ...     print(pjit(lambda x: 2 * x, in_shardings=P("x"), out_shardings=P("x"))(quire.numpy.arange(3)))
    [0 2 4]
    """
    return jit(
        fun,
        in_shardings=in_shardings,
        out_shardings=out_shardings,
        static_argnums=static_argnums,
        static_argnames=static_argnames,
        donate_argnums=donate_argnums,
        donate_argnames=donate_argnames,
        mesh_of_block=True,
        **options,
    )


__all__ = ["pjit"]
