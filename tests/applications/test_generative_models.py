"""A normalizing flow, a variational autoencoder and a diffusion model, with the steps that train them."""

from __future__ import annotations

from typing import Any

import numpy as onp

from .runner import Program, check

BATCH, D, LATENT, HIDDEN = 8, 4, 2, 10


def programs(xp: Any) -> list[Program]:
    np, lax, random, nn = xp.numpy, xp.lax, xp.random, xp.nn

    def mlp(layers, x):
        for w, b in layers[:-1]:
            x = np.tanh(x @ w + b)
        return x @ layers[-1][0] + layers[-1][1]

    def coupled(layer, x, inverse=False):
        """An affine coupling: the masked half decides how the other moves."""
        kept = layer["mask"]
        shift, log_scale = np.split(mlp(layer["net"], x * kept), 2, axis=-1)
        log_scale = np.tanh(log_scale) * (1 - kept)
        shift = shift * (1 - kept)
        y = (x - shift) * np.exp(-log_scale) if inverse else x * np.exp(log_scale) + shift
        return y, np.sum(log_scale, -1) * (-1 if inverse else 1)

    def to_noise(params, x):
        total = 0.0
        for layer in reversed(params):
            x, logdet = coupled(layer, x, inverse=True)
            total = total + logdet
        return x, total

    def flow_loss(params, x):
        z, logdet = to_noise(params, x)
        return np.mean(0.5 * np.sum(z**2, -1) - logdet) + 0.5 * D * np.log(2 * np.pi)

    def flow_checks(params, z):
        """Samples, that the inverse gives back the noise, and the log-determinant by the Jacobian."""

        def sample(z):
            for layer in params:
                z, _ = coupled(layer, z)
            return z

        x = sample(z)
        back, logdet = to_noise(params, x)
        jacobian = xp.vmap(xp.jacfwd(sample))(z)
        return x, back - z, logdet + np.linalg.slogdet(jacobian)[1]

    def masked_step(params, m, x):
        """A step with momentum of the parts of the parameters that are trained: masks are not."""
        value, g = xp.value_and_grad(flow_loss)(params, x)
        m = xp.tree.map(lambda m, g: 0.9 * m + g, m, g)
        stepped = xp.tree.map(lambda p, m: p - 0.02 * m, params, m)
        return [{"net": s["net"], "mask": p["mask"]} for s, p in zip(stepped, params)], m, value

    def train_flow(state, x):
        params, m = state
        params, m, value = masked_step(params, m, x)
        return (params, m), value

    def elbo(params, x, key):
        """The evidence bound of binary data, several samples each, and its importance-weighted form."""
        mean, log_std = np.split(mlp(params["encoder"], x), 2, -1)
        noise = random.normal(key, (3, *mean.shape))
        z = mean + np.exp(log_std) * noise
        logits = mlp(params["decoder"], z)
        log_p = np.sum(x * nn.log_sigmoid(logits) + (1 - x) * nn.log_sigmoid(-logits), -1)
        log_prior, log_q = -0.5 * np.sum(z**2, -1), np.sum(-0.5 * noise**2 - log_std, -1)
        weights = log_p + log_prior - log_q
        kl = 0.5 * np.sum(mean**2 + np.exp(2 * log_std) - 1 - 2 * log_std, -1)
        tight = nn.logsumexp(weights, axis=0) - np.log(3.0)
        return -np.mean(log_p.mean(0) - kl), (np.mean(tight), kl)

    def train_autoencoder(state, x):
        """Adam for both networks, a running mean of the bound, and a slowly following copy of the decoder."""
        params, m, v, copy, key, t = state
        key, now = random.split(key)
        (value, (tight, kl)), g = xp.value_and_grad(elbo, has_aux=True)(params, x, now)
        t = t + 1
        m = xp.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, g)
        v = xp.tree.map(lambda v, g: 0.99 * v + 0.01 * g * g, v, g)
        new = xp.tree.map(
            lambda p, m, v: p - 0.01 * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.99**t)) + 1e-3), params, m, v
        )
        copy = xp.tree.map(lambda c, p: 0.9 * c + 0.1 * p, copy, params["decoder"])
        return (new, m, v, copy, key, t), value, tight, kl

    def diffuse(params, x, key):
        """The denoising loss at random times, and samples by running the reverse process in a scan."""
        steps = 6
        betas = np.linspace(0.05, 0.4, steps)
        kept = np.cumprod(1 - betas)
        now, noise_key, sample_key = random.split(key, 3)

        def guess(params, x, t):
            return mlp(
                params, np.concatenate([x, np.broadcast_to(np.sin(t * np.arange(1.0, 3.0)), (*x.shape[:-1], 2))], -1)
            )

        def loss(params):
            t = random.randint(now, (BATCH, 1), 0, steps)
            noise = random.normal(noise_key, x.shape)
            noisy = np.sqrt(kept[t]) * x + np.sqrt(1 - kept[t]) * noise
            return np.mean((guess(params, noisy, t / steps) - noise) ** 2)

        def reverse(carry, inputs):
            y, key = carry
            beta, total, t = inputs
            key, draw = random.split(key)
            mean = (y - beta / np.sqrt(1 - total) * guess(params, y, t / steps)) / np.sqrt(1 - beta)
            new = mean + np.where(t > 0, np.sqrt(beta), 0.0) * random.normal(draw, y.shape)
            return (new, key), y

        start = random.normal(sample_key, (4, D))
        (samples, _), path = lax.scan(reverse, (start, sample_key), (betas, kept, np.arange(steps)), reverse=True)
        return xp.value_and_grad(loss)(params), samples, path

    rng = onp.random.default_rng(21)

    def normal(*shape):
        return (rng.standard_normal(shape) * shape[0] ** -0.5).astype(onp.float32)

    def layers(*sizes):
        return [(normal(a, b), onp.zeros(b, onp.float32)) for a, b in zip(sizes, sizes[1:])]

    mask = onp.array([1, 0, 1, 0], onp.float32)
    flow = [{"net": layers(D, HIDDEN, 2 * D), "mask": mask if k % 2 else 1 - mask} for k in range(3)]
    vae = {"encoder": layers(D, HIDDEN, 2 * LATENT), "decoder": layers(LATENT, HIDDEN, D)}
    x = rng.standard_normal((BATCH, D)).astype(onp.float32)
    bits = (x > 0).astype(onp.float32)

    def zeros(tree):
        return xp.tree.map(onp.zeros_like, tree)

    key = onp.array([0, 31], onp.uint32)
    state = (vae, zeros(vae), zeros(vae), vae["decoder"], key, onp.int32(0))
    return [
        Program("flow", train_flow, ((flow, zeros(flow)), x), rtol=2e-4, step=True),
        Program("flow's inverse", flow_checks, (flow, x[:4]), rtol=5e-5, atol=2e-5),
        Program("autoencoder", train_autoencoder, (state, bits), rtol=1e-3, step=True),
        Program("diffusion", diffuse, (layers(D + 2, HIDDEN, D), x, key), rtol=5e-5),
    ]


def test_generative_models():
    check(programs)
