"""`compile`: the object that a decorated function becomes, and the path of a call through it.

A repeated call flattens the arguments, looks up the variant by their signatures and invokes it: nothing else. A call
inside a trace records one `jit` equation with the function's jaxpr.
"""

from __future__ import annotations

import collections
import functools
import logging
import operator
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from quire.ir import dtypes, errors
from quire.ir.avals import ShapedArray, aval_of
from quire.ir.config import config, current_override
from quire.ir.jaxpr import ClosedJaxpr, Jaxpr
from quire.ir.primitives.calls import jit_p
from quire.ir.source import current_source, where
from quire.ir.tracing import Tracer, close_captured, current_trace, eval_jaxpr, trace_flat
from quire.runtime.array import Array, device_of, device_view, from_host, from_view, own_device
from quire.runtime.devices import Device

from . import key_reuse, tree_util
from .arguments import Static, check_hashable, check_leaves, leaf_names, resolve
from .compiler import Program, compile_program
from .interim import InterimVariant
from .placement import as_device
from .recognition import MISMATCH, Recogniser, assembler, recogniser
from .spans import span
from .tracebacks import user_boundary
from .transformations import Transformation, note_transformations, recorded_transformations
from .variants import CacheInfo, Signature, VariantInfo, explain

_new = object.__new__
logger = logging.getLogger("quire")

Call = Callable[[Sequence[Any]], Any]

MOST_STRUCTURES = 6
"""So many structures of arguments of one function take the shortest way; trying each costs about 1 us."""


@dataclass(frozen=True)
class TracedFunction:
    """A function traced for one signature: inputs of the jaxpr are the captured values, then the leaves."""

    jaxpr: Jaxpr
    captured: list[Any]
    out_tree: Any
    seconds: float
    transformations: tuple[Transformation, ...] = ()

    @property
    def closes_over_tracers(self) -> bool:
        return any(isinstance(c, Tracer) for c in self.captured)

    @functools.cached_property
    def nested(self) -> ClosedJaxpr:
        """The jaxpr as a parameter of a `jit` equation; one object, so that passes recognise it."""
        return ClosedJaxpr(self.jaxpr, ())

    def closed(self) -> ClosedJaxpr:
        return close_captured(self.jaxpr, self.captured)


class Variant:
    """One compiled variant and its call: a function from the flat arguments to the result's tree."""

    __slots__ = ("call", "info", "program", "traced", "donated", "closed")

    def __init__(
        self, info: VariantInfo, traced: TracedFunction, closed: ClosedJaxpr, program: Program, donated: Sequence[int]
    ) -> None:
        self.info = info
        self.traced = traced
        self.closed = closed
        self.program = program
        self.donated = tuple(donated)
        self.call = _make_call(self)

    def check_first_call(self, function: str) -> None:
        """Compare the program with the reference backend at its first call; `function`: its name and line."""
        from .result_checks import checked_once

        plain = self.call
        names = [f"result{p}" for p in result_paths(self.traced.out_tree)]

        def done() -> None:
            if self.call is checked:
                self.call = plain

        checked = checked_once(plain, self.closed, self.program.device, self.donated, function, names, done)
        self.call = checked


