"""Derivatives and batching of control flow and calls, through the public functions, against JAX."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax as jl

import quire as qr
import quire.numpy as qnp
from quire.backends import reference
from quire.ir.jaxpr import all_eqns
from tests.helpers import run_compiled, trace

F = np.float32
X, V = F(0.7), np.linspace(0.1, 0.9, 4, dtype=F)
XS = np.array([0.3, 0.7, 1.5], F)
VS = np.random.default_rng(0).uniform(0.1, 1.0, (4, 3)).astype(F)


class Q:
    lax, np, checkpoint = qr.lax, qnp, staticmethod(qr.checkpoint)
    custom_jvp, custom_vjp = qr.custom_jvp, qr.custom_vjp
    jit = staticmethod(qr.jit)
    policies = qr.checkpoint_policies


class J:
    lax, np, checkpoint = jl, jnp, staticmethod(jax.checkpoint)
    custom_jvp, custom_vjp = jax.custom_jvp, jax.custom_vjp
    jit = staticmethod(jax.jit)
    policies = jax.checkpoint_policies


def cond_taken(m, x, v):
    return m.lax.cond(x > 0.0, lambda y: m.np.sin(y * m.np.sum(v)), lambda y: m.np.cos(y), x)


def cond_residuals_differ(m, x, v):
    return m.lax.cond(x > 1.0, lambda y: m.np.sin(y * m.np.sum(v)), lambda y: m.np.exp(m.np.cos(y)), x)


def switch(m, x, v):
    fs = [m.np.sin, lambda y: y * m.np.sum(v), lambda y: m.np.exp(y) * v[0]]
    return m.lax.switch((x * 2.0).astype("int32"), fs, x)


def scan_consts_and_ys(m, x, v):
    c, ys = m.lax.scan(lambda c, y: (m.np.sin(c * y), c * m.np.exp(x)), x, v)
    return c + m.np.sum(ys * ys)


def scan_fixed_carry(m, x, v):
    (c, _), _ = m.lax.scan(
        lambda c, y: ((m.np.sin(c[0] * y * m.np.exp(c[1])), c[1]), None), (x, x * 2.0), v, reverse=True
    )
    return c


def scan_no_xs(m, x, v):
    c, ys = m.lax.scan(lambda c, _: (m.np.sin(c * x), c), x, None, length=3)
    return c * m.np.sum(ys)


def scan_unrolled(m, x, v):
    c, ys = m.lax.scan(lambda c, y: (m.np.sin(c * y), c * y), x, v, unroll=3)
    return c + m.np.sum(ys)


def scan_of_cond(m, x, v):
    def body(c, y):
        c = m.lax.cond(c > 0.3, lambda z: m.np.sin(z * y), lambda z: m.np.exp(z * x), c)
        return c, m.np.tanh(c)

    c, ys = m.lax.scan(body, x, v)
    return c + m.np.sum(ys)


def scan_of_scan(m, x, v):
    def outer(c, y):
        d, _ = m.lax.scan(lambda a, b: (m.np.sin(a * (b + y)), None), c, v)
        return d, d

    c, ys = m.lax.scan(outer, x, v)
    return c + m.np.sum(ys)


def scan_integer_carry(m, x, v):
    def body(c, y):
        i, a = c
        return (i + 1, m.np.sin(a * y) * i), None

    return m.lax.scan(body, (1, x), v)[0][1]


def fori(m, x, v):
    return m.np.sum(m.lax.fori_loop(0, 5, lambda i, c: m.np.sin(c * x), v))


def mapped(m, x, v):
    return m.np.sum(m.lax.map(lambda y: m.np.sin(y * x), v))


def prefix_products(m, x, v):
    return m.np.sum(m.lax.associative_scan(lambda a, b: a * b, v * x) ** 2)


def checkpointed(m, x, v):
    return m.checkpoint(lambda y: m.np.sin(m.np.sin(y * m.np.sum(v))))(x)


def checkpointed_scan(m, x, v):
    body = m.checkpoint(lambda c, y: (m.np.sin(m.np.exp(c * y)), None))
    return m.lax.scan(body, x, v)[0]


def jitted(m, x, v):
    g = m.jit(lambda a, b: (m.np.sin(a * b), a + b))
    p, q = g(x, m.np.sum(v))
    return p * g(q, x)[0]


def custom_jvp(m, x, v):
    @m.custom_jvp
    def f(a, b):
        return m.np.sin(a) * b

    @f.defjvp
    def _(primals, tangents):
        a, b = primals
        da, db = tangents
        return f(a, b), 2.0 * m.np.cos(a) * b * da + m.np.sin(a) * db

    return m.lax.scan(lambda c, y: (f(c, y), None), x, v)[0]


def custom_vjp(m, x, v):
    @m.custom_vjp
    def f(a, b):
        return m.np.sin(a) * b

    f.defvjp(lambda a, b: (f(a, b), (a, b)), lambda r, ct: (3.0 * m.np.cos(r[0]) * r[1] * ct, m.np.sin(r[0]) * ct))
    return m.lax.scan(lambda c, y: (f(c, y), None), x, v)[0] + f(x, v[1])


def linear_solve(m, x, v):
    a = x + 2.0
    return m.np.sum(m.lax.custom_linear_solve(lambda y: a * y, v * x, lambda mv, b: b / a, symmetric=True) ** 2)


def root(m, x, v):
    a = x * m.np.sum(v) + 1.0

    def newton(f, guess):
        return m.lax.fori_loop(0, 20, lambda i, y: y - (y**3 - a) / (3.0 * y**2), guess)

    solve = lambda g, y: y / g(1.0)  # noqa: E731
    return m.np.sin(m.lax.custom_root(lambda y: y**3 - a, F(1.0), newton, solve))


def while_forward(m, x, v):
    return m.lax.while_loop(lambda c: c[0] < 10.0, lambda c: (c[0] * m.np.exp(x), c[1] + 1), (x, 0))[0]


def while_lanes(m, x, v):
    a, b = m.lax.while_loop(lambda c: c[1] < 5.0, lambda c: (c[0] * m.np.exp(x), c[1] + 1.0), (m.np.sum(v), 0.0))
    return a + b


REVERSE = [
    cond_taken, cond_residuals_differ, switch, scan_consts_and_ys, scan_fixed_carry, scan_no_xs, scan_unrolled,
    scan_of_cond, scan_of_scan, scan_integer_carry, fori, mapped, prefix_products, checkpointed, checkpointed_scan,
    jitted, custom_jvp, custom_vjp, linear_solve, root,
]  # fmt: skip
FORWARD = [f for f in REVERSE if f is not custom_vjp] + [while_forward, while_lanes]


def pair(f):
    return (lambda x, v: f(Q, x, v)), (lambda x, v: f(J, x, v))


def close(got, want, rtol=1e-4, atol=1e-5):
    for g, w in zip(got, want, strict=True):
        np.testing.assert_allclose(np.asarray(g), np.asarray(w), rtol=rtol, atol=atol)


def evaluate(f, *args):
    """By the reference, without compiling."""
    return reference.eval_jaxpr(trace(f, args), *args)


@pytest.mark.parametrize("f", REVERSE, ids=lambda f: f.__name__)
def test_reverse(f):
    q, j = pair(f)
    value, grads = jax.value_and_grad(j, (0, 1))(X, V)
    close(evaluate(lambda x, v: [(o := qr.value_and_grad(q, (0, 1))(x, v))[0], *o[1]], X, V), [value, *grads])


@pytest.mark.parametrize("f", FORWARD, ids=lambda f: f.__name__)
def test_forward(f):
    q, j = pair(f)
    close(evaluate(lambda x, v: qr.jvp(q, (x, v), (x * 0.5, v)), X, V), jax.jvp(j, (X, V), (X * F(0.5), V)))


@pytest.mark.parametrize("f", [f for f in REVERSE if f not in (custom_jvp, custom_vjp)], ids=lambda f: f.__name__)
def test_second_order(f):
    q, j = pair(f)
    qg, jg = (lambda x, v: qr.grad(q, (0, 1))(x, v)), jax.grad(j, (0, 1))
    t = (F(0.5), V)
    # Second derivatives of these compositions lose two digits more.
    close(evaluate(lambda x, v: qr.jvp(qg, (x, v), t)[1], X, V), jax.jvp(jg, (X, V), t)[1], 2e-3, 1e-4)
    close(evaluate(lambda x, v: qr.vjp(qg, x, v)[1](t), X, V), jax.vjp(jg, X, V)[1](t), 2e-3, 1e-4)


def test_second_order_keeps_the_rule_of_the_user():
    """Inside scan as outside; JAX itself forgets the rule of the forward pass inside scan."""

    def unrolled(x, v):
        @jax.custom_jvp
        def f(a, b):
            return jnp.sin(a) * b

        f.defjvp(lambda p, t: (f(*p), 2.0 * jnp.cos(p[0]) * p[1] * t[0] + jnp.sin(p[0]) * t[1]))
        for y in v:
            x = f(x, y)
        return x

    qg = lambda x, v: qr.grad(pair(custom_jvp)[0], (0, 1))(x, v)  # noqa: E731
    t = (F(0.5), V)
    want = jax.jvp(jax.grad(unrolled, (0, 1)), (X, V), t)[1]
    close(evaluate(lambda x, v: qr.jvp(qg, (x, v), t)[1], X, V), want, 2e-3, 1e-4)


@pytest.mark.parametrize("f", [*REVERSE, while_forward, while_lanes], ids=lambda f: f.__name__)
def test_batching(f):
    q, j = pair(f)
    for (dx, x), (dv, v) in itertools.product([(None, X), (0, XS)], [(None, V), (1, VS)]):
        if dx is None and dv is None:
            continue
        want = jax.vmap(j, (dx, dv))(x, v)
        close(evaluate(lambda x, v: [qr.vmap(q, (dx, dv))(x, v)], x, v), [want])  # noqa: B023


@pytest.mark.parametrize("f", REVERSE, ids=lambda f: f.__name__)
def test_batching_and_reverse(f):
    q, j = pair(f)
    want = jax.vmap(jax.grad(j, (0, 1)), (0, 1))(XS, VS)
    close(evaluate(lambda x, v: qr.vmap(qr.grad(q, (0, 1)), (0, 1))(x, v), XS, VS), want, 1e-3, 1e-4)
    total = jax.grad(lambda x, v: jax.vmap(j, (0, 1))(x, v).sum(), (0, 1))(XS, VS)
    got = evaluate(lambda x, v: qr.grad(lambda x, v: qr.vmap(q, (0, 1))(x, v).sum(), (0, 1))(x, v), XS, VS)
    close(got, total, 1e-3, 1e-4)


@pytest.mark.parametrize("part", range(5))
def test_compiled_derivatives(part):
    """Against the reference. In parts: IREE 3.13 builds a wrong command buffer for some modules of many loops."""

    def everything(x, v):
        out = []
        for f in REVERSE[part::5]:
            out += qr.grad(pair(f)[0], (0, 1))(x, v)
        if part == 0:
            for f in (while_forward, while_lanes):
                out.append(qr.vmap(pair(f)[0], (0, None))(x * np.arange(1, 4, dtype=F), v))
        return out

    closed = trace(everything, (X, V))
    close(run_compiled(closed, (X, V)), reference.eval_jaxpr(closed, X, V))


# -- while with a bound -------------------------------------------------------------------------------------------------


def bounded(x, v):
    out = qr.lax.while_loop(
        lambda c: c[0] < 10.0, lambda c: (c[0] * (1.0 + x * x), c[1] + qnp.sin(c[0] * v)), (x, v), max_steps=30
    )
    return out[0] + qnp.sum(out[1])


def unrolled(x, v):
    a, b = x, v
    while a < 10.0:
        a, b = a * (1.0 + x * x), b + jnp.sin(a * v)
    return a + jnp.sum(b)


def test_bounded_while_in_reverse():
    close(evaluate(lambda x, v: qr.grad(bounded, (0, 1))(x, v), X, V), jax.grad(unrolled, (0, 1))(X, V))
    close(evaluate(lambda x, v: qr.jvp(bounded, (x, v), (x, v)), X, V), jax.jvp(unrolled, (X, V), (X, V)))
    got = evaluate(lambda x, v: [qr.jacfwd(qr.grad(bounded))(x, v)], X, V)
    close(got, [jax.jacfwd(jax.grad(unrolled))(X, V)], 1e-3)


def test_bounded_while_saves_the_root_of_its_steps():
    """The residuals between forward and backward pass are those of about sqrt(n) blocks."""
    closed = trace(lambda x: [qr.grad(lambda x: qr.lax.while_loop(lambda c: c < 1e9, lambda c: c * 1.1, x,
                                                                   max_steps=10000))(x)], (X,))  # fmt: skip
    sizes = [v.aval.size for eqn in closed.jaxpr.eqns for v in eqn.outputs]
    assert max(sizes) <= 101


def test_reverse_of_while_names_the_alternative():
    f = lambda x: qr.lax.while_loop(lambda c: c < 10.0, lambda c: c * x, x)  # noqa: E731
    with pytest.raises(ValueError, match=r"while_loop cannot be differentiated in reverse.*test_control_flow_transforms"
                                        r".*max_steps=n"):  # fmt: skip
        qr.grad(f)(F(2.0))


# -- efficiency -----------------------------------------------------------------------------------------------------------


def eqns_of(f, *args):
    return [e.primitive.name for e in all_eqns(trace(f, args).jaxpr)]


def test_scan_does_not_stack_what_does_not_change():
    w = np.ones((8, 8), F)

    def loss(w, x):
        return qnp.sum(qr.lax.scan(lambda c, _: (qnp.sin(c * qnp.exp(w[0])), None), x, None, length=50)[0])

    closed = trace(lambda w, x: qr.grad(loss, (0, 1))(w, x), (w, np.ones(8, F)))
    stacked = [v.aval.shape for e in closed.jaxpr.eqns for v in e.outputs if v.aval.shape[:1] == (50,)]
    # cos and c are different in each iteration; exp(w[0]) and w are not.
    assert len(stacked) == 2
    inside = [e.primitive.name for e in closed.jaxpr.eqns if e.primitive.name == "exp"]
    assert inside == ["exp"] or "exp" not in inside


def test_nothing_is_computed_twice():
    names = eqns_of(lambda x, v: qr.grad(lambda x, v: scan_consts_and_ys(Q, x, v))(x, v), X, V)
    assert names.count("sin") <= 1 and names.count("cos") == 1 and names.count("exp") == 1
    names = eqns_of(lambda x, v: [qr.grad(lambda x, v: checkpointed(Q, x, v))(x, v)], X, V)
    assert names.count("sin") <= 3  # the forward pass is not needed for the gradient alone, the inner sine is


def test_equations_grow_as_the_number_of_calls():
    g = qr.jit(lambda x: qnp.sin(qnp.exp(x)) * x)

    def repeated(n):
        def f(x):
            for _ in range(n):
                x = g(x)
            return x

        return len(eqns_of(lambda x: [qr.grad(f)(x)], X))

    assert repeated(12) - repeated(8) == repeated(8) - repeated(4)


def test_policies_choose_what_is_kept():
    def f(x, policy):
        layer = qr.checkpoint(lambda y: qnp.sin(qr.ad_checkpoint.checkpoint_name(qnp.sin(y), "inner")), policy=policy)
        return layer(x)

    def backward_sines(policy):
        closed = trace(lambda x: [qr.grad(lambda x: f(x, policy))(x)], (X,))
        backward = [e for e in closed.jaxpr.eqns if e.primitive.name == "checkpoint" and e.params["differentiated"]]
        return [e.primitive.name for eqn in backward for e in all_eqns(eqn.params["jaxpr"].jaxpr)].count("sin")

    assert backward_sines(None) == 1
    assert backward_sines(qr.checkpoint_policies.nothing_saveable) == 1
    assert backward_sines(qr.checkpoint_policies.everything_saveable) == 0
    assert backward_sines(qr.checkpoint_policies.save_only_these_names("inner")) == 0
    assert backward_sines(qr.checkpoint_policies.save_only_these_names("other")) == 1
    for policy in (None, qr.checkpoint_policies.save_only_these_names("inner")):
        (got,) = evaluate(lambda x: [qr.grad(lambda x: f(x, policy))(x)], X)  # noqa: B023
        np.testing.assert_allclose(got, jax.grad(lambda x: jnp.sin(jnp.sin(x)))(X), rtol=1e-5)
