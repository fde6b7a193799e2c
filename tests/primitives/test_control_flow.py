"""Control flow: compiled against the reference against JAX, and the texts of the type rules' errors."""

import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax as jl

import quire as qr
import quire.numpy as qnp
from quire import lax
from quire.backends import reference
from quire.compiling.compiler import compile_program
from quire.compiling.request import Request
from quire.ir.avals import ShapedArray
from quire.ir.jaxpr import ClosedJaxpr
from quire.ir.primitives import control_flow as cf
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import indexing
from quire.ir.tracing import trace_flat
from quire.runtime import buffers
from quire.runtime.devices import devices
from tests.helpers import Case, check, trace

F = np.float32
DTYPES = (
    np.bool_, np.int8, np.int16, np.int32, np.uint8, np.uint16, np.uint32, np.float16, jnp.bfloat16, np.float32,
    np.complex64,
)  # fmt: skip


class Q:
    """quire's operations under the names that a case uses."""

    lax = lax
    sin, cos, exp, abs, mul, add = map(staticmethod, (qnp.sin, qnp.cos, qnp.exp, qnp.abs, qnp.multiply, qnp.add))
    gt, lt, sum = map(staticmethod, (qnp.greater, qnp.less, qnp.sum))
    int32 = staticmethod(lambda x: ew.convert_element_type(x, np.int32))


class J:
    """The same of JAX."""

    lax = jl
    sin, cos, exp, abs, mul, add = map(staticmethod, (jnp.sin, jnp.cos, jnp.exp, jnp.abs, jnp.multiply, jnp.add))
    gt, lt, sum = map(staticmethod, (jnp.greater, jnp.less, jnp.sum))
    int32 = staticmethod(lambda x: x.astype(jnp.int32))


def cond_captured(m, x, v):
    return m.lax.cond(m.gt(x, 0.5), lambda y: m.mul(m.sin(y), m.sum(v)), lambda y: m.exp(y), x)


def cond_pytree(m, x, v):
    out = m.lax.cond(m.gt(x, 0.5), lambda y, w: {"a": y, "b": (w, y)}, lambda y, w: {"a": m.sin(y), "b": (w, y)}, x, v)
    return out["a"], *out["b"]


def cond_number(m, x, v):
    return m.lax.cond(m.int32(x), lambda: x, lambda: m.sin(x))


def cond_operand(m, x, v):
    return m.lax.cond(m.gt(x, 0.5), lambda y: m.add(y, 1.0), lambda y: y, operand=x)


def switch_clamps(m, x, v):
    fs = [m.sin, m.cos, m.exp]
    return [m.lax.switch(np.int32(i), fs, x) for i in (-7, 0, 1, 2, 100)] + [m.lax.switch(np.uint8(200), fs, x)]


def switch_traced(m, x, v):
    return [m.lax.switch(m.int32(m.mul(x, k)), [m.sin, m.cos, m.exp], x) for k in (-100.0, 0.0, 2.0, 4.0, 1e6)]


def while_scalar(m, x, v):
    return m.lax.while_loop(lambda c: m.lt(c, 10.0), lambda c: m.add(c, m.exp(x)), x)


def while_error(m, x, v):
    # The condition reads a value that the body overwrites without reading it.
    return m.lax.while_loop(
        lambda c: m.gt(c[1], 0.1), lambda c: (m.mul(c[0], 0.5), m.abs(m.mul(c[0], 2.0))), (x, F(10))
    )


def while_flag(m, x, v):
    return m.lax.while_loop(
        lambda c: c[1], lambda c: (m.add(c[0], 1.0), m.lt(c[0], 5.0), m.add(c[2], 1)), (x, np.True_, np.int32(0))
    )


def while_flag_and_counter(m, x, v):
    return m.lax.while_loop(
        lambda c: m.mul(c[1], m.lt(c[2], 3)), lambda c: (m.add(c[0], 1.0), m.lt(c[0], 5.0), m.add(c[2], 1)),
        (x, np.True_, np.int32(0)),
    )  # fmt: skip


def while_vector(m, x, v):
    return m.lax.while_loop(lambda c: m.lt(m.sum(c), 100.0), lambda c: m.mul(c, 2.0), v)


def while_never(m, x, v):
    return m.lax.while_loop(lambda c: m.lt(c, -1.0), lambda c: m.mul(c, 2.0), x)


def while_empty_carry_part(m, x, v):
    return m.lax.while_loop(
        lambda c: m.lt(c[0], 4.0), lambda c: (m.add(c[0], 1.0), m.mul(c[1], 2.0)), (x, np.zeros((0, 3), F))
    )


