"""The names of JAX that a program asked for and that are absent: told once, at the end, where the user wants it."""

from __future__ import annotations

import atexit
import sys
from collections.abc import Iterator

from quire.ir.environment import AS_JAX_REPORT


class AbsentNames:
    """What was asked for and is absent, each name once, in the order of asking."""

    def __init__(self) -> None:
        self._names: dict[str, None] = {}

    def add(self, name: str) -> None:
        """Note an absent name, for example ``jax.lax.psend``. Python's own questions (``__path__``) are not noted."""
        last = name.rpartition(".")[2]
        if not (last.startswith("__") and last.endswith("__")):
            self._names[name] = None

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def text(self) -> str:
        """The report: a line for each name."""
        if not self._names:
            return "quire.as_jax: every name of jax that was asked for is there"
        lines = "\n".join(f"  {name}" for name in self._names)
        return f"quire.as_jax: {len(self._names)} name(s) of jax were asked for and are absent:\n{lines}"

    def print_at_exit(self) -> None:
        """Print the report on stderr when the process ends, if QUIRE_AS_JAX_REPORT=1 asks for it."""
        if AS_JAX_REPORT.is_on(False):
            atexit.register(lambda: print(self.text(), file=sys.stderr))


absent = AbsentNames()
