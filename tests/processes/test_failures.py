"""A process that fails ends all, within seconds, and says why; ranks that are threads do so too."""

from __future__ import annotations

import time

import numpy as np
import pytest

import quire
from quire.ir.config import config
from quire.runtime.processes.communicator import RanksError
from quire.runtime.processes.current import communicator
from quire.runtime.processes.threads import run_ranks
from quire.sharding import Mesh
from quire.sharding import PartitionSpec as P

from .test_programs import launch


@pytest.mark.parametrize(
    ("how", "error"),
    [
        ("raises", "KeyError: 'process 1 gives up'"),
        ("within", "ValueError: process 1 does not like its data"),
        ("killed", ""),
    ],
)
def test_a_process_that_ends_ends_all(how, error):
    start = time.monotonic()
    run = launch(2, "-m", "tests.processes.failing", how, timeout=60)
    assert run.returncode != 0 and time.monotonic() - start < 40
    if error:
        assert run.stderr.index("process 1 of 2 failed:") < run.stderr.index("Traceback") < run.stderr.index(error)
        assert run.stderr.count("Traceback") == 1


@pytest.mark.parametrize(
    ("how", "where"),
    [("exits", "a collective of a program (sum)"), ("exits before", "the first call of ")],
)
def test_a_process_that_is_waited_for_and_has_ended_ends_all(how, where):
    start = time.monotonic()
    run = launch(2, "-m", "tests.processes.failing", how, timeout=60)
    assert run.returncode != 0 and time.monotonic() - start < 40
    assert f"process 1 has ended (sys.exit, or its last line) while process 0 waits for it at {where}" in run.stderr


def test_a_process_that_is_late_is_waited_for_with_a_word():
    run = launch(2, "-m", "tests.processes.failing", "is late", timeout=60)
    assert run.returncode == 0 and run.stdout.count("28.0") == 2
    assert (
        "process 0 has waited 1 s for the others in a collective of a program (sum): one of them may be busy"
        in run.stderr
    )


def test_the_first_error_of_a_thread_is_the_user_s():
    def host(v):
        if v[0] == 2:
            raise ValueError("not this one")
        return v

    with config.override(num_cpu_devices=4, spmd="threads"):
        mesh = Mesh(np.array(quire.devices()), "x")
        f = quire.shard_map(
            lambda a: quire.lax.psum(quire.pure_callback(host, a, a), "x"), mesh=mesh, in_specs=P("x"), out_specs=P()
        )
        with pytest.raises(ValueError, match="not this one"):
            quire.jit(f)(np.arange(4.0, dtype=np.float32))


def test_threads_that_do_not_meet_are_told():
    def collective(rank: int) -> None:
        here = communicator()
        x = np.ones(2, np.float32)
        if rank == 2:
            here.all_gather(x, np.empty((3, 2), np.float32))
        else:
            here.reduce("sum", x, np.empty(2, np.float32))

    with pytest.raises(
        RanksError, match=r"ranks disagree on the collective: rank \d is at \('(sum|all_gather)', \(2,\)"
    ):
        run_ranks(3, collective)

    def ends(rank: int) -> None:
        if rank:
            communicator().barrier()

    with pytest.raises(RanksError, match="rank 0 has ended while others wait for it"):
        run_ranks(3, ends)


def test_the_option_is_checked():
    with config.override(num_cpu_devices=4, spmd="trheads"):
        mesh = Mesh(np.array(quire.devices()), "x")
        f = quire.jit(lambda a: a, in_shardings=quire.NamedSharding(mesh, P("x")))
        with pytest.raises(ValueError, match="expected 'threads', or 'threads:2'"):
            f(np.arange(4.0))
    with config.override(num_cpu_devices=4, spmd="threads:3"):
        g = quire.jit(lambda a: a, in_shardings=quire.NamedSharding(mesh, P("x")))
        with pytest.raises(ValueError, match="4 devices cannot be divided among 3 ranks"):
            g(np.arange(4.0))
