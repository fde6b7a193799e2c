"""Ctrl-C during a computation: it arrives at once, and what the computation uses lives on."""

from __future__ import annotations

import _thread
import gc
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import quire
import quire.numpy as qnp
from quire import lax
from quire.runtime import interruption
from quire.runtime.interruption import interruptible, is_waited_for, on_caller

SOON = 0.2

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGINT") or os.name != "posix", reason="sends signals")


def interrupted(f: Callable[[], Any], after: float = 0.4) -> float:
    """Call `f`, send Ctrl-C, and return the seconds until it arrived."""
    sent: list[float] = []

    def send() -> None:
        time.sleep(after)
        sent.append(time.perf_counter())
        os.kill(os.getpid(), signal.SIGINT)

    sender = threading.Thread(target=send)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        sender.start()
        with pytest.raises(KeyboardInterrupt):
            f()
            time.sleep(5)  # the computation was too short
        return time.perf_counter() - sent[0]
    finally:
        sender.join()
        signal.signal(signal.SIGINT, before)


def steps(n: int) -> Callable[[Any], Any]:
    return lambda x: lax.fori_loop(0, n, lambda _, c: (c @ x) / 300, x)


def test_it_arrives_at_once_and_arguments_live_on() -> None:
    f = quire.jit(steps(150))
    x = np.ones((600, 600), np.float32)
    f.lower(x).compile()
    assert interrupted(lambda: f(x)) < SOON
    x = None  # the computation goes on, and reads it
    gc.collect()
    # The same program is called meanwhile: with a result of its own.
    y = np.eye(600, dtype=np.float32)
    np.testing.assert_allclose(quire.jit(steps(2))(y), y / 90000, rtol=1e-5)


