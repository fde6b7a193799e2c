"""What a failed compile leaves: a folder with all that is needed to repeat it, and a short message."""

from __future__ import annotations

import hashlib
import re
import shlex
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from quire.backends.iree.paths import compiler_folder, reproducer_folder

Diagnostic = tuple[str, str]

KEEP = 50
"""So many reproducers are kept; older ones are removed."""

MODULE_NAME = "module.mlir"
_LOCATION = re.compile(r"^(?P<file>[^:\n]+):(?P<line>\d+):(?P<column>\d+):\s*")
_OTHER_LOCATION = re.compile(r"^(?:<unknown>:0|loc\(.*?\)):\s*")
_LOCATION_WITHIN = re.compile(r'"(?P<file>[^"\n]+)":(?P<line>\d+):\d+')
_README = """# A program that IREE could not compile

{what}

Repeat it in this folder, with the `iree-compile` of iree-base-compiler {version}:

    {command}

- `{module}`: the module, exactly as quire passed it to the compiler
{text}- `flags.txt`: the compiler's flags, one a line
- `diagnostics.txt`: all that the compiler said
"""


def split_location(text: str) -> tuple[str | None, str]:
    """The user's ``file:line`` of a diagnostic (None where it names none) and the message without location."""
    if match := _LOCATION.match(text):
        own = match["file"] in (MODULE_NAME, "<unknown>", "-")
        return None if own else f"{match['file']}:{match['line']}", text[match.end() :]
    if match := _OTHER_LOCATION.match(text):
        named = _LOCATION_WITHIN.search(match[0])
        return f"{named['file']}:{named['line']}" if named else None, text[match.end() :]
    return None, text


def first_diagnostic(diagnostics: Sequence[Diagnostic]) -> tuple[str | None, str]:
    """The user's line, and the first error in one line of at most 300 characters."""
    errors = [text for severity, text in diagnostics if severity == "error"]
    located = [split_location(text) for text in errors or [text for _, text in diagnostics]]
    if not located:
        return None, ""
    user = next((line for line, _ in located if line), None)
    lines = [line.strip() for line in located[0][1].splitlines() if line.strip()] or [""]
    # "Error parsing flags:" tells nothing without its next line
    message = " ".join(lines[:2]) if lines[0].endswith(":") else lines[0]
    return user, message if len(message) <= 300 else message[:297] + "..."


def compile_command(module: str, flags: Sequence[str]) -> str:
    """The command line that compiles `module` with `flags`."""
    return shlex.join([str(compiler_folder() / "iree-compile"), module, *flags, "-o", "module.vmfb"])


def compiler_version() -> str:
    """The version of iree-base-compiler."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("iree-base-compiler")
    except PackageNotFoundError:
        return "unknown"


def write_reproducer(
    name: str, module: bytes, flags: Sequence[str], what: str, said: str, *, text: str | None = None
) -> Path:
    """Writes the folder and returns its path.

    Args:
        name: the program's name, part of the folder's name.
        module: MLIR text or bytecode, as it was compiled.
        what: one line telling what failed.
        said: diagnostics and the tail of the compiler's output.
        text: the module's readable form, where `module` is bytecode.
    """
    digest = hashlib.sha256(module + "\0".join(flags).encode()).hexdigest()[:12]
    label = re.sub(r"[^A-Za-z0-9_.-]+", "_", name)[:60] or "module"
    try:
        folder = reproducer_folder() / f"{label}-{digest}"
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:  # a home that cannot be written: the failure must still be reported
        folder = Path(tempfile.mkdtemp(prefix=f"quire-{label}-{digest}-"))
    bytecode = module[:4] == b"ML\xefR"
    main = "module.mlirbc" if bytecode else MODULE_NAME
    (folder / main).write_bytes(module)
    if bytecode and text is not None:
        (folder / MODULE_NAME).write_text(text, encoding="utf-8")
    command = compile_command(main, flags)
    (folder / "flags.txt").write_text("\n".join(flags) + "\n", encoding="utf-8")
    (folder / "command.sh").write_text(f"#!/bin/sh\n{command}\n", encoding="utf-8")
    (folder / "diagnostics.txt").write_text(said, encoding="utf-8", errors="replace")
    readable = f"- `{MODULE_NAME}`: the same as text\n" if bytecode and text is not None else ""
    (folder / "README.md").write_text(
        _README.format(what=what, version=compiler_version(), command=command, module=main, text=readable),
        encoding="utf-8",
    )
    _prune(folder)
    return folder


def _prune(newest: Path) -> None:
    """Removes the oldest folders beside `newest` beyond KEEP."""
    try:
        folders = [p for p in newest.parent.iterdir() if (p / "flags.txt").is_file()]
        folders.sort(key=lambda p: p.stat().st_mtime, reverse=True)
    except OSError:
        return
    for old in folders[KEEP:]:
        shutil.rmtree(old, ignore_errors=True)
