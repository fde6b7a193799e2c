"""Windowed reductions: compiled against the reference against JAX; their errors."""

from __future__ import annotations

import jax
import jax.lax as jl
import numpy as np
import pytest

from quire.ir import dtypes
from quire.ir.avals import ShapedArray
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import reductions as rd
from quire.ir.primitives import windows as wd
from tests.helpers import Case, check, thinned, trace
from tests.primitives.oracles import edge_array, tame_array, under_jax

SETTINGS = [
    {"window_dimensions": (2, 3), "window_strides": (1, 1), "padding": "VALID"},
    {"window_dimensions": (3, 2), "window_strides": (2, 3), "padding": "SAME"},
    {
        "window_dimensions": (2, 2),
        "window_strides": (1, 2),
        "padding": ((1, 0), (-1, 2)),
        "base_dilation": (2, 1),
        "window_dilation": (1, 2),
    },
    {"window_dimensions": (9, 1), "window_strides": (1, 1), "padding": "VALID"},
]
RTOL = {dtypes.float16: 4e-3, dtypes.bfloat16: 2e-2}


def window_cases(dtype, settings):
    tame, edge = tame_array(dtype, (6, 7)), edge_array(dtype, (6, 7))
    out = []
    for i, p in enumerate(settings):
        if dtype != dtypes.bool_:
            out.append(
                Case(
                    f"sum {dtype} {i}",
                    lambda a, p=p: wd.reduce_window_sum(a, **p),
                    (tame,),
                    under_jax(lambda a, p=p: jl.reduce_window(a, np.zeros((), dtype)[()], jl.add, **p)),
                    rtol=RTOL.get(dtype),
                )
            )
        if dtypes.is_complex(dtype):
            continue
        for name, op in (("max", jl.max), ("min", jl.min)):
            f = getattr(wd, f"reduce_window_{name}")
            init = rd.identity_of(name, dtype)
            out.append(
                Case(
                    f"{name} {dtype} {i}",
                    lambda a, p=p, f=f: f(a, **p),
                    (edge,),
                    under_jax(lambda a, p=p, op=op, init=init: jl.reduce_window(a, init, op, **p)),
                )
            )
    return out


def test_windows_are_jax_s_over_every_dtype(x64):
    check(thinned([c for d in dtypes.ALL for c in window_cases(d, SETTINGS[1:2])], 2))


def test_windows_are_jax_s_with_every_setting():
    check([c for d in (dtypes.float32, dtypes.uint8) for c in window_cases(d, SETTINGS)])


def test_generic_windows():
    x = tame_array(np.float32, (6, 7))
    p = SETTINGS[1]
    check(
        [
            Case(
                "mul",
                lambda a: wd.reduce_window([a], [1.0], ew.mul, **p),
                (x,),
                under_jax(lambda a: jl.reduce_window(a, np.float32(1), jl.mul, **p)),
                rtol=1e-5,
            ),
            Case(
                "pairs",
                lambda a, b: wd.reduce_window([a, b], [0.0, 1.0], lambda p, q, r, s: (ew.add(p, r), ew.mul(q, s)), **p),
                (x, x),
                under_jax(
                    lambda a, b: jl.reduce_window(
                        (a, b), (np.float32(0), np.float32(1)), lambda x, y: (x[0] + y[0], x[1] * y[1]), **p
                    )
                ),
                rtol=1e-5,
            ),
        ]
    )


def test_windows_of_dilated_arrays():
    """What SAME adds is that of the array without gaps; one window may reach padding alone."""
    settings = [
        {
            "window_dimensions": (4, 3),
            "window_strides": (3, 2),
            "padding": "SAME",
            "base_dilation": (3, 2),
            "window_dilation": (3, 1),
        },
        {
            "window_dimensions": (4, 2),
            "window_strides": (2, 1),
            "padding": "SAME_LOWER",
            "base_dilation": (2, 3),
            "window_dilation": (1, 2),
        },
        {
            "window_dimensions": (2, 2),
            "window_strides": (2, 1),
            "padding": ((2, 0), (0, 1)),
            "base_dilation": (3, 2),
            "window_dilation": (1, 1),
        },
    ]
    cases = [c for d in (dtypes.float32, dtypes.uint8) for c in window_cases(d, settings)]
    for i, p in enumerate(settings):
        for size in (1, 6):
            x = tame_array(np.float32, (size, 7))
            cases.append(
                Case(
                    f"mul {i} {size}",
                    lambda a, p=p: wd.reduce_window([a], [1.0], ew.mul, **p),
                    (x,),
                    under_jax(lambda a, p=p: jl.reduce_window(a, np.float32(1), jl.mul, **p)),
                    rtol=1e-5,
                )
            )
    check(cases)


