"""The models: programs written for quire and JAX alike, with a mesh and how arguments and results are divided over it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Axes = tuple[Any, ...]
"""For each dimension the mesh axis, several, or None; dimensions at the end may be left out."""


@dataclass(frozen=True)
class Library:
    """What a model is written with.

    Attributes:
        api: ``quire`` or ``jax``.
        np: ``quire.numpy`` or ``jax.numpy``.
        lax: ``quire.lax`` or ``jax.lax``.
        mesh: the devices.
        P: the class PartitionSpec.
        constrain: a value and the axes of its dimensions to the value with that constraint.
    """

    api: Any
    np: Any
    lax: Any
    mesh: Any
    P: Any
    constrain: Callable[..., Any]


@dataclass(frozen=True)
class Model:
    """A function of flat arguments.

    Attributes:
        make: the function, for a library.
        shapes: of the arguments, float32; those of `integers` are int32.
        mesh: the axes and their sizes.
        specs, out_specs: how arguments and results are divided.
        integers: argument numbers to the number below which all of its elements are.
    """

    make: Callable[[Library], Callable[..., Any]]
    shapes: tuple[tuple[int, ...], ...]
    mesh: tuple[tuple[str, int], ...]
    specs: tuple[Axes, ...]
    out_specs: tuple[Axes, ...]
    integers: tuple[tuple[int, int], ...] = ()


def _gradient(loss: Callable[[Library], Callable[..., Any]], wrt: tuple[int, ...]) -> Callable[[Library], Any]:
    return lambda lib: lib.api.grad(loss(lib), wrt)


# -- layers ---------------------------------------------------------------------------------------------------------


def mlp(lib: Library) -> Callable[..., Any]:
    """The loss of three layers."""
    np = lib.np

    def loss(w1: Any, w2: Any, w3: Any, x: Any, y: Any) -> Any:
        return ((np.tanh(np.tanh(x @ w1) @ w2) @ w3 - y) ** 2).mean()

    return loss


def mlp_step(lib: Library) -> Callable[..., Any]:
    """A step of gradient descent, whose parameters stay divided as they are."""
    gradient = lib.api.grad(mlp(lib), (0, 1, 2))

    def step(w1: Any, w2: Any, w3: Any, x: Any, y: Any) -> Any:
        return [w - 0.1 * g for w, g in zip((w1, w2, w3), gradient(w1, w2, w3, x, y))]

    return step


def _attention(np: Any, x: Any, wq: Any, wk: Any, wv: Any, wo: Any) -> Any:
    q, k, v = (np.einsum("bsd,dhe->bhse", x, w) for w in (wq, wk, wv))
    scores = np.einsum("bhse,bhte->bhst", q, k) / 4.0
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights = weights / weights.sum(-1, keepdims=True)
    return np.einsum("bhse,hed->bsd", np.einsum("bhst,bhte->bhse", weights, v), wo)


def block(lib: Library) -> Callable[..., Any]:
    """A transformer's block: attention of 8 heads, then two layers."""
    np = lib.np

    def f(x: Any, wq: Any, wk: Any, wv: Any, wo: Any, w1: Any, w2: Any) -> Any:
        x = x + _attention(np, x, wq, wk, wv, wo)
        return x + np.tanh(x @ w1) @ w2

    return f


def sequence_block(lib: Library) -> Callable[..., Any]:
    """The block whose normalisations and residuals are divided along the sequence."""
    np = lib.np

    def normalised(x: Any) -> Any:
        x = x - x.mean(-1, keepdims=True)
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5)

    def f(x: Any, wq: Any, wk: Any, wv: Any, wo: Any, w1: Any, w2: Any) -> Any:
        x = lib.constrain(x, "data", "model")
        h = lib.constrain(normalised(x), "data")
        x = x + lib.constrain(_attention(np, h, wq, wk, wv, wo), "data", "model")
        h = lib.constrain(normalised(x), "data")
        return x + lib.constrain(np.tanh(h @ w1) @ w2, "data", "model")

    return f


def squared(f: Callable[[Library], Callable[..., Any]]) -> Callable[[Library], Callable[..., Any]]:
    """The mean of a model's squared results, as a loss."""
    return lambda lib: lambda *args: (f(lib)(*args) ** 2).mean()


