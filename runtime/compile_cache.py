"""The persistent compile cache: compiled programs by key in the user's cache folder, for many processes.

A file is ``magic, sha256 of key and payload, payload``, written beside its place and renamed, so that a reader sees a
whole file or none. A file whose checksum is wrong (damaged, or another program's file under this name) is removed and
computed again. The oldest files (by time of use) are removed when the folder grows beyond its bound.

Environment: QUIRE_CACHE=0 turns the cache off; QUIRE_CACHE_DIR names its folder; QUIRE_CACHE_SIZE bounds it
("2GiB", "500MB" or bytes).
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
import threading
import time
import warnings
from collections.abc import Callable, Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from quire.backends.iree.paths import cache_folder, compiler_folder
from quire.ir import environment

if TYPE_CHECKING:
    from filelock import BaseFileLock

MAGIC = b"quire-cache-4\n"
_HEADER = len(MAGIC) + 32
DEFAULT_SIZE = 2 << 30
_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30}
_TOUCH_AFTER = 3600.0
"""A file's time of use is renewed when it is older than this, in seconds."""
_SWEEP_BYTES = 32 << 20
"""The folder is measured after so many bytes were written by this process (and at its first write)."""


def parse_size(text: str, variable: str = "QUIRE_CACHE_SIZE") -> int:
    """Bytes of "2GiB", "500 MB" or "1000"; ValueError naming the environment variable for anything else."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", text)
    if match is None or match[2].upper() not in _UNITS:
        raise ValueError(f"{variable}={text}: expected a size such as 2GiB, 500MB or a number of bytes")
    return int(float(match[1]) * _UNITS[match[2].upper()])


def _checksum(key: str, payload: bytes | memoryview) -> bytes:
    """Of a payload that belongs to a key: one that lies under another program's key has another."""
    digest = hashlib.sha256(f"{len(key)}:{key}".encode())
    digest.update(payload)
    return digest.digest()


