"""Sphere tracing of a signed distance field: normals by vmap of grad, shadows, and the gradient of a picture."""

from __future__ import annotations

from typing import Any

import numpy as onp

from .runner import Program, check

SIZE = 8


def programs(xp: Any) -> list[Program]:
    np, lax = xp.numpy, xp.lax

    def distance(scene, p):
        """Two spheres melted into each other, over a floor, with a torus."""
        spheres = np.sqrt(np.sum((p - scene["centres"]) ** 2, -1) + 1e-12) - scene["radii"]
        k = 0.3
        h = np.clip(0.5 + 0.5 * (spheres[1] - spheres[0]) / k, 0, 1)
        melted = spheres[1] * (1 - h) + spheres[0] * h - k * h * (1 - h)
        q = np.stack([np.sqrt(p[0] ** 2 + p[2] ** 2 + 1e-12) - 0.9, p[1] + 0.5])
        torus = np.sqrt(np.sum(q**2) + 1e-12) - 0.15
        return np.minimum(np.minimum(melted, torus), p[1] + 1.0)

    def material(scene, p):
        """A colour by which object is nearest, smoothly."""
        spheres = np.sqrt(np.sum((p - scene["centres"]) ** 2, -1) + 1e-12) - scene["radii"]
        weights = xp.nn.softmax(-8 * np.append(spheres, p[1] + 1.0))
        return weights @ scene["colours"]

    def march(scene, origin, direction, far=8.0):
        """How far a ray goes, and in how many steps: it stops at a surface or far away."""

        def unfinished(c):
            t, d, n = c
            return (np.abs(d) > 1e-3) & (t < far) & (n < 48)

        def body(c):
            t, _, n = c
            d = distance(scene, origin + t * direction)
            return t + d, d, n + 1

        return lax.while_loop(unfinished, body, (0.0, 1.0, 0))

    def hit(scene, origin, direction):
        """The distance to the surface with a derivative: one step of Newton's at the point that marching found."""
        t, d, n = march(lax.stop_gradient(scene), lax.stop_gradient(origin), lax.stop_gradient(direction))
        t = lax.stop_gradient(t)
        p = origin + t * direction
        slope = lax.stop_gradient(xp.grad(distance, argnums=1)(scene, p) @ direction)
        return t - distance(scene, p) / np.where(np.abs(slope) < 0.1, 0.1, slope) * (t < 8.0), n

    def shade(scene, origin, direction):
        t, n = hit(scene, origin, direction)
        p = origin + t * direction
        normal = xp.grad(distance, argnums=1)(scene, p)
        normal = normal / np.sqrt(np.sum(normal**2) + 1e-12)
        light = scene["light"] / np.sqrt(np.sum(scene["light"] ** 2))

        def dim(i, c):
            s, shadow = c
            d = distance(scene, p + 0.02 * normal + s * light)
            return s + np.clip(d, 0.05, 0.5), np.minimum(shadow, 8 * np.maximum(d, 0) / s)

        _, shadow = lax.fori_loop(0, 10, dim, (0.05, 1.0))
        diffuse = np.maximum(normal @ light, 0.0) * shadow
        mirrored = direction - 2 * (direction @ normal) * normal
        shine = np.maximum(mirrored @ light, 1e-3) ** 16
        colour = material(scene, p) * (0.1 + diffuse) + 0.2 * shine
        sky = np.stack([0.3, 0.5, 0.7 + 0.3 * direction[1]])
        return np.where(t < 8.0, colour, sky), (t, normal, n)

    def rays():
        xs = (np.arange(SIZE, dtype=np.float32) + 0.5) / SIZE * 2 - 1
        grid = np.stack(np.meshgrid(xs, -xs), -1).reshape(-1, 2)
        d = np.concatenate([grid * 0.7, np.ones((SIZE * SIZE, 1))], -1)
        return d / np.linalg.norm(d, axis=-1, keepdims=True)

    def render(scene):
        colours, (t, normals, n) = xp.vmap(shade, in_axes=(None, None, 0))(scene, np.array([0.0, 0.2, -3.0]), rays())
        return np.sqrt(np.clip(colours, 1e-4, 1)).reshape(SIZE, SIZE, 3), t, normals, n

    def row_by_row(scene):
        """The same picture painted into a buffer by a loop, with the picture before the last row beside it."""

        def paint(i, c):
            image, _ = c
            d = lax.dynamic_slice(rays(), (i * SIZE, 0), (SIZE, 3))
            row, _ = xp.vmap(shade, in_axes=(None, None, 0))(scene, np.array([0.0, 0.2, -3.0]), d)
            return image.at[i].set(row), image

        return lax.fori_loop(0, SIZE, paint, (np.zeros((SIZE, SIZE, 3)), np.zeros((SIZE, SIZE, 3))))

    def loss(scene, target):
        picture, *rest = render(scene)
        return np.mean((picture - target) ** 2), (picture, rest)

    def curvature(scene, points):
        """Mean curvature of the field, its gradient's length and its value, at many points."""

        def f(p):
            return distance(scene, p)

        return xp.vmap(lambda p: (f(p), np.linalg.norm(xp.grad(f)(p)), np.trace(xp.hessian(f)(p))))(points)

    scene = {
        "centres": onp.array([[-0.4, 0.1, 0.0], [0.5, 0.4, 0.3]], onp.float32),
        "radii": onp.array([0.6, 0.4], onp.float32),
        "colours": onp.array([[0.9, 0.2, 0.1], [0.1, 0.4, 0.9], [0.5, 0.5, 0.5]], onp.float32),
        "light": onp.array([0.5, 1.0, -0.7], onp.float32),
    }
    target = onp.random.default_rng(11).uniform(size=(SIZE, SIZE, 3)).astype(onp.float32)
    points = onp.random.default_rng(12).uniform(-1, 1, (16, 3)).astype(onp.float32)
    # Marching stops at a distance of 1e-3: a rounding moves the point of a ray at grazing incidence by some 1e-5.
    return [
        Program("row by row", row_by_row, (scene,), rtol=1e-3, reference=False),
        Program("picture and gradient", xp.value_and_grad(loss, has_aux=True), (scene, target), rtol=5e-3),
        Program("curvature", curvature, (scene, points), rtol=1e-4),
    ]


def test_ray_marcher():
    check(programs)
