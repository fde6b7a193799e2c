"""Gathers, updates, dynamic slices: indices outside the array in each mode, values moved within one array."""

from __future__ import annotations

from ..builder import Builder, Value
from .structural import slice_text

UPDATES = ("set", "set", "add", "add", "mul", "min", "max", "subtract")
GET_MODES = ("", "", "mode='clip'", "mode='fill'", "mode='drop'")
#: Modes that say what becomes of an index outside, which a negative one may be.
NOT_WRAPPED = ("mode='clip'", "mode='drop'", "mode='fill'")
SET_MODES = ("", "", "mode='clip'", "mode='drop'", "mode='fill'")


def _literal(b: Builder, n: int, outside: bool) -> str:
    """A constant array of indices for a dimension of n."""
    low, high = (-n - 2, n + 2) if outside else (-n, n - 1)
    count = b.rng.randint(0, 5) if b.chance(0.2) else b.rng.randint(1, 4)
    return f"np.array({[b.rng.randint(low, high) for _ in range(count)]}, {b.one('int32', 'int32', 'int8')!r})"


def _index(b: Builder, x: Value, outside: bool) -> tuple[str, list[Value], bool]:
    """An index with arrays, what it reads, and whether it is sure to be within."""
    n = x.shape[0]
    form = b.rng.randint(0, 6)
    if x.ndim > 1 and x.size and b.chance(0.25):
        return _mixture(b, x)
    if form <= 2 and not outside or not n:
        if not n:
            raise LookupError
        return _literal(b, n, False), [], True
    if form <= 2:
        return _literal(b, n, outside), [], not outside
    if form <= 3 and b.chance(0.3):
        return str(b.rng.randint(-n - 1, n) if outside else b.rng.randint(-n, n - 1)), [], not outside
    if form <= 4:
        i = b.pick("iu", accept=lambda v: v.ndim <= 2, most=40)
        return "{1}", [i], False
    if x.ndim > 1 and x.shape[1]:
        i = b.pick("iu", accept=lambda v: v.ndim == 1, most=40)
        if form == 5:
            return "{1}, " + b.one(f"{b.rng.randint(0, x.shape[1] - 1)}", slice_text(b, x.shape[1]), "{1}"), [i], False
        return f"{slice_text(b, n)}, {{1}}", [i], False
    return _literal(b, n, outside), [], not outside


def _mixture(b: Builder, x: Value) -> tuple[str, list[Value], bool]:
    """Arrays, numbers, slices, new dimensions and an ellipsis, in any order; the arrays broadcast together."""
    count, items = b.rng.randint(1, 3), list[str]()
    if b.chance(0.4):  # the last dimensions, behind an ellipsis for the others
        for n in x.shape[x.ndim - b.rng.randint(1, x.ndim) :]:
            numbers = [b.rng.randint(-n, n - 1) for _ in range(count)]
            items.append(b.one(f"np.array({numbers})", f"np.array({numbers})", str(numbers[0])))
        if any("np" in item for item in items):
            return ", ".join(["...", *items]), [], True
    items.clear()
    for n in x.shape[: b.rng.randint(1, x.ndim)]:
        numbers = [b.rng.randint(-n, n - 1) for _ in range(count)]
        table = f"np.array({[[k] for k in numbers]})" if b.chance(0.2) else f"np.array({numbers})"
        items.append(b.one(table, table, str(numbers[0]), slice_text(b, n)))
    for text in ("None", "..."):
        if b.chance(0.6):
            items.insert(b.rng.randint(0, len(items)), text)
    if not any("np" in item for item in items):
        raise LookupError
    return ", ".join(items), [], True


def _indexed(b: Builder) -> Value:
    """An array that has elements, of four dimensions now and then."""
    x = b.pick(least_ndim=1, nonempty=True)
    return b.emit("{0}" + b.one("[:, None]", "[..., None]"), x) if x.ndim == 3 and b.chance(0.4) else x


def gather(b: Builder) -> object:
    x = _indexed(b)
    index, operands, within = _index(b, x, b.chance(0.5))
    mode = b.one(*GET_MODES, *(("mode='promise_in_bounds'",) if within else ()))
    if not mode and b.chance(0.5):
        return b.emit(f"{{0}}[{index}]", x, *operands)
    if mode == "mode='fill'" and b.chance(0.5):
        mode += ", fill_value=" + ("True" if x.kind == "b" else "3")
    if mode in NOT_WRAPPED and b.chance(0.3):
        mode += ", wrap_negative_indices=False"
    return b.emit(f"{{0}}.at[{index}].get({mode})", x, *operands)


