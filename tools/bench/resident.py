"""Resident memory of a process, as Linux counts it."""

from __future__ import annotations

import ctypes
import gc
import sys
from dataclasses import dataclass
from pathlib import Path

from .workload import Unavailable


@dataclass(frozen=True)
class Resident:
    """Bytes that are resident now, and the most there were."""

    now: int
    peak: int


def resident(process: int | str = "self") -> Resident:
    """The resident memory of a process.

    Raises:
        Unavailable: the system does not tell.
    """
    try:
        text = Path(f"/proc/{process}/status").read_text(encoding="ascii", errors="replace")
        fields = dict(line.split(":", 1) for line in text.splitlines())
        return Resident(*(int(fields[name].split()[0]) * 1024 for name in ("VmRSS", "VmHWM")))
    except (OSError, KeyError) as error:
        raise Unavailable(f"resident memory is read from /proc/PID/status, as Linux has it: {error}") from None


def forget_peak() -> None:
    """Begin the peak anew at what is resident now, once what is free has been given back to the system."""
    gc.collect()
    if sys.platform.startswith("linux"):
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc's
        if trim is not None:
            trim(0)
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    except OSError as error:
        raise Unavailable(f"the peak of resident memory cannot be set back (/proc/self/clear_refs): {error}") from None


def children() -> list[int]:
    """The processes that this one has started and that still run."""
    tasks = Path("/proc/self/task")
    try:
        return [int(pid) for task in tasks.iterdir() for pid in (task / "children").read_text().split()]
    except OSError:
        return []