def while_nested(m, x, v):
    inner = lambda c: m.lax.while_loop(lambda d: m.lt(d, m.add(c, 3.0)), lambda d: m.mul(d, 1.5), c)  # noqa: E731
    return m.lax.while_loop(lambda c: m.lt(c, 50.0), inner, x)


def fori_static(m, x, v):
    return m.lax.fori_loop(0, 5, lambda i, c: m.add(m.mul(c, 1.5), m.mul(x, i)), v)


def fori_dynamic(m, x, v):
    return m.lax.fori_loop(m.int32(x), m.int32(m.mul(x, 10.0)), lambda i, c: m.mul(c, 1.5), v)


def fori_none(m, x, v):
    return m.lax.fori_loop(3, 3, lambda i, c: m.mul(c, 1.5), v), m.lax.fori_loop(5, -3, lambda i, c: m.mul(c, 1.5), v)


def scan_forward(m, x, v):
    return m.lax.scan(lambda c, y: (m.add(c, m.mul(y, x)), m.mul(c, y)), x, v)


def scan_reverse(m, x, v):
    return m.lax.scan(lambda c, y: (m.add(c, m.mul(y, x)), m.mul(c, y)), x, v, reverse=True)


def scan_unrolled(m, x, v):
    out = []
    for unroll in (2, 3, 4, 7, True):
        for reverse in (False, True):
            out += m.lax.scan(lambda c, y: (m.add(m.mul(c, 1.1), y), m.mul(c, y)), x, v, reverse=reverse, unroll=unroll)
    return out


def scan_tree(m, x, v):
    def body(c, y):
        return {"n": m.add(c["n"], 1), "s": m.add(c["s"], y[0])}, (y[1], {"z": c["s"]})

    c, (p, q) = m.lax.scan(body, {"n": np.int32(0), "s": x}, (v, m.mul(v, 2.0)))
    return c["n"], c["s"], p, q["z"]


def scan_no_xs(m, x, v):
    return m.lax.scan(lambda c, _: (m.mul(c, 1.5), c), x, None, length=4)


def scan_zero_length(m, x, v):
    return m.lax.scan(lambda c, y: (m.add(c, m.sum(y)), y), x, np.zeros((0, 3), F))


def scan_one(m, x, v):
    return m.lax.scan(lambda c, y: (m.add(c, m.sum(y)), m.mul(y, 2.0)), x, np.ones((1, 3), F))


def scan_rows(m, x, v):
    return m.lax.scan(lambda c, y: (m.add(c, y), m.mul(c, y)), np.zeros(3, F), np.arange(15, dtype=F).reshape(5, 3))


def weak_carry(m, x, v):
    # The carry starts as a Python int and comes back as float32.
    return m.lax.while_loop(lambda c: m.lt(c, 5.0), lambda c: m.add(c, x), 0), m.lax.scan(
        lambda c, y: (m.add(c, y), None), 0, v
    )[0]


BOTH = [
    cond_captured, cond_pytree, cond_number, cond_operand, switch_clamps, switch_traced, while_scalar, while_error,
    while_flag, while_flag_and_counter, while_vector, while_never, while_empty_carry_part, while_nested, fori_static,
    fori_dynamic, fori_none, scan_forward, scan_reverse, scan_unrolled, scan_tree, scan_no_xs, scan_zero_length,
    scan_one, scan_rows, weak_carry,
]  # fmt: skip


def flat(m, f):
    def call(x, v):
        out = f(m, x, v)
        return (
            [y for part in out for y in (part if isinstance(part, list | tuple) else [part])]
            if isinstance(out, list | tuple)
            else out
        )

    return call


def test_against_jax():
    # Sums of a few products in another order, and exp/sin to 2 ulp: 1e-5 covers them.
    args = (F(0.7), np.linspace(0.1, 2.0, 7, dtype=F))
    check([Case(f.__name__, flat(Q, f), args, flat(J, f), rtol=1e-5, atol=1e-6) for f in BOTH])


def test_every_dtype_is_carried_and_stacked():
    cases = []
    for dtype in DTYPES:
        xs = np.asarray([0, 1, 1, 0, 1]).astype(dtype)

        def f(xs, m=lax):
            carry, ys = m.scan(lambda c, y: (y, c), xs[0], xs)
            picked = m.cond(np.True_, lambda: xs, lambda: ys)
            last = m.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, xs), (np.int32(0), ys))[1]
            return carry, ys, picked, last

        def g(xs, f=f):
            return f(jnp.asarray(xs), jl)

        cases.append(Case(np.dtype(dtype).name, f, [xs], g, exact=True))
    check(cases)


