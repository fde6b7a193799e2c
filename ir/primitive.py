"""Primitives: what an equation may apply, and the tables in which passes and backends keep their rules.

A primitive is declared once, by decorating its type rule::

    @primitive("transpose")
    def transpose_p(x: ShapedArray, *, permutation: tuple[int, ...]) -> ShapedArray:
        '''Reorder the dimensions ...'''
        ...

The name is JAX's where JAX has it, the positional arguments are the operands' avals, the keyword arguments are the
typed parameters, and the docstring is the primitive's manual. What all passes and backends must agree on is said in the
declaration too: what an element costs, how it is rounded, what elements are combined by. Everything else (derivatives,
batching, lowering, evaluation) is a rule in a table of the folder that uses it.
"""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Generic, Literal, TypeVar

from .avals import NO_AXES, AxisNames, ShapedArray
from .extensions import note
from .jaxpr import NO_EFFECTS, Effects, has_nested
from .narrow import check_moves
from .references import AbstractRef, refuse_refs
from .sums import along_manual_axes, check_elements

F = TypeVar("F", bound=Callable[..., Any])

PRIMITIVES: dict[str, Primitive] = {}

Rounding = Literal["exact", "nearest", "approximate"]
"""How an element of the result is off: not at all, by one rounding, or by an approximation's error."""


class BindParams(dict[str, Any]):
    """An equation's parameters, for `bind`: ``p.bind(*operands, **p.get_bind_params(eqn.params))``, as in JAX 0.10.

    In JAX before 0.9 there was a pair of functions and parameters; interpreters written for it unpack this as such a pair,
    in which there are no functions: ``subfuns, params = p.get_bind_params(eqn.params)``.
    """

    def __iter__(self) -> Iterator[Any]:
        functions: list[Any] = []
        return iter((functions, dict(self)))


