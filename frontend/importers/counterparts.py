"""From a jaxpr of JAX to quire's operations, equation by equation: the walk, and the table of what stands for what.

Most of JAX's primitives have one of the same name and parameters here. What differs has a rule, registered with
`counterpart`. Typed keys are their words here (uint32 with one more dimension), as in all of quire's jaxprs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.avals import ShapedArray, aval_of
from quire.ir.dtypes import DType
from quire.ir.errors import UnsupportedError
from quire.ir.jaxpr import ClosedJaxpr
from quire.ir.primitive import PRIMITIVES
from quire.ir.primitives import structural as st
from quire.ir.primitives.contraction import ConvDimensionNumbers, Precision
from quire.ir.primitives.fft import FftType
from quire.ir.primitives.indexing import GatherDimensionNumbers, GatherScatterMode, ScatterDimensionNumbers
from quire.ir.primitives.random import RandomAlgorithm
from quire.ir.source import Source, SourceSetter
from quire.ir.tracing import trace_flat

from ..transforms.vectorization import vmap

Value = Any
Rule = Callable[..., Any]

COUNTERPARTS: dict[str, Rule] = {}
"""By the name of JAX's primitive: ``rule(context, equation, *values)``, which gives the result or a list of results."""

TAKES_KEYS: set[str] = set()
"""Those whose rules know of keys; all others only move elements, where they are given keys."""


def counterpart(*names: str, keys: bool = False) -> Callable[[Rule], Rule]:
    """Decorator: what stands for these primitives of JAX. `keys`: the rule takes the words of keys itself."""

    def register(rule: Rule) -> Rule:
        for name in names:
            COUNTERPARTS[name] = rule
        if keys:
            TAKES_KEYS.update(names)
        return rule

    return register


#: Of the same name in both, with another meaning or none here; they have rules, or are refused.
_NOT_EQUAL = frozenset(("check", "custom_lin", "shard_map", "pbroadcast", "ffi_call"))

#: What JAX keeps beside the parameters that quire has too, and that says nothing of the result.
_NO_MEANING = frozenset(
    (
        *("accuracy", "sharding", "out_sharding", "algorithm", "use_magma", "implementation", "enable_eigvec_derivs"),
        *("input_dtype", "update_jaxpr", "update_consts", "consts", "computation", "is_stable", "linear"),
    )
)


def has_counterpart(name: str) -> bool:
    """Whether a primitive of JAX of that name has a counterpart."""
    same = PRIMITIVES.get(name)
    return name in COUNTERPARTS or (same is not None and same.family != "refs" and name not in _NOT_EQUAL)


# -- types and parameters -----------------------------------------------------------------------------------------------


def dtype_of(d: Any) -> DType:
    """A dtype of JAX as quire's.

    Raises:
        UnsupportedError: quire has no such dtype, or 64-bit dtypes are off.
    """
    dtype = np.dtype(d)
    if dtype not in dtypes.SHORT:
        raise UnsupportedError(f"from_jax: dtype {dtype} is not one quire has: {', '.join(dtypes.SHORT.values())}")
    if dtypes.canonicalize(dtype) != dtype:
        raise UnsupportedError(
            f"from_jax: the jaxpr holds values of dtype {dtype}, and 64-bit dtypes are off here: "
            "quire.config.update('enable_x64', True)"
        )
    return dtype


def is_key_aval(aval: Any) -> bool:
    """Whether a type of JAX is that of typed keys."""
    return type(getattr(aval, "dtype", None)).__name__ == "KeyTy"


