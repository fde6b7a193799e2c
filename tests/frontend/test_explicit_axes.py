"""Types along mesh axes of type Explicit, and what is refused there, against JAX's: one process for all expressions."""

from __future__ import annotations

import json
import os
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

def outcome(expression):
    try:
        return eval(f"types({expression})")
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
lambda a, i: jnp.take_along_axis(a, i, 1), ax, jax.device_put(np.zeros((8, 1), np.int32), P("x"))
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
"""

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
    asked = json.dumps([SETUP, [*TYPES.split("\n")[1:-1], *REFUSED.split("\n")[1:-1]]])
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


def test_what_is_refused(by_jax: Any, names: dict[str, Any]) -> None:
    expressions = REFUSED.split("\n")[1:-1]
    for expression, (kind, words) in zip(expressions, by_jax[-len(expressions) :], strict=True):
        got = names["outcome"](expression)
        assert got[0] == kind and words.replace("jax.", "quire.") in got[1], (expression, got, words)


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
