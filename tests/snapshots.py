"""What a file's program prints, kept at the end of the file: compared, or rewritten under ``pytest --update``."""

from __future__ import annotations

import difflib
from pathlib import Path


def check(path: Path, mark: str, printed: str, update: bool) -> None:
    """Compare what was printed with the lines of a file that begin with `mark`, which are its last.

    Fails with the difference; with `update` the lines are replaced.
    """
    lines = path.read_text(encoding="utf-8").splitlines()
    given = [line for line in lines if not line.startswith(mark)]
    expected = [line.removeprefix(mark).removeprefix(" ") for line in lines if line.startswith(mark)]
    got = [line.rstrip() for line in printed.rstrip().splitlines()]
    if got == expected:
        return
    if not update:
        difference = "\n".join(difflib.unified_diff(expected, got, "expected", "printed", lineterm=""))
        raise AssertionError(
            f"{path.name} prints something else (pytest {path.parent} --update accepts it):\n{difference}"
        )
    while given and not given[-1].strip():
        given.pop()
    path.write_text("\n".join([*given, "", *(f"{mark} {line}".rstrip() for line in got)]) + "\n", encoding="utf-8")
