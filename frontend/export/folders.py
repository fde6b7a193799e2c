"""Folders with exported programs: `c` and `javascript`."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from quire.backends.export import build_files, c_check, c_header, c_program, names
from quire.backends.export.host import Model
from quire.backends.export.targets import DEFAULT, ExportTarget, export_target
from quire.ir.errors import ExportError

from .programs import Example, Exported, model_of, prepare

Functions = Mapping[str, tuple[Callable[..., Any], Sequence[Any]]]


@dataclass(frozen=True)
class Folder:
    """What was written.

    Attributes:
        path: the folder.
        files: the size of each file in bytes.
        checked: whether the program was compiled and run here, and gave quire's results.
    """

    path: Path
    files: Mapping[str, int]
    checked: bool


def c(
    f: Callable[..., Any] | Functions,
    *args: Any,
    to: str | Path,
    target: str = DEFAULT,
    name: str | None = None,
    threads: int = 0,
    check: bool = True,
    **kwargs: Any,
) -> Folder:
    """Write a folder with which a C program runs a function: no Python, no IREE, nothing but the C library.

    Args:
        f: a function, compiled or not; or a dictionary of several, ``{"predict": (predict, args), ...}``, which share one
            context and one file of weights.
        args, kwargs: its arguments, or their types (`ShapeDtypeStruct`). Arrays that it closes over are its weights.
        to: the folder. It is made if it is not there; files of an earlier export in it are replaced.
        target: the processor: ``x86-64-v2``, ``-v3``, ``-v4``, ``aarch64``, ``riscv64``, or ``host`` for this one.
        name: the prefix of all names in C; the function's name by default.
        threads: spread the workgroups of kernels over so many threads; 0: all runs on the calling thread.
        check: compile and run the program, where a C compiler for the target is here. Without one the folder is written all
            the same, and a warning says so.

    Raises:
        ExportError: the function does something that cannot be done without Python, or the check found other numbers.
        CompileError: the compiler failed.
        ValueError: no function is given, arguments beside a dictionary, a negative number of threads, or a negative dimension.
    """
    if threads < 0:
        raise ValueError(f"quire.export.c: threads={threads}: give a number of threads, or 0 for none")
    processor = export_target(target)
    if processor.language != "c":
        raise ExportError(f"target {target!r} is for JavaScript: use quire.export.javascript")
    exported, model = _prepared(f, args, kwargs, name, processor, threads)
    return write_c(Path(to), exported, [e.example() for e in exported], model, processor, check)


def javascript(
    f: Callable[..., Any] | Functions, *args: Any, to: str | Path, name: str | None = None, check: bool = True, **kwargs: Any
) -> Folder:  # fmt: skip
    """Write a folder with which JavaScript runs a function, in a browser or in node: WebAssembly, and no C compiler.

    The arguments are those of `c`; the check is run by node, where it is here.

    Raises:
        ExportError: as `c`; or the kernels call a function of the C library that is not known in JavaScript.
        CompileError: the compiler failed.
        ValueError: as `c`.
    """
    from .web import write_javascript

    processor = export_target("wasm32")
    exported, model = _prepared(f, args, kwargs, name, processor, 0)
    return write_javascript(Path(to), [e.example() for e in exported], model, processor, check)


def _prepared(
    f: Any, args: Sequence[Any], kwargs: Mapping[str, Any], name: str | None, target: ExportTarget, threads: int
) -> tuple[list[Exported], Model]:
    """The functions of a model, compiled. Raises ValueError as `c`."""
    several = isinstance(f, Mapping)
    if several and (args or kwargs):
        raise ValueError("quire.export: arguments are given with each function of a dictionary, as {'f': (f, args)}")
    if several and not f:
        raise ValueError("quire.export: the dictionary holds no function")
    listed: dict[str, tuple[Any, Sequence[Any], Mapping[str, Any]]] = (
        {key: (g, given, {}) for key, (g, given) in f.items()} if several else {"run": (f, args, kwargs)}
    )
    own = "model" if several else getattr(f, "__name__", "model")
    language = names.LANGUAGES[target.language]
    prefix = language.model(own if name is None else name)
    keys = language.functions(listed)
    exported = [
        prepare(g, given, keywords, name=key, model=prefix, target=target, threads=threads)
        for key, (g, given, keywords) in zip(keys, listed.values(), strict=True)
    ]
    return exported, model_of(exported, name=prefix, target=target, threads=threads)


def put(folder: Path, files: Mapping[str, str | bytes]) -> dict[str, int]:
    """Write files; gives their sizes."""
    folder.mkdir(parents=True, exist_ok=True)
    sizes: dict[str, int] = {}
    for name, content in files.items():
        data = content.encode() if isinstance(content, str) else content
        (folder / name).write_bytes(data)
        sizes[name] = len(data)
    return sizes


def write_c(
    folder: Path, exported: Sequence[Exported], examples: Sequence[Example], model: Model, target: ExportTarget, check: bool
) -> Folder:  # fmt: skip
    """Write the files of a model, and run its check on the examples. Raises ExportError where it is not right."""
    files: dict[str, str | bytes] = {
        "model.h": c_header.header(model),
        "model.c": c_program.program(model),
        "check.c": c_check.check(model, [e.rounding for e in examples]),
        "check.bin": c_check.data([e.arguments for e in examples], [e.results for e in examples]),
        "Makefile": build_files.makefile(model, target),
        "CMakeLists.txt": build_files.cmake(model, target),
        "loader.py": build_files.loader(model),
    }
    for e in exported:
        if e.function.host["kernels"]:
            files[f"{e.function.name}_kernels.o"] = e.function.kernels
    if len(model.weights.data) > c_header.SMALL:
        files["weights.bin"] = c_program.weights_file(model)
    sizes = put(folder, files)
    sizes |= put(folder, {"manifest.json": build_files.manifest(model, target, "c", sizes)})
    return Folder(folder, sizes, check and run_check(folder, model, target))


def run_check(folder: Path, model: Model, target: ExportTarget) -> bool:
    """Compile the check beside the folder's files and run it; False, with a warning, where that cannot be done here.

    Raises:
        ExportError: the program does not compile, or its results are not quire's.
    """
    missing = [tool for tool in (target.compiler, target.emulator) if tool and shutil.which(tool) is None]
    if missing:
        warnings.warn(
            f"quire.export: {folder} is written, and not checked: there is no {' and no '.join(missing)} here",
            stacklevel=4,
        )
        return False
    with tempfile.TemporaryDirectory(prefix="quire-export-") as scratch:
        program = str(Path(scratch) / "check")
        command = [
            target.compiler, "-O0", f"-std={'c11' if model.threads else 'c99'}", *(["-pthread"] if model.threads else []),
            *(["-static"] if target.emulator else []), "-o", program, "model.c", "check.c", *build_files.objects(model), "-lm",
        ]  # fmt: skip
        made = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        if made.returncode:
            raise ExportError(f"{folder}: the exported program does not compile:\n{made.stderr.strip()[:2000]}")
        run = [target.emulator, program] if target.emulator else [program]
        told = subprocess.run(run, cwd=folder, capture_output=True, text=True, check=False)
        if told.returncode < 0 and not target.emulator and target.name != "host":
            warnings.warn(
                f"quire.export: {folder} is written, and not checked: this processor does not run programs for "
                f"{target.name} (the check ended with signal {-told.returncode})", stacklevel=4,
            )  # fmt: skip
            return False
        if told.returncode:
            raise ExportError(
                f"{folder}: the exported program does not give quire's results (exit status {told.returncode}): "
                f"{told.stderr.strip()[:2000]}"
            )
    return True


__all__ = ["Folder", "c", "javascript"]
