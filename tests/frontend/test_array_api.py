"""quire.numpy against the Array API standard 2024.12: names, signatures, dtypes and values of array_api_strict.

The strict namespace refuses the dtypes that the standard leaves open, so that each function is compared on exactly
those that it must take.
"""

from __future__ import annotations

import inspect
import warnings
from enum import Enum
from typing import Any

import array_api_strict as xp
import numpy as np
import pytest

import quire
import quire.numpy as qnp

pytestmark = pytest.mark.usefixtures("x64")
xp.set_array_api_strict_flags(api_version="2024.12")

NOT_STANDARD = "ArrayAPIStrictFlags Device ModuleType get_array_api_strict_flags reset_array_api_strict_flags set_array_api_strict_flags"
NAMES = [n for n in dir(xp) if not n.startswith("_") and n not in NOT_STANDARD.split()]
NEWER = ("broadcast_shapes", "isin")  # of the standard 2025.12
FUNCTIONS = [n for n in NAMES if inspect.isfunction(getattr(xp, n)) and n not in NEWER]
DTYPES = [
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64", "complex64", "complex128",
]  # fmt: skip
EDGES = {
    "b": [True, False, True, False],
    "i": [0, 1, -1, 5, -7, 3, 120, -128],
    "u": [0, 1, 5, 7, 3, 200, 2, 9],
    "f": [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 1.5, 3.25, np.inf, -np.inf, np.nan, 20.0],
    "c": [0, 1, -1 + 1j, 2.5 - 3j, 1j, 0.5, -2, 3 + 4j],
}
TOLERANCE = {"float32": 3e-6, "float64": 1e-12, "complex64": 5e-6, "complex128": 1e-12}


def edges(dtype: str, finite: bool = False) -> Any:
    x = np.array(EDGES[np.dtype(dtype).kind]).astype(dtype)
    return x[np.isfinite(x)] if finite else x


def unwrapped(x: Any) -> Any:
    if isinstance(x, tuple | list):
        return [unwrapped(v) for v in x]
    if isinstance(x, np.dtype) or type(x).__name__ == "DType":
        return str(x).rsplit(".")[-1]
    return np.asarray(x) if hasattr(x, "shape") else x


def outcome(namespace: Any, name: str, args: Any, kwargs: Any) -> Any:
    def convert(x: Any) -> Any:
        if isinstance(x, np.ndarray):
            return namespace.asarray(x)
        if isinstance(x, np.dtype):
            return getattr(namespace, x.name)
        if isinstance(x, slice):
            return x
        return type(x)(map(convert, x)) if isinstance(x, tuple | list) else x

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        out = getattr(namespace, name)(*map(convert, args), **{k: convert(v) for k, v in kwargs.items()})
        return unwrapped(out)


# The sign of a zero: of sign(-0.0) and of equal zeros the standard leaves it open; division toward minus infinity is JAX's.
ZEROS = ("sign", "maximum", "minimum", "clip", "floor_divide", "remainder")


def different(got: Any, want: Any, zeros: bool) -> str:
    if isinstance(want, list):
        if len(got) != len(want):
            return f"{len(got)} results, want {len(want)}"
        return "; ".join(filter(None, [different(g, w, zeros) for g, w in zip(got, want)]))
    if not isinstance(want, np.ndarray):
        return "" if got == want else f"{got!r}, want {want!r}"
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"{got.dtype}{list(got.shape)}, want {want.dtype}{list(want.shape)}"
    tolerance = TOLERANCE.get(want.dtype.name, 0)
    same = np.allclose(got, want, rtol=tolerance, atol=tolerance, equal_nan=True)
    signs = zeros or want.dtype.kind != "f" or np.array_equal(np.signbit(got[want == 0]), np.signbit(want[want == 0]))
    return "" if same and signs else f"{got!r}, want {want!r}"


# Positions are of JAX's dtype, that of the searched array's size, and not of the default one of integers.
POSITIONS = ("searchsorted",)


def agree(calls: list[Any]) -> int:
    """Compare every call that the strict namespace accepts; how many there were."""
    wrong, count = [], 0
    for name, args, kwargs in calls:
        try:
            want = outcome(xp, name, args, kwargs)
            want = want.astype(np.int32) if name in POSITIONS else want
        except (TypeError, ValueError):
            continue
        count += 1
        try:
            difference = different(outcome(qnp, name, args, kwargs), want, name in ZEROS)
        except Exception as error:
            difference = f"{type(error).__name__}: {error}"
        if difference:
            shown = [f"{a.dtype}{list(a.shape)}" if isinstance(a, np.ndarray) else a for a in args]
            wrong.append(f"{name}({shown}, {kwargs}): {difference}")
    assert not wrong, f"{len(wrong)} of {count}:\n" + "\n".join(wrong)
    return count


