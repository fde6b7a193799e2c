"""Clusters the handwritten digits with k-means: a compiled `while_loop` until the centres stop moving.

The data: 1,797 digits of 8x8 pixels (0-16) with their labels, the test set of "Optical Recognition of Handwritten
Digits" (E. Alpaydin, C. Kaynak), CC BY 4.0, as scikit-learn distributes it. Run with ``python examples/digits_kmeans.py``.
"""

from __future__ import annotations

import gzip
import time
from pathlib import Path

import numpy as np

import quire
import quire.numpy as qnp
from quire import lax

CLUSTERS = 10
MAX_STEPS = 300


def load_digits() -> tuple[np.ndarray, np.ndarray]:
    """The pixels, f32[1797,64] in 0..16, and the labels, i64[1797]."""
    with gzip.open(Path(__file__).with_name("digits.csv.gz"), "rt") as file:
        table = np.loadtxt(file, delimiter=",")
    return table[:, :-1].astype(np.float32), table[:, -1].astype(np.int64)


def nearest(points, centres):
    """The index of the nearest centre of each point: i32[n]."""
    # |p - c|^2 without the term |p|^2, which is the same for all centres.
    distances = (centres**2).sum(axis=1) - 2 * points @ centres.T
    return distances.argmin(axis=1)


def step(points, centres):
    """One step of Lloyd's algorithm: each centre moves to the mean of its points; one without points stays."""
    members = qnp.equal(nearest(points, centres)[:, None], qnp.arange(CLUSTERS)).astype(points.dtype)
    counts = members.sum(axis=0)[:, None]
    return qnp.where(counts > 0, members.T @ points / qnp.maximum(counts, 1), centres)


@quire.compile
def kmeans(points, centres):
    """Lloyd's algorithm from the given centres: the final centres, the assignment and the number of steps."""

    def moving(state):
        i, old, new = state
        return (i < MAX_STEPS) & (abs(new - old).max() > 0)

    def body(state):
        i, _, new = state
        return i + 1, new, step(points, new)

    steps, _, centres = lax.while_loop(moving, body, (1, centres, step(points, centres)))
    return centres, nearest(points, centres), steps


def kmeans_numpy(points: np.ndarray, centres: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
    """The same algorithm in NumPy."""

    def assign(c):
        return ((c**2).sum(axis=1) - 2 * points @ c.T).argmin(axis=1)

    def move(c):
        members = (assign(c)[:, None] == np.arange(CLUSTERS)).astype(points.dtype)
        counts = members.sum(axis=0)[:, None]
        return np.where(counts > 0, members.T @ points / np.maximum(counts, 1), c)

    old, new, steps = centres, move(centres), 1
    while steps < MAX_STEPS and abs(new - old).max() > 0:
        old, new, steps = new, move(new), steps + 1
    return new, assign(new), steps


def agreement(labels: np.ndarray, clusters: np.ndarray) -> float:
    """The share of points whose label is the most frequent one of their cluster."""
    hits = sum(np.bincount(labels[clusters == k]).max() for k in range(CLUSTERS) if (clusters == k).any())
    return hits / len(labels)


def main() -> None:
    points, labels = load_digits()
    start = points[np.random.default_rng(0).choice(len(points), CLUSTERS, replace=False)]

    begin = time.perf_counter()
    centres, clusters, steps = kmeans(points, start)
    first = time.perf_counter() - begin
    begin = time.perf_counter()
    centres, clusters, steps = kmeans(points, start)
    clusters = np.asarray(clusters)
    again = time.perf_counter() - begin

    begin = time.perf_counter()
    expected_centres, expected_clusters, expected_steps = kmeans_numpy(points, start)
    numpy_time = time.perf_counter() - begin

    print(f"{len(points)} digits in {CLUSTERS} clusters after {int(steps)} steps")
    print(f"agreement of the clusters with the labels: {agreement(labels, clusters):.1%}")
    print(
        f"quire: first call {first:.2f} s (with compilation), then {again * 1e3:.1f} ms; NumPy: {numpy_time * 1e3:.1f} ms"
    )
    same = int(steps) == expected_steps and np.array_equal(clusters, expected_clusters)
    error = float(np.abs(np.asarray(centres) - expected_centres).max())
    print(f"the same clusters as NumPy: {'yes' if same else 'NO'}; largest difference of a centre: {error:.1e}")
    if not same or error > 1e-3:
        raise SystemExit("quire and NumPy disagree")


if __name__ == "__main__":
    main()
