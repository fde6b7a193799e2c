"""The digits network: learns, and its loss follows the same program's under JAX."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import quire
import quire.numpy as qnp


def load() -> Any:
    path = Path(__file__).parents[2] / "examples" / "digits_mlp.py"
    spec = importlib.util.spec_from_file_location("digits_mlp", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


example = load()


def loss_curve(step: Any, steps: int) -> np.ndarray[Any, Any]:
    pixels, labels = example.load_digits()
    pixels, labels = pixels[example.HELD_OUT :], labels[example.HELD_OUT :]
    params = example.initial_parameters()
    moments = example.zero_moments(params)
    losses: list[Any] = []
    for t, (_, rows) in zip(range(1, steps + 1), example.batches(len(pixels), 20)):
        params, moments, value = step(params, moments, np.float32(t), pixels[rows], labels[rows])
        losses.append(value)
    return np.array([float(x) for x in losses])


def test_loss_follows_jax() -> None:
    jax = pytest.importorskip("jax")
    ours = loss_curve(quire.compile(example.make_step(quire, qnp)[0]), 100)
    theirs = loss_curve(jax.jit(example.make_step(jax, jax.numpy)[0]), 100)
    np.testing.assert_allclose(ours, theirs, atol=1e-4)
    assert ours[-1] < 0.5 < ours[0]


def test_recognises_held_out_digits() -> None:
    lines: list[str] = []
    _, accuracy = example.train(report=lines.append)
    assert accuracy >= 0.97, lines[-1]
    assert len(lines) == example.EPOCHS and "loss" in lines[0] and "accuracy" in lines[0]
