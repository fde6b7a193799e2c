"""Recording of what a process spends its time on, for chrome://tracing, Perfetto and TensorBoard; `jax.profiler`.

Between `start_trace` and `stop_trace` every stage of a compilation (trace, look up, passes, lower, compile, load), every call
of a compiled function (run) and every operation outside of one is an event, with those that the program names itself
(`TraceAnnotation`, `annotate_function`). The file is in the Trace Event Format, which ui.perfetto.dev opens.
While nothing is recorded calls take the way they always take: there is no cost.
"""

from __future__ import annotations

import contextlib
import functools
import gzip
import json
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from quire.ir.config import config
from quire.ir.jaxpr import Params
from quire.ir.primitive import Primitive
from quire.ir.source import current_source
from quire.ir.tracing import EagerEvaluator, hooks

from .absent_names import module_getattr
from .watching.spans import Active, Recorder, span

F = TypeVar("F", bound=Callable[..., Any])


class _Session:
    """The recording that is going on; one in a process."""

    lock = threading.Lock()
    folder: Path | None = None
    perfetto = False
    evaluate: EagerEvaluator | None = None  # what evaluates operations while nothing is recorded


def start_trace(
    log_dir: str | os.PathLike[str],
    create_perfetto_link: bool = False,
    create_perfetto_trace: bool = False,
    profiler_options: Any = None,
) -> None:
    """Begin to record; `stop_trace` writes the file (`jax.profiler.start_trace`).

    Args:
        log_dir: a folder. The file will be ``plugins/profile/<time>/<host>.trace.json.gz`` in it.
        create_perfetto_trace: write ``perfetto_trace.json.gz`` beside it, with the same content.
        create_perfetto_link: not there: open the file in ui.perfetto.dev.
        profiler_options: must be None.

    Raises:
        RuntimeError: a recording is going on already.
        ValueError: create_perfetto_link or profiler_options was given.
    """
    if create_perfetto_link:
        raise ValueError("quire.profiler.start_trace: no server for a link is there: open the file in ui.perfetto.dev")
    if profiler_options is not None:
        raise ValueError("quire.profiler.start_trace: profiler_options has no meaning here: leave it None")
    with _Session.lock:
        if Active.recorder is not None:
            raise RuntimeError("quire.profiler: only one trace at a time: call stop_trace before start_trace")
        _Session.folder = Path(log_dir)
        _Session.perfetto = create_perfetto_trace
        evaluate = hooks.evaluate
        _Session.evaluate = evaluate
        if evaluate is not None:
            hooks.evaluate = _timed(evaluate)
        Active.recorder = Recorder()
        config.update("profiling", True)  # known calls of compiled functions are for other options now


def _timed(evaluate: EagerEvaluator) -> EagerEvaluator:
    def timed(p: Primitive, args: Sequence[Any], params: Params) -> list[Any]:
        source = current_source(3)
        with span(p.name, "operation", **({"line": str(source)} if source else {})):
            return evaluate(p, args, params)

    return timed


def stop_trace() -> Path:
    """End the recording and write its file, whose path is returned (`jax.profiler.stop_trace`).

    Raises RuntimeError when nothing is recorded.
    """
    with _Session.lock:
        recorder, folder = Active.recorder, _Session.folder
        if recorder is None or folder is None:
            raise RuntimeError("quire.profiler: no trace is going on: call start_trace before stop_trace")
        config.update("profiling", False)
        hooks.evaluate = _Session.evaluate
        Active.recorder = None
        _Session.folder = None
    target = folder / "plugins" / "profile" / time.strftime("%Y_%m_%d_%H_%M_%S")
    target.mkdir(parents=True, exist_ok=True)
    data = gzip.compress(json.dumps(_as_json(recorder)).encode(), mtime=0)
    path = target / f"{socket.gethostname()}.trace.json.gz"
    path.write_bytes(data)
    if _Session.perfetto:
        (target / "perfetto_trace.json.gz").write_bytes(data)
    return path


