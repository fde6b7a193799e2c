"""Eager mode: an operation on concrete arrays outside any trace is evaluated at once.

Arrays in host memory go through the reference rules (NumPy). A nested program (a compiled function, a loop) and an
operation on an accelerator's arrays are compiled, once for each jaxpr and device, and run.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from quire.ir.avals import ShapedArray, aval_of
from quire.ir.config import config
from quire.ir.jaxpr import ClosedJaxpr, Eqn, Jaxpr, Params, Var
from quire.ir.primitive import Primitive
from quire.ir.source import current_source, where
from quire.ir.tracing import hooks
from quire.runtime.array import Array, device_view, from_view, host_value, own_device
from quire.runtime.devices import Device, devices

from ..arrays.placement import as_device
from ..arrays.results import own

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

    def clear(self) -> None:
        """Forget all programs."""
        with self._lock:
            self._programs.clear()

    def _compile(
        self, p: Primitive, params: Params, avals: Sequence[ShapedArray], device: Device
    ) -> Callable[[Sequence[Any]], list[Any]]:
        from ..compiling.compiler import compile_program
        from ..compiling.request import Request

        invars = [Var(a) for a in avals]
        outvars = [Var(a) for a in p.infer(avals, params)]
        jaxpr = Jaxpr((), invars, [Eqn(p, invars, outvars, params, p.effects(params))], outvars)
        name = str(params.get("name", p.name))
        program = compile_program(Request(ClosedJaxpr(jaxpr), device.target, name), device)
        invoke = program.executable.make_call()
        single = program.executable.n_results == 1
        kept, results = program.artifact.kept, list(zip(program.artifact.results, program.out_avals))

        def run(args: Sequence[Any]) -> list[Any]:
            views = invoke([_view(args[i], avals[i], device) for i in kept])
            views = (views,) if single else views
            out: list[Any] = []
            for (kind, i), aval in results:
                view = views[i] if kind == "result" else _view(args[i], aval, device)
                array = from_view(view, aval, own_device(device))
                array._shared = kind != "result" or sum(r == (kind, i) for r, _ in results) > 1
                if kind == "argument" and type(args[i]) is Array:
                    args[i]._shared = True
                out.append(array)
            return out

        if config.options.check:
            from ..compiling.result_checks import checked_once

            names = [f"result {i}" for i in range(len(outvars))]
            return checked_once(run, ClosedJaxpr(jaxpr), device, (), f"{name}{where(current_source())}", names)
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
    device: Device | None = None
    for a in args:
        if type(a) is Array:
            avals.append(a.aval)
            if a._device is None:
                operands.append(host if (host := a._host) is not None else host_value(a))
            elif device is not None and device is not a._device:
                raise ValueError(
                    f"{p.name}: the arguments live on different devices, {device} and {a._device}: move them to one "
                    "with quire.device_put(x, device)"
                )
            else:
                device = a._device
        else:
            aval = aval_of(a)
            avals.append(aval)
            operands.append(np.asarray(a, dtype=aval.dtype))
    if device is not None or (p.name in _COMPILED and not config.options.disable_jit):
        target = as_device(device)
        return _checked(p, args, params, programs.get(p, params, avals, target)(args))
    out_avals = p.infer(avals, params)
    evaluate, rules, rule_for = _reference()
    if p not in rules:
        return _checked(p, args, params, programs.get(p, params, avals, devices("cpu")[0])(args))
    results = evaluate(p, operands, params, out_avals, rule_for(p, avals[0].dtype) if avals else None)
    arrays = [own(r, a, operands) for r, a in zip(results, out_avals)]
    return _checked(p, args, params, arrays) if config.checks_values else arrays


def _checked(p: Primitive, args: Sequence[Any], params: Params, results: list[Any]) -> list[Any]:
    """The results, after `config.debug_nans` and `config.debug_infs` have seen them."""
    if config.checks_values and (config.options.debug_nans or config.options.debug_infs):
        from ..watching.value_checks import check_eager

        check_eager(p, args, params, results)
    return results


hooks.evaluate = evaluate_eagerly
