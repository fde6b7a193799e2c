"""custom_vmap and sequential_vmap."""

import numpy as np
import pytest

import quire as qr
import quire.numpy as qnp
from quire.custom_batching import custom_vmap, sequential_vmap

X = np.array([0.0, 1.0, 2.0], np.float32)


def make():
    calls = []

    @custom_vmap
    def f(x, tree):
        return {"out": qnp.sin(x) * tree["y"]}

    @f.def_vmap
    def rule(axis_size, in_batched, xs, tree):
        calls.append((axis_size, in_batched))
        return {"out": qnp.cos(xs) * tree["y"]}, {"out": any((in_batched[0], in_batched[1]["y"]))}

    return f, calls


def test_the_rule_is_used_under_vmap_alone():
    f, calls = make()

    def everything(x):
        return [
            f(x[1], tree={"y": x[2]})["out"],
            qr.vmap(lambda a, b: f(a, {"y": b})["out"])(x, x),
            qr.vmap(lambda a: f(a, {"y": x[2]})["out"], out_axes=0)(x),
            qr.vmap(lambda a: qr.vmap(lambda b: f(a, {"y": b})["out"])(x))(x),
            qr.grad(lambda a: f(a, {"y": 2.0})["out"])(x[1]),
            qr.grad(lambda a: qr.vmap(lambda v: f(v, {"y": 2.0})["out"])(a).sum())(x),
        ]

    sin, cos = np.sin(X), np.cos(X)
    want = [sin[1] * 2, cos * X, cos * 2, None, 2 * cos[1], -2 * sin]
    for run in (everything, qr.compile(everything)):
        for got, w in zip(run(X), want):
            if w is not None:
                np.testing.assert_allclose(np.asarray(got), w, rtol=1e-6)
    assert calls[:2] == [(3, [True, {"y": True}]), (3, [True, {"y": False}])]


def test_one_lane_after_the_other():
    shapes = []

    @sequential_vmap
    def f(x, y):
        shapes.append((x.shape, y.shape))
        return x + y, x

    xs = np.ones((3, 2), np.float32)
    a, b = qr.compile(qr.vmap(f, (0, None)))(xs, np.float32(2))
    np.testing.assert_array_equal(np.asarray(a), xs + 2)
    np.testing.assert_array_equal(np.asarray(b), xs)
    assert set(shapes) == {((2,), ())}


RULES = [
    (lambda n, b, x: x, TypeError, "the rule must return a pair"),
    (lambda n, b, x: (x, (True, True)), ValueError, "the rule must return a bool for each result"),
    (
        lambda n, b, x: ((x, x), (True, True)),
        ValueError,
        "the rule must return the structure that the function returns",
    ),
    (
        lambda n, b, x: (x, False),
        TypeError,
        r"the rule returned f32\[3\] as result 0, declared not batched; expected f32\[\]",
    ),
]


def test_errors():
    f = custom_vmap(lambda x: x * 2)
    with pytest.raises(AttributeError, match=r"custom_vmap <lambda>: no batching rule is defined \(at .*def_vmap"):
        f(1.0)
    for rule, kind, text in RULES:
        f.def_vmap(rule)
        with pytest.raises(kind, match=text):
            qr.vmap(f)(X)

    def closes_over(z):
        g = custom_vmap(lambda x: x * z)
        g.def_vmap(lambda n, b, x: (x, True))
        return g(z)

    with pytest.raises(TypeError, match=r"closes over a value that is mapped \(at .*pass it as an argument"):
        qr.vmap(closes_over)(X)
    with pytest.raises(TypeError, match="custom_vmap: expected a function, got 3"):
        custom_vmap(3)
