"""A program's stages as files: numbered in order, each with the extension of its text."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol


class StageTexts(Protocol):
    """The texts of a program's stages by name, in order (`quire.compiling.stage_texts.Stages`)."""

    name: str

    def __iter__(self) -> Iterator[str]: ...

    def __getitem__(self, stage: str, /) -> str: ...

    def resolve(self, stage: str) -> str:
        """The stage's own name for an alias."""
        ...

    def prepare(self, stages: Sequence[str]) -> None:
        """Make several texts at once."""
        ...

    def extension(self, stage: str) -> str:
        """The file name extension of a stage's text."""
        ...


def write_stages(
    stages: StageTexts, folder: str | os.PathLike[str], chosen: Sequence[str] | None = None
) -> list[Path]:  # fmt: skip
    """Write the chosen stages (default: all) to a folder, a file each, numbered in order; returns the paths."""
    order = list(stages)
    names = [stages.resolve(s) for s in (chosen if chosen is not None else order)]
    stages.prepare(names)
    root = Path(folder)
    root.mkdir(parents=True, exist_ok=True)
    paths: list[Path] = []
    for stage in names:
        clean = re.sub(r"[^\w.-]+", "-", stage).strip("-")
        path = root / f"{order.index(stage):02d}-{clean}.{stages.extension(stage)}"
        path.write_text(stages[stage] + "\n", encoding="utf-8")
        paths.append(path)
    return paths


_dump_lock = threading.Lock()
_dumped: dict[tuple[str, str], int] = {}


def dump_stages(stages: StageTexts, folder: str | os.PathLike[str]) -> Path:
    """Write all stages below the folder, in one named as the function, numbered where a name occurs again."""
    clean = re.sub(r"[^\w.-]+", "_", stages.name).strip("_") or "main"
    root = os.path.abspath(folder)
    with _dump_lock:
        n = _dumped[root, clean] = _dumped.get((root, clean), 0) + 1
    path = Path(root) / (clean if n == 1 else f"{clean}-{n}")
    try:
        write_stages(stages, path)
    except Exception as error:  # the compile itself reports it
        path.mkdir(parents=True, exist_ok=True)
        (path / "error.txt").write_text(f"{type(error).__name__}: {error}\n", encoding="utf-8")
        for stage in stages:
            try:
                write_stages(stages, path, [stage])
            except Exception:
                break
    return path
