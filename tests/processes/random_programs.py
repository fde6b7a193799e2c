"""Random programs (`quire.tools.fuzz`), divided at random where a dimension divides evenly."""

from __future__ import annotations

import random
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import quire
from quire.backends.reference.engine import eval_jaxpr
from quire.ir.jaxpr import ClosedJaxpr
from quire.ir.sharding import AbstractMesh, Mesh, NamedSharding, P
from quire.tools.fuzz.generate import generate
from quire.tools.fuzz.program import library_names
from quire.tools.fuzz.running import Outcome, _compared, _Run, traced, width


@dataclass
class Divided:
    """A program with arguments, how these and its results are divided, and what the whole program gives."""

    seed: int
    run: Any
    closed: ClosedJaxpr
    values: Sequence[Any]
    ins: list[P]
    outs: list[P]

    def check(self, got: Sequence[Any], what: str) -> None:
        found = _compared(self.run, [np.asarray(g) for g in got], Outcome(), "reference", what)
        assert found is None, (self.seed, self.ins, self.outs, found)


def random_spec(rng: random.Random, shape: Sequence[int], mesh: Any) -> P:
    axes = list(mesh.axis_names)
    rng.shuffle(axes)
    entries: list[Any] = []
    for n in shape:
        some: list[str] = []
        while axes and rng.random() < 0.5:
            if n % (int(np.prod([mesh.shape[a] for a in some])) * mesh.shape[axes[-1]]):
                break
            some.append(axes.pop())
        entries.append(tuple(sorted(some)))
    return P(*entries)


def programs(seeds: Sequence[int], mesh: Any, wide: bool | None = None) -> Iterator[Divided]:
    """Those of the seeds' programs that the library takes; with `wide` False without dtypes of 64 bits."""
    for seed in seeds:
        program = generate(seed, wide)
        with width(program.x64), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            function, values = program.function(library_names("quire")), program.values()
            try:
                closed = traced(function, values)
            except NotImplementedError:
                continue
            want = eval_jaxpr(closed, *values)
            rng = random.Random(seed)
            ins = [random_spec(rng, a.shape, mesh) for a in closed.in_avals]
            outs = [random_spec(rng, a.shape, mesh) for a in closed.out_avals]
            yield Divided(seed, _Run(program, function, values, closed, want), closed, values, ins, outs)


COMPILED = (1, 2, 4, 5, 6, 8, 11, 12)


def compiled(mesh: Mesh) -> None:
    """Several random programs in one, compiled and run over a mesh, and compared."""
    from .runner import whole

    found = list(programs(COMPILED, AbstractMesh(mesh.axis_sizes, mesh.axis_names), False))

    def together(*groups: Any) -> list[Any]:
        return [eval_tuple(p.closed, g) for p, g in zip(found, groups, strict=True)]

    def eval_tuple(closed: ClosedJaxpr, values: Any) -> Any:
        from quire.ir.tracing import eval_jaxpr as traced_jaxpr

        return tuple(traced_jaxpr(closed.jaxpr, closed.consts, list(values)))

    ins = tuple(tuple(NamedSharding(mesh, s) for s in p.ins) for p in found)
    outs = [tuple(NamedSharding(mesh, s) for s in p.outs) for p in found]
    results = quire.jit(together, in_shardings=ins, out_shardings=outs)(*(tuple(p.values) for p in found))
    for p, got in zip(found, results, strict=True):
        p.check([whole(g) for g in got], f"over {mesh}")
