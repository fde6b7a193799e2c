"""Interpreters of a user's own over jaxprs, and functions of `jax.interpreters` and `jax.extend`, as JAX's users write them."""

from __future__ import annotations

import pytest

from tests.extend.same_source import run, same

INVERSE = """
import numpy as np
from functools import wraps
import jax
import jax.numpy as jnp
from jax import lax
from jax.extend import core
"""


def test_the_tutorial_of_custom_interpreters():
    same(
        INVERSE
        + """
def eval_jaxpr(jaxpr, consts, *args):
    env = {}

    def read(var):
        if type(var) is core.Literal:
            return var.val
        return env[var]

    def write(var, val):
        env[var] = val

    jax.tree.map(write, list(jaxpr.invars), list(args))
    jax.tree.map(write, list(jaxpr.constvars), list(consts))
    for eqn in jaxpr.eqns:
        invals = jax.tree.map(read, list(eqn.invars))
        outvals = eqn.primitive.bind(*invals, **eqn.params)
        if not eqn.primitive.multiple_results:
            outvals = [outvals]
        jax.tree.map(write, list(eqn.outvars), list(outvals))
    return jax.tree.map(read, list(jaxpr.outvars))

inverse_registry = {}
inverse_registry[lax.exp_p] = jnp.log
inverse_registry[lax.tanh_p] = jnp.arctanh

def inverse(fun):
    @wraps(fun)
    def wrapped(*args, **kwargs):
        closed_jaxpr = jax.make_jaxpr(fun)(*args, **kwargs)
        out = inverse_jaxpr(closed_jaxpr.jaxpr, closed_jaxpr.literals, *args)
        return out[0]
    return wrapped

def inverse_jaxpr(jaxpr, consts, *args):
    env = {}

    def read(var):
        if type(var) is core.Literal:
            return var.val
        return env[var]

    def write(var, val):
        env[var] = val

    jax.tree.map(write, list(jaxpr.outvars), list(args))
    jax.tree.map(write, list(jaxpr.constvars), list(consts))
    for eqn in reversed(jaxpr.eqns):
        invals = jax.tree.map(read, list(eqn.outvars))
        if eqn.primitive not in inverse_registry:
            raise NotImplementedError(f"{eqn.primitive} does not have registered inverse.")
        outval = inverse_registry[eqn.primitive](*invals)
        jax.tree.map(write, list(eqn.invars), [outval])
    return jax.tree.map(read, list(jaxpr.invars))

def f(x):
    return jnp.exp(jnp.tanh(x))

f_inv = inverse(f)
x = jnp.arange(5.0) / 5
closed = jax.make_jaxpr(f)(x)
results = [eval_jaxpr(closed.jaxpr, closed.literals, x)[0], f_inv(f(1.0)), f_inv(f(x)), jax.jit(jax.vmap(jax.grad(f_inv)))(1 + x)]
results.append([str(e.primitive) for e in closed.jaxpr.eqns])
results.append(core.jaxpr_as_fun(closed)(x))
results.append(jax.core.eval_jaxpr(closed.jaxpr, closed.consts, x))
""",
        rtol=1e-4,
    )


