"""Running an application under quire and under JAX, and holding every value to account.

An application is a function `programs(xp)` of a library, `quire` or `jax`: one text that both run. It gives a list of
`Program`s, and `check(programs)` sees to it that each of them

- gives JAX's values, dtypes, shapes and tree, and where that is quick the reference backend's;
- gives the same bits twenty times for the same arguments;
- leaves its arguments as they were;
- where it is a step of a training or simulation, does all this with its state donated, and gives JAX's states when the
  state goes from call to call. Donation is what makes a program write in place: the same program without it is not
  compiled as well, because compiling is nearly all of the time that these tests take.

Here and in the applications quire's public names alone are imported with the module: `quire.tools.replay` makes the programs
under other commits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import quire

CALLS = 20
STEPS = 4


@dataclass(frozen=True)
class Program:
    """A function of trees of arrays and its arguments.

    Attributes:
        rtol: how far a result may be from JAX's, in units of the largest magnitude of that result.
        atol: the same in absolute terms, for results that are sums of terms that cancel.
        step: the first argument is a state and the first result (or the only one) its successor: the program is also run
            with the state donated, several times in a row.
        reference: whether the reference backend runs it too: it takes a NumPy call an equation and step.
    """

    name: str
    f: Callable[..., Any]
    args: tuple[Any, ...]
    rtol: float = 1e-5
    atol: float = 1e-6
    step: bool = False
    reference: bool = True


def check(programs: Callable[[Any], Sequence[Program]]) -> None:
    """Run all the programs that `programs` makes of quire and of JAX; all differences are reported together."""
    import pytest

    jax = pytest.importorskip("jax")
    failures: list[str] = []
    for ours, theirs in zip(programs(quire), programs(jax), strict=True):
        try:
            failures += [f"{ours.name}: {problem}" for problem in _problems(ours, theirs, jax)]
        except Exception as error:
            failures.append(f"{ours.name}: {type(error).__name__}: {str(error)[:600]}")
    assert not failures, f"{len(failures)} differences:\n" + "\n".join(failures)


def _problems(ours: Program, theirs: Program, jax: Any) -> list[str]:
    from quire.backends import reference

    given = [np.array(x) for x in quire.tree.leaves(ours.args)]
    kept = quire.tree.map(quire.device_put, ours.args)
    oracle = jax.jit(theirs.f)
    compiled = quire.jit(ours.f, donate_argnums=0 if ours.step else ())

    def call() -> Any:
        if not ours.step:
            return compiled(*kept)
        return compiled(quire.tree.map(quire.numpy.array, ours.args[0]), *kept[1:])

    want = oracle(*theirs.args)
    tree = call()
    got = _leaves(tree)
    problems = _tree_problem(tree, want, jax) or _differences("JAX", got, _leaves(want), ours)
    for n in range(2, CALLS + 1):
        changed = [i for i, (a, b) in enumerate(zip(_leaves(call()), got)) if a.tobytes() != b.tobytes()]
        if changed:
            problems.append(f"call {n} gives other bits in the results {changed}")
            break
    after = _leaves(kept)
    problems += [
        f"argument {i} has changed" for i, (a, b) in enumerate(zip(given, after)) if a.tobytes() != b.tobytes()
    ]
    if ours.reference:
        values = reference.eval_jaxpr(quire.make_jaxpr(ours.f)(*ours.args), *given)
        problems += _differences("the reference", got, [np.asarray(x) for x in values], ours)
    if ours.step:
        than = f"JAX after {STEPS} steps"
        problems += _differences(than, _stepped(compiled, ours, quire), _stepped(oracle, theirs, jax), ours)
    return problems


def _stepped(step: Callable[..., Any], program: Program, xp: Any) -> list[np.ndarray[Any, Any]]:
    """The last state of several steps, each of which is given the state before it to use up, and all other results."""
    state = xp.tree.map(xp.numpy.array, program.args[0])
    seen: list[Any] = []
    for _ in range(STEPS):
        out = step(state, *program.args[1:])
        state, rest = (out[0], out[1:]) if isinstance(out, tuple) else (out, ())
        seen.append([np.array(x) for x in _leaves(rest)])
    return _leaves((state, seen))


def _leaves(tree: Any) -> list[np.ndarray[Any, Any]]:
    return [np.array(x) for x in quire.tree.leaves(tree)]


def _tree_problem(got: Any, want: Any, jax: Any) -> list[str]:
    ours, theirs = str(jax.tree.structure(got)), str(jax.tree.structure(want))
    return [] if ours == theirs else [f"gives {ours} instead of {theirs}"]


def _differences(
    than: str, got: Sequence[np.ndarray[Any, Any]], want: Sequence[np.ndarray[Any, Any]], program: Program
) -> list[str]:
    problems: list[str] = []
    for i, (g, w) in enumerate(zip(got, want, strict=True)):
        problem = _difference(g, w, program.rtol, program.atol)
        if problem:
            problems.append(f"result {i} of {len(want)} differs from {than}: {problem}")
    return problems


def _difference(got: np.ndarray[Any, Any], want: np.ndarray[Any, Any], rtol: float, atol: float) -> str | None:
    """How an array differs, the tolerance being relative to the largest finite magnitude in it."""
    from quire.ir import dtypes

    if got.shape != want.shape or got.dtype != want.dtype:
        return f"{got.dtype}{list(got.shape)} instead of {want.dtype}{list(want.shape)}"
    if not got.size:
        return None
    if not dtypes.is_inexact(want.dtype):
        wrong = got != want
        return f"{wrong.sum()} of {wrong.size} elements" if wrong.any() else None
    wide = np.complex128 if dtypes.is_complex(want.dtype) else np.float64
    g, w = got.astype(wide), want.astype(wide)
    finite = np.isfinite(w)
    scale = float(np.max(np.abs(w[finite]), initial=0.0))
    same = np.isclose(g, w, rtol=0.0, atol=rtol * scale + atol, equal_nan=True)
    if same.all():
        return None
    at = tuple(int(i) for i in np.argwhere(~same)[0])
    error = np.max(np.abs(g - w)[finite & np.isfinite(g)], initial=0.0)
    return (
        f"{np.sum(~same)} of {same.size} elements, by {error:.3g} at a scale of {scale:.3g}; "
        f"first at {at}: {got[at]!r} instead of {want[at]!r}"
    )