class CompileCache:
    """A folder of payloads by key.

    Args:
        folder: default QUIRE_CACHE_DIR or the user's cache folder, and in it "programs".
        size: bound in bytes; default QUIRE_CACHE_SIZE or 2 GiB.
        enabled: default: unless QUIRE_CACHE=0.
    """

    def __init__(self, folder: Path | str | None = None, size: int | None = None, enabled: bool | None = None) -> None:
        self.folder = Path(folder) if folder is not None else cache_folder() / "programs"
        self.size = size if size is not None else parse_size(environment.CACHE_SIZE.text() or str(DEFAULT_SIZE))
        self.enabled = enabled if enabled is not None else environment.CACHE.is_on(True)
        self._lock = threading.Lock()
        self._warned = False
        self._written: int | None = None  # bytes since the folder was measured; None: never measured

    def path(self, key: str) -> Path:
        """Where the payload of `key` lies. Raises ValueError for what is no key: it could be a path of its own."""
        if not re.fullmatch(r"[A-Za-z0-9_.-]{3,200}", key):
            raise ValueError(f"{key!r} is no cache key: expected 3 to 200 letters, digits, '_', '.' or '-'")
        return self.folder / key[:2] / key[2:]

    def get(self, key: str) -> bytes | None:
        """The payload, or None where there is none or it is damaged or another key's (the file is then removed)."""
        if not self.enabled:
            return None
        path = self.path(key)
        try:
            with open(path, "rb") as f:
                age = time.time() - os.fstat(f.fileno()).st_mtime
                data = f.read()
        except OSError:
            return None
        payload = memoryview(data)[_HEADER:]
        if data[: len(MAGIC)] != MAGIC or _checksum(key, payload) != data[len(MAGIC) : _HEADER]:
            self._remove(path)
            return None
        if age > _TOUCH_AFTER:
            try:
                os.utime(path)
            except OSError:
                pass
        return bytes(payload)

    def put(self, key: str, payload: bytes) -> None:
        """Stores the payload. A folder that cannot be written is reported once, and then ignored."""
        if not self.enabled:
            return
        path = self.path(key)
        # The name is unique to the process and thread; a process that dies leaves it to the next sweep.
        temporary = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}.tmp")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with open(temporary, "wb") as f:
                f.write(MAGIC + _checksum(key, payload))
                f.write(payload)
            os.replace(temporary, path)
        except OSError as error:
            self._remove(temporary)
            self._warn(error)
            return
        with self._lock:
            measured = self._written is not None
            self._written = (self._written or 0) + len(payload) + _HEADER
            sweep = not measured or self._written >= min(_SWEEP_BYTES, self.size // 8)
            if sweep:
                self._written = 0
        if sweep:
            self.sweep()

    def get_or_compute(self, key: str, compute: Callable[[], bytes]) -> bytes:
        """The payload of `key`, computed and stored where it is missing.

        Two processes (or threads) that ask for the same key at once compute it once: the second waits for the first.
        """
        payload = self.get(key)
        if payload is not None:
            return payload
        if not self.enabled:
            return compute()
        lock = self._lock_file(key)
        try:
            if lock is not None:
                lock.acquire()
            payload = self.get(key)
            if payload is None:
                payload = compute()
                self.put(key, payload)
            return payload
        finally:
            if lock is not None:
                lock.release(force=True)

    def _lock_file(self, key: str) -> BaseFileLock | None:
        """The lock of `key`, or None where the folder cannot be written."""
        from filelock import FileLock

        folder = self.folder / "locks"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            probe = os.open(folder / key, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            self._warn(error)
            return None
        os.close(probe)
        return FileLock(folder / key, thread_local=False)

    def _files(self) -> Iterable[tuple[float, int, Path]]:
        """(time of use, size, path) of each stored file. Removes old locks and what interrupted writers left.

        A lock of that age may still be held; then two processes compile one program, which does no harm.
        """
        for folder in self.folder.iterdir():
            if not folder.is_dir():
                continue
            for path in folder.iterdir():
                try:
                    stat = path.stat()
                except OSError:
                    continue
                if folder.name == "locks" or path.name.endswith(".tmp"):
                    if time.time() - stat.st_mtime > 3600:
                        self._remove(path)
                else:
                    yield stat.st_mtime, stat.st_size, path

    def sweep(self) -> int:
        """Removes the files used longest ago until the folder is within its bound; returns its size in bytes."""
        try:
            files = sorted(self._files(), key=lambda file: file[0])
        except OSError:
            return 0
        total = sum(size for _, size, _ in files)
        if total > self.size:
            for _, size, path in files:
                if total <= self.size * 0.9:
                    break
                self._remove(path)
                total -= size
        return total

    def clear(self) -> None:
        """Removes every stored payload."""
        try:
            for _, _, path in self._files():
                self._remove(path)
        except OSError:
            pass

    def _remove(self, path: Path) -> None:
        try:
            path.unlink()
        except OSError:
            pass

    def _warn(self, error: BaseException) -> None:
        with self._lock:
            if self._warned:
                return
            self._warned = True
        warnings.warn(
            f"quire's compile cache cannot be written: {error}. Programs are compiled anew in each process. "
            "Set QUIRE_CACHE_DIR to a writable folder, or QUIRE_CACHE=0 to turn the cache off.",
            RuntimeWarning,
            stacklevel=3,
        )


@functools.cache
def sources_fingerprint() -> str:
    """A digest of quire's own version and of its source files' names, sizes and times of change.

    A changed compiler gives other programs: an editable install must not load what an older state compiled.
    """
    digest = hashlib.sha256()
    # What is found need not have been imported: no package is asked for what it holds.
    found = [find_spec(name) for name in ("quire", *(f"quire.{p}" for p in ("ir", "passes", "backends", "runtime")))]
    roots = {Path(root) for spec in found if spec is not None for root in spec.submodule_search_locations or ()}
    for root in sorted(roots):
        for folder, folders, names in os.walk(root):
            folders[:] = sorted(f for f in folders if not f.startswith((".", "__pycache__")))
            for name in sorted(names):
                if name.endswith(".py"):
                    stat = os.stat(os.path.join(folder, name))
                    digest.update(f"{name}:{stat.st_size}:{stat.st_mtime_ns}\n".encode())
    return digest.hexdigest()


@functools.cache
def _versions() -> str:
    # By IREE's version files: importlib.metadata takes 30 ms, more than all the rest of a load from the cache.
    import iree.runtime.version

    compiler = (compiler_folder().parent / "version.py").read_bytes()
    return f"{iree.runtime.version.VERSION}\n{compiler!r}\n{sources_fingerprint()}"


def cache_key(*parts: str | bytes | Iterable[str]) -> str:
    """A key over `parts` (module or jaxpr text, flags, a target's fingerprint, options) and the versions of quire, its
    sources and IREE. Each part enters with its length, so that no two lists of parts share a key."""
    digest = hashlib.sha256(_versions().encode())
    for part in parts:
        if isinstance(part, str):
            data = part.encode()
        elif isinstance(part, (bytes, bytearray, memoryview)):
            data = bytes(part)
        else:
            data = "\0".join(part).encode()
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


@functools.cache
def compile_cache() -> CompileCache:
    """The process' cache, as the environment names it."""
    return CompileCache()
