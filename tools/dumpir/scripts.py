"""A program as a Python script that runs it, compiled and by the reference backend."""

from __future__ import annotations

from typing import Any

import numpy as np

from quire.ir.config import config
from quire.ir.jaxpr import Atom, ClosedJaxpr, Eqn, Literal, has_nested
from quire.ir.printer import Names, to_text

from .reducing import Case

MOST_ELEMENTS = 4096
"""Arguments of more elements than this are random numbers in the script."""
_PLAIN = (bool, int, float, str, type(None))


def function_of(closed: ClosedJaxpr, name: str = "f") -> str | None:
    """A Python function of a program: each equation binds its primitive. None where a parameter cannot be written so."""
    names = Names()
    arguments = ", ".join(names[v] for v in closed.jaxpr.invars)
    lines: list[str] = []

    def atom(a: Atom) -> str:
        return f"np.{a.aval.dtype.name}({a.value!s})" if isinstance(a, Literal) else names[a]

    for e in closed.jaxpr.eqns:
        params = _params(e)
        if params is None or any(
            isinstance(a, Literal) and not np.isfinite(np.asarray(a.value, np.complex128)) for a in e.inputs
        ):
            return None
        out = ", ".join(names[v] for v in e.outputs) + (
            "," if e.primitive.multiple_results and len(e.outputs) == 1 else ""
        )
        given = ", ".join([*map(atom, e.inputs), *params])
        at = f"  # {e.source.file.rpartition('/')[2]}:{e.source.line}" if e.source else ""
        lines.append(f'    {out} = p["{e.primitive.name}"].bind({given}){at}')
    returned = ", ".join(map(atom, closed.jaxpr.outvars))
    return "\n".join([f"def {name}({arguments}):", *lines, f"    return {returned},"])


def _params(e: Eqn) -> list[str] | None:
    if has_nested(e.params):
        return None
    out: list[str] = []
    for k, v in e.params.items():
        text = _value(v)
        if text is None:
            return None
        out.append(f"{k}={text}")
    return out


def _value(x: Any) -> str | None:
    if type(x) in _PLAIN:
        return repr(x)
    if isinstance(x, np.dtype):
        return f'np.dtype("{x.name}")'
    if type(x) is tuple:
        parts = [_value(y) for y in x]
        return None if None in parts else f"({', '.join(map(str, parts))}{',' if len(parts) == 1 else ''})"
    return None


def _array(x: np.ndarray[Any, Any]) -> str:
    if x.size > MOST_ELEMENTS or x.dtype.kind not in "biufc":
        return f'rng.standard_normal({x.shape}).astype("{x.dtype.name}")'
    return f'np.array({x.tolist()!r}, "{x.dtype.name}").reshape({x.shape})'


def script_of(case: Case, what: str, target: str) -> str:
    """A script that runs a case compiled and by the reference backend, and prints both.

    The program is a Python function where its parameters can be written in Python, and else its text.
    """
    function = function_of(case.closed)
    if function is None:
        text = to_text(case.closed)
        function = f'f = quire.extend.core.jaxpr_as_fun(parse("""\\\n{text}\n"""))'
    args = ",\n    ".join(map(_array, case.values))
    wide = '\nquire.config.update("jax_enable_x64", True)\n' if config.enable_x64 else ""
    return f'''"""Reduced by dumpir --reduce ({what}; target {target})."""

import numpy as np

import quire
import quire.extend.core
from quire.ir.parser import parse
from quire.ir.primitive import PRIMITIVES as p
{wide}
{function}


rng = np.random.default_rng(0)
args = [
    {args},
]

if __name__ == "__main__":
    compiled = quire.compile(f)(*args)
    with quire.disable_jit():
        reference = f(*args)
    for got, want in zip(compiled, reference):
        print("compiled:", np.asarray(got).ravel()[:8], "reference:", np.asarray(want).ravel()[:8])
        np.testing.assert_allclose(np.asarray(got), np.asarray(want), rtol=1e-4, atol=1e-5)
'''
