"""Reductions, cumulative operations, windows."""

from __future__ import annotations

from typing import Any

from ..builder import Builder


def _axes(b: Builder, ndim: int) -> str:
    if b.chance(0.3) or not ndim:
        return "None"
    if b.chance(0.6):
        return str(b.rng.randint(-ndim, ndim - 1))
    return str(tuple(sorted(b.rng.sample(range(ndim), b.rng.randint(1, ndim)))))


def reduce(b: Builder) -> object:
    x = b.pick()
    axes = _axes(b, x.ndim)
    keep = b.one("", ", keepdims=True")
    if x.kind == "b":
        name = b.one("any", "all", "sum")
    elif x.kind == "c":
        name = b.one("sum", "mean")
    elif x.kind == "f":
        name = b.one("sum", "sum", "mean", "max", "min", "std", "var", "ptp")
        if b.chance(0.1):
            return b.emit(f"np.prod(np.clip({{0}}, 0.8, 1.2), axis={axes}{keep})", x)
        if b.chance(0.1):
            return b.emit(f"api.nn.logsumexp({{0}}, axis={axes}{keep})" if x.size else "np.sum({0})", x)
    else:
        name = b.one("sum", "max", "min", "prod", "any", "mean")
    if name in ("max", "min", "ptp", "std", "var", "mean") and not x.size:
        name = "sum"
    if name == "std":  # of equal elements it has no derivative: rounding decides whether JAX's is NaN
        return b.emit(f"np.sqrt(0.01 + np.var({{0}}, axis={axes}{keep}))", x)
    return b.emit(f"np.{name}({{0}}, axis={axes}{keep})", x)


def normalize(b: Builder) -> object:
    """A reduction and what reads its operand again."""
    x = b.pick("f", least_ndim=1, nonempty=True)
    axis = b.rng.randint(-x.ndim, x.ndim - 1)
    return b.emit(
        b.one(
            f"api.nn.softmax({{0}}, axis={axis})", f"api.nn.log_softmax({{0}}, axis={axis})",
            f"{{0}} - np.mean({{0}}, axis={axis}, keepdims=True)",
            f"{{0}} / (1 + np.max(np.abs({{0}}), axis={axis}, keepdims=True))",
            f"{{0}} / np.sqrt(1 + np.sum({{0}} * {{0}}, axis={axis}, keepdims=True))",
        ),
        x,
    )  # fmt: skip


def chain(b: Builder) -> object:
    """Reductions of what reductions are part of; each of the values on the way may be a result."""
    y = b.pick("fc", least_ndim=1, nonempty=True)
    axis = b.rng.randint(-y.ndim, y.ndim - 1)
    given: object = None
    for _ in range(b.one(1, 2, 2, 3)):
        name = b.one("sum", "sum", "mean", "mean" if y.kind == "c" else "max", "sum" if y.kind == "c" else "min")
        if y.kind == "f" and b.chance(0.2):
            s = b.emit(f"np.prod(1 + 0.01 * np.tanh({{0}}), axis={axis}, keepdims=True)", y)
        else:
            s = b.emit(f"np.{name}({{0}}, axis={axis}, keepdims=True)", y)
        if b.chance(0.5):
            s = b.emit(
                b.one("{0} * 0.5", "np.tanh({0})" if y.kind == "f" else "{0} + 1", "{0} + 1", "{0} * {0} * 0.01"), s
            )
        given = y = b.emit(b.one("{0} + {1}", "{0} - {1}", "{0} * {1}", "0.1 * {0} + {1}"), y, s)
    return b.emit(f"np.sum({{0}}, axis={axis})", y) if b.chance(0.7) else given


def compared(b: Builder) -> object:
    """A value whose rounding depends on where it is computed, beside what was selected from it; its parts are read elsewhere.

    In one statement, so that nothing else has the value stored.
    """
    x = b.pick("f", least_ndim=1, nonempty=True)
    axis = b.rng.randint(-x.ndim, x.ndim - 1)
    part = b.one("{0} * 0.7", "{0} * {0}", "np.tanh({0})")
    # JAX shares cotangents of ties in cummax by its tree (seed 83007157).
    running = f"np.max(y, axis={axis}, keepdims=True)" if b.setting.derived else f"lax.cummax(y, axis={axis % x.ndim})"
    best = b.one(
        f"np.max(y, axis={axis}, keepdims=True)", f"np.min(y, axis={axis}, keepdims=True)", running,
        f"np.sort(y, axis={axis})", "y.at[:1].max(y[-1:])",
    )  # fmt: skip
    out = b.one("np.where(y == best, p * p + 1, 0.0)", "np.where(y >= best, p + 2, 0.0)", "best * 0.5 + p * p")
    value = b.one("p + x", "p - x * 0.3", "np.flip(p) + x")
    return b.emit(
        f"(lambda p, x: (lambda p, y: (lambda p, y, best: {out})(p, y, {best}))(p, {value}))({part}, {{0}})", x
    )


def argument_of_extremum(b: Builder) -> object:
    x = b.pick("fiu", least_ndim=1, nonempty=True)
    keep = b.one("", ", keepdims=True")
    return b.emit(f"np.{b.one('argmax', 'argmin')}({{0}}, axis={b.rng.randint(-x.ndim, x.ndim - 1)}{keep})", x)