def aval_from(aval: Any) -> ShapedArray:
    """A type of JAX as quire's; of keys that of their words.

    Raises:
        UnsupportedError: the keys are not Threefry's, or the type is none of arrays.
    """
    if is_key_aval(aval):
        if aval.dtype.name != "key<fry>":
            raise UnsupportedError(f"from_jax: keys of dtype {aval.dtype.name}: quire has Threefry's, key<fry>")
        return ShapedArray((*aval.shape, 2), dtypes.uint32)
    if not hasattr(aval, "shape") or not hasattr(aval, "dtype") or hasattr(aval, "inner_aval"):
        raise UnsupportedError(f"from_jax: a value of type {aval} is no array: quire has no counterpart")
    return ShapedArray(tuple(aval.shape), dtype_of(aval.dtype), bool(getattr(aval, "weak_type", False)))


def param_from(name: str, value: Any) -> Any:
    """A parameter of JAX's as quire's: of dimension numbers, modes and dtypes quire has types of its own."""
    kind = type(value).__name__
    if kind == "GatherDimensionNumbers":
        return GatherDimensionNumbers(*(getattr(value, f) for f in GatherDimensionNumbers.__dataclass_fields__))
    if kind == "ScatterDimensionNumbers":
        return ScatterDimensionNumbers(*(getattr(value, f) for f in ScatterDimensionNumbers.__dataclass_fields__))
    if kind == "ConvDimensionNumbers":
        return ConvDimensionNumbers(*(tuple(map(int, s)) for s in (value.lhs_spec, value.rhs_spec, value.out_spec)))
    if kind == "GatherScatterMode":
        return GatherScatterMode.FILL_OR_DROP if value.name == "ONE_HOT" else GatherScatterMode[value.name]
    if name == "precision":
        return precision_from(value)
    if name == "fft_type":
        return FftType[value.name]
    if name == "algorithm":
        return RandomAlgorithm(int(value))
    if name == "rounding_method":
        return int(value)
    if name in ("dtype", "new_dtype", "index_dtype", "preferred_element_type") and value is not None:
        return dtype_of(value)
    return _plain(value)


def _plain(value: Any) -> Any:
    """Lists as tuples, and NumPy's integers in them as Python's."""
    if isinstance(value, list | tuple) and type(value) in (list, tuple):
        return tuple(_plain(item) for item in value)  # pyright: ignore[reportUnknownVariableType]
    return int(value) if isinstance(value, np.integer) else value


def precision_from(value: Any) -> Any:
    """A precision of JAX's, or a pair of them, as quire's pair; algorithms of other machines have no meaning here."""
    if value is None:
        return None
    pair = value if isinstance(value, tuple) else (value, value)
    if not all(getattr(p, "name", "") in Precision.__members__ for p in pair):
        return None
    return tuple(Precision[p.name] for p in pair)


def params_from(eqn: Any, names: Sequence[str]) -> dict[str, Any]:
    """Those of an equation's parameters that quire's primitive has too, as quire's."""
    return {name: param_from(name, eqn.params[name]) for name in names if name in eqn.params}


def rule_of(name: str) -> Rule | None:
    """The rule for a primitive of JAX: its own, or that of quire's primitive of the same name; None for none."""
    rule = COUNTERPARTS.get(name)
    if rule is None and has_counterpart(name):
        rule = _same
    return rule


def _same(context: Context, eqn: Any, *values: Value) -> Any:
    """Bind quire's primitive of the same name, with the parameters that it has too."""
    p = PRIMITIVES[eqn.primitive.name]
    params = params_from(eqn, tuple(p.params))
    for name in eqn.params.keys() - p.params.keys() - _NO_MEANING:
        if eqn.params[name] is not None:
            raise UnsupportedError(
                f"from_jax: {eqn.primitive.name} with {name}={eqn.params[name]!r} has no counterpart{place_of(eqn)}"
            )
    if p.family == "elementwise":
        values = alike(*values)
    return p.bind(*values, **params)


def alike(*values: Value) -> tuple[Value, ...]:
    """Operands of an elementwise primitive in one shape: JAX's repeat dimensions of size 1."""
    shapes = {aval_of(x).shape for x in values} - {()}
    if len(shapes) < 2:
        return values
    shape = np.broadcast_shapes(*shapes)
    return tuple(st.broadcast_to(x, shape) if aval_of(x).shape else x for x in values)


