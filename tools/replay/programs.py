"""The programs that are lowered under both commits, in three groups.

They are written in the public interface alone (`quire`, `quire.numpy`, `quire.lax`, ...), because they run with the
quire of either commit, always as they are in the tool's own tree. This module is imported there as a part of the
top-level package `replay`, beside `bench` and `tests`: it must not import `quire.tools`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

TOOLS = Path(__file__).resolve().parents[1]
ROOT = TOOLS.parent
APPLICATIONS = ROOT / "tests" / "applications"


@dataclass(frozen=True)
class Traceable:
    """A function with its arguments, and the options with which it is compiled."""

    f: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    x64: bool = False


@dataclass(frozen=True)
class Program:
    """A program by its name; `make` makes it when it is lowered, with the quire that is there."""

    name: str
    make: Callable[[], Traceable]


@dataclass(frozen=True)
class Group:
    """A source of programs and the files that it is made of: what they give is kept until one of these changes."""

    name: str
    programs: Callable[[], Iterator[Program]]
    files: tuple[Path, ...] = field(repr=False)


def _bench() -> Iterator[Program]:
    from .benched import programs

    return programs()


def _operations() -> Iterator[Program]:
    from .table import programs

    return programs()


def _applications() -> Iterator[Program]:
    """What the tests' applications compile: a module's `programs(quire)`, each step of a state with it donated."""
    import quire

    for file in sorted(APPLICATIONS.glob("test_*.py")):
        name = f"applications/{file.stem.removeprefix('test_')}"
        try:
            found = importlib.import_module(f"tests.applications.{file.stem}").programs(quire)
        except Exception as error:  # the program of this name fails; those of the module are missing
            yield Program(name, failing(error))
            continue
        for p in found:
            options = {"donate_argnums": 0} if p.step else {}
            yield Program(f"{name}: {p.name}", _given(Traceable(p.f, p.args, options=options)))


def _given(found: Traceable) -> Callable[[], Traceable]:
    return lambda: found


def failing(error: Exception) -> Callable[[], Traceable]:
    """Makes a program that cannot be made."""

    def fail() -> Traceable:
        raise error

    return fail


_SHARED = (TOOLS / "replay" / "programs.py", TOOLS / "replay" / "child.py")
GROUPS = (
    Group("bench", _bench, (*_SHARED, TOOLS / "replay" / "benched.py", TOOLS / "bench" / "workload.py",
                            TOOLS / "bench" / "workloads")),
    Group("applications", _applications, (*_SHARED, APPLICATIONS)),
    Group("operations", _operations, (*_SHARED, TOOLS / "replay" / "table.py", TOOLS / "replay" / "operations.py")),
)  # fmt: skip
