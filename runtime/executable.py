"""Executables: compiled modules, loaded, and the shortest way to call them.

Measured with 2 arguments of 16 bytes and one result (ns, one core of a 3 GHz Zen 3): an argument list made by
`VmVariantList.push_ref` 970, by `ArgumentPacker.pack` 480 (48 for each further argument); a new result list 290, a
reused one 0 (invoke clears it); `get_as_object` 410, `get_variant` and the class' cast 200; the invocation itself
2400, of which 450 are the VM's and the rest IREE's fences, allocation and queue.
"""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any, Literal, NoReturn

import numpy as np

from quire.backends.iree.temporary import problem
from quire.ir.errors import OutOfMemoryError, QuireError
from quire.ir.source import current_source, where
from quire.runtime.buffers import uninitialised
from quire.runtime.devices import Device, Mode, binding, free_memory, vm_instance
from quire.runtime.interruption import interruptible
from quire.runtime.scheduling import waits_quietly

_b = binding()
_VariantList = _b.VmVariantList
_View = _b.HalBufferView
_cast = _View.__iree_vm_cast__

_LEFTOVER = re.compile(r"/iree_dylib_[A-Za-z0-9]{6}$")

KEEP_BELOW = 1 << 20
"""A reused result list holds the last results until the next call: done for programs whose results are smaller."""


class ExecutionError(QuireError, RuntimeError):
    """A compiled program failed while it ran, or could not be loaded."""


Call = Callable[[Sequence[Any]], Any]
Length = Literal["short", "long", "unknown"]


