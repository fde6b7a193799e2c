"""The table of docs/scaling.md: what a device receives in each model, in our program and in JAX's."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from . import hlo, ours
from .models import MODELS

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "scaling.md"
BEGIN, END = "<!-- models: made by python -m quire.tools.scaling -->", "<!-- end of models -->"

_KINDS = {
    "psum": "sum", "pmax": "max", "pmin": "min", "all_gather": "gather", "reduce_scatter": "scatter",
    "all_to_all": "exchange", "ppermute": "permute", "all-reduce": "sum", "all-gather": "gather",
    "reduce-scatter": "scatter", "all-to-all": "exchange", "collective-permute": "permute",
}  # fmt: skip


def total(counts: Mapping[str, tuple[int, int]]) -> int:
    """The bytes of all kinds."""
    return sum(size for _, size in counts.values())


def _messages(counts: Mapping[str, tuple[int, int]]) -> str:
    return ", ".join(f"{count} {_KINDS[kind]}" for kind, (count, _) in sorted(counts.items())) or "none"


def rows(theirs: Mapping[str, hlo.Counts]) -> list[str]:
    """The table's lines."""
    lines = [
        "| model | mesh | bytes, quire | bytes, JAX | messages, quire | messages, JAX |",
        "| --- | --- | ---: | ---: | --- | --- |",
    ]
    for name, model in MODELS.items():
        mine, other = ours.received(model), theirs[name]
        mesh = ", ".join(f"{axis} {n}" for axis, n in model.mesh)
        lines.append(f"| {name} | {mesh} | {total(mine)} | {total(other)} | {_messages(mine)} | {_messages(other)} |")
    return lines


def written(page: str, lines: list[str]) -> str:
    """The page with the table between its marks. Raises ValueError where a mark is missing."""
    if BEGIN not in page or END not in page:
        raise ValueError(f"{PAGE} must hold the marks {BEGIN!r} and {END!r}")
    before, rest = page.split(BEGIN)
    return "\n".join([before + BEGIN, "", *lines, "", END + rest.split(END)[1]])
