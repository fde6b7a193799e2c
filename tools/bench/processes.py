"""What a collective between processes costs above MPI's own: ``mpiexec -n 2 python -m quire.tools.bench.processes``.

For each size: mpi4py's Allreduce on arrays; a turn of a loop of a compiled program that takes `psum` and divides by the number of
processes; a call of a compiled program that takes `psum` alone. Rounds of the three alternate; the smallest time of a round counts,
since whatever else runs on the machine only adds to it. Options: ``--sizes 1 16384`` (float32 elements), ``--rounds 7``.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import quire
from quire import lax
from quire.runtime.processes.mpi import load
from quire.sharding import AxisType, NamedSharding
from quire.sharding import PartitionSpec as P

SECONDS = 0.02
"""About so long is a round."""


def _round(barrier: Callable[[], Any], f: Callable[[], Any], count: int) -> float:
    barrier()
    start = time.perf_counter()
    for _ in range(count):
        f()
    return (time.perf_counter() - start) / count


def measure(size: int, rounds: int, turns: int = 50) -> dict[str, float]:
    """Microseconds of each way for float32 arrays of `size` elements a process."""
    mpi = load()
    world = mpi.COMM_WORLD
    mesh = quire.make_mesh((quire.device_count(),), ("p",), (AxisType.Auto,))
    ours, theirs = np.ones(size, np.float32), np.empty(size, np.float32)
    x = quire.make_array_from_process_local_data(NamedSharding(mesh, P("p")), ours)

    def mapped(f: Callable[[Any], Any], out: Any) -> Any:
        return quire.jit(quire.shard_map(f, mesh=mesh, in_specs=P("p"), out_specs=out))

    def turn(_: Any, c: Any) -> Any:
        return lax.pvary(lax.psum(c, "p"), "p")

    loop = mapped(lambda v: lax.fori_loop(0, turns, turn, v), P("p"))
    call = mapped(lambda v: lax.psum(v, "p"), P())
    ways = {
        "mpi4py": (lambda: world.Allreduce(ours, theirs), 1),
        "in a loop": (lambda: loop(x), turns),
        "a call": (lambda: call(x), 1),
    }
    times: dict[str, list[float]] = {name: [] for name in ways}
    counts: dict[str, int] = {}
    for name, (f, _) in ways.items():
        f()
        once = world.allreduce(_round(world.Barrier, f, 3), op=mpi.MAX)
        counts[name] = max(1, int(SECONDS / once))
    for _ in range(rounds):
        for name, (f, inner) in ways.items():
            times[name].append(_round(world.Barrier, f, counts[name]) / inner)
    return {name: min(t) * 1e6 for name, t in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1, 1 << 14, 1 << 20])
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    quire.distributed.initialize()
    if quire.process_count() < 2 or quire.local_device_count() != 1:
        raise SystemExit("start it with mpiexec -n 2 or more, and one device a process")
    first = quire.process_index() == 0
    if first:
        print(f"psum over {quire.process_count()} processes, us: smallest of {options.rounds} rounds")
        print(f"{'bytes':>9} {'mpi4py':>9} {'in a loop':>10} {'above':>7} {'a call':>9} {'above':>7}", flush=True)
    for size in options.sizes:
        found = measure(size, options.rounds)
        raw = found["mpi4py"]
        if first:
            print(
                f"{size * 4:>9} {raw:>9.1f} {found['in a loop']:>10.1f} {found['in a loop'] - raw:>7.1f} "
                f"{found['a call']:>9.1f} {found['a call'] - raw:>7.1f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
