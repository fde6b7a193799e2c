"""Eager mode: an operation on concrete arrays outside any trace is evaluated at once.

Arrays in host memory go through the reference rules (NumPy). A nested program (a compiled function, a loop) and an
operation on an accelerator's arrays are compiled, once for each jaxpr and device, and run.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.avals import ShapedArray, aval_of
from quire.ir.config import config
from quire.ir.jaxpr import ClosedJaxpr, Eqn, Jaxpr, Params, Var, all_eqns
from quire.ir.primitive import Primitive
from quire.ir.primitives.sharding import sharding_constraint_p
from quire.ir.references import AbstractRef
from quire.ir.sharding import UNCONSTRAINED, Mesh, NamedSharding, PartitionSpec, Sharding
from quire.ir.source import current_source, where
from quire.ir.tracing import hooks
from quire.runtime.array import Array, declare, device_view, from_box, from_view, holds_all, host_value, own_device
from quire.runtime.devices import Device, first_cpu
from quire.runtime.placements import mesh_of, placement_of

from ..arrays.placement import as_device, on_devices, put_sharded
from ..arrays.result_places import check_together, even, explicit_places, mesh_among, result_places, spec_of
from ..arrays.results import own
from ..compiling.ranked import is_ranked
from .references import evaluate_with_refs

# Primitives whose nested programs run as compiled ones; branches of `cond` are evaluated one by one.
_COMPILED = frozenset(("jit", "while", "bounded_while", "scan", "shard_map"))


class ProgramTable:
    """Programs that eager evaluation compiled, by what they compute and where."""

    def __init__(self) -> None:
        self._programs: dict[Any, Callable[[Sequence[Any]], list[Any]]] = {}
        self._lock = threading.Lock()

    def get(
        self, p: Primitive, params: Params, avals: Sequence[ShapedArray], device: Device
    ) -> Callable[[Sequence[Any]], list[Any]]:
        """The program of one equation on a device, compiled at first use."""
        key = (p, tuple(params.values()), tuple(avals), device)
        try:
            found = self._programs.get(key)
        except TypeError:  # a parameter that cannot be hashed
            return self._compile(p, params, avals, device)
        if found is None:
            with self._lock:
                found = self._programs.get(key)
                if found is None:
                    found = self._programs[key] = self._compile(p, params, avals, device)
        return found

    def get_ranked(
        self, p: Primitive, params: Params, avals: Sequence[ShapedArray], places: Sequence[Any], mesh: Mesh
    ) -> Callable[[Sequence[Any]], list[Any]]:
        """The program of one equation that several ranks run, divided as its arguments lie, compiled at first use."""
        key = (p, tuple(params.values()), tuple(avals), tuple(places), mesh, config.options.spmd)
        try:
            found = self._programs.get(key)
        except TypeError:  # a parameter that cannot be hashed
            key, found = None, None
        if found is None:
            found = self._compile_ranked(p, params, avals, places, mesh)
            if key is not None:
                self._programs[key] = found
        return found

    def _compile_ranked(
        self, p: Primitive, params: Params, avals: Sequence[ShapedArray], places: Sequence[Any], mesh: Mesh
    ) -> Callable[[Sequence[Any]], list[Any]]:
        from ..compiling.compiler import compile_program
        from ..compiling.ranked import check_agreement, divide, make_results
        from ..compiling.request import Request

        closed = _alone(p, params, avals)
        wanted: list[Any] = [None] * len(closed.out_avals)
        if p is sharding_constraint_p and isinstance(params["sharding"].mesh, Mesh):
            sharding = params["sharding"]
            wanted = [placement_of(sharding.update(spec=even(sharding.spec, avals[0].shape, sharding.mesh)))]
        out = result_places(closed, mesh, [spec_of(q, mesh) for q in places], wanted)
        device = placement_of(NamedSharding(mesh, PartitionSpec())).base
        name = str(params.get("name", p.name))
        ranked = divide(closed, mesh, places, out)
        check_agreement(ranked, name, where(current_source()))
        program = compile_program(ranked.request(Request(closed, device.target, name)), device)
        return make_results(program, ranked)

    def clear(self) -> None:
        """Forget all programs."""
        with self._lock:
            self._programs.clear()
            _result_places.clear()

    def _compile(
        self, p: Primitive, params: Params, avals: Sequence[ShapedArray], device: Device
    ) -> Callable[[Sequence[Any]], list[Any]]:
        from ..compiling.compiler import compile_program
        from ..compiling.request import Request

        closed = _alone(p, params, avals)
        name = str(params.get("name", p.name))
        program = compile_program(Request(closed, device.target, name), device)
        invoke = program.executable.make_call()
        single = program.executable.n_results == 1
        kept, results = program.artifact.kept, list(zip(program.artifact.results, program.out_avals))

        def run(args: Sequence[Any]) -> list[Any]:
            views = invoke([_view(args[i], avals[i], device) for i in kept])
            views = (views,) if single else views
            out: list[Any] = []
            for (kind, i), aval in results:
                if kind == "float0":
                    out.append(np.zeros(aval.shape, dtypes.float0))
                    continue
                view = views[i] if kind == "result" else _view(args[i], aval, device)
                array = from_view(view, aval, own_device(device))
                array._shared = kind != "result" or sum(r == (kind, i) for r, _ in results) > 1
                if kind == "argument" and type(args[i]) is Array:
                    args[i]._shared = True
                out.append(array)
            return out

        if config.options.check:
            from ..compiling.result_checks import checked_once

            names = [f"result {i}" for i in range(len(results))]
            return checked_once(run, closed, device, (), f"{name}{where(current_source())}", names)
        return run


def _view(x: Any, aval: ShapedArray, device: Device) -> Any:
    if type(x) is Array:
        return device_view(x, device)
    from quire.runtime import buffers

    return buffers.from_numpy(np.array(x, dtype=aval.dtype), device, copy=True)


programs = ProgramTable()


@cache
def _reference() -> tuple[Callable[..., list[Any]], Mapping[Primitive, Any], Callable[..., Any]]:
    # Imported at the first operation: the rules of special functions take SciPy, which is slow to import.
    from quire.backends.reference import evaluate, reference
    from quire.backends.reference.engine import eager_rule

    return evaluate, reference.rules, eager_rule


def evaluate_eagerly(p: Primitive, args: Sequence[Any], params: Params) -> list[Any]:
    """Apply a primitive to concrete values; the results are Arrays where the arguments live.

    Raises:
        ValueError: the arguments live on different devices.
    """
    avals: list[ShapedArray] = []
    operands: list[Any] = []
    place: Any = None
    for a in args:
        if type(a) is Array:
            avals.append(a.aval)
            if a._device is None:
                operands.append(host if (host := a._host) is not None else host_value(a))
            else:
                if place is not None and place is not a._device:
                    check_devices(p.name, [f"argument {i}" for i in range(len(args))], args)
                place = a._device
                operands.append(host_value(a) if place.is_host or place.base.is_host and holds_all(a) else None)
        else:
            aval = aval_of(a)
            if type(aval) is AbstractRef:
                return evaluate_with_refs(p, args, params)
            avals.append(aval)
            operands.append(np.asarray(a, dtype=aval.dtype))
    if place is not None or p is sharding_constraint_p:
        return _checked(p, args, params, _elsewhere(p, args, params, avals, operands, place))
    if p.name in _COMPILED and not config.options.disable_jit:
        mesh = params.get("mesh") or _mesh_within(p, params)
        if isinstance(mesh, Mesh):  # of a `shard_map`, which decides where it runs
            where_to = placement_of(NamedSharding(mesh, PartitionSpec()))
            return _checked(p, args, params, _elsewhere(p, args, params, avals, operands, where_to))
        return _checked(p, args, params, programs.get(p, params, avals, as_device(None).base)(args))
    if p.family == "refs":
        return evaluate_with_refs(p, args, params)
    out_avals = p.infer(avals, params)
    evaluate, rules, rule_for = _reference()
    if p not in rules:
        return _checked(p, args, params, programs.get(p, params, avals, first_cpu())(args))
    results = evaluate(p, operands, params, out_avals, rule_for(p, avals[0].dtype) if avals else None)
    arrays = [own(r, a, operands) for r, a in zip(results, out_avals)]
    return _checked(p, args, params, arrays) if config.checks_values else arrays


def _mesh_within(p: Primitive, params: Params) -> Mesh | None:
    """The mesh of a `shard_map` within a `jit`, if it has devices."""
    return _mesh_of_jaxpr(params["jaxpr"].jaxpr) if p.name == "jit" else None


@lru_cache(maxsize=256)
def _mesh_of_jaxpr(jaxpr: Jaxpr) -> Mesh | None:
    found = (e.params["mesh"] for e in all_eqns(jaxpr) if e.primitive.name == "shard_map")
    return next((m for m in found if isinstance(m, Mesh)), None)


def _elsewhere(
    p: Primitive, args: Sequence[Any], params: Params, avals: Sequence[ShapedArray], operands: Sequence[Any], place: Any
) -> list[Any]:
    """Apply a primitive to arrays of which some are not on the first CPU device; the results lie where they do."""
    if p.family == "refs":
        return evaluate_with_refs(p, args, params)
    if p is sharding_constraint_p and not (type(args[0]) is Array and not args[0].is_fully_addressable):
        wanted = params["sharding"]
        if wanted.mesh.explicit_axes:
            wanted = on_devices(wanted, mesh_of(place)) or wanted
        # A mesh without devices says nothing of where an array lies outside of a program.
        if not isinstance(wanted.mesh, Mesh):
            return [args[0]]
        spec = even(wanted.spec, avals[0].shape, wanted.mesh)
        return [put_sharded(args[0], wanted.update(spec=spec) if UNCONSTRAINED in wanted.spec else wanted)]
    device: Device = place.base
    mesh = mesh_of(place)
    evaluate, rules, rule_for = _reference()
    # What all processes have whole each computes for itself.
    whole = all(x is not None for x in operands) and p in rules and p.name not in _COMPILED
    if mesh is not None and (mesh.is_multi_process and not whole or p.name in _COMPILED and is_ranked(mesh)):
        return programs.get_ranked(p, params, avals, _given(args, place), mesh)(args)
    if not device.is_host or p not in rules or p.name in _COMPILED and not config.options.disable_jit:
        results = programs.get(p, params, avals, device)(args)
    else:
        found = evaluate(p, operands, params, p.infer(avals, params), rule_for(p, avals[0].dtype))
        results = [own(r, a, operands) for r, a in zip(found, p.infer(avals, params))]
    places = _places(p, params, avals, _given(args, place), place)
    if mesh is not None and mesh.is_multi_process:
        return [from_box(host_value(r)[q.box(r.aval.shape)], r.aval, q) for r, q in zip(results, places)]
    for r, q in zip(results, places):
        declare(r, q)
    return results


def _given(args: Sequence[Any], place: Any) -> list[Any]:
    """Where the arguments lie; the first one there is, if none lies anywhere, at `place`."""
    places = [a._device if type(a) is Array else None for a in args]
    return places if not places or any(q is not None for q in places) else [place, *places[1:]]


_result_places: dict[Any, list[Any]] = {}


def _places(
    p: Primitive, params: Params, avals: Sequence[ShapedArray], places: Sequence[Any], place: Any
) -> Sequence[Any]:
    """Where the results of a primitive lie whose operands lie at these places, `place` being one of them."""
    mesh = mesh_among([*places, place])
    if mesh is None:
        return [place] * len(p.infer(avals, params))
    if mesh.are_all_axes_explicit:
        return explicit_places(p.infer(avals, params), mesh)
    key = (p, tuple(params.values()), tuple(avals), tuple(places), place)
    try:
        found = _result_places.get(key)
    except TypeError:  # a parameter that cannot be hashed
        key, found = None, None
    if found is None:
        jaxpr = _alone(p, params, avals)
        found = result_places(jaxpr, mesh, [spec_of(q, mesh) for q in places], [None] * len(jaxpr.out_avals))
        if key is not None:
            _result_places[key] = found
    return found


def _alone(p: Primitive, params: Params, avals: Sequence[ShapedArray]) -> ClosedJaxpr:
    """A program of one equation."""
    invars = [Var(a) for a in avals]
    out_avals, effects = p.infer_all(avals, params)
    outvars = [Var(a) for a in out_avals]
    return ClosedJaxpr(Jaxpr((), invars, outvars, [Eqn(invars, outvars, p, params, effects)]))


def check_devices(function: str, names: Sequence[str], args: Sequence[Any], result: Sharding | None = None) -> None:
    """Raise ValueError where arrays lie on different devices, or on others than a result is to lie on.

    Args:
        function: its name.
        names: what each argument is called.
        args: the arguments.
        result: the sharding that is asked for.
    """
    given: list[Any] = [
        (f"argument {n.removeprefix('argument ')} of {function}", a.aval, a._device)
        for n, a in zip(names, args)
        if type(a) is Array
    ]
    if result is not None:
        given.append(("explicit output sharding", None, placement_of(result)))
    check_together(given)


def _checked(p: Primitive, args: Sequence[Any], params: Params, results: list[Any]) -> list[Any]:
    """The results, after `config.debug_nans` and `config.debug_infs` have seen them."""
    if config.checks_values and (config.options.debug_nans or config.options.debug_infs):
        from ..watching.value_checks import check_eager

        check_eager(p, args, params, results)
    return results


hooks.evaluate = evaluate_eagerly