def experts(lib: Library) -> Callable[..., Any]:
    """A mixture of experts: each group sends its tokens to the expert of their highest score, and takes them back."""
    np, capacity = lib.np, 8

    def f(x: Any, gate: Any, w1: Any, w2: Any) -> Any:
        scores = x @ gate
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights = weights / weights.sum(-1, keepdims=True)
        chosen = (np.arange(gate.shape[1]) == scores.argmax(-1)[..., None]).astype(x.dtype)
        place = np.cumsum(chosen, 1) * chosen - 1
        mask = chosen[..., None] * (place[..., None] == np.arange(capacity))
        sent = lib.constrain(np.einsum("gtec,gtd->gecd", mask, x), "expert")
        sent = lib.constrain(sent, None, "expert")
        hidden = np.tanh(np.einsum("gecd,edf->gecf", sent, w1))
        back = lib.constrain(np.einsum("gecf,efd->gecd", hidden, w2), None, "expert")
        back = lib.constrain(back, "expert")
        return np.einsum("gtec,gecd->gtd", mask * (weights * chosen).sum(-1)[..., None, None], back)

    return f


def images(lib: Library) -> Callable[..., Any]:
    """Convolutions over images that are divided by rows: one with steps of two, and pooling between."""
    lax, np = lib.lax, lib.np
    dims = ("NHWC", "HWIO", "NHWC")

    def f(k1: Any, k2: Any, k3: Any, x: Any) -> Any:
        x = np.tanh(lax.conv_general_dilated(x, k1, (1, 1), "SAME", dimension_numbers=dims))
        x = lax.reduce_window(x, -np.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        x = np.tanh(lax.conv_general_dilated(x, k2, (2, 2), ((1, 1), (1, 1)), dimension_numbers=dims))
        return lax.conv_general_dilated(x, k3, (1, 1), "SAME", dimension_numbers=dims)

    return f


def embedding(lib: Library) -> Callable[..., Any]:
    """Rows of a table, which is divided by rows, for tokens."""

    def f(table: Any, w: Any, tokens: Any) -> Any:
        return lib.np.tanh(table[tokens] @ w)

    return f


def pipeline(lib: Library) -> Callable[..., Any]:
    """Eight stages, one a device: at each tick a stage computes and hands its result to the next one."""
    lax, np = lib.lax, lib.np
    stages = lib.mesh.size

    def device(w: Any, x: Any) -> Any:
        stage = lax.axis_index("stage")
        micro = x.shape[0]

        def tick(carry: Any, t: Any) -> Any:
            state, out = carry
            state = np.where(stage == 0, x[np.clip(t, 0, micro - 1)], state)
            state = np.tanh(state @ w[0])
            done = np.where(stage == stages - 1, state, 0)
            out = lax.dynamic_update_index_in_dim(out, done, np.clip(t - stages + 1, 0, micro - 1), 0)
            return (lax.ppermute(state, "stage", [(i, (i + 1) % stages) for i in range(stages)]), out), None

        start = lax.pcast((np.zeros_like(x[0]), np.zeros_like(x)), "stage", to="varying")
        (_, out), _ = lax.scan(tick, start, np.arange(micro + stages - 1))
        return lax.psum(out, "stage")

    return lib.api.shard_map(device, mesh=lib.mesh, in_specs=(lib.P("stage"), lib.P()), out_specs=lib.P())


def means(lib: Library) -> Callable[..., Any]:
    """Ten turns of k-means over points that are divided."""
    np = lib.np

    def turn(_: Any, state: Any) -> Any:
        points, centres = state
        distance = ((points[:, None] - centres[None]) ** 2).sum(-1)
        nearest = distance.argmin(1)
        sums = np.zeros_like(centres).at[nearest].add(points)
        counts = np.zeros((centres.shape[0],), points.dtype).at[nearest].add(1.0)
        return points, sums / np.maximum(counts, 1.0)[:, None]

    return lambda points, centres: lib.lax.fori_loop(0, 10, turn, (points, centres))[1]


def heat(lib: Library) -> Callable[..., Any]:
    """Ten steps of heat on a plate with cold edges."""
    np = lib.np

    def turn(_: Any, u: Any) -> Any:
        p = np.pad(u, 1)
        return u + 0.1 * (p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:] - 4 * u)

    return lambda u: lib.lax.fori_loop(0, 10, turn, u)


def torus(lib: Library) -> Callable[..., Any]:
    """Ten steps of heat on a torus."""
    np = lib.np

    def turn(_: Any, u: Any) -> Any:
        around = np.roll(u, 1, 0) + np.roll(u, -1, 0) + np.roll(u, 1, 1) + np.roll(u, -1, 1)
        return u + 0.1 * (around - 4 * u)

    return lambda u: lib.lax.fori_loop(0, 10, turn, u)


