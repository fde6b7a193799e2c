"""First-order optimizers of trees of parameters, with the API of `jax.example_libraries.optimizers`.

An optimizer is three functions: ``init(params)`` makes its state, ``update(step, gradients, state)`` the next one, and
``get_params(state)`` the parameters. Step sizes are numbers or schedules, functions of the step's number.

>>> from quire.example_libraries import optimizers
>>> init, update, get_params = optimizers.sgd(0.1)
>>> state = init({"w": quire.numpy.array([1., 2.])})
>>> get_params(update(0, {"w": quire.numpy.array([1., 0.])}, state))
{'w': Array([0.9, 2. ], dtype=float32)}
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from quire.ir import dtypes

from .. import lax
from .. import numpy as jnp
from ..absent_names import module_getattr
from ..arrays.operands import Value, array_of
from ..tree_util import register_pytree_node, tree_flatten, tree_leaves, tree_map, tree_unflatten

Params = Any
State = Any
Updates = Any
Step = int
Schedule = Callable[[Any], Any]
_MODULE = "quire.example_libraries.optimizers"


class OptimizerState:
    """The state of an optimizer: a node of a tree, whose leaves are the arrays of the states of all parameters.

    Attributes:
        packed_state: for each parameter the arrays of its state.
        tree_def: the structure of the parameters.
        subtree_defs: for each parameter the structure of its state.
    """

    __slots__ = ("packed_state", "subtree_defs", "tree_def")

    def __init__(self, packed_state: Any, tree_def: Any, subtree_defs: Any) -> None:
        self.packed_state = packed_state
        self.tree_def = tree_def
        self.subtree_defs = subtree_defs

    def __iter__(self) -> Any:
        return iter((self.packed_state, self.tree_def, self.subtree_defs))

    def __getitem__(self, i: Any) -> Any:
        return tuple(self)[i]

    def __len__(self) -> int:
        return 3

    def __repr__(self) -> str:
        return "OptimizerState(packed_state={!r}, tree_def={!r}, subtree_defs={!r})".format(*self)


def _flatten_state(state: OptimizerState) -> tuple[Any, Any]:
    return (state.packed_state,), (state.tree_def, state.subtree_defs)


def _unflatten_state(structure: Any, children: Any) -> OptimizerState:
    return OptimizerState(children[0], *structure)


register_pytree_node(OptimizerState, _flatten_state, _unflatten_state)


class Optimizer(NamedTuple):
    """The three functions of an optimizer; see the module's text."""

    init_fn: Callable[[Params], OptimizerState]
    update_fn: Callable[[Any, Updates, OptimizerState], OptimizerState]
    params_fn: Callable[[OptimizerState], Params]


InitFn = Callable[[Params], OptimizerState]
UpdateFn = Callable[[Step, Updates, OptimizerState], OptimizerState]
ParamsFn = Callable[[OptimizerState], Params]


