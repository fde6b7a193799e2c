"""A drawing of simulated steps: by matplotlib where it is installed, else an SVG of our own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .steps import Step

_SERIES = (("step", "#1f4e79"), ("compute", "#5a9e6f"), ("messages", "#c8553d"))


def _values(s: Step) -> tuple[float, float, float]:
    return s.seconds, s.compute, s.communicate


def draw(steps: Sequence[Step], title: str, path: Path) -> None:
    """Draw the times by the number of devices, both in powers. Raises ValueError for what is no .svg without matplotlib."""
    try:
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot
    except ImportError:
        if path.suffix != ".svg":
            raise ValueError(f"--plot: without matplotlib only .svg can be drawn, got {path}") from None
        path.write_text(svg(steps, title))
        return
    figure: Any = pyplot.figure(figsize=(7, 4.5))
    axes = figure.add_subplot()
    for i, (name, colour) in enumerate(_SERIES):
        points = [(s.devices, _values(s)[i] * 1e3) for s in steps if _values(s)[i] > 0]
        axes.loglog([x for x, _ in points], [y for _, y in points], label=name, color=colour, marker="o", markersize=3)
    axes.set_xlabel("devices")
    axes.set_ylabel("milliseconds")
    axes.set_title(title)
    axes.legend()
    figure.savefig(path)


def svg(steps: Sequence[Step], title: str) -> str:
    """The same as the text of an SVG."""
    width, height, left, top = 640, 400, 70, 40
    times = [v for s in steps for v in _values(s) if v > 0]
    low, high = math.floor(math.log10(min(times))), math.ceil(math.log10(max(times)))
    most = math.log2(max(max(s.devices for s in steps), 2))

    def at(devices: int, seconds: float) -> tuple[float, float]:
        x = left + math.log2(devices) / most * (width - left - 30)
        return x, top + (high - math.log10(seconds)) / max(high - low, 1) * (height - top - 50)

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="{left}" y="22" font-size="14">{title.replace("&", "&amp;").replace("<", "&lt;")}</text>',
    ]
    for power in range(low, high + 1):
        _, y = at(1, 10.0**power)
        out.append(f'<line x1="{left}" x2="{width - 30}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>')
        out.append(f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">{10.0 ** (power + 3):g} ms</text>')
    for s in steps:
        x, _ = at(s.devices, 10.0**low)
        out.append(f'<text x="{x:.1f}" y="{height - 30}" text-anchor="middle" font-size="10">{s.devices}</text>')
    for i, (name, colour) in enumerate(_SERIES):
        points = " ".join("{:.1f},{:.1f}".format(*at(s.devices, _values(s)[i])) for s in steps if _values(s)[i] > 0)
        out.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
        out.append(f'<text x="{left + 10 + 90 * i}" y="{height - 8}" fill="{colour}">{name}</text>')
    return "\n".join([*out, "</svg>", ""])
