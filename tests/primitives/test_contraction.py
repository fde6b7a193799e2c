"""Contractions: compiled against the reference against JAX, over dtypes, layouts and edge values; type errors."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from quire.ir import dtypes
from quire.ir.avals import ShapedArray
from quire.ir.config import config
from quire.ir.primitives import contraction as ct
from tests.helpers import Case, check

RNG = np.random.default_rng(0)
# Sums of up to a few dozen products of values near 1, in another order: some roundings of the largest partial sum.
TOL = {
    "float16": (5e-3, 2e-2), "bfloat16": (2e-2, 1e-1), "float32": (1e-5, 1e-5), "float64": (1e-12, 1e-12),
    "complex64": (1e-5, 2e-5), "complex128": (1e-12, 1e-12),
}  # fmt: skip


def values(shape, dtype):
    dtype = np.dtype(dtype)
    if dtype == np.bool_:
        return RNG.integers(0, 2, shape).astype(bool)
    if dtype.kind in "iu":
        info = np.iinfo(dtype)  # the whole range: products and sums wrap
        return RNG.integers(info.min, info.max, shape, dtype, endpoint=True)
    if dtype.kind == "c":
        return (RNG.normal(size=shape) + 1j * RNG.normal(size=shape)).astype(dtype)
    return RNG.normal(size=shape).astype(dtype)


def dot_case(name, x_shape, y_shape, dn, dtype, y_dtype=None, preferred=None, x=None, y=None):
    x = values(x_shape, dtype) if x is None else x
    y = values(y_shape, y_dtype or dtype) if y is None else y
    options = {} if preferred is None else {"preferred_element_type": np.dtype(preferred)}
    rtol, atol = TOL.get(np.dtype(preferred or dtype).name, (None, None))
    return Case(
        f"{name} {np.dtype(dtype).name} {preferred or ''}",
        lambda a, b: ct.dot_general(a, b, dn, **options),
        [x, y],
        lambda a, b: lax.dot_general(a, b, dn, **options),
        rtol, atol,
    )  # fmt: skip


FORMS = {
    "mm": ((4, 5), (5, 6), (((1,), (0,)), ((), ()))),
    "tn": ((5, 4), (5, 6), (((0,), (0,)), ((), ()))),
    "nt": ((4, 5), (6, 5), (((1,), (1,)), ((), ()))),
    "vector": ((5,), (5,), (((0,), (0,)), ((), ()))),
    "outer": ((3,), (4,), (((), ()), ((), ()))),
    "batch": ((3, 4, 5), (3, 5, 6), (((2,), (1,)), ((0,), (0,)))),
    "inner batch": ((4, 3, 5), (5, 6, 3), (((2,), (0,)), ((1,), (2,)))),
    "two": ((2, 3, 4), (4, 5, 3), (((1, 2), (2, 0)), ((), ()))),
    "batches": ((2, 3, 4), (3, 4, 2), (((2,), (1,)), ((0, 1), (2, 0)))),
    "empty inner": ((4, 0), (0, 6), (((1,), (0,)), ((), ()))),
    "empty": ((0, 5), (5, 6), (((1,), (0,)), ((), ()))),
    "scalar": ((), (), (((), ()), ((), ()))),
    "one": ((1, 1), (1, 1), (((1,), (0,)), ((), ()))),
}
NARROW = ["bool", "int8", "int16", "int32", "uint8", "uint16", "uint32", "float16", "bfloat16", "float32", "complex64"]


def test_dot_general_forms():
    check([dot_case(name, *form, "float32") for name, form in FORMS.items()])


def test_dot_general_dtypes():
    cases = [dot_case("mm", *FORMS["mm"], dtypes.as_dtype(d)) for d in NARROW]
    cases += [dot_case("batch", *FORMS["batch"], dtypes.as_dtype(d)) for d in NARROW]
    check(cases)


def test_dot_general_64_bit():
    with jax.enable_x64(True), config.override(enable_x64=True):
        dtypes64 = ["int64", "uint64", "float64", "complex128"]
        cases = [dot_case(f, *FORMS[f], d) for f in ("mm", "batch") for d in dtypes64]
        cases += [dot_case("mm", *FORMS["mm"], "float32", preferred="float64")]
        cases += [dot_case("mm", *FORMS["mm"], "uint32", preferred="uint64")]
        check(cases)


def test_dot_general_of_complex_matrices():
    """Large enough for the kernel, in all layouts, and one that is not."""
    forms = {
        "nn": ((40, 33), (33, 21), (((1,), (0,)), ((), ()))),
        "tn": ((33, 40), (33, 21), (((0,), (0,)), ((), ()))),
        "nt": ((40, 33), (21, 33), (((1,), (1,)), ((), ()))),
        "batch in the middle": ((20, 3, 33), (33, 21, 3), (((2,), (0,)), ((1,), (2,)))),
        "two summed": ((5, 20, 7), (7, 30, 5), (((0, 2), (2, 0)), ((), ()))),
        "vector": ((64, 65), (65,), (((1,), (0,)), ((), ()))),
        "few": ((3, 4), (4, 2), (((1,), (0,)), ((), ()))),
    }
    check([dot_case(name, *form, "complex64") for name, form in forms.items()])
    with jax.enable_x64(True), config.override(enable_x64=True):
        check([dot_case(name, *forms[name], "complex128") for name in ("nn", "tn", "batch in the middle")])


def test_dot_general_preferred_types():
    pairs = [
        ("int8", "int32"), ("int8", "int16"), ("uint8", "uint32"), ("uint8", "int32"), ("uint16", "uint32"),
        ("int16", "int32"), ("float16", "float32"), ("bfloat16", "float32"), ("float32", "float16"),
        ("int8", "float32"), ("uint8", "float32"), ("int32", "float32"), ("uint32", "float32"),
    ]  # fmt: skip
    cases = []
    for d, p in pairs:
        c = dot_case("mm", *FORMS["mm"], dtypes.as_dtype(d), preferred=dtypes.as_dtype(p))
        if d == "int32" or d == "uint32":
            c.rtol, c.atol = 1e-5, 1e13  # sums of products near 2^60
        cases.append(c)
    check(cases)


def test_dot_general_of_two_dtypes():
    pairs = [
        ("int8", "float32"),
        ("uint8", "int8"),
        ("float16", "float32"),
        ("float32", "complex64"),
        ("bool", "int32"),
    ]
    check([dot_case("mixed", *FORMS["mm"], dtypes.as_dtype(a), dtypes.as_dtype(b)) for a, b in pairs])


def test_operands_of_two_dtypes_keep_their_numbers():
    """4099 is no float16 and 257 no bfloat16; converting integers to bfloat16 in a product called what is not linked."""
    largest = {
        "int32": 4099,
        "int16": 4099,
        "uint16": 40001,
        "uint8": 251,
        "int8": -127,
        "float16": 1 + 2**-10,
        "bfloat16": 1 + 2**-7,
    }
    pairs = [
        ("int32", "float16", "float32"), ("bfloat16", "int32", "float32"), ("int16", "bfloat16", "float32"),
        ("float16", "bfloat16", "float32"), ("uint16", "int16", "int32"), ("int8", "uint16", "int32"),
        ("uint8", "int8", "int32"), ("int8", "int32", "int32"),
    ]  # fmt: skip
    cases = []
    for a, b, p in pairs:
        for form in ("mm", "outer", "batch"):
            x_shape, y_shape, dn = FORMS[form]
            x, y = (np.full(s, largest[d]).astype(dtypes.as_dtype(d)) for s, d in ((x_shape, a), (y_shape, b)))
            cases.append(dot_case(f"{form} {b}", x_shape, y_shape, dn, x.dtype, preferred=dtypes.as_dtype(p), x=x, y=y))
    check(cases)


def test_a_conversion_from_unsigned_stays_unsigned():
    """IREE folds the conversion into the contraction and extends the sign: 200 would become -56."""
    from quire.ir.primitives import elementwise as ew
    from quire.ir.primitives import structural as st

    x, w = np.array([[200, 3], [255, 128]], np.uint8), values((2, 4), np.float32)

    def direct(x, w):
        return ct.matmul(ew.convert_element_type(x, np.float32), w)

    def through_transpose(x, w):
        return ct.matmul(st.transpose(ew.convert_element_type(x, np.float32), (1, 0)), w)

    f32 = np.float32
    check([
        Case("direct", direct, [x, w], lambda x, w: x.astype(f32) @ w, 1e-5, 1e-4),
        Case("transposed", through_transpose, [x, w], lambda x, w: x.T.astype(f32) @ w, 1e-5, 1e-4),
    ])  # fmt: skip


def test_dot_general_special_values():
    x = np.array([[np.inf, 1, 0], [np.nan, 0, 1], [0, 0, 0], [-np.inf, 1, 3e38]], np.float32)
    y = np.array([[1, 0, -1], [2, -np.inf, 3], [1, 1, 3e38]], np.float32)
    check([dot_case("specials", None, None, FORMS["mm"][2], "float32", x=x, y=y)])


def test_half_precision_accumulates_in_f32():
    """1 + 4096 * 2^-12: in f16 every addend would be lost."""
    x = np.full((1, 4097), 2.0**-12, np.float16)
    x[0, 0] = 1
    check([Case("sum", lambda a, b: ct.matmul(a, b), [x, np.ones((4097, 1), np.float16)],
                lambda a, b: np.array([[2.0]], np.float16))])  # fmt: skip


# -- convolution --------------------------------------------------------------------------------------------------------


def conv_case(name, x_shape, k_shape, dtype="float32", **options):
    strides = options.pop("window_strides", (1,) * (len(x_shape) - 2))
    padding = options.pop("padding", "SAME")
    x, k = values(x_shape, dtype), values(k_shape, dtype)
    out = np.dtype(options.get("preferred_element_type", dtype)).name
    rtol, atol = TOL.get(out, (None, None))
    return Case(
        f"{name} {np.dtype(dtype).name}",
        lambda a, b: ct.conv_general_dilated(a, b, strides, padding, **options),
        [x, k],
        lambda a, b: lax.conv_general_dilated(jnp.asarray(a), jnp.asarray(b), strides, padding, **options),
        rtol, atol,
    )  # fmt: skip


NHWC = ("NHWC", "HWIO", "NHWC")


def test_convolution_forms():
    check([
        conv_case("nchw", (2, 3, 7, 6), (4, 3, 3, 3)),
        conv_case("nhwc", (2, 7, 6, 3), (3, 3, 3, 4), dimension_numbers=NHWC),
        conv_case("hwcn", (7, 6, 3, 2), (3, 3, 3, 4), dimension_numbers=("HWCN", "HWIO", "WHNC")),
        conv_case("1d", (2, 3, 9), (4, 3, 4), padding="VALID"),
        conv_case("3d", (2, 2, 4, 5, 3), (3, 2, 2, 3, 1)),
        conv_case("0d", (2, 3), (4, 3)),
        conv_case("stride", (2, 3, 7, 6), (4, 3, 3, 2), window_strides=(2, 3)),
        conv_case("same lower", (2, 3, 7, 6), (4, 3, 2, 4), padding="SAME_LOWER", window_strides=(1, 2)),
        conv_case("pads", (2, 3, 7, 6), (4, 3, 3, 2), padding=[(2, 0), (1, 4)]),
        conv_case("negative", (2, 3, 7, 6), (4, 3, 3, 2), padding=[(-1, 2), (1, -2)]),
        conv_case("negative dilated", (2, 3, 7, 6), (4, 3, 3, 2), padding=[(-2, 2), (0, -1)], lhs_dilation=(2, 3)),
        conv_case("lhs dilation", (2, 3, 5, 4), (4, 3, 3, 3), padding=[(1, 2), (2, 1)], lhs_dilation=(2, 3)),
        conv_case("rhs dilation", (2, 3, 9, 8), (4, 3, 3, 2), padding="SAME", rhs_dilation=(2, 3)),
        conv_case("groups", (2, 6, 5, 5), (4, 3, 3, 3), feature_group_count=2),
        conv_case("depthwise", (2, 4, 5, 5), (8, 1, 3, 3), feature_group_count=4),
        conv_case("batch groups", (4, 3, 5, 5), (6, 3, 3, 3), batch_group_count=2),
        conv_case("1x1", (2, 3, 5, 5), (4, 3, 1, 1)),
        conv_case("empty batch", (0, 3, 5, 5), (4, 3, 3, 3)),
        conv_case("no features", (2, 0, 5, 5), (4, 0, 3, 3)),
        conv_case("too small", (2, 3, 2, 2), (4, 3, 3, 3), padding="VALID"),
    ])  # fmt: skip


def test_convolution_dtypes():
    cases = [conv_case("nchw", (2, 3, 5, 5), (4, 3, 3, 3), dtypes.as_dtype(d)) for d in NARROW if d != "bool"]
    wide = [("int8", "int32"), ("uint8", "int32"), ("bfloat16", "float32"), ("float16", "float32")]
    for d, p in wide:
        p = dtypes.as_dtype(p)
        cases.append(conv_case("wide", (2, 3, 5, 5), (4, 3, 3, 3), dtypes.as_dtype(d), preferred_element_type=p))
    cases.append(conv_case("u8 groups", (2, 4, 5, 5), (4, 2, 3, 3), np.uint8, feature_group_count=2))
    for d in (dtypes.float16, dtypes.bfloat16):
        cases.append(conv_case("depthwise", (2, 4, 5, 5), (4, 1, 3, 3), d, feature_group_count=4))
    cases.append(conv_case("cut c64", (2, 3, 5, 5), (4, 3, 3, 3), np.complex64, padding=[(-1, 1), (1, -1)]))
    check(cases)


def test_convolution_64_bit():
    with jax.enable_x64(True), config.override(enable_x64=True):
        cases = [conv_case("nhwc", (2, 5, 5, 3), (3, 3, 3, 4), d, dimension_numbers=NHWC)
                 for d in ("int64", "uint64", "float64", "complex128")]  # fmt: skip
        cases.append(conv_case("cut", (2, 3, 5, 5), (4, 3, 3, 3), "complex128", padding=[(-1, 1), (1, -1)]))
        check(cases)


# -- type rules -----------------------------------------------------------------------------------------------------------


def aval(shape, dtype=np.float32):
    return ShapedArray(shape, np.dtype(dtype))


DOT = {"precision": None, "preferred_element_type": None}


@pytest.mark.parametrize(
    "x, y, dn, message",
    [
        (aval((3, 4)), aval((5, 6)), (((1,), (0,)), ((), ())),
         r"dot_general: contracting dimensions must have the same sizes, got \(4,\) \(dimensions \(1,\) of lhs f32\[3,4\]\) "
         r"and \(5,\) \(dimensions \(0,\) of rhs f32\[5,6\]\)"),
        (aval((3, 4)), aval((4, 6)), (((2,), (0,)), ((), ())), r"dot_general: the lhs dimensions, contracting \(2,\)"),
        (aval((3, 4)), aval((3, 4)), (((1,), (1,)), ((1,), (0,))), "must be distinct"),
        (aval((3, 4)), aval((5, 4), np.float16), (((1,), (1,)), ((0,), (0,))), r"batch dimensions .* \(3,\) .* \(5,\)"),
    ],
)  # fmt: skip
def test_dot_general_errors(x, y, dn, message):
    with pytest.raises(TypeError, match=message):
        ct.dot_general_p.infer([x, y], {"dimension_numbers": dn, **DOT})


def test_preferred_element_type_errors():
    dn = (((1,), (0,)), ((), ()))
    with pytest.raises(TypeError, match="preferred_element_type int8 is narrower than the operands' dtype int32"):
        params = {**DOT, "dimension_numbers": dn, "preferred_element_type": np.dtype(np.int8)}
        ct.dot_general_p.infer([aval((2, 2), np.int32)] * 2, params)


@pytest.mark.parametrize(
    "x, k, options, message",
    [
        (
            (1, 3, 5, 5),
            (4, 2, 3, 3),
            {},
            r"has 3 features \(dimension 1\), rhs f32\[4,2,3,3\] takes 2 \(dimension 1\) times",
        ),
        (
            (1, 4, 5, 5),
            (3, 2, 3, 3),
            {"feature_group_count": 2},
            "feature_group_count 2 must divide the 3 output features",
        ),
        ((3, 4, 5, 5), (4, 4, 3, 3), {"batch_group_count": 2}, "batch_group_count 2 must divide the batch of 3"),
        ((1, 3, 5), (4, 3, 3, 3), {}, "must have one rank"),
        ((1, 3, 5, 5), (4, 3, 3, 3), {"window_strides": (1,)}, "must have 2 entries"),
        ((1, 3, 5, 5), (4, 3, 3, 3), {"window_strides": (0, 1)}, "window_strides .* must be positive"),
        ((1, 3, 5, 5), (4, 3, 3, 3), {"dimension_numbers": ("NCHW", "OIHX", "NCHW")}, "the spatial letters"),
        ((1, 3, 5, 5), (4, 3, 3, 3), {"dimension_numbers": ("NCHW", "OOHW", "NCHW")}, "4 different letters"),
    ],
)
def test_convolution_errors(x, k, options, message):
    import quire.eager.evaluation  # noqa: F401

    options = {"window_strides": (1, 1), "padding": [(0, 0), (0, 0)], **options}
    with pytest.raises((TypeError, ValueError), match=message):
        ct.conv_general_dilated(np.zeros(x, np.float32), np.zeros(k, np.float32), **options)


def test_precision_names():
    high = ct.Precision.HIGH
    assert ct.canonicalize_precision("tensorfloat32") == (high, high)
    assert ct.canonicalize_precision(("highest", None)) == (ct.Precision.HIGHEST, ct.Precision.DEFAULT)
    with config.override(default_matmul_precision="high"):
        assert ct.canonicalize_precision(None) == (high, high)
    with pytest.raises(ValueError, match="precision: got 'exact', expected"):
        ct.canonicalize_precision("exact")