def test_64_bit_dtypes(x64):
    cases = []
    for dtype in (np.int64, np.uint64, np.float64, np.complex128):
        xs = np.asarray([0, 1, 2, 3]).astype(dtype)
        cases.append(
            Case(
                np.dtype(dtype).name,
                lambda xs: lax.scan(lambda c, y: (c + y, c), xs[0], xs),
                [xs],
                lambda xs: [np.sum(xs), np.concatenate([[0], np.cumsum(xs)[:-1]]).astype(xs.dtype)],
            )
        )
    check(cases)


def test_bounded_while_stops():
    def f(x, n=3):
        return lax.while_loop(lambda c: c < 100.0, lambda c: c * 2.0, x, max_steps=n)

    def hidden(x):
        return lax.while_loop(
            lambda c: c[1] > 0.1, lambda c: (c[0] * 0.5, ew.abs(c[0] * 2.0)), (x, np.float32(10)), max_steps=50
        )

    check(
        [
            Case("ends by the bound", f, [F(1)], lambda x: F(8)),
            Case("ends by the condition", lambda x: f(x, 50), [F(1)], lambda x: F(128)),
            Case("no steps", lambda x: f(x, 0), [F(1)], lambda x: F(1)),
            Case("value that the condition reads is overwritten", hidden, [F(4)]),
        ]
    )


def updated(c, i, value):
    return indexing.dynamic_update_slice(c, np.full((1,), value, F), (i,))


ALIASES = [
    # A loop that may not run at all, or hands its carry on, returns its argument; so may a branch.
    lambda x, n: updated(lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, c[1]), (0, x))[1], 0, 50.0),
    lambda x, n: updated(lax.cond(n > 0, lambda: x, lambda: x * 2.0), 0, 50.0),
    lambda x, n: updated(lax.cond(n > 0, lambda: (x, x), lambda: (x * 2.0, x))[1], 0, 50.0),
    lambda x, n: updated(lax.scan(lambda c, _: (c, None), x, None, length=3)[0], 0, 50.0),
    lambda x, n: lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, updated(c[1], c[0], 7.0)), (0, x))[1],
    lambda x, n: lax.scan(lambda c, i: (updated(c, i, 9.0), c[0]), x, np.arange(3, dtype=np.int32))[0],
    lambda x, n: lax.fori_loop(0, 3, lambda i, c: c + updated(x, i, 9.0), x),
]


def test_arguments_are_not_written():
    x = np.arange(6, dtype=F)
    closed = trace(lambda x, n: [f(x, n) for f in ALIASES], (x, np.int32(0)))
    device = devices("cpu")[0]
    program = compile_program(Request(closed, device.target, "aliases"), device)
    for n in (0, 2):
        views = [buffers.from_numpy(np.asarray(a), device, copy=True) for a in (x, np.int32(n))]
        out = program.executable.execute([views[i] for i in program.artifact.kept])
        np.testing.assert_array_equal(buffers.to_numpy(views[0], device), x)
        for (kind, i), want in zip(program.artifact.results, reference.eval_jaxpr(closed, x, np.int32(n)), strict=True):
            assert kind == "result"
            np.testing.assert_array_equal(buffers.to_numpy(out[i], device), want)


# -- errors -----------------------------------------------------------------------------------------------------------


def closed(f, *avals):
    jaxpr, _, _ = trace_flat(f, avals)
    return ClosedJaxpr(jaxpr)


f32 = ShapedArray((), np.dtype(F))
i32 = ShapedArray((), np.dtype(np.int32))


def test_type_rule_errors():
    same = closed(lambda x: [x], f32)
    with pytest.raises(TypeError, match=r"cond: the index must be i32\[\], got f32\[\]"):
        cf.cond_p.infer([f32, f32], {"branches": (same, same)})
    with pytest.raises(TypeError, match=r"cond: branch 1: the nested jaxpr takes \(i32\[\]\), got \(f32\[\]\)"):
        cf.cond_p.infer([i32, f32], {"branches": (same, closed(lambda x: [x], i32))})
    with pytest.raises(TypeError, match=r"branch 0 returns \(f32\[\]\), branch 1 returns \(bool\[\]\)"):
        cf.cond_p.infer([i32, f32], {"branches": (same, closed(lambda x: [ew.gt(x, 0.0)], f32))})
    loop = {"cond_jaxpr": same, "body_jaxpr": same, "cond_nconsts": 0, "body_nconsts": 0}
    with pytest.raises(TypeError, match=r"while: the condition must return one bool scalar, got \(f32\[\]\)"):
        cf.while_p.infer([f32], loop)
    body = {
        "jaxpr": closed(lambda c, x: [c, x], f32, f32), "length": 3, "reverse": False, "linear": (False, False),
        "num_consts": 0, "num_carry": 1, "unroll": 1,
    }  # fmt: skip
    with pytest.raises(TypeError, match=r"scan: every xs must have the leading dimension 3, got f32\[4\]"):
        cf.scan_p.infer([f32, ShapedArray((4,), f32.dtype)], body)
    with pytest.raises(ValueError, match="scan: unroll must be at least 1, got 0"):
        cf.scan_p.infer([f32, ShapedArray((3,), f32.dtype)], {**body, "unroll": 0})