def take(b: Builder) -> object:
    x = b.pick(least_ndim=1, nonempty=True)
    axis = b.rng.randrange(x.ndim)
    if b.chance(0.5):
        mode = b.one("clip", "wrap", "fill")
        if b.chance(0.3):
            return b.emit(
                f"np.take({{0}}, {b.rng.randint(-x.shape[axis], x.shape[axis])}, axis={axis}, mode={mode!r})", x
            )
        i = b.pick("i", accept=lambda v: v.ndim <= 2, most=40)
        return b.emit(f"np.take({{0}}, {{1}}, axis={axis}, mode={mode!r})", x, i)
    if x.kind in "cb":
        raise LookupError
    return b.emit(f"np.take_along_axis({{0}}, np.argsort({{0}}, axis={axis}), axis={axis})", x)


def gathered_rows(b: Builder) -> object:
    """What is computed of rows that are read by their numbers: differences, products, and what is reduced along them."""
    x = b.pick("fiu", least_ndim=2, nonempty=True)
    n = x.shape[0]
    found = [v for v in b.values if v.kind == "i" and 0 < v.ndim <= 2 and 0 < v.size <= 200]
    given = [b.one(*found)] if found and b.chance(0.6) else []
    i = "{1}" if given else f"np.asarray({[b.rng.randrange(-n, n) for _ in range(b.rng.randint(1, 40))]})"
    one = b.one(
        f"{{0}}[{i}]",
        f"{{0}}[{i} % {n}]",
        f"{{0}}.at[{i}].get(mode='clip')",
        f"{{0}}.at[{i}].get(mode='fill', fill_value=3)",
    )
    two = b.one(one, "{0}[-1]", f"{{0}}[{i} + 1]", f"{{0}}[::-1][{i}]")
    rows = f"({one} {b.one('-', '*', '+')} {two})"
    along = ", ".join(f"-{k + 1}" for k in range(x.ndim - 1))
    forms = [rows, f"np.abs({rows}) + 1"]
    forms += [f"np.{f}({rows}, axis=({along},))" for f in ("sum", "max", "min")] + [f"np.argmax({rows}, axis=-1)"]
    if x.kind == "f":
        forms += [f"api.nn.softmax({rows}, axis=-1)", f"api.nn.logsumexp({rows}, axis=-1)"]
    return b.emit(b.one(*forms), x, *given)


def _values(b: Builder, x: Value, at: str, operands: list[Value]) -> tuple[str, list[Value]]:
    """Values for an update: a number, part of the array itself, another array's part."""
    k = len(operands) + 1
    if b.chance(0.25):
        return b.one("0", "1", "2", "3") if x.kind != "b" else "True", operands
    if b.chance(0.3):
        return f"{{0}}[{at}]" + ("" if x.kind == "b" else b.one("", " * 2", " + 1")), operands
    if b.chance(0.3):
        return f"np.flip({{0}}[{at}])", operands
    same = [v for v in b.values if v.kind == x.kind and v.shape == x.shape and v.dtype == x.dtype]
    if same and b.chance(0.7):
        return f"{{{k}}}[{at}]", [*operands, b.one(*same)]
    scalars = [v for v in b.values if v.ndim == 0 and v.kind == x.kind and v.dtype == x.dtype]
    if scalars:
        return f"{{{k}}}", [*operands, b.one(*scalars)]
    return ("1" if x.kind != "b" else "False"), operands


def _method(b: Builder, x: Value) -> str:
    return (
        b.one("set", "set", "max", "min")
        if x.kind == "b"
        else b.one(*(u for u in UPDATES if x.kind != "c" or u not in ("min", "max")))
    )


def update(b: Builder) -> object:
    """An update by integer arrays, in each mode."""
    x = _indexed(b)
    index, operands, within = _index(b, x, b.chance(0.5))
    values, operands = _values(b, x, index, operands)
    mode = b.one(*SET_MODES, *(("mode='promise_in_bounds'",) if within else ()))
    method = _method(b, x)
    if method == "set" and "{1}" in index:  # repeated indices: which one is last is said by neither
        values = values if values in "0123" else ("1" if x.kind != "b" else "True")
        operands = operands[:1]
    elif method == "set" and "np.array" in index:
        values, operands = (b.one("0", "2") if x.kind != "b" else "True"), []
    if b.setting.reverse and method == "mul":
        method = "add"
    if b.setting.derived and method in ("min", "max") and "clip" in mode:
        mode = ""  # JAX does not count updates that are clipped among those that share a tangent
    if mode in NOT_WRAPPED and b.chance(0.3):
        mode += ", wrap_negative_indices=False"
    if b.chance(0.08) and x.kind == "f":
        function = b.one("np.tanh", "np.sin", "np.round", "np.square", "api.nn.silu")
        return b.emit(f"{{0}}.at[{index}].apply({function}{', ' + mode if mode else ''})", x, *operands[:1])
    return b.emit(f"{{0}}.at[{index}].{method}({values}{', ' + mode if mode else ''})", x, *operands)


