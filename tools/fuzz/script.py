"""A finding as a script of its own."""

from __future__ import annotations

import inspect
from collections.abc import Sequence

from quire.ir.environment import CPU_PIPELINE

from . import prelude
from .program import Program

_HEAD = """\
# {title}
# Run with "jax" as argument for JAX's results.
import sys

import numpy as onp
import ml_dtypes

if "jax" in sys.argv:
    import jax as api
    from jax import lax, numpy as np, random
else:
    import quire as api
    from quire import lax, numpy as np, random
"""

_TAIL = """

def show(out):
    print(*(onp.asarray(y) for y in api.tree_util.tree_leaves(out)), sep="\\n")


compiled = api.jit(program, donate_argnums={donated})
show(compiled(*arguments()))
if "jax" not in sys.argv:
    from quire.backends import reference
    from quire.ir.jaxpr import ClosedJaxpr

    print("by the reference:")
    show(reference.eval_jaxpr(api.make_jaxpr(program)(*arguments()), *arguments()))
"""


def script(programs: Sequence[Program], title: str) -> str:
    """Source of a script that runs the programs compiled and by the reference, or with JAX."""
    body = "\n".join([*(p.text() for p in programs), *(t.text() for p in programs for t in p.stack)])
    parts = [_HEAD.format(title=title.replace("\n", " "))]
    if pipeline := CPU_PIPELINE.text():
        parts.insert(0, f"# Found with {CPU_PIPELINE.name}='{pipeline}' in the environment.\n")
    if programs[0].x64:
        parts.append('api.config.update("jax_enable_x64" if "jax" in sys.argv else "enable_x64", True)\n')
    helpers = [n for n in ("gradient", "value_and_gradient", "pushforward", "pullback") if f"= {n}(" in body]
    if helpers:
        parts.append("from typing import Any, Callable, Sequence\n\nFunction = Callable\n")
        helpers = ["weighted_sum", "_inexact", "_partial", *helpers]
    else:
        parts.append("from typing import Any, Sequence\n")
    if "places." in body:
        helpers.append("Places")
        parts[-1] = "from typing import Any, Callable, Sequence\n\nFunction = Callable\n"
    parts += ["\n" + inspect.getsource(getattr(prelude, n)) for n in ("argument", *helpers)]
    parts += ["\nplaces = Places(api)\n"] if "places." in body else []
    values: list[str] = []
    donated: list[int] = []
    calls: list[str] = []
    for k, p in enumerate(programs):
        parts.append("\n" + p.text())
        parts += [t.text() for t in p.stack]
        parts.append(f"f{k}_ = f\n")
        start = len(values)
        for i, a in enumerate(p.args):
            donated += [start + i] if a.donated else []
            values.append(f"argument({a.aval[0]}, {a.aval[1]!r}, {a.kind!r}, {a.seed}, {p.lanes(i)})")
        calls.append(f"f{k}_(*xs[{start}:{len(values)}])")
    lines = ",\n        ".join(values)
    parts.append(f"\ndef arguments():\n    return [\n        {lines},\n    ]\n")
    parts.append(f"\ndef program(*xs):\n    return [{', '.join(calls)}]")
    parts.append(_TAIL.format(donated=tuple(donated)))
    return "\n".join(parts)
