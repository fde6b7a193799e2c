"""Products of matrices, einsum, convolutions."""

from __future__ import annotations

from ..builder import Builder, Value


def matmul(b: Builder) -> object:
    x = b.pick("fci", accept=lambda v: 1 <= v.ndim <= 3)
    if x.ndim == 1:
        y = b.pick(x.kind, lambda v: v.ndim >= 1 and v.ndim <= 2 and v.shape[0] == x.shape[0])
        return b.emit(b.one("{0} @ {1}", "np.outer({0}, {0})" if x.size < 70 else "{0} @ {1}"), x, y)
    if b.chance(0.4) and x.shape[-2] * x.shape[-2] < 5000:
        return b.emit(b.one("{0} @ np.swapaxes({0}, -1, -2)", "np.einsum('...ij,...kj->...ik', {0}, {0})"), x)
    y = b.pick(
        x.kind, lambda v: v.dtype == x.dtype and (
            (v.ndim == 1 and v.shape[0] == x.shape[-1]) or (v.ndim == 2 and v.shape[0] == x.shape[-1])
            or (v.ndim == 3 and x.ndim == 3 and v.shape[1] == x.shape[2] and v.shape[0] == x.shape[0])
        ),
    )  # fmt: skip
    return b.emit("{0} @ {1}", x, y)


def einsum(b: Builder) -> object:
    x = b.pick("fc", ndim=2)
    y = b.pick(
        x.kind, lambda v: v.ndim == 2 and v.dtype == x.dtype and (v.shape[0] in x.shape or v.shape[1] in x.shape)
    )
    pairs = [(i, j) for i in (0, 1) for j in (0, 1) if x.shape[i] == y.shape[j]]
    i, j = b.one(*pairs)
    first, second = "ab", ["c", "d"]
    second[j] = first[i]
    kept = sorted(set("abcd") & (set(first) | set(second)))
    b.rng.shuffle(kept)
    wanted = "".join(kept[: b.rng.randint(0, len(kept))])
    return b.emit(f"np.einsum('{first},{''.join(second)}->{wanted}', {{0}}, {{1}})", x, y)


def factors(b: Builder) -> object:
    """A square matrix times sums of it, along either dimension and several times, without a broadcast in sight.

    Some of them by way of an operation that changes no element.
    """
    x = b.pick("fc", ndim=2, nonempty=True)
    k = min(x.shape)
    out = "m"
    for _ in range(b.rng.randint(1, 3)):
        spec = b.one("ab,a->ab", "ab,b->ab", "ab,a->ba", "ab,b->ba")
        factor = b.one("s", "s", "t")
        out = b.one(
            f"np.einsum('{spec}', {out}, {factor}) * 0.3", f"np.einsum('{spec}', {out}, {factor}) * 0.3",
            f"np.reshape(np.reshape({out}, -1) * np.tile({factor}, {k}), ({k}, {k}))",
            f"{out} * np.take({factor}, np.arange({k})[::-1])",
        )  # fmt: skip
    m = b.one("{0}", "{0}", "({0} * np.sum({0}, 0))", "({0} - np.sum({0}, 1)[:, None])").replace(
        "{0}", f"{{0}}[:{k}, :{k}]"
    )
    s = b.one("np.sum(m, 0)", "np.sum(m, 1)", "np.max(m, 1)" if x.kind == "f" else "np.sum(m, 1)")
    t = b.one(
        "s", "np.cumsum(s[:, None], 1)[:, 0]", "np.sort(s[None], 0)[0]" if x.kind == "f" else "s * 2", "np.pad(s, (1, 0))[1:]",
        "np.zeros_like(s).at[:].set(s)", "np.prod(s[:, None], 1)",
    )  # fmt: skip
    return b.emit(f"(lambda m: (lambda s: (lambda t: {out})({t}))({s}))({m})", x)


def spread(b: Builder) -> object:
    """Cubes with reductions of them along one dimension, read along another one: what IREE must not put into one dispatch."""
    x = b.pick("fc", ndim=3, nonempty=True, most=4000)
    k = min(x.shape[1:])
    body = "m"
    for _ in range(b.rng.randint(1, 3)):
        axis = b.rng.randint(0, 2)
        of = b.one(
            "np.sum({0}, {1}, keepdims=True)",
            "np.mean({0}, {1}, keepdims=True)",
            "np.max(np.abs({0}), {1}, keepdims=True)",
        )
        r = of.format(b.one("m", body), axis)
        body = b.one(
            f"({body} - 0.5 * {r})", f"(m * 0.3 * np.swapaxes({r}, 1, 2))", f"({body} * 0.3 * {r})",
            f"({body} + 0.3 * np.matmul(m, np.swapaxes(m, 1, 2)))",
        )  # fmt: skip
        if len(body) > 400:
            break
    return b.emit(f"(lambda m: {body})({{0}}[:, :{k}, :{k}])", x)