def test_a_loop_whose_end_depends_on_data() -> None:
    f = quire.jit(lambda n: lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, qnp.sin(c[1] + c[0])), (0, 0.0)))
    quick = [float(f(i)[1]) for i in range(1, interruption.QUICK_CALLS // 2)]
    assert interrupted(lambda: f(40_000_000)) < SOON
    assert [float(f(i)[1]) for i in range(1, len(quick) + 1)] == quick


def test_donated_arguments_are_gone() -> None:
    f = quire.jit(steps(150), donate_argnums=0)
    x = qnp.ones((600, 600))
    f.lower(x).compile()
    assert interrupted(lambda: f(x)) < SOON
    assert x.is_deleted()


def test_users_functions_run_in_the_thread_of_the_call_and_are_not_called_afterwards() -> None:
    threads: list[int] = []

    def slow(c: Any) -> Any:
        threads.append(_thread.get_ident())
        time.sleep(0.01)
        return c

    def program(x: Any) -> Any:
        step = lambda _, c: quire.pure_callback(slow, quire.ShapeDtypeStruct((), np.float32), c) + 1  # noqa: E731
        return lax.while_loop(lambda c: c < 10_000, lambda c: step(0, c), x)

    f = quire.jit(program)
    assert float(f(9_998.0)) == 10_000
    assert interrupted(lambda: f(0.0)) < SOON
    assert set(threads) == {_thread.get_ident()}
    time.sleep(0.1)
    n = len(threads)
    time.sleep(0.1)
    assert len(threads) == n
    assert float(f(9_998.0)) == 10_000  # nothing is left of the interrupted call


def test_an_exception_of_a_users_function_is_the_callers() -> None:
    def fails(_: Any) -> Any:
        raise KeyError("mine")

    f = quire.jit(
        lambda x: lax.while_loop(
            lambda c: c < 3, lambda c: quire.pure_callback(fails, quire.ShapeDtypeStruct((), np.float32), c), x
        )
    )
    for _ in range(2):
        with pytest.raises(KeyError, match="mine"):
            f(0.0)


def test_programs_called_by_functions_of_programs() -> None:
    inner = quire.jit(lambda n: lax.while_loop(lambda c: c < n, lambda c: c + 2, n * 0))
    outer = quire.jit(
        lambda n: lax.while_loop(
            lambda c: c < n,
            lambda c: c + quire.pure_callback(inner, quire.ShapeDtypeStruct((), np.float32), c + 1),
            n * 0,
        )
    )
    assert float(outer(10.0)) == 14.0  # 0, 2, 6, 14


def test_errors_and_threads_of_invocations() -> None:
    seen: list[int] = []

    def invoke(function: Any, arguments: Any, results: Any) -> str:
        seen.append(_thread.get_ident())
        on_caller(lambda: seen.append(_thread.get_ident()))
        assert is_waited_for()
        if arguments:
            raise ValueError(arguments)
        return "done"

    call = interruptible(invoke, True, False)
    call(None, None, None)
    main = _thread.get_ident()
    assert seen[0] != main and seen[1] == main
    with pytest.raises(ValueError, match="wrong"):
        call(None, "wrong", None)
    # Other threads get no signals: they invoke programs themselves.
    seen.clear()
    thread = threading.Thread(target=call, args=(None, None, None))
    thread.start()
    thread.join()
    assert len(set(seen)) == 1 and main not in seen


def test_a_program_of_unknown_length_that_was_quick_is_invoked_directly() -> None:
    threads: list[int] = []
    call = interruptible(lambda *_: threads.append(_thread.get_ident()), False, False)
    for _ in range(4 * interruption.QUICK_CALLS):
        call(None, None, None)
    assert threads[0] != _thread.get_ident() and threads[-1] == _thread.get_ident()


SCRIPT = """
import os, signal, threading, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # a process started in the background ignores it
import numpy as np, quire
from quire import lax
{program}
f.lower(x).compile()
threading.Thread(target=lambda: (time.sleep(0.4), os.kill(os.getpid(), signal.SIGINT))).start()
f(x)
time.sleep(5)
"""
PROGRAMS = {
    "compiled code": "f = quire.jit(lambda x: lax.fori_loop(0, 300, lambda _, c: (c @ x) / 300, x))\n"
    "x = np.ones((600, 600), np.float32)",
    "functions of LAPACK": "f = quire.jit(lambda x: lax.fori_loop(0, 300, lambda _, c: quire.numpy.linalg.eigh(c)[1], x))\n"
    "x = np.ones((200, 200), np.float32)",
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_process_ends_as_ctrl_c_ends_it(program: str) -> None:
    start = time.perf_counter()
    script = SCRIPT.format(program=PROGRAMS[program])
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=100)
    assert result.returncode in (130, -signal.SIGINT), result.stderr
    assert result.stderr.rstrip().endswith("KeyboardInterrupt")
    assert time.perf_counter() - start < 60


LATE = """
import threading, time
import numpy as np, quire
from quire import lax

class Late:  # the interpreter's end takes this long
    def __init__(self): self.sleep = time.sleep
    def __del__(self): self.sleep(2)

late = Late()
f = quire.jit(lambda x: lax.fori_loop(0, 60, lambda _, c: (c @ x) / 300, x))
x = np.ones((600, 600), np.float32)
f.lower(x).compile()
"""


def test_programs_that_end_while_the_process_ends() -> None:
    """The threads that invoke them come back to an interpreter that is gone."""
    interrupt = """
import os, signal
signal.signal(signal.SIGINT, signal.default_int_handler)
threading.Thread(target=lambda: (time.sleep(0.1), os.kill(os.getpid(), signal.SIGINT))).start()
while True: f(x)
"""
    daemon = """
def run():
    while True: f(x)
threading.Thread(target=run, daemon=True).start()
time.sleep(0.3)
"""
    started = [
        subprocess.Popen([sys.executable, "-c", LATE + rest], stderr=subprocess.PIPE, text=True)
        for rest in (interrupt, daemon)
    ]
    errors = [process.communicate(timeout=100)[1] for process in started]
    assert errors[0].rstrip().endswith("KeyboardInterrupt")
    assert errors[1] == ""
    assert [process.returncode for process in started] in ([130, 0], [-signal.SIGINT, 0])