def _as_json(recorder: Recorder) -> dict[str, Any]:
    """The events in the Trace Event Format; times are microseconds from the start of the recording."""
    pid = os.getpid()
    names = {t.ident: t.name for t in threading.enumerate()}
    events: list[dict[str, Any]] = [
        {"ph": "M", "pid": pid, "name": "process_name", "args": {"name": Path(sys.argv[0] or "python").name}}
    ]
    for thread in dict.fromkeys(event[2] for event in recorder.events):
        label = names.get(thread, "thread")
        events.append({"ph": "M", "pid": pid, "tid": thread, "name": "thread_name", "args": {"name": label}})
    for name, category, thread, start, duration, args in recorder.events:
        events.append(
            {
                "ph": "X", "pid": pid, "tid": thread, "name": name, "cat": category,
                "ts": (start - recorder.started) / 1e3, "dur": duration / 1e3,
                "args": {k: v if isinstance(v, int | float | str | bool) else str(v) for k, v in args.items()},
            }
        )  # fmt: skip
    return {"displayTimeUnit": "ns", "traceEvents": events}


@contextlib.contextmanager
def trace(
    log_dir: str | os.PathLike[str],
    create_perfetto_link: bool = False,
    create_perfetto_trace: bool = False,
    profiler_options: Any = None,
) -> Generator[None]:
    """Record a block: `start_trace` and `stop_trace` around it (`jax.profiler.trace`).

    Example:
        >>> import quire, tempfile, pathlib
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with quire.profiler.trace(folder):
        ...         _ = quire.numpy.ones(3) + 1
        ...     [path.name.endswith(".trace.json.gz") for path in pathlib.Path(folder).rglob("*.gz")]
        [True]
    """
    start_trace(log_dir, create_perfetto_link, create_perfetto_trace, profiler_options)
    try:
        yield
    finally:
        stop_trace()


class TraceAnnotation(contextlib.ContextDecorator):
    """An event of the user's around a block or a function (`jax.profiler.TraceAnnotation`).

    Args:
        name: what it is called.
        kwargs: facts shown with it.

    Example:
        >>> import quire
        >>> with quire.profiler.TraceAnnotation("load data", batch=3):
        ...     pass
    """

    category = "annotation"

    def __init__(self, name: str, **kwargs: Any) -> None:
        self._name = name
        self._facts = kwargs
        self._open: list[contextlib.AbstractContextManager[None]] = []

    def _recreate_cm(self) -> TraceAnnotation:
        return type(self)(self._name, **self._facts)

    def __enter__(self) -> TraceAnnotation:
        block = span(self._name, self.category, **self._facts)
        block.__enter__()
        self._open.append(block)
        return self

    def __exit__(self, *exc: Any) -> None:
        self._open.pop().__exit__(*exc)


class StepTraceAnnotation(TraceAnnotation):
    """An event around one step of a training loop (`jax.profiler.StepTraceAnnotation`).

    Example:
        >>> import quire
        >>> for i in range(2):
        ...     with quire.profiler.StepTraceAnnotation("train", step_num=i):
        ...         pass
    """

    category = "step"


def annotate_function(func: F, name: str | None = None, **decorator_kwargs: Any) -> F:
    """The function with an event around each call (`jax.profiler.annotate_function`).

    Args:
        func: any Python function.
        name: what the event is called; the function's name by default.
        decorator_kwargs: facts shown with it.

    Raises:
        TypeError: `func` is not a function.

    Example:
        >>> import quire
        >>> @quire.profiler.annotate_function
        ... def load():
        ...     return 3
        >>> load()
        3
    """
    if not callable(func):
        raise TypeError(f"quire.profiler.annotate_function: func must be a function, got {func!r}")
    label = name or getattr(func, "__qualname__", type(func).__name__)

    @functools.wraps(func)
    def annotated(*args: Any, **kwargs: Any) -> Any:
        with span(label, "annotation", **decorator_kwargs):
            return func(*args, **kwargs)

    return annotated  # type: ignore[return-value]


__all__ = ["StepTraceAnnotation", "TraceAnnotation", "annotate_function", "start_trace", "stop_trace", "trace"]

__getattr__ = module_getattr("quire.profiler", globals())