def _make_call(variant: Variant) -> Call:
    """The shortest path from the flat arguments to the result."""
    program, info = variant.program, variant.info
    device = program.device
    result_bytes = sum(a.nbytes for a in program.out_avals)
    invoke = program.executable.make_call(result_bytes)
    out_tree = variant.traced.out_tree
    leaf = tree_util.is_single_leaf(out_tree)
    n_out = out_tree.num_leaves
    unflatten = assembler(out_tree.unflatten(range(n_out)), n_out) or out_tree.unflatten
    n_leaves = len(variant.traced.jaxpr.invars) - len(variant.traced.captured)
    kept = program.kept
    everything = kept == tuple(range(n_leaves))
    own = own_device(device)
    on_host = own is None
    n_results = program.executable.n_results
    makers = [
        (kind, i, aval, aval if on_host else (aval, own)) for (kind, i), aval in zip(program.results, program.out_avals)
    ]
    donated = frozenset(variant.donated)

    first = len(variant.traced.captured)
    dtypes_in = [(i, variant.traced.jaxpr.invars[first + i].aval.dtype) for i in kept]

    def view_of(x: Any) -> Any:
        return device_view(x, device)

    # A call that may be left before its end keeps what it was given.
    borrow = program.executable.length == "short"

    def views_of(leaves: Sequence[Any]) -> list[Any]:
        return [
            device_view(x, device) if type(x := leaves[i]) is Array else from_host(x, dtype, device, borrow)
            for i, dtype in dtypes_in
        ]

    if leaf and n_results == 1 and makers[0][0] == "result" and everything and on_host and not donated:
        _, _, out_aval, signature = makers[0]

        def call_simple(leaves: Sequence[Any]) -> Any:
            info.uses += 1
            try:
                view = invoke([x._view or view_of(x) for x in leaves])
            except AttributeError:
                view = invoke(views_of(leaves))
            out = _new(Array)
            out.aval = out_aval
            out._signature = signature
            out._host = None
            out._view = view
            out._device = None
            out._shared = False
            return out

        return call_simple

    uses_of = collections.Counter(i for kind, i, _, _ in makers if kind == "result")
    shared = {i for i, n in uses_of.items() if n > 1}
    # Each result once and in order: the usual case, in which nothing is looked up.
    in_order = [(kind, i) for kind, i, _, _ in makers] == [("result", i) for i in range(n_results)]
    avals = [aval for _, _, aval, _ in makers]
    select = _selector(kept, everything)

    def call(leaves: Sequence[Any]) -> Any:
        info.uses += 1
        if on_host and not donated:
            try:
                views = [x._view or view_of(x) for x in select(leaves)]
            except AttributeError:
                views = views_of(leaves)
        else:
            views = views_of(leaves)
        if donated:
            views = _donate(leaves, views, kept, donated, device)
            try:
                out = invoke(views)
            except BaseException:
                _delete(leaves, donated)  # the program may have written into them, or do so still
                raise
        else:
            out = invoke(views)
        if n_results == 1:
            out = (out,)
        if in_order:
            results = [from_view(v, aval, own) for v, aval in zip(out, avals)]
        else:
            results = []
            for kind, i, aval, _ in makers:
                if kind == "result":
                    array = from_view(out[i], aval, own)
                    array._shared = i in shared
                elif kind == "float0":
                    array = np.zeros(aval.shape, dtypes.float0)
                else:
                    array = _forward(leaves[i], aval, device)
                results.append(array)
        if donated:
            _delete(leaves, donated)
        return results[0] if leaf else unflatten(results)

    return call


def _selector(kept: Sequence[int], everything: bool) -> Callable[[Sequence[Any]], Sequence[Any]]:
    """Picks the leaves that the program takes."""
    if everything:
        return _same
    if len(kept) < 2:  # itemgetter gives a bare item for one, and does not exist for none
        return lambda leaves: [leaves[i] for i in kept]
    return operator.itemgetter(*kept)


def _same(leaves: Sequence[Any]) -> Sequence[Any]:
    return leaves


def _forward(x: Any, aval: ShapedArray, device: Device) -> Array:
    """A result that is an argument itself: another Array over the same buffer, which may not be donated any more."""
    if type(x) is Array and x.aval is aval and device_of(x) is device:
        view = device_view(x, device)
        x._shared = True
        out = from_view(view, aval, own_device(device))
        out._host = x._host
        out._shared = True
        return out
    if type(x) is Array:
        return from_view(device_view(x, device), aval, own_device(device))
    from quire.runtime import buffers

    return from_view(buffers.from_numpy(np.array(x, dtype=aval.dtype), device, copy=True), aval, own_device(device))


def _donate(
    leaves: Sequence[Any], views: list[Any], kept: Sequence[int], donated: frozenset[int], device: Device
) -> list[Any]:
    """Views whose donated members nobody else can see: what is shared, exposed to NumPy, or given twice is copied."""
    from quire.runtime import buffers

    out: list[Any] = []
    given = collections.Counter(id(view) for view in views)
    for view, i in zip(views, kept):
        x = leaves[i]
        if i in donated and (type(x) is not Array or x._shared or x._host is not None or given[id(view)] > 1):
            host = np.asarray(x, dtype=aval_of(x).dtype)
            view = buffers.from_numpy(host, device, copy=True)
        out.append(view)
    return out


def _delete(leaves: Sequence[Any], donated: frozenset[int]) -> None:
    for i in donated:
        x = leaves[i]
        if type(x) is Array:
            x._view = x._host = None


