"""What lowering decided, as records: which form an equation was given and why, and which kernels it became."""

from __future__ import annotations

from dataclasses import dataclass

from quire.ir.jaxpr import Eqn
from quire.ir.source import Source


@dataclass(frozen=True, eq=False)
class Choice:
    """The form that an equation was given, where there was a choice.

    Attributes:
        path: the equation, behind those that it is a part of: the first is one of the program's.
        source: the user's line.
        text: what was chosen, and why.
    """

    path: tuple[Eqn, ...]
    source: Source | None
    text: str

    @property
    def primitive(self) -> str:
        """The name of the equation's primitive."""
        return self.path[-1].primitive.name

    def __str__(self) -> str:
        at = f" at {self.source.file}:{self.source.line}" if self.source else ""
        return f"{self.primitive}{at}: {self.text}"


@dataclass(frozen=True, eq=False)
class KernelUse:
    """A call of one of quire's own kernels.

    Attributes:
        path, source: as those of `Choice`.
        symbol: the kernel's name; calls of equal kernels have one.
        reason: its form in a line.
        size: the length of its text.
    """

    path: tuple[Eqn, ...]
    source: Source | None
    symbol: str
    reason: str
    size: int


__all__ = ["Choice", "KernelUse"]
