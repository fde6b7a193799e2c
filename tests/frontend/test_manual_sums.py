"""Values that are unreduced or reduced along manual axes: the numbers and derivatives of the same function of whole arrays.

What JAX computes too is compared with it in `test_explicit_axes`; here is what it refuses, and what quire refuses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import quire
import quire.numpy as qnp
from quire import lax
from quire.backends.reference.ranks import eval_shard_map
from quire.ir.config import config
from quire.ir.errors import ShardingTypeError
from quire.ir.sharding import PartitionSpec as P

A = np.sin(np.arange(32, dtype=np.float32)).reshape(8, 4)
B = np.cos(np.arange(32, dtype=np.float32)).reshape(4, 8) / 2


@pytest.fixture(autouse=True, scope="module")
def mesh() -> Iterator[Any]:
    with config.override(num_cpu_devices=8):
        explicit = (quire.sharding.AxisType.Explicit,) * 2
        with quire.set_mesh(quire.make_mesh((4, 2), ("x", "y"), axis_types=explicit)):
            yield
    quire.clear_caches()


@quire.custom_vjp
def doubled(x: Any) -> Any:
    return 2 * x


doubled.defvjp(lambda x: (2 * x, x), lambda x, ct: (2 * ct,))

# Functions of an array that is the same on all devices.
SAME = {
    "elements": lambda w: qnp.sin(w) * w / (2 + w * w),
    "numbers": lambda w: 3 * w / 2 + qnp.sin(w) * qnp.sum(w) / 7,
    "shapes": lambda w: qnp.concatenate([w.T, qnp.flip(w.T, 0)])[1:5, ::2].reshape(-1),
    "product": lambda w: (w @ w.T) ** 2,
    "where": lambda w: qnp.where(w > 0, qnp.exp(w), w),
    "reductions": lambda w: qnp.cumsum(w, 1) * w.max(0),
    "sort": lambda w: qnp.sort(w, 0) * w,
    "gather": lambda w: w[qnp.array([2, 0, 2])] ** 2,
    "update": lambda w: qnp.sin(qnp.asarray(w).at[1].set(w[0])),
    "scan": lambda w: lax.scan(lambda c, _: (qnp.sin(c) * c, c * c), w, None, length=3)[0],
    "scan over rows": lambda w: lax.scan(lambda c, r: (c + qnp.sin(r), c * r), w[0], w)[1],
    "fori": lambda w: lax.fori_loop(0, 3, lambda i, c: qnp.sin(c) + c, w),
    "cond": lambda w: lax.cond(w.sum() > 0, qnp.sin, lambda w: w * w, w),
    "checkpoint": quire.checkpoint(lambda w: qnp.sin(qnp.sin(w)) * w),
    "custom_vjp": lambda w: doubled(w) * w,
    "vmap": quire.vmap(lambda r: qnp.sin(r) * r.sum()),
    "norm": lambda w: w / qnp.linalg.norm(w),
    "softmax": lambda w: quire.nn.softmax(w, axis=0) * w,
}
# Linear functions.
LINEAR: dict[str, Callable[[Any], Any]] = {
    "sum": lambda w: w + w - w[::-1],
    "scaled": lambda w: -w * 2 / 3,
    "shapes": lambda w: qnp.concatenate([w.T, qnp.flip(w.T, 0)])[1:5].reshape(-1),
    "reductions": lambda w: w.sum(0) + w.mean(0) + qnp.cumsum(w, 1)[0],
    "gather": lambda w: w[qnp.array([2, 0, 2])],
    "pad": lambda w: lax.pad(w, 0.0, [(1, 0, 0), (0, 0, 0)])[1:],
}


def put(x: Any, **spec: Any) -> Any:
    return quire.reshard(qnp.asarray(x), P(**spec))


def whole(tree: Any) -> list[np.ndarray]:
    return [np.asarray(quire.reshard(x, P())) for x in quire.tree.leaves(tree)]


def close(got: Any, want: Any) -> None:
    for g, w in zip(whole(got), whole(want), strict=True):
        np.testing.assert_allclose(g, w, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("name", SAME)
def test_reduced(name: str) -> None:
    f = SAME[name]
    mapped = quire.shard_map(f, in_specs=P(reduced={"x"}), out_specs=P(reduced={"x"}))
    used = quire.shard_map(lambda w, a: qnp.sum(f(w)) * a, in_specs=(P(reduced={"x"}), P("x")), out_specs=P("x"))
    w, a = put(B, reduced={"x"}), quire.reshard(qnp.asarray(A), P("x"))

    def compared(w: Any, a: Any) -> Any:
        loss = lambda g: lambda *args: (quire.reshard(g(*args), P()) ** 2).sum()  # noqa: E731
        grad = quire.grad(loss(mapped))(w)
        assert quire.typeof(grad).sharding.spec.unreduced == {"x"}
        return mapped(w), grad, quire.grad(loss(used), (0, 1))(w, a)

    loss = lambda g: lambda *args: (g(*args) ** 2).sum()  # noqa: E731
    want = f(B), quire.grad(loss(f))(B), quire.grad(loss(lambda w, a: qnp.sum(f(w)) * a), (0, 1))(B, A)
    close(quire.jit(compared)(w, a), want)


@pytest.mark.parametrize("name", LINEAR)
def test_unreduced(name: str) -> None:
    f = LINEAR[name]
    mapped = quire.shard_map(f, in_specs=P(unreduced={"x"}), out_specs=P(unreduced={"x"}))

    def compared(w: Any) -> Any:
        def loss(g: Any) -> Any:
            return lambda x: (qnp.sin(quire.reshard(g(x), P()))).sum()

        return mapped(w), quire.grad(loss(mapped))(w)

    def loss(x: Any) -> Any:
        return qnp.sin(f(x)).sum()

    close(quire.jit(compared)(put(B, unreduced={"x"})), (f(B), quire.grad(loss)(B)))


def test_each_device_for_itself() -> None:
    """The interpreter of ranks, which knows nothing of types."""

    def f(a: Any, w: Any) -> Any:
        z = lax.all_gather(a, "x", tiled=True, to="reduced")
        return (
            lax.psum_scatter(lax.pcast(a @ w, "x", to="unreduced"), "x", tiled=True),
            z,
            lax.all_gather(a, "x", to="invarying"),
        )

    a = A.repeat(2, 0)
    mapped = quire.shard_map(f, in_specs=(P("x"), P(reduced={"x"})), out_specs=(P("x"), P(reduced={"x"}), P()))
    (eqn,) = (e for e in quire.make_jaxpr(mapped)(a, put(B, reduced={"x"})).eqns if e.primitive.name == "shard_map")
    apart = a.reshape(4, 4, 4)
    want = (apart @ B).sum(0), a, apart
    close(eval_shard_map([a, B], **eqn.params), want)
    close(mapped(quire.reshard(qnp.asarray(a), P("x")), put(B, reduced={"x"})), want)


ROWS = P("x")


def test_infinities_are_unreduced_too() -> None:
    x = np.array([np.inf, -np.inf, 1, np.nan], np.float32)
    kept = quire.shard_map(lambda w: w, in_specs=P(unreduced={"x"}), out_specs=P(unreduced={"x"}))
    np.testing.assert_array_equal(whole(quire.jit(kept)(put(x, unreduced={"x"})))[0], x)


@pytest.mark.parametrize("check_vma", [True, False])
def test_groups_of_an_axis_of_which_types_speak(check_vma: bool) -> None:
    groups = [[0, 1], [2, 3]]

    def f(a: Any) -> Any:
        parts = lax.all_gather(a, "x", tiled=True, axis_index_groups=groups)
        return qnp.sin(lax.psum(a, "x", axis_index_groups=groups)) + lax.psum_scatter(
            parts, "x", tiled=True, axis_index_groups=groups
        )

    mapped = quire.shard_map(f, in_specs=P("x"), out_specs=P("x"), check_vma=check_vma)
    a = quire.reshard(qnp.asarray(A), P("x"))
    got = quire.jit(lambda a: (mapped(a), quire.grad(lambda a: (mapped(a) ** 2).sum())(a)))(a)

    def plain(a: Any) -> Any:
        pairs = a.reshape(2, 2, 2, 4)
        return (qnp.sin(qnp.broadcast_to(pairs.sum(1, keepdims=True), pairs.shape)) + 2 * pairs).reshape(8, 4)

    close(got, (plain(A), quire.grad(lambda a: (plain(a) ** 2).sum())(A)))


def body(f: Any, i: Any = ROWS, o: Any = ROWS, x: Any = A, **kw: Any) -> Any:
    return lambda: quire.shard_map(f, in_specs=i, out_specs=o, **kw)(x)


@pytest.mark.parametrize(
    ("f", "kind", "text"),
    [
        (body(lambda a: lax.pcast(a, "x", to="whole")), ValueError, r"to='varying', 'reduced' or 'unreduced', got 'whole'"),
        (body(lambda a: lax.pcast(a, {"x"}, to="varying")), TypeError, r"axis_name must be a tuple or a name, got \{'x'\}"),
        (body(lambda a: lax.pcast(a, "x", to="reduced")), ValueError,
         r"f32\[2,4\]\{V:x\} is varying along 'x' and cannot be cast to='reduced' there"),
        (body(lambda a: lax.pcast(a, ("x", "y"), to="unreduced")), ValueError,
         r"got \('x', 'y'\), along which f32\[2,4\]\{V:x\} is invarying and varying"),
        (body(lambda a: qnp.sin(lax.pcast(a, "x", to="unreduced")), o=P(unreduced={"x"})), NotImplementedError,
         r"unreduced rule for sin is not implemented: it is not linear"),
        (body(lambda a: lax.pcast(a, "x", to="unreduced") + a, o=P(unreduced={"x"})), ShardingTypeError,
         r"lhs is unreduced while rhs is not"),
        (body(lambda a: lax.pcast(a, "x", to="unreduced") @ a.T, o=P(unreduced={"x"})), ShardingTypeError,
         r"RHS should be reduced along the same axes LHS is unreduced on"),
        (body(lambda a: lax.all_gather(a, "x", to="reduced") * np.ones((4, 2, 4), "f"), o=P(reduced={"x"})), ShardingTypeError,
         r"Inputs cannot be replicated on the same axes that another input is reduced on"),
        *(
            (body(f, i=P(unreduced={"x"}), o=P(unreduced={"x"})), NotImplementedError, f"unreduced rule for {name} is not implemented")
            for name, f in {
                "pmax": lambda a: lax.pmax(a, "y"), "pmin": lambda a: lax.pmin(a, "y"), "scatter": lambda a: a.at[0].apply(qnp.sin),
                "reduce": lambda a: lax.reduce(a, np.float32(0), lambda x, y: qnp.hypot(x, y), (0,)),
                "reduce_window": lambda a: lax.reduce_window(a, np.float32(0), lambda x, y: qnp.hypot(x, y), (2, 2), (1, 1), "VALID"),
            }.items()
        ),
        (body(lambda a: lax.pmax(a, "x"), i=P(unreduced={"x"}), o=P()), ValueError,
         r"f32\[8,4\]\{U:x\} is unreduced along 'x' already: take the sum first, by lax.psum"),
        (body(lambda a: lax.psum(a, "x", axis_index_groups=[[0, 1], [2, 3]]), i=P(unreduced={"x"})), NotImplementedError,
         r"psum: f32\[8,4\]\{U:x\} is unreduced over \['x'\]: its sum is not one of axis_index_groups"),
        (body(lambda a: lax.all_gather(a, "x", to="here")), ValueError, r"to='varying', 'invarying' or 'reduced', got 'here'"),
        (body(lambda a: lax.all_gather(a, "x", to="reduced", axis_index_groups=[[0, 1], [2, 3]])), NotImplementedError,
         r"axis_index_groups and to='reduced' do not go together"),
        (body(lambda a: lax.all_gather(a, "x", tiled=True, to="reduced"), o=P()), ValueError,
         r"out_specs is P\(\), but f\(\*args\) is reduced over 'x'|is reduced over 'x', its type is f32\[8,4\]\{R:x\}"),
        (body(lambda a: lax.pcast(a, "x", to="unreduced"), o=P()), ValueError, r"is unreduced over 'x', its type is"),
        (body(lambda a: a, o=P("x", reduced={"y"})), ValueError, r"is not reduced over 'y'.*give lax.pcast\(x, \('y',\), to='reduced'\)"),
        (body(lambda a: a, o=P("x", unreduced={"y"})), ValueError, r"is the same along \['y'\].*an unreduced result varies or is"),
        (body(lambda a: a, i=P(unreduced={"x"}), o=P(unreduced={"x"}), axis_names={"x"}), NotImplementedError,
         r"unreduced can only be passed to in_specs when shard_map is in full manual mode"),
        (lambda: quire.shard_map(lambda a: a, mesh=quire.make_mesh((4,), ("x",), axis_types=(quire.sharding.AxisType.Auto,)),
                                 in_specs=P(unreduced={"x"}), out_specs=P(unreduced={"x"}))(A), ValueError,
         r"unreduced in in_specs can only be used when the mesh passed to shard_map contains axis names all of type `Explicit`"),
    ],
)  # fmt: skip
def test_refused(f: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        f()
