# ruff: noqa: E501 - tables
"""Programs with shard_map, to be run under quire and under JAX: `python -m tests.frontend.shard_map_cases FILE` writes JAX's results.

Each case takes the package, its numpy, its lax, PartitionSpec, and meshes x of 4, and (x, y) of 2 by 4 devices.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

A = np.sin(np.arange(128.0)).reshape(8, 16).astype(np.float32)
V = np.cos(np.arange(16.0)).astype(np.float32)
W = np.sin(np.arange(12.0) + 1).reshape(4, 3).astype(np.float32)
ROUND = [(0, 1), (1, 2), (2, 3), (3, 0)]


class Case:
    """The names that a case uses."""

    def __init__(self, q: Any, n: Any, l: Any, P: Any, mesh: Any, grid: Any) -> None:
        self.q, self.n, self.l, self.P, self.mesh, self.grid = q, n, l, P, mesh, grid

    def map(self, f: Any, i: Any, o: Any, mesh: Any = None, **kw: Any) -> Any:
        return self.q.shard_map(f, mesh=mesh or self.mesh, in_specs=i, out_specs=o, **kw)


def _matmul(c: Any, check: bool) -> Any:
    P, l = c.P, c.l
    f = c.map(lambda a, b: l.psum(a @ b, "y"), (P("x", "y"), P("y", None)), P("x", None), c.grid, check_vma=check)
    b = A.T[:, :6]
    return f(A, b), c.q.grad(lambda a, b: (f(a, b) ** 2).sum(), (0, 1))(A, b)


def _halo(c: Any, check: bool) -> Any:
    l, n, P = c.l, c.n, c.P

    def step(u: Any) -> Any:
        left = l.ppermute(u[-1:], "x", ROUND)
        right = l.ppermute(u[:1], "x", [(b, a) for a, b in ROUND])
        v = n.concatenate([left, u, right])
        return u + 0.1 * (v[:-2] - 2 * v[1:-1] + v[2:])

    f = c.map(lambda u: l.scan(lambda u, _: (step(u), u.sum()), u, None, length=3)[0], P("x"), P("x"), check_vma=check)
    return f(V), c.q.grad(lambda u: (f(u) ** 3).sum())(V)


def _mlp(c: Any, check: bool) -> Any:
    P, l, n, q = c.P, c.l, c.n, c.q

    def loss(w: Any, x: Any) -> Any:
        return l.pmean((n.tanh(x @ w) ** 2).mean(), "x")

    f = c.map(loss, (P(), P("x")), P(), check_vma=check)
    inside = c.map(q.grad(loss), (P(), P("x")), P("x"), check_vma=check)
    x = A.reshape(32, 4)
    return f(W, x), q.grad(f)(W, x), q.jit(q.grad(f, 1))(W, x), inside(W, x)


def _inner_gradients(c: Any, check: bool) -> Any:
    P, l, q = c.P, c.l, c.q
    g = c.map(lambda w, x: q.grad(lambda w: (w * x).sum())(w)[None], (P(), P("x")), P("x"), check_vma=check)
    h = c.map(lambda w, x: q.grad(lambda x: l.psum((w * x * x).sum(), "x"))(x), (P(), P("x")), P("x"), check_vma=check)
    k = c.map(
        lambda w, x: q.grad(lambda x: (l.all_gather(x, "x") * w).sum())(x), (P(), P("x")), P("x"), check_vma=check
    )
    return g(np.float32(2), V), h(np.float32(2), V), k(np.float32(2), V)


def _collectives(c: Any, check: bool) -> Any:
    P, l, n = c.P, c.l, c.n

    def f(a: Any) -> Any:
        i = l.axis_index(("x", "y"))
        return (
            l.psum(a, "x"), l.pmean(a, ("x", "y")), l.all_gather(a, "y"), l.all_gather(a, ("x", "y"), tiled=True)[None] * (i + 1),
            l.psum_scatter(a, "y", scatter_dimension=1, tiled=True), l.all_to_all(a, "x", 1, 0, tiled=True),
            l.ppermute(a, ("x", "y"), [(j, (3 * j + 1) % 8) for j in range(8)]), i[None, None], l.pmean(a.sum(), ("x", "y")),
        )  # fmt: skip

    specs = (
        P(None, "y"),
        P(),
        P(None, "x", "y"),
        P("x", None, "y"),
        P("x", "y"),
        P("x", "y"),
        P("x", "y"),
        P("x", "y"),
        P(),
    )
    g = c.map(f, P("x", "y"), specs, c.grid, check_vma=check)
    extrema = c.map(
        lambda a: (l.pmax(a, ("x", "y")), l.pmin(a, "x")), P("x", "y"), (P(), P(None, "y")), c.grid, check_vma=check
    )
    return (
        g(A),
        extrema(A),
        c.q.grad(lambda a: sum((n.sin(y) * 0.1).sum() for y in (lambda o: (o[0], *o[2:7], o[8]))(g(a))))(A),
    )


def _control(c: Any, check: bool) -> Any:
    P, l, n = c.P, c.l, c.n

    def f(x: Any) -> Any:
        y = l.cond(l.axis_index("x") > 1, lambda v: v * 2, lambda v: n.sin(v), x)
        total = l.psum(x.sum(), "x")
        z = l.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] + l.psum(s[1], "x")), (0, total))[1]
        k = l.fori_loop(
            0, 3, lambda i, v: v + l.pcast(l.psum(v, "x"), "x", to="varying") if check else v + l.psum(v, "x"), x
        )
        return y, z, k

    return c.map(f, P("x"), (P("x"), P(), P("x")), check_vma=check)(V)


def _trees(c: Any, check: bool) -> Any:
    P, l = c.P, c.l
    outside = c.n.asarray(V)
    f = c.map(
        lambda d, s: {"sum": l.psum(d["a"], "y") * s, "same": (d["b"] + outside[:4], d["a"])},
        ({"a": P("x", "y"), "b": P()}, P()), {"sum": P("x"), "same": (P(), P("x", "y"))}, c.grid, check_vma=check,
    )  # fmt: skip
    return f({"a": A, "b": V[:4]}, 2.0)


def _transformed(c: Any, check: bool) -> Any:
    P, l, q = c.P, c.l, c.q
    f = c.map(lambda a, w: l.psum(a * w, "x") + a, (P("x"), P()), P("x"), check_vma=check)
    v, s = c.n.asarray(V), c.n.asarray(V[:4])
    batch = c.n.stack([v, v * 2, v - 1])
    return (
        q.vmap(f, (0, None))(batch, 3.0), q.vmap(f, (1, 0), 1)(batch.T, s[:3]), q.jvp(f, (v, s), (v * v, v[4:8])),
        q.linearize(f, v, s)[1](v, s), q.jit(q.vjp(f, v, s)[1])(v), q.jacrev(f, 1)(v, s),
        # JAX cannot take a named axis of vmap into a function that is checked.
        () if check else q.vmap(c.map(lambda a: l.psum(a, ("x", "b")), P("x"), P(), check_vma=False), axis_name="b")(batch),
        q.grad(lambda v: q.lax.scan(lambda s, _: (f(s, v[:4]), None), v, None, length=2)[0].sum())(v),
    )  # fmt: skip


def _pmap(c: Any, check: bool) -> Any:
    l, q = c.l, c.q
    a = c.n.asarray(A[:4])
    f = q.pmap(lambda x, s: (x / l.psum(x * x, "i"), l.axis_index("i") * s), axis_name="i", in_axes=(0, None))
    g = q.pmap(
        lambda d, k, n: {"o": d["a"] * k + n, "p": d["b"]},
        in_axes=(0, 0, None),
        out_axes={"o": 1, "p": 0},
        static_broadcasted_argnums=2,
    )
    h = q.pmap(lambda x: l.psum(x, "i", axis_index_groups=[[0, 1], [2, 3]]), "i")
    w = q.pmap(q.grad(lambda x: l.psum((x * x).sum(), "i")), "i")
    return (
        f(a, 2.0), g({"a": a, "b": a}, c.n.arange(4.0), 3), h(a), w(a), q.jit(f)(a, 3.0),
        q.grad(lambda x: (f(x, 1.0)[0] ** 2).sum())(a), q.pmap(lambda x, y=None: x * y)(a, y=a),
        q.pmap(lambda x: l.pmean(x, "i"), "i", out_axes=None, in_axes=1)(a[:, :4]),
    )  # fmt: skip


def _partial(c: Any, check: bool) -> Any:
    P, l, q = c.P, c.l, c.q
    f = c.map(lambda a: l.psum(a, "x") * 2, P("x"), P(), c.grid, axis_names={"x"}, check_vma=check)
    return q.jit(f)(A)


CASES = {
    f"{name[1:]} {'checked' if check else 'unchecked'}": (f, check)
    for name, f in list(globals().items()) if name[:1] == "_" and name[1:2] != "_" and callable(f)
    for check in (True, False)
}  # fmt: skip

# Mistakes, and words that both messages hold.
MISTAKES: dict[str, tuple[Any, str]] = {
    "indivisible": (lambda c: c.map(lambda x: x, c.P("x"), c.P("x"))(V[:6]), "does not evenly divide 6"),
    "rank": (lambda c: c.map(lambda x: x, c.P("x", None), c.P("x"))(V), "too long to be compatible"),
    "rank of result": (lambda c: c.map(lambda x: x.sum(), c.P("x"), c.P("x"))(V), "too long to be compatible"),
    "replication": (lambda c: c.map(lambda x: x, c.P("x"), c.P())(V), "require replication which can't be statically inferred"),
    "unknown axis": (lambda c: c.map(lambda x: x, c.P("z"), c.P())(V), "refers to 'z'"),
    "no spec": (lambda c: c.map(lambda x: x, "x", c.P())(V), "must be a pytree of"),
    "axis_names": (lambda c: c.map(lambda x: x, c.P(), c.P(), axis_names={"z"})(V), "to be a subset of"),
    "axis_names list": (lambda c: c.map(lambda x: x, c.P(), c.P(), axis_names=["x"])(V), "should be of type `frozenset`"),
    "no mesh": (lambda c: c.q.shard_map(lambda x: x, in_specs=c.P(), out_specs=c.P())(V), "The context mesh cannot be empty"),
    "prefix": (lambda c: c.map(lambda x: x, (c.P(), c.P()), c.P())(V), "in_specs"),
}  # fmt: skip


def flat(tree: Any) -> list[np.ndarray[Any, Any]]:
    """The arrays of nested tuples, lists and dicts."""
    if isinstance(tree, dict):
        return [x for k in sorted(tree) for x in flat(tree[k])]
    return [x for t in tree for x in flat(t)] if isinstance(tree, tuple | list) else [np.asarray(tree)]


def main(file: str) -> None:
    import pickle

    import jax

    devices = np.array(jax.devices())
    c = Case(
        jax, jax.numpy, jax.lax, jax.sharding.PartitionSpec, jax.sharding.Mesh(devices[:4], ("x",)),
        jax.sharding.Mesh(devices.reshape(2, 4), ("x", "y")),
    )  # fmt: skip
    found: dict[str, Any] = {}
    for name, (f, check) in CASES.items():
        try:
            found[name] = flat(f(c, check))
        except Exception as error:  # the test of the case shows it
            found[name] = f"{type(error).__name__}: {error}"
    for name, (f, _) in MISTAKES.items():
        try:
            f(c)
        except Exception as error:
            found[name] = (type(error).__name__, str(error))
    with open(file, "wb") as out:
        pickle.dump(found, out)


if __name__ == "__main__":
    main(sys.argv[1])
