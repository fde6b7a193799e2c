"""Algebraic identities as data: (dtypes, pattern, replacement).

Every one is exact on each dtype it names, NaN, infinities and the sign of zero included (the payload and sign of a NaN
aside): a test evaluates each on edge values before and after. So ``x + 0.0`` is not x (it is not for -0.0), but
``x + -0.0`` is.

A pattern is ``(primitive, operand, ...)``; an operand is a pattern, a variable (a string; the same string is the same
value) or a number, which a literal or a broadcast literal matches by its bits. Commutative primitives match in either
order. A replacement is a pattern whose numbers become constants of the result's shape.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

import numpy as np

from quire.ir import dtypes
from quire.ir.avals import ShapedArray
from quire.ir.jaxpr import Atom, Eqn, Literal
from quire.ir.primitive import PRIMITIVES

from .rewriter import NUMBER, SAME, Rewrite, Rewriter, Rule, Trait, add_rule, made_by

Pattern = Any  # tuple | str | number

DOMAINS: Mapping[str, tuple[dtypes.DType, ...]] = {
    "any": dtypes.ALL,
    "bool": (dtypes.bool_,),
    "bits": (dtypes.bool_, *dtypes.SIGNED, *dtypes.UNSIGNED),
    "signed": dtypes.SIGNED,
    "unsigned": dtypes.UNSIGNED,
    "int": (*dtypes.SIGNED, *dtypes.UNSIGNED),
    "float": dtypes.FLOATS,
    "complex": dtypes.COMPLEX,
    "inexact": (*dtypes.FLOATS, *dtypes.COMPLEX),
    "real": (*dtypes.SIGNED, *dtypes.UNSIGNED, *dtypes.FLOATS),
    "number": (*dtypes.SIGNED, *dtypes.UNSIGNED, *dtypes.FLOATS, *dtypes.COMPLEX),
}
"""Sets of dtypes by name: the dtype of the outermost primitive's first operand decides."""

# -1 stands for all bits set, also in unsigned dtypes.
IDENTITIES: tuple[tuple[str, Pattern, Pattern], ...] = (
    # sums
    ("float", ("add", "x", -0.0), "x"),
    ("int", ("add", "x", 0), "x"),
    ("real", ("sub", "x", 0), "x"),
    ("int", ("sub", "x", "x"), 0),
    ("int", ("sub", 0, "x"), ("neg", "x")),
    ("float", ("sub", -0.0, "x"), ("neg", "x")),
    ("number", ("add", "x", ("neg", "y")), ("sub", "x", "y")),
    ("number", ("sub", "x", ("neg", "y")), ("add", "x", "y")),
    ("int", ("add", ("sub", "x", "y"), "y"), "x"),
    ("int", ("sub", ("add", "x", "y"), "y"), "x"),
    ("int", ("neg", ("sub", "x", "y")), ("sub", "y", "x")),
    # signs
    ("number", ("neg", ("neg", "x")), "x"),
    ("signed", ("abs", ("neg", "x")), ("abs", "x")),
    ("float", ("abs", ("neg", "x")), ("abs", "x")),
    ("real", ("abs", ("abs", "x")), ("abs", "x")),
    ("number", ("square", ("neg", "x")), ("square", "x")),
    ("real", ("square", ("abs", "x")), ("square", "x")),
    ("float", ("cos", ("neg", "x")), ("cos", "x")),
    ("real", ("sign", ("sign", "x")), ("sign", "x")),
    # products
    ("real", ("mul", "x", 1), "x"),
    ("signed", ("mul", "x", -1), ("neg", "x")),
    ("float", ("mul", "x", -1), ("neg", "x")),
    ("int", ("mul", "x", 0), 0),
    ("real", ("mul", ("neg", "x"), ("neg", "y")), ("mul", "x", "y")),
    ("real", ("div", "x", 1), "x"),
    ("float", ("div", "x", -1), ("neg", "x")),
    ("float", ("div", ("neg", "x"), ("neg", "y")), ("div", "x", "y")),
    ("int", ("rem", "x", 1), 0),
    # powers
    ("float", ("pow", "x", 1.0), "x"),
    ("float", ("pow", "x", 2.0), ("square", "x")),
    ("float", ("pow", "x", -1.0), ("div", 1, "x")),
    ("float", ("pow", "x", 0.0), 1),
    # rounding
    ("float", ("floor", ("floor", "x")), ("floor", "x")),
    ("float", ("ceil", ("ceil", "x")), ("ceil", "x")),
    ("float", ("ceil", ("floor", "x")), ("floor", "x")),
    ("float", ("floor", ("ceil", "x")), ("ceil", "x")),
    # order
    ("any", ("max", "x", "x"), "x"),
    ("any", ("min", "x", "x"), "x"),
    ("float", ("max", "x", -np.inf), "x"),
    ("float", ("min", "x", np.inf), "x"),
    ("float", ("max", ("max", "x", "y"), "y"), ("max", "x", "y")),
    ("float", ("min", ("min", "x", "y"), "y"), ("min", "x", "y")),
    ("real", ("lt", "x", "x"), False),
    ("real", ("gt", "x", "x"), False),
    ("int", ("le", "x", "x"), True),
    ("int", ("ge", "x", "x"), True),
    ("int", ("eq", "x", "x"), True),
    ("int", ("ne", "x", "x"), False),
    ("unsigned", ("lt", "x", 0), False),
    ("unsigned", ("ge", "x", 0), True),
    # bits and logic
    ("bits", ("not", ("not", "x")), "x"),
    ("bits", ("and", "x", "x"), "x"),
    ("bits", ("or", "x", "x"), "x"),
    ("bits", ("xor", "x", "x"), 0),
    ("bits", ("and", "x", 0), 0),
    ("bits", ("and", "x", -1), "x"),
    ("bits", ("or", "x", 0), "x"),
    ("bits", ("or", "x", -1), -1),
    ("bits", ("xor", "x", 0), "x"),
    ("bits", ("xor", "x", -1), ("not", "x")),
    ("int", ("shift_left", "x", 0), "x"),
    ("int", ("shift_right_logical", "x", 0), "x"),
    ("int", ("shift_right_arithmetic", "x", 0), "x"),
    ("bool", ("not", ("eq", "x", "y")), ("ne", "x", "y")),
    ("bool", ("not", ("ne", "x", "y")), ("eq", "x", "y")),
    # selection
    ("bool", ("select_n", "p", "x", "x"), "x"),
    ("bool", ("select_n", ("not", "p"), "x", "y"), ("select_n", "p", "y", "x")),
    ("bool", ("select_n", "p", ("select_n", "p", "x", "y"), "z"), ("select_n", "p", "x", "z")),
    ("bool", ("select_n", "p", "x", ("select_n", "p", "y", "z")), ("select_n", "p", "x", "z")),
    # complex numbers
    ("complex", ("conj", ("conj", "x")), "x"),
    ("float", ("real", ("complex", "x", "y")), "x"),
    ("float", ("imag", ("complex", "x", "y")), "y"),
    ("complex", ("real", ("conj", "x")), ("real", "x")),
    ("complex", ("imag", ("conj", "x")), ("neg", ("imag", "x"))),
    ("complex", ("complex", ("real", "x"), ("imag", "x")), "x"),
)