# -- names and signatures ---------------------------------------------------------------------------------------------


def test_every_name_is_there():
    assert [n for n in NAMES if not hasattr(qnp, n)] == []
    assert qnp.__array_api_version__ == "2024.12"


# Defaults that are not the standard's, as in JAX, and mean the same: None for 1, False, 0, and for "copies or not".
DEFAULTS = [
    "arange.step",
    "argmax.keepdims",
    "argmin.keepdims",
    "std.correction",
    "var.correction",
    "astype.copy",
    "asarray.copy",
]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_signature(name):
    """Every parameter of the standard can be given as it says, and has its default."""
    want, got = (list(inspect.signature(getattr(m, name)).parameters.values()) for m in (xp, qnp))
    by_name = {p.name: p for p in got}
    free = any(p.kind is p.VAR_KEYWORD for p in got)
    for i, p in enumerate(want):
        if p.kind in (p.POSITIONAL_ONLY, p.VAR_POSITIONAL):
            assert got[i].kind is not p.KEYWORD_ONLY and (p.kind is p.POSITIONAL_ONLY or got[i].kind is p.kind), p
            continue
        assert free or p.name in by_name, p
        mine = by_name.get(p.name)
        if mine is None:
            continue
        assert mine.kind in (p.kind, p.POSITIONAL_OR_KEYWORD), p
        if p.kind is p.POSITIONAL_OR_KEYWORD:
            assert got[i].name == p.name
        if not (isinstance(p.default, Enum) or f"{name}.{p.name}" in DEFAULTS or p.default is p.empty):
            assert mine.default == p.default, p


def test_the_namespace_describes_itself():
    info, want = qnp.__array_namespace_info__(), xp.__array_namespace_info__()
    assert set(info.capabilities()) == set(want.capabilities())
    for kind in (
        None,
        "bool",
        "signed integer",
        "unsigned integer",
        "integral",
        "real floating",
        "complex floating",
        "numeric",
        ("bool", "integral"),
    ):
        assert {k: v.name for k, v in info.dtypes(kind=kind).items()} == {k: k for k in want.dtypes(kind=kind)}
    assert {k: v.name for k, v in info.default_dtypes().items()} == {
        k: str(v).rsplit(".")[-1] for k, v in want.default_dtypes().items()
    }
    assert info.default_device() in info.devices() and quire.devices()[0] in info.devices()
    with pytest.raises(ValueError, match="dtypes: unknown kind 'letters': expected one of bool"):
        info.dtypes(kind="letters")


def test_dtypes_of_a_namespace_without_64_bits():
    with quire.config.override(enable_x64=False):
        assert "float64" not in qnp.__array_namespace_info__().dtypes()
        assert qnp.__array_namespace_info__().default_dtypes()["integral"] == np.int32


def test_array_objects():
    x = qnp.ones((2, 3))
    own = [
        m for m in dir(type(xp.ones(2))) if not m.startswith("_") or m.startswith("__") and m[2:-2] in OPERATORS.split()
    ]
    assert [m for m in own if not hasattr(x, m)] == []
    assert x.__array_namespace__() is qnp and x.__array_namespace__(api_version="2024.12") is qnp
    with pytest.raises(ValueError, match="'2030.12' is not known"):
        x.__array_namespace__(api_version="2030.12")
    assert x.to_device(x.device).device == x.device and x.mT.shape == (3, 2)
    with pytest.raises(NotImplementedError, match="Array.to_device: the argument stream"):
        x.to_device(x.device, stream=1)


OPERATORS = """abs add and array_namespace bool complex dlpack dlpack_device eq float floordiv ge getitem gt index int invert le lshift lt
matmul mod mul ne neg or pos pow rshift setitem sub truediv xor"""


# -- elementwise functions --------------------------------------------------------------------------------------------

UNARY = """abs acos acosh asin asinh atan atanh bitwise_invert ceil conj cos cosh exp expm1 floor imag isfinite isinf isnan log log10 log1p
log2 logical_not negative positive real reciprocal round sign signbit sin sinh sqrt square tan tanh trunc""".split()
BINARY = """add atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor copysign divide equal floor_divide greater
greater_equal hypot less less_equal logaddexp logical_and logical_or logical_xor maximum minimum multiply nextafter not_equal pow remainder
subtract""".split()