X = np.float32(1.0)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: lax.cond(np.ones(3), ew.sin, ew.cos, X), TypeError, r"pred must be a scalar, got f\d+\[3\]"),
        (lambda: lax.cond("a", ew.sin, ew.cos, X), TypeError, "pred must be a bool or number scalar, got 'a'"),
        (lambda: lax.cond(True, 3, ew.cos, X), TypeError, "true_fun must be a function, got 3"),
        (lambda: lax.cond(True, lambda x: x, lambda x: (x, x), X), TypeError, "must return the same structure"),
        (
            lambda: lax.cond(True, lambda x: x, lambda x: ew.gt(x, 0.0), X), TypeError,
            r"true_fun returns f32\[\], false_fun returns bool\[\]",
        ),
        (lambda: lax.cond(True, ew.sin, ew.cos, X, operand=X), TypeError, "by position or as operand=, not both"),
        (lambda: lax.switch(0, []), ValueError, "at least one branch"),
        (lambda: lax.switch(X, [ew.sin, ew.cos], X), TypeError, r"index must be an integer scalar, got f32\[\]"),
        (
            lambda: lax.while_loop(lambda c: c, lambda c: c, X), TypeError,
            r"cond_fun <lambda> must return a bool scalar, got f32\[\]",
        ),
        (
            lambda: lax.while_loop(lambda c: c[0] < 1.0, lambda c: (c[0], ew.gt(c[1], 0.0)), (X, X)), TypeError,
            r"carry\[1\]: takes f32\[\], returns bool\[\] \(the dtypes differ\)",
        ),
        (lambda: lax.while_loop(lambda c: True, lambda c: (c, c), X), TypeError, "a carry of the structure it takes"),
        (lambda: lax.while_loop(lambda c: True, lambda c: c, X, max_steps=-1), ValueError, "max_steps must be a non-neg"),
        (lambda: lax.fori_loop(0j, 3, lambda i, c: c, X), TypeError, r"lower must be a real scalar, got c64\[\]"),
        (lambda: lax.scan(lambda c, x: c, X, np.ones(3, F)), TypeError, r"must return a pair \(carry, y\)"),
        (lambda: lax.scan(lambda c, x: (c, x), X), ValueError, "xs holds no arrays: give length="),
        (
            lambda: lax.scan(lambda c, x: (c, x), X, (np.ones(3, F), np.ones(4, F))), ValueError,
            r"same leading dimension, got xs\[0\]: 3, xs\[1\]: 4",
        ),
        (
            lambda: lax.scan(lambda c, x: (c, x), X, np.ones(3, F), length=5), ValueError,
            "length is 5, but the leading dimension of xs has 3",
        ),
        (lambda: lax.scan(lambda c, x: (c, x), X, X), ValueError, r"xs is f32\[\]: every xs must have a leading"),
        (
            lambda: lax.scan(lambda c, x: ({"w": c["w"][None]}, x), {"w": X}, np.ones(3, F)), TypeError,
            r"carry\['w'\]: takes f32\[\], returns f32\[1\] \(the shapes differ\)",
        ),
        (lambda: lax.scan(lambda c, x: (c, "y"), X, np.ones(3, F)), TypeError, "returned a value that is not an array"),
    ],
)  # fmt: skip
def test_errors_of_the_user(call, error, text):
    with pytest.raises(error, match=text):
        call()


def test_disable_jit_runs_python():
    seen = []
    with qr.config.override(disable_jit=True):
        assert float(lax.cond(True, lambda x: x, lambda x: seen.append(x), X)) == 1.0
        assert float(lax.while_loop(lambda c: c < 3.0, lambda c: (seen.append(float(c)), c + 1.0)[1], X)) == 3.0
        carry, ys = lax.scan(lambda c, x: (c + x, c), X, np.ones(3, F))
    assert seen == [1.0, 2.0]
    np.testing.assert_array_equal(np.asarray(ys), [1.0, 2.0, 3.0])
    assert float(carry) == 4.0


def test_unroll_of_nothing_is_a_loop_as_it_is():
    assert float(lax.scan(lambda c, x: (c + x, c), 0.0, np.arange(3.0, dtype=np.float32), unroll=0)[0]) == 3
    with pytest.raises(ValueError, match="scan: unroll must be an int that is not negative or a bool, got -1"):
        lax.scan(lambda c, x: (c, x), 0.0, np.arange(3.0), unroll=-1)