_functions: weakref.WeakSet[CompiledFunction] = weakref.WeakSet()


def clear_compiled_functions() -> None:
    """Forget the traces and variants of all compiled functions."""
    for f in list(_functions):
        f.clear_cache()


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
        max_variants: int | None = None,
        tiered: bool = False,
    ) -> None:
        if not callable(f):
            raise TypeError(f"quire.compile: expected a function, got {f!r} of type {type(f).__name__}")
        functools.update_wrapper(self, f)
        self.__name__: str = getattr(f, "__name__", type(f).__name__)
        self._f = f
        self._name = getattr(f, "__qualname__", None) or getattr(f, "__name__", None) or type(f).__name__
        self._static_numbers, self._static_names = resolve(f, "static", static_argnums, static_argnames)
        self._donate_numbers, self._donate_names = resolve(f, "donate", donate_argnums, donate_argnames)
        both = (self._static_numbers & self._donate_numbers) or (self._static_names & self._donate_names)
        if both:
            raise ValueError(f"quire.compile: arguments {sorted(map(str, both))} are both static and donated")
        self._keep_unused = keep_unused
        self._inline = inline
        if device is not None and backend is not None:
            raise ValueError("quire.compile: give a device or a backend, not both")
        named = backend if device is None else device
        self._device: Device | None = None if named is None else as_device(named)
        self._max_variants = max_variants
        self._tiered = tiered
        self._lock = threading.RLock()
        self._variants: dict[Any, Variant | InterimVariant] = {}
        self._traces: dict[Any, TracedFunction] = {}
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
            options = current_override()
            valid_for, known = self._fast
            if (config._base if options is None else options) is valid_for:
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
        key = (tree, signatures, static, options.trace_key)
        trace = current_trace()
        if trace is not None and (trace.staging or any(isinstance(x, Tracer) for x in leaves)):
            return self._in_trace(key, args, kwargs, static, leaves, tree)
        variant = self._variants.get(key)
        if variant is None:
            found = self._build(key, args, kwargs, static, leaves, tree)
            if isinstance(found, TracedFunction):  # closes over an outer trace's values
                return self._bind(found, leaves)
            variant = found
        elif trace is None and type(variant) is Variant and not (options.profiling or options.debug_key_reuse):
            self._remember(args, kwargs, options, leaves, tree, variant.call)
        if options.debug_key_reuse:
            traced = self._traces[("traced", key)]
            key_reuse.check_call(traced.jaxpr, [*traced.captured, *leaves])
        with span(self._name, "run"):
            return variant.call(leaves)

    def _remember(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], options: Any, leaves: Sequence[Any], tree: Any, call: Call
    ) -> None:
        """Make the next call like this one take the shortest way; from the second call of a variant on."""
        with self._lock:
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

    # -- tracing

    def _traced(
        self, key: Any, args: tuple[Any, ...], kwargs: dict[str, Any], static: tuple[Any, ...],
        avals: Sequence[ShapedArray], tree: Any,
    ) -> TracedFunction:  # fmt: skip
        found = self._traces.get(key)
        if found is not None:
            return found
        start = time.perf_counter()
        out_tree: Any = None
        names = self._names(args, kwargs)

        def flat(*leaves: Any) -> list[Any]:
            nonlocal out_tree
            dynamic, keywords = tree_util.tree_unflatten(tree, leaves)
            call_args = list(dynamic)
            call_kwargs = dict(keywords)
            for k, s in static:
                if isinstance(k, int):
                    call_args.insert(k, s.value)
                else:
                    call_kwargs[k] = s.value
            out, out_tree = tree_util.flatten_arrays(self._f(*call_args, **call_kwargs))
            check_outputs(out, out_tree, self._name)
            return out

        with recorded_transformations() as transformations, span(f"trace {self._name}", "trace"):
            jaxpr, captured, _ = trace_flat(flat, avals, name=f"compile of {self._name}", arg_names=names)
        key_reuse.check_call(jaxpr, ())
        traced = TracedFunction(jaxpr, captured, out_tree, time.perf_counter() - start, tuple(transformations))
        if not traced.closes_over_tracers:
            self._traces[key] = traced
        return traced

    def _in_trace(
        self, key: Any, args: tuple[Any, ...], kwargs: dict[str, Any], static: tuple[Any, ...],
        leaves: Sequence[Any], tree: Any,
    ) -> Any:  # fmt: skip
        avals = [aval_of(x) for x in leaves]
        return self._bind(self._traced(("traced", key), args, kwargs, static, avals, tree), leaves)

    def _bind(self, traced: TracedFunction, leaves: Sequence[Any]) -> Any:
        values = [*traced.captured, *leaves]
        note_transformations(traced.transformations)
        if self._inline:
            out = eval_jaxpr(traced.jaxpr, (), values)
        else:
            donated = (False,) * len(values)
            out = jit_p.bind(*values, name=self.__name__, jaxpr=traced.nested, inline=False, donated_invars=donated)
        return tree_util.tree_unflatten(traced.out_tree, out)

    # -- building a variant

    def _build(
        self, key: Any, args: tuple[Any, ...], kwargs: dict[str, Any], static: tuple[Any, ...],
        leaves: Sequence[Any], tree: Any,
    ) -> Variant | InterimVariant | TracedFunction:  # fmt: skip
        device = self._device_for(leaves, args, kwargs)
        with self._lock:
            found = self._variants.get(key)
            if found is not None:
                return found
            avals = [aval_of(x) for x in leaves]
            names = tuple(self._names(args, kwargs))
            signature = Signature(
                names, tuple(avals), tuple(x._device if type(x) is Array else None for x in leaves),
                tuple((str(k), s.value) for k, s in static), tree, config.options.trace_key,
            )  # fmt: skip
            known = [v.info for v in self._variants.values()]
            info = VariantInfo(signature, explain(signature, known))
            if self._max_variants is not None and len(known) >= self._max_variants:
                raise errors.TooManyVariantsError(
                    f"{self._name} is compiled for {len(known)} signatures, and max_variants={self._max_variants}"
                    f"{where(current_source())}: a call needs another one, {signature}. What changed: {info.reason}. "
                    "Keep shapes and dtypes the same (pad), make the argument an array instead of static, or raise "
                    "max_variants"
                )
            traced = self._traced(("traced", key), args, kwargs, static, avals, tree)
            if traced.closes_over_tracers:
                return traced
            info.trace_seconds = traced.seconds
            if config.options.log_compiles:
                logger.warning("compiling %s for %s: %s", self._name, signature, info.reason)
            if config.options.explain_cache_misses and known:
                warnings.warn(f"{self._name} is compiled anew: {info.reason}", stacklevel=3)
            donated = self._donated_leaves(args, kwargs)
            closed = traced.closed()
            if donated:
                from .donation import report_donation

                report_donation(closed, donated, names, self._name, keep_unused=self._keep_unused)

            checks = config.options.debug_nans or config.options.debug_infs  # part of the key

            def compiled() -> Variant:
                program = compile_program(
                    closed, device, name=self.__name__, donated=donated, keep_unused=self._keep_unused,
                    trace_seconds=traced.seconds, names=names, out_tree=traced.out_tree,
                    transformations=traced.transformations,
                )  # fmt: skip
                info.compile_seconds = program.seconds
                info.from_cache = program.cached
                info.cost = program.cost
                if config.options.log_compiles:
                    logger.warning(
                        "%s %s in %.1f ms, traced in %.1f ms", "loaded" if program.cached else "compiled", self._name,
                        program.seconds * 1e3, traced.seconds * 1e3,
                    )  # fmt: skip
                variant = Variant(info, traced, closed, program, donated)
                if config.options.check:
                    from .result_checks import defined_at

                    variant.check_first_call(f"{self._name}{defined_at(self._f)}")
                if checks:
                    from .value_checks import checked_call

                    variant.call = checked_call(variant.call, closed, donated, self._name, names, tree_util.tree_leaves)
                return variant

            if self._tiered and device.is_host and not checks:
                interim = InterimVariant(closed, traced.out_tree, donated, own_device(device), info)
                self._variants[key] = interim
                interim.start(compiled, functools.partial(self._finish, key, interim))
                return interim
            variant = self._variants[key] = compiled()
            return variant

    def _finish(self, key: Any, interim: InterimVariant, variant: Variant | None) -> None:
        """Put the compiled variant in the interim one's place; None where compiling failed: the next call tries anew."""
        with self._lock:
            if self._variants.get(key) is interim:
                if variant is None:
                    interim.info.reason += "; compiling failed"
                else:
                    self._variants[key] = variant

    def _device_for(self, leaves: Sequence[Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Device:
        if self._device is not None:
            return self._device
        found = {x._device for x in leaves if type(x) is Array and x._device is not None}
        if len(found) > 1:
            names = self._names(args, kwargs)
            given = ", ".join(f"{n} on {device_of(x)}" for n, x in zip(names, leaves) if type(x) is Array)
            raise ValueError(
                f"{self._name}: the arguments live on different devices: {given}{where(current_source())}. Move them to "
                "one with quire.device_put(x, device)"
            )
        if found:
            return found.pop()
        return as_device(None)

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
        return CacheInfo(self._name, tuple(v.info for v in self._variants.values()))

    def clear_cache(self) -> None:
        """Forget all traces and variants of this function."""
        with self._lock:
            self._variants.clear()
            self._traces.clear()
            self._fast = (None, ())

    def variants(self) -> list[Variant]:
        """The compiled variants, oldest first (for tools); waits for those that are being compiled (`tiered`)."""
        for v in list(self._variants.values()):
            if isinstance(v, InterimVariant):
                v.wait()
        return [v for v in self._variants.values() if isinstance(v, Variant)]

    @user_boundary
    def trace(self, *args: Any, **kwargs: Any) -> Any:
        """Trace for the arguments' types, without compiling: a `quire.aot.Traced`.

        Arguments may be arrays or `ShapeDtypeStruct`s.
        """
        from .aot import Traced

        static, dynamic, keywords = self._split(args, kwargs)
        leaves, tree = tree_util.flatten_arrays((dynamic, keywords))
        avals = check_leaves(leaves, lambda: self._names(args, kwargs), self._name)
        key = ("traced", (tree, tuple(avals), static, config.options.trace_key))
        traced = self._traced(key, args, kwargs, static, avals, tree)
        if traced.closes_over_tracers:
            raise errors.UnexpectedTracerError(f"{self._name}.trace: the function closes over a traced value")
        device = self._device if self._device is not None else self._device_for(leaves, args, kwargs)
        return Traced(
            traced, tree, self.__name__, device, self._donated_leaves(args, kwargs), self._keep_unused, static,
            tuple(self._names(args, kwargs)),
        )  # fmt: skip

    def lower(self, *args: Any, **kwargs: Any) -> Any:
        """Trace and lower to StableHLO for the arguments' types: a `quire.aot.Lowered`."""
        return self.trace(*args, **kwargs).lower()

    def eval_shape(self, *args: Any, **kwargs: Any) -> Any:
        """The types of the results, as a tree of `ShapeDtypeStruct`."""
        return self.trace(*args, **kwargs).out_info

    def as_text(self, stage: str = "jaxpr", *args: Any, **kwargs: Any) -> str:
        """The program's text at a stage; with no arguments, of the variant compiled last."""
        if args or kwargs:
            return self.trace(*args, **kwargs).as_text(stage)
        if not self._variants:
            raise ValueError(f"{self._name}.as_text: not compiled yet: call it, or give arguments after the stage")
        from .stages import stages_of

        variant = self.variants()[-1]
        stages = stages_of(
            variant.closed, variant.program.device.target, name=self.__name__, donated=variant.donated,
            transformations=variant.traced.transformations,
        )  # fmt: skip
        return stages[stage]


def result_paths(tree: Any) -> list[str]:
    """The path of each leaf of a result, as ``['loss']``; empty for a result that is one array."""
    paths = tree.paths() if hasattr(tree, "paths") else [(i,) for i in range(tree.num_leaves)]
    return ["".join(f"[{part!r}]" for part in path) for path in paths]


def check_outputs(leaves: Sequence[Any], tree: Any, function: str) -> None:
    """Raise TypeError for a result that is no array."""
    for i, x in enumerate(leaves):
        try:
            aval_of(x)
        except TypeError:
            path = "".join(map(str, tree.paths()[i])) if hasattr(tree, "paths") else str(i)
            at = f" at {path}" if len(leaves) > 1 else ""
            raise TypeError(
                f"{function} returned {x!r} of type {type(x).__name__}{at}: a compiled function returns arrays, "
                "numbers and containers of them (None counts as an empty container)"
            ) from None


__all__ = ["CompiledFunction", "TracedFunction", "Variant"]
