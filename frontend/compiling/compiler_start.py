"""The early start of the compiler's worker. Imported before anything else of quire: it needs little of it."""

from __future__ import annotations

import os

from quire.backends.iree.service import compile_service
from quire.ir import environment
from quire.runtime.compile_cache import CompileCache


def prepare_compiler() -> None:
    """Start the compiler's worker in the background where it will be needed: there is no cached program to load.

    Called when quire is imported, so that the worker is ready when the first function has been traced. With programs
    in the cache the worker starts at the first program that is not among them: a process that finds all of its programs
    needs no compiler, which would take its memory and, just then, a processor. QUIRE_EARLY_COMPILER=0: never before
    a program is compiled.
    """
    if not environment.EARLY_COMPILER.is_on(True):
        return
    try:
        cache = CompileCache()  # not the process' own, whose folder the program may still name
    except ValueError:  # of an environment variable: the first compile will tell
        return
    try:
        with os.scandir(cache.folder) as entries:
            used = cache.enabled and any(entries)
    except OSError:
        used = False
    if not used:
        compile_service().warm_up()
