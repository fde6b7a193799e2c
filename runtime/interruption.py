"""Invocations that Ctrl-C leaves.

Python runs the handlers of signals in the main thread only, between two of its instructions: while that thread is within
IREE, Ctrl-C waits for the program's end. A program that may take long is therefore invoked by a thread of ours, and the
main thread waits for a lock, which a handler that raises ends. The invocation cannot be stopped: it goes on, with its
arguments and results alive until it is done, and nobody takes what it gives.

A user's function that such a program calls runs in the thread that called the program, as in any other (`on_caller`). A
program that nobody waits for ends when it calls the next function, and the process' end waits a while for that.

Threads that come back from IREE while the process ends may crash it: before Python 3.14 such a thread is ended by
`pthread_exit`, which must not pass the bindings' destructors, and C++ then ends the process with an abort. Where threads
may do that, C++ is told to let them rest (`_let_late_threads_rest`).

Measured: 15 us a call on two busy cores. Programs for which that is much are invoked directly: those that are estimated
short, and those with loops whose end depends on data, whose time cannot be estimated, after they were quick for so often.
"""

from __future__ import annotations

import _thread
import atexit
import contextlib
import ctypes
import os
import threading
import time
from collections.abc import Callable
from typing import Any

LONG_SECONDS = 2e-3
"""Programs that are estimated to take less are invoked directly."""
WAIT_AT_EXIT = 5.0
"""Seconds that the process' end waits for programs that nobody waits for and that call Python functions."""
QUICK_CALLS = 32
"""A program of unknown length is invoked directly after so many calls that took less than `LONG_SECONDS`."""

Invoke = Callable[[Any, Any, Any], Any]


class _Here(threading.local):
    job: _Job | None = None


_here = _Here()


class _Request:
    """A function to be called by the thread that waits for the job."""

    __slots__ = ("answered", "arguments", "error", "function", "value")

    def __init__(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        self.function, self.arguments = function, arguments
        self.value: Any = None
        self.error: BaseException | None = None
        self.answered = _locked()

    def run(self) -> None:
        try:
            self.value = self.function(*self.arguments)
        except BaseException as error:  # also KeyboardInterrupt: the program ends with it
            self.error = error
        self.answered.release()


class _Job:
    """One invocation; it holds all that the program reads and writes."""

    __slots__ = (
        "abandoned", "arguments", "caller", "calls_python", "ended", "error", "function", "invoke", "request", "results",
        "wake",
    )  # fmt: skip

    def __init__(self, invoke: Invoke, function: Any, arguments: Any, results: Any, calls_python: bool) -> None:
        self.invoke, self.function, self.arguments, self.results = invoke, function, arguments, results
        self.calls_python = calls_python
        self.ended = False
        self.caller = _thread.get_ident()
        self.abandoned = False
        self.error: BaseException | None = None
        self.request: _Request | None = None
        self.wake = _locked()  # released when there is a request, and at the end

    def wait(self) -> None:
        """Until the end; calls what the program asks for."""
        while True:
            self.wake.acquire()
            request = self.request
            if request is None:
                return
            request.run()

    def abandon(self) -> None:
        """Nobody waits any longer: functions that the program asks for are not called."""
        self.abandoned = True
        _left.append(self)
        if self.ended:  # just now: its thread may have looked before
            self.forget()
        request = self.request
        if request is not None and request.answered.locked():
            request.error = request.error or KeyboardInterrupt()
            try:
                request.answered.release()
            except RuntimeError:  # it was answered just now
                pass

    def forget(self) -> None:
        """The process' end need not wait for it."""
        with contextlib.suppress(ValueError):  # nobody has left it, or the other thread was first
            _left.remove(self)


class _Invoker:
    """A thread that invokes one program after the other."""

    __slots__ = ("go", "job")
    NAME = "quire-invoke"

    def __init__(self) -> None:
        self.go = _locked()
        self.job: _Job | None = None
        threading.Thread(target=self._serve, name=self.NAME, daemon=True).start()

    def _serve(self) -> None:
        while True:
            self.go.acquire()
            job = self.job
            assert job is not None
            self.job = None
            _here.job = job
            try:
                job.invoke(job.function, job.arguments, job.results)
            except BaseException as error:
                job.error = error
            _here.job = job.request = None
            job.ended = True
            job.forget()
            _idle.append(self)
            wake = job.wake
            del job  # the thread waits for long: what an abandoned job holds goes now
            wake.release()


# list.pop and list.append are atomic.
_idle: list[_Invoker] = []
_left: list[_Job] = []


def _locked() -> Any:
    lock = _thread.allocate_lock()
    lock.acquire()
    return lock


def caller() -> int:
    """The thread that called the program which calls this: it waits, unless it is this one."""
    job = _here.job
    return _thread.get_ident() if job is None else job.caller


def is_waited_for() -> bool:
    """Whether somebody waits for the program that calls this; outside of any, True."""
    job = _here.job
    return job is None or not job.abandoned


def on_caller(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function in the thread that called the program which calls this.

    Raises KeyboardInterrupt if that thread does not wait any longer.
    """
    job = _here.job
    if job is None:
        return function(*arguments)
    request = _Request(function, arguments)
    job.request = request
    if job.abandoned:
        raise KeyboardInterrupt
    job.wake.release()
    request.answered.acquire()
    job.request = None
    if request.error is not None:
        raise request.error
    return request.value


def interruptible(invoke: Invoke, known_long: bool, calls_python: bool) -> Invoke:
    """`invoke` such that signals end the main thread's wait for it.

    Args:
        known_long: it is never invoked directly.
        calls_python: the program calls Python functions.
    """
    main = threading.main_thread().ident
    quick = 0

    def call(function: Any, arguments: Any, results: Any) -> Any:
        nonlocal quick
        if _thread.get_ident() != main or _here.job is not None:
            return invoke(function, arguments, results)
        start = time.perf_counter()
        try:
            if quick < QUICK_CALLS or known_long:
                _invoke_aside(_Job(invoke, function, arguments, results, calls_python))
            else:
                invoke(function, arguments, results)
        finally:
            quick = quick + 1 if time.perf_counter() - start < LONG_SECONDS else 0

    return call


def _invoke_aside(job: _Job) -> None:
    try:
        invoker = _idle.pop()
    except IndexError:
        invoker = _Invoker()
    try:
        invoker.job = job
        invoker.go.release()
        job.wait()
    except BaseException:
        job.abandon()
        raise
    if job.error is not None:
        raise job.error


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_idle.clear)  # the threads are the parent's


@atexit.register
def _at_exit() -> None:
    until = time.monotonic() + WAIT_AT_EXIT
    while any(job.calls_python and not job.ended for job in list(_left)) and time.monotonic() < until:
        time.sleep(0.01)
    daemons = (thread for thread in threading.enumerate() if thread.daemon and thread.name != _Invoker.NAME)
    if any(not job.ended for job in list(_left)) or any(daemons):
        _let_late_threads_rest()


def _let_late_threads_rest() -> None:
    """A thread that C++ would end the process for waits for the process' end instead.

    The handler is the C library's `pause`: it needs neither Python nor memory. Without effect where the bindings do not
    share the C++ library of this name.
    """
    try:
        handler = ctypes.cast(ctypes.CDLL(None).pause, ctypes.c_void_p)
        ctypes.CDLL("libstdc++.so.6")._ZSt13set_terminatePFvvE(handler)  # std::set_terminate
    except (OSError, AttributeError):
        pass
