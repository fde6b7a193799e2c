"""What is measured: a workload is data, and builds itself for one library at a time.

A workload is written once, against a `Library`: the same program is run by quire, by JAX, and by NumPy where it has
the functions. A `Figure` is measured by a function of its own: it needs new processes, or compares with a mark.
"""

from __future__ import annotations

import functools
import importlib
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np


class Unavailable(Exception):
    """A library lacks what a workload needs; the message names it."""


@dataclass(frozen=True)
class Library:
    """One array library under JAX's names: `np`, `lax`, `jit`, `grad`, ... and what differs between libraries."""

    name: str

    @cached_property
    def root(self) -> types.ModuleType:
        return importlib.import_module(self.name)

    @cached_property
    def np(self) -> Any:
        return self.root if self.name == "numpy" else importlib.import_module(f"{self.name}.numpy")

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        try:
            return getattr(self.root, attribute)
        except AttributeError:
            try:
                return importlib.import_module(f"{self.name}.{attribute}")
            except ImportError:
                raise Unavailable(f"{self.name} has no {attribute}") from None

    def compiled(self, f: Callable[..., Any], **options: Any) -> Callable[..., Any]:
        """The function compiled, where the library compiles."""
        return f if self.name == "numpy" else self.jit(f, **options)

    def put(self, tree: Any) -> Any:
        """A tree (dicts, lists, tuples) of NumPy arrays as the library's arrays."""
        if isinstance(tree, dict):
            return {k: self.put(v) for k, v in tree.items()}
        if isinstance(tree, list | tuple):
            return type(tree)(self.put(v) for v in tree)
        return tree if self.name == "numpy" else self.np.asarray(tree)

    def wait(self, tree: Any) -> Any:
        """Wait for results that are computed asynchronously."""
        return tree if self.name == "numpy" else self.root.block_until_ready(tree)


@dataclass(frozen=True)
class Work:
    """What one call does: operations as the cost estimate counts them, and the bytes of its arguments and results."""

    operations: float
    bytes: int


@dataclass(frozen=True)
class Timed:
    """What one library does in a workload.

    Attributes:
        call: what is timed.
        wait_each: whether a call includes waiting for its results; otherwise a block of calls waits once.
        result: gives what must be equal in all libraries: a tree of arrays, or anything comparable. By default what
            `call` returns; None where there is nothing to compare (a trace).
        compile_anew: compiles the program, of which nothing is cached in memory, and calls it once. Its first call is
            a cold compile (the bench has a fresh cache folder), its second finds the program in the persistent cache.
        count: a number beside the time, such as equations; the ratio of counts is reported too.
        ahead: makes everything that a call needs, without calling, and returns the call: where the memory of a call is
            measured, what compiling takes must not be part of it. None: `call` is made once before.
        work: tells what one call does, where it is one compiled program of quire's.
    """

    call: Callable[[], Any]
    wait_each: bool = True
    result: Callable[[], Any] | None = field(default=None)
    compare: bool = True
    compile_anew: Callable[[], Any] | None = None
    count: Callable[[], int] | None = None
    ahead: Callable[[], Callable[[], Any]] | None = None
    work: Callable[[], Work] | None = None


@dataclass(frozen=True)
class Workload:
    """One program in all libraries. `build` makes it; `libraries` are those it is written for.

    With more than one of `devices` it is measured in a process in which every library simulates so many of the CPU.
    """

    group: str
    name: str
    build: Callable[[Library], Timed]
    libraries: tuple[str, ...] = ("quire", "jax")
    tolerance: float = 1e-4
    devices: int = 1

    @property
    def title(self) -> str:
        return f"{self.group}/{self.name}"


@dataclass(frozen=True)
class Figure:
    """A measurement of its own: `measure(library name)` gives one sample in seconds.

    Attributes:
        mark: what the first library must reach, in seconds, where no other library does the same.
        samples: how many are taken, libraries in turn.
    """

    group: str
    name: str
    measure: Callable[[str], float]
    libraries: tuple[str, ...] = ("quire", "jax")
    mark: float | None = None
    samples: int = 5

    @property
    def title(self) -> str:
        return f"{self.group}/{self.name}"


Entry = Workload | Figure
_entries: dict[str, Entry] = {}


def register(entry: Entry) -> Entry:
    """Add a workload to the table; raises ValueError when the name is taken."""
    if entry.title in _entries:
        raise ValueError(f"there are two workloads named {entry.title!r}")
    _entries[entry.title] = entry
    return entry


def workload(
    group: str, name: str, libraries: tuple[str, ...] = ("quire", "jax"), tolerance: float = 1e-4
) -> Callable[[Callable[[Library], Timed]], Callable[[Library], Timed]]:
    """Decorator: a function from a library to what is timed, as a workload."""

    def add(build: Callable[[Library], Timed]) -> Callable[[Library], Timed]:
        register(Workload(group, name, build, libraries, tolerance))
        return build

    return add


def program(
    group: str,
    name: str,
    make: Callable[[Library], Callable[..., Any]],
    arguments: Callable[[np.random.Generator], tuple[Any, ...]],
    *,
    libraries: tuple[str, ...] = ("quire", "jax", "numpy"),
    tolerance: float = 1e-4,
) -> None:
    """A workload that runs a compiled function: `make` gives the function, `arguments` its NumPy arguments."""

    def build(lib: Library) -> Timed:
        given = lib.put(arguments(np.random.default_rng(0)))
        f = make(lib)
        compiled: Any = lib.compiled(f)

        def compile_anew() -> Any:
            def fresh(*args: Any) -> Any:  # a new function object: nothing of it is cached in memory
                return f(*args)

            return lib.wait(lib.compiled(fresh)(*given))

        def ahead() -> Callable[[], Any]:
            return functools.partial(compiled.lower(*given).compile(), *given)

        def work() -> Work:
            arrays = lib.tree_util.tree_leaves((given, compiled(*given)))
            return Work(compiled.lower(*given).compile().cost_analysis()["flops"], sum(a.nbytes for a in arrays))

        compiles = lib.name != "numpy"
        return Timed(
            lambda: compiled(*given), compile_anew=compile_anew if compiles else None, ahead=ahead if compiles else None,
            work=work if lib.name == "quire" else None,
        )  # fmt: skip

    register(Workload(group, name, build, libraries, tolerance))


def entries() -> Iterator[Entry]:
    """All workloads, group by group."""
    from . import workloads

    workloads.load()
    yield from _entries.values()
