"""LAPACK's routines: SciPy's wrappers of them, for one matrix, and NumPy's loops of calls over a batch, which threads share.

NumPy's own functions (`numpy.linalg.svd`) compute in double precision whatever the dtype; its loops below them do not.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from importlib.machinery import PathFinder
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import numpy as np
from numpy.linalg import _umath_linalg  # type: ignore[attr-defined]

from ..targets import available_cpus

Array = np.ndarray[Any, Any]

_LETTERS = {"f": "s", "d": "d", "F": "c", "D": "z"}
#: A batch of so many third powers of a matrix's size is worth a thread: some 200 us.
_SHARED_WORK = 1 << 15
#: NumPy's loops hold Python's lock where they have fewer elements than this.
_LOCKED = 500


def scipy_linalg() -> Any:
    """scipy.linalg, imported at its first use: it takes a third of a second."""
    import scipy.linalg

    return scipy.linalg


@lru_cache(maxsize=2)
def _wrappers(name: str) -> Any:
    """SciPy's extension module of LAPACK's or BLAS's functions (``_flapack``, ``_fblas``), without scipy.linalg.

    scipy.linalg imports numpy.testing, numpy.f2py and more, which takes 260 ms and 20 MB; the module alone takes 10 ms.
    It is put where the import of scipy.linalg finds it. Where SciPy has no such file, the package is imported.
    """
    import scipy

    full = "scipy.linalg." + name
    if full not in sys.modules and "scipy.linalg" not in sys.modules:
        found = PathFinder.find_spec(name, [str(Path(scipy.__file__).with_name("linalg"))])
        if found is not None and found.origin is not None:
            spec = spec_from_file_location(full, found.origin)
            assert spec is not None and spec.loader is not None
            module = module_from_spec(spec)
            spec.loader.exec_module(module)
            sys.modules[full] = module  # only now: another thread, or a later import, must not find half of it
    if full not in sys.modules:
        linalg = scipy_linalg()
        return linalg.blas if name == "_fblas" else linalg.lapack
    return sys.modules[full]


@lru_cache(maxsize=128)
def _routine(name: str, code: str) -> Any:
    return getattr(_wrappers("_fblas" if name == "trsm" else "_flapack"), _LETTERS[code] + name)


def routine(name: str, x: Array) -> Any:
    """The LAPACK function for the array's dtype; `name` without its type letter (syevd becomes heevd by the caller)."""
    return _routine(name, x.dtype.char)


def of_batch(name: str, signature: str, x: Array, *, only_finite: bool = True) -> list[Array]:
    """One of NumPy's loops over a batch of matrices, such as ``svd_s`` with the signature ``f->fff``, shared by threads.

    What LAPACK finds no result of is NaN, as are the results of matrices that are not finite with `only_finite`: it would
    iterate for ever.
    """
    batch = x.shape[:-2]
    flat = x.reshape(-1, *x.shape[-2:])
    finite = np.asarray(np.isfinite(flat).all((1, 2)) if only_finite else np.ones(len(flat), np.bool_))
    if not finite.all():
        flat = np.where(finite[:, None, None], flat, 0)
    loop = getattr(_umath_linalg, name)

    def some(part: Array) -> tuple[Array, ...]:
        with np.errstate(all="ignore"):  # each thread has its own
            out = loop(part, signature=signature)
        return out if isinstance(out, tuple) else (out,)

    m, n = x.shape[-2:]
    each = min(m, n) * (1 if signature[-2] == ">" else n)
    threads = min(available_cpus(), len(flat) * m * n * min(m, n) // _SHARED_WORK, len(flat) * each // _LOCKED)
    if threads < 2:
        results = list(some(flat))
    else:
        first, *others = np.array_split(flat, threads)
        with _ONE_THREAD.each():
            pending = [_threads().submit(some, part) for part in others]
            parts = [some(first), *(p.result() for p in pending)]
        results = [np.concatenate(of_parts) for of_parts in zip(*parts, strict=True)]
    for r in results:
        if not finite.all():
            r[~finite] = np.nan
    return [r.reshape(*batch, *r.shape[1:]) for r in results]


@lru_cache(maxsize=1)
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max(available_cpus() - 1, 1), "quire-lapack")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_threads.cache_clear)  # the child has none of the threads


class _OneThread:
    """NumPy's OpenBLAS computes each product by one thread while batches are shared: else it lets calls wait for each other.

    Nothing where NumPy has another BLAS.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._before = 1

    @contextlib.contextmanager
    def each(self) -> Iterator[None]:
        blas = _openblas()
        if blas is None:
            yield
            return
        get, set_ = blas
        with self._lock:
            if not self._users:
                self._before = get()
                set_(1)
            self._users += 1
        try:
            yield
        finally:
            with self._lock:
                self._users -= 1
                if not self._users:
                    set_(self._before)


_ONE_THREAD = _OneThread()


@lru_cache(maxsize=1)
def _openblas() -> tuple[Any, Any] | None:
    """OpenBLAS's functions that tell and set its number of threads, of the library that NumPy's loops call."""
    try:
        library = ctypes.CDLL(_umath_linalg.__file__)
    except OSError:
        return None
    for prefix, suffix in (("scipy_", "64_"), ("scipy_", ""), ("", "64_"), ("", "")):
        try:
            return (
                getattr(library, f"{prefix}openblas_get_num_threads{suffix}"),
                getattr(library, f"{prefix}openblas_set_num_threads{suffix}"),
            )
        except AttributeError:
            continue
    return None
