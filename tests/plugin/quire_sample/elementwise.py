# quire_sample/elementwise.py
from typing import Any

from quire import lax
from quire.plugins import (
    FLOAT,
    ShapedArray,
    check_dtype,
    define_elementwise,
    define_jvp,
    lower_traced,
    primitive,
    reference,
    transpose,
)


@primitive("smoothstep", weight=4, rounding="approximate")
def smoothstep_p(x: ShapedArray) -> ShapedArray:
    """A smooth step from 0 to 1, ``x * x * (3 - 2 * x)``."""
    check_dtype("smoothstep", x, FLOAT)
    return x


def smoothstep(x: Any) -> Any:
    """What users call."""
    return smoothstep_p.bind(x)


@reference(smoothstep_p)
def by_numpy(x: Any) -> Any:
    return x * x * (3 - 2 * x)


def by_operations(x: Any) -> Any:
    return lax.mul(lax.square(x), lax.sub(3.0, lax.mul(2.0, x)))


lower_traced(by_operations, smoothstep_p)
define_jvp(smoothstep_p, lambda t, ans, x: lax.mul(t, lax.mul(6.0, lax.mul(x, lax.sub(1.0, x)))))
transpose.absent("not linear", smoothstep_p)
define_elementwise(smoothstep_p)
