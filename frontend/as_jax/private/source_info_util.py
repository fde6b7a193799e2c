"""`jax._src.source_info_util`: the user's lines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from quire.ir.source import Source
from quire.ir.source import current_source as current
from quire.ir.source import register_internal as register_exclusion

__all__ = ["Frame", "SourceInfo", "current", "register_exclusion", "summarize", "user_frame"]

SourceInfo = Source


@dataclass(frozen=True)
class Frame:
    """A line of a program."""

    file_name: str
    function_name: str
    start_line: int
    start_column: int = 0
    end_line: int = 0
    end_column: int = 0


def user_frame(source_info: Any) -> Frame | None:
    """The user's line of an equation; None where it is not known."""
    source = getattr(source_info, "source", source_info)
    return Frame(source.file, source.function, source.line) if isinstance(source, Source) else None


def summarize(source_info: Any, num_frames: int = 1) -> str:
    """The user's line as text."""
    return str(getattr(source_info, "source", source_info))
