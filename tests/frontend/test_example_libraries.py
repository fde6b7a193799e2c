"""stax and optimizers against JAX's, ravel_pytree, and a network that is trained under compile."""

from __future__ import annotations

import numpy as np
import pytest

import quire
import quire.numpy as qnp
from quire.example_libraries import optimizers, stax
from quire.flatten_util import ravel_pytree
from quire.tree_util import tree_leaves, tree_map

jax = pytest.importorskip("jax")
jax_stax = pytest.importorskip("jax.example_libraries.stax")
jax_optimizers = pytest.importorskip("jax.example_libraries.optimizers")

RNG = np.random.default_rng(0)
IMAGES = RNG.normal(size=(2, 6, 6, 3)).astype(np.float32)


def close(got, want, rtol=1e-4, atol=1e-5):
    """Trees of quire's classes and of JAX's."""
    for g, w in zip(tree_leaves(got), tree_leaves(want), strict=True):
        assert (g.shape, g.dtype) == (w.shape, w.dtype)
        np.testing.assert_allclose(g, w, rtol=rtol, atol=atol)


# -- stax ---------------------------------------------------------------------------------------------------------------------


def network(s):
    return s.serial(
        s.Conv(4, (3, 3), padding="SAME"), s.BatchNorm(), s.Relu, s.MaxPool((2, 2), (2, 2)), s.FanOut(2),
        s.parallel(s.Identity, s.ConvTranspose(4, (1, 1))), s.FanInConcat(), s.AvgPool((2, 2), padding="SAME"),
        s.SumPool((1, 2)), s.Flatten, s.Dense(5), s.FanOut(2), s.parallel(s.Gelu, s.shape_dependent(lambda n: s.Dense(n[1]))),
        s.FanInSum, s.Dropout(0.5), s.LogSoftmax,
    )  # fmt: skip


def test_a_network_against_jax():
    (init, apply), (jax_init, jax_apply) = network(stax), network(jax_stax)
    shape, params = init(quire.random.PRNGKey(0), (-1, 6, 6, 3))
    assert shape == (-1, 5)
    jax_params = jax.jit(lambda key: jax_init(key, (2, 6, 6, 3))[1])(jax.random.PRNGKey(0))
    assert jax.tree_util.tree_structure(params) == jax.tree_util.tree_structure(jax_params)
    close(params, jax_params)

    def loss(p, x, rng, apply):
        y = apply(p, x, rng=rng)
        return (y * np.arange(5, dtype=np.float32)).sum(), y

    values = jax.jit(jax.value_and_grad(lambda p, x, k: loss(p, x, k, jax_apply), has_aux=True))
    want = values(jax_params, IMAGES, jax.random.PRNGKey(1))
    f = quire.value_and_grad(lambda p, x, k: loss(p, x, k, apply), has_aux=True)
    close(f(params, IMAGES, quire.random.PRNGKey(1)), want, rtol=1e-3, atol=1e-4)
    y = quire.compile(lambda p, x, k: apply(p, x, rng=k))(params, IMAGES, quire.random.PRNGKey(1))
    close(y, want[0][1], rtol=1e-3, atol=1e-4)


def test_shapes_of_layers():
    key = quire.random.key(0)
    for layer, shape, want in (
        (stax.Conv(4, (3, 3), (2, 2)), (-1, 9, 8, 3), (-1, 4, 3, 4)),
        (stax.GeneralConv(("NCHW", "OIHW", "NHWC"), 4, (3, 3), padding="SAME"), (5, 3, 9, 8), (5, 9, 8, 4)),
        (stax.Conv1DTranspose(4, (3,), (2,), "SAME"), (-1, 9, 3), (-1, 18, 4)),
        (stax.ConvTranspose(4, (3, 2), (2, 2)), (2, 4, 4, 3), (2, 9, 8, 4)),
        (stax.MaxPool((2, 2), (2, 2), "SAME", "NCHW"), (-1, 3, 5, 5), (-1, 3, 3, 3)),
        (stax.AvgPool((2,), (1,)), (7, 5, 3), (7, 4, 3)), (stax.Flatten, (-1, 4, 5), (-1, 20)),
        (stax.FanOut(2), (3, 4), [(3, 4), (3, 4)]), (stax.BatchNorm(0, center=False), (3, 4), (3, 4)),
    ):  # fmt: skip
        out, params = layer[0](key, shape)
        assert out == want
        if shape[0] == -1:
            shape = (2, *shape[1:])
        if isinstance(want, tuple):
            result = layer[1](params, qnp.ones(shape))
            assert result.shape == tuple(2 if n == -1 else n for n in want)


