"""``python -m quire.tools.export_times [NAME ...]``: exported programs in C beside quire from Python, as a Markdown table.

Each program is exported for this machine and compiled by cc. Calls are measured in turn in one process, C by a loop in a
shared library, quire by a loop in Python; the table holds the smallest time of each. A process is the program `check` from its
start to its end: it reads its weights, its arguments and what it compares with.
"""

from __future__ import annotations

import ctypes
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import quire
import quire.export
import quire.numpy as qnp
from quire import lax

ROUNDS = 15
_BENCH = """
#define _POSIX_C_SOURCE 200809L
#include "model.h"
#include <time.h>
double quire_bench(void *context, int turns, void *const *x)
{
    struct timespec a, b;
    clock_gettime(CLOCK_MONOTONIC, &a);
    for (int i = 0; i < turns; i++) if (p_run(context, ARGS)) return -1;
    clock_gettime(CLOCK_MONOTONIC, &b);
    return ((double)(b.tv_sec - a.tv_sec) + 1e-9 * (double)(b.tv_nsec - a.tv_nsec)) / turns;
}
"""


def programs() -> dict[str, tuple[Callable[..., Any], tuple[Any, ...]]]:
    """The programs and their arguments."""
    rng = np.random.default_rng(0)

    def normal(*shape: int) -> Any:
        return rng.normal(size=shape).astype(np.float32)

    w1, b1, w2 = normal(784, 256) / 28, normal(256), normal(256, 10) / 16
    spd = normal(64, 64)
    spd = spd @ spd.T / 64 + np.eye(64, dtype=np.float32)

    def collatz(n: Any) -> Any:
        def step(c: Any) -> Any:
            return qnp.where(c[0] % 2 == 0, c[0] // 2, 3 * c[0] + 1), c[1] + 1

        return lax.while_loop(lambda c: c[0] != 1, step, (n, 0))[1]

    def looped(x: Any, n: Any) -> Any:
        return lax.while_loop(
            lambda c: c[1] < n, lambda c: (qnp.fft.irfft(qnp.fft.rfft(c[0]) * 0.5) + 1, c[1] + 1), (x, 0)
        )[0]

    return {
        "MLP 8x784-256-10, weights inside": (lambda x: qnp.maximum(x @ w1 + b1, 0) @ w2, (normal(8, 784),)),
        "while, the data decides (collatz)": (collatz, (np.int32(27),)),
        "power iteration 64": (
            lambda a: lax.fori_loop(0, 20, lambda _, v: (a @ v) / qnp.linalg.norm(a @ v), qnp.ones(64)), (spd,)
        ),
        "fft 16x1024": (lambda x: qnp.fft.rfft(x), (normal(16, 1024),)),
        "sort and argsort 10000": (lambda x: (qnp.sort(x), qnp.argsort(x)), (normal(10000),)),
        "cond": (lambda x, n: lax.cond(n > 3, qnp.sin, lambda v: v * 2, x), (normal(64), np.int32(4))),
        "while with an fft in its body": (looped, (normal(256), np.int32(5))),
        "random normal 1000": (lambda k: quire.random.normal(k, (1000,)), (np.array([0, 3], np.uint32),)),
        "cholesky 64": (lambda a: qnp.linalg.cholesky(a), (spd,)),
        "solve 64x64": (lambda a, b: qnp.linalg.solve(a, b), (spd, normal(64))),
    }  # fmt: skip


def _run(*command: str, cwd: Path) -> None:
    subprocess.run(command, cwd=cwd, check=True, capture_output=True)


def _aligned(nbytes: int) -> Any:
    block = np.zeros(nbytes + 64, np.uint8)
    start = -block.ctypes.data % 64
    return block[start : start + nbytes]


def measure(f: Callable[..., Any], args: tuple[Any, ...], folder: Path) -> dict[str, float]:
    """Seconds of an export, of a process, and of calls of both kinds; bytes of the program and its weights."""
    start = time.perf_counter()
    made = quire.export.c(f, *args, to=folder, target="host", name="p", check=False)
    export_seconds = time.perf_counter() - start
    _run("make", "-s", "check", cwd=folder)
    _run("strip", "check", cwd=folder)
    compiled = quire.jit(f)
    results = quire.tree_util.tree_leaves(compiled(*args))
    n = len(args) + len(results)
    (folder / "bench.c").write_text(_BENCH.replace("ARGS", ", ".join(f"x[{i}]" for i in range(n))))
    objects = [p.name for p in folder.glob("*_kernels.o")]
    _run("cc", "-O2", "-fPIC", "-shared", "-o", "bench.so", "bench.c", "model.c", *objects, "-lm", cwd=folder)
    library = ctypes.CDLL(str(folder / "bench.so"))
    library.quire_bench.restype = ctypes.c_double
    context = ctypes.c_void_p()
    assert library.p_create(ctypes.byref(context), str(folder / "weights.bin").encode()) == 0
    arrays = [_aligned(np.asarray(x).nbytes) for x in (*args, *results)]
    for array, x in zip(arrays, args):
        array[:] = np.frombuffer(np.ascontiguousarray(x).tobytes(), np.uint8)
    places = (ctypes.c_void_p * n)(*(a.ctypes.data for a in arrays))
    given = [quire.device_put(x) for x in args]
    turns = max(3, int(2e-3 / max(library.quire_bench(context, 3, places), 1e-7)))
    own: list[float] = []
    other: list[float] = []
    for _ in range(ROUNDS):
        own.append(library.quire_bench(context, turns, places))
        begin = time.perf_counter()
        for _ in range(turns - 1):
            compiled(*given)
        quire.block_until_ready(compiled(*given))
        other.append((time.perf_counter() - begin) / turns)
    processes: list[float] = []
    before = os.getcwd()
    os.chdir(folder)
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        child = os.posix_spawn(
            "./check", ["./check"], os.environ, file_actions=[(os.POSIX_SPAWN_CLOSE, 1), (os.POSIX_SPAWN_CLOSE, 2)]
        )
        assert os.waitpid(child, 0)[1] >= 0
        processes.append(time.perf_counter() - begin)
    os.chdir(before)
    return {
        "export": export_seconds, "process": min(processes), "median": statistics.median(processes), "c": min(own),
        "quire": min(other), "program": (folder / "check").stat().st_size, "weights": made.files.get("weights.bin", 0),
    }  # fmt: skip


def main(names: list[str]) -> int:
    """Measure the programs whose names contain one of the words, or all."""
    print("| program | C, us a call | quire from Python, us | process, ms | program, KB | weights, KB | export, s |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for name, (f, args) in programs().items():
        if names and not any(n in name for n in names):
            continue
        with tempfile.TemporaryDirectory(prefix="quire-export-") as scratch:
            m = measure(f, args, Path(scratch))
        print(
            f"| {name} | {m['c'] * 1e6:.2f} | {m['quire'] * 1e6:.1f} | {m['process'] * 1e3:.2f} | "
            f"{m['program'] / 1e3:.0f} | {m['weights'] / 1e3:.0f} | {m['export']:.2f} |", flush=True,
        )  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
