"""Elementwise operations, conversions, constants."""

from __future__ import annotations

from ..builder import Builder, Value, kind_of

#: Functions of floats that are fine where their arguments are moderate, some kept off their poles.
UNARY = (
    "np.sin({0})", "np.cos({0})", "np.tanh({0})", "np.exp(np.minimum({0}, 3))", "np.abs({0})", "np.square({0})", "-{0}",
    "np.sqrt(np.abs({0}) + 0.5)", "np.log(np.abs({0}) + 0.5)", "np.log1p(np.abs({0}))", "np.expm1(np.minimum({0}, 2))",
    "np.arctan({0})", "np.sinh(np.clip({0}, -3, 3))", "np.cosh(np.clip({0}, -3, 3))", "np.arcsinh({0})",
    "np.arcsin(np.tanh({0}) * 0.9)", "np.arccos(np.tanh({0}) * 0.9)", "np.arctanh(np.tanh({0}) * 0.9)",
    "np.tan(np.tanh({0}))", "np.cbrt(np.abs({0}) + 0.5)", "np.exp2(np.minimum({0}, 3))", "1 / (np.abs({0}) + 1)",
    "lax.logistic({0})", "lax.rsqrt(np.abs({0}) + 1)", "lax.erf({0})", "lax.erfc({0})", "np.sign({0})",
    "np.floor({0})", "np.ceil({0})", "np.round({0})", "np.trunc({0})", "np.clip({0}, -1, 1)", "np.maximum({0}, 0)",
    "np.where({0} > 0, {0}, 0.1 * {0})", "np.sinc({0})", "lax.stop_gradient({0}) * {0}", "np.nan_to_num({0})",
    "{0} ** 2", "{0} ** 3", "(np.abs({0}) + 0.5) ** 1.5", "np.reciprocal(np.abs({0}) + 1)", "np.deg2rad({0})",
    "lax.lgamma(np.abs({0}) + 0.5)", "np.log2(np.abs({0}) + 0.5)", "np.log10(np.abs({0}) + 0.5)",
    "api.nn.relu({0})", "api.nn.gelu({0})", "api.nn.softplus({0})", "api.nn.silu({0})", "api.nn.elu({0})",
)  # fmt: skip
COMPLEX = (
    "np.conj({0})", "np.real({0})", "np.imag({0})", "np.abs({0})", "{0} * 1j", "np.exp({0} * 0.1j)", "-{0}",
    "{0} * np.conj({0})", "np.square({0})", "np.sin({0} * 0.1)", "1 / (2 + np.abs({0}))", "np.sqrt({0} + 4)",
    "np.log({0} + 8)", "np.tanh({0} * 0.1)", "{0} ** 2", "np.cosh({0} * 0.1)",
)  # fmt: skip
INTEGER = (
    "-{0}", "~{0}", "np.abs({0})", "{0} * 3", "{0} // 2", "{0} % 5", "{0} << 1", "{0} >> 1", "np.sign({0})",
    "np.clip({0}, 1, 5)", "{0} ** 2", "lax.population_count({0})", "lax.clz({0})", "{0} & 3", "{0} ^ 5", "{0} | 1",
    "np.square({0})", "{0} // 3 - {0} % 3", "np.minimum({0}, 2)",
)  # fmt: skip
BOOLEAN = ("~{0}", "np.logical_not({0})", "{0} + {0}", "{0}.astype('int32')", "np.where({0}, 1.5, -0.5)")
BINARY = ("{0} + {1}", "{0} - {1}", "{0} * {1}", "np.maximum({0}, {1})", "np.minimum({0}, {1})")
BINARY_FLOAT = (
    *BINARY, "{0} / (1 + np.abs({1}))", "np.arctan2({0}, {1} + 3)", "np.hypot({0}, {1})", "np.logaddexp({0}, {1})",
    "(np.abs({0}) + 0.5) ** np.clip({1}, -2, 2)", "np.where({0} < {1}, {0}, {1} * 2)", "np.copysign({0}, {1})",
    "{0} % (np.abs({1}) + 1)", "np.float_power(np.abs({0}) + 0.5, np.clip({1}, -2, 2))", "{0} - {0} * {1}",
    "np.fmax({0}, {1})", "np.heaviside({0}, {1})",
)  # fmt: skip
BINARY_COMPLEX = ("{0} + {1}", "{0} - {1}", "{0} * {1}", "{0} / (2 + np.abs({1}))", "{0} * np.conj({1})")
BINARY_INTEGER = (
    *BINARY, "{0} // ({1} | 1)", "{0} % ({1} | 1)", "{0} & {1}", "{0} | {1}", "{0} ^ {1}", "{0} << ({1} & 3)",
    "{0} >> ({1} & 3)", "np.gcd({0}, {1})",
)  # fmt: skip
BINARY_BOOLEAN = ("{0} & {1}", "{0} | {1}", "{0} ^ {1}", "{0} + {1}", "{0} * {1}", "np.logical_xor({0}, {1})")
COMPARE = ("{0} < {1}", "{0} >= {1}", "{0} == {1}", "{0} != {1}", "{0} <= {1}", "{0} > {1}")


