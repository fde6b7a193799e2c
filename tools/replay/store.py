"""What a commit gave, kept in the user's cache folder: a file a program, below the commit, target and machine."""

from __future__ import annotations

import fnmatch
import gzip
import hashlib
import importlib.metadata
import json
import os
import platform
import re
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

KEPT = 16
"""Results of so many commits are kept, those that were used last."""

_LIBRARIES = ("numpy", "ml_dtypes", "scipy", "optree", "opt_einsum", "iree-base-compiler", "iree-base-runtime")
_NAMES = "names.json"


@dataclass(frozen=True)
class Result:
    """What one program gave: the texts of its stages as they are printed, or the error of its trace or lowering."""

    name: str
    texts: Mapping[str, str]
    error: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class Store:
    """The results of one group of programs, in a folder."""

    folder: Path

    def names(self) -> list[str] | None:
        """The names of all programs of the group; None before they are known."""
        try:
            return json.loads((self.folder / _NAMES).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None

    def put_names(self, names: Sequence[str]) -> None:
        self._write(self.folder / _NAMES, json.dumps(list(names)).encode())

    def has(self, name: str) -> bool:
        return self._path(name).exists()

    def get(self, name: str) -> Result | None:
        """The result of a program; None if there is none, or what is there cannot be read."""
        try:
            values: dict[str, Any] = json.loads(gzip.decompress(self._path(name).read_bytes()))
            return Result(**values)
        except (OSError, ValueError, EOFError, TypeError):
            return None

    def put(self, result: Result) -> None:
        self._write(self._path(result.name), gzip.compress(json.dumps(asdict(result)).encode(), 1, mtime=0))

    def missing(self, only: Sequence[str]) -> bool:
        """Whether a program has no result, as far as is known."""
        names = self.names()
        return names is None or any(not self.has(n) for n in chosen(names, only))

    def _path(self, name: str) -> Path:
        clean = re.sub(r"[^\w.-]+", "_", name)[-60:]
        return self.folder / f"{clean}-{hashlib.sha256(name.encode()).hexdigest()[:16]}.json.gz"

    def _write(self, path: Path, data: bytes) -> None:
        """Another process may write the same at the same time: a file is whole or not there."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=self.folder, delete=False) as file:
            file.write(data)
        os.replace(file.name, path)


def chosen(names: Sequence[str], only: Sequence[str]) -> list[str]:
    """The names that patterns choose: the one that a pattern is, otherwise those that match or contain it.

    What fails stands for its programs: "applications/x" is chosen by "applications/x: training".
    """
    exact = set(names).intersection(only)
    loose = [p for p in only if p not in exact]

    def wanted(name: str) -> bool:
        parents = (f"{name}/", f"{name}:")
        return name in exact or any(fnmatch.fnmatchcase(name, p) or p in name or p.startswith(parents) for p in loose)

    return [n for n in names if not only or wanted(n)]


def environment() -> str:
    """A digest of what a program's text depends on beside quire: versions, and the processor's facts."""
    from quire.backends.targets import available_cpus, cpu_features

    facts = [sys.version, platform.platform(), str(available_cpus()), *sorted(cpu_features())]
    for library in _LIBRARIES:
        try:
            facts.append(f"{library} {importlib.metadata.version(library)}")
        except importlib.metadata.PackageNotFoundError:
            facts.append(f"no {library}")
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()


def folder_of(root: Path, tree: str, target: str, facts: Sequence[str]) -> Path:
    """The folder for results of a tree; `facts` are digests of all else that they depend on."""
    digest = hashlib.sha256("\n".join(facts).encode()).hexdigest()
    return root / tree[:24] / f"{target}-{digest[:16]}"


def forget_oldest(root: Path, keep: int = KEPT) -> None:
    """Remove the results of all commits but those that were used last."""
    trees = sorted((p for p in root.glob("*") if p.is_dir()), key=lambda p: p.stat().st_mtime, reverse=True)
    for tree in trees[keep:]:
        shutil.rmtree(tree, ignore_errors=True)
