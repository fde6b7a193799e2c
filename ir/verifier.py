"""The rules of the IR, checked: scoping, types, parameters, nested jaxprs, effects.

`verify` raises VerificationError; the message names the equation and the user's line. It runs after each pass in
tests, with `config.verify_each`, and on everything that `dumpir` reads.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, NoReturn

import numpy as np

from . import dtypes
from .avals import AbstractToken, AbstractValue, ShapedArray
from .errors import VerificationError
from .jaxpr import NO_EFFECTS, Atom, ClosedJaxpr, Eqn, Jaxpr, Literal, Var, nested_jaxprs
from .primitive import PRIMITIVES
from .printer import Names, PrintOptions, aval_to_str, closed_jaxpr_to_str, eqn_to_str
from .source import where


def verify(closed: ClosedJaxpr) -> None:
    """Raise VerificationError unless the program keeps every rule.

    Each variable is defined once and before its use, in its own jaxpr; each equation has the parameters that its
    primitive declares, of the declared types; its outputs have the avals that its type rule gives; nested jaxprs are
    closed, have no constants and keep the rules themselves; effects are those the primitive states.
    """
    _Verifier(closed).closed(closed, top=True)


def _is_tuple_of(check: Callable[[Any], bool]) -> Callable[[Any], bool]:
    def is_tuple(x: Any) -> bool:
        return isinstance(x, tuple) and all(check(item) for item in x)  # pyright: ignore[reportUnknownVariableType]

    return is_tuple


def _is_int(x: Any) -> bool:
    return isinstance(x, int | np.integer) and not isinstance(x, bool)


def _is_dtype(x: Any) -> bool:
    return isinstance(x, np.dtype) and x in dtypes.SHORT


def _instance(*types: type) -> Callable[[Any], bool]:
    return lambda x: isinstance(x, types)


# Annotations of parameters that are simple enough to check, as they are written in the type rules.
_SIMPLE: Mapping[str, Callable[[Any], bool]] = {
    "int": _is_int,
    "bool": _instance(bool, np.bool_),
    "float": _instance(float, int),
    "str": _instance(str),
    "DType": _is_dtype,
    "dtypes.DType": _is_dtype,
    "ClosedJaxpr": _instance(ClosedJaxpr),
    "ShapedArray": _instance(ShapedArray),
    "tuple[int, ...]": _is_tuple_of(_is_int),
    "tuple[bool, ...]": _is_tuple_of(_instance(bool)),
    "tuple[str, ...]": _is_tuple_of(_instance(str)),
    "tuple[ClosedJaxpr, ...]": _is_tuple_of(_instance(ClosedJaxpr)),
    "tuple[ShapedArray, ...]": _is_tuple_of(_instance(ShapedArray)),
    "None": lambda x: x is None,
}


def _fits(annotation: str, value: Any) -> bool:
    """Whether a value fits an annotation; True where the annotation is not simple."""
    parts = [part.strip() for part in annotation.split("|")] if "[" not in annotation.split("|")[0] else [annotation]
    if "[" in annotation and annotation.endswith(" | None"):
        parts = [annotation.removesuffix(" | None"), "None"]
    checks = [_SIMPLE.get(part) for part in parts]
    return any(check is None or check(value) for check in checks)


class _Verifier:
    def __init__(self, program: ClosedJaxpr) -> None:
        self.program = program
        self.done: set[int] = set()  # nested jaxprs that were checked already (one object may occur often)

    @cached_property
    def names(self) -> Names:
        """The names that the printed program has, for messages."""
        names = Names()
        closed_jaxpr_to_str(self.program, PrintOptions(max_const=16), names)
        return names

    def closed(self, closed: ClosedJaxpr, *, top: bool = False) -> None:
        jaxpr = closed.jaxpr
        for v, value in zip(jaxpr.constvars, closed.consts):
            array: Any = value
            shape, dtype = getattr(array, "shape", None), getattr(array, "dtype", None)
            if shape is None or dtype is None:
                array = np.asarray(array)
                shape, dtype = array.shape, array.dtype
            if tuple(shape) != v.aval.shape or dtype != v.aval.dtype:
                raise VerificationError(
                    f"constant {self.names[v]} has type {aval_to_str(v.aval)}, its value has shape {tuple(shape)} and "
                    f"dtype {dtype}"
                )
        if not top and closed.consts:
            raise VerificationError(
                f"a nested jaxpr holds {len(closed.consts)} constant(s): what it needs from outside must be an operand"
            )
        self.jaxpr(jaxpr)

    def jaxpr(self, jaxpr: Jaxpr) -> None:
        defined: set[Var] = set()
        for v in (*jaxpr.constvars, *jaxpr.invars):
            self.define(v, defined, None)
        for eqn in jaxpr.eqns:
            for a in eqn.inputs:
                self.use(a, defined, eqn)
            if not eqn.primitive.foreign:  # of which only its package knows what is right
                self.params(eqn)
                self.nested(eqn)
                self.types(eqn)
            for v in eqn.outputs:
                self.define(v, defined, eqn)
        for i, a in enumerate(jaxpr.outvars):
            self.use(a, defined, None, f"result {i} of the jaxpr")

    def define(self, v: Var, defined: set[Var], eqn: Eqn | None) -> None:
        if not isinstance(v, Var):  # pyright: ignore[reportUnnecessaryIsInstance]
            self.fail(f"{v!r} stands where a variable is defined", eqn)
        if v in defined:
            self.fail(f"variable {self.names[v]} is defined twice", eqn)
        if not isinstance(v.aval, AbstractValue):
            self.fail(f"variable {self.names[v]} has no type but {v.aval!r}", eqn)
        defined.add(v)

    def use(self, a: Atom, defined: set[Var], eqn: Eqn | None, what: str = "") -> None:
        if isinstance(a, Literal):
            if a.value.shape != () or a.value.dtype != a.aval.dtype or a.aval.shape != ():
                self.fail(f"literal {a!r} is not a scalar of its type", eqn)
        elif a not in defined:
            self.fail(f"{what or 'operand'} {self.names[a]}:{aval_to_str(a.aval)} is not defined before its use", eqn)

    def params(self, eqn: Eqn) -> None:
        p = eqn.primitive
        if PRIMITIVES.get(p.name) is not p:
            self.fail(f"primitive {p.name} is not a declared one", eqn)
        if p.params.keys() != eqn.params.keys():
            missing = [n for n in p.params if n not in eqn.params and n not in p.optional_params]
            surplus = [n for n in eqn.params if n not in p.params]
            said: list[str] = []
            if missing:
                said.append(f"lacks {', '.join(missing)}")
            for name in surplus:
                near = difflib.get_close_matches(name, list(p.params), n=1)
                said.append(f"has no {name}" + (f" (did you mean {near[0]}?)" if near else ""))
            if said:
                self.fail(f"parameters of {p.name}: it {'; '.join(said)}", eqn)
        for name, annotation in p.params.items():
            if name in eqn.params and not _fits(annotation, eqn.params[name]):
                self.fail(f"parameter {name} of {p.name} is {eqn.params[name]!r}, expected {annotation}", eqn)

    def nested(self, eqn: Eqn) -> None:
        for inner in nested_jaxprs(eqn.params):
            if id(inner) in self.done:
                continue
            self.done.add(id(inner))
            try:
                if isinstance(inner, ClosedJaxpr):
                    self.closed(inner)
                else:
                    self.jaxpr(inner)
            except VerificationError as error:
                if "\nin the nested jaxpr" in str(error):
                    raise
                raise VerificationError(
                    f"{error}\nin the nested jaxpr of {eqn.primitive.name}{where(eqn.source)}"
                ) from None

    def types(self, eqn: Eqn) -> None:
        p = eqn.primitive
        try:
            avals: Sequence[Any] = p.infer([a.aval for a in eqn.inputs], eqn.params)
        except (TypeError, ValueError) as error:
            self.fail(f"the operands do not fit: {error}", eqn)
        found = [v.aval for v in eqn.outputs]
        if len(avals) != len(found):
            self.fail(f"{p.name} has {len(avals)} result(s), the equation defines {len(found)}", eqn)
        for i, (want, got) in enumerate(zip(avals, found)):
            if want is not got and not (isinstance(want, AbstractToken) and isinstance(got, AbstractToken)):
                said = f"has type {aval_to_str(want)}, the equation says {aval_to_str(got)}"
                self.fail(f"result {i} of {p.name} {said}", eqn)
        effects = p.effects(eqn.params) if p.effects_rule is not None else NO_EFFECTS
        if effects != eqn.effects:
            self.fail(
                f"{p.name} has effects {sorted(effects, key=str)}, the equation says {sorted(eqn.effects, key=str)}",
                eqn,
            )

    def fail(self, message: str, eqn: Eqn | None) -> NoReturn:
        if eqn is not None:
            lines = eqn_to_str(eqn, names=self.names).splitlines()
            shown = "\n  ".join(lines if len(lines) <= 12 else [*lines[:10], "...", lines[-1]])
            message = f"{message}{where(eqn.source)}\n  {shown}"
        raise VerificationError(message)


def checked(closed: ClosedJaxpr, after: str) -> ClosedJaxpr:
    """The program itself, verified; the message of an error says after what (`after`) it was found.

    Raises:
        VerificationError: the program is not well formed; the message holds its text.
    """
    try:
        verify(closed)
    except VerificationError as error:
        text = closed_jaxpr_to_str(closed, PrintOptions(max_const=16))
        shown = text if len(text) < 4000 else text[:4000] + "\n..."
        raise VerificationError(f"after {after}: {error}\n{shown}") from None
    return closed