class Executable:
    """A loaded program.

    Attributes:
        device: the first device it runs on.
        mode: "sync" or "task" (see `Device.hal`).
        n_results: how many results it has.
        stored_results: shape and dtype of the results for which memory is passed after the arguments.
        name: what the program is called in messages.
        length: "short", "long" or "unknown": what the estimate of one call says. Of the latter two the main thread may
            leave a call that is not done: then what it was given must live on by itself.
        planned: tells what one call takes of memory, for messages.
    """

    __slots__ = (
        "_context", "_function", "_module", "_system_linked", "device", "devices", "entry", "host_modules", "length",
        "mode", "n_results", "name", "planned", "stored_results",
    )  # fmt: skip

    def __init__(
        self,
        module: Any,
        devices: Sequence[Device],
        entry: str,
        host_modules: Sequence[Any],
        mode: Mode,
        system_linked: bool = False,
        stored_results: Sequence[tuple[tuple[int, ...], Any]] = (),
        name: str | None = None,
        length: Length = "short",
    ) -> None:
        self.name = name or entry
        self.length: Length = length
        self.planned: Callable[[], str] | None = None
        self.devices = tuple(devices)
        self.device = self.devices[0]
        self.mode: Mode = mode
        self.entry = entry
        self.host_modules = tuple(host_modules)
        self._module = module
        self._system_linked = system_linked
        self.stored_results = tuple((shape, np.dtype(dtype)) for shape, dtype in stored_results)
        function = module.lookup_function(entry)
        if function is None:
            raise ExecutionError(f"the module has no function {entry!r}; it has {', '.join(module.function_names)}")
        self._function = function
        self.n_results = _result_count(function)
        if len(self.devices) == 1:
            hal = self.device.hal_module(mode)
        else:
            hal = _b.create_hal_module(vm_instance(), devices=[device.hal(mode) for device in self.devices])
        vm_modules = [hal, *(host.vm_module() for host in self.host_modules), module]
        try:
            if system_linked:
                with _loading:
                    try:
                        self._context = _b.VmContext(vm_instance(), vm_modules)
                    finally:
                        _clear_leftovers()
            else:
                self._context = _b.VmContext(vm_instance(), vm_modules)
        except Exception as error:
            what = f"the program {self.name!r} could not be loaded on {self.device}: {_short(error)}"
            no_room = problem(str(error)) if system_linked else None
            raise ExecutionError(f"{what}\n  {no_room}" if no_room else what) from error

    @classmethod
    def load(
        cls,
        vmfb: bytes,
        device: Device | Sequence[Device],
        *,
        entry: str = "main",
        host_modules: Sequence[Any] = (),
        driver: Mode = "sync",
        stored_results: Sequence[tuple[tuple[int, ...], Any]] = (),
        name: str | None = None,
        length: Length = "short",
    ) -> Executable:
        """Loads a compiled module.

        Args:
            vmfb: what the compile service returned.
            device: one device, or several for a module compiled for several.
            entry: the function to call.
            host_modules: `HostModule`s that the module imports.
            driver: "sync" (in the caller's thread) or "task" (worker threads); the same on GPUs.
            stored_results: shape and dtype of the results for which the module takes memory after its arguments; each
                call allocates it.
            name: what the program is called in messages; default `entry`.
            length: what is known of the time of one call; see the class.

        Raises:
            ExecutionError: the module does not fit the device or this version of IREE, or has no such function.
        """
        try:
            module = _b.VmModule.copy_buffer(vm_instance(), vmfb)
        except Exception as error:
            raise ExecutionError(f"the compiled module could not be read: {_short(error)}") from error
        devices = (device,) if isinstance(device, Device) else tuple(device)
        for one in devices:
            # A new program has buffers of new sizes; kept ones of other sizes would only fill the pool's slots.
            one.trim()
        return cls(module, devices, entry, host_modules, driver, b"system-elf" in vmfb, stored_results, name, length)

    def with_mode(self, mode: Mode) -> Executable:
        """The same module in the other mode; `self` where nothing changes."""
        if mode == self.mode:
            return self
        return Executable(
            self._module, self.devices, self.entry, self.host_modules, mode, self._system_linked, self.stored_results,
            self.name, self.length,
        )  # fmt: skip

    def execute(self, arguments: Sequence[Any]) -> list[Any]:
        """Calls the program with HalBufferViews and returns its results.

        Raises:
            ExecutionError: the program failed, or an argument has the wrong shape or dtype.
        """
        results = _VariantList(self.n_results)
        arguments = [*arguments, *self._storage()]
        try:
            self._invoke()(self._function, _pack(self.device.hal(self.mode), arguments), results)
        except Exception as error:
            self.fail(error)
        return [_cast(results.get_variant(i)) for i in range(self.n_results)]

    def make_call(self, result_bytes: int | None = None) -> Call:
        """The quickest callable: takes a sequence of HalBufferViews, returns one HalBufferView (a program with one
        result) or a list.

        Args:
            result_bytes: size of all results together, if known; small results allow one allocation less.

        The callable may be used by several threads at once.
        """
        if self.stored_results:
            storage = self._storage
            call_stored = self._call_with_all(result_bytes)
            return lambda arguments: call_stored([*arguments, *storage()])
        return self._call_with_all(result_bytes)

    def _invoke(self) -> Callable[..., Any]:
        """Calls a function of the module with argument and result lists, and waits for the end."""
        waits_for_workers = self.mode == "task" and self.device.is_host
        invoke = waits_quietly(self._context.invoke) if waits_for_workers else self._context.invoke
        return (
            invoke if self.length == "short" else interruptible(invoke, self.length == "long", bool(self.host_modules))
        )

    def _storage(self) -> list[Any]:
        """Memory for the results that bring their own."""
        try:
            return [uninitialised(shape, dtype, self.device) for shape, dtype in self.stored_results]
        except OutOfMemoryError as error:
            raise OutOfMemoryError(f"{error}; it is for a result of {self.name!r}") from None

    def _call_with_all(self, result_bytes: int | None) -> Call:
        """A callable that takes all that the module takes, the memory of stored results included."""
        invoke, function, failure, n = self._invoke(), self._function, self.fail, self.n_results
        statics = _b.ArgumentPacker(_b._invoke_statics, None)
        pack, context, no_names = statics.pack, _b.InvokeContext(self.device.hal(self.mode)), dict[str, Any]()
        cast, new_list = _cast, _VariantList
        if result_bytes is None or result_bytes >= KEEP_BELOW or n == 0:

            def call(arguments: Sequence[Any]) -> Any:
                results = new_list(n)
                try:
                    invoke(function, pack(context, arguments, no_names), results)
                except Exception as error:
                    failure(error)
                if n == 1:
                    return cast(results.get_variant(0))
                get = results.get_variant
                return [cast(get(i)) for i in range(n)]

            return call

        # list.pop and list.append are atomic, so threads never share a list.
        free: list[Any] = [new_list(n)]
        take, give = free.pop, free.append
        if n == 1:

            def call_one(arguments: Sequence[Any]) -> Any:
                try:
                    results = take()
                except IndexError:
                    results = new_list(1)
                try:
                    invoke(function, pack(context, arguments, no_names), results)
                except Exception as error:
                    failure(error)
                result = cast(results.get_variant(0))
                give(results)
                return result

            return call_one
        indices = range(n)

        def call_many(arguments: Sequence[Any]) -> Any:
            try:
                results = take()
            except IndexError:
                results = new_list(n)
            try:
                invoke(function, pack(context, arguments, no_names), results)
            except Exception as error:
                failure(error)
            get = results.get_variant
            views = [cast(get(i)) for i in indices]
            give(results)
            return views

        return call_many

    def fail(self, error: Exception) -> NoReturn:
        """Raises what an error of an invocation means.

        Raises:
            OutOfMemoryError: the device had no memory for what the program takes.
            ExecutionError: it failed otherwise. (A host function's own exception comes before both, as it is.)
        """
        for host in self.host_modules:
            own = host.take_exception()
            if own is not None:
                raise own from None
        if "RESOURCE_EXHAUSTED" in str(error):
            takes = self.planned() if self.planned is not None else "its results and intermediate values"
            raise OutOfMemoryError(
                f"out of memory: the program {self.name!r}, called{where(current_source())}, asked for {takes} on "
                f"{self.device}; {free_memory(self.device)}. Parts one after the other (lax.map, lax.scan), "
                "quire.checkpoint in gradients, or donated arguments take less"
            ) from error
        raise ExecutionError(f"the program {self.name!r} failed on {self.device}: {_short(error)}") from error


