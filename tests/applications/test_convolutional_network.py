"""An image classifier: convolutions, batch norm with running statistics, pooling, augmentation, momentum."""

from __future__ import annotations

from typing import Any

import numpy as onp

from .runner import Program, check

BATCH, SIZE, CLASSES = 4, 8, 3


def initial() -> tuple[dict[str, Any], dict[str, Any]]:
    """Parameters and running statistics."""
    rng = onp.random.default_rng(7)

    def normal(*shape: int) -> Any:
        return (rng.standard_normal(shape) / onp.sqrt(onp.prod(shape[:-1]))).astype(onp.float32)

    params = {
        "stem": normal(3, 3, 2, 8), "depthwise": normal(3, 3, 1, 8), "pointwise": normal(1, 1, 8, 12),
        "down": normal(2, 2, 8, 12), "head": normal(12, CLASSES), "bias": onp.zeros(CLASSES, onp.float32),
        "norms": [{"scale": onp.ones(n, onp.float32), "shift": onp.zeros(n, onp.float32)} for n in (8, 12)],
    }  # fmt: skip
    stats = {"mean": [onp.zeros(n, onp.float32) for n in (8, 12)], "var": [onp.ones(n, onp.float32) for n in (8, 12)]}
    return params, stats


def programs(xp: Any) -> list[Program]:
    np, lax, random, nn = xp.numpy, xp.lax, xp.random, xp.nn
    layout = ("NHWC", "HWIO", "NHWC")

    def convolved(x, kernel, stride=1, padding="SAME", groups=1):
        return lax.conv_general_dilated(
            x, kernel, (stride, stride), padding, dimension_numbers=layout, feature_group_count=groups
        )

    def batch_norm(x, norm, stats, n, training):
        """Normalised by the batch in training, by the running statistics otherwise; gives the statistics' successors."""
        if not training:
            mean, var = stats["mean"][n], stats["var"][n]
            return (x - mean) * lax.rsqrt(var + 1e-5) * norm["scale"] + norm["shift"], stats
        mean, var = x.mean((0, 1, 2)), x.var((0, 1, 2))
        stats = {
            "mean": [0.9 * s + 0.1 * mean if i == n else s for i, s in enumerate(stats["mean"])],
            "var": [0.9 * s + 0.1 * var if i == n else s for i, s in enumerate(stats["var"])],
        }
        return (x - mean) * lax.rsqrt(var + 1e-5) * norm["scale"] + norm["shift"], stats

    def pooled(x, kind):
        window = (1, 3, 3, 1)
        if kind == "max":
            return lax.reduce_window(x, -np.inf, lax.max, window, (1, 2, 2, 1), "SAME")
        total = lax.reduce_window(x, 0.0, lax.add, window, (1, 1, 1, 1), "SAME")
        return total / lax.reduce_window(np.ones_like(x), 0.0, lax.add, window, (1, 1, 1, 1), "SAME")

    def network(params, stats, images, training):
        x = convolved(images, params["stem"])
        x, stats = batch_norm(x, params["norms"][0], stats, 0, training)
        x = pooled(nn.relu(x), "max")
        short = convolved(x, params["down"], stride=2, padding="VALID")
        x = convolved(pooled(x, "mean"), params["depthwise"], groups=8, stride=2)
        x, stats = batch_norm(convolved(x, params["pointwise"]), params["norms"][1], stats, 1, training)
        x = nn.silu(x + short)
        return x.mean((1, 2)) @ params["head"] + params["bias"], stats

    def augmented(images, key):
        """Flips, shifts by a pixel, and a square cut out of each image."""
        flip, shift, cut = random.split(key, 3)
        images = np.where(random.bernoulli(flip, 0.5, (BATCH, 1, 1, 1)), images[:, :, ::-1], images)
        offsets = random.randint(shift, (BATCH, 2), -1, 2)
        images = xp.vmap(lambda image, o: np.roll(image, o, (0, 1)))(images, offsets)
        corners = random.randint(cut, (BATCH, 2), 0, SIZE - 2)
        hole = np.zeros((3, 3, 2))
        return xp.vmap(lambda image, c: lax.dynamic_update_slice(image, hole, (c[0], c[1], 0)))(images, corners)

    def loss(params, stats, images, labels):
        logits, stats = network(params, stats, images, True)
        decay = sum(np.sum(p**2) for p in xp.tree.leaves(params) if p.ndim > 1)
        nll = -np.mean(np.take_along_axis(nn.log_softmax(logits), labels[:, None], 1))
        return nll + 1e-3 * decay, (stats, np.mean(np.argmax(logits, -1) == labels))

    def train(state, images, labels):
        """A step of SGD with Nesterov's momentum and an average of the weights over time."""
        params, stats, momentum, average, key = state
        key, now = random.split(key)
        (value, (stats, accuracy)), g = xp.value_and_grad(loss, has_aux=True)(
            params, stats, augmented(images, now), labels
        )
        momentum = xp.tree.map(lambda m, g: 0.9 * m + g, momentum, g)
        params = xp.tree.map(lambda p, m, g: p - 0.05 * (g + 0.9 * m), params, momentum, g)
        average = xp.tree.map(lambda a, p: 0.99 * a + 0.01 * p, average, params)
        return (params, stats, momentum, average, key), value, accuracy

    def epoch(state, images, labels):
        """Several steps in a scan over shuffled batches; the statistics before are given beside those after."""
        order = random.permutation(state[4], BATCH * 2).reshape(2, BATCH)

        def body(s, i):
            return (lambda out: (out[0], (out[1:], s[1])))(train(s, images[i], labels[i]))

        return lax.scan(body, state, order)

    def saliency(params, stats, images, labels):
        """The gradient of each image's own score by its pixels."""

        def score(image, label):
            return network(params, stats, image[None], False)[0][0, label]

        return xp.vmap(xp.value_and_grad(score))(images, labels)

    rng = onp.random.default_rng(8)
    images = rng.standard_normal((2 * BATCH, SIZE, SIZE, 2)).astype(onp.float32)
    labels = rng.integers(0, CLASSES, 2 * BATCH).astype(onp.int32)
    params, stats = initial()
    zeros = xp.tree.map(onp.zeros_like, params)
    state = (params, stats, zeros, params, onp.array([4, 4], onp.uint32))
    return [
        Program("training", epoch, (state, images, labels), rtol=1e-3, atol=1e-5, step=True),
        Program("saliency", saliency, (params, stats, images[:4], labels[:4]), rtol=5e-5),
    ]


def test_convolutional_network():
    check(programs)
