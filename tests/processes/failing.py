"""A program of several processes in which process 1 ends in the way that is named, while the others wait for it."""

from __future__ import annotations

import os
import signal
import sys
import time

import numpy as np

import quire
from quire.runtime.processes import waiting
from quire.runtime.processes.current import process
from quire.sharding import Mesh, NamedSharding
from quire.sharding import PartitionSpec as P


def host(v):
    if quire.process_index() == 1:
        raise ValueError("process 1 does not like its data")
    return v


def main(how: str) -> None:
    quire.distributed.initialize()
    mesh = Mesh(np.array(quire.devices()), "x")
    x = quire.device_put(np.arange(8.0, dtype=np.float32), NamedSharding(mesh, P("x")))
    total = quire.jit(
        quire.shard_map(lambda a: quire.lax.psum(a.sum(), "x"), mesh=mesh, in_specs=P("x"), out_specs=P())
    )
    total(x)
    if how in ("exits", "exits before"):
        if quire.process_index() == 1:
            sys.exit(3)
        if how == "exits before":
            total(x[:4])  # a program that process 1 never asks for
    elif how == "is late":
        waiting.watch(process(), 1.0)
        time.sleep(4.0 * quire.process_index())
        print(float(total(x)), flush=True)
        return
    elif how == "within":
        within = quire.shard_map(
            lambda a: quire.lax.psum(quire.pure_callback(host, a, a, vmap_method="sequential"), "x"),
            mesh=mesh, in_specs=P("x"), out_specs=P(),
        )  # fmt: skip
        quire.jit(within)(x)
    elif quire.process_index() == 1:
        if how == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        raise KeyError("process 1 gives up")
    for _ in range(10_000_000):
        total(x)


if __name__ == "__main__":
    main(sys.argv[1])