class Primitive:
    """An operation of the IR. Create with `primitive`; compared by identity, found by name in `PRIMITIVES`.

    Other packages make theirs as they do with JAX: ``Primitive(name)`` and then `def_abstract_eval` (what an equation's
    results are), `def_impl` (its value outside of programs), and the registries of `quire.interpreters`. Such a primitive
    is *foreign*: it may have the name of another, and is in no table that has to be complete. What it is lowered to takes
    its place before a program is compiled (`quire.passes.foreign`).

    Attributes:
        name: the name printed in jaxprs.
        type_rule: operand avals and parameters to the output aval, or to a tuple of them if `multiple_results`.
        params: name to annotation of each parameter (a string, as written).
        multiple_results: whether an equation has a tuple of outputs.
        effects_rule: parameters to the effects of an equation (for example those of nested jaxprs).
        family: the file of declarations that it belongs to (elementwise, structural, ...).
        weight: how many operations one element of the result takes, roughly; 0 for what only moves or repeats elements.
        complex_weight: the same of complex operands.
        rounding: how an element of the result is rounded; None where that is not a matter of single elements.
        combine: the primitive of two elements that a reduction, scan, window or scatter combines elements by; else None.
        commutative: whether the order of its two operands does not matter.
        apart: whether an equation is there for its own sake: it stays where it is, and two equal ones stay two.
        numpy: the name of NumPy's function that computes the same of real numbers; empty where there is none.
        stablehlo: the name of StableHLO's operation that means the same, or CHLO's (``chlo.erf``), of an elementwise primitive
            without parameters; empty where there is none.
        arity: the number of operands; None where it varies.
        foreign: whether it belongs to another package, made without a type rule.
        has_impl: whether outside of programs `impl` computes it: always for foreign ones, of quire's own for those that
            `def_impl` was called for.
    """

    binder: ClassVar[Callable[[Primitive, Sequence[Any], Mapping[str, Any]], Any]]  # set by `tracing`
    evaluator: ClassVar[Callable[[Primitive, Sequence[Any], Mapping[str, Any]], Any]]  # set by `tracing`
    divider: ClassVar[Callable[[Primitive, Sequence[Any], Mapping[str, Any]], tuple[ShapedArray, ...]]]
    """The output avals where an operand is divided along explicit mesh axes; set by who knows how operations divide."""
    any_foreign: ClassVar[bool] = False
    """Whether there is a foreign primitive: programs of quire's own alone are not searched for them."""

    # Attributes of the class, so that subclasses of other packages may set them there.
    multiple_results: bool = False
    call_primitive: bool = False
    has_impl: bool = False
    type_rule: Callable[..., Any]

    def __init__(
        self,
        name: str,
        type_rule: Callable[..., Any] | None = None,
        *,
        multiple_results: bool | None = None,
        effects_rule: Callable[[Mapping[str, Any]], Effects] | None = None,
        weight: int = 1,
        complex_weight: int | None = None,
        rounding: Rounding | None = None,
        combine: Primitive | None = None,
        commutative: bool = False,
        apart: bool = False,
        numpy: str = "",
        stablehlo: str = "",
    ) -> None:
        self.name = name
        self.weight = weight
        # Functions of complex numbers are made of several of reals, with much care for their special values.
        self.complex_weight = 3 * weight if complex_weight is None else complex_weight
        self.rounding = rounding
        self.combine = combine
        self.commutative = commutative
        self.apart = apart
        self.numpy = numpy
        self.stablehlo = stablehlo
        self.arity: int | None = None
        if multiple_results is not None:
            self.multiple_results = multiple_results
        self.effects_rule = effects_rule
        self._cache: dict[Any, tuple[ShapedArray, ...]] = {}
        self.foreign = type_rule is None
        if type_rule is None:
            Primitive.any_foreign = True
            self.has_impl = True
            self.family, self.doc = "foreign", ""
            self.params = {}
            self.optional_params: frozenset[str] = frozenset()
            return
        self.type_rule = type_rule
        self.family = type_rule.__module__.rpartition(".")[2]
        self.doc = inspect.getdoc(type_rule) or ""
        signature = inspect.signature(type_rule)
        self.params: dict[str, str] = {
            p.name: str(p.annotation) for p in signature.parameters.values() if p.kind is p.KEYWORD_ONLY
        }
        operands = [p for p in signature.parameters.values() if p.kind is not p.KEYWORD_ONLY]
        self.arity = None if any(p.kind is p.VAR_POSITIONAL for p in operands) else len(operands)
        # Those with a default may be absent from an equation.
        self.optional_params = frozenset(
            p.name for p in signature.parameters.values() if p.kind is p.KEYWORD_ONLY and p.default is not p.empty
        )

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[Any, ...]:
        if self.foreign:
            raise pickle.PicklingError(f"primitive {self.name} of another package is not found by its name")
        return (find_primitive, (self.name,))

    def __copy__(self) -> Primitive:
        return self

    def __deepcopy__(self, memo: Any) -> Primitive:
        return self

    def infer(self, avals: Sequence[Any], params: Mapping[str, Any]) -> tuple[ShapedArray, ...]:
        """The output avals of an equation. Raises TypeError or ValueError in the user's terms."""
        if not ShapedArray.any_divided:  # most programs: every equation of a trace comes by here
            try:
                found = self._cache.get((*avals, *params.values()))
            except TypeError:  # a parameter that cannot be hashed
                found = None
            if found is not None:
                return found
        if self.foreign:
            return self.infer_all(avals, params)[0]
        if ShapedArray.any_divided and (has_nested(params) or any(a.division is not None for a in avals)):
            return Primitive.divider(self, avals, params)
        return self.infer_undivided(avals, params)

    def infer_undivided(self, avals: Sequence[Any], params: Mapping[str, Any]) -> tuple[ShapedArray, ...]:
        """The output avals without a word of explicit mesh axes, apart from what nested jaxprs say. Raises as `infer`."""
        try:
            key = (*avals, *params.values())
            found = self._cache.get(key)
        except TypeError:  # a parameter that cannot be hashed
            return self._infer(avals, params)
        if found is None:
            found = self._infer(avals, params)
            if len(self._cache) > 4096:
                self._cache.clear()
            self._cache[key] = found
        return found

    def _infer(self, avals: Sequence[Any], params: Mapping[str, Any]) -> tuple[ShapedArray, ...]:
        # custom_lin hands the residuals of a user's rule on to it.
        if any(type(a) is AbstractRef for a in avals) and not (
            self.family == "refs" or self.name == "custom_lin" or has_nested(params)
        ):
            refuse_refs(self.name, avals)
        if ShapedArray.any_narrow:
            check_moves(self.name, self.family, avals)
        if ShapedArray.any_varies and self.joins_varying(params):
            # What is computed of values varies along all axes along which one of them does.
            vma = self._joined(avals, params)
            if vma:
                out = self._typed([a.update(vma=NO_AXES) for a in avals], params)
                return tuple(a.update(vma=a.vma | vma) for a in out)
        elif ShapedArray.any_sums:
            check_elements(self.name, self.family, avals)
        return self._typed(avals, params)

    def infer_all(self, avals: Sequence[Any], params: Mapping[str, Any]) -> tuple[tuple[ShapedArray, ...], Effects]:
        """The output avals and the effects of an equation. A foreign primitive's rule is asked each time: it may look at more
        than its arguments.

        Raises TypeError or ValueError in the user's terms, NotImplementedError where a foreign primitive has no rule.
        """
        if not self.foreign:
            return self.infer(avals, params), self.effects(params)
        out, effects = self.abstract_eval(*[a.undivided() for a in avals], **params)
        out = tuple(out) if self.multiple_results else (out,)
        if ShapedArray.any_varies:
            vma = self._joined(avals, params)
            out = tuple(a.update(vma=a.vma | vma) if isinstance(a, ShapedArray) else a for a in out)
        return out, frozenset(effects)

    def _joined(self, avals: Sequence[Any], params: Mapping[str, Any]) -> AxisNames:
        """What the results' types say of manual axes: all along which an operand varies, and sums as `ir.sums` says."""
        if ShapedArray.any_sums and any(a.manual is not a.vma for a in avals):
            return along_manual_axes(self.name, self.family, avals, params)
        return NO_AXES.union(*(a.vma for a in avals))

    def joins_varying(self, params: Mapping[str, Any]) -> bool:
        """Whether results vary along the axes of all operands: not for collectives, nor where a nested jaxpr says it."""
        return self.foreign or self.family != "collectives" and self.name != "custom_lin" and not has_nested(params)

    def _typed(self, avals: Sequence[Any], params: Mapping[str, Any]) -> tuple[ShapedArray, ...]:
        out = self.type_rule(*avals, **params)
        return tuple(out) if self.multiple_results else (out,)

    def effects(self, params: Mapping[str, Any]) -> Effects:
        """The effects of an equation with these parameters."""
        return NO_EFFECTS if self.effects_rule is None else self.effects_rule(params)

    def bind(self, *args: Any, **params: Any) -> Any:
        """Apply the primitive: recorded by the current trace, or evaluated at once outside any.

        Returns one value, or a list of values if `multiple_results`.
        """
        return Primitive.binder(self, args, params)

    # -- as JAX's primitives are defined and asked

    def get_bind_params(self, params: Mapping[str, Any]) -> BindParams:
        """What `bind` takes to apply an equation anew: its parameters. See `BindParams`."""
        return BindParams(params)

    def impl(self, *args: Any, **params: Any) -> Any:
        """The primitive's value for concrete values.

        Raises NotImplementedError for a foreign primitive that has none.
        """
        if self.foreign:
            raise NotImplementedError(
                f"Evaluation rule for '{self.name}' not implemented: give {self.name}_p.def_impl a function of arrays"
            )
        return Primitive.evaluator(self, args, params)

    def abstract_eval(self, *avals: Any, **params: Any) -> tuple[Any, Effects]:
        """The results' avals (one, or a list for `multiple_results`) and the effects of an equation.

        Raises NotImplementedError for a foreign primitive that has no rule.
        """
        if self.foreign:
            raise NotImplementedError(
                f"Abstract evaluation for '{self.name}' not implemented: give {self.name}_p.def_abstract_eval a function "
                "from the operands' ShapedArrays and the parameters to the results'"
            )
        out = self.infer(avals, params)
        return list(out) if self.multiple_results else out[0], self.effects(params)

    def def_impl(self, impl: F) -> F:
        """Define the primitive's value for concrete values, given as they were bound; returns the function."""
        # Given back its own evaluation, a primitive of quire's own is as it was.
        own = getattr(impl, "__func__", None) is Primitive.impl and getattr(impl, "__self__", None) is self
        self.has_impl = self.foreign or not own
        if own:
            self.__dict__.pop("impl", None)
        else:
            self.impl = impl
        return impl

    def def_abstract_eval(self, rule: F) -> F:
        """Define what the results are: ``rule(*avals, **params)`` gives an aval, or a list for `multiple_results`.

        Raises ValueError for a primitive of quire's own: passes and kernels rely on its types.
        """

        def without_effects(*avals: Any, **params: Any) -> tuple[Any, Effects]:
            return rule(*avals, **params), NO_EFFECTS

        self.def_effectful_abstract_eval(without_effects)
        return rule

    def def_effectful_abstract_eval(self, rule: F) -> F:
        """Define the results and the effects: the rule gives both. An equation with effects is never removed.

        Raises ValueError for a primitive of quire's own.
        """
        if not self.foreign:
            raise ValueError(f"{self.name} is quire's own: what its results are cannot be defined anew")
        self.abstract_eval = rule
        return rule


