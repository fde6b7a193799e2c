"""Donated arguments that no result can use: who is warned of, and what is said; what the plan makes of the others."""

from __future__ import annotations

import fnmatch
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import quire
import quire.numpy as qnp
from quire import lax
from quire.compiling.donation import fates
from quire.compiling.memory_analysis import main_plan

V, W, M = (np.ones(shape, np.float32) for shape in ((3,), (4,), (2, 2)))

# function of the library's numpy, the donated arguments, the arguments, options, what is said of which arguments
CASES: dict[str, tuple[Callable[..., Any], Any, tuple[Any, ...], dict[str, Any], str]] = {
    "no result": (lambda m, x: x.sum(), 0, (V,), {}, "x (f32[3]): no result has this shape and dtype"),
    "not needed": (lambda m, x, y: y + 1, 0, (V, W), {}, ""),
    "not needed, kept": (lambda m, x, y: y + 1, 0, (V, W), {"keep_unused": True}, "x (f32[3]): no result has this shape and dtype"),
    "only by what is not needed": (lambda m, x, y: (m.sin(x), y)[1] + 1, 0, (V, W), {}, ""),
    "returned": (lambda m, x: (x, x.sum()), 0, (V,), {}, ""),
    "both": (lambda m, x, y: (x, y + 1), (0, 1), (V, V), {}, ""),
    "another is returned": (lambda m, x, y: (y, x.sum()), 0, (V, V), {}, ""),
    "one result for two": (lambda m, x, y: x + y, (0, 1), (V, V), {}, "y (f32[3]): the result of this shape and dtype can take the memory of x"),
    "two results for three": (lambda m, x, y, z: (x + y, z * 2), (0, 1, 2), (V, V, V), {}, "z (f32[3]): the results of this shape and dtype can take the memory of x and y"),
    "other shape": (lambda m, x: x.reshape(3, 1) * 2, 0, (V,), {}, ""),
    "other dtype": (lambda m, x: x.astype("int16"), 0, (V,), {}, ""),
    "as many elements": (lambda m, x, y: x.reshape(4) + y.reshape(4), (0, 1), (W, M), {}, "y (f32[2,2]): no result has this shape and dtype"),
    "tree": (lambda m, d: d["a"].sum() * d["c"][0].sum(), 0, ({"a": V, "b": M, "c": [W]},), {}, "d['a'] (f32[3]): no result has this shape and dtype; d['c'][0] (f32[4]): no result has this shape and dtype"),
    "weak": (lambda m, x: x * 2, 0, (1.0,), {}, ""),
    "constant": (lambda m, x: (m.zeros(3), x.sum()), 0, (V,), {}, ""),
}  # fmt: skip


def warned(compile: Callable[..., Any], numpy: Any, name: str) -> list[warnings.WarningMessage]:
    """The warnings of one case under a library."""
    f, donated, args, options, _ = CASES[name]
    names = f.__code__.co_varnames[1 : f.__code__.co_argcount]
    given: dict[str, Any] = {"f": f, "m": numpy}
    exec(f"def step({', '.join(names)}): return f(m, {', '.join(names)})", given)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        compile(given["step"], donate_argnums=donated, **options)(*args)
    return found


@pytest.mark.parametrize("name", CASES)
def test_what_is_warned_of(name: str) -> None:
    found, said = warned(quire.compile, qnp, name), CASES[name][-1]
    if not said:
        assert not found
        return
    (one,) = found
    assert one.category is UserWarning
    assert one.filename == __file__
    expected = (
        f"Some donated buffers were not usable: {said}. They were given to step (at {__file__}:{one.lineno}, in warned)"
    )
    assert str(one.message) == expected


def test_jax_warns_of_the_same() -> None:
    jax = pytest.importorskip("jax")
    for name, (*_, said) in CASES.items():
        found = [str(w.message) for w in warned(jax.jit, jax.numpy, name)]
        assert len(found) == bool(said), name
        assert all(text.startswith("Some donated buffers were not usable:") for text in found)
        if found:
            assert found[0].splitlines()[0].count("float32") == said.count("f32["), name


