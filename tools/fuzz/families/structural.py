"""Reshaping, slicing, joining."""

from __future__ import annotations

from ..builder import Builder


def reshape(b: Builder) -> object:
    x = b.pick()
    options = ["{0}.reshape(-1)", "{0}[None]", "{0}[..., None]"]
    if x.ndim > 1:
        options += [f"{{0}}.reshape({x.shape[::-1]})", f"{{0}}.reshape({(x.shape[0] * x.shape[1], *x.shape[2:])})"]
    if x.ndim and x.size and x.shape[-1] % 2 == 0:
        options.append(f"{{0}}.reshape({(*x.shape[:-1], x.shape[-1] // 2, 2)})")
    if 1 in x.shape:
        options.append("np.squeeze({0})")
    if x.ndim >= 4:
        options = ["{0}.reshape(-1)", f"{{0}}.reshape({(x.shape[0], -1) if x.size else x.shape[::-1]})"]
    return b.emit(b.one(*options), x)


def transpose(b: Builder) -> object:
    x = b.pick(least_ndim=2)
    axes = list(range(x.ndim))
    b.rng.shuffle(axes)
    return b.emit(
        b.one(f"np.transpose({{0}}, {tuple(axes)})", "{0}.T", "np.swapaxes({0}, 0, -1)", "np.moveaxis({0}, 0, -1)"), x
    )


def slice_text(b: Builder, n: int) -> str:
    """A slice of a dimension, strides and negative steps among them."""
    if b.chance(0.2):
        return ":"
    if b.chance(0.35):
        return b.one("::-1", "::2", "1::2", "::-2", "1:", ":-1", "-2:", "::3", "1:-1", "-1:", "::-3", ":1", "2:1")
    start, stop = sorted((b.rng.randint(0, n), b.rng.randint(0, n)))
    step = b.one("", "", ":2", ":3")
    if b.chance(0.2):
        return f"{stop}:{start}:{b.one(-1, -2)}"
    return f"{start}:{stop}{step}"


def index_text(b: Builder, shape: tuple[int, ...], most: int = 3) -> str:
    """Basic indices of some dimensions: the leading ones, or the last ones behind an ellipsis.

    All integers are within: JAX promises so much to its gather where a stepped slice stands beside one, and
    then has no gradient where the promise is broken.
    """
    count = b.rng.randint(1, max(1, min(len(shape), most)))
    last = b.chance(0.1)
    parts = []
    for n in shape[-count:] if last else shape[:count]:
        parts.append(str(b.rng.randint(-n, n - 1)) if n and b.chance(0.2) else slice_text(b, n))
    if b.chance(0.1):
        parts.insert(b.rng.randint(0, len(parts)), "None")
    return ", ".join(["...", *parts] if last else parts)


def widened(b: Builder) -> object:
    """Elements converted and computed with, of which a part is read at once: IREE computes all of that in one dispatch."""
    x = b.pick("fiub", least_ndim=1, nonempty=True)
    floats = tuple(d for d in b.setting.floats if not d.startswith("complex"))
    dtype = b.one(*(floats or (x.dtype,)), *(b.setting.ints if x.kind in "ib" else ()))
    y = f"{{0}}.astype({dtype!r})"
    y = b.one(y, y, f"({y} * 2 + 1)", f"({y} * {y})")
    return b.emit(b.one("({0}[{1}] + 1)", "np.sum({0}[{1}], 0)", "{0}[{1}] * 2").format(y, index_text(b, x.shape)), x)


def basic_slice(b: Builder) -> object:
    x = b.pick(least_ndim=1)
    text = f"{{0}}[{index_text(b, x.shape)}]"
    if b.chance(0.15) and x.ndim == 1:
        text += f"[{slice_text(b, x.shape[0])}]"
    return b.emit(text, x)


def flip(b: Builder) -> object:
    x = b.pick(least_ndim=1)
    k = b.rng.randint(-2, 3)
    return b.emit(b.one("np.flip({0}, -1)", f"np.roll({{0}}, {k}, axis=0)", f"np.roll({{0}}, {k})", "np.flip({0})"), x)


