"""A program without Python beside its marks: an MLP exported to C (`quire.export.c`), compiled by cc.

`python -m quire.tools.export_times` measures more programs.
"""

from __future__ import annotations

import functools
import shutil
import tempfile
from pathlib import Path

from ..workload import Figure, Unavailable, register

# What quire's own call of the program takes from Python: that of the exported program is to take no more.
_CALL = 35e-6


@functools.cache
def _measured() -> dict[str, float]:
    from quire.tools.export_times import measure, programs

    if shutil.which("cc") is None or shutil.which("make") is None:
        raise Unavailable("there is no C compiler here")
    f, args = programs()["MLP 8x784-256-10, weights inside"]
    with tempfile.TemporaryDirectory(prefix="quire-export-") as scratch:
        return measure(f, args, Path(scratch))


register(
    Figure(
        "export",
        "an MLP in C: a process from its start to its result",
        lambda _: _measured()["process"],
        ("quire",),
        3e-3,
        1,
    )
)
register(Figure("export", "an MLP in C: a call", lambda _: _measured()["c"], ("quire",), _CALL, 1))
