"""`compile`: the object that a decorated function becomes, and the path of a call through it.

A repeated call flattens the arguments, looks up the variant by their signatures and invokes it: nothing else. A call
without a variant takes the steps that a user may take one by one: trace, lower, compile (`aot`). A call inside a trace
records one `jit` equation with the function's jaxpr.
"""

from __future__ import annotations

import functools
import inspect
import logging
import threading
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from types import FunctionType
from typing import Any

from quire.ir import errors
from quire.ir.avals import ShapedArray, aval_of
from quire.ir.axes import axes_key
from quire.ir.config import config, current_block
from quire.ir.primitives.calls import jit_p
from quire.ir.references import AbstractRef, ConcreteRef, Ref
from quire.ir.source import current_source, where
from quire.ir.tracing import Tracer, check_alive, current_trace, eval_jaxpr, stand_in
from quire.runtime.array import Array
from quire.runtime.devices import Device
from quire.runtime.placements import Place

from .. import tree_util
from ..arrays.explicit import mesh_of_leaves
from ..arrays.placement import as_device
from ..arrays.references import check_references
from ..arrays.shape_struct import as_typed
from ..watching import key_reuse
from ..watching.reports import Traced as Anew
from ..watching.reports import traced_anew
from ..watching.spans import span
from ..watching.tracebacks import user_boundary
from ..watching.transformations import note_transformations
from ..watching.value_checks import checked_call
from .aot import Lowered, Traced
from .arguments import Static, check_hashable, check_leaves, leaf_names, resolve
from .compiler_options import checked_options
from .interim import InterimVariant
from .loading import Program
from .recognition import MISMATCH, Recogniser, recogniser
from .reference_stages import ReferenceLowered
from .references import ReferenceVariant, takes_refs
from .result_checks import defined_at
from .running import Call, Variant
from .shardings import (
    NOTHING_ASKED,
    UNSAID,
    Layout,
    Shardings,
    argument_places,
    constrained,
    hidden_of,
    layout,
    tell_inspected,
    typed_at,
)
from .stage_texts import Stages
from .tracing import TracedFunction, result_paths, trace_function
from .variants import CacheInfo, Signature, VariantInfo, explain, explain_miss
from .wishes import wishes

logger = logging.getLogger("quire")

# Those whose call is what it will be.
_SETTLED = (Variant, ReferenceVariant)

MOST_STRUCTURES = 6
"""So many structures of arguments of one function take the shortest way; trying each costs about 1 us."""


@dataclass(eq=False)
class _Known:
    """What is known of a function under one set of options: shared by all that compile it so.

    Attributes:
        variants: by structure, signatures, static arguments and the configuration.
        traces: by structure, types, static arguments and the configuration.
        programs: by the same, and the device that runs them.
        lock: held while a variant is made.
    """

    variants: dict[Any, Variant | InterimVariant | ReferenceVariant] = field(default_factory=dict[Any, Any])
    traces: dict[Any, TracedFunction] = field(default_factory=dict[Any, TracedFunction])
    programs: dict[Any, Program] = field(default_factory=dict[Any, Program])
    lock: Any = field(default_factory=threading.RLock)

    def clear(self) -> None:
        with self.lock:
            self.variants.clear()
            self.traces.clear()
            self.programs.clear()


# By the function, as long as it lives, and the options. A cache, as JAX has one: `jit(f)` twice traces once.
_known: weakref.WeakKeyDictionary[FunctionType, dict[Any, _Known]] = weakref.WeakKeyDictionary()
_known_lock = threading.Lock()


def _known_of(f: Callable[..., Any], options: Any) -> _Known:
    """What is known of a plain function; of other callables each compiled function knows its own.

    Those may be equal without being the same (methods of equal objects), or change.
    """
    if type(f) is not FunctionType:
        return _Known()
    with _known_lock:
        return _known.setdefault(f, {}).setdefault(options, _Known())


def _trace_key(key: Any, avals: Sequence[ShapedArray], mesh: Any) -> Any:
    """What traces are told apart by: the key of a variant with types in place of signatures, which say where arrays lie.

    Of where they lie counts what types say, along explicit mesh axes, and the `mesh` that none is in force beside.
    """
    tree, _, *others = key
    return ("traced", (tree, tuple(avals), mesh, *others))


_functions: weakref.WeakSet[CompiledFunction] = weakref.WeakSet()


def clear_compiled_functions() -> None:
    """Forget the traces and variants of all compiled functions."""
    for f in list(_functions):
        f.clear_cache()
    with _known_lock:  # of functions too whose compiled ones are gone
        _known.clear()