_loading = threading.Lock()


def _clear_leftovers() -> None:
    """Removes what IREE leaves for each program that was linked as a system library.

    It makes an empty file by mkstemp ("/tmp/iree_dylib_XXXXXX"), writes the library under another name, and forgets
    the first: an open descriptor and a file would stay for each load (seen in 3.13).
    """
    if not sys.platform.startswith("linux"):
        return
    for name in os.listdir("/proc/self/fd"):
        try:
            path = os.readlink(f"/proc/self/fd/{name}")
            if _LEFTOVER.search(path) and os.fstat(int(name)).st_size == 0:
                os.close(int(name))
                os.unlink(path)
        except OSError:
            continue


def _pack(hal: Any, arguments: Sequence[Any]) -> Any:
    return _b.ArgumentPacker(_b._invoke_statics, None).pack(_b.InvokeContext(hal), arguments, {})


def _result_count(function: Any) -> int:
    """The number of results, from the calling convention in the function's text: ``main(0rr_r)``."""
    match = re.search(r"\(0([a-zA-Z]*)_([a-zA-Z]*)\)", repr(function))
    if match is None:
        raise ExecutionError(f"the calling convention of {function!r} is not known")
    return 0 if match[2] == "v" else len(match[2])


def _short(error: Exception) -> str:
    """An IREE error without its source position and call stack: "INVALID_ARGUMENT; input0 shape ..."."""
    text = str(error).strip()
    match = re.search(r"\b([A-Z_]{5,}; .*?)(?:;? while invoking|; stack trace|\n|$)", text)
    return (match[1] if match else text.splitlines()[0] if text else type(error).__name__)[:500]
