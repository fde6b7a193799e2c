"""quire's own kernels: a builder that writes ``stream.executable`` ops, and templates on it.

A template returns a :class:`Kernel`; ``kernel.insert(module)`` puts its text into the StableHLO module and
``kernel.call(operands, loc)`` emits the dispatch. Nothing here knows of quire's IR.
"""

from . import bitonic
from .builder import KernelBuilder
from .cumulative import cumulative
from .dtypes import DTYPES, DType, dtype_of
from .kernel import EMPTY, Kernel, KernelChain, Spec
from .ordering import sort, top_k
from .scatter import ScatterDims, scatter
from .target import CPU_AVX2, CPU_AVX512, CPU_BASELINE, GPU, KernelTarget

__all__ = [
    "CPU_AVX2",
    "CPU_AVX512",
    "CPU_BASELINE",
    "DTYPES",
    "DType",
    "EMPTY",
    "GPU",
    "Kernel",
    "KernelChain",
    "KernelBuilder",
    "KernelTarget",
    "ScatterDims",
    "Spec",
    "bitonic",
    "cumulative",
    "dtype_of",
    "scatter",
    "sort",
    "top_k",
]