def test_every_name_of_jax_is_there():
    modules = {"functools", "jnp", "lax", "math", "random", "jax", "annotations", "partial", "namedtuple", "NamedTuple"}
    internal = {"Any", "Array", "Callable", "map", "zip", "safe_map", "safe_zip", "unzip2"} | modules
    for ours, theirs in ((stax, jax_stax), (optimizers, jax_optimizers)):
        for name in (n for n in dir(theirs) if not n.startswith("_") and n not in internal):
            assert hasattr(ours, name), name


# -- optimizers ---------------------------------------------------------------------------------------------------------------

PARAMS = {
    "a": RNG.normal(size=(3, 2)).astype(np.float32), "b": np.float32(2),
    "c": (RNG.normal(size=3) + 1j * RNG.normal(size=3)).astype(np.complex64),
}  # fmt: skip
GRADS = [
    {k: (RNG.normal(size=np.shape(v)) + np.zeros_like(v)).astype(v.dtype) for k, v in PARAMS.items()} for _ in range(2)
]
SETTINGS = {
    "sgd": (0.1,), "momentum": (0.1, 0.9), "nesterov": (0.1, 0.9), "adagrad": (0.1,), "rmsprop": (0.1,),
    "rmsprop_momentum": (0.1,), "adam": (0.1,), "adamax": (0.1,), "sm3": (0.1,),
}  # fmt: skip


def train(o, params, grads, names=tuple(SETTINGS)):
    """Each optimizer after some steps, the step size falling."""
    out = {}
    for name in names:
        rate, *more = SETTINGS[name]
        real = name in ("adagrad", "adamax", "sm3")  # they compare numbers
        init, update, get_params = getattr(o, name)(o.exponential_decay(rate, 2, 0.5), *more)
        state = init({k: v for k, v in params.items() if k != "c"} if real else params)
        for i, g in enumerate(grads):
            state = update(i, {k: v for k, v in g.items() if k != "c"} if real else g, state)
        out[name] = get_params(state)
    return out


def test_optimizers_against_jax():
    want = jax.jit(lambda p, g: train(jax_optimizers, p, g))(PARAMS, GRADS)
    close(train(optimizers, PARAMS, GRADS), want)
    some = ("nesterov", "adam", "sm3")
    got = quire.compile(lambda p, g: train(optimizers, p, g[:1], some))(PARAMS, GRADS)
    close(got, train(optimizers, PARAMS, GRADS[:1], some))


def test_schedules():
    for i in (0, 3, 10, 25):
        for name, args in (
            ("constant", (0.1,)), ("exponential_decay", (1.0, 10, 0.5)), ("inverse_time_decay", (1.0, 10, 2.0)),
            ("inverse_time_decay", (1.0, 10, 2.0, True)), ("polynomial_decay", (1.0, 20, 0.1, 2.0)),
            ("piecewise_constant", ([3, 20], [1.0, 0.5, 0.25])), ("make_schedule", (0.3,)),
        ):  # fmt: skip
            got, want = (getattr(o, name)(*args)(i) for o in (optimizers, jax_optimizers))
            np.testing.assert_allclose(got, want, rtol=1e-6, err_msg=name)


def test_clipping():
    tree = [np.array([3.0, 4.0], np.float32), np.float32(12)]
    assert optimizers.l2_norm(tree) == 13
    close(optimizers.clip_grads(tree, 1.3), [np.array([0.3, 0.4], np.float32), np.array(1.2, np.float32)])
    close(optimizers.clip_grads(tree, 20.0), tree)


def test_states_are_trees_and_can_be_stored():
    init, update, get_params = optimizers.adam(0.1)
    state = init(PARAMS)
    doubled = tree_map(lambda x: 2 * x, state)
    close(get_params(doubled), tree_map(lambda x: 2 * x, PARAMS))
    stored = optimizers.unpack_optimizer_state(state)
    assert sorted(stored) == ["a", "b", "c"] and isinstance(stored["a"], optimizers.JoinPoint)
    close(update(0, GRADS[0], optimizers.pack_optimizer_state(stored)), update(0, GRADS[0], state))
    packed, tree, parts = state
    assert state[0] is packed and len(state) == 3 and (tree, parts) == (state.tree_def, state.subtree_defs)
    assert repr(state).startswith("OptimizerState(packed_state=")


