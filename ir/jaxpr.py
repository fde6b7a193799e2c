"""The data structures of the IR: variables, literals, equations, jaxprs. Immutable: to write to one raises.

A jaxpr is a function in A-normal form: each equation binds the outputs of one primitive applied to variables and
literals. Equality is structural, up to the names of variables and without source positions.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TypeAlias, cast

import numpy as np

from .avals import AbstractValue, ShapedArray
from .references import Ref
from .source import Source

if TYPE_CHECKING:
    from .primitive import Primitive

# quire's own effects are strings; those of other packages' primitives are any hashable objects.
Effect: TypeAlias = Any
Effects: TypeAlias = frozenset[Effect]
NO_EFFECTS: Effects = frozenset()


class _Frozen:
    """Base of what is never written to after it was built; `__init__` writes by the slots' own descriptors."""

    __slots__ = ()

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise AttributeError(f"{type(self).__name__}.{name} cannot be set: the IR is immutable, build a new one")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{type(self).__name__}.{name} cannot be deleted: the IR is immutable")


def _setter(cls: type, name: str) -> Callable[[Any, Any], None]:
    """What writes a slot of an object that is being built: as fast as an assignment can be that is none."""
    return cls.__dict__[name].__set__


class Var(_Frozen):
    """A variable of a jaxpr; compared by identity, named when printed."""

    __slots__ = ("aval",)
    aval: Any

    def __init__(self, aval: AbstractValue) -> None:
        _var_aval(self, aval)

    def __repr__(self) -> str:
        return f"Var({self.aval.short()})"


_var_aval = _setter(Var, "aval")


class Literal(_Frozen):
    """A scalar constant written in place. `value` is a NumPy scalar array of shape () and the aval's dtype."""

    __slots__ = ("value", "aval", "_key")
    value: np.ndarray[Any, Any]
    aval: ShapedArray
    _key: tuple[bytes, ShapedArray]

    def __init__(self, value: Any, aval: ShapedArray) -> None:
        array = np.asarray(value, dtype=aval.dtype)
        assert array.shape == (), "literals are scalars"
        _literal_value(self, array)
        _literal_aval(self, aval)
        _literal_key(self, (array.tobytes(), aval))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Literal) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        return f"Literal({self.value[()]}:{self.aval.short()})"

    @property
    def val(self) -> Any:
        """The value, by JAX's name: as `python_value`."""
        return self.python_value

    @property
    def python_value(self) -> Any:
        """The value as an operand that has this literal's aval: a Python scalar if weak, else a NumPy scalar."""
        return self.value.item() if self.aval.weak_type else self.value[()]


_literal_value, _literal_aval, _literal_key = (_setter(Literal, n) for n in ("value", "aval", "_key"))

Atom: TypeAlias = Var | Literal
Params: TypeAlias = Mapping[str, Any]


class SourceInfo:
    """JAX's record of where an equation comes from, of quire's `Source`: interpreters hand it on."""

    __slots__ = ("source",)

    def __init__(self, source: Source | None = None) -> None:
        self.source = source

    @property
    def traceback(self) -> Source | None:
        """The user's line: interpreters give it back to quire, which asks for nothing else."""
        return self.source

    @property
    def name_stack(self) -> str:
        """The scopes of `named_scope` around the equation."""
        return "" if self.source is None else self.source.scope

    def __repr__(self) -> str:
        return f"SourceInfo({self.source})"


class EqnContext:
    """What JAX says of the options under which an equation was recorded."""

    __slots__ = ()

    @property
    def manager(self) -> contextlib.AbstractContextManager[None]:
        """A context to evaluate the equation in."""
        return contextlib.nullcontext()


class DebugInfo(NamedTuple):
    """JAX's record of what a jaxpr was traced from, for messages."""

    traced_for: str = "unknown"
    func_src_info: str = "<unknown>"
    arg_names: tuple[str, ...] | None = None
    result_paths: tuple[str, ...] | None = None

    @property
    def func_name(self) -> str:
        """The function's name."""
        return self.func_src_info.split(" ")[0]


NO_DEBUG_INFO = DebugInfo()