def unary(b: Builder) -> object:
    return _of_one(b, b.pick())


def _of_one(b: Builder, x: Value) -> Value:
    table = {"f": UNARY, "c": COMPLEX, "i": INTEGER, "u": INTEGER, "b": BOOLEAN}[x.kind]
    text = b.one(*table)
    if x.kind == "u" and text == "-{0}":
        text = "{0} + 1"
    return b.emit(text, x)


def _other(b: Builder, x: Value) -> Value:
    """A value that broadcasts with x; often of its shape, sometimes x itself."""

    def broadcasts(v: Value) -> bool:
        sizes = zip(reversed(v.shape), reversed(x.shape))
        return all(m == n or m == 1 or n == 1 for m, n in sizes)

    if b.chance(0.1):
        return x
    return b.pick(x.kind if b.chance(0.8) else "fiub" if x.kind != "c" else "fc", broadcasts)


def binary(b: Builder) -> object:
    x = b.pick()
    y = _other(b, x)
    kinds = {x.kind, y.kind}
    if "c" in kinds:
        table = BINARY_COMPLEX
    elif "f" in kinds:
        table = BINARY if kinds != {"f"} else BINARY_FLOAT
    elif kinds == {"b"}:
        table = BINARY_BOOLEAN
    else:
        table = BINARY_INTEGER if kinds <= {"i", "u"} and x.dtype == y.dtype else ("{0} + {1}", "{0} * {1}")
    return b.emit(b.one(*table), x, y)


def chain(b: Builder) -> object:
    """Several operations in one line, the operands read more than once."""
    x = b.pick("f")
    y = b.pick("f", lambda v: v.shape == x.shape)
    return b.emit(
        b.one(
            "np.sin({0}) * {1} + np.cos({1}) * {0}", "({0} - {1}) * ({0} + {1})", "np.tanh({0} * {1}) - {0}",
            "np.where({0} > {1}, np.exp(-np.abs({0})), {1} * {1})", "{0} / (1 + {1} * {1}) + {1}",
        ),
        x, y,
    )  # fmt: skip


def narrow(b: Builder) -> object:
    """A chain of integers of 8 or 16 bits: vectors have more elements where nothing wider is computed."""
    dtype = b.one("int8", "uint8", "int16", "uint16")
    x = b.emit(f"{{0}}.astype({dtype!r})", b.pick("iub"))
    first, steps = x, b.one(2, 3, 5)
    for _ in range(steps):
        if b.chance(0.5):
            x = b.emit(b.one(*BINARY_INTEGER, "np.where({0} > {1}, {0}, {1} ^ 1)"), x, first)
        else:
            x = _of_one(b, x)
    return b.emit(b.one(*COMPARE), x, first) if b.chance(0.3) else x


