"""`config.check` (QUIRE_CHECK=1), and what `dumpir --compare` does with a compiled program: is it what the reference says?

The comparison, and what rounding explains, are those of `quire.passes.compare`.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from quire.ir.avals import ShapedArray
from quire.ir.errors import MiscompiledError, QuireError
from quire.ir.jaxpr import ClosedJaxpr, Jaxpr, all_eqns
from quire.ir.primitives import calls
from quire.ir.source import where
from quire.passes.compare import Difference, Equality, evaluate, first_difference, rounding_of, source_of_result
from quire.runtime import buffers
from quire.runtime.array import Array, peek
from quire.runtime.devices import Device
from quire.runtime.executable import Executable

from .. import tree_util
from ..watching.value_checks import without_debug_callbacks
from .loading import compile_lowered
from .lowering import lower
from .request import Request

Host = np.ndarray[Any, Any]
Call = Callable[[Sequence[Any]], Any]

MOST_VALUES = 4000
"""A program with more equations is not compiled anew to find the first wrong one."""


def not_comparable(closed: ClosedJaxpr) -> str | None:
    """Why a program cannot be run a second time; None where it can."""
    for e in all_eqns(closed.jaxpr):
        if e.primitive in (calls.pure_callback_p, calls.ffi_call_p, calls.io_callback_p):
            return f"it calls a function of yours by {e.primitive.name}{where(e.source)}, which is not called twice"
    return None


def reference_results(closed: ClosedJaxpr, args: Sequence[Any]) -> list[Host]:
    """The results by the reference backend; debug callbacks are not called."""
    import quire.backends.reference  # noqa: F401

    return evaluate(quiet(closed), args)


def compared(closed: ClosedJaxpr, args: Sequence[Any], got: Sequence[Host]) -> Difference | Equality:
    """A compiled program's results beside the reference's."""
    want = reference_results(closed, args)
    return first_difference(want, got, rounding_of(quiet(closed), args, want))


def quiet(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The program with constants as NumPy arrays, and without the debug callbacks that are not to be called again."""
    return ClosedJaxpr(without_debug_callbacks(closed.jaxpr), [np.asarray(c) for c in closed.consts])


def run(
    executable: Executable, kept: Sequence[int], results: Sequence[tuple[str, int]], avals: Sequence[ShapedArray],
    args: Sequence[Host],
) -> list[Host]:  # fmt: skip
    """The results of a loaded program for NumPy arrays; `kept` and `results` are those of its `Program`."""
    device = executable.device
    out = executable.execute([buffers.from_numpy(args[i], device, copy=True) for i in kept])
    found: list[Host] = []
    for (kind, i), aval in zip(results, avals):
        view = None if kind == "argument" else out[i]
        found.append(args[i] if view is None else np.array(buffers.to_numpy(view, device, aval.dtype, aval.shape)))
    return found


def blame(closed: ClosedJaxpr, args: Sequence[Any], device: Device, result: int) -> str:
    """Where a compiled program goes wrong, as a sentence.

    The program is compiled once more with all its values as results. It is another program then: the fault may be gone.
    """
    from quire.passes.manager import PassManager

    line = where(source_of_result(closed, result))
    end = f"result {result} is computed{line}" if line else f"result {result} is an argument or a constant"
    try:
        inlined = PassManager("inline").run(quiet(closed))
        jaxpr = inlined.jaxpr
        if len(jaxpr.eqns) > MOST_VALUES:
            return end
        values = [v for e in jaxpr.eqns for v in e.outputs]
        whole = ClosedJaxpr(Jaxpr(jaxpr.constvars, jaxpr.invars, values, jaxpr.eqns), inlined.consts)
        lowered = lower(Request(whole, device.target, "blame"))
        got = run(compile_lowered(lowered, device), lowered.kept, lowered.results, whole.out_avals, args)
        found = compared(whole, args, got)
    except (QuireError, MemoryError):
        return end
    if isinstance(found, Equality):
        return f"{end}; with all values of the program as results, none is wrong: the fault is in how they are put together"
    eqn = next(e for e in jaxpr.eqns if values[found.result] in e.outputs)
    return f"the first wrong value is that of {eqn.primitive.name}{where(eqn.source)}: {_value(found)}"


def _value(found: Difference) -> str:
    at = f" at index {found.index}" if found.index else ""
    return f"{found.after}{at} instead of {found.before}"


def checked_once(
    call: Call, closed: ClosedJaxpr, device: Device, donated: Sequence[int], name: str, names: Sequence[str],
    done: Callable[[], None] = lambda: None,
) -> Call:  # fmt: skip
    """A call that compares with the reference until it has agreed once, or cannot be compared; then `done` is called.

    Args:
        name: the function's name with its line.
        names: the names of the results.
    """

    agreed = False

    def settled(reason: str | None = None) -> None:
        nonlocal agreed
        agreed = True
        if reason is not None:
            warnings.warn(f"config.check: {name} is not checked: {reason}", RuntimeWarning, stacklevel=5)
        done()

    def checked(leaves: Sequence[Any]) -> Any:
        if agreed:
            return call(leaves)
        reason = not_comparable(closed)
        if reason is not None:
            settled(reason)
            return call(leaves)
        # Before the call: it takes the memory of donated arguments.
        args = [_host(x, v.dtype, i in donated) for i, (x, v) in enumerate(zip(leaves, closed.in_avals))]
        out = call(leaves)
        got = [peek(x) if type(x) is Array else np.asarray(x) for x in tree_util.flatten_arrays(out)[0]]
        try:
            found = compared(closed, args, got)
        except (QuireError, MemoryError, NotImplementedError) as error:
            settled(f"the reference backend cannot run it: {error}")
            return out
        if isinstance(found, Difference):
            raise MiscompiledError(
                f"config.check: the compiled program of {name} gives other numbers than the reference backend:\n"
                f"  {names[found.result]}: {_describe(found)}\n"
                f"  {blame(closed, args, device, found.result)}\n"
                "This is a mistake of quire or IREE. quire.disable_jit() runs the function without the compiler; "
                "dumpir --compare tells the stage"
            )
        settled()
        return out

    return checked


def _host(x: Any, dtype: Any, copy: bool) -> Host:
    value = peek(x) if type(x) is Array else np.asarray(x, dtype)
    return value.copy() if copy else value


def _describe(found: Difference) -> str:
    """A difference in the user's terms."""
    text = f"{_value(found)}, {found.count} of {found.size} elements differ"
    if found.explained is not None:
        text += f", by {found.largest:.3g} at most where rounding explains {found.explained:.3g}"
    return text


def defined_at(f: Callable[..., Any]) -> str:
    """`` (file.py:12)``: where a function is defined; empty where that is not known."""
    code = getattr(inspect.unwrap(f), "__code__", None)
    return f" ({code.co_filename}:{code.co_firstlineno})" if code is not None else ""
