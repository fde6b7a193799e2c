"""What other packages bring: their entry points, and a digest of their code for the keys of caches."""

from __future__ import annotations

import functools
import hashlib
import os
import sys
import uuid
import warnings
from collections.abc import Iterable, Iterator
from typing import Any


def load_entry_points(group: str) -> Iterator[tuple[Any, Any]]:
    """The entry points of a group with what each holds. One that cannot be loaded is warned of by name, and left out."""
    from importlib.metadata import entry_points

    for entry in entry_points(group=group):
        try:
            value = entry.load()
        except Exception as error:  # whatever a package of somebody's raises while it is imported
            warn_of(entry, group, f"{type(error).__name__}: {error}")
            continue
        yield entry, value


def warn_of(entry: Any, group: str, why: str) -> None:
    """Warn that an entry point is not used."""
    of = f" of {entry.dist.name} {entry.dist.version}" if getattr(entry, "dist", None) is not None else ""
    warnings.warn(
        f"the entry point {entry.name} = {entry.value}{of} ({group}) is left out: {why}", RuntimeWarning, stacklevel=3
    )


def is_foreign(module: str) -> bool:
    """Whether a module, by its name, belongs to another package than quire."""
    return module.partition(".")[0] != "quire"


_noted: set[str] = set()  # packages that have changed what all programs are compiled to


def note(module: str) -> None:
    """Say that a module has changed what programs become: its package's code is then part of every program's key."""
    if is_foreign(module):
        _noted.add(module.partition(".")[0])


def noted_fingerprint() -> str:
    """The digest of all packages that were noted; empty where there are none."""
    return code_fingerprint(_noted) if _noted else ""


def code_fingerprint(modules: Iterable[str]) -> str:
    """A digest of the code of the packages that hold these modules, quire's own left out."""
    packages = sorted({m.partition(".")[0] for m in modules if is_foreign(m)})
    return "\n".join(f"{name} {_package_fingerprint(name)}" for name in packages)


@functools.cache
def _package_fingerprint(name: str) -> str:
    """Names, sizes and times of change of a package's files. What has no file is like nothing else: its code may change."""
    module = sys.modules.get(name)
    folders: list[str] = list(getattr(module, "__path__", ()))
    file = getattr(module, "__file__", None)
    if not folders:
        return uuid.uuid4().hex if file is None else _digest([file])
    files: list[str] = []
    for root in folders:
        for folder, _, names in os.walk(root):
            files += (os.path.join(folder, n) for n in names if n.endswith(".py"))
    return _digest(files)


def _digest(files: Iterable[str]) -> str:
    digest = hashlib.sha256()
    for file in sorted(files):
        stat = os.stat(file)
        digest.update(f"{file}:{stat.st_size}:{stat.st_mtime_ns}\n".encode())
    return digest.hexdigest()


__all__ = ["code_fingerprint", "is_foreign", "load_entry_points", "note", "noted_fingerprint", "warn_of"]