def cumulative(b: Builder) -> object:
    x = b.pick("fciu", least_ndim=1)
    axis = b.rng.randrange(x.ndim)
    options = [f"np.cumsum({{0}}, axis={axis})", f"lax.cumsum({{0}}, axis={axis}, reverse=True)"]
    if x.kind == "f":
        options += [f"np.cumprod(np.clip({{0}}, 0.7, 1.2), axis={axis})", f"lax.cumlogsumexp({{0}}, axis={axis})"]
    if x.kind in "iu" or (x.kind == "f" and not b.setting.derived):  # JAX shares cotangents of ties by its tree
        options += [f"lax.cummax({{0}}, axis={axis})", f"lax.cummin({{0}}, axis={axis}, reverse=True)"]
    if x.kind in "fiu":
        options.append(f"np.diff({{0}}, axis={axis})")
    return b.emit(b.one(*options), x)


def window(b: Builder) -> object:
    x = b.pick("fiu", accept=lambda v: 1 <= v.ndim <= 3, nonempty=True)
    sizes = tuple(b.rng.randint(1, min(3, n)) for n in x.shape)
    strides = tuple(b.one(1, 1, 2, 3) for _ in x.shape)
    padding = b.one("VALID", "SAME")
    name, start = b.one(("add", 0), ("max", None), ("min", None))
    initial = f"np.array({start}, {x.dtype!r})"
    if start is None:
        bound = (
            ("-np.inf" if name == "max" else "np.inf")
            if x.kind == "f"
            else f"np.iinfo({x.dtype!r}).{b.one('min') if name == 'max' else 'max'}"
        )
        initial = f"np.array({bound}, {x.dtype!r})"
    if b.chance(0.2) and not b.setting.reverse:  # each window holds its initial value once, however much is padding
        initial = f"np.array({b.rng.randint(1, 3)}, {x.dtype!r})"
        name = b.one("add", "max", "min", "mul") if x.kind == "f" else b.one("add", "max", "min", "bitwise_xor")
        padding = tuple((b.rng.randint(0, 2), b.rng.randint(0, 2)) for _ in x.shape)
    dilated = ""
    if b.chance(0.25):
        dilated = f", window_dilation={tuple(b.one(1, 2) for _ in x.shape)}"
        if not b.setting.derived:  # JAX has no derivative of dilated arrays' windows
            dilated += f", base_dilation={tuple(b.one(1, 1, 2, 3) for _ in x.shape)}"
    if padding != "VALID" and name in ("max", "min"):
        sizes = _in_order(b, sizes)
    return b.emit(f"lax.reduce_window({{0}}, {initial}, lax.{name}, {sizes}, {strides}, {padding!r}{dilated})", x)


def _in_order(b: Builder, sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Windows in which XLA's first of equal elements is that by rows: not so of padded ones of two columns (seed 85000792)."""
    return (*sizes[:-1], 1) if b.setting.derived and len(sizes) > 1 and sizes[-1] == 2 else sizes


def windows_of_windows(b: Builder) -> object:
    """Windows one after the other: their initial values and what they are padded with are alike."""
    x: Any = b.pick("fi", accept=lambda v: 1 <= v.ndim <= 2 and v.dtype not in ("float16", "bfloat16"), nonempty=True)
    for _ in range(b.one(2, 3)):
        sizes = tuple(b.rng.randint(1, min(3, n)) for n in x.shape)
        name, initial = b.one(("add", "0"), ("max", "-np.inf")) if x.kind == "f" else ("add", "0")
        start = f"np.array({initial}, {x.dtype!r})"
        sizes = _in_order(b, sizes) if name == "max" else sizes
        x = b.emit(f"lax.reduce_window({{0}}, {start}, lax.{name}, {sizes}, {(1,) * x.ndim}, 'SAME')", x)
        if x.kind == "f" and b.chance(0.3):
            x = b.emit(b.one("{0} * 0.5", "np.tanh({0})", "np.pad({0}, 1)"), x)
    return x


def general_reduce(b: Builder) -> object:
    x = b.pick("f", least_ndim=1, nonempty=True)
    return b.emit(
        b.one(
            "np.median({0}, axis=-1)", "np.quantile({0}, 0.3, axis=0)", "np.linalg.norm({0} + 0.1)", "np.average({0}, axis=0)",
            "np.nansum({0}, axis=-1)", "np.count_nonzero({0} > 0, axis=0)",
            "lax.reduce({0}, np.zeros((), {0}.dtype), lax.add, (0,))",
        ),
        x,
    )  # fmt: skip


def scan_associative(b: Builder) -> object:
    x = b.pick("f", least_ndim=1, nonempty=True, most=600)
    return b.emit("lax.associative_scan(lambda p, q: p * 0.5 + q, {0}" + b.one("", ", reverse=True") + ")", x)


FAMILY = (
    reduce,
    reduce,
    reduce,
    chain,
    compared,
    normalize,
    argument_of_extremum,
    cumulative,
    cumulative,
    window,
    windows_of_windows,
    general_reduce,
)