# -- where equations come from --------------------------------------------------------------------------------------------


def source_of(eqn: Any) -> Source | None:
    """The user's line of an equation of JAX's, where JAX knows it."""
    from jax._src import source_info_util  # the only place where JAX tells whose frame is the user's

    info = eqn.source_info
    frame = None if info.traceback is None else source_info_util.user_frame(info.traceback)
    if frame is None:
        return None
    return Source(frame.file_name, frame.start_line, frame.function_name, str(info.name_stack))


def place_of(eqn: Any) -> str:
    """The user's line as the end of a message."""
    source = source_of(eqn)
    return "" if source is None else f" (at {source.file}:{source.line}, in {source.function})"


def nested_in(value: Any) -> Iterator[Any]:
    """The jaxprs (without their constants) in a parameter of an equation of JAX's."""
    if hasattr(value, "eqns") and hasattr(value, "invars"):
        yield value
    elif hasattr(value, "jaxpr") and hasattr(value.jaxpr, "eqns"):
        yield value.jaxpr
    elif isinstance(value, tuple | list):
        for item in value:  # pyright: ignore[reportUnknownVariableType]
            yield from nested_in(item)


def without_counterpart(jaxpr: Any) -> dict[str, Any]:
    """The primitives in a jaxpr of JAX's, nested ones included, that have no counterpart, each with its first equation."""
    found: dict[str, Any] = {}
    for eqn in jaxpr.eqns:
        name = eqn.primitive.name
        if not has_counterpart(name):
            found.setdefault(name, eqn)
        for value in eqn.params.values():
            for inner in nested_in(value):
                for other, where in without_counterpart(inner).items():
                    found.setdefault(other, where)
    return found


def check_counterparts(what: str, jaxpr: Any) -> None:
    """Raise UnsupportedError, which names all of them, if primitives of a jaxpr have no counterpart."""
    missing = without_counterpart(jaxpr)
    if missing:
        names = "\n".join(f"  {name}{place_of(eqn)}" for name, eqn in missing.items())
        raise UnsupportedError(f"from_jax: {what} uses primitives of JAX that quire has no counterpart for:\n{names}")


# -- the walk -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Nested:
    """A nested jaxpr as quire's: its first inputs are constants, whose values are `captured`."""

    closed: ClosedJaxpr
    captured: list[Any]


