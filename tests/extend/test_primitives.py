"""Primitives of other packages, written for JAX, under every transformation: the numbers are JAX's."""

from __future__ import annotations

import pytest

from tests.extend.same_source import run, same

MULTIPLY_ADD = """
import numpy as np
import jax
import jax.numpy as jnp
from jax import lax
from jax.extend import core
from jax.interpreters import ad, batching, mlir

multiply_add_p = core.Primitive("multiply_add")

def multiply_add(x, y, z):
    return multiply_add_p.bind(x, y, z)

def square_add(a, b):
    return multiply_add(a, a, b)

def multiply_add_impl(x, y, z):
    return np.add(np.multiply(x, y), z)

multiply_add_p.def_impl(multiply_add_impl)

def multiply_add_abstract_eval(xs, ys, zs):
    assert xs.shape == ys.shape
    assert xs.shape == zs.shape
    return jax.core.ShapedArray(xs.shape, xs.dtype)

multiply_add_p.def_abstract_eval(multiply_add_abstract_eval)
mlir.register_lowering(multiply_add_p, mlir.lower_fun(lambda x, y, z: x * y + z, multiple_results=False))

def multiply_add_value_and_jvp(arg_values, arg_tangents):
    x, y, z = arg_values
    xt, yt, zt = arg_tangents
    primal_out = multiply_add(x, y, z)

    def make_zero(tan):
        return jnp.zeros_like(x) if type(tan) is ad.Zero else tan

    output_tangent = multiply_add(make_zero(xt), y, multiply_add(x, make_zero(yt), make_zero(zt)))
    return primal_out, output_tangent

ad.primitive_jvps[multiply_add_p] = multiply_add_value_and_jvp

def multiply_add_transpose(ct, x, y, z):
    if not ad.is_undefined_primal(x):
        ct_y = ad.Zero(y.aval) if type(ct) is ad.Zero else multiply_add(x, ct, jnp.zeros_like(ct))
        return None, ct_y if ad.is_undefined_primal(y) else None, ct
    ct_x = ad.Zero(x.aval) if type(ct) is ad.Zero else multiply_add(ct, y, jnp.zeros_like(ct))
    return ct_x, None, ct if ad.is_undefined_primal(z) else None

ad.primitive_transposes[multiply_add_p] = multiply_add_transpose

def multiply_add_batch(vector_arg_values, batch_axes):
    size = next(x.shape[d] for x, d in zip(vector_arg_values, batch_axes) if d is not None)
    args = [batching.bdim_at_front(x, d, size) for x, d in zip(vector_arg_values, batch_axes)]
    return multiply_add(*args), 0

batching.primitive_batchers[multiply_add_p] = multiply_add_batch

results = []
"""


def test_the_tutorial_of_multiply_add():
    same(
        MULTIPLY_ADD
        + """
v = np.arange(3.0, dtype=np.float32)
results += [
    square_add(2.0, 10.0), jax.jit(square_add)(2.0, 10.0), jax.jit(square_add, static_argnums=1)(2.0, 10.0),
    jax.jvp(square_add, (2.0, 10.0), (1.0, 1.0)),
    jax.jit(lambda p, t: jax.jvp(square_add, p, t))((2.0, 10.0), (1.0, 1.0)),
    jax.grad(square_add)(2.0, 10.0), jax.jit(jax.grad(square_add))(2.0, 10.0), jax.grad(jax.jit(square_add))(2.0, 10.0),
    jax.grad(square_add, argnums=(0, 1))(2.0, 10.0), jax.grad(jax.grad(square_add))(2.0, 10.0),
    jax.vmap(square_add)(v, v + 1), jax.vmap(square_add, (0, None))(v, 2.0), jax.jit(jax.vmap(jax.grad(square_add)))(v, v + 1),
    jax.linearize(square_add, 2.0, 10.0)[1](1.0, 2.0), jax.hessian(square_add)(2.0, 10.0),
]
"""
    )


