"""Images aligned by gradient descent over resolutions, optical flow, denoising by total variation, and morphology."""

from __future__ import annotations

from typing import Any

import numpy as onp

from .runner import Program, check

SIZE = 16


def programs(xp: Any) -> list[Program]:
    np, lax = xp.numpy, xp.lax
    interpolate = xp.scipy.ndimage.map_coordinates

    def warped(image, theta):
        """The image under a rotation, a scale and a shift about its middle."""
        n = image.shape[0]
        y, x = np.meshgrid(np.arange(n) - (n - 1) / 2, np.arange(n) - (n - 1) / 2, indexing="ij")
        c, s = np.exp(theta[1]) * np.cos(theta[0]), np.exp(theta[1]) * np.sin(theta[0])
        rows, columns = c * y - s * x + theta[2] * n + (n - 1) / 2, s * y + c * x + theta[3] * n + (n - 1) / 2
        return interpolate(image, [rows, columns], order=1, mode="nearest")

    def blurred(image):
        kernel = np.array([1.0, 4.0, 6.0, 4.0, 1.0]) / 16

        def along(row):
            return np.convolve(np.pad(row, 2, mode="edge"), kernel, mode="valid")

        return xp.vmap(along, 1, 1)(xp.vmap(along)(image))

    def pyramid(image):
        return [blurred(blurred(image))[::4, ::4], blurred(image)[::2, ::2], image]

    def register(moving, fixed, steps=4):
        """Descent with momentum from the coarse to the fine; the best transformation of each level begins the next."""
        theta, history = np.zeros(4), []
        for small_moving, small_fixed in zip(pyramid(moving), pyramid(fixed)):

            def loss(t, m=small_moving, f=small_fixed):
                return np.mean((warped(m, t) - f) ** 2)

            def body(c, _, loss=loss):
                theta, velocity, best, best_value = c
                value, g = xp.value_and_grad(loss)(theta)
                best = np.where(value < best_value, theta, best)
                velocity = 0.5 * velocity - 0.05 * g
                return (theta + velocity, velocity, best, np.minimum(best_value, value)), (value, theta)

            (_, _, theta, _), seen = lax.scan(body, (theta, np.zeros(4), theta, np.inf), None, length=steps)
            history.append(seen)
        return theta, history

    def lucas_kanade(a, b):
        """The shift between two images in windows, by their structure tensors."""
        gy, gx = np.gradient(0.5 * (a + b))

        def window(z):
            return lax.reduce_window(z, 0.0, lax.add, (5, 5), (2, 2), "VALID")

        xx, xy, yy = window(gx * gx) + 1e-2, window(gx * gy), window(gy * gy) + 1e-2
        xt, yt = window(gx * (b - a)), window(gy * (b - a))
        determinant = xx * yy - xy**2
        return np.stack([(-yy * xt + xy * yt) / determinant, (xy * xt - xx * yt) / determinant])

    def total_variation(image, strength, steps=8):
        """Chambolle and Pock's primal-dual method: the extrapolated picture is made of the new and the old."""

        def gradient(u):
            return np.stack(
                [np.zeros_like(u).at[:-1].set(u[1:] - u[:-1]), np.zeros_like(u).at[:, :-1].set(u[:, 1:] - u[:, :-1])]
            )

        def divergence(p):
            d = p[0].at[1:].add(-p[0][:-1])
            return d + p[1].at[:, 1:].add(-p[1][:, :-1])

        def body(i, c):
            u, bar, p = c
            p = p + 0.3 * gradient(bar)
            p = p / np.maximum(1.0, np.sqrt(np.sum(p**2, 0) + 1e-12) / strength)
            new = (u + 0.3 * divergence(p) + 0.3 * image) / 1.3
            return new, 2 * new - u, p

        return lax.fori_loop(0, steps, body, (image, image, np.zeros((2, *image.shape))))

    def variation_loss(image, strength, clean):
        u, bar, p = total_variation(image, strength)
        return np.mean((u - clean) ** 2), (bar, p)

    def bilateral(image):
        """Each pixel a mean of its neighbours weighted by likeness, neighbours gathered by shifted slices."""
        p = np.pad(image, 1, mode="reflect")
        shifted = np.stack([lax.dynamic_slice(p, (i, j), image.shape) for i in range(3) for j in range(3)])
        w = np.exp(-8 * (shifted - image) ** 2)
        return np.sum(w * shifted, 0) / np.sum(w, 0)

    def segmented(image):
        """Otsu's threshold from the histogram; regions by spreading labels; their areas and centres."""
        counts, edges = np.histogram(image, bins=16, range=(-2.0, 2.0))
        w = np.cumsum(counts)
        m = np.cumsum(counts * 0.5 * (edges[1:] + edges[:-1]))
        between = (m[-1] * w / w[-1] - m) ** 2 / np.maximum(w * (w[-1] - w), 1)
        mask = image > edges[np.argmax(between) + 1]
        opened = -lax.reduce_window(-mask.astype("float32"), -np.inf, lax.max, (2, 2), (1, 1), "SAME")

        def spread(c):
            label, _ = c
            p = np.pad(label, 1)
            top = np.max(np.stack([p[:-2, 1:-1], p[2:, 1:-1], p[1:-1, :-2], p[1:-1, 2:], label]), 0)
            return np.where(mask, top, 0), label

        first = np.where(mask, np.arange(1, SIZE * SIZE + 1).reshape(SIZE, SIZE), 0)
        label, _ = lax.while_loop(lambda c: np.any(c[0] != c[1]), spread, (first, np.zeros_like(first)))
        area = np.bincount(label.reshape(-1), length=SIZE * SIZE + 1)
        order = np.argsort(-area.at[0].set(0))[:4]
        return label, area[order], opened, mask

    def equalised(image):
        """The histogram made flat by ranks, and local contrast by an integral image."""
        flat = image.reshape(-1)
        ranks = np.zeros(flat.size).at[np.argsort(flat)].set(np.arange(flat.size) / flat.size)
        total = np.pad(np.cumsum(np.cumsum(image, 0), 1), ((1, 0), (1, 0)))
        local = total[4:, 4:] - total[:-4, 4:] - total[4:, :-4] + total[:-4, :-4]
        return ranks.reshape(image.shape), local / 16, np.percentile(image, np.array([5.0, 50.0, 95.0]))

    rng = onp.random.default_rng(22)
    y, x = onp.mgrid[:SIZE, :SIZE]
    clean = (onp.exp(-((x - 6.0) ** 2 + (y - 8.5) ** 2) / 12) + (x > 10) * 0.5).astype(onp.float32)
    noisy = (clean + 0.2 * rng.standard_normal((SIZE, SIZE))).astype(onp.float32)
    moved = onp.roll(clean, (1, 2), (0, 1))
    strength = onp.float32(0.2)
    return [
        Program("registration", register, (clean, moved), rtol=5e-4),
        Program(
            "optical flow", xp.value_and_grad(lambda a, b: np.sum(lucas_kanade(a, b) ** 2)), (clean, moved), rtol=2e-4
        ),
        Program(
            "total variation",
            xp.value_and_grad(variation_loss, (0, 1), has_aux=True),
            (noisy, strength, clean),
            rtol=1e-4,
        ),
        Program(
            "filters",
            lambda i: (xp.vjp(bilateral, i)[1](i), bilateral(i), equalised(i), segmented(i)),
            (noisy,),
            rtol=2e-5,
        ),
    ]


def test_image_registration():
    check(programs)