def test_an_interpreter_over_calls_loops_and_custom_rules():
    same(
        INVERSE
        + """
def counted(closed, *args):
    counts = {}

    def walk(jaxpr):
        for eqn in jaxpr.eqns:
            if eqn.primitive is lax.sin_p or eqn.primitive is lax.mul_p:
                counts[eqn.primitive.name] = counts.get(eqn.primitive.name, 0) + 1
        for inner in core.subjaxprs(jaxpr):
            walk(inner)

    walk(closed.jaxpr)
    return sorted(counts.items())

def interpret(jaxpr, consts, *args):
    env = dict(zip(jaxpr.constvars, consts))
    env.update(zip(jaxpr.invars, args))
    read = lambda v: v.val if isinstance(v, core.Literal) else env[v]
    for eqn in jaxpr.eqns:
        bind_params = eqn.primitive.get_bind_params(eqn.params)
        if eqn.primitive is lax.sin_p:
            outs = lax.cos_p.bind(*map(read, eqn.invars), **bind_params)
        elif eqn.primitive.name == "jit":
            inner = eqn.params["jaxpr"]
            outs = interpret(inner.jaxpr, inner.consts, *map(read, eqn.invars))
        elif eqn.primitive is lax.scan_p:
            inner = eqn.params["jaxpr"]
            body = jax.make_jaxpr(lambda *xs: interpret(inner.jaxpr, inner.consts, *xs))(*[jax.ShapeDtypeStruct(a.shape, a.dtype, weak_type=a.weak_type) for a in inner.in_avals])
            outs = eqn.primitive.bind(*map(read, eqn.invars), **dict(bind_params, jaxpr=body))
        else:
            outs = eqn.primitive.bind(*map(read, eqn.invars), **bind_params)
        outs = outs if eqn.primitive.multiple_results else [outs]
        for v, x in zip(eqn.outvars, outs):
            env[v] = x
    return [read(v) for v in jaxpr.outvars]

@jax.custom_jvp
def twice(x):
    return 2 * x

twice.defjvp(lambda p, t: (twice(*p), 5 * t[0]))

def f(x):
    y = jax.jit(lambda x: jnp.sin(x) * x)(x)
    c, ys = lax.scan(lambda c, t: (jnp.sin(c) + t, c * t), y, jnp.arange(3.0))
    return lax.cond(c > 0, lambda c: c * 2, lambda c: c - 1, twice(c)) + ys.sum()

closed = jax.make_jaxpr(f)(0.5)
g = lambda x: interpret(closed.jaxpr, closed.consts, x)[0]
results = [g(0.5), jax.jit(g)(0.5), jax.grad(g)(0.5), jax.vmap(g)(jnp.array([0.1, 0.2])), counted(closed)]
"""
    )


def test_parameters_for_bind_are_also_the_pair_that_they_were():
    quire = run("import jax.numpy", "quire")["quire"]
    eqn = quire.make_jaxpr(lambda x: x.sum())(quire.numpy.ones(3)).eqns[0]
    functions, params = eqn.primitive.get_bind_params(eqn.params)
    assert list(functions) == [] and params == dict(eqn.params)
    assert float(eqn.primitive.bind(*functions, quire.numpy.ones(3), **params)) == 3
    assert float(eqn.primitive.bind(quire.numpy.ones(3), **eqn.primitive.get_bind_params(eqn.params))) == 3


def test_jaxprs_are_built_and_changed():
    same(
        INVERSE
        + """
aval = jax.core.ShapedArray((3,), jnp.float32)
newvar = core.gensym()
a, b, c = newvar(aval), newvar(aval), newvar(aval)
first = core.new_jaxpr_eqn([a], [b], lax.sin_p, jax.make_jaxpr(jnp.sin)(jnp.ones(3)).eqns[0].params, core.no_effects)
second = core.new_jaxpr_eqn([b, b], [c], lax.add_p, {}, core.no_effects)
jaxpr = core.Jaxpr((), (a,), (c,), (first, second), debug_info=jax.make_jaxpr(jnp.sin)(1.0).jaxpr.debug_info)
core.check_jaxpr(jaxpr)
closed = core.ClosedJaxpr(jaxpr, ())
x = jnp.arange(3.0)
results = [core.jaxpr_as_fun(closed)(x), jax.jit(core.jaxpr_as_fun(closed))(x)]
shorter = jaxpr.replace(outvars=[b], eqns=list(jaxpr.eqns[:1]))
results += [jax.core.eval_jaxpr(shorter, (), x), len(shorter.eqns), len(closed.map_jaxpr(lambda j: shorter).eqns)]
other = jaxpr.eqns[0].replace(primitive=lax.cos_p)
results += [jax.core.eval_jaxpr(shorter.replace(eqns=[other]), (), x), closed.replace(consts=()).in_avals[0].shape]
results += [core.mapped_aval(3, 0, aval).shape, core.unmapped_aval(2, 1, aval).shape, core.valid_jaxtype(x)]
results += [core.valid_jaxtype("no"), len(list(core.jaxprs_in_params(jax.make_jaxpr(jax.jit(jnp.sin))(x).eqns[0].params)))]
state = core.get_opaque_trace_state(convention="test")
inside = []
jax.jit(lambda x: (inside.append(core.get_opaque_trace_state(convention="test")), x)[1])(1.0)
results += [state == core.get_opaque_trace_state(convention="test"), state == inside[0]]
"""
    )


