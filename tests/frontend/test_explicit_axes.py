"""Types along mesh axes of type Explicit, and what is refused there, against JAX's: one process for all expressions."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Generator
from typing import Any

import numpy as np
import pytest

import quire
from quire.ir.config import config

SETUP = """
P = jax.sharding.PartitionSpec
A = np.arange(32, dtype=np.float32).reshape(8, 4)
B = np.arange(32, dtype=np.float32).reshape(4, 8) / 7
a, ax, ay, rep = (jax.device_put(A, s) for s in (P("x", "y"), P("x"), P(None, "y"), P()))
bn, by = jax.device_put(B, P(None, "y")), jax.device_put(B, P("y", None))
v = jax.device_put(np.arange(8, dtype=np.float32), P("x"))
T = jax.device_put(np.arange(64, dtype=np.float32).reshape(2, 8, 4), P(None, "x", "y"))

def types(f, *args):
    out = []
    def g(*xs):
        results = jax.tree.leaves(f(*xs))
        out.extend([[list(np.shape(z)), str(tuple(jax.typeof(z).sharding.spec))] for z in results])
        return results
    values = [[np.real(z).tolist(), np.imag(z).tolist()] for z in map(np.asarray, jax.jit(g)(*args))]
    return out, values

def seen(f, *args):  # the types that values have within
    out = []
    def note(*xs):
        out.append([str(jax.typeof(x)) for x in xs])
    values = [np.asarray(z).tolist() for z in jax.tree.leaves(f(note)(*args))]
    return out, values

@jax.custom_jvp
def halved(x):
    return x / 2
halved.defjvp(lambda xs, ts: (halved(xs[0]), ts[0] / 2))

@jax.custom_vjp
def thrice(x):
    return 3 * x
thrice.defvjp(lambda x: (3 * x, x), lambda x, ct: (3 * ct,))

@jax.custom_vjp
def summed(a, w):
    return a @ w
summed.defvjp(lambda a, w: (a @ w, (a, w)), lambda r, g: (g @ r[1].T, jnp.dot(r[0].T, g, out_sharding=P(unreduced={"x"}))))

sums = lambda f, i, o, *xs: seen(lambda note: lambda *xs: (  # value and gradients of a function of parts, what is unreduced summed
    lambda g: [jax.sharding.reshard(z, P()) for z in (
        jax.jit(g)(*xs), *jax.jit(jax.grad(lambda *xs: (jax.sharding.reshard(g(*xs), P()) ** 2).sum(), tuple(range(len(xs)))))(*xs))]
    )(jax.shard_map(lambda *ps: f(note, *ps), in_specs=i, out_specs=o)), *xs)
wr, wu = jax.device_put(B, P(reduced={"x"})), jax.sharding.reshard(jnp.array(B), P(unreduced={"x"}))
part = jax.device_put(B, P("y", None, reduced={"x"}))

types_ = (jax.sharding.AxisType.Explicit, jax.sharding.AxisType.Auto, jax.sharding.AxisType.Explicit)
mesh3 = jax.make_mesh((2, 2, 2), ("e", "u", "f"), axis_types=types_)
constrained = lax.with_sharding_constraint
partly = lambda f, o=P(): lambda note: jax.jit(jax.shard_map(lambda p: (note(p, *jax.tree.leaves(f(p))), f(p))[1], in_specs=P("x"), out_specs=o, axis_names={"x"}))
keys = jax.device_put(jax.random.split(jax.random.key(0), 8), P("x"))

def mixed(spec):  # a constraint of one axis of type Auto beside explicit ones
    out = []
    with jax.set_mesh(mesh3):
        z = jax.sharding.reshard(jnp.array(A), P("e", "f"))
        def f(z):
            y = constrained(z * 2, spec)
            out.append(str(jax.typeof(y)))
            return y
        return out, [np.asarray(y).tolist() for y in (jax.jit(f)(z), jax.jit(jax.grad(lambda z: (f(z) ** 2).sum()))(z))]

def shardings(f, *args):  # of results outside of a compiled function
    return [str(z.sharding.spec) for z in jax.tree.leaves(f(*args))], []