def _farther(a, b):
    import quire.numpy as qnp

    return qnp.where(qnp.abs(a) < qnp.abs(b), b, a)


def _farther_by_jax(a, b):
    import jax.numpy as jnp

    return jnp.where(jnp.abs(a) < jnp.abs(b), b, a)


def test_derivatives_leave_integers_that_are_reduced_beside_out():
    """The derivative of a minimum over dilated windows reduces positions too: its own derivative failed to be lowered."""
    import quire
    from quire import lax
    from quire import numpy as qnp

    def least(x):
        windows = lax.reduce_window(x, np.float32(np.inf), lax.min, (2,), (3,), "VALID", window_dilation=(2,))
        return qnp.sum(windows * windows)

    def first(x):
        def smaller(a, b):
            k = a[0] < b[0]
            return qnp.where(k, a[0], b[0]), qnp.where(k, a[1], b[1])

        inits = np.float32(np.inf), np.int32(0)
        values, _ = lax.reduce_window((x, qnp.arange(x.size)), inits, smaller, (2,), (1,), "VALID")
        return qnp.sum(values * values)

    x, t = np.random.default_rng(0).standard_normal((2, 11)).astype(np.float32)
    check(
        [
            Case("jvp of grad", lambda x, t: quire.jvp(quire.grad(least), (x,), (t,)), [x, t]),
            Case("jvp", lambda x, t: quire.jvp(first, (x,), (t,)), [x, t]),
        ]
    )
    h = 1e-2
    slope = (least(x + h * t) - least(x - h * t)) / (2 * h)
    assert np.allclose(quire.jvp(least, (x,), (t,))[1], slope, rtol=1e-2)


def test_windows_hold_their_initial_values_once(x64):
    """Padding and gaps are no elements, whether the initial values are neutral or not."""
    cases = []
    for dtype in (np.float32, np.int8, np.uint16, np.float16):
        ours = [(ew.add, jl.add), (ew.mul, jl.mul), (ew.max, jl.max), (ew.min, jl.min), (_farther, _farther_by_jax)]
        if np.dtype(dtype).kind != "f":
            ours += [(ew.bitwise_xor, jl.bitwise_xor), (ew.bitwise_and, jl.bitwise_and), (ew.bitwise_or, jl.bitwise_or)]
        for k, (f, g) in enumerate(ours):
            p, init = SETTINGS[k % len(SETTINGS)], np.asarray(3, dtype)[()]
            for size in (6, 0) if k in (0, 4) else (6,):
                p = SETTINGS[1] if not size else p
                cases.append(
                    Case(
                        f"{dtype.__name__} {k} {size}",
                        lambda a, f=f, p=p, init=init: wd.reduce_window([a], [init], f, **p),
                        ((5 * tame_array(np.float32, (6, 7))).astype(dtype)[:size],),
                        under_jax(lambda a, g=g, p=p, init=init: jl.reduce_window(a, init, g, **p)),
                        rtol=4e-3,
                    )
                )
    x = tame_array(np.float32, (6, 7))
    p = SETTINGS[1]
    cases.append(
        Case(
            "pairs",
            lambda a, b: wd.reduce_window([a, b], [2.0, 3.0], lambda p, q, r, s: (ew.add(p, r), ew.mul(q, s)), **p),
            (x, x),
            under_jax(
                lambda a, b: jl.reduce_window(
                    (a, b), (np.float32(2), np.float32(3)), lambda x, y: (x[0] + y[0], x[1] * y[1]), **p
                )
            ),
            rtol=1e-5,
        )
    )
    check(cases)


def distinct(dtype, shape, seed=0):
    return np.random.default_rng(seed).permutation(int(np.prod(shape))).reshape(shape).astype(dtype)


POOLS = [
    {"window_dimensions": (2, 2), "window_strides": (2, 2), "padding": ((0, 0), (0, 0))},
    {"window_dimensions": (3, 2), "window_strides": (1, 1), "padding": ((1, 1), (0, 1))},
]