@pytest.mark.parametrize("name", UNARY)
def test_unary(name):
    assert agree([(name, [edges(d)], {}) for d in DTYPES])


def pairs(name: str, d: str) -> tuple[Any, Any]:
    x = edges(d)
    y = x
    if name in ("floor_divide", "remainder") and x.dtype.kind in "iu":
        y = x[x != 0]
    if name in ("floor_divide", "remainder") and x.dtype.kind == "f":
        x, y = edges(d, True), edges(d, True)[edges(d, True) != 0]
    if name == "pow" and x.dtype.kind in "iu":
        x, y = x[(x < 6) & (x > -6)], np.array([0, 1, 2, 3]).astype(d)
    if name == "pow" and x.dtype.kind == "c":
        x, y = x[1:], y[1:]
    if "shift" in name and x.dtype.kind in "iu":
        y = np.array([0, 1, 3, 6]).astype(d)
    return x[:, None], y


@pytest.mark.parametrize("name", BINARY)
def test_binary(name):
    calls = [(name, list(pairs(name, d)), {}) for d in DTYPES]
    mixed = [
        ("int8", "int32"),
        ("uint8", "int16"),
        ("float32", "float64"),
        ("float32", "complex128"),
        ("uint8", "uint64"),
    ]
    if name not in ("pow", "floor_divide", "remainder") and "shift" not in name:
        calls += [(name, [edges(a)[:4], edges(b)[:4]], {}) for a, b in mixed]
        calls += [
            (name, [edges("float32"), 2.0], {}),
            (name, [2, edges("int8")], {}),
            (name, [edges("int16"), edges("int16")[:0].reshape(0, 1)], {}),
        ]
    assert agree(calls)


def test_clip():
    x = edges("float32")
    assert (
        agree([("clip", [edges(d), *b], {}) for d in DTYPES for b in ((1, 3), (None, 2), (0, None), (None, None))]) > 30
    )
    assert agree([("clip", [x], {"min": np.float32(-1) * np.ones(1, "float32"), "max": x[:1] + 1})])


# -- everything else --------------------------------------------------------------------------------------------------

A, B3 = np.arange(24).reshape(2, 3, 4) % 7, np.arange(5)


def per_dtype(name: str, *variants: Any, shape: tuple[int, ...] = (2, 3, 4)) -> list[Any]:
    """Calls with an array of each dtype followed by the arguments of each variant."""
    out = []
    for d in DTYPES:
        x = (np.arange(int(np.prod(shape))).reshape(shape) * 5 % 7).astype(d)
        for v in variants or ({},):
            args, kwargs = (
                (v[:-1], v[-1])
                if isinstance(v, tuple) and v and isinstance(v[-1], dict)
                else ((v if isinstance(v, tuple) else ()), v if isinstance(v, dict) else {})
            )
            out.append((name, [x, *args], kwargs))
    return out