class CompiledFunction:
    """A function compiled by quire; made by `quire.compile`. Calls like the function itself."""

    def __init__(
        self,
        f: Callable[..., Any],
        *,
        static_argnums: Any = None,
        static_argnames: Any = None,
        donate_argnums: Any = None,
        donate_argnames: Any = None,
        keep_unused: bool = False,
        inline: bool = False,
        device: Any = None,
        backend: str | None = None,
        in_shardings: Any = None,
        out_shardings: Any = None,
        max_variants: int | None = None,
        tiered: bool = False,
        target: Any = None,
        passes: Any = None,
        compiler_options: Any = None,
        mesh_of_block: bool = False,
    ) -> None:
        if not callable(f):
            raise TypeError(f"quire.compile: expected a function, got {f!r} of type {type(f).__name__}")
        if isinstance(f, staticmethod):
            raise TypeError(
                f"quire.compile: got the staticmethod {f!r}: compile the function below it (@staticmethod above @quire.compile)"
            )
        if inspect.isgeneratorfunction(f):
            raise TypeError(
                f"quire.compile: expected a function, got the generator function {f!r}: yield is not traced, return arrays or "
                "containers of them"
            )
        functools.update_wrapper(self, f)
        self.__name__: str = str(getattr(f, "__name__", None) or type(f).__name__)
        self._f = f
        self._name = str(getattr(f, "__qualname__", None) or self.__name__)
        self._static_numbers, self._static_names = resolve(f, "static", static_argnums, static_argnames)
        self._donate_numbers, self._donate_names = resolve(f, "donate", donate_argnums, donate_argnames)
        both = (self._static_numbers & self._donate_numbers) or (self._static_names & self._donate_names)
        if both:
            raise ValueError(f"quire.compile: arguments {sorted(map(str, both))} are both static and donated")
        self._keep_unused = keep_unused
        self._inline = inline
        self._compiler_options = checked_options(compiler_options, "quire.compile")
        if device is not None and backend is not None:
            raise ValueError("quire.compile: give a device or a backend, not both")
        self._wishes = wishes(target, passes)
        named = backend if device is None else device
        self._device: Device | None = self._wishes.device() if named is None else as_device(named)
        if (
            target is not None
            and self._device is not None
            and self._device.platform != self._wishes.target_for(self._device).runs_on
        ):
            raise ValueError(f"quire.compile: {self._device} does not run programs for the target {target!r}")
        if device is not None and not all(x is None or x is UNSAID for x in (in_shardings, out_shardings)):
            raise ValueError("quire.compile: give a device, or in_shardings and out_shardings, not both")
        self._shardings = (
            NOTHING_ASKED
            if all(x is UNSAID or (x is None and not mesh_of_block) for x in (in_shardings, out_shardings))
            else Shardings(in_shardings, out_shardings, mesh_of_block)
        )
        self._max_variants = max_variants
        self._tiered = tiered
        self._known = _known_of(
            f,
            (self._static_numbers, self._static_names, self._donate_numbers, self._donate_names, keep_unused,
             self._device, self._shardings.key, max_variants, tiered, self._wishes.key),
        )  # fmt: skip
        # The shortest way: the options for which it is valid, and each known structure's recogniser with its calls.
        self._fast: tuple[Any, tuple[tuple[Recogniser, dict[Any, Call]], ...]] = (None, ())
        self._unrecognised: set[Any] = set()
        self._plain = not (self._static_numbers or self._static_names)
        _functions.add(self)

    def __repr__(self) -> str:
        return f"<compiled function {self._name}>"

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    # -- the call

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if current_trace() is None:
            block = current_block()
            valid_for, known = self._fast
            if (config._base if block is None else block.options) is valid_for:
                for recognise, calls in known:
                    try:
                        leaves, key = recognise(args, kwargs)
                        call = calls[key]
                    except MISMATCH:
                        continue
                    return call(leaves)
        return self._general(args, kwargs)

    @user_boundary
    def _general(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        options = config.options
        if options.disable_jit:
            return self._f(*args, **kwargs)
        static, dynamic, keywords = self._split(args, kwargs)
        leaves, tree = tree_util.flatten_arrays((dynamic, keywords))
        try:
            signatures = tuple([x._signature if type(x) is Array else aval_of(x) for x in leaves])
        except (TypeError, OverflowError):
            check_leaves(leaves, lambda: self._names(args, kwargs), self._name)
            raise
        trace = current_trace()
        if trace is None:
            tracers = [x for x in leaves if isinstance(x, Tracer)]
            for x in tracers:
                check_alive(x)
            if tracers:  # of traces that have ended, with values that stand for them
                every, whole = tree_util.flatten_arrays((args, kwargs))
                args, kwargs = tree_util.tree_unflatten(whole, list(map(stand_in, every)))
                return self._general(args, kwargs)
        # Named axes are in scope within a trace only.
        key = (tree, signatures, static, options.trace_key, None if trace is None else axes_key())
        if trace is not None and (trace.staging or any(isinstance(x, Tracer | ConcreteRef) for x in leaves)):
            return self._in_trace(key, args, kwargs, static, (dynamic, keywords), leaves, tree)
        variant = self._known.variants.get(key)
        if variant is None:
            found = self._build(key, args, kwargs, static, leaves, tree)
            if isinstance(found, TracedFunction):  # closes over an outer trace's values
                return self._bind(found, leaves)
            variant = found
        elif (
            trace is None
            and type(variant) in _SETTLED
            and not (options.profiling or options.debug_key_reuse or options.no_execution)
        ):
            self._remember(args, kwargs, options, leaves, tree, variant.call)
        if trace is not None and type(variant) is ReferenceVariant:  # in order with what the trace writes
            return self._bind(variant.traced, leaves)
        if options.debug_key_reuse:
            traced = self._known.traces[_trace_key(key, [aval_of(x) for x in leaves], mesh_of_leaves(leaves))]
            key_reuse.check_call(traced.jaxpr, [*traced.captured, *leaves])
        if options.no_execution:
            raise RuntimeError(f"{self._name} would run{where(current_source())}, in a block of no_execution")
        with span(self._name, "run"):
            return variant.call(leaves)

    def _remember(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], options: Any, leaves: Sequence[Any], tree: Any, call: Call
    ) -> None:
        """Make the next call like this one take the shortest way; from the second call of a variant on."""
        with self._known.lock:
            valid_for, known = self._fast
            if valid_for is not options:
                known = ()
                self._unrecognised.clear()
            if tree in self._unrecognised:
                return
            for recognise, calls in known:
                try:
                    calls[recognise(args, kwargs)[1]] = call
                    return
                except MISMATCH:
                    continue
            made = None
            if len(known) < MOST_STRUCTURES:
                made = recogniser(args, kwargs, leaves, self._static_numbers, self._static_names)
            if made is None:
                self._unrecognised.add(tree)
            else:
                known = (*known, (made, {made(args, kwargs)[1]: call}))
            self._fast = (options, known)

    def _split(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], tuple[Any, ...], dict[str, Any]]:
        """Static arguments (as a hashable key), and the others."""
        if self._plain:
            return (), args, kwargs
        static: list[tuple[Any, Static]] = []
        dynamic: list[Any] = []
        keywords: dict[str, Any] = {}
        for i, a in enumerate(args):
            if i in self._static_numbers or i - len(args) in self._static_numbers:
                check_hashable(a, f"{i}", self._name)
                static.append((i, Static(a)))
            else:
                dynamic.append(a)
        for k, v in kwargs.items():
            if k in self._static_names:
                check_hashable(v, repr(k), self._name)
                static.append((k, Static(v)))
            else:
                keywords[k] = v
        return tuple(sorted(static, key=lambda s: (isinstance(s[0], str), s[0]))), tuple(dynamic), keywords

    def _names(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[str]:
        """The path of each dynamic leaf in terms of the function's parameters."""
        if self._plain:
            return leaf_names(self._f, args, kwargs)
        n = len(args)
        masked = tuple(
            None if i in self._static_numbers or i - n in self._static_numbers else a for i, a in enumerate(args)
        )
        return leaf_names(self._f, masked, {k: v for k, v in kwargs.items() if k not in self._static_names})

    def _check_refs(
        self, avals: Sequence[Any], leaves: Sequence[Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        """Raise ValueError where a reference was freed or is given twice."""
        given = [i for i, a in enumerate(avals) if type(a) is AbstractRef]
        if given:
            check_references([leaves[i] for i in given], [self._names(args, kwargs)[i] for i in given], self._name)

    # -- tracing

    def _traced(
        self, key: Any, args: tuple[Any, ...], kwargs: dict[str, Any], static: tuple[Any, ...],
        avals: Sequence[ShapedArray], tree: Any, mesh: Any,
    ) -> TracedFunction:  # fmt: skip
        found = self._known.traces.get(key)
        if found is not None:
            return found
        traced = trace_function(self._f, self._name, static, avals, tree, self._names(args, kwargs), mesh)
        if not traced.closes_over_tracers:
            self._known.traces[key] = traced
        return traced

    def _in_trace(
        self, key: Any, args: tuple[Any, ...], kwargs: dict[str, Any], static: tuple[Any, ...],
        dynamic: tuple[tuple[Any, ...], dict[str, Any]], leaves: Sequence[Any], tree: Any,
    ) -> Any:  # fmt: skip
        if self._compiler_options:
            raise ValueError(
                f"`compiler_options` can only be passed to top-level `quire.jit`. Got {self._compiler_options} for {self._name}, "
                f"which another compiled function calls{where(current_source())}"
            )
        if self._shardings is not NOTHING_ASKED:
            leaves = constrained(leaves, self._shardings.of_arguments(*dynamic, len(leaves)))
        avals = [aval_of(x) for x in leaves]
        mesh = mesh_of_leaves(leaves)
        self._check_refs(avals, leaves, args, kwargs)
        traced = self._traced(_trace_key(key, avals, mesh), args, kwargs, static, avals, tree, mesh)
        return self._bind(traced, leaves)

    def _bind(self, traced: TracedFunction, leaves: Sequence[Any]) -> Any:
        values = [*traced.captured, *leaves]
        if any(isinstance(c, Ref) for c in traced.captured):
            given = [x for x in values if isinstance(x, Ref)]
            check_references(given, [f"reference {i}" for i in range(len(given))], self._name)
        note_transformations(traced.transformations)
        if self._inline:
            out = eval_jaxpr(traced.jaxpr, (), values)
        else:
            donated = (False,) * len(values)
            out = jit_p.bind(*values, name=self.__name__, jaxpr=traced.nested, inline=False, donated_invars=donated)
        if self._shardings is not NOTHING_ASKED:
            out = constrained(out, self._shardings.of_results(traced.out_tree))
        return tree_util.tree_unflatten(traced.out_tree, out)

    # -- building a variant

    def _build(
        self, key: Any, args: tuple[Any, ...], kwargs: dict[str, Any], static: tuple[Any, ...],
        leaves: Sequence[Any], tree: Any,
    ) -> Variant | InterimVariant | ReferenceVariant | TracedFunction:  # fmt: skip
        with self._known.lock:
            found = self._known.variants.get(key)
            if found is not None:
                return found
            avals = [aval_of(x) for x in leaves]
            names = tuple(self._names(args, kwargs))
            places = self._argument_places(args, kwargs, leaves, avals, names)
            avals = typed_at(avals, places)
            signature = Signature(
                names, tuple(avals), places,
                tuple((str(k), s.value) for k, s in static), tree, config.options.trace_key,
            )  # fmt: skip
            known = [v.info for v in self._known.variants.values()]
            info = VariantInfo(signature, explain(signature, known))
            if self._max_variants is not None and len(known) >= self._max_variants:
                raise errors.TooManyVariantsError(
                    f"{self._name} is compiled for {len(known)} signatures, and max_variants={self._max_variants}"
                    f"{where(current_source())}: a call needs another one, {signature}. What changed: {info.reason}. "
                    "Keep shapes and dtypes the same (pad), make the argument an array instead of static, or raise "
                    "max_variants"
                )
            mesh = mesh_of_leaves(leaves, places)
            trace_key = _trace_key(key, avals, mesh)
            traced = self._traced(trace_key, args, kwargs, static, avals, tree, mesh)
            if traced.closes_over_tracers:
                return traced
            if takes_refs(traced):
                info = VariantInfo(signature, explain(signature, known))
                made = self._known.variants[key] = self._with_references(info, traced, args, kwargs, names)
                return made
            where_to = self._layout(traced, signature.devices, names)
            traced_anew(lambda: Anew(
                self._name, defined_at(self._f), self._f, str(signature), info.reason, current_source()
            ))  # fmt: skip
            if config.options.log_compiles:
                logger.warning("compiling %s for %s: %s", self._name, signature, info.reason)
            if config.options.explain_cache_misses:
                why = explain_miss(self._name, defined_at(self._f), info.reason, known)
                logger.warning("TRACING CACHE MISS%s: %s", where(current_source()), why)
            lowered = self._staged(traced, where_to, args, kwargs, tree, names).lower()
            lowered.report_donation()
            checks = (
                config.options.debug_nans or config.options.debug_infs
            ) and lowered.ranked is None  # part of the key

            def compiled() -> Variant:
                # Arrays that lie elsewhere need another variant, of the same program.
                program_key = (trace_key, where_to.device)
                if where_to.mesh is not None:  # but a rank's program is divided as its arguments and results are
                    program_key = (*program_key, where_to.arguments, where_to.places)
                variant = lowered.compile_variant(info, self._known.programs.get(program_key))
                self._known.programs[program_key] = variant.program
                if checks:
                    r = lowered.request
                    variant.call = checked_call(
                        variant.call, r.program, r.donated, self._name, names, tree_util.tree_leaves
                    )
                return variant

            if self._tiered and where_to.device.is_host and where_to.places is None and not checks:
                r = lowered.request
                interim = InterimVariant(r.program, traced.out_tree, r.donated, where_to.own, info)
                self._known.variants[key] = interim
                interim.start(compiled, functools.partial(self._finish, key, interim))
                return interim
            variant = self._known.variants[key] = compiled()
            return variant

    def _with_references(
        self, info: VariantInfo, traced: TracedFunction, args: tuple[Any, ...], kwargs: dict[str, Any],
        names: Sequence[str],
    ) -> ReferenceVariant:  # fmt: skip
        """The variant of a function that takes or closes over references."""
        wanted: tuple[Any, Any] = (None, None)
        if self._shardings is not NOTHING_ASKED:
            _, dynamic, keywords = self._split(args, kwargs)
            wanted = (
                self._shardings.of_arguments(dynamic, keywords, len(names)), self._shardings.of_results(traced.out_tree)
            )  # fmt: skip

        def make(
            f: Callable[..., Any], names: Sequence[str], donated: Sequence[int], places_in: Any, places_out: Any
        ) -> CompiledFunction:
            made = CompiledFunction(
                f, donate_argnums=tuple(donated), keep_unused=self._keep_unused, device=self._device,
                in_shardings=places_in, out_shardings=places_out, tiered=self._tiered, target=self._wishes.target,
                passes=self._wishes.passes,
            )  # fmt: skip
            made._names = lambda args, kwargs: list(names)
            made.__name__, made._name = self.__name__, self._name
            return made

        return ReferenceVariant(info, traced, self._name, names, self._donated_leaves(args, kwargs), wanted, make)

    def _staged(
        self, traced: TracedFunction, where_to: Layout, args: tuple[Any, ...], kwargs: dict[str, Any], tree: Any,
        names: Sequence[str],
    ) -> Traced:  # fmt: skip
        """The trace as the first of the steps that a user may take one by one."""
        donated = self._donated_leaves(args, kwargs)
        return Traced(
            traced,
            tree,
            self._f,
            self.__name__,
            self._name,
            where_to,
            donated,
            self._keep_unused,
            tuple(names),
            wishes=self._wishes,
            asked=tuple(self._shardings.of_results(traced.out_tree)),
        )

    def _finish(self, key: Any, interim: InterimVariant, variant: Variant | None) -> None:
        """Put the compiled variant in the interim one's place; None where compiling failed: the next call tries anew."""
        with self._known.lock:
            if self._known.variants.get(key) is interim:
                if variant is None:
                    interim.info.reason += "; compiling failed"
                else:
                    self._known.variants[key] = variant

    def _argument_places(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], leaves: Sequence[Any], avals: Sequence[ShapedArray],
        names: Sequence[str],
    ) -> tuple[Place, ...]:  # fmt: skip
        """Where each leaf lies, or is asked to lie; None for those that may lie anywhere."""
        wanted: Sequence[Any] = (None,) * len(leaves)
        if self._shardings is not NOTHING_ASKED:
            _, dynamic, keywords = self._split(args, kwargs)
            wanted = self._shardings.of_arguments(dynamic, keywords, len(leaves))
        return argument_places(wanted, leaves, avals, names)

    def _layout(self, traced: TracedFunction, arguments: tuple[Place, ...], names: Sequence[str]) -> Layout:
        """Where the program runs and its results lie."""
        wanted = self._shardings.of_results(traced.out_tree)
        hidden = hidden_of(traced.out_tree)
        paths = result_paths(traced.out_tree)
        found = layout(self._name, self._device, traced.jaxpr, traced.captured, names, arguments, wanted, paths, hidden)
        tell_inspected(traced.inspected, traced.jaxpr, traced.captured, found)
        return found

    def _donated_leaves(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[int, ...]:
        """The positions, among the dynamic leaves, of the donated arguments."""
        if not (self._donate_numbers or self._donate_names):
            return ()
        donated: list[int] = []
        position = 0
        n = len(args)
        for i, a in enumerate(args):
            if i in self._static_numbers or i - n in self._static_numbers:
                continue
            count = len(tree_util.flatten_arrays(a)[0])
            if i in self._donate_numbers or i - n in self._donate_numbers:
                donated.extend(range(position, position + count))
            position += count
        for k in sorted(k for k in kwargs if k not in self._static_names):
            count = len(tree_util.flatten_arrays(kwargs[k])[0])
            if k in self._donate_names:
                donated.extend(range(position, position + count))
            position += count
        return tuple(donated)

    # -- what a user may ask

    def cache_info(self) -> CacheInfo:
        """The compiled variants: signature, cost, uses, and what made each necessary."""
        return CacheInfo(self._name, tuple(v.info for v in self._known.variants.values()))

    def clear_cache(self) -> None:
        """Forget all traces and variants of this function."""
        self._known.clear()
        for f in list(_functions):
            if f._known is self._known:
                f._fast = (None, ())

    def variants(self) -> list[Variant]:
        """The compiled variants, oldest first (for tools); waits for those that are being compiled (`tiered`)."""
        for v in list(self._known.variants.values()):
            if isinstance(v, InterimVariant):
                v.wait()
        return [v for v in self._known.variants.values() if isinstance(v, Variant)]

    @user_boundary
    def trace(self, *args: Any, **kwargs: Any) -> Traced:
        """Trace for the arguments' types, without compiling: a `quire.stages.Traced`.

        Arguments may be arrays, types (`ShapedArray`) or anything with a shape and a dtype, as `ShapeDtypeStruct`.
        """
        static, dynamic, keywords = self._split(args, kwargs)
        leaves, tree = tree_util.flatten_arrays((dynamic, keywords))
        leaves = [as_typed(x) for x in leaves]
        avals = check_leaves(leaves, lambda: self._names(args, kwargs), self._name)
        names = self._names(args, kwargs)
        places = self._argument_places(args, kwargs, leaves, avals, names)
        avals = typed_at(avals, places)
        mesh = mesh_of_leaves(leaves, places)
        self._check_refs(avals, leaves, args, kwargs)
        key = _trace_key((tree, None, static, config.options.trace_key, axes_key()), avals, mesh)
        traced = self._traced(key, args, kwargs, static, avals, tree, mesh)
        where_to = self._layout(traced, places, names)
        staged = self._staged(traced, where_to, args, kwargs, tree, names)
        return replace(staged, lower_values=self._values_lowered) if takes_refs(traced) else staged

    def dynamic_leaves(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        """The leaves of the arguments that are not static, in the order of a trace's."""
        _, dynamic, keywords = self._split(args, kwargs)
        return tree_util.flatten_arrays((dynamic, keywords))[0]

    def _values_lowered(self, traced: Traced, backend: str | None) -> Lowered:
        """Lower a function with references, as one of values."""
        avals = traced.traced.jaxpr.in_avals[len(traced.traced.captured) :]
        signature = Signature(traced.names, tuple(avals), traced.layout.arguments, (), traced.in_tree, ())
        example, keywords = tree_util.tree_unflatten(traced.in_tree, avals)
        info = VariantInfo(signature, "compiled ahead of time")
        variant = self._with_references(info, traced.traced, example, keywords, traced.names)
        return ReferenceLowered(traced, variant, variant.values.trace(*variant.types()).lower(backend=backend))

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """Trace and lower to StableHLO for the arguments' types: a `quire.compiling.aot.Lowered`."""
        return self.trace(*args, **kwargs).lower()

    def eval_shape(self, *args: Any, **kwargs: Any) -> Any:
        """The types of the results, as a tree of `ShapeDtypeStruct`."""
        return self.trace(*args, **kwargs).out_info

    def as_text(self, stage: str = "jaxpr", *args: Any, **kwargs: Any) -> str:
        """The program's text at a stage; with no arguments, of the variant compiled last.

        Raises:
            ValueError: no arguments are given and nothing is compiled yet.
        """
        if args or kwargs:
            return self.trace(*args, **kwargs).as_text(stage)
        if not self._known.variants:
            raise ValueError(f"{self._name}.as_text: not compiled yet: call it, or give arguments after the stage")
        return Stages(self.variants()[-1].program.request)[stage]


__all__ = ["CompiledFunction", "clear_compiled_functions"]
