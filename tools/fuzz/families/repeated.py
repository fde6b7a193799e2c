"""The same operation on related values: what compilers find to be common, and move past one another."""

from __future__ import annotations

from ..builder import Builder, Value
from .elementwise import BOOLEAN, COMPLEX, INTEGER, UNARY


def _form(b: Builder, x: Value) -> Value:
    """The same elements in another place or shape."""
    options = ["{0}[None]", "{0}.reshape(-1)", "{0}[..., None]"]
    if x.ndim > 1:
        options += ["{0}.T", "np.swapaxes({0}, 0, -1)", f"{{0}}.reshape({x.shape[::-1]})"]
    if x.size * 3 * b.setting.lanes <= b.setting.most:
        options += [f"np.broadcast_to({{0}}, {(3, *x.shape)})", "np.tile({0}, 2)", "np.repeat({0}[..., None], 2, -1)"]
    if x.ndim:
        options += ["{0}[::-1]", "{0}[1:]"]
    return b.emit(b.one(*options), x)


def of_forms(b: Builder) -> object:
    """One operation of a value, of a form of it, and of a form of that."""
    x = b.pick(accept=lambda v: 0 < v.ndim < 4)
    table = {"f": UNARY, "c": COMPLEX, "i": INTEGER, "u": INTEGER[1:], "b": BOOLEAN}[x.kind]
    floats = [d for d in b.setting.floats if not d.startswith("complex")]
    text = f"{{0}}.astype({b.one(*floats)!r})" if floats and x.kind in "fib" and b.chance(0.3) else b.one(*table)
    y = _form(b, x)
    some = [y, _form(b, y)]
    if b.chance(0.4):
        some.append(x)
    b.rng.shuffle(some)
    return [b.emit(text, v) for v in some]


def again(b: Builder) -> object:
    """An earlier statement with one of its operands in another form, or another operand of its dtype."""
    earlier = [s for s in b.statements if s.operands and not s.blocks]
    if not earlier:
        raise LookupError
    s = b.rng.choice(earlier[-6:])
    known = {v.name: v for v in b.values}
    operands = [known[n] for n in s.operands if n in known]
    if len(operands) != len(s.operands):
        raise LookupError
    k = b.rng.randrange(len(operands))
    x = operands[k]
    operands[k] = _form(b, x) if x.ndim and b.chance(0.5) else b.pick(accept=lambda v: v.dtype == x.dtype)
    return b.emit(s.text, *operands)


FAMILY = (of_forms, again)
