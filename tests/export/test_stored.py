"""`quire.export.export`: programs stored with their signature. JAX's own `jax.export` is what behaviour is compared with."""

from __future__ import annotations

import json
import subprocess
import sys
import zlib
from collections import OrderedDict, namedtuple

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest

import quire
import quire.export as export
import quire.nn
import quire.numpy as qnp
from quire import lax
from quire.ir.errors import ExportError, UnsupportedError

W = np.random.default_rng(0).normal(size=(4, 4)).astype(np.float32)
X = np.random.default_rng(1).normal(size=(3, 4)).astype(np.float32)


def net(nn, np_, p, x):
    """The same function for both."""
    return {"y": nn.relu(x @ p["w"] @ W), "n": (np_.tanh(x).sum(), [x.max()])}


def quires():
    return export.export(quire.jit(lambda p, x: net(quire.nn, qnp, p, x)))({"w": W}, X)


def jaxs():
    return jax.export.export(jax.jit(lambda p, x: net(jax.nn, jnp, p, x)))({"w": W}, X)


def leaves(avals):
    return [(a.shape, np.dtype(a.dtype)) for a in avals]


def test_signature_is_that_of_jax():
    ours, theirs = quires(), jaxs()
    assert leaves(ours.in_avals) == leaves(theirs.in_avals)
    assert leaves(ours.out_avals) == leaves(theirs.out_avals)
    assert ours.platforms == theirs.platforms == ("cpu",)
    assert ours.nr_devices == theirs.nr_devices and ours.has_vjp() and str(ours) == str(theirs)
    assert ours.module_kept_var_idx == theirs.module_kept_var_idx
    assert ours.in_tree == quire.tree_util.tree_structure((({"w": 0}, 0), {}))
    for name in dir(jax.export):
        assert name.startswith("_") or hasattr(export, name), name
    for name in dir(theirs):
        assert name.startswith("_") or hasattr(ours, name) or name.endswith("_jax"), name


def test_stored_and_called_in_another_process(tmp_path):
    exported = quires()
    (tmp_path / "f").write_bytes(exported.serialize())
    np.savez(tmp_path / "in.npz", w=W, x=X)
    text = (
        "import quire.export, numpy as np, sys\n"
        "given = np.load('in.npz'); f = quire.export.deserialize(open('f', 'rb').read())\n"
        "out = f.call({'w': given['w']}, given['x']); np.savez('out.npz', y=out['y'], n=out['n'][0], m=out['n'][1][0])\n"
    )
    told = subprocess.run([sys.executable, "-c", text], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert not told.returncode, told.stderr
    got, want = np.load(tmp_path / "out.npz"), jaxs().call({"w": W}, X)
    for key, value in (("y", want["y"]), ("n", want["n"][0]), ("m", want["n"][1][0])):
        np.testing.assert_allclose(got[key], value, rtol=2e-5, atol=1e-6)


def test_derivatives_are_stored_to_an_order():
    first = export.deserialize(quires().serialize(vjp_order=2))
    cotangents = [np.ones(a.shape, np.float32) for a in first.out_avals]
    got = first.vjp().call(W, X, *cotangents)
    want = jaxs().vjp().call(W, X, *cotangents)
    assert leaves(first.vjp().in_avals) == leaves(jaxs().vjp().in_avals)
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-5)
    second = first.vjp().vjp()
    assert not second.has_vjp()
    given = [np.ones(a.shape, np.float32) for a in second.in_avals]
    for a, b in zip(second.call(*given), jaxs().vjp().vjp().call(*given), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-5)
    with pytest.raises(ValueError, match="stored without its derivative: use serialize"):
        second.vjp()


def ruled(lib, np_):
    """Functions whose rules give other derivatives than their equations."""
    reverse = lib.custom_vjp(lambda x: x**2)
    reverse.defvjp(lambda x: (x**2, x), lambda x, g: (100 * x * g,))
    forward = lib.custom_jvp(lambda x: x**2)
    forward.defjvp(lambda primals, tangents: (primals[0] ** 2, 7 * tangents[0]))

    def f(x, i, n, *, power):
        return {"y": (reverse(x) + forward(x) + lib.nn.relu(x)) * n**power, "i": i + 1, "z": x * i}

    return lib.jit(f, static_argnums=2, static_argnames="power")