class Eqn(_Frozen):
    """One application of a primitive: ``outputs = primitive[params] inputs``.

    The order of the arguments is that of JAX's `JaxprEqn`, whose names of the fields are there too.
    """

    __slots__ = ("primitive", "inputs", "outputs", "params", "effects", "source")
    primitive: Primitive
    inputs: tuple[Atom, ...]
    outputs: tuple[Var, ...]
    params: Params
    effects: Effects
    source: Source | None

    def __init__(
        self,
        inputs: Sequence[Atom],
        outputs: Sequence[Var],
        primitive: Primitive,
        params: Params,
        effects: Effects = NO_EFFECTS,
        source: Source | None = None,
    ) -> None:
        _eqn_primitive(self, primitive)
        _eqn_inputs(self, tuple(inputs))
        _eqn_outputs(self, tuple(outputs))
        _eqn_params(self, params)
        _eqn_effects(self, effects)
        _eqn_source(self, source)

    def replace(
        self,
        *,
        inputs: Sequence[Atom] | None = None,
        outputs: Sequence[Var] | None = None,
        primitive: Primitive | None = None,
        params: Params | None = None,
        effects: Effects | None = None,
        source: Source | None = None,
        invars: Sequence[Atom] | None = None,
        outvars: Sequence[Var] | None = None,
        source_info: Any = None,
        ctx: Any = None,
    ) -> Eqn:
        """This equation with some fields replaced; the source is kept. `invars`, `outvars`, `source_info` and `ctx` are JAX's
        names, of which the last says nothing here.
        """
        inputs = invars if inputs is None else inputs
        outputs = outvars if outputs is None else outputs
        source = getattr(source_info, "source", None) if source is None else source
        return Eqn(
            self.inputs if inputs is None else inputs,
            self.outputs if outputs is None else outputs,
            self.primitive if primitive is None else primitive,
            self.params if params is None else params,
            self.effects if effects is None else effects,
            self.source if source is None else source,
        )

    @property
    def invars(self) -> list[Atom]:
        """The operands, by JAX's name."""
        return list(self.inputs)

    @property
    def outvars(self) -> list[Var]:
        """The results' variables, by JAX's name."""
        return list(self.outputs)

    @property
    def source_info(self) -> SourceInfo:
        """Where the user's program says it, by JAX's name."""
        return SourceInfo(self.source)

    @property
    def ctx(self) -> EqnContext:
        """Under which options the equation was recorded: quire's say nothing of single equations."""
        return EqnContext()

    def __repr__(self) -> str:
        from .printer import eqn_to_str

        return eqn_to_str(self)


_eqn_primitive, _eqn_inputs, _eqn_outputs, _eqn_params, _eqn_effects, _eqn_source = (
    _setter(Eqn, n) for n in ("primitive", "inputs", "outputs", "params", "effects", "source")
)


class Jaxpr(_Frozen):
    """``{ lambda constvars ; invars. let eqns in outvars }``. The order of the arguments is JAX's.

    `effects` are those of the equations and, where they are given, others. `debug_info` says for messages what was traced.

    Raises TypeError for results where equations belong.
    """

    __slots__ = ("constvars", "invars", "outvars", "eqns", "effects", "debug_info", "_hash", "__weakref__")
    constvars: tuple[Var, ...]
    invars: tuple[Var, ...]
    outvars: tuple[Atom, ...]
    eqns: tuple[Eqn, ...]
    effects: Effects
    debug_info: DebugInfo
    _hash: int | None  # found out when it is first asked for

    def __init__(
        self,
        constvars: Sequence[Var],
        invars: Sequence[Var],
        outvars: Sequence[Atom],
        eqns: Sequence[Eqn],
        effects: Iterable[Effect] = NO_EFFECTS,
        debug_info: DebugInfo | None = None,
        is_high: bool = False,
    ) -> None:
        set_field = object.__setattr__
        set_field(self, "constvars", tuple(constvars))
        set_field(self, "invars", tuple(invars))
        set_field(self, "outvars", tuple(outvars))
        set_field(self, "eqns", tuple(eqns))
        found: set[Effect] = set(effects)
        for eqn in self.eqns:
            if type(eqn) is not Eqn:
                raise TypeError(f"Jaxpr(constvars, invars, outvars, eqns): {eqn!r} is no equation")
            if eqn.effects:
                found |= eqn.effects
        set_field(self, "effects", frozenset(found))
        set_field(self, "debug_info", NO_DEBUG_INFO if debug_info is None else debug_info)
        set_field(self, "_hash", None)

    @property
    def is_high(self) -> bool:
        """Whether there are types of values made of several arrays: quire has none."""
        return False

    def replace(self, **fields: Any) -> Jaxpr:
        """This jaxpr with some fields replaced, by the constructor's names.

        Raises TypeError for a name that is no field. The effects are those of the new equations, unless given.
        """
        known: dict[str, Any] = {
            "constvars": self.constvars, "invars": self.invars, "outvars": self.outvars, "eqns": self.eqns,
            "debug_info": self.debug_info,
        }  # fmt: skip
        if "eqns" not in fields:
            known["effects"] = self.effects
        return Jaxpr(**{**known, **fields})

    def pretty_print(self, **_: Any) -> str:
        """The printed form; JAX's options of it are quire's `PrintOptions` (`quire.ir.printer`)."""
        return repr(self)

    @property
    def in_avals(self) -> list[ShapedArray]:
        """The types of the inputs."""
        return [v.aval for v in self.invars]

    @property
    def out_avals(self) -> list[ShapedArray]:
        """The types of the results."""
        return [v.aval for v in self.outvars]

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, Jaxpr) and hash(self) == hash(other) and _alpha_equal(self, other)

    def __hash__(self) -> int:
        if self._hash is None:
            found = hash(
                (
                    tuple(v.aval for v in self.constvars),
                    tuple(v.aval for v in self.invars),
                    tuple(v.aval for v in self.outvars),
                    tuple((e.primitive.name, tuple(v.aval for v in e.outputs)) for e in self.eqns),
                )
            )
            object.__setattr__(self, "_hash", found)
            return found
        return self._hash

    def __repr__(self) -> str:
        from .printer import jaxpr_to_str

        return jaxpr_to_str(self)