AXES = ({}, {"axis": 0}, {"axis": -1, "keepdims": True}, {"axis": (0, 2)}, {"axis": ()})
F64, I8 = np.dtype("float64"), np.dtype("int8")
CASES: dict[str, list[Any]] = {
    "sum": per_dtype("sum", *AXES, {"dtype": F64}), "prod": per_dtype("prod", *AXES, {"dtype": F64}), "max": per_dtype("max", *AXES[:-1]), "min": per_dtype("min", *AXES[:-1]),
    "mean": per_dtype("mean", *AXES), "std": per_dtype("std", *AXES[:-1], {"correction": 1}), "var": per_dtype("var", *AXES[:-1], {"correction": 0.5}),
    "all": per_dtype("all", *AXES), "any": per_dtype("any", *AXES), "count_nonzero": per_dtype("count_nonzero", *AXES[:-1]),
    "argmax": per_dtype("argmax", {}, {"axis": 1}, {"axis": 0, "keepdims": True}), "argmin": per_dtype("argmin", {}, {"axis": 1}, {"axis": 0, "keepdims": True}),
    "cumulative_sum": per_dtype("cumulative_sum", {"axis": 1}, {"axis": 0, "include_initial": True}, {"axis": 2, "dtype": F64}),
    # Without a dtype that of small integers is kept, as jax.numpy does.
    "cumulative_prod": per_dtype("cumulative_prod", {"axis": 1, "dtype": F64}, {"axis": 0, "include_initial": True, "dtype": F64}),
    "diff": per_dtype("diff", {}, {"n": 2, "axis": 1}) + [("diff", [B3], {"prepend": B3[:1], "append": B3[:2]})],
    "argsort": per_dtype("argsort", {}, {"axis": 0}, {"descending": False, "stable": True}), "sort": per_dtype("sort", {}, {"axis": 0}, {"descending": True}),
    "searchsorted": [("searchsorted", [np.arange(5).astype(d), np.array([[0, 7], [3, 2]]).astype(d)], k) for d in DTYPES for k in ({}, {"side": "right"})]
    + [("searchsorted", [np.array([3.0, 1.0, 2.0]), np.array([1.5])], {"sorter": np.array([1, 2, 0])})],
    "nonzero": per_dtype("nonzero"), "where": [("where", [A > 3, A.astype(a), A.astype(b)], {}) for a, b in (("int8", "int16"), ("float32", "float64"), ("bool", "bool"), ("float32", "complex64"))],
    "unique_all": per_dtype("unique_all"), "unique_counts": per_dtype("unique_counts"), "unique_inverse": per_dtype("unique_inverse"),
    "reshape": per_dtype("reshape", ((4, -1), {}), ((6, 4), {"copy": True})), "squeeze": per_dtype("squeeze", (0, {}), ((0, 2), {}), shape=(1, 3, 1)),
    "expand_dims": per_dtype("expand_dims", {"axis": 0}, {"axis": -1}), "flip": per_dtype("flip", {}, {"axis": 1}, {"axis": (0, -1)}),
    "permute_dims": per_dtype("permute_dims", ((2, 0, 1), {})), "moveaxis": per_dtype("moveaxis", (0, -1, {}), ((0, 1), (2, 0), {})), "matrix_transpose": per_dtype("matrix_transpose"),
    "roll": per_dtype("roll", (1, {}), (-2, {"axis": 1}), ((1, 2), {"axis": (0, 2)})), "repeat": per_dtype("repeat", (2, {}), (np.array([0, 2, 1]), {"axis": 1})),
    "tile": per_dtype("tile", ((2, 1, 2), {}), ((2, 2, 1, 1), {})), "unstack": per_dtype("unstack", {}, {"axis": -1}), "broadcast_to": per_dtype("broadcast_to", ((2, 2, 3, 4), {})),
    "tril": per_dtype("tril", {}, {"k": 1}), "triu": per_dtype("triu", {}, {"k": -1}),
    "take": per_dtype("take", (np.array([1, 0, 1]), {"axis": 1}), (np.array([0]), {"axis": 0})), "take_along_axis": per_dtype("take_along_axis", (A % 3, {"axis": 1}), (A % 2, {"axis": 0})),
    "concat": [("concat", [[A.astype(d), A[:1].astype(e)]], {}) for d, e in zip(DTYPES, DTYPES[1:])] + [("concat", [[A, A]], {"axis": None}), ("concat", [(A, A)], {"axis": -1})],
    "stack": [("stack", [[A.astype(d), A.astype(d)]], {"axis": k}) for d in DTYPES for k in (0, -1)],
    "broadcast_arrays": [("broadcast_arrays", [A, A[:, :1].astype("float32")], {})], "meshgrid": [("meshgrid", [B3, B3[:3]], k) for k in ({}, {"indexing": "ij"})] + [("meshgrid", [B3], {})],
    "matmul": [("matmul", [A.astype(d), A.astype(d).mT if hasattr(A, "mT") else np.swapaxes(A, 1, 2).astype(d)], {}) for d in DTYPES], "vecdot": [("vecdot", [A.astype(d), A[:1, :1].astype(d)], k) for d in DTYPES for k in ({}, {"axis": -1})],
    "tensordot": [("tensordot", [A.astype(d), np.swapaxes(A, 0, 2).astype(d)], {"axes": k}) for d in DTYPES for k in (1, ((1, 2), (1, 0)), 0)][:30],
    "arange": [("arange", a, k) for a in ([5], [1, 7], [1, 7, 2], [0.0, 1.0, 0.25], [5, 0, -1]) for k in ({}, {"dtype": np.dtype("float32")})],
    "linspace": [("linspace", [0, 1, 5], k) for k in ({}, {"endpoint": False}, {"dtype": np.dtype("float32")})] + [("linspace", [0, 1 + 2j, 4], {}), ("linspace", [3, 3, 1], {}), ("linspace", [0, 9, 0], {})],
    "eye": [("eye", a, k) for a in ([3], [2, 4]) for k in ({}, {"k": 1}, {"dtype": I8})], "zeros": [("zeros", [s], k) for s in (3, (2, 0), ()) for k in ({}, {"dtype": I8})], "ones": [("ones", [s], k) for s in (3, (2, 0), ()) for k in ({}, {"dtype": I8})],
    "full": [("full", [(2, 3), v], k) for v in (True, 3, 2.5, 1j) for k in ({}, {"dtype": np.dtype("complex64")})], "full_like": per_dtype("full_like", (1, {}), (2, {"dtype": F64})),
    "zeros_like": per_dtype("zeros_like", {}, {"dtype": F64}), "ones_like": per_dtype("ones_like", {}, {"dtype": F64}),
    "astype": [("astype", [edges(d, True), np.dtype(e)], k) for d in DTYPES for e in DTYPES for k in ({},) if not (d[:2] in ("fl", "co") and e[0] == "u")] + [("astype", [B3, F64], {"copy": False})],
    "result_type": [("result_type", [np.zeros(1, a), np.zeros((2, 2), b)], {}) for a in DTYPES for b in DTYPES],
}  # fmt: skip
APART = {  # compared in tests of their own, or not at all, with the reason
    "asarray": "every call makes its arguments with it", "from_dlpack": "test_conversions", "empty": "its values are free", "empty_like": "its values are free",
    "can_cast": "test_dtype_questions", "finfo": "test_dtype_questions", "iinfo": "test_dtype_questions", "isdtype": "test_dtype_questions",
    "unique_values": "test_sets: NumPy does not sort them", "clip": "test_clip",
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_function(name):
    assert agree(CASES[name])


def test_every_function_is_compared():
    assert set(FUNCTIONS) - {*UNARY, *BINARY, *CASES, *APART} == set()


def test_conversions():
    x = np.arange(6.0).reshape(2, 3)
    assert np.array_equal(qnp.from_dlpack(x), x) and np.array_equal(xp.from_dlpack(qnp.asarray(x)), x)
    assert qnp.asarray([1, 2.5]).dtype == np.float64 and qnp.asarray(3, dtype=qnp.int8).dtype == np.int8
    assert qnp.empty((2, 3)).shape == (2, 3) and qnp.empty_like(qnp.ones(2), dtype=qnp.int8).dtype == np.int8


def test_sets():
    x = np.array([3, 1, 3, 2])
    assert qnp.unique_values(qnp.asarray(x)).tolist() == sorted(np.asarray(xp.unique_values(xp.asarray(x))).tolist())


def test_dtype_questions():
    for a in DTYPES:
        for b in DTYPES:
            try:
                want = xp.can_cast(getattr(xp, a), getattr(xp, b))
            except TypeError:
                continue
            if np.dtype(a).kind == np.dtype(b).kind:  # the others are open: NumPy and JAX cast int8 to float32
                assert qnp.can_cast(getattr(qnp, a), getattr(qnp, b)) == want, (a, b)
        for kind in (
            "bool",
            "signed integer",
            "unsigned integer",
            "integral",
            "real floating",
            "complex floating",
            "numeric",
        ):
            assert qnp.isdtype(getattr(qnp, a), kind) == xp.isdtype(getattr(xp, a), kind)
        assert qnp.isdtype(qnp.zeros(1, a).dtype, (getattr(qnp, a), "bool"))
    for a in ("float32", "float64", "complex64"):
        mine, want = qnp.finfo(getattr(qnp, a)), xp.finfo(getattr(xp, a))
        for field in ("bits", "eps", "max", "min", "smallest_normal"):
            assert getattr(mine, field) == getattr(want, field)
    for a in ("int8", "uint64"):
        mine, want = qnp.iinfo(getattr(qnp, a)), xp.iinfo(getattr(xp, a))
        assert (mine.bits, mine.max, mine.min) == (want.bits, want.max, want.min)


@pytest.mark.parametrize("extension", ["linalg", "fft"])
def test_extensions(extension):
    mine = pytest.importorskip(f"quire.numpy.{extension}")
    namespace = getattr(xp, extension)
    public = getattr(namespace, "__all__", None) or [
        n for n in dir(namespace) if inspect.isfunction(getattr(namespace, n))
    ]
    skip = {
        "requires_extension",
        "requires_api_version",
        "get_array_api_strict_flags",
        "normalize_axis_tuple",
        "reshape",
        "astype",
        "conj",
        "device_supports_dtype",
    }
    assert [n for n in public if n not in skip and not hasattr(mine, n)] == []
