"""merge-alike: clusters that are alike become one equation, unless one waits for another or they differ."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import quire
import quire.numpy as qnp
from quire.backends.reference.engine import eval_jaxpr
from quire.backends.targets import TARGETS
from quire.compiling.lowering import lower_optimized
from quire.compiling.request import Request
from quire.ir.jaxpr import ClosedJaxpr, Eqn
from quire.ir.verifier import verify
from quire.passes.base import PassContext
from quire.passes.fusion.alike import MOST_ARRAYS, MergeAlike
from quire.passes.manager import PassManager

R = np.random.default_rng(0)


def array(*shape: int, dtype: str = "float32") -> np.ndarray:
    return (R.random(shape) + 0.1).astype(dtype)


def adam(p: Any, g: Any, m: Any, v: Any) -> tuple[Any, Any, Any]:
    m = 0.9 * m + 0.1 * g
    v = 0.999 * v + 0.001 * g * g
    return p - 1e-3 * m / (qnp.sqrt(v) + 1e-8), m, v


def momentum(p: Any, g: Any, m: Any) -> tuple[Any, Any]:
    m = 0.9 * m + g
    return p - 0.01 * m, m


def each(update: Callable[..., Any]) -> Callable[..., Any]:
    """An optimizer's step: the update of each leaf, from lists of what it takes."""
    return lambda *lists: [update(*leaf) for leaf in zip(*lists)]


def lists(count: int, shapes: Sequence[tuple[int, ...]]) -> list[list[np.ndarray]]:
    return [[array(*s) for s in shapes] for _ in range(count)]


def merged(f: Callable[..., Any], *args: Any, donated: Sequence[int] = ()) -> ClosedJaxpr:
    """The program after the pipeline, whose last pass merges what is alike; numbers are compared around that pass."""
    pipeline = TARGETS["cpu"].pipeline
    assert pipeline.endswith(",updates,merge-alike")
    before = PassManager(pipeline.removesuffix(",merge-alike"), target=TARGETS["cpu"], donated=donated)
    closed = before.run(quire.make_jaxpr(f)(*args))
    out = MergeAlike().apply(closed, PassContext(TARGETS["cpu"]))
    verify(out)
    values = quire.tree_util.tree_leaves(args)
    for x, y in zip(eval_jaxpr(closed, *values), eval_jaxpr(out, *values), strict=True):
        np.testing.assert_array_equal(x, y)
    return out


def sets(program: ClosedJaxpr) -> list[list[Eqn]]:
    """The clusters of each equation of kind "alike"."""
    return [
        list(e.params["jaxpr"].jaxpr.eqns) for e in program.jaxpr.eqns
        if e.primitive.name == "fusion" and e.params["kind"] == "alike"
    ]  # fmt: skip


SHAPES = [(7, 5), (300,), (1,), (64, 30)]


def test_the_leaves_of_an_update_are_one_equation():
    program = merged(each(adam), *lists(4, SHAPES))
    assert [len(s) for s in sets(program)] == [4] and len(program.jaxpr.eqns) == 1
    assert [e.params["space"] for e in sets(program)[0]] == SHAPES


def test_the_size_is_an_option_of_the_pass():
    closed = quire.make_jaxpr(each(adam))(*lists(4, SHAPES))
    for limit, found in ((2000, [4]), (300, [3]), (2, [])):
        program = PassManager(f"fuse,merge-alike{{most-elements={limit}}}", verify_each=True).run(closed)
        assert [len(s) for s in sets(program)] == found


def test_light_updates_are_clusters_where_there_are_several():
    assert [len(s) for s in sets(merged(each(momentum), *lists(3, SHAPES)))] == [4]
    assert not sets(merged(each(momentum), *lists(3, SHAPES[:1])))


def test_what_iree_fuses_with_its_neighbours_is_no_light_update():
    """A small product's result is updated in the product's dispatch, and a sum takes what it adds up."""
    ps, xs = lists(2, [(8, 8)] * 4)
    assert not sets(merged(lambda ps, xs: [p - 0.1 * (x @ x) for p, x in zip(ps, xs)], ps, xs))
    assert not sets(merged(lambda ps, xs: [qnp.sum(p - 0.1 * x * x) for p, x in zip(ps, xs)], ps, xs))


def test_sets_are_as_large_as_a_dispatch_may_bind_and_nearly_equal():
    program = merged(each(adam), *lists(4, [(40,)] * 9))
    assert [len(s) for s in sets(program)] == [3, 3, 3]  # of 7 arrays a leaf 4 would be 28
    # A step size that all read is bound once.
    scaled = merged(
        lambda rate, ps, gs: [p - rate * g for p, g in zip(ps, gs)], np.float32(0.1), *lists(2, [(40,)] * 11)
    )
    assert [len(s) for s in sets(scaled)] == [6, 5]
    for out in (program, scaled):
        for e in out.jaxpr.eqns:
            assert len(e.inputs) + len(e.outputs) <= MOST_ARRAYS


