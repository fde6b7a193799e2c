"""Which functions of quire.numpy run as eager programs (see `quire.eager.programs`) when called outside any trace.

Those that are several primitives; the functions call each other as they are, only the public names are programs.
"""

from __future__ import annotations

from typing import Any

from ..eager.programs import eager_program

#: The functions by how many of their first arguments are arrays or numbers; the others are static.
OPERANDS: dict[int, str] = {
    1: "mean var std sum prod max min amax amin ptp average nanmean nansum nanvar nanstd nanmax nanmin median nanmedian "
    "cumsum cumprod diff sort nan_to_num trace tril triu roll flip take sinc round around argmax argmin all any "
    "count_nonzero diagonal isposinf isneginf modf frexp",
    2: "matmul dot vdot inner outer tensordot cross kron vecdot matvec vecmat floor_divide remainder mod divmod fmod "
    "isclose allclose quantile percentile hypot heaviside float_power polyval convolve correlate",
    3: "where clip interp",
}


def make_programs(namespace: dict[str, Any]) -> None:
    """Replace the functions of the table in the package's namespace by their eager programs."""
    for operands, names in OPERANDS.items():
        for name in names.split():
            namespace[name] = eager_program(operands)(namespace[name])
