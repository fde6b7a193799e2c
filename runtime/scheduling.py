"""How the calling thread is scheduled while it waits for worker threads.

IREE 3.13's wait (`iree_async_semaphore_multi_wait`) ends with a loop that spins until the worker whose callback woke
the thread has left that callback. The kernel prefers to run a woken thread where its waker ran: where all cores are
busy the waker is put aside for it, and the woken thread spins for the rest of its time slice for something that
cannot run. On 2 cores a product of 256 x 256 matrices took 370 to 400 us so, and 210 to 240 us without.

A thread of Linux's batch policy does not put aside the thread that wakes it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any


def waits_quietly(invoke: Callable[..., Any]) -> Callable[[Any, Any, Any], Any]:
    """``invoke`` with its thread in the batch policy; ``invoke`` itself where there is no such policy.

    A thread that has a policy of its own (of batch, idle or real time) keeps it.
    """
    if not sys.platform.startswith("linux"):
        return invoke
    get, put, usual, batch, none = (
        os.sched_getscheduler, os.sched_setscheduler, os.SCHED_OTHER, os.SCHED_BATCH, os.sched_param(0)
    )  # fmt: skip
    try:
        get(0)
    except OSError:  # a sandbox without these calls
        return invoke

    def call(function: Any, arguments: Any, results: Any) -> Any:
        if get(0) != usual:
            return invoke(function, arguments, results)
        try:
            put(0, batch, none)
        except OSError:
            return invoke(function, arguments, results)
        try:
            return invoke(function, arguments, results)
        finally:
            put(0, usual, none)

    return call