@dataclass
class Context:
    """One import: the jaxprs and constants that have been converted, by identity."""

    nested_ones: dict[int, tuple[Any, Nested]] = field(default_factory=dict)
    constants: dict[int, tuple[Any, Any]] = field(default_factory=dict)

    def constant(self, value: Any) -> Any:
        """A constant of JAX's as a NumPy array: the same one each time, keys as their words."""
        known = self.constants.get(id(value))
        if known is None:
            array = np.asarray(_words(value))
            dtype_of(array.dtype)
            known = self.constants[id(value)] = (value, array)
        return known[1]

    def literal(self, atom: Any) -> Value:
        """A literal of JAX's: a Python scalar where its type is weak, as quire's are."""
        aval = aval_from(atom.aval)
        value = np.asarray(_words(atom.val), aval.dtype)
        if value.shape != aval.shape:
            value = np.broadcast_to(value, aval.shape)
        if value.shape:
            return value
        return value.item() if aval.weak_type and _default(aval.dtype) else value[()]

    def evaluate(self, jaxpr: Any, consts: Sequence[Any], args: Sequence[Value]) -> list[Value]:
        """Apply a jaxpr of JAX's to values by quire's operations: recorded in a trace, evaluated outside one.

        Raises:
            UnsupportedError: a primitive has no counterpart.
            AssertionError: a counterpart gives another type than JAX says, which is a mistake of quire's.
        """
        env: dict[Any, Value] = dict(zip(jaxpr.invars, args, strict=True))
        env.update(zip(jaxpr.constvars, map(self.constant, consts), strict=True))

        def read(atom: Any) -> Value:
            return self.literal(atom) if hasattr(atom, "val") else env[atom]

        with SourceSetter() as set_source:
            for eqn in jaxpr.eqns:
                rule = rule_of(eqn.primitive.name)
                if rule is None:
                    check_counterparts("the jaxpr", jaxpr)
                    raise AssertionError("a primitive without a counterpart was not found again")
                set_source(source_of(eqn))
                out = self.apply(rule, eqn, [read(a) for a in eqn.invars])
                if not eqn.primitive.multiple_results:
                    out = [out]
                for var, value in zip(eqn.outvars, out, strict=True):
                    self.check(eqn, var.aval, value)
                    env[var] = value
        return [read(a) for a in jaxpr.outvars]

    def apply(self, rule: Rule, eqn: Any, values: list[Value]) -> Any:
        """One equation; what only moves elements sees the words of keys as one more mapped dimension at the end."""
        places = [i for i, a in enumerate(eqn.invars) if is_key_aval(a.aval)]
        if not places or eqn.primitive.name in TAKES_KEYS:
            return rule(self, eqn, *values)

        def of_words(*words: Value) -> Any:
            full = list(values)
            for i, w in zip(places, words):
                full[i] = w
            return rule(self, eqn, *full)

        return vmap(of_words, in_axes=-1, out_axes=-1)(*(values[i] for i in places))

    def check(self, eqn: Any, want: Any, value: Value) -> None:
        """Raise AssertionError where a counterpart gives another type than JAX says: a mistake of quire's table."""
        if type(want).__name__ == "DropVar" or not hasattr(want, "shape"):
            return
        aval, got = aval_from(want), aval_of(value)
        if aval.shape != got.shape or aval.dtype != got.dtype:
            raise AssertionError(f"from_jax: {eqn.primitive.name} should give {aval.short()}, gives {got.short()}")

    def nested(self, jaxpr: Any, consts: Sequence[Any] = ()) -> Nested:
        """A nested jaxpr of JAX's (closed, or with its constants) as quire's; the same one is converted once."""
        key = id(jaxpr)
        if key not in self.nested_ones:
            inner, values = (jaxpr.jaxpr, jaxpr.consts) if hasattr(jaxpr, "consts") else (jaxpr, consts)

            def flat(*xs: Value) -> list[Value]:
                return self.evaluate(inner, values, xs)

            traced, captured, _ = trace_flat(flat, [aval_from(v.aval) for v in inner.invars], name="a jaxpr of JAX")
            self.nested_ones[key] = (jaxpr, Nested(ClosedJaxpr(traced), captured))
        return self.nested_ones[key][1]

    def scalar(self, jaxpr: Any, consts: Sequence[Any] = ()) -> ClosedJaxpr:
        """A function of scalars (of a reduction, a window, a scatter) as quire's, without constants of its own.

        Raises:
            UnsupportedError: it uses arrays from outside.
        """
        found = self.nested(jaxpr, consts)
        if found.captured:
            raise UnsupportedError("from_jax: a function that combines elements uses arrays from outside")
        return found.closed

    def inline(self, jaxpr: Any, values: Sequence[Value], consts: Sequence[Any] = ()) -> list[Value]:
        """A nested jaxpr applied here, as if its equations stood here."""
        inner, own = (jaxpr.jaxpr, jaxpr.consts) if hasattr(jaxpr, "consts") else (jaxpr, consts)
        return self.evaluate(inner, own, values)


def _words(value: Any) -> Any:
    """Keys of JAX's as their words; anything else as it is."""
    if is_key_aval(value):
        import jax

        aval_from(value)
        return jax.random.key_data(value)
    return value


def _default(dtype: DType) -> bool:
    """Whether it is a dtype that Python scalars have."""
    wide = (dtypes.bool_, dtypes.int64, dtypes.float64, dtypes.complex128)
    return dtype in [dtypes.canonicalize(d) for d in wide]
