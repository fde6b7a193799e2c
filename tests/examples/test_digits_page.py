"""The page of examples/digits_page.py in a headless browser: digits drawn with the mouse are classified, as Python has it."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

import quire
import quire.numpy as qnp
from tests import browser

pytestmark = pytest.mark.skipif(browser.CHROMIUM is None, reason="needs Chromium")

Stroke = list[tuple[float, float]]


def arc(x: float, y: float, rx: float, ry: float, start: float, end: float, steps: int = 24) -> Stroke:
    """Points of an ellipse, by angles in degrees from the right, clockwise on the screen."""
    angles = (math.radians(start + (end - start) * k / steps) for k in range(steps + 1))
    return [(x + rx * math.cos(a), y + ry * math.sin(a)) for a in angles]


DRAWN: dict[int, list[Stroke]] = {
    0: [arc(140, 140, 60, 95, -90, 270)],
    1: [[(105, 85), (145, 40), (145, 240)]],
    2: [[*arc(140, 95, 55, 55, 180, 400), (85, 235), (205, 235)]],
    3: [[*arc(130, 90, 55, 50, 200, 450), *arc(130, 190, 60, 50, -90, 160)]],
    4: [[(150, 40), (80, 160), (210, 160)], [(175, 100), (175, 245)]],
    6: [[(170, 40), (115, 110), *arc(140, 185, 50, 55, 180, 540)]],
    7: [[(80, 45), (205, 45), (135, 240)]],
}


def test_a_digit_drawn_with_the_mouse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "examples"))
    import digits_mlp
    import digits_page

    params, accuracy = digits_mlp.train(12, report=lambda line: None)
    params = [{key: np.asarray(value) for key, value in layer.items()} for layer in params]
    assert accuracy > 0.95
    path = tmp_path / "digits.html"
    path.write_text(digits_page.page(params), encoding="utf-8")
    assert path.stat().st_size < 160_000 and "http" not in path.read_text()
    _, predict = digits_mlp.make_step(quire, qnp)
    seen: list[list[float]] = []
    found: dict[int, int] = {}
    with browser.page() as tab:
        tab.open(path.as_uri())
        left, top = json.loads(tab.js("(()=>{const r=pad.getBoundingClientRect();return JSON.stringify([r.x,r.y])})()"))
        for digit, strokes in DRAWN.items():
            for first, *rest in strokes:
                tab.mouse("mousePressed", left + first[0], top + first[1])
                for x, y in rest:
                    tab.mouse("mouseMoved", left + x, top + y)
                tab.mouse("mouseReleased", left + rest[-1][0], top + rest[-1][1])
            data = json.loads(tab.js("JSON.stringify({...document.body.dataset})"))
            found[digit] = int(data["label"])
            assert tab.js("document.getElementById('class').textContent") == data["label"]
            assert float(data["milliseconds"]) < 50  # a few hundredths, on an idle machine
            seen.append(json.loads(data["pixels"]))
            tab.js("document.getElementById('clear').click()")
            assert tab.js("document.body.dataset.label") is None
        assert not tab.errors
    # Python gives the same classes for what the network saw, and they are what was drawn.
    pixels = np.array(seen, np.float32)
    assert pixels.shape == (len(DRAWN), 64) and 0 <= pixels.min() and pixels.max() == 1
    assert np.asarray(quire.compile(predict)(params, pixels)).tolist() == list(found.values())
    assert all(digit == label for digit, label in found.items()), found