def test_a_network_learns():
    """The loss of a small network falls under a compiled step, and the state stays on the device."""
    init, apply = stax.serial(stax.Dense(16), stax.Tanh, stax.Dense(1))
    x = RNG.normal(size=(64, 2)).astype(np.float32)
    y = (x[:, :1] * x[:, 1:]).astype(np.float32)
    opt_init, update, get_params = optimizers.adam(0.02)

    def loss(params):
        return ((apply(params, x) - y) ** 2).mean()

    @quire.compile
    def step(i, state):
        value, gradient = quire.value_and_grad(loss)(get_params(state))
        return value, update(i, gradient, state)

    state = opt_init(init(quire.random.key(0), (-1, 2))[1])
    first, state = step(0, state)
    for i in range(1, 300):
        last, state = step(i, state)
    assert last < 0.05 * first


# -- ravel_pytree ---------------------------------------------------------------------------------------------------------------


def test_ravel_pytree():
    from jax.flatten_util import ravel_pytree as jax_ravel

    same = {"a": np.float32(1), "b": (np.arange(6, dtype=np.float32).reshape(2, 3), None)}
    for tree in (same, PARAMS, {"n": np.arange(3, dtype=np.int32), "x": np.ones(2, np.float16)}, [], [1, 2.0]):
        (vector, unravel), (want, _) = ravel_pytree(tree), jax_ravel(tree)
        close([vector], [want])
        close(unravel(vector), tree_map(qnp.asarray, tree))
    vector, unravel = ravel_pytree(same)
    assert unravel(vector.astype(np.float16))["a"].dtype == np.float16
    gradient = quire.grad(lambda v: (unravel(v)["b"][0] ** 2).sum())(vector)
    np.testing.assert_array_equal(gradient, [0, *(2 * np.arange(6))])
    hessian = quire.compile(quire.hessian(lambda v: (unravel(v)["b"][0] ** 2).sum()))(vector)
    np.testing.assert_array_equal(hessian, np.diag([0, 2, 2, 2, 2, 2, 2]))


def _state():
    return optimizers.sgd(0.1).init_fn({"a": 1.0})


def _growing():
    return optimizers.optimizer(lambda: (lambda x: x, lambda i, g, x: (x, x), lambda x: x))()


ERRORS = [
    (lambda: ravel_pytree(PARAMS)[1](np.zeros(3, np.complex64)), ValueError, r"unravel: the vector must have shape \(10,\), got c64\[3\]"),
    (lambda: ravel_pytree(PARAMS)[1](np.zeros(10, np.float32)), TypeError, r"unravel: the vector must have dtype complex64, got f32\[10\]"),
    (lambda: ravel_pytree(["x"]), TypeError, r"ravel_pytree: leaf 0 must be an array or a number, got str"),
    (lambda: stax.Dropout(0.5)[1]((), 1.0), ValueError, r"stax\.Dropout: apply needs a key"),
    (lambda: stax.serial(stax.Dense), TypeError, r"stax\.serial: argument 0 must be a layer, a pair of functions"),
    (lambda: stax.Conv(4, (3,)), ValueError, r"stax\.GeneralConv: filter_shape \(3,\) must have one size for each spatial"),
    (lambda: optimizers.sgd(np.ones(2)), TypeError, r"a step size must be a number or a function of the step"),
    (lambda: optimizers.sgd(0.1).update_fn(0, [1.0], _state()), TypeError, r"sgd: the gradients are a tree .* but the parameters"),
    (lambda: _growing().update_fn(0, 1.0, _growing().init_fn(1.0)), TypeError, r"the update returned a state of another structure"),
    (lambda: optimizers.piecewise_constant(1, [1.0]), ValueError, r"boundaries and values must be vectors"),
    (lambda: optimizers.piecewise_constant([1], [1.0]), ValueError, r"boundaries of size 1 need 2 values, got 1"),
    (lambda: optimizers.pack_optimizer_state([1.0]), TypeError, r"every leaf must be a JoinPoint, got float"),
]  # fmt: skip


@pytest.mark.parametrize(("f", "error", "text"), ERRORS)
def test_errors(f, error, text):
    with pytest.raises(error, match=text):
        f()
