"""Programs over several devices with their expected values: what every way of running them is tested with.

Each takes a mesh with the axes x (2) and y (2), and gives arrays; the expected values are NumPy's, or those of one device.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import quire
import quire.numpy as qnp
from quire import lax
from quire.sharding import Mesh, NamedSharding
from quire.sharding import PartitionSpec as P

Program = Callable[[Mesh], tuple[Any, Any]]
"""Gives results (a pytree of arrays) and what they must be."""

X = np.arange(32, dtype=np.float32).reshape(8, 4) / 7 - 1
W = np.cos(np.arange(16, dtype=np.float32).reshape(4, 4))


def mapped(mesh: Mesh, in_specs: Any, out_specs: Any, check_vma: bool = True) -> Any:
    return lambda f: quire.jit(
        quire.shard_map(f, mesh=mesh, in_specs=in_specs, out_specs=out_specs, check_vma=check_vma)
    )


def reductions(mesh: Mesh) -> Any:
    @mapped(mesh, P("x", "y"), (P(None, "y"), P("x"), P(), P("y")))
    def f(a):
        return lax.psum(a, "x"), lax.pmax(a, "y"), lax.pmin(a.min(), ("x", "y")), lax.pmean(a, "x")[:2]

    halves = X.reshape(2, 4, 4)
    parts = X.reshape(2, 4, 2, 2)
    return f(quire.device_put(X, NamedSharding(mesh, P("x", "y")))), (
        halves.sum(0), parts.max(2).reshape(8, 2), X.min(), np.concatenate(np.split(halves.mean(0)[:2], 2, 1)),
    )  # fmt: skip


def gathers(mesh: Mesh) -> Any:
    @mapped(mesh, P("x", "y"), (P("x"), P("x", "y"), P(None, "x")), check_vma=False)
    def f(a):
        whole = lax.all_gather(a, "y", axis=1, tiled=True)
        exchanged = lax.all_to_all(a, "y", 0, 1, tiled=True)
        both = lax.all_gather(a, ("x", "y")).sum((0, 1))
        return whole, lax.all_to_all(exchanged, "y", 1, 0, tiled=True), both[None]

    total = X.reshape(2, 4, 2, 2).sum((0, 1, 2))
    return f(X), (X, X, np.concatenate([total[None]] * 2, 1))


def permutations(mesh: Mesh) -> Any:
    @mapped(mesh, P(("x", "y")), (P(("x", "y")), P(("x", "y"))))
    def f(a):
        ring = lax.ppermute(a, ("x", "y"), [(i, (i + 1) % 4) for i in range(4)])
        along = lax.ppermute(a, "x", [(0, 1)])
        return ring, along

    blocks = X.reshape(4, 2, 4)
    along = np.zeros_like(blocks)
    along[2:] = blocks[:2]
    return f(X), (np.roll(blocks, 1, 0).reshape(8, 4), along.reshape(8, 4))


def scatters(mesh: Mesh) -> Any:
    @mapped(mesh, P("x"), (P("x"), P("x", "y")))
    def f(a):
        return lax.psum_scatter(a, "x", scatter_dimension=0, tiled=True), a[:, lax.axis_index("y") * 2][:, None] * 1.0

    return f(X), (X.reshape(2, 4, 4).sum(0), X[:, ::2])


def indices(mesh: Mesh) -> Any:
    @mapped(mesh, P("x", "y"), P("x", "y"))
    def f(a):
        return a * 0 + lax.axis_index("x") * 10 + lax.axis_index("y") + lax.axis_index(("x", "y")) * 100

    rows = np.repeat(np.arange(2.0), 4)[:, None] * 210
    return f(X), rows + np.repeat(np.arange(2.0), 2)[None] * 101


def loops(mesh: Mesh) -> Any:
    @mapped(mesh, P("x"), (P("x"), P()))
    def f(a):
        def turn(c, _):
            total = lax.psum(c.sum(), "x")
            return c * 0.5 + total / 64 + lax.axis_index("x"), total

        c, totals = lax.scan(turn, a, None, length=3)
        _, d = lax.while_loop(lambda s: s[0] < 2, lambda s: (s[0] + 1, s[1] + lax.pmax(s[1], "x")), (0, c.max()))
        return c + lax.cond(totals[0] > 0, lambda: 1.0, lambda: -1.0), lax.pmax(d, "x")

    c = X.copy()
    totals = []
    for _ in range(3):
        totals.append(c.sum())
        c = c * 0.5 + totals[-1] / 64 + np.repeat([0.0, 1.0], 4)[:, None]
    return f(X), (c + (1.0 if totals[0] > 0 else -1.0), _doubled(c))


def _doubled(c: Any) -> Any:
    d = c.reshape(2, -1).max(1)
    for _ in range(2):
        d = d + d.max()
    return d.max()


def automatic(mesh: Mesh) -> Any:
    """A step of training, divided by the partitioner."""

    def loss(w, a):
        return qnp.mean(qnp.tanh(a @ w) ** 2)

    step = quire.jit(
        quire.value_and_grad(loss),
        in_shardings=(NamedSharding(mesh, P(None, "y")), NamedSharding(mesh, P("x"))),
        out_shardings=(None, NamedSharding(mesh, P(None, "y"))),
    )
    return step(W, X), quire.jit(quire.value_and_grad(loss))(W, X)


def moved(mesh: Mesh) -> Any:
    a = quire.device_put(X, NamedSharding(mesh, P("x", "y")))
    b = quire.device_put(a, NamedSharding(mesh, P("y", "x")))
    c = quire.device_put(b, NamedSharding(mesh, P(None, ("x",))))
    return (a, b, c, quire.device_put(c, NamedSharding(mesh, P()))), (X,) * 4


def eager(mesh: Mesh) -> Any:
    a = quire.device_put(X, NamedSharding(mesh, P("x", "y")))
    total = a.sum(0)
    return (a + 1, total, a[1], qnp.sort(a, 0), a @ W, a.T, -a[::-1]), (
        X + 1, X.sum(0), X[1], np.sort(X, 0), X @ W, X.T, -X[::-1],
    )  # fmt: skip


def dtypes(mesh: Mesh) -> Any:
    @mapped(mesh, P("x"), (P(),) * 6)
    def f(a):
        kinds = (qnp.int8, qnp.uint32, qnp.bfloat16, qnp.float16, qnp.complex64)
        sums = tuple(lax.psum(qnp.round(a * 7).astype(k), "x")[0].real.astype(qnp.float32) for k in kinds)
        return (*sums, lax.pmax(a > 0, "x")[1])

    found = f(X[:2] + 1.1)
    whole = np.round((X[:2] + np.float32(1.1)) * np.float32(7)).sum(0)
    return found[:5], (whole,) * 5


def nans(mesh: Mesh) -> Any:
    a = X.copy()
    a[0, 0] = np.nan
    return mapped(mesh, P("x"), P())(lambda v: lax.pmax(v, "x"))(a), a.reshape(2, 4, 4).max(0)


def groups(mesh: Mesh) -> Any:
    line = Mesh(mesh.devices.reshape(4), "z")

    @mapped(line, P("z"), (P("z"),) * 3, check_vma=False)
    def f(a):
        pairs = [[3, 0], [1, 2]]
        return (
            lax.psum(a, "z", axis_index_groups=pairs),
            lax.all_gather(a, "z", axis_index_groups=pairs, tiled=True)[:2],
            lax.pbroadcast(a, "z", 2) if hasattr(lax, "pbroadcast") else a,
        )

    b = X.reshape(4, 2, 4)
    other = np.concatenate
    source = b[2] if hasattr(lax, "pbroadcast") else None
    return f(X), (
        other([b[0] + b[3], b[1] + b[2], b[1] + b[2], b[0] + b[3]]), other([b[3], b[1], b[1], b[3]]),
        X if source is None else other([source] * 4),
    )  # fmt: skip


def partial(mesh: Mesh) -> Any:
    """One axis is the function's, the other one the partitioner's."""

    def f(a):
        return lax.with_sharding_constraint(a * lax.psum(a.sum(), "x"), P(None, "y"))

    g = quire.jit(quire.shard_map(f, mesh=mesh, in_specs=P("x"), out_specs=P("x"), axis_names={"x"}))
    return g(quire.device_put(X, NamedSharding(mesh, P("x", "y")))), X * X.sum()


def transposed_loop(mesh: Mesh) -> Any:
    """The derivative of a loop whose turns ask where the device is."""

    def local(a):
        def turn(c, x):
            return qnp.sin(c + x) * (lax.axis_index("x") + 1), c.sum()

        c, sums = lax.scan(turn, a, qnp.arange(3.0))
        return lax.psum(c.sum() + sums.sum(), "x")

    def whole(a):
        c, total, scale = a, 0.0, np.repeat([1.0, 2.0], 4).astype(np.float32)[:, None]
        for x in range(3):
            total = total + c.sum()
            c = qnp.sin(c + x) * scale
        return c.sum() + total

    f = quire.shard_map(local, mesh=mesh, in_specs=P("x"), out_specs=P())
    return quire.jit(quire.value_and_grad(f))(X), quire.jit(quire.value_and_grad(whole))(X)


def random_bits(mesh: Mesh) -> Any:
    f = quire.jit(
        lambda: quire.random.normal(quire.random.key(3), (8, 4)), out_shardings=NamedSharding(mesh, P("x", "y"))
    )
    return f(), quire.random.normal(quire.random.key(3), (8, 4))


def made(mesh: Mesh) -> Any:
    sharding = NamedSharding(mesh, P("x", "y"))
    a = quire.make_array_from_callback((8, 4), sharding, lambda index: X[index])
    parts = [quire.device_put(X[index], d) for d, index in sharding.addressable_devices_indices_map((8, 4)).items()]
    return (a, quire.make_array_from_single_device_arrays((8, 4), sharding, parts)), (X, X)


def donated(mesh: Mesh) -> Any:
    a = quire.device_put(X, NamedSharding(mesh, P("x")))
    f = quire.jit(lambda v: v + 1, donate_argnums=0)
    b = f(a)
    assert a.is_deleted()
    c = quire.jit(lambda v: (v, v * 2))(b)
    return (b, c), (X + 1, (X + 1, (X + 1) * 2))


PROGRAMS: tuple[Program, ...] = (
    reductions, gathers, permutations, scatters, indices, loops, automatic, moved, eager, dtypes, nans, groups, partial, transposed_loop, random_bits, made,
    donated,
)  # fmt: skip
