"""Partitioned programs: every rank interpreted gives what the whole program gives, for many operations and divisions."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import numpy as np
import pytest

import quire
import quire.numpy as jnp
from quire import lax
from quire.backends.reference.engine import eval_jaxpr
from quire.backends.reference.ranks import RankError, eval_ranks
from quire.ir.avals import ShapedArray
from quire.ir.primitives import collectives as co
from quire.ir.primitives.sharding import sharding_constraint
from quire.ir.printer import jaxpr_to_str
from quire.ir.sharding import AbstractMesh, NamedSharding, P
from quire.ir.tracing import close_captured, trace_flat
from quire.passes.base import PassContext
from quire.passes.emulate_spmd import EmulateSpmd
from quire.passes.partition import describe, partition, propagate, totals
from quire.passes.partition.moves import plan
from quire.passes.partition.specs import local_shape
from quire.passes.partition.structural import reshape_factors

MESH = AbstractMesh((4, 2), ("x", "y"))


def normal(*shape: int) -> Any:
    return np.random.default_rng(len(shape)).normal(size=shape).astype(np.float32)


def integers(n: int, *shape: int) -> Any:
    """Integers, some of them outside of [0, n)."""
    return np.random.default_rng(n).integers(-3, n + 3, size=shape).astype(np.int32)


def pooled(a: Any) -> Any:
    return lax.reduce_window(a, -np.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")


def convolved(a: Any, k: Any) -> Any:
    return (lax.conv_general_dilated(a, k, (2, 1), "VALID") ** 2).sum()


def strided(a: Any, k: Any) -> Any:
    return (lax.conv_general_dilated(a, k, (2, 3), ((1, 1), (0, 1))) ** 2).sum()


def spaced(a: Any, k: Any) -> Any:
    return (lax.conv_general_dilated(a, k, (3, 1), ((2, 1), (0, 0)), (1, 1), (2, 3)) ** 2).sum()


def overlapping(a: Any) -> Any:
    padding = ((1, 2), (0, 1))
    return (lax.reduce_window(a, -np.inf, lax.max, (3, 2), (2, 3), padding) ** 2 * jnp.arange(1.0, 8.0)[:, None]).sum()


def recurrent(w: Any, a: Any) -> Any:
    return lax.scan(lambda c, x: (jnp.tanh(c @ w + x), c.sum()), jnp.zeros((8, 6)), a)


def positive(a: Any) -> Any:
    return a @ jnp.swapaxes(a, 1, 2) + 3 * jnp.eye(4)


CASES: dict[str, Any] = {
    "elementwise": (lambda a, b: (jnp.sin(a) * b + 1, jnp.where(a > b, a, 0), jnp.clip(a, -1, b)), normal(8, 6), normal(8, 6)),
    "broadcast": (lambda a, b: (a + b, a[:, None] * a), normal(8, 6), normal(6)),
    "reductions": (lambda a: (a.sum(0), a.sum(1), a.max(0), a.min(), a.prod(1), (a > 0).any(0), (a > 0).all(1), a.argmax(0)), normal(7, 6)),
    "bits": (lambda a: (lax.reduce_xor(a, (0,)), lax.reduce_and(a, (0,)), lax.reduce_or(a, (1,))), integers(50, 8, 6)),
    "complex": (lambda a, b: (jnp.abs((a + 1j * b).sum(0)), (a + 1j * b).prod(0).real), normal(8, 6), normal(8, 6)),
    "softmax": (lambda a: (quire.nn.softmax(a, axis=-1), quire.nn.logsumexp(a, 0), a.var(0)), normal(8, 7)),
    "dot": (lambda a, b: (a @ b, quire.grad(lambda a, b: jnp.sin(a @ b).sum(), (0, 1))(a, b)), normal(8, 6), normal(6, 5)),
    "batched dot": (lambda a, b: jnp.einsum("bij,bjk->bik", a, b), normal(4, 5, 6), normal(4, 6, 3)),
    "other dot": (lambda a, b: jnp.einsum("ijk,lj->kil", a, b), normal(4, 5, 6), normal(3, 5)),
    "reshape": (lambda a: [a.reshape(s) for s in ((48,), (4, 2, 6), (2, 4, 6), (8, 2, 3), (16, 3), (1, 8, 1, 6), (6, 8))], normal(8, 6)),
    "transpose": (lambda a: (a.T, jnp.moveaxis(a.reshape(4, 2, 6), 0, 2)), normal(8, 6)),
    "concatenate": (lambda a, b: (jnp.concatenate([a, b], 0), jnp.concatenate([a, b], 1), jnp.stack([a, b])), normal(8, 6), normal(8, 6)),
    "pieces": (lambda a: (jnp.pad(a, ((1, 2), (0, 0))), a[1:5], a[:, ::2], a[::-1], a[2], jnp.split(a, 2, axis=0)), normal(8, 6)),
    "counting": (lambda a: (a + jnp.arange(8)[:, None], jnp.eye(8) * a[:, :1], jnp.arange(6) + a, jnp.tril(a), jnp.tile(a, (2, 1))), normal(8, 6)),
    "shifted": (lambda a: (jnp.roll(a, 1, 0), jnp.roll(a, -3, 0), jnp.roll(a, 1), jnp.pad(a, 1)[:-2, 1:-1], jnp.diff(a, axis=0), lax.pad(a, 0.0, ((-1, 2, 0), (3, -2, 0))), jnp.pad(a, 1, constant_values=2.5), a[3:4] + a[2:6, 1:3].sum(), jnp.concatenate([a[5:], a[:1], a[2:5]]), jnp.concatenate([a[:, :4], a, a[:, 5:]], 1)), normal(9, 6)),
    "border gradients": (lambda a: quire.grad(lambda a: (jnp.roll(a, 2, 0) * jnp.pad(a, 1)[2:, :-2] ** 2 * a[::-1]).sum() + jnp.diff(a[1:], axis=0).prod())(a), normal(8, 6)),
    "steps": (lambda a: (a[::2], a[1::3], a[:, 1::2], a[::-1, ::-1], lax.pad(a, 0.5, ((1, 2, 1), (0, 0, 2))), lax.pad(a, 0.0, ((-2, 1, 2), (1, 0, 0))), lax.pad(a, 1.0, ((3, -1, 1), (-1, -1, 1)))), normal(12, 8)),
    "cumulative": (lambda a: (jnp.cumsum(a, 0), jnp.cumprod(a, 1), lax.cummax(a, 0, reverse=True), lax.cumsum(a, 0, reverse=True)), normal(7, 6)),
    "sorting": (lambda a: (jnp.sort(a, 0), jnp.argsort(a, 1), lax.top_k(a, 2), lax.top_k(a.T, 5), lax.top_k((a > 0).astype("int8"), 4)), normal(9, 6)),
    "largest": (lambda a: (a.argmax(0), a.argmin(1), (a > 0).argmax(0), a.astype("int32").argmin(0), jnp.where(a > 1, jnp.nan, a).argmax(0), jnp.where(a > 0, -jnp.inf, -jnp.inf).argmax(0), a.argmax()), normal(7, 6)),
    "gather": (lambda a, i: (a[i], a[:, i], jnp.take(a, i, axis=0, mode="clip"), jnp.take(a > 0, i, axis=0), jnp.take_along_axis(a, jnp.clip(i, 0, 5)[:, None], 1)), normal(8, 6), integers(8, 8)),
    "scatter": (lambda a, i, u: (a.at[i].add(u), a.at[i].set(1.0), a.at[i].max(u), a.at[:, i].add(1.0), a.at[i].mul(u), a.at[2].set(0), a.at[i, 1].add(u[:, 0])), normal(8, 6), integers(8, 8), normal(8, 6)),
    "promised": (lambda a, i: quire.grad(lambda a: jnp.sin(a.at[i].get(mode="promise_in_bounds")).sum())(a), normal(8, 6), integers(8, 8)),
    "embedding": (lambda e, i: quire.grad(lambda e: jnp.sin(e[i]).sum())(e), normal(12, 6), integers(9, 4, 6)),
    "dynamic slices": (lambda a, i: (lax.dynamic_slice(a, (i[0], 0), (3, 6)), lax.dynamic_update_slice(a, a[:2], (i[1], i[0])), lax.dynamic_update_slice(a, a[:3, :2] * 2, (i[0], i[1])), lax.dynamic_slice(a > 0, (i[1], i[0]), (2, 3)), lax.dynamic_slice(a, (i[0] + 5, i[1]), (5, 2))), normal(9, 6), integers(3, 2)),
    "convolution": (lambda a, k: (lax.conv_general_dilated(a, k, (1, 1), "SAME"), quire.grad(convolved, (0, 1))(a, k)), normal(4, 6, 5, 5), normal(8, 6, 3, 3)),
    "spatial": (lambda a, k: (lax.conv_general_dilated(a, k, (1, 2), ((1, 1), (2, 0))), quire.grad(strided, (0, 1))(a, k)), normal(2, 3, 12, 9), normal(4, 3, 3, 3)),
    "dilated": (lambda a, k: (lax.conv_general_dilated(a, k, (1, 2), ((3, 1), (0, 2)), (2, 3), (1, 2)), lax.conv_general_dilated(a, k, (3, 1), ((-1, 2), (1, 1)), (1, 2)), quire.grad(spaced, (0, 1))(a, k)), normal(2, 3, 10, 8), normal(4, 3, 3, 2)),
    "windows": (lambda a: (lax.reduce_window(a, 0.0, lax.add, (3, 2), (1, 1), "SAME"), lax.reduce_window(a, -np.inf, lax.max, (3, 3), (2, 1), ((1, 1), (0, 2))), lax.reduce_window(a, 1.0, lax.mul, (2, 3), (1, 2), "VALID"), lax.reduce_window(a, np.inf, lax.min, (3, 1), (2, 1), ((2, 3), (0, 0)), (2, 1), (1, 1)), quire.grad(overlapping)(a), quire.jvp(overlapping, (a,), (a * 2,))[1]), normal(12, 9)),
    "pooling": (lambda a: (pooled(a), quire.grad(lambda a: pooled(a).sum())(a)), normal(4, 6, 4, 4)),
    "fft": (lambda a: (jnp.fft.rfft(a).real, jnp.fft.fft(a, axis=0).imag), normal(8, 6)),
    "linalg": (lambda a: (jnp.linalg.cholesky(positive(a)), jnp.linalg.solve(positive(a), a)), normal(8, 4, 4)),
    "random": (lambda a: (quire.random.normal(quire.random.key(0), (8, 6)) + a, quire.random.bits(quire.random.key(1), (8, 6), "uint8"), quire.random.uniform(quire.random.key(3), (7,))), normal(8, 6)),
    "scan": (lambda a, w: (recurrent(w, a), quire.grad(lambda w: recurrent(w, a)[0].sum())(w)), normal(5, 8, 6), normal(6, 6)),
    "while": (lambda a: lax.while_loop(lambda c: (c[0] ** 2).sum() < 1000, lambda c: (c[0] * 1.5, c[1] + 1), (a, 0)), normal(8, 6)),
    "cond": (lambda a: lax.cond(a.sum() > 0, lambda a: a * 2, lambda a: a[::-1], a), normal(8, 6)),
    "checkpoint": (lambda a, w: quire.grad(lambda w: quire.checkpoint(lambda w: jnp.sin(jnp.sin(a @ w)))(w).sum())(w), normal(8, 6), normal(6, 4)),
    "barrier": (lambda a: lax.optimization_barrier((a * 2, a.T)), normal(8, 6)),
}  # fmt: skip


def random_spec(rng: random.Random, shape: tuple[int, ...], even: bool) -> P:
    axes = list(MESH.axis_names)
    rng.shuffle(axes)
    entries: list[Any] = []
    for n in shape:
        some: list[str] = []
        while axes and rng.random() < 0.4:
            some.append(axes.pop())
        k = int(np.prod([MESH.shape[a] for a in some]))
        entries.append(() if even and n % k else tuple(some))
    return P(*entries)


def check(closed: Any, args: Any, specs: Any, out_specs: Any = None, mesh: Any = MESH) -> Any:
    """The partitioned program, whose ranks give what the whole one gives; padding is NaN."""
    p = partition(closed, mesh, specs, out_specs)
    got = eval_ranks(p.jaxpr, mesh, p.in_specs, p.out_specs, args, p.out_shapes)
    for i, (g, w) in enumerate(zip(got, eval_jaxpr(closed, *args), strict=True)):
        np.testing.assert_allclose(g, w, rtol=3e-5, atol=3e-5, err_msg=f"result {i}, {specs}")
    return p


@pytest.mark.parametrize("name", CASES)
def test_parts_give_what_the_whole_gives(name: str) -> None:
    f, *args = CASES[name]
    closed = quire.make_jaxpr(f)(*args)
    for k in range(6):
        rng = random.Random(f"{name} {k}")
        check(closed, args, [None if rng.random() < 0.1 else random_spec(rng, a.shape, k % 3 != 2) for a in args])


def test_reshapes_are_taken_apart_into_what_both_shapes_have_in_common() -> None:
    assert reshape_factors((6,), (2, 3)) == ([2, 3], [[0, 1]], [[0], [1]])
    assert reshape_factors((4, 6), (8, 3)) == ([4, 2, 3], [[0], [1, 2]], [[0, 1], [2]])
    assert reshape_factors((1, 6), (6, 1)) == ([6], [[], [0]], [[0], []])
    # Neither of 4 and 6 divides the other.
    assert reshape_factors((2, 4, 6), (2, 6, 4)) == ([2, -1, -1, -1, -1], [[0], [1], [2]], [[0], [3], [4]])


def test_moves_slice_before_they_exchange_before_they_gather() -> None:
    sizes = dict(MESH.shape)

    def steps(shape: Any, a: Any, b: Any) -> list[tuple[str, tuple[str, ...]]]:
        return [(s.kind, s.axes) for s in plan(shape, a, b, sizes)]

    assert steps((8, 8), (("x",), ()), (("x",), ())) == []
    assert steps((8, 8), (("x",), ()), (("x",), ("y",))) == [("slice", ("y",))]
    assert steps((8, 8), (("x",), ()), ((), ("x",))) == [("all_to_all", ("x",))]
    assert steps((8, 8), (("x",), ()), (("y",), ())) == [("all_gather", ("x",)), ("slice", ("y",))]
    assert steps((8, 8), (("x", "y"), ()), (("x",), ())) == [("all_gather", ("y",))]
    assert steps((8, 8), (("x",), ()), ((), ("y",))) == [("slice", ("y",)), ("all_gather", ("x",))]
    assert steps((7, 8), (("x",), ()), ((), ("x",))) == [("all_gather", ("x",)), ("crop", ()), ("slice", ("x",))]
    assert local_shape((7, 8), (("x",), ("y",)), sizes) == (2, 4)


def loss(w1: Any, w2: Any, x: Any) -> Any:
    return ((jnp.tanh(x @ w1) @ w2) ** 2).mean()


def network(*specs: P) -> tuple[Any, Any]:
    args = (normal(6, 8), normal(8, 5), normal(16, 6))
    closed = quire.make_jaxpr(quire.grad(loss, (0, 1)))(*args)
    p = check(closed, args, list(specs))
    return p, totals(p.notes)


def test_a_data_parallel_gradient_sums_each_weight_once() -> None:
    p, found = network(P(), P(), P("x"))
    assert found == {("psum", ("x",)): (1, 2 * (6 * 8 + 8 * 5) * 4 * 3 // 4)}  # in one message
    assert p.out_specs == (P(), P())
    text = describe(p.notes)
    assert (
        "psum[x] 528 bytes" in text
        and "2 in one message" in text
        and "test_partition.py" in text
        and "total: 528 bytes a device" in text
    )


def test_a_tensor_parallel_gradient_sums_activations_along_its_axis() -> None:
    p, found = network(P(None, "y"), P("y"), P("x"))
    assert {kind for kind in found} == {("psum", ("y",)), ("psum", ("x",))}
    assert found["psum", ("y",)] == (1, 4 * 5 * 4)
    assert p.out_specs == (P(None, "y"), P("y"))


def test_a_sum_that_is_wanted_divided_is_scattered() -> None:
    args = (normal(8, 16), normal(16, 8))
    closed = quire.make_jaxpr(lambda a, b: a @ b)(*args)
    p = check(closed, args, [P(None, "x"), P("x")], [P("x")])
    assert [n.kind for n in p.notes] == ["reduce_scatter"]
    assert "wanted as P('x',)" in p.notes[0].reason


def test_a_program_on_parts_reads_as_this() -> None:
    args = (normal(8, 16), normal(16, 6))
    closed = quire.make_jaxpr(lambda a, b: jnp.sin(a) @ b)(*args)
    p = check(closed, args, [P("y", "x"), P("x")])
    assert jaxpr_to_str(p.jaxpr.jaxpr) == (
        "{ lambda ; a:f32[4,4] b:f32[4,6]. let\n"
        "    c:f32[4,4] = sin a\n"
        "    d:f32[4,6] = dot_general[\n"
        "      dimension_numbers=(((1,), (0,)), ((), ()))\n"
        "      precision=None\n"
        "      preferred_element_type=None\n"
        "    ] c b\n"
        "    e:f32[4,6] = psum[axes=(x,)] d\n"
        "  in (e,) }"
    )


def test_a_constant_of_two_uses_carries_no_division_from_one_to_the_other() -> None:
    args = (normal(8, 8), normal(8, 8))

    def f(a: Any, b: Any) -> Any:
        ones = jnp.ones((8, 8))
        return a + ones, b * ones

    assert not check(quire.make_jaxpr(f)(*args), args, [P("x"), P(None, "x")]).notes


def test_constraints_decide() -> None:
    args = (normal(8, 6), normal(6, 8))

    def f(a: Any, b: Any) -> Any:
        h = sharding_constraint(a @ b, NamedSharding(MESH, P(None, "x")))
        return jnp.sin(h)

    p = check(quire.make_jaxpr(f)(*args), args, [P("x"), P()])
    assert p.out_specs == (P(None, "x"),)
    assert propagate(quire.make_jaxpr(f)(*args), MESH, [P("x"), P()]) == [P(None, "x")]


def test_propagation_gives_results_the_division_of_arguments() -> None:
    closed = quire.make_jaxpr(lambda a, b: (a @ b, a.sum(0), (a @ b).T.reshape(2, 3, 8)))(normal(8, 6), normal(6, 6))
    assert propagate(closed, MESH, [P("x", "y"), P()]) == [P("x"), P("y"), P(None, None, "x")]
    assert propagate(closed, MESH, [P("x"), None])[0] == P("x")


def test_collectives_in_loops_count_their_turns() -> None:
    args = (normal(8, 8), normal(8, 8))

    def f(x: Any, w: Any) -> Any:
        return lax.scan(lambda c, _: (jnp.tanh(c @ w), None), x, None, length=5)[0]

    p = check(quire.make_jaxpr(f)(*args), args, [P("x"), P("y")])
    assert all(n.times in (1, 5) for n in p.notes)
    assert Counter(n.kind for n in p.notes)


def test_specs_that_do_not_fit_are_refused() -> None:
    closed = quire.make_jaxpr(jnp.sin)(normal(8))
    with pytest.raises(ValueError, match="expected a spec for each of the 1 arguments, got 2"):
        partition(closed, MESH, [P(), P()])
    with pytest.raises(ValueError, match="has more entries than f32"):
        partition(closed, MESH, [P("x", "y")])
    with pytest.raises(ValueError, match="Resource axis: z"):
        partition(closed, MESH, [P("z")])
    other = NamedSharding(AbstractMesh((2,), ("z",)), P("z"))
    constrained = quire.make_jaxpr(lambda a: sharding_constraint(a, other))(normal(8))
    with pytest.raises(ValueError, match=r"names the axis 'z', the axes of the mesh are 'x', 'y' \(at"):
        partition(constrained, MESH, [P()])


def test_shard_map_is_partitioned_as_it_says() -> None:
    args = (normal(8, 6), normal(6, 4))

    def device(a: Any, b: Any) -> Any:
        turns = lax.scan(lambda c, _: (c + lax.psum(c, "x") * 0.1, None), a @ b, None, length=3)[0]
        return turns, lax.psum(turns.sum(0), ("x", "y"))

    def f(a: Any, b: Any) -> Any:
        p, q = device_map(a + 1, b)
        return p * 2, q + a.sum()

    mapped = {"mesh": MESH, "in_specs": (P("x"), P(None, "y")), "out_specs": (P("x", "y"), P())}
    for check_vma in (True, False):
        device_map = quire.shard_map(device, **mapped, check_vma=check_vma)
        closed = quire.make_jaxpr(f)(*args)
        whole = EmulateSpmd().apply(closed, PassContext())
        for specs in ([P("x"), P(None, "y")], [P(), P()], [P("y", "x"), P("x")]):
            p = partition(closed, MESH, specs)
            got = eval_ranks(p.jaxpr, MESH, p.in_specs, p.out_specs, args, p.out_shapes)
            for g, w in zip(got, eval_jaxpr(whole, *args), strict=True):
                np.testing.assert_allclose(g, w, rtol=1e-5, atol=1e-5)
            assert any("written by the user" in n.reason and n.times == 3 for n in p.notes)


# -- the interpreter of ranks -----------------------------------------------------------------------------------------


def traced(f: Any, *avals: ShapedArray) -> Any:
    jaxpr, captured, _ = trace_flat(f, avals)
    return close_captured(jaxpr, captured)


def test_collectives_of_ranks() -> None:
    mesh = AbstractMesh((4,), ("i",))
    x = np.arange(16, dtype=np.float32).reshape(4, 4)
    row = ShapedArray((1, 4), np.dtype("float32"))

    def f(a: Any) -> Any:
        return [
            co.psum_p.bind(a, axes=("i",)),
            co.pmax_p.bind(a, axes=("i",)),
            co.all_gather_p.bind(a, axis_name="i", all_gather_dimension=0, axis_size=4, tiled=True),
            co.reduce_scatter_p.bind(a, axis_name="i", scatter_dimension=1, axis_size=4, tiled=True),
            co.all_to_all_p.bind(a, axis_name="i", split_axis=1, concat_axis=0, axis_size=4),
            co.ppermute_p.bind(a, axis_name="i", perm=((0, 1), (1, 0), (2, 3))),
            lax.broadcast(co.axis_index_p.bind(axis_name="i"), (1,)),
            co.psum_p.bind(a, axes=("i",), axis_index_groups=((0, 3), (1, 2))),
            co.pbroadcast_p.bind(a, axis_name="i", source=2),
        ]

    outs = [P(), P(), P(), P(None, "i"), P(None, "i"), P("i"), P("i"), P("i"), P()]
    got = eval_ranks(traced(f, row), mesh, [P("i")], outs, [x])
    want = [x.sum(0, keepdims=True), x.max(0, keepdims=True), x, x.sum(0, keepdims=True), x, x[[1, 0, 3, 2]] * [[1], [1], [0], [1]], np.arange(4), x + x[[3, 2, 1, 0]], x[2:3]]  # fmt: skip
    for g, w in zip(got, want, strict=True):
        np.testing.assert_array_equal(g, w)


def test_ranks_that_take_different_ways_are_told_where() -> None:
    mesh = AbstractMesh((2,), ("i",))
    one = ShapedArray((1,), np.dtype("float32"))

    def diverging(a: Any) -> Any:
        total = lambda x: co.psum_p.bind(x, axes=("i",))  # noqa: E731
        largest = lambda x: co.pmax_p.bind(x, axes=("i",))  # noqa: E731
        return [lax.cond(a[0] > 0, total, largest, a)]

    closed = traced(diverging, one)
    with pytest.raises(RankError, match=r"rank \(i=0\) waits at psum .*rank \(i=1\) waits at pmax"):
        eval_ranks(closed, mesh, [P("i")], [P("i")], [np.array([1, -1], np.float32)])
    np.testing.assert_array_equal(eval_ranks(closed, mesh, [P("i")], [P()], [np.array([1, 2], np.float32)])[0], [3])

    def leaving(a: Any) -> Any:
        return [lax.cond(a[0] > 0, lambda x: co.psum_p.bind(x, axes=("i",)), lambda x: x, a)]

    with pytest.raises(RankError, match=r"rank \(i=0\) waits at psum .*rank \(i=1\) has ended"):
        eval_ranks(traced(leaving, one), mesh, [P("i")], [P("i")], [np.array([1, -1], np.float32)])


def test_results_that_should_be_equal_are_compared() -> None:
    mesh = AbstractMesh((2,), ("i",))
    closed = traced(lambda a: [a * 2], ShapedArray((1,), np.dtype("float32")))
    with pytest.raises(RankError, match=r"result 0 is P\(\), so the ranks \(i=0\) and \(i=1\) must hold equal values"):
        eval_ranks(closed, mesh, [P("i")], [P()], [np.array([1, 2], np.float32)])


def test_loops_may_take_as_many_turns_as_each_group_wants() -> None:
    mesh = AbstractMesh((2, 2), ("i", "j"))

    def f(a: Any) -> Any:
        def turn(c: Any) -> Any:
            return co.psum_p.bind(c, axes=("j",))

        return [lax.while_loop(lambda c: c[0, 0] < 10, turn, a)]

    x = np.array([[1, 1], [4, 4]], np.float32)
    got = eval_ranks(traced(f, ShapedArray((1, 1), np.dtype("float32"))), mesh, [P("i", "j")], [P("i")], [x])
    np.testing.assert_array_equal(got[0], [[16], [16]])
