"""How arrays are printed: `repr`, `str` and `format` give JAX's text."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

import quire
import quire.numpy as qnp

ARRAYS = [
    np.float32(1.5), np.int32(3), np.array(True), np.array(2 + 3j, np.complex64), np.arange(3), np.array([1 + 2j]), np.array([True]),
    np.ones((2, 3), np.float32) * 1e-8, np.arange(2000).reshape(40, 50), np.arange(1001), np.arange(30) * 1.1, np.arange(12).reshape(2, 2, 3) * 1.5,
    np.zeros((0, 3)), np.zeros((2, 0, 3), np.int8), np.array([np.nan, np.inf]), np.array([1e10, 1.0]), np.array([1.5, 2], jnp.bfloat16),
    np.arange(20, dtype=np.uint8), np.arange(3, dtype=np.float16) / 3,
]  # fmt: skip
SPECS = ["", ".3f", "d", "e", ">10", "08.2f", "g", "%", "s", "x"]


@pytest.mark.parametrize("x", ARRAYS, ids=lambda x: f"{x.dtype.name}{np.shape(x)}")
def test_arrays(x):
    want, mine = jnp.asarray(x), qnp.asarray(x)
    assert repr(mine) == repr(want) and str(mine) == str(want) and f"{mine!r:>9}" == f"{want!r:>9}"
    assert qnp.array_repr(mine) == repr(want) and qnp.array_str(mine) == str(want)
    with np.printoptions(precision=2, suppress=True, linewidth=40):
        assert repr(mine) == repr(want)


def formatted(x, spec):
    try:
        return format(x, spec)
    except (TypeError, ValueError) as error:
        return type(error)


@pytest.mark.parametrize("spec", SPECS)
def test_formats(spec):
    for x in (1.5, 3, True, 2 + 3j, np.float32(2.25), np.int8(7), np.ones(2), np.arange(3)):
        assert formatted(qnp.asarray(x), spec) == formatted(jnp.asarray(x), spec), x


def test_numbers_in_text():
    text = "%s %d %.2f %r"
    numbers = (1.5, 3, 2.5, 1)
    assert text % tuple(map(qnp.asarray, numbers)) == text % tuple(map(jnp.asarray, numbers))


def test_options_of_array_repr():
    x = qnp.array([0.123456, 1e-9])
    assert qnp.array_repr(x, precision=2, suppress_small=True) == "Array([0.12, 0.  ], dtype=float32)"
    assert qnp.array_repr(qnp.arange(9), max_line_width=20).count("\n") == 2
    assert qnp.array_str(x, precision=2, suppress_small=True) == "[0.12 0.  ]"


def test_traced_values_show_their_type():
    @quire.jit
    def f(x):
        assert repr(x) == str(x) == f"{x}" == "Traced<f32[2]>"
        return x

    f(qnp.ones(2))