def compare(b: Builder) -> object:
    x = b.pick("fiub")
    return b.emit(b.one(*COMPARE), x, _other(b, x))


def scalar(b: Builder) -> object:
    """With a Python number, or a scalar of NumPy's."""
    x = b.pick("fciu")
    if x.kind in "iu":
        if b.chance(0.3):  # numbers that need not be ones of the integers' dtype: the results are floats
            return b.emit(
                b.one("{0} / 300", "{0} / -7", "70000 / ({0} | 1)", "np.hypot({0}, 1000)", "np.arctan2({0}, -2)"), x
            )
        return b.emit(b.one("{0} + 1", "3 - {0}" if x.kind == "i" else "3 + {0}", "{0} * 2", "{0} / 4", "{0} * 0.5"), x)
    return b.emit(b.one("{0} * 0.5", "1 - {0}", "{0} + 2", "{0} / 3", "2.5 * {0} - 1", "{0} - 1e-3", "{0} * 0"), x)


def select(b: Builder) -> object:
    x = b.pick("fciu")
    y = b.pick(x.kind, lambda v: v.aval == x.aval)
    c = b.pick("b", lambda v: v.shape in (x.shape, ()))
    if b.chance(0.1):  # Python numbers alone, of two kinds: the result is of weak type
        return b.emit(b.one("{1} * np.where({0}, 3, True)", "{1} + (np.where({0}, 2, 1) + True)"), c, x)
    return b.emit(b.one("np.where({0}, {1}, {2})", "lax.select_n({0}, {1}, {2})"), c, x, y)


def convert(b: Builder) -> object:
    x = b.pick()
    floats, ints = b.setting.floats, b.setting.ints
    choices = (*floats, *ints, "bool") if x.kind != "c" else tuple(d for d in floats if d.startswith("complex"))
    if x.dtype in ("float16", "bfloat16"):
        choices = floats  # JAX adds in half precision what quire adds in single: whole numbers may be others
    dtype = b.one(*(choices or (x.dtype,)))
    if x.kind == "f" and kind_of(dtype) == "f" and x.dtype not in ("float16", "bfloat16") and b.chance(0.15):
        half, k = b.one("float16", "bfloat16"), b.one(2, 10, 16, 22)  # small ones: below float16's normal numbers
        return b.emit(f"((np.round({{0}} * 4) * 2.0**-{k}).astype({half!r}).astype({dtype!r}) * 2.0**{k})", x)
    if x.kind == "f" and kind_of(dtype) == "u":
        return b.emit(f"np.abs({{0}}).astype({dtype!r})", x)
    if x.kind in "iub" and kind_of(dtype) == "f" and b.chance(0.3):  # by way of another dtype, moved between
        way = b.one("float32", "float32", *ints)
        moved = b.one("", ".T", "[::-1]", "[:1]", "[1:]") if x.ndim else ""
        return b.emit(f"{{0}}.astype({way!r}){moved}.astype({b.one(dtype, 'bfloat16')!r})", x)
    return b.emit(f"{{0}}.astype({dtype!r})", x)


def constant(b: Builder) -> object:
    shape = b.shape() if b.chance(0.3) else b.pick().shape
    dtype = b.one(*b.setting.floats, *b.setting.ints)
    options = [f"np.zeros({shape}, {dtype!r})", f"np.ones({shape}, {dtype!r})", f"np.full({shape}, 3, {dtype!r})"]
    if len(shape) == 1:
        options += [f"np.arange({shape[0]}).astype({dtype!r})"]
        if kind_of(dtype) == "f":
            options.append(f"np.linspace(0, 1, {shape[0]}).astype({dtype!r})")
    if len(shape) == 2:
        options += [
            f"np.eye({shape[0]}, {shape[1]}, dtype={dtype!r})",
            f"np.tri({shape[0]}, {shape[1]}, dtype={dtype!r})",
        ]
    return b.emit(b.one(*options))


FAMILY = (unary, unary, binary, binary, chain, narrow, scalar, compare, select, convert, constant)
