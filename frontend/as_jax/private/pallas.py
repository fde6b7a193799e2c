"""`jax.experimental.pallas`: kernels written block by block for Triton and TPUs, which quire does not compile.

jax-md and others import the module, and call it on GPUs with XLA alone. Every name that is used refuses, with a reason.
"""

from __future__ import annotations

from typing import Any, NoReturn


def _refusal(name: str) -> Any:
    def refuse(*args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(
            f"jax.experimental.pallas.{name}: quire compiles no Pallas kernels; write the function with quire.numpy and "
            "quire.lax, or let the library use its form without kernels"
        )

    refuse.__name__ = refuse.__qualname__ = name
    refuse.__doc__ = f"`pallas.{name}` raises NotImplementedError."
    return refuse


pallas_call = _refusal("pallas_call")
program_id = _refusal("program_id")
num_programs = _refusal("num_programs")
load = _refusal("load")
store = _refusal("store")
swap = _refusal("swap")
when = _refusal("when")
cdiv = _refusal("cdiv")
ds = _refusal("ds")
dslice = _refusal("dslice")
dot = _refusal("dot")
atomic_add = _refusal("atomic_add")
BlockSpec = _refusal("BlockSpec")
GridSpec = _refusal("GridSpec")
CostEstimate = _refusal("CostEstimate")
CompilerParams = _refusal("CompilerParams")