def _packed(trees: Sequence[Any]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """The leaves and the structure of each tree."""
    flat = [tree_flatten(t) for t in trees]
    return tuple(leaves for leaves, _ in flat), tuple(structure for _, structure in flat)


def _unpacked(state: OptimizerState) -> list[Any]:
    packed, _, structures = state
    return [tree_unflatten(s, leaves) for s, leaves in zip(structures, packed, strict=True)]


def optimizer(opt_maker: Callable[..., Any]) -> Callable[..., Optimizer]:
    """Decorate a function that returns an optimizer of one array; the result makes optimizers of trees of arrays.

    The decorated function returns ``init(x)``, ``update(step, gradient, state)`` and ``get_params(state)``, the state being
    a tree of arrays.

    Raises (from the update):
        TypeError: the gradients are not a tree like that of the parameters, or an update changes the structure of the state.

    Follows `jax.example_libraries.optimizers.optimizer`.

    >>> from quire.example_libraries import optimizers
    >>> @optimizers.optimizer
    ... def halving():
    ...     return lambda x: x, lambda i, g, x: x / 2, lambda x: x
    >>> init, update, get_params = halving()
    >>> get_params(update(0, (0., 0.), init((4., 6.))))
    (2.0, 3.0)
    """

    @functools.wraps(opt_maker)
    def make(*args: Any, **kwargs: Any) -> Optimizer:
        init_one, update_one, params_of_one = opt_maker(*args, **kwargs)

        def init(params: Params) -> OptimizerState:
            leaves, tree = tree_flatten(params)
            packed, structures = _packed([init_one(x) for x in leaves])
            return OptimizerState(packed, tree, structures)

        def update(i: Any, gradients: Updates, state: OptimizerState) -> OptimizerState:
            leaves, tree = tree_flatten(gradients)
            if tree != state.tree_def:
                raise TypeError(
                    f"{opt_maker.__name__}: the gradients are a tree {tree}, but the parameters are a tree {state.tree_def}"
                )
            states = [update_one(i, g, s) for g, s in zip(leaves, _unpacked(state), strict=True)]
            packed, structures = _packed(states)
            for old, new in zip(state.subtree_defs, structures, strict=True):
                if old != new:
                    raise TypeError(
                        f"{opt_maker.__name__}: the update returned a state of another structure: {new} instead of {old}"
                    )
            return OptimizerState(packed, tree, structures)

        def get_params(state: OptimizerState) -> Params:
            return tree_unflatten(state.tree_def, [params_of_one(s) for s in _unpacked(state)])

        return Optimizer(init, update, get_params)

    return make


# -- optimizers ---------------------------------------------------------------------------------------------------------------


def _first(state: Any) -> Any:
    return state[0]


def _itself(x: Any) -> Any:
    return x


def _inverse_root(x: Value) -> Value:
    """1 / sqrt(x), and 0 for 0."""
    return jnp.where(x > 0, 1.0 / jnp.sqrt(x), 0.0)


@optimizer
def sgd(step_size: Any) -> Any:
    """Stochastic gradient descent: x - step_size * g. Follows `jax.example_libraries.optimizers.sgd`.

    >>> from quire.example_libraries import optimizers
    >>> init, update, get_params = optimizers.sgd(0.5)
    >>> get_params(update(0, 1.0, init(quire.numpy.array(2.0)))).item()
    1.5
    """
    rate = make_schedule(step_size)

    def update(i: Any, g: Any, x: Any) -> Any:
        return x - rate(i) * g

    return _itself, update, _itself


@optimizer
def momentum(step_size: Any, mass: Any) -> Any:
    """Gradient descent with momentum: v = mass * v + g, x - step_size * v.

    Follows `jax.example_libraries.optimizers.momentum`.

    >>> from quire.example_libraries import optimizers
    >>> init, update, get_params = optimizers.momentum(0.5, 0.9)
    >>> get_params(update(0, 1.0, init(quire.numpy.array(2.0)))).item()
    1.5
    """
    rate = make_schedule(step_size)

    def init(x: Any) -> Any:
        return x, jnp.zeros_like(x)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, v = state
        v = mass * v + g
        return x - rate(i) * v, v

    return init, update, _first


@optimizer
def nesterov(step_size: Any, mass: Any) -> Any:
    """Gradient descent with Nesterov's momentum. Follows `jax.example_libraries.optimizers.nesterov`.

    >>> from quire.example_libraries import optimizers
    >>> init, update, get_params = optimizers.nesterov(0.5, 0.5)
    >>> get_params(update(0, 1.0, init(quire.numpy.array(2.0)))).item()
    1.25
    """
    rate = make_schedule(step_size)

    def init(x: Any) -> Any:
        return x, jnp.zeros_like(x)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, v = state
        v = mass * v + g
        return x - rate(i) * (mass * v + g), v

    return init, update, _first


@optimizer
def adagrad(step_size: Any, momentum: Any = 0.9) -> Any:
    """Adagrad (Duchi et al., 2011), with momentum. Follows `jax.example_libraries.optimizers.adagrad`.

    >>> from quire.example_libraries import optimizers
    >>> init, update, get_params = optimizers.adagrad(0.5, 0.5)
    >>> get_params(update(0, 4.0, init(quire.numpy.array(2.0)))).item()
    1.75
    """
    rate = make_schedule(step_size)

    def init(x: Any) -> Any:
        return x, jnp.zeros_like(x), jnp.zeros_like(x)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, squares, m = state
        squares = squares + jnp.square(g)
        m = (1.0 - momentum) * (g * _inverse_root(squares)) + momentum * m
        return x - rate(i) * m, squares, m

    return init, update, _first


@optimizer
def rmsprop(step_size: Any, gamma: Any = 0.9, eps: Any = 1e-8) -> Any:
    """RMSProp (Tieleman and Hinton, 2012): gradients over the root of the mean of their squares.

    Follows `jax.example_libraries.optimizers.rmsprop`.

    >>> from quire.example_libraries import optimizers
    >>> init, update, get_params = optimizers.rmsprop(0.5, gamma=0.75)
    >>> get_params(update(0, 4.0, init(quire.numpy.array(2.0)))).item()
    1.0
    """
    rate = make_schedule(step_size)

    def init(x: Any) -> Any:
        return x, jnp.zeros_like(x)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, mean = state
        mean = mean * gamma + jnp.square(g) * (1.0 - gamma)
        return x - rate(i) * g / jnp.sqrt(mean + eps), mean

    return init, update, _first


@optimizer
def rmsprop_momentum(step_size: Any, gamma: Any = 0.9, eps: Any = 1e-8, momentum: Any = 0.9) -> Any:
    """`rmsprop` with momentum. Follows `jax.example_libraries.optimizers.rmsprop_momentum`.

    >>> from quire.example_libraries import optimizers
    >>> init, update, get_params = optimizers.rmsprop_momentum(0.5, gamma=0.75)
    >>> get_params(update(0, 4.0, init(quire.numpy.array(2.0)))).item()
    1.0
    """
    rate = make_schedule(step_size)

    def init(x: Any) -> Any:
        return x, jnp.zeros_like(x), jnp.zeros_like(x)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, mean, m = state
        mean = mean * gamma + jnp.square(g) * (1.0 - gamma)
        m = momentum * m + rate(i) * g / jnp.sqrt(mean + eps)
        return x - m, mean, m

    return init, update, _first


def _unbias(x: Any, decay: Any, i: Any) -> Any:
    """A running mean divided by the sum of its weights after step i.

    The factor is a real number, kept from being computed anew for every element of x where it is used.
    """
    factor = 1 / (1 - jnp.asarray(decay, dtypes.real_dtype(x.dtype)) ** (i + 1))
    return x * lax.optimization_barrier(factor)


@optimizer
def adam(step_size: Any, b1: Any = 0.9, b2: Any = 0.999, eps: Any = 1e-8) -> Any:
    """Adam (Kingma and Ba, 2014).

    Args:
        step_size: a number or a schedule.
        b1, b2: the decay of the running means of the gradients and of their squares.
        eps: added to the root of the latter.

    Follows `jax.example_libraries.optimizers.adam`.

    >>> from quire.example_libraries import optimizers
    >>> init, update, get_params = optimizers.adam(0.5)
    >>> round(get_params(update(0, 4.0, init(quire.numpy.array(2.0)))).item(), 4)
    1.5
    """
    rate = make_schedule(step_size)

    def init(x: Any) -> Any:
        return x, jnp.zeros_like(x), jnp.zeros_like(x)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, m, v = state
        m = (1 - b1) * g + b1 * m
        v = (1 - b2) * jnp.square(g) + b2 * v
        return x - rate(i) * _unbias(m, b1, i) / (jnp.sqrt(_unbias(v, b2, i)) + eps), m, v

    return init, update, _first


@optimizer
def adamax(step_size: Any, b1: Any = 0.9, b2: Any = 0.999, eps: Any = 1e-8) -> Any:
    """Adamax (Kingma and Ba, 2014): `adam` with the infinity norm. Follows `jax.example_libraries.optimizers.adamax`.

    >>> from quire.example_libraries import optimizers
    >>> init, update, get_params = optimizers.adamax(0.5)
    >>> round(get_params(update(0, 4.0, init(quire.numpy.array(2.0)))).item(), 4)
    1.5
    """
    rate = make_schedule(step_size)

    def init(x: Any) -> Any:
        return x, jnp.zeros_like(x), jnp.zeros_like(x)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, m, u = state
        m = (1 - b1) * g + b1 * m
        u = jnp.maximum(b2 * u, jnp.abs(g))
        weight = 1 - jnp.asarray(b1, m.dtype) ** (i + 1)
        return x - (rate(i) / weight) * m / (u + eps), m, u

    return init, update, _first


@optimizer
def sm3(step_size: Any, momentum: Any = 0.9) -> Any:
    """SM3 (Anil et al., 2019), whose state has one number for each row of each dimension.

    Follows `jax.example_libraries.optimizers.sm3`.

    >>> from quire.example_libraries import optimizers
    >>> init, update, get_params = optimizers.sm3(0.5, 0.5)
    >>> get_params(update(0, quire.numpy.array([4.0]), init(quire.numpy.array([2.0])))).item()
    1.75
    """
    rate = make_schedule(step_size)

    def init(x: Any) -> Any:
        x = array_of(f"{_MODULE}.sm3", x, "the parameter")
        rows = [jnp.zeros(n, x.dtype) for n in jnp.atleast_1d(x).shape]
        return x, jnp.zeros_like(x), rows

    def update(i: Any, g: Any, state: Any) -> Any:
        x, m, rows = state
        shape, wide = jnp.shape(g), jnp.atleast_1d(g)
        spread = [jnp.expand_dims(v, _others(wide.ndim, j)) for j, v in enumerate(rows)]
        total = functools.reduce(jnp.minimum, spread) + jnp.square(wide)
        m = (1.0 - momentum) * (wide * _inverse_root(total)).reshape(shape) + momentum * m
        return x - rate(i) * m, m, [total.max(_others(wide.ndim, j)) for j in range(wide.ndim)]

    return init, update, _first


def _others(ndim: int, axis: int) -> tuple[int, ...]:
    return tuple(i for i in range(ndim) if i != axis)


# -- schedules ----------------------------------------------------------------------------------------------------------------


def constant(step_size: Any) -> Schedule:
    """The schedule that is always `step_size`. Follows `jax.example_libraries.optimizers.constant`.

    >>> quire.example_libraries.optimizers.constant(0.1)(7)
    0.1
    """

    def schedule(i: Any) -> Any:
        return step_size

    return schedule


def exponential_decay(step_size: Any, decay_steps: Any, decay_rate: Any) -> Schedule:
    """step_size * decay_rate**(i / decay_steps). Follows `jax.example_libraries.optimizers.exponential_decay`.

    >>> quire.example_libraries.optimizers.exponential_decay(1.0, 10, 0.5)(20)
    0.25
    """

    def schedule(i: Any) -> Any:
        return step_size * decay_rate ** (i / decay_steps)

    return schedule


def inverse_time_decay(step_size: Any, decay_steps: Any, decay_rate: Any, staircase: bool = False) -> Schedule:
    """step_size / (1 + decay_rate * i / decay_steps), the quotient rounded down if `staircase`.

    Follows `jax.example_libraries.optimizers.inverse_time_decay`.

    >>> quire.example_libraries.optimizers.inverse_time_decay(1.0, 10, 1.0)(10)
    0.5
    """

    def schedule(i: Any) -> Any:
        return step_size / (1 + decay_rate * (jnp.floor(i / decay_steps) if staircase else i / decay_steps))

    return schedule


def polynomial_decay(step_size: Any, decay_steps: Any, final_step_size: Any, power: Any = 1.0) -> Schedule:
    """From step_size to final_step_size in decay_steps steps, by a power of the steps that remain.

    Follows `jax.example_libraries.optimizers.polynomial_decay`.

    >>> quire.example_libraries.optimizers.polynomial_decay(1.0, 10, 0.0)(5).item()
    0.5
    """

    def schedule(i: Any) -> Any:
        remaining = (1 - jnp.minimum(i, decay_steps) / decay_steps) ** power
        return remaining * (step_size - final_step_size) + final_step_size

    return schedule


def piecewise_constant(boundaries: Any, values: Any) -> Schedule:
    """values[k] after k of the boundaries have been passed.

    Args:
        boundaries: a vector of steps. values: a vector of step sizes, one longer.

    Raises:
        ValueError: another shape.

    Follows `jax.example_libraries.optimizers.piecewise_constant`.

    >>> quire.example_libraries.optimizers.piecewise_constant([10, 20], [1.0, 0.5, 0.25])(15).item()
    0.5
    """
    ends, sizes = jnp.array(boundaries), jnp.array(values)
    if ends.ndim != 1 or sizes.ndim != 1:
        raise ValueError(
            f"{_MODULE}.piecewise_constant: boundaries and values must be vectors, got {ends.aval.short()} and "
            f"{sizes.aval.short()}"
        )
    if sizes.shape[0] != ends.shape[0] + 1:
        raise ValueError(
            f"{_MODULE}.piecewise_constant: boundaries of size {ends.shape[0]} need {ends.shape[0] + 1} values, got "
            f"{sizes.shape[0]}"
        )

    def schedule(i: Any) -> Any:
        return sizes[jnp.sum(i > ends)]

    return schedule


def make_schedule(scalar_or_schedule: Any) -> Schedule:
    """A schedule as it is; a number as a constant one. TypeError for anything else.

    Follows `jax.example_libraries.optimizers.make_schedule`.

    >>> quire.example_libraries.optimizers.make_schedule(0.1)(3)
    0.1
    """
    if callable(scalar_or_schedule):
        return scalar_or_schedule
    if jnp.ndim(scalar_or_schedule) == 0:
        return constant(scalar_or_schedule)
    raise TypeError(f"{_MODULE}: a step size must be a number or a function of the step, got {scalar_or_schedule!r}")


# -- utilities ----------------------------------------------------------------------------------------------------------------


def l2_norm(tree: Any) -> Value:
    """The root of the sum of the squares of all elements of a tree. Follows `jax.example_libraries.optimizers.l2_norm`.

    >>> quire.example_libraries.optimizers.l2_norm((3.0, quire.numpy.array([4.0]))).item()
    5.0
    """
    return jnp.sqrt(sum(jnp.vdot(x, x) for x in tree_leaves(tree)))


def clip_grads(grad_tree: Any, max_norm: Any) -> Any:
    """A tree of gradients, scaled down to norm `max_norm` if it is larger.

    Follows `jax.example_libraries.optimizers.clip_grads`.

    >>> quire.example_libraries.optimizers.clip_grads(quire.numpy.array([3.0, 4.0]), 1.0)
    Array([0.6, 0.8], dtype=float32)
    """
    norm = l2_norm(grad_tree)

    def clipped(g: Any) -> Value:
        return jnp.where(norm < max_norm, g, g * (max_norm / norm))

    return tree_map(clipped, grad_tree)


class JoinPoint:
    """A leaf of a tree of states: where the state of one parameter begins; see `unpack_optimizer_state`."""

    __slots__ = ("subtree",)

    def __init__(self, subtree: Any) -> None:
        self.subtree = subtree

    def __iter__(self) -> Any:
        yield self.subtree

    def __repr__(self) -> str:
        return f"JoinPoint({self.subtree!r})"


def unpack_optimizer_state(opt_state: OptimizerState) -> Any:
    """The state of an optimizer as a tree like that of the parameters, whose leaves are `JoinPoint`s of the states.

    It can be stored, and becomes a state again by `pack_optimizer_state`.

    Follows `jax.example_libraries.optimizers.unpack_optimizer_state`.

    >>> from quire.example_libraries import optimizers
    >>> state = optimizers.sgd(0.1).init_fn([1.0])
    >>> optimizers.unpack_optimizer_state(state)
    [JoinPoint(1.0)]
    """
    return tree_unflatten(opt_state.tree_def, [JoinPoint(s) for s in _unpacked(opt_state)])


def pack_optimizer_state(marked_pytree: Any) -> OptimizerState:
    """The state of an optimizer from what `unpack_optimizer_state` returned; TypeError for another tree.

    Follows `jax.example_libraries.optimizers.pack_optimizer_state`.

    >>> from quire.example_libraries import optimizers
    >>> state = optimizers.pack_optimizer_state([optimizers.JoinPoint(1.0)])
    >>> optimizers.sgd(0.1).params_fn(state)
    [1.0]
    """
    points, tree = tree_flatten(marked_pytree)
    for p in points:
        if not isinstance(p, JoinPoint):
            raise TypeError(f"{_MODULE}.pack_optimizer_state: every leaf must be a JoinPoint, got {type(p).__name__}")
    packed, structures = _packed([p.subtree for p in points])
    return OptimizerState(packed, tree, structures)


__all__ = [
    "InitFn", "JoinPoint", "Optimizer", "OptimizerState", "Params", "ParamsFn", "Schedule", "State", "Step", "UpdateFn",
    "Updates", "adagrad", "adam", "adamax", "clip_grads", "constant", "exponential_decay", "inverse_time_decay",
    "l2_norm", "make_schedule", "momentum", "nesterov", "optimizer", "pack_optimizer_state", "piecewise_constant",
    "polynomial_decay", "rmsprop", "rmsprop_momentum", "sgd", "sm3", "unpack_optimizer_state",
]  # fmt: skip

__getattr__ = module_getattr(_MODULE, globals())