def test_derivatives_are_those_of_rules():
    """Of `call`, in several modes and orders, as JAX's: rules, static arguments, results without derivatives."""
    x, i = np.arange(3, dtype=np.float32), np.arange(3, dtype=np.int32)
    theirs = jax.export.export(ruled(jax, jnp))(x, i, 2, power=3)
    ours = export.export(ruled(quire, qnp))(x, i, 2, power=3)
    stored = export.deserialize(ours.serialize(vjp_order=2))

    def of(lib, exported):
        def total(x):
            return exported.call(x, i)["y"].sum() + exported.call(x, i)["z"].sum()

        def loop(x):
            return lib.lax.scan(lambda c, _: (exported.call(c, i)["y"] / 64, None), x, None, length=2)[0].sum()

        given = [x, i, np.zeros(3, lib.dtypes.float0), x, x]
        return (
            lib.grad(total)(x),
            lib.grad(lambda x: lib.grad(total)(x).sum())(x),
            lib.grad(loop)(x),
            exported.vjp().call(*given)[0],
        )

    def check(exported):
        for a, b in zip(of(quire, exported), want, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6)
        each = quire.vmap(quire.grad(lambda x: exported.call(x, i)["y"].sum()))(
            np.stack([x, x])
        )  # JAX has no vmap of it
        np.testing.assert_array_equal(each, np.stack([(100 * x + 7 + (x > 0)) * 8] * 2))
        with pytest.raises(TypeError, match="forward-mode differentiation"):
            quire.jvp(lambda x: exported.call(x, i)["y"], (x,), (x,))

    want = of(jax, theirs)
    np.testing.assert_array_equal(want[0], (100 * x + 7 + (x > 0)) * 8 + i)
    check(ours)
    check(stored)
    once, never = export.deserialize(ours.serialize(vjp_order=1)), export.deserialize(ours.serialize())
    with pytest.raises(ValueError, match="f was stored without its derivative: use serialize"):
        quire.grad(lambda x: never.call(x, i)["y"].sum())(x)
    first = quire.grad(lambda x: once.call(x, i)["y"].sum())
    np.testing.assert_array_equal(first(x), want[0] - i)
    with pytest.raises(ValueError, match="f_vjp was stored without its derivative: use serialize"):
        quire.grad(lambda x: first(x).sum())(x)
    with pytest.raises(ValueError, match="there is no derivative to store"):
        never.serialize(vjp_order=1)
    outer = export.export(quire.jit(lambda x: never.call(x, i)["y"] * 2))(x)
    with pytest.raises(ValueError, match="f was stored without its derivative"):
        outer.serialize(vjp_order=1)


def test_what_is_stored_has_no_weak_types():
    def weak(exported):
        given, results = exported.call(2.0), [*exported.in_avals, *exported.out_avals]
        return [a.weak_type for a in (*results, *given)]

    ours = export.export(quire.jit(lambda x: (x * 2, 3.0, qnp.zeros(2))))(3.0)
    assert weak(ours) == weak(jax.export.export(jax.jit(lambda x: (x * 2, 3.0, jnp.zeros(2))))(3.0))
    stored = export.deserialize(ours.serialize(vjp_order=1))
    assert not any(weak(stored))
    assert not quire.grad(lambda x: stored.call(x)[0])(np.float32(3)).weak_type and stored.call(4.0)[0] == 8


def test_whatever_can_be_traced_is_stored():
    """Loops, branches, constants of several dtypes, keys, custom rules: the stored program gives the same bits."""

    def f(x, k, n):
        y = lax.while_loop(lambda c: c[1] < n, lambda c: (qnp.sort(c[0]) * 0.5 + c[0], c[1] + 1), (x, 0))[0]
        z = lax.cond(y.sum() > 0, qnp.sin, lambda v: qnp.fft.fft(v).real @ W, y)
        bf = qnp.arange(4, dtype="bfloat16") * qnp.array([1.5, np.inf, -0.0, np.nan], "bfloat16")
        return z, quire.random.normal(k, (3,)), quire.nn.softmax(y), bf, lax.scan(lambda c, v: (c + v, c @ W), y[0], y)

    args = (X, quire.random.key(3), np.int32(4))
    want = quire.tree_util.tree_leaves(quire.jit(f)(*args))
    stored = export.deserialize(export.export(quire.jit(f))(*args).serialize())
    for call in (stored.call, quire.jit(stored.call)):
        for a, b in zip(quire.tree_util.tree_leaves(call(*args)), want, strict=True):
            assert np.asarray(a).dtype == np.asarray(b).dtype and np.asarray(a).tobytes() == np.asarray(b).tobytes()
    np.testing.assert_allclose(
        quire.vmap(lambda x: stored.call(x, *args[1:])[2])(np.stack([X, X])),
        np.stack([want[2]] * 2), rtol=1e-6,
    )  # fmt: skip


def test_the_module_is_plain_stablehlo():
    """Without kernels of quire's: other compilers read it. quire reads JAX's."""
    text = quires().mlir_module()
    assert "stablehlo.dot_general" in text and "stream." not in text and "flow." not in text
    back = quire.from_stablehlo(text)
    for a, b in zip(back(W, X), quire.tree_util.tree_leaves(quires().call({"w": W}, X)), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-6)
    assert quire.from_stablehlo(quires().mlir_module_serialized)(W, X)[0].shape == ()


