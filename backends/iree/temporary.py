"""The folder for temporary files, through which IREE's compiler and runtime pass what they link and load."""

from __future__ import annotations

import os
import re
import tempfile

from quire.ir.errors import size_text

# What the linker, LLVM and IREE's loader say where files there could not be written: mostly about something else.
_SIGNS = re.compile(
    r"target emulation unknown|goes past the end of the file|unable to write file|No space left on device"
)
ROOM = 1 << 20
"""With less room than this, in bytes, no program is sure to be linked."""


def folder() -> str:
    """Where LLVM and IREE put temporary files."""
    for variable in ("TMPDIR", "TMP", "TEMP", "TEMPDIR"):
        named = os.environ.get(variable)
        if named:
            return named
    return "/tmp" if os.name == "posix" else tempfile.gettempdir()


def problem(message: str = "") -> str | None:
    """What is wrong with the folder for temporary files, as a sentence; None where nothing is.

    `message` is an error that occurred: with one that a full folder gives, the folder is named although it has some room.
    """
    path = folder()
    if not os.path.isdir(path):
        return f"the folder for temporary files, {path}, does not exist: make it, or set TMPDIR to one that does"
    try:
        with tempfile.TemporaryFile(dir=path, prefix="quire-room-", buffering=0) as f:
            written = 0
            while written < ROOM:
                written += f.write(bytes(ROOM - written)) or 0
    except OSError as error:
        return (
            f"the folder for temporary files, {path}, cannot take another {size_text(ROOM)} ({error.strerror}; "
            f"{_free(path)}): free some room, or set TMPDIR to a folder with more"
        )
    if _SIGNS.search(message):
        return (
            f"a temporary file in {path} could not be written or read ({_free(path)}): free some room, or set TMPDIR to "
            "a folder with more"
        )
    return None


def _free(path: str) -> str:
    try:
        found = os.statvfs(path)
    except (OSError, AttributeError):
        return "its free space is not known"
    return f"{size_text(found.f_bavail * found.f_frsize)} of {size_text(found.f_blocks * found.f_frsize)} are free"
