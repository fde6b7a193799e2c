"""Why a workload is slower than JAX, where it is: printed beside the measured ratios, so that no number is repeated."""

from __future__ import annotations

import fnmatch

_MEMORY = "one pass over memory in both libraries; from run to run the ratio is on either side of 1"
_GEMM = "at parity: from run to run the ratio is on either side of 1"
_EAGER = "the operation goes through the reference rule, whose checks and conversions cost more than the work"

REMARKS: tuple[tuple[str, str], ...] = (
    (
        "call/NumPy*",
        "both libraries copy an array whose address is no multiple of 64",
    ),
    ("call/*", "most of it is IREE's invocation"),
    ("startup/import and first call*", "IREE's fixed cost for any module, and the start of its process, are in it"),
    ("startup/first call*cold", "IREE's fixed cost for any module, and the rest of its process' start, are in it"),
    ("startup/compile*", "IREE runs several hundred passes over any module, whatever its size"),
    ("startup/*", "NumPy, optree and the rule tables are most of it"),
    ("trace/*", "passes are part of quire's lowering"),
    ("eager/matmul", "the reference rule brings operands into the form of dot_general before NumPy multiplies"),
    ("eager/*", _EAGER),
    ("elementwise/*", "the formulas for log, erf and the like are longer than XLA's and rounded more exactly"),
    ("reduction/*", _MEMORY),
    (
        "matmul/matrix by vector*",
        "six tilings of the kernel were tried and were within noise of each other",
    ),
    ("matmul/*", _GEMM),
    ("attention/*", "its two products"),
    ("conv/*", _GEMM),
    ("sort/top*", "the radix selection makes several passes, which small arrays do not repay"),
    (
        "index/scatter-add*",
        "the operand is copied in the same kernel",
    ),
    ("loop/*", "the whole loop is one kernel of one workgroup"),
    ("training/spectral*", "some 35 dispatches of which most are small"),
    ("training/*", "the sum of the contractions, convolutions and reductions above"),
    ("linalg/*", "a call of LAPACK from compiled code"),
)


def remark(title: str) -> str:
    """The sentence for a workload; empty where there is none."""
    return next((text for pattern, text in REMARKS if fnmatch.fnmatchcase(title, pattern)), "")