def constant_of(value: Any, d: dtypes.DType) -> np.ndarray[Any, Any] | None:
    """A number of a pattern in a dtype; None where the dtype has no such number."""
    if value == -1 and (dtypes.is_unsigned(d) or dtypes.is_bool(d)):
        return np.asarray(~np.zeros((), d)) if not dtypes.is_bool(d) else np.asarray(True)
    if isinstance(value, float) and not dtypes.is_inexact(d):
        return None
    return np.asarray(value).astype(d)


def pattern_to_str(pattern: Pattern) -> str:
    """``add(x, neg(y))``."""
    if isinstance(pattern, tuple):
        items: tuple[Any, ...] = pattern  # pyright: ignore[reportUnknownVariableType]
        return f"{items[0]}({', '.join(map(pattern_to_str, items[1:]))})"
    return str(pattern)


# Patterns are made functions once: (rewriter, values of the variables found so far, equation or operand) -> a match.
_Found = dict[str, Atom]
_MatchEqn = Callable[[Rewriter, _Found, Eqn], bool]
_MatchOperand = Callable[[Rewriter, _Found, Atom], bool]


def _eqn_matcher(pattern: tuple[Any, ...]) -> _MatchEqn:
    p = PRIMITIVES[pattern[0]]
    operands = [_operand_matcher(q) for q in pattern[1:]]
    either_order = p.commutative

    def match(r: Rewriter, found: _Found, eqn: Eqn) -> bool:
        if eqn.primitive is not p or len(eqn.inputs) != len(operands) or eqn.params:
            return False
        before = dict(found)
        if all(m(r, found, a) for m, a in zip(operands, eqn.inputs)):
            return True
        if not either_order:
            return False
        found.clear()
        found.update(before)
        return all(m(r, found, a) for m, a in zip(operands, eqn.inputs[::-1]))

    return match


def _operand_matcher(pattern: Pattern) -> _MatchOperand:
    if isinstance(pattern, str):
        return lambda r, found, a: found.setdefault(pattern, a) == a
    if not isinstance(pattern, tuple):
        return _number_matcher(pattern)
    inner = _eqn_matcher(pattern)  # pyright: ignore[reportUnknownArgumentType]

    def match(r: Rewriter, found: _Found, a: Atom) -> bool:
        made = r.producer(a)
        return made is not None and inner(r, found, made)

    return match


def _number_matcher(number: Any) -> _MatchOperand:
    bits: dict[dtypes.DType, bytes | None] = {}
    for d in dtypes.ALL:
        constant = constant_of(number, d)
        bits[d] = None if constant is None else constant.tobytes()

    def match(r: Rewriter, found: _Found, a: Atom) -> bool:
        literal = r.splat(a)
        return literal is not None and literal.value.tobytes() == bits.get(literal.aval.dtype)

    return match


