"""quire's own kernels: a builder that writes ``stream.executable`` ops, and templates on it.

A template returns a :class:`Kernel`; ``kernel.insert(module)`` puts its text into the StableHLO module and
``kernel.call(operands, loc)`` emits the dispatch. Templates know nothing of quire's IR; ``loops`` and what it uses
translate jaxprs.
"""

from .core.builder import KernelBuilder
from .core.dtypes import DTYPES, DType, dtype_of
from .core.errors import NoKernel
from .core.kernel import EMPTY, REASON, SERIAL, Kernel, KernelChain, Spec
from .core.target import CPU_AVX2, CPU_AVX512, CPU_BASELINE, GPU, KernelTarget
from .indexing.scatter import scatter
from .ordering.choice import sort, top_k
from .products.attention_rows import AttentionRows
from .products.choice import attention_of, convolution, correlation, dot, reads_in_place, widens
from .products.complex_gemm import complex_dot
from .products.convolution import Conv, Window, window
from .products.epilogue import Epilogue
from .scans.cumulative import cumulative

__all__ = [
    "CPU_AVX2",
    "CPU_AVX512",
    "CPU_BASELINE",
    "Conv",
    "DTYPES",
    "DType",
    "EMPTY",
    "Epilogue",
    "GPU",
    "Kernel",
    "KernelChain",
    "KernelBuilder",
    "KernelTarget",
    "NoKernel",
    "REASON",
    "AttentionRows",
    "SERIAL",
    "Spec",
    "Window",
    "attention_of",
    "convolution",
    "correlation",
    "cumulative",
    "complex_dot",
    "dot",
    "dtype_of",
    "reads_in_place",
    "scatter",
    "sort",
    "top_k",
    "widens",
    "window",
]
