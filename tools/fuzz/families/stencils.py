"""Elementwise operations of shifted, padded, reversed and joined parts of arrays: what one kernel computes region by region."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as onp

from ..builder import MOST_ELEMENTS, Builder, Value
from .elementwise import BINARY, BINARY_BOOLEAN, BINARY_INTEGER

#: Ways to write np.pad's modes that want no more elements than there are.
MODES = ("constant", "edge", "wrap", "reflect", "symmetric")


def _at(axis: int, text: str) -> str:
    return ":, " * axis + text


def _moved(b: Builder, x: Value) -> str:
    """The elements of x at other places, of the shape of x."""
    axis = b.rng.randrange(x.ndim)
    n = x.shape[axis]
    k = b.rng.randint(1, max(1, min(3, n - 1)))
    zero = f"np.zeros((), {x.dtype!r})" if b.chance(0.6) else f"np.ones((), {x.dtype!r})"

    def padding(low: int, high: int, gap: int = 0) -> str:
        return str(tuple((low, high, gap) if d == axis else (0, 0, 0) for d in range(x.ndim)))

    widths = tuple((k, k) if d == axis else (0, 0) for d in range(x.ndim))
    options = [
        f"np.roll({{0}}, {b.one(k, -k, n, 0)}, axis={axis})",
        f"np.flip({{0}}, {axis})",
        f"lax.pad({{0}}, {zero}, {padding(*b.one((k, -k), (-k, k)))})",
        f"lax.pad({{0}}, {zero}, {padding(k, 0)})[{_at(axis, f':{n}')}]",
        f"np.pad({{0}}, {widths}, mode={b.one(*MODES[: 5 if n > 3 else 1])!r})[{_at(axis, b.one(f'{2 * k}:', f':{n}'))}]",
        f"lax.pad({{0}}, {zero}, {padding(0, 0, 1)})[{_at(axis, f'{k}:{n + k}')}]" if n > 2 * k else "{0}",
        f"np.concatenate([{{0}}[{_at(axis, f'{k}:')}], {{0}}[{_at(axis, f':{k}')}]], {axis})",
        f"np.concatenate([{'-' if x.kind in 'fc' else ''}{{0}}[{_at(axis, f'{k}:')}], {{0}}[{_at(axis, f':{k}')}]], {axis})",
        f"np.concatenate(np.split({{0}}, [{k}], axis={axis})[::-1], {axis})",
        f"np.repeat({{0}}[{_at(axis, f'::{k + 1}')}], {k + 1}, axis={axis})[{_at(axis, f':{n}')}]",
        f"np.concatenate([{{0}}[{_at(axis, '::2')}], {{0}}[{_at(axis, '1::2')}]], {axis})",
        "np.roll({0}, (1, -1), axis=(0, -1))" if x.ndim > 1 else "np.roll({0}, -1)",
        f"np.broadcast_to({{0}}[{_at(axis, f'{k - 1}:{k}')}], {x.shape})" if n else "{0}",
        "{0}.T" if x.ndim == 2 and x.shape[0] == x.shape[1] else "{0}[::-1]",
    ]
    return b.one(*options)


def _parts(b: Builder, x: Value) -> tuple[str, str] | None:
    """Two parts of x of one shape, which is not x's."""
    axis = b.rng.randrange(x.ndim)
    n = x.shape[axis]
    if n < 2:
        return None
    k = b.rng.randint(1, min(3, n - 1))
    half = n // 2
    one, other = b.one(
        (f"{k}:", f":-{k}"),
        (f":{half}", f"{half}:{2 * half}"),
        (f":{2 * half}:2", "1::2"),
        (f"{k}:", f":{k - 1 or None}:-1" if k > 1 else ":0:-1"),
        (f"{n - half - 1}::-1", f":{n - half}"),
    )
    if onp_length(one, n) != onp_length(other, n):
        return None
    return f"{{0}}[{_at(axis, one)}]", f"{{0}}[{_at(axis, other)}]"


def onp_length(text: str, n: int) -> int:
    """How many elements a slice takes of n."""
    parts = [None if p in ("", "None") else int(p) for p in text.split(":")]
    return len(range(*slice(*parts).indices(n)))


def _combined(b: Builder, text: str, x: Value, y: Value) -> Value:
    table = {"f": BINARY, "i": BINARY_INTEGER, "u": BINARY_INTEGER, "b": BINARY_BOOLEAN, "c": BINARY[:3]}[x.kind]
    made: Value = b.emit(text or b.one(*table), x, y)
    return made


