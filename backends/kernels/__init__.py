"""quire's own kernels: a builder that writes ``stream.executable`` ops, and templates on it.

A template returns a :class:`Kernel`; ``kernel.insert(module)`` puts its text into the StableHLO module and
``kernel.call(operands, loc)`` emits the dispatch. Templates know nothing of quire's IR; ``loops`` and what it uses
translate jaxprs.
"""

from . import bitonic
from .attention import Rows
from .builder import KernelBuilder
from .complex_gemm import complex_dot
from .conv import Conv, Window, window
from .cumulative import cumulative
from .dot import Declined, attention_of, convolution, correlation, dot, reads_in_place, widens
from .dtypes import DTYPES, DType, dtype_of
from .epilogue import Epilogue
from .kernel import EMPTY, REASON, SERIAL, Kernel, KernelChain, Spec
from .ordering import sort, top_k
from .scatter import ScatterDims, scatter
from .target import CPU_AVX2, CPU_AVX512, CPU_BASELINE, GPU, KernelTarget

__all__ = [
    "CPU_AVX2",
    "CPU_AVX512",
    "CPU_BASELINE",
    "Conv",
    "DTYPES",
    "Declined",
    "DType",
    "EMPTY",
    "Epilogue",
    "GPU",
    "Kernel",
    "KernelChain",
    "KernelBuilder",
    "KernelTarget",
    "REASON",
    "Rows",
    "SERIAL",
    "ScatterDims",
    "Spec",
    "Window",
    "attention_of",
    "bitonic",
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
