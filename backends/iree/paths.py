"""Where things lie: the compiler's library and tools, quire's cache folder, the reproducers' folder."""

from __future__ import annotations

import functools
import importlib.util
import sys
from pathlib import Path

from quire.ir import environment
from quire.ir.errors import CompileError

_LIBRARY = {"darwin": "libIREECompiler.dylib", "win32": "IREECompiler.dll"}


@functools.cache
def compiler_folder() -> Path:
    """The folder with IREE's compiler library and tools, found without importing the compiler.

    Raises CompileError where it is not installed.
    """
    spec = importlib.util.find_spec("iree.compiler")
    for root in (spec.submodule_search_locations or ()) if spec else ():
        folder = Path(root) / "_mlir_libs"
        if folder.is_dir():
            return folder
    raise CompileError("the IREE compiler is not installed: pip install iree-base-compiler")


def compiler_library() -> Path:
    """The path of libIREECompiler."""
    return compiler_folder() / _LIBRARY.get(sys.platform, "libIREECompiler.so")


def system_link_flags() -> tuple[str, ...]:
    """Flags that link the program as a system library, which takes its functions from the process' libm.

    Otherwise IREE puts a math library of its own into each module and optimises all of it, a fifth of a small
    compile, and f64 sin, atan2, fmod ... fail to link ("undefined symbol: sin"). The linker is the one IREE
    ships: no C compiler is needed. Linux only.
    """
    linker = compiler_folder() / "iree-lld"
    return (
        "--iree-llvmcpu-link-embedded=false",
        f"--iree-llvmcpu-system-linker-path={linker} -flavor gnu",
    )


def cache_folder() -> Path:
    """quire's cache folder: QUIRE_CACHE_DIR, or the user's cache folder."""
    named = environment.CACHE_DIR.text()
    if named:
        return Path(named).expanduser()
    import platformdirs

    return Path(platformdirs.user_cache_dir("quire"))


def reproducer_folder() -> Path:
    """Where failed compiles leave their reproducers: QUIRE_REPRODUCER_DIR, or below the cache folder."""
    named = environment.REPRODUCER_DIR.text()
    return Path(named).expanduser() if named else cache_folder() / "reproducers"