def mixed(b: Builder) -> object:
    """Operands of two dtypes, and a product of a dtype of its own."""
    x = b.pick("fiu", least_ndim=1, most=600)
    y = b.pick("fiu", lambda v: v.ndim >= 1 and v.size < 600 and v.dtype != x.dtype and v.shape[0] == x.shape[0] > 0)
    batch = "([], []), ([0], [0])" if b.chance(0.4) else "([0], [0]), ([], [])"
    if (x.size * y.size) // x.shape[0] > 20_000:
        raise LookupError
    wide = "float32" if "f" in x.kind + y.kind else "int32"
    preferred = b.one("", f", preferred_element_type={wide!r}", f", preferred_element_type={wide!r}")
    if {x.dtype, y.dtype} & {"float16", "bfloat16"} and b.chance(
        0.4
    ):  # what the transpose of a product of halves asks for
        preferred = f", preferred_element_type={next(v.dtype for v in (x, y) if v.dtype in ('float16', 'bfloat16'))!r}"
    if b.setting.derived and "float64" in (x.dtype, y.dtype):
        preferred = ""  # JAX's cotangents have the narrow dtype's digits (seed 83004852)
    return b.emit(f"lax.dot_general({{0}}, {{1}}, ({batch}){preferred})", x, y)


def preferred(b: Builder) -> object:
    """Narrow integers and bools, by way of other dtypes, in a product of a dtype that holds it."""
    x = b.pick("iub", least_ndim=1, most=400)
    y = b.pick("iub", lambda v: v.shape == x.shape)
    if any("64" in v.dtype for v in (x, y)):
        raise LookupError
    ways = (
        "",
        "",
        ".astype('int16')",
        ".astype('int32')",
        ".astype('uint8').astype('int16')",
        ".astype(bool).astype('int8')",
    )
    first, second = (b.one(*ways) for _ in range(2))
    product = b.one("inner", "vdot", "tensordot", "vecdot") if x.ndim > 1 else b.one("inner", "dot", "vdot")
    if product in ("inner", "tensordot") and (x.size * y.size) > 20_000:
        raise LookupError
    rest = ", 0" if product == "tensordot" else ""
    wide = b.one("float32", "float32", "int32")
    return b.emit(f"np.{product}({{0}}{first}, {{1}}{second}{rest}, preferred_element_type={wide!r})", x, y)


def tensordot(b: Builder) -> object:
    x = b.pick("f", least_ndim=1, most=600)
    y = b.pick("f", lambda v: v.ndim >= 1 and v.size < 600 and v.dtype == x.dtype and v.shape[0] == x.shape[-1])
    return b.emit(
        b.one("np.tensordot({0}, {1}, 1)", "np.dot({0}, {1})" if y.ndim <= 1 else "np.tensordot({0}, {1}, 1)"), x, y
    )


def convolution(b: Builder) -> object:
    x = b.pick("f", ndim=3, nonempty=True)
    n, c, w = x.shape
    y = b.pick(
        "f", lambda v: v.ndim == 3 and v.dtype == x.dtype and v.shape[1] == c and 0 < v.shape[2] <= w and 0 < v.shape[0]
    )
    if n * y.shape[0] * w * c * y.shape[2] > 300_000:
        raise LookupError
    stride, padding, dilation = b.one(1, 1, 2, 3), b.one("VALID", "SAME", [(1, 2)]), b.one(1, 1, 2)
    if padding == "VALID" and (y.shape[2] - 1) * dilation + 1 > w:
        dilation = 1
    extra = f", rhs_dilation=({dilation},)" if dilation > 1 else b.one("", "", ", lhs_dilation=(2,)")
    if "lhs" in extra and isinstance(padding, str):
        padding = [(0, 0)]  # padding has no name where the operand is dilated
    return b.emit(f"lax.conv_general_dilated({{0}}, {{1}}, ({stride},), {padding!r}{extra})", x, y)


def convolve(b: Builder) -> object:
    x = b.pick("fc", ndim=1, nonempty=True, most=400)

    def fits(v: Value) -> bool:
        return v.ndim == 1 and 0 < v.size <= 20 and v.dtype == x.dtype

    y = b.pick(x.kind, fits)
    return b.emit(f"np.{b.one('convolve', 'correlate')}({{0}}, {{1}}, mode={b.one('full', 'same', 'valid')!r})", x, y)


FAMILY = (matmul, matmul, einsum, factors, spread, mixed, preferred, tensordot, convolution, convolve)