def test_within_loops_branches_and_calls():
    same(
        MULTIPLY_ADD
        + """
ts = jnp.linspace(0.1, 1, 4)

def scanned(x):
    return lax.scan(lambda c, t: (multiply_add(c, t, jnp.sin(c)), c), x, ts)[0]

def branched(x):
    return lax.cond(x > 1, lambda x: square_add(x, x), lambda x: x, x)

def looped(x):
    return lax.while_loop(lambda c: c < 100, lambda c: square_add(c, c), x)

@jax.custom_jvp
def own(x):
    return square_add(x, x)

own.defjvp(lambda p, t: (own(*p), 7 * t[0]))

for f in (scanned, branched, own, jax.checkpoint(lambda x: jnp.sin(square_add(x, x))), jax.jit(lambda x: square_add(x, 2.0))):
    results += [f(1.5), jax.jit(f)(1.5), jax.grad(f)(1.5), jax.jit(jax.grad(f))(1.5)]
    results += [jax.vmap(f)(jnp.array([0.5, 2.0])), jax.jit(jax.vmap(jax.grad(f)))(jnp.array([0.5, 2.0]))]
results += [looped(2.0), jax.jit(looped)(2.0), jax.vmap(looped)(jnp.array([2.0, 3.0]))]
"""
    )


def test_a_primitive_with_several_results_and_parameters():
    same(
        """
import jax, jax.numpy as jnp
from functools import partial
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

split_at_p = Primitive("split_at")
split_at_p.multiple_results = True

def impl(x, *, at):
    return [x[:at], x[at:]]

def types(x, *, at):
    return [x.update(shape=(at, *x.shape[1:])), x.update(shape=(x.shape[0] - at, *x.shape[1:]))]

split_at_p.def_impl(impl)
split_at_p.def_abstract_eval(types)
mlir.register_lowering(split_at_p, mlir.lower_fun(impl, multiple_results=True))

def transpose(cts, x, *, at):
    return [jnp.concatenate([ad.instantiate_zeros(ct) for ct in cts])]

ad.deflinear2(split_at_p, transpose)

def batch(args, dims, *, at):
    x = jnp.moveaxis(args[0], dims[0], 1)
    return split_at_p.bind(x, at=at), [1, 1]

batching.primitive_batchers[split_at_p] = batch

def f(x):
    a, b = split_at_p.bind(x, at=2)
    return jnp.sum(a) * jnp.prod(b)

def first(x):
    return jnp.sum(jnp.sin(split_at_p.bind(x, at=2)[0]))

x = jnp.arange(1.0, 6.0)
xs = jnp.stack([x, x * 2])
results = []
for g in (f, first):
    results += [g(x), jax.jit(g)(x), jax.grad(g)(x), jax.jit(jax.grad(g))(x), jax.vmap(jax.grad(g))(xs)]
    results += [jax.jvp(g, (x,), (x,)), jax.vmap(g, 1)(xs.T), jax.hessian(g)(x)]
results.append(str(jax.make_jaxpr(f)(x).eqns[0].primitive))
results.append(dict(jax.make_jaxpr(f)(x).eqns[0].params)["at"])
"""
    )


def test_subclasses_and_equal_names():
    same(
        """
import jax, jax.numpy as jnp
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

class Scaled(Primitive):
    multiple_results = True

    def __init__(self, name, factor):
        super().__init__(name)
        self.factor = factor
        self.def_impl(self.compute)
        self.def_abstract_eval(lambda x: [x])
        mlir.register_lowering(self, mlir.lower_fun(self.compute))
        ad.deflinear(self, lambda cts: self.bind(*map(ad.instantiate_zeros, cts)))

    def compute(self, x):
        return [x * self.factor]

    def __call__(self, x):
        return self.bind(x)[0]

twice, thrice = Scaled("scaled", 2.0), Scaled("scaled", 3.0)

def f(x):
    return twice(x) * thrice(x)

results = [f(2.0), jax.jit(f)(2.0), jax.jit(twice)(2.0), jax.jit(thrice)(2.0), jax.grad(f)(2.0), jax.jit(jax.grad(f))(2.0)]
results += [isinstance(twice, Primitive), twice.name, str(twice), isinstance(jax.lax.sin_p, Primitive)]
"""
    )


