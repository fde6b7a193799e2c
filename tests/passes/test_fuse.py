"""fuse: what becomes one equation, what stays apart, and that numbers and order are kept."""

import numpy as np
import pytest
from hypothesis import given, settings

import quire
import quire.numpy as qnp
from quire.backends.targets import TARGETS
from quire.ir.jaxpr import Jaxpr
from quire.ir.verifier import verify
from quire.passes.manager import PassManager
from tests.programs import inputs, programs

X = np.random.default_rng(0).normal(size=(16, 24)).astype(np.float32)
V = np.linspace(-1, 1, 24, dtype=np.float32)


def fuse(f, *args, least=1, target=None):
    closed = PassManager("inline,simplify,cse,dce").run(quire.make_jaxpr(f)(*args))
    manager = PassManager(
        f"fuse{{least-elements={least}}}", target=target, verify_each=True, compare=True, compare_inputs=list(args)
    )
    return manager.run(closed).jaxpr


def names(jaxpr: Jaxpr) -> list[str]:
    return [e.primitive.name for e in jaxpr.eqns]


def inside(jaxpr: Jaxpr) -> list[list[str]]:
    return [names(e.params["jaxpr"].jaxpr) for e in jaxpr.eqns if e.primitive.name == "fusion"]


def softmax(x):
    e = qnp.exp(x - qnp.max(x, -1, keepdims=True))
    return e / qnp.sum(e, -1, keepdims=True)


def test_softmax_is_one_equation():
    jaxpr = fuse(softmax, X)
    assert names(jaxpr) == ["fusion"]
    assert sum(n.startswith("reduce") for n in inside(jaxpr)[0]) == 2
    (e,) = jaxpr.eqns
    assert (e.params["kind"], e.params["space"], e.params["axes"]) == ("reduction", (16, 24), (1,))


def test_a_value_that_is_read_elsewhere_is_a_result():
    def f(x):
        y = qnp.tanh(x)
        return qnp.sum(y, 1), y @ x.T

    jaxpr = fuse(f, X)
    assert sorted(names(jaxpr)) == ["dot_general", "fusion", "transpose"]
    (e,) = [e for e in jaxpr.eqns if e.primitive.name == "fusion"]
    assert len(e.outputs) == 2


def test_columns_take_what_feeds_them_only():
    jaxpr = fuse(lambda x: qnp.tanh(qnp.sum(x * 2, 0)) + 1, X)
    assert inside(jaxpr) == [["mul", "reduce_sum"]]
    assert names(jaxpr) == ["fusion", "tanh", "add"]


def test_reductions_over_other_axes_are_other_clusters():
    jaxpr = fuse(lambda x: (qnp.sum(x, 0), qnp.sum(x, 1), qnp.max(x, 1)), X)
    assert sorted(map(sorted, inside(jaxpr))) == [["reduce_max", "reduce_sum"], ["reduce_sum"]]


def test_what_depends_on_a_cluster_and_feeds_it_keeps_it_apart():
    """exp(x) may not join both sums: the second waits for a product with the first."""

    def f(x):
        s = qnp.sum(qnp.exp(x), 1)
        y = x * qnp.cumsum(s)[:, None]
        return qnp.sum(y + qnp.exp(x), 1)

    jaxpr = fuse(f, X)
    assert len(inside(jaxpr)) == 2 and "cumsum" in names(jaxpr)


def test_two_clusters_do_not_wait_for_each_other():
    def f(x, y):
        a, b = qnp.exp(x), qnp.exp(y)
        p, q = qnp.sum(a, 0), qnp.sum(b, 0)
        return qnp.sum(a.T + qnp.cumsum(q), 0), qnp.sum(b.T + qnp.cumsum(p), 0)

    square = X[:, :16]
    fuse(f, square, square * 2)  # the manager verifies the order and compares the numbers


def test_effects_keep_their_order(capsys):
    def f(x):
        s = qnp.sum(x * 2, 1)
        quire.debug.print("a {}", s[0], ordered=True)
        t = qnp.max(x * 2, 1)
        quire.debug.print("b {}", t[0], ordered=True)
        return s + t

    closed = PassManager("inline,simplify,cse,dce").run(quire.make_jaxpr(f)(X))
    after = PassManager("fuse{least-elements=1}", verify_each=True).run(closed)
    printed = [str(e.params) for e in after.jaxpr.eqns if e.effects]
    assert len(printed) == 2 and "a {}" in printed[0] and "b {}" in printed[1]


def test_small_reductions_and_targets_without_kernels_are_left_alone():
    assert "fusion" not in names(fuse(softmax, X, least=1000))
    assert "fusion" not in names(fuse(softmax, X, target=TARGETS["vulkan"]))


def test_the_inside_of_branches_is_fused_and_that_of_loops_is_not():
    def f(x):
        y = quire.lax.cond(x[0, 0] > 0, softmax, lambda x: x, x)
        return quire.lax.fori_loop(0, 3, lambda i, c: softmax(c), y)

    jaxpr = fuse(f, X)
    by_name = {e.primitive.name: e for e in jaxpr.eqns}
    assert any("fusion" in names(b.jaxpr) for b in by_name["cond"].params["branches"])
    loop = by_name.get("scan") or by_name["while"]
    body = loop.params.get("jaxpr") or loop.params["body_jaxpr"]
    assert "fusion" not in names(body.jaxpr)


@pytest.mark.parametrize("axes", [(0,), (1,), (0, 1), (0, 2), (1, 2)])
def test_only_neighbouring_axes_are_a_cluster(axes):
    x = np.ones((4, 5, 6), np.float32)
    jaxpr = fuse(lambda x: qnp.sum(x * 2, axes), x)
    assert ("fusion" in names(jaxpr)) == (axes != (0, 2))


@settings(max_examples=60, deadline=None)
@given(programs())
def test_random_programs(program):
    verify(program)
    PassManager("fuse{least-elements=1}", verify_each=True, compare=True, compare_inputs=inputs(program)).run(program)