def _build(r: Rewriter, replacement: Pattern, found: Mapping[str, Atom], aval: ShapedArray) -> Atom:
    """The atom of a replacement whose result has the aval's shape (constants get its dtype)."""
    if isinstance(replacement, str):
        return found[replacement]
    if isinstance(replacement, tuple):
        items: tuple[Any, ...] = replacement  # pyright: ignore[reportUnknownVariableType]
        name, *operands = items
        # Numbers get the dtype of the other operands.
        atoms = [None if not isinstance(q, str | tuple) else _build(r, q, found, aval) for q in operands]
        like = next(a.aval for a in atoms if a is not None)
        return r.emit(
            PRIMITIVES[name],
            [_literal(q, like) if a is None else a for q, a in zip(operands, atoms)],
        )
    return _literal(replacement, aval)


def _literal(value: Any, like: ShapedArray) -> Literal:
    constant = constant_of(value, like.dtype)
    assert constant is not None, f"{value} has no {like.dtype}"
    return Literal(constant, ShapedArray((), like.dtype, like.weak_type))


def _make_rule(domain: str, pattern: tuple[Any, ...], replacement: Pattern, origin: str = "") -> Rule:
    allowed = frozenset(DOMAINS[domain])
    match = _eqn_matcher(pattern)

    def apply(r: Rewriter, eqn: Eqn) -> Rewrite:
        found: _Found = {}
        if not match(r, found, eqn):
            return None
        if domain_operand(pattern, eqn, r).dtype not in allowed:
            return None
        aval: ShapedArray = eqn.outputs[0].aval
        return r.broadcast(_build(r, replacement, found, aval), aval)

    return Rule(f"{pattern_to_str(pattern)} -> {pattern_to_str(replacement)}", apply, _traits(pattern), origin)


def _traits(pattern: tuple[Any, ...]) -> tuple[Trait, ...] | None:
    """What an equation needs to match a pattern: an inner equation, or a number, or one operand twice."""
    operands = pattern[1:]
    inner = [made_by(PRIMITIVES[q[0]]) for q in operands if isinstance(q, tuple)]
    if inner:
        return tuple(dict.fromkeys(inner))
    if any(not isinstance(q, str) for q in operands):
        return (NUMBER,)
    return (SAME,) if len(operands) == 2 and operands[0] == operands[1] else None


def domain_operand(pattern: tuple[Any, ...], eqn: Eqn, r: Rewriter) -> ShapedArray:
    """The aval whose dtype the rule's domain names: of the first operand, seen through real and imag."""
    a = eqn.inputs[0]
    if pattern[0] in ("real", "imag"):
        inner = r.producer(a)
        if inner is not None and inner.primitive.name == "complex":
            return inner.inputs[0].aval
    if pattern[0] == "complex":
        inner = r.producer(a)
        return inner.inputs[0].aval if inner is not None else a.aval
    return a.aval


def _variables(pattern: Pattern, line: str) -> set[str]:
    """The variables of a pattern. Raises ValueError for an unknown primitive."""
    if isinstance(pattern, str):
        return {pattern}
    if not isinstance(pattern, tuple):
        return set()
    items: tuple[Any, ...] = pattern  # pyright: ignore[reportUnknownVariableType]
    if items[0] not in PRIMITIVES:
        raise ValueError(f"{line}: no primitive is named {items[0]!r}")
    found: set[str] = set()
    for operand in items[1:]:
        found |= _variables(operand, line)
    return found


def _checked(domain: str, pattern: Pattern, replacement: Pattern) -> None:
    """Raises ValueError for an identity that means nothing, with the part that is wrong."""
    line = f"identity {pattern_to_str(pattern)} -> {pattern_to_str(replacement)}"
    if domain not in DOMAINS:
        raise ValueError(f"{line}: no set of dtypes is named {domain!r}; there are {', '.join(DOMAINS)}")
    if not isinstance(pattern, tuple):
        raise ValueError(f"{line}: the pattern must be (primitive, operand, ...)")
    given, asked = _variables(cast("Any", pattern), line), _variables(replacement, line)
    unknown = asked - given
    if unknown:
        raise ValueError(f"{line}: the pattern does not have {', '.join(sorted(unknown))}")


def add_identities(*identities: tuple[str, Pattern, Pattern], origin: str = "") -> None:
    """Make rules of `simplify` of (dtypes, pattern, replacement), as in `IDENTITIES`, which is quire's own table.

    Args:
        identities: each must be exact on all the dtypes it names, NaN, infinities and signed zeros included.
        origin: the module that they are from (``__name__``), whose package's code is then part of every program's key.

    Raises ValueError for an unknown primitive, set of dtypes or variable.
    """
    for domain, pattern, replacement in identities:
        _checked(domain, pattern, replacement)
        add_rule(_make_rule(domain, pattern, replacement, origin), PRIMITIVES[pattern[0]])


add_identities(*IDENTITIES)
