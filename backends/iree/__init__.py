"""IREE as a compiler: the service that runs it in worker processes, and its paths."""

from quire.backends.iree.paths import cache_folder, compiler_folder, compiler_library, system_link_flags
from quire.backends.iree.retries import retry_flags
from quire.backends.iree.service import (
    PHASES,
    CompileOutput,
    CompileService,
    compile_service,
)

__all__ = [
    "PHASES",
    "CompileOutput",
    "CompileService",
    "cache_folder",
    "compile_service",
    "compiler_folder",
    "compiler_library",
    "retry_flags",
    "system_link_flags",
]