def primitive(
    name: str,
    *,
    multiple_results: bool = False,
    effects: Callable[[Mapping[str, Any]], Effects] | None = None,
    weight: int = 1,
    complex_weight: int | None = None,
    rounding: Rounding | None = None,
    combine: Primitive | None = None,
    commutative: bool = False,
    apart: bool = False,
    numpy: str = "",
    stablehlo: str = "",
) -> Callable[[Callable[..., Any]], Primitive]:
    """Declare a primitive by decorating its type rule; `Primitive` says what the facts mean. A name can be taken once."""

    def declare(type_rule: Callable[..., Any]) -> Primitive:
        if name in PRIMITIVES:
            raise ValueError(
                f"a primitive named {name!r} is declared already, in {PRIMITIVES[name].type_rule.__module__}"
            )
        p = Primitive(
            name, type_rule, multiple_results=multiple_results, effects_rule=effects, weight=weight,
            complex_weight=complex_weight, rounding=rounding, combine=combine, commutative=commutative, apart=apart,
            numpy=numpy, stablehlo=stablehlo,
        )  # fmt: skip
        PRIMITIVES[name] = p
        note(type_rule.__module__)
        return p

    return declare


def find_primitive(name: str) -> Primitive:
    """The primitive of that name; KeyError with the nearest name otherwise."""
    found = PRIMITIVES.get(name)
    if found is None:
        import difflib

        near = difflib.get_close_matches(name, sorted(PRIMITIVES), n=1)
        raise KeyError(f"no primitive is named {name!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
    return found


RULE_TABLES: dict[str, RuleTable[Any]] = {}


class RuleTable(Generic[F]):
    """The rules of one pass or backend: primitive to function, and the reasons why some have none.

    The generated table in docs/primitives.md is made of these; a test fails on a primitive without a rule and
    without a reason.
    """

    def __init__(self, name: str, doc: str) -> None:
        if name in RULE_TABLES:
            raise ValueError(f"a rule table named {name!r} exists already")
        self.name = name
        self.doc = doc
        self.rules: dict[Primitive, F] = {}
        self.reasons: dict[Primitive, str] = {}
        RULE_TABLES[name] = self

    def __call__(self, *primitives: Primitive) -> Callable[[F], F]:
        """Decorator: register the function as the rule of each of these primitives."""

        def register(rule: F) -> F:
            for p in primitives:
                self.add(p, rule)
            return rule

        return register

    def add(self, p: Primitive, rule: F) -> None:
        """Register a primitive's rule.

        Raises:
            ValueError: the primitive has a rule already.
        """
        if p in self.rules:
            raise ValueError(f"{self.name}: {p.name} has a rule already")
        self.rules[p] = rule

    def replace(self, p: Primitive, rule: F) -> None:
        """Give a primitive a rule, whether it has one or not."""
        self.rules[p] = rule

    def remove(self, p: Primitive) -> None:
        """Take a primitive's rule away. Raises KeyError where it has none."""
        del self.rules[p]

    def absent(self, reason: str, *primitives: Primitive) -> None:
        """State why these primitives have no rule here."""
        for p in primitives:
            self.reasons[p] = reason

    def get(self, p: Primitive) -> F | None:
        """A primitive's rule; None where there is none."""
        return self.rules.get(p)

    def __getitem__(self, p: Primitive) -> F:
        rule = self.rules.get(p)
        if rule is None:
            why = self.reasons.get(p, "none has been written")
            raise NotImplementedError(f"primitive {p.name} has no {self.name} rule: {why}")
        return rule

    def __contains__(self, p: object) -> bool:
        return p in self.rules

    def __iter__(self) -> Iterator[Primitive]:
        return iter(self.rules)