def stencil(b: Builder) -> object:
    """Several moved copies of a value, or of what is computed of it, combined; what is on the way may be read again."""
    x = b.pick(least_ndim=1, nonempty=True, most=MOST_ELEMENTS // b.setting.lanes)
    if b.chance(0.3) and x.kind == "f":
        x = b.emit(b.one("np.tanh({0})", "{0} * 0.5", "{0} * {0}", "np.where({0} > 0, {0}, 1)"), x)
    if b.chance(0.3):
        parts = _parts(b, x)
        if parts is not None:
            first, second = (b.emit(p, x) for p in parts)
            return _combined(b, "", first, second)
    total: Value = b.emit(_moved(b, x), x)
    for _ in range(b.one(1, 1, 2, 3, 4)):
        others = [v for v in b.values if v.aval == total.aval]
        y = b.emit(_moved(b, z), z) if (z := b.rng.choice([x, x, total, *others])).aval == x.aval else total
        if y.aval != total.aval:
            continue
        if y.kind == "f" and b.chance(0.15):
            y = b.emit(b.one("np.sin({0})", "-{0}", "{0} * {0}", "np.abs({0})"), y)
        total = _combined(b, "", total, y)
        if b.chance(0.2):
            total = b.emit(_moved(b, total), total)
    return total


def channels(b: Builder) -> object:
    """Parts along the last dimension, computed with and joined again."""
    x = b.pick("fciu", least_ndim=1, nonempty=True, most=MOST_ELEMENTS // b.setting.lanes)
    n = x.shape[-1]
    if n < 2:
        raise LookupError
    if b.chance(0.5):
        h = n // 2
        joined = f"np.concatenate([{b.one('-', '') if x.kind in 'fci' else ''}{{0}}[..., {h}:], {{0}}[..., :{h}]], -1)"
        return b.emit(f"{{0}} * 2 + {joined}", x)
    if b.chance(0.5):
        k = b.rng.randint(0, n - 2)
        return b.emit(f"{{0}}[..., {k}] * 3 + {{0}}[..., {b.one(k + 1, -1)}]", x)
    h = n // 2
    return b.emit(
        f"np.stack([{{0}}[..., :{h}] + {{0}}[..., {h}:{2 * h}], {{0}}[..., :{h}] - {{0}}[..., {h}:{2 * h}]], -1)", x
    )


def _padding(b: Builder, lengths: Sequence[int], spread: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """What keeps the shape, split by chance into before and after."""
    totals = [(k - 1) * d for k, d in zip(lengths, spread)]
    return tuple((low, n - low) for n in totals for low in [b.rng.randint(0, n)])


def windows_in_loops(b: Builder) -> object:
    """A loop in which each turn reduces the windows of what it carries, or convolves it."""
    x = b.pick("fiub", accept=lambda v: 1 <= v.ndim <= 3, nonempty=True, most=MOST_ELEMENTS // b.setting.lanes // 8)
    lengths = tuple(b.rng.randint(1, 4) for _ in x.shape)
    spread = tuple(b.one(1, 1, 2) for _ in x.shape)
    padding = _padding(b, lengths, spread)
    turns = b.rng.randint(1, 4)
    if x.kind == "f" and b.chance(0.5):
        if x.ndim > 1 and b.chance(0.6):  # the first dimension has the features
            lengths, spread, padding = lengths[1:], spread[1:], padding[1:]
            n, before, after = x.shape[0], "[None]", "[0]"
            groups = b.one(1, n)
            shape = (n, n // groups, *lengths)
        else:
            groups, shape, before, after = 1, (1, 1, *lengths), "[None, None]", "[0, 0]"
        kernel = f"np.linspace(-0.5, 0.7, {onp.prod(shape)}).reshape({shape}).astype({x.dtype!r})"
        step = (
            f"lax.conv_general_dilated(y{before}, {kernel}, {(1,) * len(lengths)}, {padding}, rhs_dilation={spread}, "
            f"feature_group_count={groups}){after}"
        )
    else:
        options = [("max", "-np.inf"), ("min", "np.inf"), ("add", "0"), ("mul", "1")]
        if x.kind in "iu":
            options = [("add", "0"), ("bitwise_xor", "0"), ("max", f"np.iinfo({x.dtype!r}).min")]
        elif x.kind == "b":
            options = [("bitwise_or", "False"), ("bitwise_and", "True")]
        if x.kind == "f" and b.setting.derived:
            options = options[:3]
        name, initial = b.one(*options)
        start = f"np.array({initial}, {x.dtype!r})"
        dilation = "" if b.setting.derived else f", window_dilation={spread}"
        if b.setting.derived:
            padding = _padding(b, lengths, (1,) * x.ndim)
        step = f"lax.reduce_window(y, {start}, lax.{name}, {lengths}, {(1,) * x.ndim}, {padding}{dilation})"
    rest = {"f": (" * 0.5", " * 0.5 + y", ""), "b": ("", " ^ y")}.get(x.kind, ("", " + y"))
    body = f"lambda _, c: ((lambda y: {step}{b.one(*rest)})(*c),)"
    return b.emit(f"lax.fori_loop(0, {turns}, {body}, ({{0}},))[0]", x)


FAMILY = (stencil, stencil, channels, windows_in_loops)