# -- the table's rows -----------------------------------------------------------------------------------------------

_DATA = (("data", 8),)
_GRID = (("data", 2), ("model", 4))
_ROWS = ("data",)
_MLP = ((784, 512), (512, 512), (512, 16), (256, 784), (256, 16))
_TENSOR = ((None, "model"), ("model",), ())
_BLOCK = ((8, 64, 128), *[(128, 8, 16)] * 3, (8, 16, 128), (128, 512), (512, 128))
_HEADS = (*[(None, "model")] * 3, ("model",), (None, "model"), ("model",))
_EXPERTS = ((8, 32, 64), (64, 8), (8, 64, 128), (8, 128, 64))
_DIVIDED = (("expert",), (), ("expert",), ("expert",))
_IMAGES = ((3, 3, 4, 8), (3, 3, 8, 16), (3, 3, 16, 16), (2, 64, 32, 4))
_TABLE = ((1024, 64), (64, 64), (32, 16))
_TOKENS = ((2, 1024),)
_STAGES = ((8, 64, 64), (16, 4, 64))
_PLATE = (("x", 4), ("y", 2))

MODELS: dict[str, Model] = {
    "data parallel MLP, gradient": Model(
        _gradient(mlp, (0, 1, 2)), _MLP, _DATA, ((), (), (), _ROWS, _ROWS), ((), (), ())
    ),
    "tensor parallel MLP, gradient": Model(
        _gradient(mlp, (0, 1, 2)), _MLP, (("data", 4), ("model", 2)), (*_TENSOR, _ROWS, _ROWS), _TENSOR
    ),
    "fully sharded MLP, step": Model(mlp_step, _MLP, _DATA, (_ROWS,) * 5, (_ROWS,) * 3),
    "transformer block": Model(block, _BLOCK, _GRID, (_ROWS, *_HEADS), (_ROWS,)),
    "transformer block, gradient": Model(
        _gradient(squared(block), tuple(range(1, 7))), _BLOCK, _GRID, (_ROWS, *_HEADS), _HEADS
    ),
    "sequence parallel transformer block": Model(
        sequence_block, _BLOCK, _GRID, (("data", "model"), *_HEADS), (("data", "model"),)
    ),
    "sequence parallel transformer block, gradient": Model(
        _gradient(squared(sequence_block), tuple(range(1, 7))), _BLOCK, _GRID, (("data", "model"), *_HEADS), _HEADS
    ),
    "mixture of experts": Model(experts, _EXPERTS, (("expert", 8),), _DIVIDED, (("expert",),)),
    "mixture of experts, gradient": Model(
        _gradient(squared(experts), (1, 2, 3)), _EXPERTS, (("expert", 8),), _DIVIDED, _DIVIDED[1:]
    ),
    "convolutions over rows": Model(images, _IMAGES, _DATA, ((), (), (), (None, "data")), ((None, "data"),)),
    "convolutions over rows, gradient": Model(
        _gradient(squared(images), (0, 1, 2)), _IMAGES, _DATA, ((), (), (), (None, "data")), ((), (), ())
    ),
    "embedding by rows": Model(embedding, _TABLE, _GRID, (("model",), (), _ROWS), (_ROWS,), _TOKENS),
    "embedding by rows, gradient": Model(
        _gradient(squared(embedding), (0, 1)), _TABLE, _GRID, (("model",), (), _ROWS), (("model",), ()), _TOKENS
    ),
    "pipeline of 8 stages": Model(pipeline, _STAGES, (("stage", 8),), (("stage",), ()), ((),)),
    "pipeline of 8 stages, gradient": Model(
        _gradient(squared(pipeline), (0,)), _STAGES, (("stage", 8),), (("stage",), ()), (("stage",),)
    ),
    "k-means, 10 turns": Model(means, ((1024, 16), (8, 16)), _DATA, (_ROWS, ()), ((),)),
    "heat on a plate, 10 steps": Model(heat, ((64, 64),), _PLATE, (("x", "y"),), (("x", "y"),)),
    "heat on a plate, gradient": Model(
        _gradient(squared(heat), (0,)), ((64, 64),), _PLATE, (("x", "y"),), (("x", "y"),)
    ),
    "heat on a torus, 10 steps": Model(torus, ((64, 64),), _PLATE, (("x", "y"),), (("x", "y"),)),
    "heat on a torus, gradient": Model(
        _gradient(squared(torus), (0,)), ((64, 64),), _PLATE, (("x", "y"),), (("x", "y"),)
    ),
}  # fmt: skip