class ClosedJaxpr(_Frozen):
    """A jaxpr together with the values of its constvars."""

    __slots__ = ("jaxpr", "consts", "__weakref__")
    jaxpr: Jaxpr
    consts: tuple[Any, ...]

    def __init__(self, jaxpr: Jaxpr, consts: Sequence[Any] = ()) -> None:
        assert len(jaxpr.constvars) == len(consts), "one value for each constvar"
        object.__setattr__(self, "jaxpr", jaxpr)
        object.__setattr__(self, "consts", tuple(consts))

    @property
    def in_avals(self) -> list[ShapedArray]:
        """The types of the inputs; the constants are none of them."""
        return self.jaxpr.in_avals

    @property
    def out_avals(self) -> list[ShapedArray]:
        """The types of the results."""
        return self.jaxpr.out_avals

    @property
    def literals(self) -> tuple[Any, ...]:
        """The constants, by JAX's older name."""
        return self.consts

    def replace(self, *, jaxpr: Jaxpr | None = None, consts: Sequence[Any] | None = None) -> ClosedJaxpr:
        """This closed jaxpr with another jaxpr or other constants."""
        return ClosedJaxpr(self.jaxpr if jaxpr is None else jaxpr, self.consts if consts is None else consts)

    def map_jaxpr(self, f: Callable[[Jaxpr], Jaxpr]) -> ClosedJaxpr:
        """The closed jaxpr of ``f(jaxpr)`` and the same constants."""
        return ClosedJaxpr(f(self.jaxpr), self.consts)

    def pretty_print(self, **_: Any) -> str:
        """The printed form."""
        return repr(self)

    @property
    def constvars(self) -> tuple[Var, ...]:
        """The variables of the constants."""
        return self.jaxpr.constvars

    @property
    def invars(self) -> tuple[Var, ...]:
        """The inputs' variables."""
        return self.jaxpr.invars

    @property
    def outvars(self) -> tuple[Atom, ...]:
        """The results."""
        return self.jaxpr.outvars

    @property
    def is_high(self) -> bool:
        """Whether there are types of values made of several arrays: quire has none."""
        return False

    @property
    def debug_info(self) -> DebugInfo:
        """What the jaxpr was traced from, for messages."""
        return self.jaxpr.debug_info

    @property
    def eqns(self) -> tuple[Eqn, ...]:
        """The equations, in their order."""
        return self.jaxpr.eqns

    @property
    def effects(self) -> Effects:
        """What the equations do besides computing results."""
        return self.jaxpr.effects

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, ClosedJaxpr) or len(self.consts) != len(other.consts):
            return False
        return all(map(_same_value, self.consts, other.consts)) and self.jaxpr == other.jaxpr

    def __hash__(self) -> int:
        return hash(self.jaxpr)

    def __repr__(self) -> str:
        from .printer import PrintOptions, closed_jaxpr_to_str

        return closed_jaxpr_to_str(self, PrintOptions(max_const=64))


