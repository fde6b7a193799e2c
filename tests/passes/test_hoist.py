"""hoist: what leaves loops, what stays, and that results do not change."""

import numpy as np
import pytest

import quire
import quire.numpy as qnp
from quire.ir.jaxpr import all_eqns
from quire.ir.primitives import reductions as rd
from quire.passes.base import PassContext
from quire.passes.hoist import Hoist
from quire.passes.manager import PassManager

X = np.linspace(0.1, 1.0, 12, dtype=np.float32).reshape(3, 4)
B = np.array([0.5, 1.0, 1.5, 2.0], np.float32)


def scan_of(step, length=3):
    return lambda x, b: quire.lax.scan(lambda c, _: (step(c, b), None), x, None, length=length)[0]


def outer(c, b):
    return c + qnp.sum(qnp.outer(b, b))


def nested(c, b):
    return quire.lax.fori_loop(0, 2, lambda i, d: d * qnp.exp(b), c)


def branching(c, b):
    return quire.lax.cond(c[0, 0] > 0, lambda: c * qnp.cos(b), lambda: c)


CASES = {  # the step, and how many equations of which primitive leave the outermost loop
    "transcendental": (lambda c, b: c + qnp.sin(b) * 2, {"sin": 1, "mul": 1}),
    "larger than its operands": (lambda c, b: c * (b[:, None] * b)[:3], {}),
    "reduction": (outer, {"reduce_sum": 1}),
    "inner loop": (nested, {"exp": 2}),
    "only moved": (lambda c, b: c + qnp.broadcast_to(b[::-1], (3, 4)), {}),
    "branches keep theirs": (branching, {}),
}


@pytest.mark.parametrize("name", CASES)
def test_what_leaves_a_loop(name):
    step, expected = CASES[name]
    closed = quire.make_jaxpr(scan_of(step))(X, B)
    closed = PassManager("inline").run(closed)
    context = PassContext()
    PassManager("hoist", verify_each=True, compare=True, compare_inputs=[X, B]).run(closed)
    Hoist().apply(closed, context)
    counted = {k.removeprefix("hoist "): n for k, n in context.counters.items() if k.startswith("hoist ")}
    assert expected.items() <= counted.items()
    assert bool(expected) == bool(counted)


def test_condition_and_body_of_a_while_loop():
    def f(x, b):
        return quire.lax.while_loop(
            lambda s: s[0].sum() < qnp.exp(b).sum(), lambda s: (s[0] + qnp.log(b) * s[1], s[1], s[2]), (x, 2.0, b)
        )

    closed = PassManager("inline").run(quire.make_jaxpr(f)(X, B))
    after = PassManager("hoist", verify_each=True, compare=True, compare_inputs=[X, B]).run(closed)
    (loop,) = [e for e in after.jaxpr.eqns if e.primitive.name == "while"]
    inside = {e.primitive.name for k in ("cond_jaxpr", "body_jaxpr") for e in all_eqns(loop.params[k].jaxpr)}
    assert not inside & {"exp", "log"}
    assert len(loop.outputs) == 1  # two carries do not change
    assert after.jaxpr.outvars[2] is after.jaxpr.invars[1]


def test_effects_and_endless_loops_stay(capsys):
    def f(x, b):
        def step(c, _):
            quire.debug.print("b {}", b[0])
            n = quire.lax.while_loop(lambda i: i < b[0], lambda i: i + 1, 0.0)
            return c + n, None

        return quire.lax.scan(step, x, None, length=2)[0]

    closed = PassManager("inline").run(quire.make_jaxpr(f)(X, B))
    after = PassManager("hoist").run(closed)
    (loop,) = [e for e in after.jaxpr.eqns if e.primitive.name == "scan"]
    names = [e.primitive.name for e in loop.params["jaxpr"].jaxpr.eqns]
    assert "while" in names and any("callback" in n for n in names)


def test_a_loop_that_does_not_change_is_kept_as_it_is():
    closed = PassManager("inline").run(quire.make_jaxpr(scan_of(lambda c, b: c * b))(X, B))
    assert PassManager("hoist").run(closed) is closed


@pytest.mark.parametrize(
    ("n", "dtype"), [(10, "int32"), (70000, "int32"), (200, "uint8"), (50000, "float32"), (300, "float16")]
)
def test_reductions_of_counting_numbers_are_constants(n, dtype):
    def f():
        x = quire.lax.broadcasted_iota(dtype, (2, n, 3), 1)
        return [r.bind(x, axes=(1,)) for r in (rd.reduce_sum_p, rd.reduce_max_p, rd.reduce_min_p)]

    closed = quire.make_jaxpr(f)()
    after = PassManager("simplify,dce", verify_each=True, compare=n < 1000).run(closed)
    assert {e.primitive.name for e in after.jaxpr.eqns} == {"broadcast_in_dim"}
    values = [e.inputs[0].value for e in after.jaxpr.eqns]
    np.testing.assert_array_equal(values, [np.sum(np.arange(n)).astype(dtype), n - 1, 0])