def _pool_gradient(p):
    def f(source, x):
        _, pull = jax.vjp(lambda a: jl.reduce_window(a, -np.inf, jl.max, **p), x)
        return pull(source)[0]

    return under_jax(f)


def _pool_tangent(p):
    full = p | {"base_dilation": (1, 1), "window_dilation": (1, 1)}
    ours = lambda t, x: wd.select_and_gather_add(t, x, "ge", **full)  # noqa: E731
    theirs = under_jax(lambda t, x: jax.jvp(lambda a: jl.reduce_window(a, -np.inf, jl.max, **p), (x,), (t,))[1])
    return ours, theirs


def test_select_and_scatter_and_gather():
    cases = []
    for i, p in enumerate(POOLS):
        for dtype in (np.float32, np.float16):
            x, t = distinct(dtype, (6, 7)), tame_array(dtype, (6, 7), 1)
            source = tame_array(
                dtype, jax.eval_shape(lambda a, p=p: jl.reduce_window(a, -np.inf, jl.max, **p), x).shape, 2
            )
            cases.append(
                Case(
                    f"scatter {dtype} {i}",
                    lambda s, a, p=p: wd.select_and_scatter_add(s, a, "ge", **p),
                    (source, x),
                    _pool_gradient(p),
                    rtol=4e-3,
                )
            )
            ours, theirs = _pool_tangent(p)
            cases.append(Case(f"gather {dtype} {i}", ours, (t, x), theirs))
        x = np.zeros((6, 7), np.float32)  # ties: the first element of each window
        cases.append(
            Case("ties", lambda s, a, p=p: wd.select_and_scatter_add(s, a, "le", **p), (source.astype(np.float32), x))
        )
        cases.append(
            Case(
                f"generic {i}",
                lambda a, s, p=p: wd.select_and_scatter(a, s, 1.0, ew.ge, ew.add, **p),
                (distinct(np.float32, (6, 7)), source.astype(np.float32)),
                lambda a, s, p=p: _pool_gradient(p)(s, a) + np.float32(1),
                rtol=1e-5,
            )
        )
    check(cases)


@pytest.mark.parametrize(
    ("f", "init", "name"),
    [
        (ew.add, 0.0, "reduce_window_sum"),
        (ew.max, -np.inf, "reduce_window_max"),
        (ew.min, np.inf, "reduce_window_min"),
        (ew.mul, 1.0, "reduce_window"),
    ],
)
def test_known_monoids_get_their_own_primitive(f, init, name):
    closed = trace(lambda a: wd.reduce_window([a], [init], f, (2,)), [np.ones(3, np.float32)])
    assert [e.primitive.name for e in closed.eqns] == [name]


X = ShapedArray((4, 5), dtypes.float32)
ONES = {"window_strides": (1, 1), "padding": ((0, 0), (0, 0)), "base_dilation": (1, 1), "window_dilation": (1, 1)}


@pytest.mark.parametrize(
    ("infer", "error", "text"),
    [
        (
            lambda: wd.reduce_window_sum_p.type_rule(X, window_dimensions=(2,), **ONES),
            ValueError,
            "reduce_window_sum: window_dimensions (2,) must hold one value for each dimension of f32[4,5]",
        ),
        (
            lambda: wd.reduce_window_max_p.type_rule(X, window_dimensions=(2, 0), **ONES),
            TypeError,
            "reduce_window_max: window_dimensions (2, 0) must be positive",
        ),
        (
            lambda: wd.reduce_window([np.ones(3, np.float32)], [0.0], ew.add, (2,), padding="FULL"),
            ValueError,
            "padding must be 'SAME', 'SAME_LOWER', 'VALID' or (low, high) pairs, got 'FULL'",
        ),
        (
            lambda: wd.select_and_scatter_add_p.type_rule(
                X, X, select_prim="ge", window_dimensions=(2, 2), window_strides=(1, 1), padding=((0, 0), (0, 0))
            ),
            TypeError,
            "select_and_scatter_add: source f32[4,5] must have shape (3, 4), one value for each window of f32[4,5]",
        ),
        (
            lambda: wd.select_and_gather_add_p.type_rule(X, X, select_prim="gt", window_dimensions=(2, 2), **ONES),
            ValueError,
            "select_and_gather_add: select_prim must be 'ge' or 'le', got 'gt'",
        ),
    ],
)
def test_errors_tell_what_was_given_and_expected(infer, error, text):
    with pytest.raises(error) as caught:
        infer()
    assert text in str(caught.value)
