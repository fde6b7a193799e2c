"""quire.dtypes, quire.dlpack, quire.errors: the names of JAX's modules and what they do."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import quire
import quire.numpy as qnp
from quire import dlpack, dtypes, errors
from quire.ir.config import config

jax = pytest.importorskip("jax")


def test_every_name_of_jax_is_there():
    import jax.dlpack
    import jax.dtypes
    import jax.errors

    for ours, theirs in ((dtypes, jax.dtypes), (dlpack, jax.dlpack), (errors, jax.errors)):
        absent = [n for n in dir(theirs) if not n.startswith("_") and not hasattr(ours, n)]
        assert absent == (["InconclusiveDimensionOperation"] if ours is errors else [])
    with pytest.raises(AttributeError, match="there are no symbolic dimensions"):
        _ = errors.InconclusiveDimensionOperation
    with pytest.raises(AttributeError, match="to_dlpack'?: arrays have __dlpack__"):
        _ = dlpack.to_dlpack


@pytest.mark.parametrize("d", ["bool", "int64", "uint8", "float16", "bfloat16", "float64", "complex128", float, int])
def test_dtypes_of_one(d):
    assert dtypes.canonicalize_dtype(d) == jax.dtypes.canonicalize_dtype(d)
    assert dtypes.itemsize_bits(d) == jax.dtypes.itemsize_bits(d)
    assert dlpack.is_supported_dtype(d) == jax.dlpack.is_supported_dtype(np.dtype(d))
    x = qnp.zeros(2, dtypes.canonicalize_dtype(d))
    assert dtypes.scalar_type_of(x) is jax.dtypes.scalar_type_of(np.asarray(x))
    for kind in (np.floating, np.integer, np.inexact, np.number, np.generic, np.bool_):
        assert dtypes.issubdtype(d, kind) == jax.dtypes.issubdtype(d, kind)
    assert not dtypes.issubdtype(d, dtypes.extended)


@pytest.mark.parametrize(
    "args",
    [
        (1, 2.0),
        (np.int32(1), 2.0),
        (np.float16(1), np.int32(2)),
        (float, np.int8),
        (True, 1),
        ("bfloat16", 1.0),
        (1j, np.float32),
    ],
)
def test_result_type(args):
    got = dtypes.result_type(*args, return_weak_type_flag=True)
    assert got == jax.dtypes.result_type(*args, return_weak_type_flag=True)
    assert dtypes.result_type(*args) == got[0]


def test_kinds():
    assert dtypes.issubdtype(dtypes.prng_key, dtypes.extended) and not dtypes.issubdtype(
        dtypes.extended, dtypes.prng_key
    )
    assert dtypes.issubdtype(dtypes.extended, np.generic)
    assert dtypes.float0 == jax.dtypes.float0
    assert dtypes.finfo("bfloat16").max == ml_dtypes.finfo(ml_dtypes.bfloat16).max
    assert dtypes.iinfo(np.int8).max == 127


def test_dlpack():
    x = np.arange(3, dtype=np.float32)
    np.testing.assert_array_equal(dlpack.from_dlpack(x), x)
    np.testing.assert_array_equal(np.from_dlpack(qnp.arange(3.0)), x)
    copied = dlpack.from_dlpack(x, copy=True)
    x[0] = 9
    assert copied[0] == 0
    assert dlpack.from_dlpack(x, device=quire.devices("cpu")[0])[0] == 9
    with pytest.raises(
        TypeError, match=r"quire\.dlpack\.from_dlpack: the array must have the methods __dlpack__ .* got list"
    ):
        dlpack.from_dlpack([1.0])


def test_errors_of_jax_by_their_names():
    for base, narrow in (
        (errors.JAXTypeError, errors.TracerArrayConversionError),
        (errors.JAXTypeError, errors.UnexpectedTracerError),
        (errors.JAXIndexError, errors.NonConcreteBooleanIndexError),
        (errors.JaxRuntimeError, errors.CompileError),
    ):
        assert issubclass(narrow, base)
    with pytest.raises(errors.JAXIndexError):
        quire.compile(lambda x: x[x > 0])(np.arange(3.0, dtype=np.float32))
    quire.config.update("numpy_dtype_promotion", "strict")
    try:
        with pytest.raises(dtypes.TypePromotionError, match="float32, int32 have no implicit promotion"):
            qnp.add(np.float32(1), np.int32(1))
    finally:
        quire.config.update("numpy_dtype_promotion", "standard")


ERRORS = [
    (lambda: dtypes.result_type(), ValueError, r"quire\.dtypes\.result_type: at least one array or dtype"),
    (lambda: dtypes.result_type("float31"), TypeError, r"quire\.dtypes\.result_type: .*float31"),
    (lambda: dtypes.canonicalize_dtype("U3"), TypeError, r"quire\.dtypes\.canonicalize_dtype: "),
    (lambda: dtypes.itemsize_bits("nothing"), TypeError, r"quire\.dtypes\.itemsize_bits: "),
    (lambda: dtypes.scalar_type_of([1]), TypeError, r"scalar_type_of: expected an array or a number, got list"),
]


@pytest.mark.parametrize(("f", "error", "text"), ERRORS)
def test_bad_input(f, error, text):
    with pytest.raises(error, match=text):
        f()


@pytest.mark.parametrize(
    "code", ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16", "b1", "?"]
)
def test_codes_of_dtypes_are_numpys(code):
    with config.override(enable_x64=True):
        assert qnp.zeros(2, code).dtype == np.dtype(code)


def test_dtypes_of_64_bits_are_not_the_weak_types_of_python():
    pairs = [
        (np.dtype("float64"), "float32"),
        (float, "float32"),
        (np.dtype("int64"), "int8"),
        (int, "int8"),
        (np.dtype("complex128"), "float32"),
    ]
    with quire.enable_x64(True), jax.enable_x64(True):
        for pair in pairs:
            assert str(quire.dtypes.result_type(*pair)) == str(jax.dtypes.result_type(*pair)), pair
            assert str(quire.numpy.result_type(*pair)) == str(jax.numpy.result_type(*pair)), pair