def test_partial_evaluation_and_wrapped_functions():
    same(
        INVERSE
        + """
from jax.interpreters import partial_eval as pe, ad
from jax.extend import linear_util as lu

def wrap(f):
    info = jax.make_jaxpr(lambda x: x)(1.0).jaxpr.debug_info
    return lu.wrap_init(f, debug_info=info)

known, unknown = pe.PartialVal.known(jnp.float32(2.0)), pe.PartialVal.unknown(jax.core.ShapedArray((), jnp.float32))
jaxpr, out, consts = pe.trace_to_jaxpr_nounits(wrap(lambda x, y: (jnp.sin(x), x * y, 3.0)), [known, unknown])
results = [[p.is_known() for p in out], out[0].get_known(), out[2].get_known(), list(consts), len(jaxpr.outvars)]
results.append(jax.core.eval_jaxpr(jaxpr, consts, 5.0))
c = jnp.arange(3.0)
aval = jax.core.ShapedArray((3,), jnp.float32)
jaxpr, avals, consts = pe.trace_to_jaxpr_dynamic(wrap(lambda x: (jnp.sin(x) + c, jnp.cos(x))), [aval])
results += [len(jaxpr.constvars), len(jaxpr.invars), list(consts), avals[0].shape]
smaller, used = pe.dce_jaxpr(jaxpr, [False, True])
results += [used, [str(e.primitive) for e in smaller.eqns]]

@lu.transformation_with_aux2
def counting(f, store, factor, *args):
    out = f(*[factor * x for x in args])
    store.store(len(args))
    return out

@lu.transformation
def shifted(shift, *args):
    out = yield [x + shift for x in args], {}
    yield out * 100

f, n = counting(wrap(lambda x, y: x - y), 10)
results += [f.call_wrapped(3.0, 2.0), n()]
results.append(shifted(wrap(lambda x: x * 2), 1).call_wrapped(4.0))
calls = []

@lu.cache
def remembered(fun, n):
    calls.append(n)
    return fun.call_wrapped(n)

def double(x):
    return 2 * x

results += [remembered(wrap(double), 4), remembered(wrap(double), 4), remembered(wrap(double), 5), calls]
zero = ad.Zero(jax.core.ShapedArray((2,), jnp.float32))
leaves, tree = jax.tree.flatten(zero)
results += [leaves, jax.tree.unflatten(tree, leaves).aval.shape, ad.instantiate_zeros(zero), ad.instantiate_zeros(3.0)]
"""
    )


def test_classes_of_traces_are_refused_by_name():
    quire = run("import jax.core\nimport jax.errors", "quire")["quire"]
    # Libraries define such classes that most of their users never need, so the error is that of making one.
    trace = type("MyTrace", (quire.core.Trace,), {})
    with pytest.raises(quire.errors.CustomTraceError, match="one kind of trace.*make_jaxpr"):
        trace("mine")
    tracer = type("MyTracer", (quire.core.Tracer,), {})
    with pytest.raises(quire.errors.CustomTraceError, match="class MyTracer derives from quire's Tracer"):
        tracer(None, None)


def test_effects_keep_equations():
    same(
        INVERSE
        + """
from jax.interpreters import mlir, ad, batching

class Noted(core.Effect):
    __str__ = lambda self: "Noted"

noted = Noted()
note_p = core.Primitive("note")
note_p.multiple_results = True
note_p.def_effectful_abstract_eval(lambda x: ([], {noted}))
note_p.def_impl(lambda x: [])
closed = jax.make_jaxpr(lambda x: (note_p.bind(x), x * 2)[1])(1.0)
results = [[str(e.primitive) for e in closed.eqns], noted in closed.effects, noted in closed.eqns[0].effects]
"""
    )
