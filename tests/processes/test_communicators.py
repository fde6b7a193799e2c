"""Communicators: each operation for each dtype, against NumPy; in threads, alone, and under MPI."""

from __future__ import annotations

import sys
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from quire.runtime.processes.communicator import Alone, Communicator
from quire.runtime.processes.current import communicator
from quire.runtime.processes.threads import run_ranks

from .test_programs import launch

DTYPES = [
    np.bool_, np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64, np.float16, ml_dtypes.bfloat16,
    np.float32, np.float64, np.complex64, np.complex128,
]  # fmt: skip


def data(rank: int, dtype: Any, *shape: int) -> Any:
    return np.random.default_rng(rank).integers(0, 3, size=shape).astype(dtype)


def check(here: Communicator) -> None:
    """Every operation, as this rank sees it."""
    n, r = here.size, here.rank
    for dtype in DTYPES:
        for shape in ((), (3,), (2, 0), (2, 3)):
            parts = [data(i, dtype, *shape) for i in range(n)]
            x = parts[r].copy()
            x.flags.writeable = False
            out = np.empty_like(parts[r])
            kinds = ["max", "min"] if np.dtype(dtype).kind != "c" else []
            for op in [*kinds, *(["sum"] if dtype is not np.bool_ else [])]:
                here.reduce(op, x, out)
                combine = {"sum": np.add, "max": np.maximum, "min": np.minimum}[op]
                want = parts[0]
                for p in parts[1:]:
                    want = combine(want, p).astype(dtype)
                np.testing.assert_array_equal(out, want)
            gathered = np.empty((n, *shape), dtype)
            here.all_gather(x, gathered)
            np.testing.assert_array_equal(gathered, np.stack(parts))
            here.broadcast(x, out, n - 1)
            np.testing.assert_array_equal(out, parts[n - 1])
            here.permute(x, out, (r - 1) % n, (r + 1) % n)
            np.testing.assert_array_equal(out, parts[r - 1])
            here.permute(x, out, r - 1 if r else None, r + 1 if r + 1 < n else None)
            np.testing.assert_array_equal(out, parts[r - 1] if r else np.zeros_like(out))
            rows = [data(10 + i, dtype, n, *shape) for i in range(n)]
            exchanged = np.empty((n, *shape), dtype)
            here.all_to_all(rows[r], exchanged)
            np.testing.assert_array_equal(exchanged, np.stack([row[r, ...] for row in rows]))
            if dtype is not np.bool_:
                here.reduce_scatter(rows[r], out)
                np.testing.assert_array_equal(out, np.stack(rows).sum(0, dtype=dtype)[r, ...])
    value = np.full(2, np.nan if r == n - 1 else 1.0, np.float32)
    out = np.empty_like(value)
    here.reduce("max", value, out)
    assert np.isnan(out).all()
    assert here.exchange((r, "x"), "a test") == [(i, "x") for i in range(n)]
    here.barrier()
    if n > 2:
        pair = here.group([n - 1, r] if r not in (n - 1,) and r == 0 else [n - 1, 0] if r == n - 1 else [r])
        total = np.empty(1, np.int32)
        pair.reduce("sum", np.array([r], np.int32), total)
        assert total[0] == (n - 1 if r in (0, n - 1) else r)
        assert pair.ranks == ((n - 1, 0) if r in (0, n - 1) else (r,))


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_threads(n: int) -> None:
    assert run_ranks(n, lambda r: (check(communicator()), communicator().rank)[1]) == list(range(n))


def test_alone() -> None:
    check(Alone())


def test_mpi() -> None:
    run = launch(3, "-c", "from tests.processes import test_communicators as t; t.under_mpi()")
    assert run.returncode == 0, run.stderr
    assert run.stdout.count("checked") == 3


def under_mpi() -> None:
    import quire
    from quire.runtime.processes.current import process

    quire.distributed.initialize()
    check(process())
    sys.stdout.write("checked\n")
