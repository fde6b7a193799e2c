"""Exceptions of quire: one class for each kind of mistake or failure a user can meet."""

from __future__ import annotations


class QuireError(Exception):
    """Base of every exception that quire raises on its own account."""


class CompileError(QuireError, RuntimeError):
    """IREE could not compile a program (an error, a crash of its worker, or the time limit).

    The message is short: what failed, the compiler's first diagnostic, the user's line when the diagnostic
    has one, and the folder with a self-contained reproducer.
    """
