"""The policy of a thread that waits for worker threads."""

import os
import sys
import threading

import numpy as np
import pytest

from quire.runtime.buffers import from_numpy
from quire.runtime.executable import Executable
from quire.runtime.host_functions import HostFunction, HostModule
from quire.runtime.scheduling import waits_quietly

MODULE = """
func.func private @host.f(tensor<4xf32>) -> tensor<4xf32>
func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = func.call @host.f(%a) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
"""


def permitted():
    """Whether a thread may take the batch policy here: some sandboxes have no such call."""
    found = []

    def run():
        try:
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
            found.append(os.sched_getscheduler(0) == os.SCHED_BATCH)
        except OSError:
            found.append(False)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return found[0]


pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux") or not permitted(), reason="threads cannot take Linux's batch policy here"
)


def seen(policy=None):
    """The policy of a new thread inside a call and after it; `policy`: what it has chosen before."""
    found = []

    def run():
        if policy is not None:
            os.sched_setscheduler(0, policy, os.sched_param(0))
        call = waits_quietly(lambda *_: found.append(os.sched_getscheduler(0)))
        call(None, None, None)
        found.append(os.sched_getscheduler(0))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return found


def test_the_thread_waits_in_the_batch_policy_and_has_its_own_again():
    assert seen() == [os.SCHED_BATCH, os.SCHED_OTHER]


@pytest.mark.parametrize("policy", ["SCHED_BATCH", "SCHED_IDLE"])
def test_a_policy_of_its_own_is_left_alone(policy):
    own = getattr(os, policy)
    assert seen(own) == [own, own]


def test_also_after_an_error():
    def fails(*_):
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        waits_quietly(fails)(None, None, None)
    assert os.sched_getscheduler(0) == os.SCHED_OTHER


def test_a_sandbox_without_the_calls(monkeypatch):
    def refuse(*_):
        raise PermissionError

    monkeypatch.setattr(os, "sched_setscheduler", refuse)
    assert waits_quietly(lambda *a: a)(1, 2, 3) == (1, 2, 3)
    monkeypatch.setattr(os, "sched_getscheduler", refuse)
    assert waits_quietly(len) is len


@pytest.mark.parametrize(("mode", "policy"), [("sync", "SCHED_OTHER"), ("task", "SCHED_BATCH")])
def test_programs_that_use_worker_threads(compiled, cpu, mode, policy):
    """A function that a program calls runs in the thread that waits for the program."""
    seen = []
    function = HostFunction(lambda x: seen.append(os.sched_getscheduler(0)) or x, 1, [((4,), np.float32)])
    host = HostModule("host", {"f": function}, cpu)
    program = Executable.load(compiled(MODULE), cpu, host_modules=[host], driver=mode)
    argument = from_numpy(np.zeros(4, np.float32), cpu)
    program.execute([argument])
    program.make_call(16)([argument])
    program.make_call()([argument])
    assert seen == [getattr(os, policy)] * 3
    assert os.sched_getscheduler(0) == os.SCHED_OTHER