def test_what_is_unlike_stays_apart():
    a, b, c, d = ([array(50), array(60)] for _ in range(4))

    def other_number(ps: Any, gs: Any, ms: Any, vs: Any) -> Any:
        return adam(ps[0], gs[0], ms[0], vs[0]), adam(ps[1], 2.0 * gs[1], ms[1], vs[1])

    assert not sets(merged(other_number, a, b, c, d))
    wide = [array(60), array(60, dtype="float16")]
    assert not sets(merged(each(adam), wide, wide[::-1], wide, wide[::-1]))

    def rows(ps: Any, row: Any) -> Any:
        return [qnp.tanh(p * row) + qnp.exp(p - row) + qnp.sin(p) for p in ps]

    assert not sets(merged(rows, [array(50, 8), array(60, 8)], array(8)))
    large = lists(4, [(300, 300)] * 2)
    assert not sets(merged(lambda *x: each(lambda *l: tuple(qnp.sin(y) for y in adam(*l)))(*x), *large))


def heavy(x: Any, y: Any) -> Any:
    return qnp.tanh(x * y) + qnp.exp(x - y) + qnp.sin(x) * qnp.cos(y)


def test_one_that_waits_for_another_stays_apart():
    """Through what is no cluster, too; what the two steps have side by side is merged."""

    def steps(ps: Any, gs: Any) -> Any:
        first = [heavy(p, g) for p, g in zip(ps, gs)]
        total = sum(qnp.sum(x) for x in first)
        return first, [heavy(p + 0, g * total) for p, g in zip(first, gs)]

    shapes = [(20,), (30,), (40,)]
    for f in (steps, lambda ps, gs: heavy(heavy(ps[0], gs[0])[::-1], gs[0])):
        program = merged(f, *lists(2, shapes))
        for together in sets(program):
            made = {v for e in together for v in e.outputs}
            assert not any(a in made for e in together for a in e.inputs)
    assert [len(s) for s in sets(merged(steps, *lists(2, shapes)))] == [3, 3]


def test_sets_do_not_wait_for_each_other():
    """a before b in one leaf, b before a in the other: either may be merged, not both."""

    def other(x: Any, y: Any) -> Any:
        return qnp.sin(x + y) * qnp.tanh(x) - qnp.exp(y)

    def f(x: Any, y: Any, z: Any, w: Any) -> Any:
        return other(heavy(x, y)[::-1], y), heavy(other(z, w)[::-1], w)

    program = merged(f, array(20), array(20), array(30), array(30))
    assert len(sets(program)) <= 1


def test_updates_in_place_are_merged_with_their_arguments_first():
    shapes = [(5000,), (70, 80), (9, 9)]
    ps, ms, vs, gs = lists(4, shapes)
    program = merged(lambda ps, ms, vs, gs: each(adam)(ps, gs, ms, vs), ps, ms, vs, gs, donated=range(9))
    (together,) = sets(program)
    assert [e.params["kind"] for e in together] == ["update", "update"]
    (e,) = [e for e in program.jaxpr.eqns if e.params["kind"] == "alike"]
    body = e.params["jaxpr"].jaxpr
    for u in together:
        for a, v in zip(u.inputs, u.outputs):
            assert program.jaxpr.invars.index(e.inputs[body.invars.index(a)]) < 9 and a.aval is v.aval


def test_large_updates_stay_apart():
    ps, ms, gs = lists(3, [(300, 300), (300, 301), (100, 100), (100, 101)])
    program = merged(lambda ps, ms, gs: each(momentum)(ps, gs, ms), ps, ms, gs, donated=range(8))
    assert [sorted(e.params["space"] for e in s) for s in sets(program)] == [[(100, 100), (100, 101)]]


def test_the_work_is_linear_in_the_program(monkeypatch):
    """Stages look at each equation's readers once."""
    from quire.passes.fusion import alike

    counts = []
    original = alike._stages

    def counted(graph: Any, clusters: set[int]) -> list[int]:
        counts.append(len(graph.eqns) + sum(map(len, graph.after)))
        return original(graph, clusters)

    monkeypatch.setattr(alike, "_stages", counted)
    for n in (40, 80):
        merged(each(adam), *lists(4, [(8,)] * n))
    assert counts[1] == 2 * counts[0]


@pytest.mark.parametrize("target", ["vmvx", "cpu"])
def test_the_reason_is_printed_and_other_targets_have_none(target):
    args = lists(4, SHAPES)
    closed = PassManager(TARGETS[target].pipeline, target=TARGETS[target]).run(quire.make_jaxpr(each(adam))(*args))
    text = lower_optimized(Request(closed, TARGETS[target], "f"), closed).module.text()
    reason = "4 clusters alike, of 1 to 1920 elements, side by side: 12 elementwise equations"
    assert (reason in text) == (target == "cpu")
