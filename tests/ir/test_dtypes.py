"""dtypes: the promotion lattice against JAX's, in both modes of 64-bit dtypes; spellings and errors."""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from quire.ir import dtypes
from quire.ir.avals import ShapedArray, aval_of
from quire.ir.config import config

# JAX warns that a 64-bit dtype becomes a 32-bit one.
pytestmark = pytest.mark.filterwarnings("ignore:Explicitly requested dtype")
MODES = {"32-bit": False, "64-bit": True}


@pytest.fixture(params=MODES.values(), ids=MODES)
def mode(request):
    with config.override(enable_x64=request.param), jax.enable_x64(request.param):
        yield request.param


def test_operations_on_all_pairs_have_jax_s_dtype_and_weak_type(mode):
    kinds = sorted({(dtypes.canonicalize(d), weak) for d in dtypes.ALL for weak in (False, True)}, key=str)
    differences = []
    for a, b in itertools.product(kinds, kinds):
        x, y = (jax.ShapeDtypeStruct((2,), d, weak_type=weak) for d, weak in (a, b))
        out = jax.eval_shape(jnp.multiply, x, y)
        if dtypes.promote([a, b]) != (out.dtype, out.weak_type):
            differences.append((a, b, dtypes.promote([a, b]), (out.dtype, out.weak_type)))
    assert not differences


def test_promotion_of_three_is_that_of_pairs(mode):
    for a, b, c in itertools.product(dtypes.ALL, dtypes.ALL, (np.float16, np.int8, np.uint32, np.complex64)):
        want = jnp.result_type(a, b, c)
        assert dtypes.promote([(a, False), (b, False), (np.dtype(c), False)])[0] == want


def test_promote_types_and_result_type(mode):
    for a, b in itertools.product(dtypes.ALL, dtypes.ALL):
        assert dtypes.promote_types(a, b) == jnp.promote_types(a, b), (a, b)
        assert dtypes.promote([(a, False), (b, False)])[0] == jnp.result_type(a, b), (a, b)


@pytest.mark.parametrize("scalar", [True, 3, 2.5, 1j])
def test_python_scalars_are_weak(mode, scalar):
    for d in dtypes.ALL:
        d = dtypes.canonicalize(d)
        aval = aval_of(scalar)
        got = dtypes.promote([(d, False), (aval.dtype, aval.weak_type)])
        out = jax.eval_shape(lambda x: x * scalar, jax.ShapeDtypeStruct((2,), d))  # noqa: B023
        assert got == (out.dtype, out.weak_type), (d, scalar)


def test_strict_mode_names_the_dtypes():
    with config.override(numpy_dtype_promotion="strict"):
        with pytest.raises(TypeError, match=r"float32, int32 have no implicit promotion.*\.astype"):
            dtypes.promote([(dtypes.int32, False), (dtypes.float32, False)])
        weak = [(dtypes.float32, False), (dtypes.int32, True)]
        assert dtypes.promote(weak) == (dtypes.float32, False)


def test_spellings():
    for spelling, want in [
        ("bfloat16", dtypes.bfloat16), ("f32", dtypes.float32), (np.int8, dtypes.int8), (bool, dtypes.bool_),
        (float, dtypes.float64), (jnp.uint16, dtypes.uint16), (np.dtype("complex64"), dtypes.complex64),
    ]:  # fmt: skip
        assert dtypes.as_dtype(spelling) == want


def test_canonical_dtypes_and_the_error_of_others(mode):
    assert dtypes.canonicalize(float) == (dtypes.float64 if mode else dtypes.float32)
    assert dtypes.canonicalize(np.uint64) == (dtypes.uint64 if mode else dtypes.uint32)
    with pytest.raises(TypeError, match="dtype <U3 is not one quire has: bool, i8"):
        dtypes.canonicalize(np.dtype("U3"))


def test_avals_are_interned_and_check_python_ints():
    assert ShapedArray((2, 3), dtypes.float32) is ShapedArray((np.int64(2), 3), dtypes.float32)
    assert ShapedArray((2,), dtypes.float32).short() == "f32[2]"
    with pytest.raises(OverflowError, match="Python int 4294967296 is too large for int32; enable_x64"):
        aval_of(2**32)
    with pytest.raises(TypeError, match="'text' of type str is not an array"):
        aval_of("text")


def test_integers_have_tangents_of_no_information():
    assert ShapedArray((2,), dtypes.int32).tangent().dtype == dtypes.float0
    assert ShapedArray((2,), dtypes.float32, True).tangent() is ShapedArray((2,), dtypes.float32, True)
