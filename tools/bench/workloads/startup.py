"""Import, first compile and the persistent cache, each in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import time

from ..workload import Figure, Unavailable, register

# Each script prints the seconds that count as its last line.
_FUNCTION = """
def f(x, y):
    return np.tanh(x @ y) + x.sum(axis=0) * 2
"""

_FIRST_CALL = """
import os, time
start = time.perf_counter()
import {library}, {library}.numpy as np
""" + _FUNCTION + """
x = np.ones((8, 8), np.float32)
f = {library}.jit(f)
{library}.block_until_ready(f(x, x))
print(time.perf_counter() - start)
"""

_CALL_AFTER_IMPORT = """
import os, time
import {library}, {library}.numpy as np
""" + _FUNCTION + """
x = np.ones((8, 8), np.float32)
f = {library}.jit(f)
start = time.perf_counter()
{library}.block_until_ready(f(x, x))
print(time.perf_counter() - start)
"""

_LOAD = """
import {library}, {library}.numpy as np
""" + _FUNCTION + """
x = np.ones((8, 8), np.float32)
f = {library}.jit(f)
f(x, x)
info = f.cache_info().variants[0]
assert info.from_cache, "the program was not in the cache"
print(info.compile_seconds)
"""

_WORKER_RUNNING = """
import time
import {library}, {library}.numpy as np
x = np.ones((8, 8), np.float32)
{library}.block_until_ready({library}.jit(lambda x: x + 1)(x))
""" + _FUNCTION + """
f = {library}.jit(f)
start = time.perf_counter()
{library}.block_until_ready(f(x, x))
print(time.perf_counter() - start)
"""


def run(library: str, script: str, cache: str = "0") -> float:
    """The number that a script prints last, run by a new interpreter; `cache` is a folder or "0"."""
    environment = dict(os.environ, JAX_PLATFORMS="cpu")
    environment["QUIRE_CACHE"] = "0" if cache == "0" else "1"
    # Both libraries find their bytecode, as installed packages do, whatever this process was told.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    if os.environ.get("QUIRE_CACHE_DIR"):
        environment["PYTHONPYCACHEPREFIX"] = os.path.join(os.environ["QUIRE_CACHE_DIR"], "bytecode")
    if cache != "0":
        environment["QUIRE_CACHE_DIR"] = cache
    command = [sys.executable, "-c", script.replace("{library}", library)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    if done.returncode:
        raise Unavailable((done.stderr.strip().splitlines() or ["the script failed"])[-1])
    return float(done.stdout.split()[-1])


def _import_time(library: str) -> float:
    return run(library, "import time; t = time.perf_counter(); import {library}, {library}.numpy\nprint(time.perf_counter() - t)")


def _process(library: str) -> float:
    """The wall time of a process that imports the library, its start and end included."""
    start = time.perf_counter()
    run(library, "import {library}, {library}.numpy; print(0)")
    return time.perf_counter() - start


def _cached_folder() -> str:
    """A folder with the program of `_FUNCTION` compiled."""
    folder = os.environ.get("QUIRE_CACHE_DIR") or ""
    if not folder:
        raise Unavailable("no QUIRE_CACHE_DIR to load programs from")
    run("quire", _FIRST_CALL, folder)
    return folder


def _load(library: str) -> float:
    return run(library, _LOAD, _cached_folder())


def _warm_call(library: str) -> float:
    return run(library, _CALL_AFTER_IMPORT, _cached_folder())


register(Figure("startup", "import", _import_time))
register(Figure("startup", "process that imports", _process))
register(Figure("startup", "import and first call, cold", lambda name: run(name, _FIRST_CALL)))
register(Figure("startup", "first call after import, cold", lambda name: run(name, _CALL_AFTER_IMPORT)))
register(Figure("startup", "first call after import, program cached", _warm_call, ("quire",), mark=0.05))
register(Figure("startup", "load of a program from the cache", _load, ("quire",), mark=0.02))
register(Figure("startup", "compile with the worker running", lambda name: run(name, _WORKER_RUNNING), mark=0.35))
