"""Random programs, divided at random: all ranks interpreted give what the whole program gives, within rounding."""

from __future__ import annotations

import random
import warnings
from typing import Any

import numpy as np

from quire.backends.reference.engine import eval_jaxpr
from quire.backends.reference.ranks import eval_ranks
from quire.ir.sharding import AbstractMesh, P
from quire.passes.partition import partition
from quire.tools.fuzz.generate import generate
from quire.tools.fuzz.program import library_names
from quire.tools.fuzz.running import Outcome, _compared, _Run, traced, width

MESH = AbstractMesh((4, 2), ("x", "y"))


def random_spec(rng: random.Random, shape: tuple[int, ...]) -> P:
    axes = list(MESH.axis_names)
    rng.shuffle(axes)
    entries: list[Any] = []
    for n in shape:
        some: list[str] = []
        while axes and rng.random() < 0.45:
            some.append(axes.pop())
        entries.append(tuple(some) if n > 1 else ())
    return P(*entries)


def test_random_programs_on_parts() -> None:
    # 60 programs at least, and more until enough of them communicate: which seeds do is the generator's affair.
    communicated = 0
    for seed in range(300):
        if seed >= 60 and communicated > 20:
            break
        program = generate(seed)
        with width(program.x64), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            function, values = program.function(library_names("quire")), program.values()
            try:
                closed = traced(function, values)
            except NotImplementedError:  # the library refuses the program
                continue
            want = eval_jaxpr(closed, *values)
            rng = random.Random(seed * 3)
            ins = [random_spec(rng, a.shape) for a in closed.in_avals]
            outs = [None if rng.random() < 0.4 else random_spec(rng, a.shape) for a in closed.out_avals]
            p = partition(closed, MESH, ins, outs)
            got = eval_ranks(p.jaxpr, MESH, p.in_specs, p.out_specs, values, p.out_shapes)
            run = _Run(program, function, values, closed, want)
            found = _compared(run, [np.asarray(g) for g in got], Outcome(), "reference", "on parts")
            assert found is None, (seed, ins, outs, found)
            communicated += bool(p.notes)
    assert communicated > 20