def _same_value(a: Any, b: Any) -> bool:
    if a is b:
        return True
    if isinstance(a, Ref) or isinstance(b, Ref):
        return False
    a, b = np.asarray(a), np.asarray(b)
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def _alpha_equal(a: Jaxpr, b: Jaxpr) -> bool:
    if (len(a.constvars), len(a.invars), len(a.eqns), len(a.outvars)) != (
        len(b.constvars), len(b.invars), len(b.eqns), len(b.outvars)
    ):  # fmt: skip
        return False
    names: dict[Var, Var] = {}

    def bind(x: Var, y: Var) -> bool:
        names[x] = y
        return x.aval is y.aval

    def same(x: Atom, y: Atom) -> bool:
        if isinstance(x, Literal):
            return x == y
        return names.get(x) is y

    binders = zip((*a.constvars, *a.invars), (*b.constvars, *b.invars), strict=True)
    if not all(bind(x, y) for x, y in binders):
        return False
    for e, f in zip(a.eqns, b.eqns, strict=True):
        if (
            e.primitive is not f.primitive
            or len(e.inputs) != len(f.inputs)
            or len(e.outputs) != len(f.outputs)
            or not all(map(same, e.inputs, f.inputs))
            or not all(map(bind, e.outputs, f.outputs))
            or not same_params(e.params, f.params)
        ):
            return False
    return all(map(same, a.outvars, b.outvars))


def same_params(p: Params, q: Params) -> bool:
    """Equality of parameters, arrays by value."""
    if p is q:
        return True
    if p.keys() != q.keys():
        return False
    return all(_same_param(v, q[k]) for k, v in p.items())


def _same_param(x: Any, y: Any) -> bool:
    if x is y:
        return True
    if isinstance(x, np.ndarray) or isinstance(y, np.ndarray):
        return _same_value(x, y)
    if isinstance(x, tuple) and isinstance(y, tuple):
        first, second = cast("tuple[Any, ...]", x), cast("tuple[Any, ...]", y)
        return len(first) == len(second) and all(map(_same_param, first, second))
    if type(cast("Any", x)) is not type(y):
        return False
    try:
        return bool(x == y)
    except (TypeError, ValueError):  # arrays, or what holds some: only a primitive of another package has such
        return False


# -- walking and rebuilding --------------------------------------------------------------------------------------


def has_nested(params: Params) -> bool:
    """Whether an equation's parameters hold jaxprs."""
    for value in params.values():
        if isinstance(value, Jaxpr | ClosedJaxpr):
            return True
        if isinstance(value, tuple):
            for item in value:  # pyright: ignore[reportUnknownVariableType]
                if isinstance(item, Jaxpr | ClosedJaxpr):
                    return True
    return False


def nested_jaxprs(params: Params) -> Iterator[Jaxpr | ClosedJaxpr]:
    """The jaxprs held by an equation's parameters, also inside tuples."""
    for value in params.values():
        if isinstance(value, Jaxpr | ClosedJaxpr):
            yield value
        elif isinstance(value, tuple):
            for item in value:  # pyright: ignore[reportUnknownVariableType]
                if isinstance(item, Jaxpr | ClosedJaxpr):
                    yield item


def map_nested(params: Params, f: Callable[[ClosedJaxpr], ClosedJaxpr]) -> Params:
    """The parameters with `f` applied to each nested closed jaxpr (a bare Jaxpr is closed for the call)."""
    out: dict[str, Any] = {}
    changed = False

    def one(value: Any) -> Any:
        if isinstance(value, ClosedJaxpr):
            return f(value)
        if isinstance(value, Jaxpr):
            return f(ClosedJaxpr(value, ())).jaxpr
        return value

    for name, value in params.items():
        if isinstance(value, tuple):
            new: Any = tuple(one(item) for item in value)  # pyright: ignore[reportUnknownVariableType]
            new = value if all(x is y for x, y in zip(new, value)) else new  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
        else:
            new = one(value)
        changed = changed or new is not value
        out[name] = new
    return out if changed else params


def all_eqns(jaxpr: Jaxpr) -> Iterator[Eqn]:
    """Every equation, nested jaxprs included, outer before inner."""
    for eqn in jaxpr.eqns:
        yield eqn
        for inner in nested_jaxprs(eqn.params):
            yield from all_eqns(inner.jaxpr if isinstance(inner, ClosedJaxpr) else inner)


def join_effects(jaxprs: Iterable[Jaxpr | ClosedJaxpr]) -> Effects:
    """The union of the effects of some jaxprs."""
    effects: Effects = NO_EFFECTS
    for j in jaxprs:
        effects = effects | j.effects
    return effects


def subst_eqn(eqn: Eqn, env: Mapping[Var, Atom]) -> Eqn:
    """The equation with its input variables replaced as `env` says; the same one if it names none of them."""
    for a in eqn.inputs:
        if isinstance(a, Var) and a in env:
            return eqn.replace(inputs=[env.get(a, a) if isinstance(a, Var) else a for a in eqn.inputs])
    return eqn
