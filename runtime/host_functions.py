"""Host functions: Python functions that compiled code calls.

A module declares ``func.func private @host.f(tensor<4xf32>) -> tensor<4xf32>`` and is loaded with
``HostModule("host", {"f": HostFunction(f, 1, 1)})``. The function runs in the thread that called the program (quire's own
in the one that runs it), in the order in which the program's text calls, also from within loops and branches.

Where the program has memory for the results, it calls ``@host.filling_f``, which takes the arrays to fill after the arguments
and gives nothing: both are lent, nothing is copied on the program's side (`backends/iree/host_programs.py`).

An exception in it ends the program; IREE keeps only its text, so the module keeps the exception itself, by thread,
and the executable raises that very object with its traceback.
"""

from __future__ import annotations

import dataclasses
import functools
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from quire.ir.errors import CallbackResultError
from quire.runtime.buffers import DTYPES, allocate, from_numpy, to_numpy
from quire.runtime.devices import Device, binding, first_cpu
from quire.runtime.interruption import caller, is_waited_for, on_caller

_cast = binding().HalBufferView.__iree_vm_cast__

ResultType = tuple[tuple[int, ...], np.dtype[Any]]


@dataclasses.dataclass(frozen=True)
class HostFunction:
    """One function and what it takes and gives.

    Attributes:
        function: takes NumPy arrays, returns one array, a sequence of them, or None for no results.
        arguments: how many arguments, or their dtypes: needed for unsigned integers, which IREE hands over as signed.
        results: how many results, or their (shape, dtype): then checked, with an error in the user's terms.
        borrow: the arguments are views of the program's own memory, valid during the call only; otherwise copies.
        anywhere: it may run in another thread than the one that called the program.
        fills: it takes, after its arguments, the arrays that are to hold the results, and writes them; their shapes and
            dtypes are given as `results`.
    """

    function: Callable[..., Any]
    arguments: int | Sequence[Any]
    results: int | Sequence[tuple[Sequence[int], Any]]
    borrow: bool = False
    anywhere: bool = False
    fills: bool = False

    @property
    def n_arguments(self) -> int:
        """The number of arrays that the function takes."""
        return self.arguments if isinstance(self.arguments, int) else len(self.arguments)

    @property
    def n_results(self) -> int:
        """The number of arrays that it returns."""
        return self.results if isinstance(self.results, int) else len(self.results)

    @property
    def name(self) -> str:
        """The Python function's name, for messages."""
        return getattr(self.function, "__qualname__", None) or repr(self.function)


class HostModule:
    """Host functions under one module name.

    Args:
        name: the module's name: its functions are ``@name.symbol`` in MLIR.
        functions: by symbol.
        device: where arguments come from and results go to.
    """

    def __init__(self, name: str, functions: Mapping[str, HostFunction], device: Device | None = None) -> None:
        self.name = name
        self.functions = dict(functions)
        self.device = device or first_cpu()
        self._pending: dict[int, BaseException] = {}  # by the thread that called the program

    def vm_module(self) -> Any:
        """A VmModule for one context."""
        interface = binding().PyModuleInterface(self.name, lambda _: self)
        for symbol, function in self.functions.items():
            convention = f"0{'r' * function.n_arguments or 'v'}_{'r' * function.n_results or 'v'}"
            interface.export(symbol, convention, self._filling(function) if function.fills else self._wrapper(function))
            if function.n_results:
                convention = f"0{'r' * (function.n_arguments + function.n_results)}_v"
                interface.export(f"filling_{symbol}", convention, self._lent(function))
        return interface.create()

    def take_exception(self) -> BaseException | None:
        """The exception that ended the last program in this thread, once; None where there was none."""
        return self._pending.pop(threading.get_ident(), None)

    def _wrapper(self, host: HostFunction) -> Callable[..., Any]:
        dtypes = None if isinstance(host.arguments, int) else [np.dtype(dtype) for dtype in host.arguments]
        types = None if isinstance(host.results, int) else _result_types(host.results)
        n_results, device = host.n_results, self.device
        run = host.function if host.anywhere else functools.partial(on_caller, host.function)

        def call(_: Any, *references: Any) -> Any:
            try:
                if not is_waited_for():
                    raise KeyboardInterrupt
                arguments = [
                    _argument(reference, device, dtypes[i] if dtypes else None, host.borrow)
                    for i, reference in enumerate(references)
                ]
                views = [from_numpy(array, device, copy=True).ref for array in _results(host, run(*arguments), types)]
            except BaseException as error:
                if is_waited_for():
                    self._pending[caller()] = error
                raise
            if n_results == 1:
                return views[0]
            return tuple(views) if n_results else None

        return call

    def _lent(self, host: HostFunction) -> Callable[..., None]:
        """The form that fills arrays which it is lent after its arguments."""
        types = None if isinstance(host.results, int) else _result_types(host.results)
        dtypes = None if isinstance(host.arguments, int) else [np.dtype(dtype) for dtype in host.arguments]
        n, device = host.n_arguments, self.device
        run = host.function if host.anywhere else functools.partial(on_caller, host.function)

        def fill(references: tuple[Any, ...]) -> None:
            assert dtypes is not None and types is not None
            host.function(*map(_borrowed, references, dtypes), *map(_borrowed, references[n:], [d for _, d in types]))

        def answer(references: tuple[Any, ...]) -> None:
            arguments = [
                _argument(reference, device, dtypes[i] if dtypes else None, host.borrow)
                for i, reference in enumerate(references[:n])
            ]
            for i, array in enumerate(_results(host, run(*arguments), types)):
                view = _cast(references[n + i])
                out = _borrowed(references[n + i], types[i][1] if types else np.dtype(DTYPES[view.element_type]))
                if array.shape != out.shape or array.dtype.itemsize != out.dtype.itemsize:
                    raise CallbackResultError(
                        f"host function {host.name} returned {array.dtype}{list(array.shape)} as result {i}; "
                        f"{out.dtype}{list(out.shape)} was declared"
                    )
                out[...] = array

        how = fill if host.fills else answer

        def call(_: Any, *references: Any) -> None:
            try:
                if not is_waited_for():
                    raise KeyboardInterrupt
                how(references)
            except BaseException as error:
                if is_waited_for():
                    self._pending[caller()] = error
                raise

        return call

    def _filling(self, host: HostFunction) -> Callable[..., Any]:
        """The same for a function that fills its results: a collective, of which each microsecond counts, or one in C."""
        assert not isinstance(host.arguments, int) and not isinstance(host.results, int)
        dtypes = [np.dtype(dtype) for dtype in host.arguments]
        if len(host.results) > 1:
            return self._filling_several(host, dtypes, _result_types(host.results))
        ((shape, dtype),) = _result_types(host.results)
        run, device = host.function, self.device

        def call(_: Any, *references: Any) -> Any:
            try:
                if not is_waited_for():
                    raise KeyboardInterrupt
                view, out = _to_fill(shape, dtype, device)
                run(*map(_borrowed, references, dtypes), out)
                return view.ref
            except BaseException as error:
                if is_waited_for():
                    self._pending[caller()] = error
                raise

        return call

    def _filling_several(
        self, host: HostFunction, dtypes: Sequence[np.dtype[Any]], types: Sequence[ResultType]
    ) -> Callable[..., Any]:
        run, device = host.function, self.device

        def call(_: Any, *references: Any) -> Any:
            try:
                if not is_waited_for():
                    raise KeyboardInterrupt
                made = [_to_fill(shape, dtype, device) for shape, dtype in types]
                run(*map(_borrowed, references, dtypes), *(out for _, out in made))
                return tuple(view.ref for view, _ in made)
            except BaseException as error:
                if is_waited_for():
                    self._pending[caller()] = error
                raise

        return call


