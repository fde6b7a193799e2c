"""Objects of WebAssembly linked by the linker that IREE brings; no C compiler is needed."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from quire.ir.errors import ExportError

from ..iree.paths import compiler_folder
from .host import Function

EMPTY = b"\0asm\1\0\0\0"
"""A module of WebAssembly with nothing in it."""


def link_wasm(functions: Sequence[Function]) -> bytes:
    """A module with all kernels; its memory, table of functions and queries are exported.

    Raises:
        ExportError: the linker fails.
    """
    with tempfile.TemporaryDirectory(prefix="quire-export-") as scratch:
        folder = Path(scratch)
        objects: list[str] = []
        queries: list[str] = []
        for f in functions:
            if f.host["kernels"]:
                (folder / f"{f.name}.o").write_bytes(f.kernels)
                objects.append(f"{f.name}.o")
                queries.append(f"--export={f.symbol}_kernels_library_query")
        if not objects:  # all that such functions do is copy
            (folder / "model.wasm").write_bytes(_WITHOUT_KERNELS)
            return _WITHOUT_KERNELS
        command = [
            str(compiler_folder() / "iree-lld"), "-flavor", "wasm", "--no-entry", "--export-table", *queries,
            "--export=__heap_base", "--allow-undefined", "--gc-sections", "--strip-all", "-o", "model.wasm", *objects,
        ]  # fmt: skip
        made = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        if made.returncode:
            raise ExportError(f"the kernels cannot be linked to WebAssembly: {made.stderr.strip()[:1000]}")
        return (folder / "model.wasm").read_bytes()


def _number(data: bytes, at: int) -> tuple[int, int]:
    """An unsigned number in LEB128 and where it ends."""
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def imports(data: bytes) -> Iterator[str]:
    """The names that a module imports. Raises ExportError for what is no function."""
    at = len(EMPTY)
    while at < len(data):
        section, at = data[at], at + 1
        size, at = _number(data, at)
        if section == 2:
            count, place = _number(data, at)
            for _ in range(count):
                words: list[bytes] = []
                for _ in range(2):
                    length, place = _number(data, place)
                    words.append(data[place : place + length])
                    place += length
                yield words[1].decode()
                kind, place = data[place], place + 1
                if kind != 0:
                    raise ExportError(f"the kernels import {words[1].decode()!r}, which is no function")
                _, place = _number(data, place)
        at += size


_WITHOUT_KERNELS = bytes.fromhex(
    "0061736d01000000"
    "0404017000" "00"  # a table of no functions
    "0503010001"  # one page of memory
    "0606017f0041000b"  # a global: 0
    "073403"
    "066d656d6f72790200"
    "0b5f5f686561705f626173650300"
    "195f5f696e6469726563745f66756e6374696f6e5f7461626c650100"
)  # fmt: skip
"""A module with memory, a table and `__heap_base`, as the linker makes them."""