def concatenate(b: Builder) -> object:
    x = b.pick(least_ndim=1)
    axis = b.rng.randrange(x.ndim)

    def fits(v: object) -> bool:
        shape = v.shape  # pyright: ignore[reportAttributeAccessIssue]
        return len(shape) == x.ndim and all(m == n for i, (m, n) in enumerate(zip(shape, x.shape)) if i != axis)

    y = b.pick(x.kind, fits)
    if x.shape == y.shape and b.chance(0.4):
        return b.emit(f"np.stack([{{0}}, {{1}}], {b.rng.randint(-1, x.ndim)})", x, y)
    return b.emit(f"np.concatenate([{b.one('{0}, {1}', '{1}, {0}, {1}')}], {axis})", x, y)


def pad(b: Builder) -> object:
    x = b.pick(least_ndim=1)
    widths = tuple((b.rng.randint(0, 2), b.rng.randint(0, 2)) for _ in x.shape)
    if b.chance(0.4) and x.kind != "b":
        config = tuple((b.rng.randint(-1, 2), b.rng.randint(-1, 2), b.one(0, 0, 1, 2)) for _ in x.shape)
        if all(n + lo + hi >= 0 for n, (lo, hi, _) in zip(x.shape, config)):
            return b.emit(f"lax.pad({{0}}, np.{b.one('zeros', 'ones')}((), {x.dtype!r}), {config})", x)
    modes = (
        ["constant"]
        if 0 in x.shape
        else ["constant", "edge", "wrap"] + (["reflect", "symmetric"] if min(x.shape) > 2 else [])
    )
    mode = b.one(*modes)
    if mode == "constant" and x.kind != "b" and b.chance(0.5):
        values = tuple((b.rng.randint(0, 3), b.rng.randint(0, 3)) for _ in x.shape)
        return b.emit(f"np.pad({{0}}, {widths}, constant_values={b.one(values, values[0][0])})", x)
    return b.emit(f"np.pad({{0}}, {widths}, mode={mode!r})", x)


def broadcast(b: Builder) -> object:
    x = b.pick(most=2000)
    n = b.one(*(s for s in b.setting.sizes if s < 70))
    options = [
        f"np.broadcast_to({{0}}, {(n, *x.shape)})",
        f"np.repeat({{0}}, {b.rng.randint(1, 3)}, axis=0)" if x.ndim else "{0}[None]",
    ]
    options.append(f"np.tile({{0}}, {b.one(2, (2, 1), 3)})")
    return b.emit(b.one(*options), x)


def split(b: Builder) -> object:
    x = b.pick(least_ndim=1, nonempty=True)
    n = x.shape[-1]
    if n < 2:
        raise LookupError
    return b.emit(f"np.split({{0}}, [{b.rng.randint(1, n - 1)}], axis=-1)", x)


def triangle(b: Builder) -> object:
    x = b.pick("fciu", least_ndim=2)
    return b.emit(b.one("np.tril({0})", "np.triu({0}, 1)", "np.diagonal({0})", "np.rot90({0})", "np.trace({0})"), x)


def parts_together(b: Builder) -> object:
    """One array of many parts, computed each in its way."""
    x = b.pick("fciu", least_ndim=1, nonempty=True, most=400)
    count = b.one(5, 40, 150) if b.chance(0.3) else b.rng.randint(3, 6)
    part = b.one(
        "{0}[i % {n}]", "np.sum({0}[i % {n}:])", "np.sort({0}, axis=0)[i % {n}]" if x.kind != "c" else "{0}[-1]"
    )
    made = part.replace("{n}", str(x.shape[0])) + b.one(
        "", f".astype({x.dtype!r}) * i", f" + {{0}}[(i * 7) % {x.shape[0]}]"
    )
    rows = f"[{made} for i in range({count})]"
    return b.emit(b.one(f"np.stack({rows})", f"np.concatenate([np.atleast_1d(p) for p in {rows}])"), x)


FAMILY = (
    reshape,
    transpose,
    basic_slice,
    basic_slice,
    widened,
    flip,
    concatenate,
    parts_together,
    pad,
    broadcast,
    split,
    triangle,
)
