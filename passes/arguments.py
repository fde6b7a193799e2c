"""The arguments that a program uses: the last step before lowering.

It is no pass, because it changes what a call takes: `kept` says which arguments those are, and everything before it (the
numbers of donated arguments, the values on which passes are compared) counts all of them. `dumpir --stage optimized`
shows what it gives.
"""

from __future__ import annotations

from typing import Any

from quire.ir import dtypes
from quire.ir.jaxpr import ClosedJaxpr, Jaxpr


def used_arguments(program: ClosedJaxpr) -> tuple[int, ...]:
    """The inputs that an equation reads or that are returned; not the tangents of integers, which have no elements."""
    used: set[Any] = set(program.jaxpr.outvars)
    for eqn in program.jaxpr.eqns:
        used.update(eqn.inputs)
    return tuple(i for i, v in enumerate(program.jaxpr.invars) if v in used and v.aval.dtype != dtypes.float0)


def without_unused_arguments(program: ClosedJaxpr, keep_unused: bool = False) -> tuple[ClosedJaxpr, tuple[int, ...]]:
    """The program that takes the inputs it uses only, or all if `keep_unused`, and the numbers of these inputs."""
    jaxpr = program.jaxpr
    kept = tuple(range(len(jaxpr.invars))) if keep_unused else used_arguments(program)
    if len(kept) == len(jaxpr.invars):
        return program, kept
    invars = [jaxpr.invars[i] for i in kept]
    return ClosedJaxpr(Jaxpr(jaxpr.constvars, invars, jaxpr.outvars, jaxpr.eqns), program.consts), kept


__all__ = ["used_arguments", "without_unused_arguments"]