def test_a_compile_ahead_of_time_warns_too() -> None:
    lowered = quire.compile(lambda x: x.sum(), donate_argnums=0).lower(V)
    with pytest.warns(
        UserWarning, match=r"usable: x \(f32\[3\]\): no result .* in test_a_compile_ahead_of_time_warns_too"
    ):
        lowered.compile()


def test_it_is_said_once() -> None:
    f = quire.compile(lambda x: x.sum(), donate_argnums=0)
    with pytest.warns(UserWarning) as found:
        for _ in range(3):
            f(qnp.ones(3))
    assert len(found) == 1


def seen_and_set(p):
    quire.debug.callback(lambda p: None, p)
    return p.at[3].set(1.0)


LARGE = np.ones((64, 128), np.float32)
FATES: dict[str, tuple[Callable[..., Any], int, tuple[Any, ...], tuple[str, ...]]] = {
    "update": (lambda p, g: p - 0.1 * g, 1, (LARGE, LARGE), ("p: result 0 is written into it",)),
    "returned": (lambda p: (p.sum(), p), 1, (LARGE,), ("p: result 1 is the argument itself",)),
    "not read": (lambda p, q: q + 1, 1, (LARGE, LARGE), ("p: the program does not read it",)),
    "no result": (lambda p: p.sum(), 1, (LARGE,), ("p: no result has its 32768 bytes",)),
    "taken": (lambda p, q: p.at[0].set(q[3]), 2, (LARGE, LARGE), ("p: result 0 is written into it", "q: the results of its size take the memory of p")),
    "small": (lambda p: p * 2, 1, (V,), ("p: * reads it while it writes result 0, and what is smaller than 16384 bytes is not updated in place",)),
    "reversed": (lambda p: p[::-1] + p.T.reshape(64, 128), 1, (LARGE,), ("p: * reads it while it writes result 0",)),
    "read later": (lambda p: (lax.sort(p), p @ p.T @ p), 1, (LARGE,), ("p: gemm_* (*) reads it after sort_* (*:*) has written to result 0",)),
    "shown to a callback": (seen_and_set, 1, (LARGE,), ("p: result 0 begins as a copy of it (*:*): it must stay as it is",)),
    "computed of others": (lambda p, q: lax.sort(q @ (p.T @ q)), 1, (LARGE, LARGE), ("p: sort_* (*), which makes result 0, is no update of it",)),
}  # fmt: skip


@pytest.mark.parametrize("name", FATES)
def test_what_becomes_of_donated_arguments(name: str) -> None:
    f, donated, args, expected = FATES[name]
    lowered = quire.compile(f, donate_argnums=tuple(range(donated))).lower(*args)
    program = lowered.stages.lowered
    names = lowered.traced.names
    found = fates(
        main_plan(lowered.as_text("plan")), lowered.traced.jaxpr, lowered.traced.donated, names, program.kept, program.results,
        [f"result {k}" for k in range(len(program.results))],
    )  # fmt: skip
    said = [f"{x.name}: {x.text}" for x in found]
    assert all(fnmatch.fnmatchcase(text, pattern) for text, pattern in zip(said, expected, strict=True)), said
    assert [x.reused for x in found] == ["written into" in x.text or "itself" in x.text for x in found]


@pytest.mark.parametrize(
    "f",
    [
        lambda x: (x.at[-3].set(2.0), x),
        lambda x: (x, x.at[:, 4:].add(1.0)[:, 4:]),
        lambda x: (x * 2 + 1, x, x),
        lambda x: (quire.lax.fori_loop(0, 3, lambda i, c: c.at[i].set(7.0), x), x),
        lambda x: (x, qnp.sort(x, 0).at[0].set(1.0), x + 1),
    ],
)
def test_an_argument_that_is_returned_keeps_its_elements(f):
    """What is given away and returned as it is is no memory for other results, also where the runtime owns it (fuzz seed 77000479)."""
    x = np.random.default_rng(0).random((600, 600)).astype(np.float32)
    want = [np.array(y) for y in f(qnp.asarray(x))]
    for given in (quire.device_put(x.copy()), qnp.array(x)):
        for got, expected in zip(quire.jit(f, donate_argnums=0)(given), want, strict=True):
            np.testing.assert_array_equal(np.asarray(got), expected)
