"""Ranks that are processes under MPI, by mpi4py on the arrays' own memory."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .communicator import COMBINE, Communicator, Host, combined
from .waiting import LATE, ended

_LAUNCHED = ("PMI_SIZE", "PMIX_RANK", "OMPI_COMM_WORLD_SIZE", "MPI_LOCALNRANKS")
"""Variables that a launcher of MPI sets for its processes."""

QUIETLY = 30
"""Seconds that a process waits for the others before it says so."""


def launched() -> bool:
    """Whether a launcher such as mpiexec has started this process."""
    return any(name in os.environ for name in _LAUNCHED)


def load() -> Any:
    """The module `mpi4py.MPI`, which starts MPI when it is first imported.

    Raises RuntimeError where it is not installed, or finds no MPI.
    """
    # With more processes than cores MPICH's busy waiting would keep those off the cores that are waited for.
    count = next((os.environ[n] for n in _LAUNCHED if os.environ.get(n, "").isdigit() and n != "PMIX_RANK"), "1")
    if int(count) > (os.cpu_count() or 1):
        os.environ.setdefault("MPIR_CVAR_POLLS_BEFORE_YIELD", "1")
    try:
        from mpi4py import MPI
    except ImportError as error:
        raise RuntimeError(
            f"several processes need mpi4py and an MPI library ({error}): pip install 'quire[mpi]' has both"
        ) from error
    return MPI


def world() -> MpiCommunicator:
    """All processes of MPI. Raises RuntimeError as `load` does."""
    mpi = load()
    found = MpiCommunicator(mpi, mpi.COMM_WORLD.Dup(), tuple(range(mpi.COMM_WORLD.Get_size())))
    found.departures = mpi.COMM_WORLD.Dup()
    return found


class MpiCommunicator(Communicator):
    """Some processes of MPI."""

    kind = "mpi"

    def __init__(self, mpi: Any, handle: Any, ranks: tuple[int, ...]) -> None:
        self.mpi = mpi
        self.handle = handle
        self.rank = handle.Get_rank()
        self.size = handle.Get_size()
        self.ranks = ranks
        self._groups: dict[tuple[int, ...], Communicator] = {}
        self._control: Any = None
        self.departures: Any = None
        """Of all processes: through it each tells the others that it ends."""

    def reduce(self, op: str, x: Host, out: Host) -> None:
        native = _native_operation(self.mpi, op, x.dtype)
        if native is not None:
            self.handle.Allreduce(_plain(x), _plain(out), native)
            return
        parts = np.empty((self.size, *x.shape), x.dtype)
        self.all_gather(x, parts)
        combined(op, [parts[i, ...] for i in range(self.size)], out)

    def all_gather(self, x: Host, out: Host) -> None:
        self.handle.Allgather(_bytes(x), _bytes(out))

    def all_to_all(self, x: Host, out: Host) -> None:
        self.handle.Alltoall(_bytes(x), _bytes(out))

    def reduce_scatter(self, x: Host, out: Host) -> None:
        native = _native_operation(self.mpi, "sum", x.dtype)
        if native is not None:
            self.handle.Reduce_scatter_block(_plain(x), _plain(out), native)
            return
        parts = np.empty(x.shape, x.dtype)
        self.all_to_all(x, parts)
        combined("sum", [parts[i, ...] for i in range(self.size)], out)

    def permute(self, x: Host, out: Host, source: int | None, destination: int | None) -> None:
        null = self.mpi.PROC_NULL
        if source is None:
            out[...] = 0
        if source is not None or destination is not None:
            self.handle.Sendrecv(
                _bytes(x),
                null if destination is None else destination,
                0,
                _bytes(out),
                null if source is None else source,
            )

    def broadcast(self, x: Host, out: Host, source: int) -> None:
        if self.rank == source:
            out[...] = x
        self.handle.Bcast(_bytes(out), source)

    def exchange(self, value: Any, what: str) -> list[Any]:
        # Apart from what programs communicate: a process may be at one while another is at the other.
        if self._control is None:
            self._control = self.handle.Dup()
        self._wait(what)
        return self._control.allgather(value)

    def _wait(self, what: str) -> None:
        """Until all have come, without keeping a core from those that are late; says so when it takes long."""
        all_here = self._control.Ibarrier()
        start = time.monotonic()
        told = False
        while not all_here.Test():
            waited = time.monotonic() - start
            if waited > QUIETLY and not told:
                told = True
                sys.stderr.write(
                    f"process {self.ranks[self.rank]} has waited {QUIETLY} s for the others at {what}; if they do not come there, "
                    "they are in another program: all processes must call the same functions in the same order\n"
                )
                sys.stderr.flush()
            if waited > LATE and (gone := self.departed()) is not None:
                self.abort(ended(gone, self.ranks[self.rank], what))
            time.sleep(0 if waited < 2e-3 else 1e-3 if waited < LATE else 0.05)

    def group(self, members: Sequence[int]) -> Communicator:
        key = tuple(members)
        if key == tuple(range(self.size)):
            return self
        found = self._groups.get(key)
        if found is None:
            # Only the members take part, and they are all at the same collective.
            handle = self.handle.Create_group(self.handle.Get_group().Incl(list(key)))
            found = self._groups[key] = MpiCommunicator(self.mpi, handle, tuple(self.ranks[m] for m in key))
        return found

    def depart(self) -> None:
        """Tell the others that this process ends, which those that wait for it, or will, would not find out."""
        for other in range(self.size):
            if other != self.rank:
                # Small enough to be on its way at once; nobody need receive it.
                self.departures.Isend(np.empty(0, np.uint8), other).Free()

    def departed(self) -> int | None:
        """A process that has ended; None where none has, or where MPI lets only one thread ask."""
        if self.departures is None or self.mpi.Query_thread() != self.mpi.THREAD_MULTIPLE:
            return None
        status = self.mpi.Status()
        found = self.departures.Iprobe(self.mpi.ANY_SOURCE, self.mpi.ANY_TAG, status)
        return status.Get_source() if found else None

    def abort(self, message: str) -> None:
        sys.stderr.write(f"{message}\n")
        sys.stderr.flush()
        sys.stdout.flush()
        time.sleep(0.2)  # the launcher drops what it has not read when all end
        self.mpi.COMM_WORLD.Abort(1)


def _bytes(x: Host) -> Any:
    """The memory of an array, whatever its dtype."""
    return x.reshape(-1).view(np.uint8)


def _plain(x: Host) -> Any:
    return x


_operations: dict[tuple[str, str], Any] = {}


def _native_operation(mpi: Any, op: str, dtype: np.dtype[Any]) -> Any:
    """MPI's operation for elements of a dtype; None where it has none.

    Its own maximum and minimum of floats may lose a NaN, so those are NumPy's, called by MPI.
    """
    if dtype.isbuiltin != 1 or dtype.kind not in "iufc" or dtype == np.float16:
        return None
    if op == "sum":
        return mpi.SUM
    if dtype.kind in "iu":
        return mpi.MAX if op == "max" else mpi.MIN
    key = (op, dtype.str)
    found = _operations.get(key)
    if found is None:
        found = _operations[key] = mpi.Op.Create(_combiner(COMBINE[op], dtype), commute=True)
    return found


def _combiner(combine: Callable[..., Any], dtype: np.dtype[Any]) -> Callable[[Any, Any, Any], None]:
    def call(x: Any, y: Any, _: Any) -> None:
        a, b = np.frombuffer(x, dtype), np.frombuffer(y, dtype)
        combine(a, b, out=b)

    return call


def end_all_on_errors() -> None:
    """Let an exception that nobody catches end all processes, after its traceback has been printed."""
    plain = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, traceback: Any) -> None:
        from .current import process

        here = process()
        if here.kind == "mpi" and here.size > 1:
            sys.stderr.write(f"process {here.rank} of {here.size} failed:\n")
            plain(kind, error, traceback)
            here.abort(f"process {here.rank} failed with {kind.__name__}: all {here.size} processes end")
        else:
            plain(kind, error, traceback)

    sys.excepthook = hook


__all__ = ["MpiCommunicator", "end_all_on_errors", "launched", "load", "world"]