def _borrowed(reference: Any, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """An argument in the program's own memory, for a function that does not write it."""
    view = _cast(reference)
    shape = tuple(view.shape)
    return np.empty(shape, dtype) if 0 in shape else np.ndarray(shape, dtype, view.map())


def _to_fill(shape: tuple[int, ...], dtype: np.dtype[Any], device: Device) -> tuple[Any, np.ndarray[Any, Any]]:
    """A result's memory as a buffer view and as an array."""
    if 0 in shape:
        empty = np.empty(shape, dtype)
        return from_numpy(empty, device), empty
    return allocate(shape, dtype, device)


def _argument(reference: Any, device: Device, dtype: np.dtype[Any] | None, borrow: bool) -> np.ndarray[Any, Any]:
    view = _cast(reference)
    array = to_numpy(view, device, dtype or DTYPES[view.element_type])
    # The program may use the memory for something else once the call is over.
    return array if borrow or not device.is_host else array.copy()


def _result_types(results: Sequence[tuple[Sequence[int], Any]]) -> list[ResultType]:
    return [(tuple(shape), np.dtype(dtype)) for shape, dtype in results]


def _results(host: HostFunction, value: Any, types: list[ResultType] | None) -> list[np.ndarray[Any, Any]]:
    """The function's value as a list of arrays of the promised number, shapes and dtypes."""
    n = host.n_results
    if n == 0:
        return []
    if n == 1 and not (isinstance(value, (tuple, list)) and len(value) == 1 and _is_array(value[0])):
        value = (value,)
    if not isinstance(value, (tuple, list)) or len(value) != n:
        found = f"{len(value)} values" if isinstance(value, (tuple, list)) else f"a {type(value).__name__}"
        raise CallbackResultError(f"host function {host.name} returned {found}; {n} results were declared")
    arrays = [np.asarray(item) for item in value]
    for i, (array, expected) in enumerate(zip(arrays, types or ())):
        shape, dtype = expected
        if array.shape != shape or array.dtype != dtype:
            if (
                array.shape == shape
                and not isinstance(value[i], np.ndarray)
                and np.can_cast(array.dtype, dtype, "same_kind")
            ):
                arrays[i] = array.astype(dtype)  # a Python number has the dtype NumPy happens to give it
                continue
            raise CallbackResultError(
                f"host function {host.name} returned {array.dtype}{list(array.shape)} as result {i}; "
                f"{dtype}{list(shape)} was declared"
            )
    return arrays


def _is_array(value: Any) -> bool:
    return hasattr(value, "shape") and hasattr(value, "dtype")
