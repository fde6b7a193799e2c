"""The bench's workloads as programs: what each compiles first is caught when it is called, and nothing is run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from quire.tools.bench.workload import Library, Workload, entries
else:
    from bench.workload import Library, Workload, entries

from .programs import Program, Traceable


class _Caught(BaseException):
    """What a workload has compiled, on its way out of the workload."""

    def __init__(self, found: Traceable) -> None:
        super().__init__()
        self.found = found


class _Compiled:
    """Stands for a compiled function: to call or to trace it ends the workload."""

    def __init__(self, f: Callable[..., Any], **options: Any) -> None:
        self._f = f
        self._options = options

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise _Caught(Traceable(self._f, args, kwargs, self._options))

    trace = lower = __call__


class _Catching(Library):
    """quire for workloads that compile a function. Their arguments stay NumPy's arrays."""

    def jit(self, f: Callable[..., Any], **options: Any) -> Any:
        return _Compiled(f, **options)

    def make_jaxpr(self, f: Callable[..., Any]) -> Any:
        return _Compiled(f)

    def put(self, tree: Any) -> Any:
        return tree


class _Inside(Library):
    """quire for workloads of operations outside of compiled functions, inside of a trace: what is put is an argument."""

    def __init__(self, arguments: list[Any]) -> None:
        super().__init__("quire")
        object.__setattr__(self, "_arguments", arguments)

    def put(self, tree: Any) -> Any:
        return self.__dict__["_arguments"].pop(0)


class _Listing(Library):
    """Notes what is put."""

    def __init__(self, arguments: list[Any]) -> None:
        super().__init__("quire")
        object.__setattr__(self, "_arguments", arguments)

    def put(self, tree: Any) -> Any:
        self.__dict__["_arguments"].append(tree)
        return tree


def _make(entry: Workload) -> Callable[[], Traceable]:
    def make() -> Traceable:
        if entry.group == "eager":
            arguments: list[Any] = []
            entry.build(_Listing(arguments))
            return Traceable(lambda *xs: entry.build(_Inside(list(xs))).call(), tuple(arguments))
        try:
            entry.build(_Catching("quire")).call()
        except _Caught as caught:
            return caught.found
        raise RuntimeError(f"the workload {entry.title} compiled nothing")

    return make


def programs() -> Iterator[Program]:
    """All workloads that quire runs; figures are measured in processes of their own."""
    for entry in entries():
        # Several devices must be asked for before the first is used; the programs of one device are the same.
        if isinstance(entry, Workload) and "quire" in entry.libraries and entry.devices == 1:
            yield Program(f"bench/{entry.title}", _make(entry))