def test_as_jax_shows_it():
    text = (
        "import quire.as_jax, jax, jax.numpy as jnp\nfrom jax import export\n"
        "e = export.deserialize(jax.export.export(jax.jit(jnp.sin))(jax.ShapeDtypeStruct((3,), 'float32')).serialize())\n"
        "print(type(e).__module__, e.call(jnp.ones(3)).shape)"
    )
    told = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)
    assert told.stdout.split("\n")[0] == "quire.export.stored (3,)", told.stderr


Point = namedtuple("Point", "x y")


class Pair:
    def __init__(self, a, b, label):
        self.a, self.b, self.label = a, b, label

    def tree_flatten(self):
        return (self.a, self.b), self.label

    @classmethod
    def tree_unflatten(cls, label, children):
        return cls(*children, label)


def test_trees_of_registered_classes():
    quire.tree_util.register_pytree_node_class(Pair)

    def f(p, q, o):
        return Point(p.x + q.a, q.b), OrderedDict(z=o["z"], a=None), Pair(p.x, p.y, q.label)

    args = Point(X, X), Pair(X, X, "left"), OrderedDict(z=X)
    with pytest.raises(ExportError, match="nodes of Point cannot be stored: register the class"):
        export.export(quire.jit(f))(*args).serialize()
    export.register_namedtuple_serialization(Point, serialized_name="tests.Point")
    export.register_pytree_node_serialization(
        Pair, serialized_name="tests.Pair", serialize_auxdata=str.encode, deserialize_auxdata=bytes.decode
    )
    with pytest.raises(ValueError, match=r"Pair or the name 'other' is registered for serialization already"):
        export.register_pytree_node_serialization(
            Pair, serialized_name="other", serialize_auxdata=str.encode, deserialize_auxdata=bytes.decode
        )
    stored = export.deserialize(export.export(quire.jit(f))(*args).serialize())
    point, ordered, pair = stored.call(*args)
    assert (
        type(point) is Point and type(ordered) is OrderedDict and list(ordered) == ["z", "a"] and pair.label == "left"
    )
    np.testing.assert_array_equal(point.x, 2 * X)
    with pytest.raises(ValueError, match="was exported for arguments of structure"):
        stored.call(args[0], Pair(X, X, "right"), args[2])


def test_errors():
    exported = quires()
    with pytest.raises(
        ValueError, match=r"exported for f32\[3,4\] as argument 1, got f32\[2,4\] \(at .*test_stored.py"
    ):
        exported.call({"w": W}, X[:2])
    with pytest.raises(ValueError, match="expected what jit gives"):
        export.export(lambda x: x)
    with pytest.raises(ValueError, match=r"unknown platforms \['cray'\]; there are cpu, vulkan"):
        export.export(quire.jit(qnp.sin), platforms=["cray"])
    other = export.export(quire.jit(qnp.sin), platforms=["cuda"])(X)
    with pytest.raises(
        ValueError, match=r"was exported for cuda, and is called on cpu; export it with platforms=\['cpu'"
    ):
        other.call(X)
    checks = [export.DisabledSafetyCheck.platform()]
    assert export.export(quire.jit(qnp.sin), platforms=["cuda"], disabled_checks=checks)(X).call(X).shape == X.shape
    with pytest.raises(ExportError, match=r"calls Python functions \(pure_callback \(at .*test_stored.py:\d+"):
        export.export(quire.jit(lambda x: quire.pure_callback(np.sin, x, x)))(X)
    with pytest.raises(ExportError, match="which an exported program can"):
        export.export(quire.jit(lambda x: quire.debug.print("{}", x)))(X)
    for symbolic in (
        lambda: export.symbolic_shape("b, 4"), lambda: export.symbolic_args_specs(X, "b, 4"), lambda: export.SymbolicScope()
    ):  # fmt: skip
        with pytest.raises(UnsupportedError, match=r"test_stored.py.*there are no symbolic dimensions. Export once"):
            symbolic()
    assert not export.is_symbolic_dim(3)
    with pytest.raises(ExportError, match="no program that quire has stored"):
        export.deserialize(b"another program")
    data = bytes(exported.serialize())
    with pytest.raises(ExportError, match="the bytes are damaged"):
        export.deserialize(data[:-40])
    head = data.index(b"\0") + 1
    told = json.loads(zlib.decompress(data[head:]))
    later = data[:head] + zlib.compress(json.dumps(told | {"format": 99, "quire": "9.9"}).encode())
    with pytest.raises(ExportError, match=r"stored by quire 9.9 in form 99, and this quire \(.*\) reads forms up to 1"):
        export.deserialize(later)
    broken = data[:head] + zlib.compress(
        json.dumps(told | {"program": "{ lambda ; a:f32[3]. let b = frob a in (b,) }"}).encode()
    )
    with pytest.raises(ExportError, match="does not read the program"):
        export.deserialize(broken)