def outcome(expression):
    try:
        return eval(expression if expression.startswith(("seen(", "shardings(", "sums(", "mixed(")) else f"types({expression})")
    except Exception as error:
        return [type(error).__name__, str(error).splitlines()[0]]
"""

# What each operation's result is divided along.
TYPES = """
lambda a: a + a, a
lambda a, b: a + b, a, rep
lambda a: a * 2 + 1, a
lambda a, b: a + b, ax, ay
lambda a, b: a + b[:, None], ax, v
jnp.sin, a
lambda a: jnp.where(a > 1, a, 0.), a
jnp.sum, a
lambda a: a.sum(0), a
lambda a: a.sum(1), a
lambda a: a.sum(1, keepdims=True), a
lambda a: a.max(0), a
lambda a: a.argmax(1), a
lambda a: a.mean(0), a
lambda a: a.var(0), a
lambda a: jnp.cumsum(a, 0), ay
lambda a: jnp.sort(a, 1), ax
lambda a: a.T, a
lambda a: a.reshape(32), rep
lambda a: a.reshape(4, 2, 4), ax
lambda a: a.reshape(32), ax
lambda a: jnp.reshape(a, (32,), out_sharding=P("x")), ay
lambda a: a[:, None], a
lambda a: a.reshape(8, 1, 4).squeeze(1), a
lambda a: jnp.broadcast_to(a, (3, 8, 4)), a
lambda a: jnp.broadcast_to(a, (8, 8, 4), out_sharding=P("x", None, None)), rep
lambda a, b: a @ b, ax, bn
lambda a, b: a @ b, ay, rep.T
lambda a, b: jnp.dot(a, b, out_sharding=P("x", None)), ay, by
lambda a, b: jnp.einsum("ij,jk->ik", a, b), ax, bn
lambda a, b: jnp.einsum("ij,jk->ik", a, b, out_sharding=P("x", None)), ay, by
lambda t: jnp.einsum("bij,bkj->bik", t, t), jax.device_put(T, P("y"))
lambda a: jnp.concatenate([a, a], 1), ax
lambda a: jnp.concatenate([a, a], 0), ax
lambda a: jnp.stack([a, a]), a
lambda a: a[:, :2], ax
lambda a: a[:4], ax
lambda a: a[:, 0], ax
lambda a: lax.dynamic_slice(a, (0, 1), (8, 2)), ax
lambda a: lax.dynamic_slice(a, (1, 0), (4, 4)), ax
lambda a: lax.dynamic_update_slice(a, a[:, :2], (0, 1)), ax
lambda a: jnp.pad(a, ((0, 0), (1, 1))), ax
lambda a: jnp.pad(a, ((4, 4), (0, 0))), ax
lambda a: a[::-1], ay
lambda a: jnp.flip(a, 0), ax
lambda a: a[jnp.array([0, 1, 2])], ay
lambda a: a.at[jnp.array([0, 1, 2, 3])].get(out_sharding=P("x")), ax
lambda a: a.at[0].set(1.), ay
lambda: jnp.arange(8)
lambda: jnp.zeros((8, 4))
lambda: jnp.zeros((8, 4), out_sharding=P("x", "y"))
lambda k: jax.random.normal(k, (8, 4)), jax.random.key(0)
lambda k: jax.random.normal(k, (8, 4), out_sharding=P("x", "y")), jax.random.key(0)
lambda k: jax.random.uniform(k, (8, 4), out_sharding=P("x")), jax.random.key(0)
lambda a: jax.nn.softmax(a, 1), ax
jax.nn.relu, a
lambda v: jax.nn.one_hot(v.astype(int), 4), v
lambda a: a.astype(jnp.int32), a
lambda a: jnp.tile(a, (1, 2)), ax
lambda a: jnp.repeat(a, 2, 1), ax
lambda t: jnp.moveaxis(t, 0, 2), T
lambda t: jnp.swapaxes(t, 0, 1), T
lambda a: a.ravel(), a
lambda a: jax.vmap(lambda r: r * 2)(a), ax
lambda a: jax.vmap(lambda r: r.sum())(a), a
jax.grad(lambda a: (a * a).sum()), a
lambda a: lax.scan(lambda c, x: (c * 2, c), a, None, length=2), a
lambda a: lax.scan(lambda c, x: (c, x * 2), 0., a), ay
lambda a: lax.while_loop(lambda a: a.sum() < 1e5, lambda a: a * 2, a), a
lambda a: lax.cond(a.sum() > 0, lambda a: a, lambda a: -a, a), a
lambda a: jax.sharding.reshard(a, P("y", "x")), a
lambda a: jax.sharding.reshard(a, P()), a
lambda a, b: jax.sharding.auto_axes(lambda a, b: a + b, out_sharding=P("x", "y"))(a, b), ax, ay
jax.sharding.auto_axes(lambda a: a[:3], out_sharding=P(None, "y")), a
lambda a: a + 1, A
lambda x, w: lax.conv_general_dilated(x, w, (1,), "SAME"), jax.device_put(np.ones((8, 2, 16), np.float32), P("x")), np.ones((3, 2, 3), np.float32)
lambda a: lax.top_k(a, 2), ax
lambda a: jnp.fft.fft(a), ax
lambda a: jnp.clip(a, 0, 1), a
lambda a: jnp.linalg.norm(a), a
lambda a: jnp.fft.fft(a, axis=0), ax
lambda a: jax.vmap(lambda r: jnp.hstack([jnp.zeros(2), r]))(a), ax
lambda a: jax.vmap(lambda r: lax.dynamic_update_slice(jnp.zeros(9), r, (1,)))(a), ax
lambda a: jax.vmap(lambda r: jnp.zeros(9).at[1].set(r[0]))(a), ax
lambda a: jax.vmap(lambda r: jnp.zeros(9).at[jnp.array([1, 2])].add(r[0]))(a), ax
lambda v: jax.vmap(lambda i: jnp.array([0, i, 1]))(v), v
lambda v: jax.vmap(lambda i: jax.random.normal(jax.random.fold_in(jax.random.key(0), i), (3,)))(v), v.astype(int)
lambda v: jax.vmap(jax.random.PRNGKey)(v), v.astype(int)
lambda a: constrained(a, P("x")), ax
lambda a, i: jnp.take_along_axis(a, i, 1), ax, jax.device_put(np.zeros((8, 1), np.int32), P("x"))
"""

# What values are within loops, branches, derivatives, nested functions and the like, and where results lie.
WITHIN = """
seen(lambda note: jax.jit(lambda a: lax.scan(lambda c, _: (note(c, c.sum(0)), (c * 2, c.sum(0)))[1], a, None, length=2)), a)
seen(lambda note: jax.jit(lambda a, x: lax.scan(lambda c, r: (note(c, r), (c + r, r * 2))[1], a, x)), v, jax.device_put(A.T, P(None, "x")))
seen(lambda note: jax.jit(lambda a: lax.while_loop(lambda c: (note(c), c.sum() < 1e4)[1], lambda c: (note(c), c * 2)[1], a)), a)
seen(lambda note: jax.jit(lambda a: lax.fori_loop(0, 3, lambda i, c: (note(c), c + i)[1], a)), ax)
seen(lambda note: jax.jit(lambda a: lax.cond(a.sum() > 0, lambda a: (note(a), a.T)[1], lambda a: (note(a), -a.T)[1], a)), a)
seen(lambda note: jax.jit(lambda a: lax.switch(1, [lambda a: a, lambda a: (note(a), a * 2)[1]], a)), a)
seen(lambda note: jax.jit(lambda a: jax.jit(lambda b: (note(b), b.sum(1))[1])(jnp.sin(a))), a)
seen(lambda note: jax.jit(jax.grad(lambda a: (note(a, a.sum(0)), (a * a).sum())[1])), a)
seen(lambda note: jax.jit(lambda a: (lambda out, pull: (note(out), note(*pull(out)), out)[2])(*jax.vjp(lambda a: a.sum(0), a))), a)
seen(lambda note: jax.jit(lambda a: (lambda y, t: (note(y, t), y)[1])(*jax.jvp(lambda a: jnp.sin(a).sum(1), (a,), (a,)))), a)
seen(lambda note: jax.jit(lambda a: (lambda y, f: (note(y, f(a)), y)[1])(*jax.linearize(lambda a: (a * a).sum(1), a))), a)
seen(lambda note: jax.jit(jax.vmap(lambda r: (note(r, r.sum()), r * 2)[1])), a)
seen(lambda note: jax.jit(jax.vmap(lambda r: (note(r), r.sum())[1], in_axes=1, out_axes=0)), a)
seen(lambda note: jax.jit(jax.vmap(jax.vmap(lambda r: (note(r), r + 1)[1]))), T)
seen(lambda note: jax.jit(jax.checkpoint(lambda a: (note(a), jnp.sin(a))[1])), a)
seen(lambda note: jax.jit(lambda a: (note(halved(a)), halved(a))[1]), a)
seen(lambda note: jax.jit(lambda a: (note(thrice(a)), thrice(a))[1]), a)
seen(lambda note: jax.jit(lambda a: (note(jax.grad(lambda a: thrice(a).sum())(a)), a)[1]), a)
seen(lambda note: jax.jit(lambda a: (note(jax.grad(lambda a: halved(a).sum())(a)), a)[1]), a)
seen(lambda note: jax.jit(lambda a: (note(jnp.zeros_like(a), jnp.ones_like(a), jnp.full_like(a, 2), lax.full_like(a, 2)), a)[1]), a)
seen(lambda note: jax.jit(lambda a: (note(jnp.zeros_like(a, shape=(3,)), jnp.empty_like(a)), a)[1]), a)
seen(lambda note: jax.jit(lambda a: (note(jax.sharding.reshard(a, P("y"))), a)[1]), a)
seen(lambda note: jax.jit(lambda a: lax.scan(lambda c, _: (note(d := jax.sharding.reshard(c, P())), (jax.sharding.reshard(d * 2, P("x", "y")), None))[1], a, None, length=2)[0]), a)
seen(lambda note: jax.jit(jax.grad(lambda a: (note(b := jax.sharding.reshard(a, P(None, "y"))), (b * b).sum())[1])), ax)
seen(lambda note: jax.jit(jax.sharding.auto_axes(lambda a: (note(a, a @ a.T), a @ a.T)[1], out_sharding=P("x"))), a)
seen(lambda note: jax.jit(jax.grad(lambda a: jax.sharding.auto_axes(lambda a: a @ a.T, out_sharding=P("x"))(a).sum())), a)
seen(lambda note: jax.jit(lambda a: lax.scan(lambda c, _: (jax.sharding.auto_axes(lambda c: c[::-1] * 2, out_sharding=P("x", "y"))(c), None), a, None, length=2)[0]), a)
seen(lambda note: jax.jit(lambda a, w: (note(*jax.grad(lambda a, w: (a @ w).sum(), (0, 1))(a, w)), a)[1]), ax, jax.device_put(B, P()))
seen(lambda note: jax.jit(lambda a, w: (note(*jax.grad(lambda a, w: jnp.tanh(jnp.dot(a, w, out_sharding=P("x"))).sum(), (0, 1))(a, w)), a)[1]), a, by)
seen(lambda note: jax.jit(lambda a: (note(jax.shard_map(lambda p: (note(p), p * 2)[1], out_specs=P("x", "y"))(a)), a)[1]), a)
seen(lambda note: jax.jit(lambda a: (note(jax.shard_map(lambda p: (note(p), p * 2)[1], out_specs=P("x"), axis_names={"x"})(a)), a)[1]), a)
seen(lambda note: jax.jit(lambda a: (note(lax.reduce_sum(a, axes=(0,), out_sharding=P("y"))), a)[1]), a)
seen(lambda note: jax.jit(lambda a: (note(a.at[0].set(1., out_sharding=P("x", "y")), a.at[:, 1].add(1., out_sharding=P("x", "y"))), a)[1]), a)
seen(lambda note: jax.jit(lambda a: (note(lax.broadcasted_iota(np.int32, (8, 4), 0, out_sharding=P("x")), jnp.array(a, out_sharding=P(None, "y"))), a)[1]), a)
seen(lambda note: jax.jit(lambda a, b: (note(jnp.tensordot(a, b, 1, out_sharding=P("x", None))), a)[1]), ay, by)
seen(lambda note: jax.jit(lambda a: (note(a.reshape(32, out_sharding=P("x")), a.flatten(out_sharding=P("y"))), a)[1]), a)
seen(lambda note: jax.jit(lambda v: (note(jax.ops.segment_sum(v, jnp.zeros(8, int), 4, out_sharding=P("x"))), v)[1]), v)
seen(lambda note: jax.jit(lambda k: (note(z := jax.nn.initializers.zeros(k, (8, 4), jnp.float32, P("x"))), z)[1]), jax.random.key(0))
seen(lambda note: jax.jit(lambda a, b: (note(z := jnp.dot(a, b, out_sharding=P(unreduced={"y"}))), note(z + z), note(jax.sharding.reshard(z, P("x"))), a)[3]), ay, by)
seen(lambda note: jax.jit(lambda w, a: (note(g := jax.grad(lambda w, a: (note(w, jnp.sin(w)), (a @ w).sum())[1])(w, a)), jax.sharding.reshard(g, P()))[1]), jax.device_put(B, P(reduced={"x"})), ax)
seen(lambda note: jax.jit(lambda a: jax.lax.map(lambda r: (note(r), r * 2)[1], a)), ay)
seen(lambda note: jax.jit(lambda a: (note(*lax.split(a, (4, 4))), note(*jnp.unstack(a, axis=1)), a)[2]), ax)
seen(lambda note: jax.jit(lambda w, a: (note(g := jax.grad(lambda w, a: summed(a, w).sum())(w, a)), jax.sharding.reshard(g, P()))[1]), jax.device_put(B, P(reduced={"x"})), ax)
seen(partly(lambda p: (lax.psum(p, "x"), lax.pmax(p, "x"), lax.pmin(p, "x"), lax.pmean(p, "x"))), a)
seen(partly(lambda p: (lax.ppermute(p, "x", [(0, 1), (1, 0)]), lax.all_gather(p, "x", tiled=True), lax.all_gather(p, "x", axis=1, tiled=True), lax.all_gather(p, "x", axis=2)), P("x")), a)
seen(partly(lambda p: (lax.all_to_all(p, "x", 0, 2, tiled=True), lax.all_to_all(p, "x", 2, 1, tiled=True), lax.all_to_all(p, "x", 2, 0)), P("x")), jax.device_put(np.arange(512, dtype=np.float32).reshape(32, 4, 4), P("x", "y")))
seen(partly(lambda p: lax.scan(lambda c, _: (jnp.sin(c), lax.psum(c, "x")), p, None, length=2)[1]), a)
seen(lambda note: jax.jit(lambda t: (note(z := jax.vmap(jax.shard_map(lambda p: lax.psum(jnp.sin(p), "x"), in_specs=P("x"), out_specs=P(), axis_names={"x"}))(t)), z)[1]), T)
seen(lambda note: jax.jit(lambda k: (note(k, jax.vmap(jax.random.split)(k)), jax.random.key_data(k))[1]), keys)
mixed(P(None, "u"))
mixed(P("u"))
mixed(P())
sums(lambda note, a, w: (note(a, w, a @ w), a @ w)[1], (P("x"), P(reduced={"x"})), P("x"), ax, wr)
sums(lambda note, a, w: (note(z := lax.pcast(w, "x", to="varying")), lax.psum(a.T * z[:, :2], "x"))[1], (P("x"), P(reduced={"x"})), P(), ax, wr)
sums(lambda note, a, w: (note(z := lax.psum(a @ w, "y")), z)[1], (P("x", "y"), P("y", reduced={"x"})), P("x"), a, part)
sums(lambda note, w: (note(z := lax.psum(w, "x")), jnp.sin(z))[1], P(unreduced={"x"}), P(), wu)
sums(lambda note, w: (note(z := lax.psum_scatter(w, "x", tiled=True)), jnp.sin(z))[1], P(unreduced={"x"}), P("x"), wu)
sums(lambda note, a: (note(z := lax.all_gather(a, "x", tiled=True, to="reduced")), z * z)[1], P("x"), P(reduced={"x"}), ax)
sums(lambda note, a: (note(z := lax.all_gather(a, "x", to="reduced", axis=1)), jnp.sin(z).sum(1))[1], P("x", "y"), P(None, "y", reduced={"x"}), a)
sums(lambda note, a: (note(z := lax.all_gather(a, "x", tiled=True, to="invarying")), jnp.sin(z))[1], P("x"), P(), ax)
sums(lambda note, a: (note(z := lax.all_gather(a, ("x", "y"), axis=1, to="invarying")), jnp.sin(z).sum(1))[1], P("x", "y"), P(), a)
sums(lambda note, a: (note(z := lax.pcast(a.sum(0), "x", to="unreduced")), z)[1], P("x"), P(unreduced={"x"}), ax)
sums(lambda note, a: a.sum(0), P("x"), P(unreduced={"x"}), ax)
sums(lambda note, w: (note(z := lax.pcast(w, "x", to="reduced")), jnp.sin(z))[1], P(), P(reduced={"x"}), jax.device_put(B, P()))
sums(lambda note, u, w: (note(u * w), (u * w).sum())[1], (P(unreduced={"x"}), P(reduced={"x"})), P(unreduced={"x"}), wu, wr)
sums(lambda note, a: lax.psum(jnp.sum(lax.all_gather(a, "y", axis=1, tiled=True, to="reduced")), "x"), P("x", "y"), P(reduced={"y"}), a)
sums(lambda note, w: jax.checkpoint(lambda w: jnp.sin(jnp.sin(w)) * w)(w), P(reduced={"x"}), P(reduced={"x"}), wr)
shardings(jax.jit(jax.vmap(lambda x, i, y: lax.dynamic_update_slice_in_dim(x, y[None], i, axis=0))), T.transpose(1, 0, 2), jax.device_put(np.zeros(8, int), P("x")), a)
shardings(lambda a: (a * 2, a.sum(0), a.T), a)
shardings(jax.jit(lambda a: (a * 2, a.sum(0), a.T)), a)
shardings(jax.vmap(lambda r: jnp.zeros(3)), v)
shardings(lambda k: (k, jax.vmap(jax.random.split)(k)), keys)
shardings(jax.grad(lambda a: (a * a).sum()), a)
shardings(jax.jit(lambda a: lax.scan(lambda c, _: (c * 2, c.sum(0)), a, None, length=2)), a)
"""

# What JAX refuses, with the same words.
REFUSED = """
lambda a, b: a + b, ax, jax.device_put(A, P("y"))
lambda a: jnp.cumsum(a, 0), ax
lambda a: a.reshape(32), ay
lambda a: a.reshape(4, 8), a
lambda a, b: a @ b, ay, by
lambda a, b: a @ b, ax, jax.device_put(B, P(None, "x"))
lambda a, b: a @ b, ay, jax.device_put(B, P("x"))
lambda a: a[:3], ax
lambda a: a[0], ax
lambda a: a[jnp.array([0, 1, 2])], ax
lambda a: lax.scan(lambda c, x: (c, x * 2), 0., a), ax
lambda a: jax.sharding.reshard(a, P("z")), a
lambda a: jax.sharding.auto_axes(lambda a: a)(a), a
lambda v: v @ v, v
lambda v, w: jax.vmap(lambda x, y: x + y)(v, w), v, jax.device_put(A[:, 0], P("y"))
jax.vmap(lambda x: x, spmd_axis_name="y"), v
lambda a: jax.shard_map(lambda p: p, in_specs=P("y"), out_specs=P("y"))(a), ax
lambda a: constrained(a, P("y", "x")), a
lambda a: constrained(a, P("x")), a
shardings(lambda a: constrained(a, P()), a)
lambda a: jax.shard_map(lambda p: constrained(p, P("y")), in_specs=P("x"), out_specs=P("x"), axis_names={"x"})(a), ax
lambda a, u: lax.dynamic_update_slice(a, u, (0, 0)), ax, jax.device_put(A[:, :2], P("y"))
lambda a, b: jnp.dot(a, b, out_sharding=P(unreduced={"y"})) + 1, ay, by
"""

# What JAX says of meshes beside their axes and in types.
MESH = r", device_kind=cpu, num_cores=None, platform=cpu|\(\{Explicit: [^}]*\}\)"

JAX = """
import json, sys
import jax, numpy as np
import jax.numpy as jnp
from jax import lax
jax.set_mesh(jax.make_mesh((4, 2), ("x", "y")))
setup, expressions = json.load(sys.stdin)
exec(setup)
print(json.dumps([outcome(e) for e in expressions]))
"""


@pytest.fixture(scope="module")
def by_jax() -> Any:
    pytest.importorskip("jax")
    texts = [*TYPES.split("\n")[1:-1], *WITHIN.split("\n")[1:-1], *REFUSED.split("\n")[1:-1]]
    asked = json.dumps([SETUP, texts])
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=8"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", JAX], input=asked, text=True, check=True, stdout=subprocess.PIPE,
        env={**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"},
    )  # fmt: skip
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def names() -> Generator[dict[str, Any]]:
    with config.override(num_cpu_devices=8), quire.set_mesh(quire.make_mesh((4, 2), ("x", "y"))):
        found: dict[str, Any] = {"jax": quire, "jnp": quire.numpy, "np": np, "lax": quire.lax}
        exec(SETUP, found)
        yield found


def test_types_and_values(by_jax: Any, names: dict[str, Any]) -> None:
    expressions = TYPES.split("\n")[1:-1]
    for expression, (types, values) in zip(expressions, by_jax):
        got_types, got = names["outcome"](expression)
        assert got_types == types, expression
        for x, y in zip(got, values, strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-5, err_msg=expression)


def test_types_within_and_places_of_results(by_jax: Any, names: dict[str, Any]) -> None:
    start = len(TYPES.split("\n")[1:-1])
    wrong: list[Any] = []
    for expression, (types, values) in zip(WITHIN.split("\n")[1:-1], by_jax[start:]):
        got_types, got = names["outcome"](expression)
        # Functions may be traced more often, or at the end once more.
        if isinstance(types, str) or isinstance(got_types, str) or {*map(str, types)} != {*map(str, got_types)}:
            wrong.append((expression, got_types, types, values if isinstance(types, str) else got))
            continue
        for x, y in zip(got, values, strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-5, err_msg=expression)
    assert not wrong, "\n".join(map(str, wrong))


def test_what_is_refused(by_jax: Any, names: dict[str, Any]) -> None:
    expressions = REFUSED.split("\n")[1:-1]
    for expression, (kind, words) in zip(expressions, by_jax[-len(expressions) :], strict=True):
        got = names["outcome"](expression)
        assert got[0] == kind and re.sub(MESH, "", words.replace("jax.", "quire.")) in got[1], (expression, got, words)


def test_without_explicit_axes_types_are_as_ever(names: dict[str, Any]) -> None:
    del names
    auto = quire.make_mesh((8,), ("d",), (quire.sharding.AxisType.Auto,))
    before = config._base.mesh
    with quire.set_mesh(auto):
        x = quire.device_put(np.arange(8.0, dtype=np.float32), quire.sharding.PartitionSpec("d"))
        assert quire.typeof(x) is x.aval
        assert quire.jit(lambda x: x.reshape(2, 4))(x).sharding.mesh == auto
    assert config._base.mesh is before  # a block in a block leaves nothing behind


def test_the_same_function_for_other_divisions_is_traced_anew(names: dict[str, Any]) -> None:
    seen: list[str] = []

    @quire.jit
    def f(x: Any) -> Any:
        seen.append(str(quire.typeof(x)))
        return x * 2

    for x in (names["ax"], names["ay"], names["ax"]):
        assert f(x).sharding.spec == quire.typeof(x).sharding.spec
    assert seen == ["float32[8@x,4]", "float32[8,4@y]"]