def test_what_is_missing_is_said_by_name():
    names = run(
        """
import jax
from jax.extend.core import Primitive
p = Primitive("incomplete")
""",
        "quire",
    )
    p, quire = names["p"], names["quire"]
    with pytest.raises(NotImplementedError, match="Evaluation rule for 'incomplete' not implemented"):
        p.bind(1.0)
    with pytest.raises(NotImplementedError, match="Abstract evaluation for 'incomplete' not implemented"):
        quire.make_jaxpr(p.bind)(1.0)
    p.def_abstract_eval(lambda x: x)
    with pytest.raises(
        NotImplementedError, match="translation rule for primitive 'incomplete' not found for platform cpu"
    ):
        quire.jit(p.bind)(1.0)
    with pytest.raises(NotImplementedError, match="primitive incomplete has no jvp rule"):
        quire.jvp(p.bind, (1.0,), (1.0,))
    with pytest.raises(NotImplementedError, match="vmap of incomplete"):
        quire.jit(quire.vmap(p.bind))(quire.numpy.ones(2))
    with pytest.raises(ValueError, match="sin is quire's own"):
        quire.lax.sin_p.def_abstract_eval(lambda x: x)


LOWERED = MULTIPLY_ADD.replace("mlir.register_lowering(multiply_add_p, ", "_unused = (multiply_add_p, ")


def test_a_lowering_of_mlir_operations():
    """The tutorial's own rule; `hlo` is jaxlib's under JAX, and quire's under quire."""
    same(
        LOWERED
        + """
import importlib
hlo = getattr(mlir, "hlo", None) or importlib.import_module("jaxlib.mlir.dialects.stablehlo")

def multiply_add_lowering(ctx, xc, yc, zc):
    assert len(ctx.avals_in) == 3 and "cpu" in ctx.module_context.platforms
    return [hlo.AddOp(hlo.MulOp(xc, yc), zc).result]

mlir.register_lowering(multiply_add_p, multiply_add_lowering)

v = np.arange(3.0, dtype=np.float32)
results += [
    jax.jit(square_add)(2.0, 10.0), jax.jit(jax.grad(square_add))(2.0, 10.0), jax.jit(jax.vmap(square_add))(v, v + 1),
    jax.jit(lambda x: lax.scan(lambda c, t: (multiply_add(c, t, multiply_add(c, c, t)), c), x, v)[0])(0.5),
]
"""
    )


def test_rules_that_mix_operations_functions_and_callbacks():
    names = run(
        LOWERED
        + """
from jax.interpreters import hlo

def mixed(ctx, xc, yc, zc):
    ((s,),) = mlir.lower_fun(lambda x, y: jnp.sin(x) * y + offsets, multiple_results=False)(
        ctx.replace(avals_in=ctx.avals_in[:2]), xc, yc
    )
    ten = hlo.broadcast_in_dim(mlir.aval_to_ir_type(ctx.avals_out[0]), mlir.ir_constant(np.float32(10)), mlir.dense_int_array([]))
    chosen = hlo.select(hlo.compare(s, zc, hlo.ComparisonDirectionAttr.get("LT")), ten, hlo.SubtractOp(s, zc))
    results, _, _ = mlir.emit_python_callback(
        ctx, lambda a: (np.flip(a),), None, [chosen], ctx.avals_out, ctx.avals_out, has_side_effect=False
    )
    return results

offsets = jnp.arange(3.0)
mlir.register_lowering(multiply_add_p, mixed)
wrong_p = core.Primitive("wrong")
wrong_p.def_abstract_eval(lambda x: x.update(shape=(4,)))
mlir.register_lowering(wrong_p, lambda ctx, x: [hlo.NegOp(x)])
""",
        "quire",
    )
    np, quire, f = names["np"], names["quire"], names["multiply_add"]
    x, y, z = (np.arange(3, dtype=np.float32) + i for i in range(3))
    s = np.sin(x) * y + np.arange(3)
    want = np.flip(np.where(s < z, 10, s - z))
    np.testing.assert_allclose(quire.jit(lambda x, y, z: f(x, y, z) + f(x, y, z))(x, y, z), 2 * want, rtol=1e-5)
    with pytest.raises(TypeError, match=r"wrong.*its lowering gives \(tensor<3xf32>\), .*says \(tensor<4xf32>\)"):
        quire.jit(names["wrong_p"].bind)(x)
