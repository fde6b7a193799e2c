"""Wavelets: the reversible transform of JPEG 2000 in narrow integers, and denoising by a transform of floats that is learnt."""

from __future__ import annotations

from typing import Any

import numpy as onp

from .runner import Program, check

#: The lifting steps of the transform of Cohen, Daubechies and Feauveau with filters of 9 and 7 taps, and its scale.
STEPS = (-1.586134342, -0.05298011854, 0.8829110762, 0.4435068522)
SCALE = 1.149604398


def programs(xp: Any) -> list[Program]:
    np, lax = xp.numpy, xp.lax

    def neighbours(even, axis, after):
        """The sum of each element and the next one, or the one before; at the border it is reflected."""
        n = even.shape[axis]
        inner, edge = (slice(1, None), slice(n - 1, None)) if after else (slice(None, n - 1), slice(0, 1))

        def part(s):
            return even[(slice(None),) * axis + (s,)]

        return even + np.concatenate([part(inner), part(edge)] if after else [part(edge), part(inner)], axis)

    def halves(x, axis):
        head = (slice(None),) * axis
        return x[(*head, slice(None, None, 2))], x[(*head, slice(1, None, 2))]

    def joined(even, odd, axis):
        shape = list(even.shape)
        shape[axis] *= 2
        return np.stack([even, odd], axis + 1).reshape(shape)

    def whole_forward(x, axis):
        even, odd = halves(x, axis)
        odd = odd - (neighbours(even, axis, True) >> 1)
        even = even + ((neighbours(odd, axis, False) + 2) >> 2)
        return np.concatenate([even, odd], axis)

    def whole_backward(y, axis):
        even, odd = np.split(y, 2, axis)
        even = even - ((neighbours(odd, axis, False) + 2) >> 2)
        odd = odd + (neighbours(even, axis, True) >> 1)
        return joined(even, odd, axis)

    def coded(image):
        """Two levels, each in the corner of the one before; the bits that are left, and the image again."""
        y = image.astype(np.int16) - 128
        for level in range(2):
            n = image.shape[0] >> level
            y = y.at[:n, :n].set(whole_forward(whole_forward(y[:n, :n], 0), 1))
        bits = np.sum(16 - lax.clz(np.abs(y)))
        back = y
        for level in reversed(range(2)):
            n = image.shape[0] >> level
            back = back.at[:n, :n].set(whole_backward(whole_backward(back[:n, :n], 1), 0))
        return y, bits, np.clip(back + 128, 0, 255).astype(np.uint8), back

    def forward(x, steps, axis):
        even, odd = halves(x, axis)
        for i in range(0, 4, 2):
            odd = odd + steps[i] * neighbours(even, axis, True)
            even = even + steps[i + 1] * neighbours(odd, axis, False)
        return even * SCALE, odd / SCALE

    def backward(even, odd, steps, axis):
        even, odd = even / SCALE, odd * SCALE
        for i in (2, 0):
            even = even - steps[i + 1] * neighbours(odd, axis, False)
            odd = odd - steps[i] * neighbours(even, axis, True)
        return joined(even, odd, axis)

    def denoised(params, x, depth=2):
        """Each level's details are shrunk by a threshold of their own."""
        if not depth:
            return x
        low, high = forward(x, params["steps"], -2 % x.ndim)
        parts = [forward(v, params["steps"], x.ndim - 1) for v in (low, high)]
        t = np.exp(params["thresholds"][depth - 1])

        def shrunk(d):
            return np.sign(d) * np.maximum(np.abs(d) - t, 0)

        (ll, lh), (hl, hh) = parts
        low = backward(denoised(params, ll, depth - 1), shrunk(lh), params["steps"], x.ndim - 1)
        high = backward(shrunk(hl), shrunk(hh), params["steps"], x.ndim - 1)
        return backward(low, high, params["steps"], -2 % x.ndim)

    def loss(params, noisy, clean):
        return np.mean((xp.vmap(lambda x: denoised(params, x))(noisy) - clean) ** 2)

    def train(params, noisy, clean):
        value, grads = xp.value_and_grad(loss)(params, noisy, clean)
        return xp.tree.map(lambda p, g: p - 0.05 * g, params, grads), value

    def inverted(params, x):
        """With thresholds of nothing the image comes back, whatever the steps are."""
        return denoised({"steps": params["steps"], "thresholds": np.full(2, -np.inf)}, x)

    rng = onp.random.default_rng(5)
    y, x = onp.mgrid[:32, :32]
    image = (128 + 60 * onp.sin(x / 5) * onp.cos(y / 7) + rng.integers(-9, 10, (32, 32))).astype(onp.uint8)
    clean = onp.stack([onp.sin(x / 6 + k) * onp.cos(y / 9) for k in range(2)]).astype(onp.float32)
    noisy = clean + 0.3 * rng.standard_normal(clean.shape).astype(onp.float32)
    params = {"steps": onp.array(STEPS, onp.float32), "thresholds": onp.log(onp.full(2, 0.3, onp.float32))}
    return [
        Program("coded", coded, (image,)),
        Program("denoised", denoised, (params, noisy[0]), rtol=2e-5),
        Program("training", train, (params, noisy, clean), rtol=2e-4, step=True),
        Program("inverted", inverted, (params, noisy[0]), rtol=2e-5),
    ]


def test_wavelets():
    check(programs)


def test_the_whole_transform_is_reversible():
    import quire

    (coded, *_) = programs(quire)
    image = coded.args[0]
    assert onp.array_equal(quire.jit(coded.f)(image)[2], image)