def slice_update(b: Builder) -> object:
    """An update of a slice, often by the array's own other positions."""
    x = b.pick(least_ndim=1, nonempty=True)
    axis = b.rng.randrange(x.ndim)
    head = ":, " * axis
    n = x.shape[axis]
    if n > 1 and b.chance(0.5):
        k = b.rng.randint(1, min(3, n - 1))
        to, source = b.one(
            (f"{k}:", f":-{k}"),
            (f":-{k}", f"{k}:"),
            (f"{k}:", f"{k}:][{head}::-1"),
            ("::2", f":{(n + 1) // 2}"),
            (":", "::-1"),
        )
        values = f"{{0}}[{head}{source}]"
        if "][" in source:
            values = f"{{0}}[{head}{k}:][{head}::-1]"
        if x.kind in "fc":
            values += b.one("", "", " * 0.5")
        operands: list[Value] = []
    else:
        to = slice_text(b, n) if b.chance(0.7) or not n else str(b.rng.randint(-n, n - 1))
        values, operands = _values(b, x, head + to, [])
    method = _method(b, x)
    if b.setting.reverse and method == "mul":
        method = "add"
    return b.emit(f"{{0}}.at[{head}{to}].{method}({values})", x, *operands)


def mask_update(b: Builder) -> object:
    x = b.pick("fciu", least_ndim=1)
    if x.kind == "c":
        return b.emit("{0}.at[np.abs({0}) > 1].set(0)", x)
    if b.chance(0.5):
        c = b.pick("b", lambda v: v.shape == x.shape or v.shape == x.shape[:1])
        return b.emit("{0}.at[{1}].set(" + b.one("0", "2") + ")", x, c)
    return b.emit(
        b.one(
            "{0}.at[{0} > 0].set(0)",
            "{0}.at[{0} > 1].add(1)",
            "{0}.at[{0} <= 0].mul(2)" if not b.setting.reverse else "{0}.at[{0} > 2].set(1)",
        ),
        x,
    )


def dynamic(b: Builder) -> object:
    """dynamic_slice and dynamic_update_slice, of other positions of the same value too."""
    x = b.pick(least_ndim=1, nonempty=True)
    i = b.pick("iu", ndim=0)
    sizes = tuple(b.rng.randint(1, n) for n in x.shape)
    starts = ", ".join(b.one("{1}", "{1}", "0") for _ in x.shape).replace("0", f"np.zeros((), {i.dtype!r})")
    form = b.rng.randint(0, 4)
    if form <= 1:
        return b.emit(f"lax.dynamic_slice({{0}}, ({starts},), {sizes})", x, i)
    if form == 2:
        others = ", ".join("np.zeros((), {1}.dtype)" for _ in x.shape)
        return b.emit(
            f"lax.dynamic_update_slice({{0}}, lax.dynamic_slice({{0}}, ({others},), {sizes}), ({starts},))", x, i
        )
    if form == 3:
        axis = b.rng.randrange(x.ndim)
        return b.emit(f"lax.dynamic_index_in_dim({{0}}, {{1}}, {axis}, keepdims={b.one(True, False)})", x, i)
    y = b.of_aval((sizes, x.dtype))
    return b.emit(f"lax.dynamic_update_slice({{0}}, {{2}}, ({starts},))", x, i, y)


def segments(b: Builder) -> object:
    x = b.pick("fi", nonempty=True)

    def fits(v: Value) -> bool:  # one element is in all segments
        return v.ndim == 1 and v.size < 70 if x.shape[:1] in ((), (1,)) else v.shape == x.shape[:1]

    i = b.pick("i", fits)
    return b.emit(
        f"api.ops.segment_{b.one('sum', 'max', 'min', 'sum')}({{0}}, {{1}}, num_segments={b.rng.randint(1, 5)})", x, i
    )


def several_readers(b: Builder) -> object:
    """An old value beside its update: both are used."""
    x = b.pick("fiu", least_ndim=1, nonempty=True)
    y = b.emit(b.one("{0} * 2", "{0} + 1", "{0} - 1"), x)
    z = b.emit(b.one("{0}.at[0].set(0)", "{0}.at[-1:].add(1)", "{0}.at[::2].set(1)", "{0}.at[1:].set({0}[:-1])"), y)
    return b.emit(b.one("{0} + {1}", "np.sum({0}) + {1}", "np.stack([{0}, {1}])"), y, z)


FAMILY = (
    gather,
    gather,
    gathered_rows,
    gathered_rows,
    take,
    update,
    update,
    slice_update,
    slice_update,
    mask_update,
    dynamic,
    dynamic,
    segments,
    several_readers,
)
