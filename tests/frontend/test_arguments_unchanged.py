"""Arrays that were not donated are never changed by a call, and results do not share memory with them.

IREE updates in place whatever reaches an in-place operation, so each program here ends in such operations.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import quire
import quire.numpy as qnp
from quire import lax
from tests.programs import inputs, programs

from ..helpers import run_compiled


def scatter_self(x):
    return x.at[0].set(-1.0)


PROGRAMS = {
    "update": lambda x: x.at[1].set(7.0),
    "update a view": lambda x: x.reshape(-1).at[1].set(7.0),
    "update twice": lambda x: (x.at[1].set(7.0), x.at[2].set(8.0)),
    "update and return": lambda x: (x.at[1].set(7.0), x),
    "add at": lambda x: x.at[qnp.array([0, 1, 1])].add(1.0),
    "slice update": lambda x: lax.dynamic_update_slice(x, qnp.zeros((1, 4)), (1, 0)),
    "sort": lambda x: qnp.sort(x, axis=0),
    "sort rows": lambda x: qnp.sort(x, axis=-1),
    "argument itself": lambda x: x,
    "view": lambda x: x.reshape(-1),
    "in a loop": lambda x: lax.fori_loop(0, 3, lambda i, c: c.at[i].set(0.0), x),
    "in a branch": lambda x: lax.cond(x[0, 0] > -100, lambda c: c.at[0].set(5.0), lambda c: c, x),
    "in a nested call": lambda x: quire.compile(scatter_self)(x),
    "as a constant too": lambda x: x.at[0].set(x[1]),
    "cumulative": lambda x: qnp.cumsum(x, axis=0),
}


@pytest.mark.parametrize("name", list(PROGRAMS))
def test_in_place_operations_leave_arguments_alone(name):
    f = PROGRAMS[name]
    host = np.arange(12, dtype=np.float32).reshape(3, 4)[::-1].copy()
    # a device array that NumPy has not seen, so that the program gets the very buffer
    x = quire.compile(lambda a: a + 0)(host)
    first = quire.compile(f)(x)
    kept = [np.array(leaf) for leaf in quire.tree_util.tree_flatten(first)[0]]
    np.testing.assert_array_equal(np.array(x), host)
    again = quire.compile(f)(x)
    for a, b in zip(kept, quire.tree_util.tree_flatten(again)[0]):
        np.testing.assert_array_equal(a, b)
    # the results do not change either when the argument is donated to another program afterwards
    quire.compile(lambda a: a.at[:].set(-9.0), donate_argnums=0)(x)
    for a, b in zip(kept, quire.tree_util.tree_flatten(first)[0]):
        np.testing.assert_array_equal(a, np.array(b))


@settings(max_examples=6, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(programs())
def test_random_programs_leave_arguments_alone(program):
    args = inputs(program)
    before = [a.copy() for a in args]
    run_compiled(program, args)
    f = quire.compile(lambda *xs: quire.ir.tracing.eval_jaxpr(program.jaxpr, program.consts, xs))
    arrays = [quire.compile(lambda a: a.copy())(a) for a in args]
    f(*arrays)
    for a, b, c in zip(args, before, arrays):
        np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(np.array(c), b)
