"""The spectral radius network: learns, with conjugated gradients of complex weights."""

from __future__ import annotations

import importlib.util
from pathlib import Path


def test_learns():
    path = Path(__file__).parents[2] / "examples" / "spectral_radius.py"
    spec = importlib.util.spec_from_file_location("spectral_radius", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    lines: list[str] = []
    losses = module.train(500, report=lines.append)
    assert len(losses) == len(lines) == 10
    assert losses[-1] < 0.1 < losses[0] and "steps a second" in lines[0]
