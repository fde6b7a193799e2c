"""How dumpir shows texts: plain, or with colours on a terminal."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Sequence
from typing import TextIO


class Screen:
    """Writes headings, programs and diffs. Colours are used on a terminal only, or as `color` says.

    Args:
        color: "auto", "always" or "never".
    """

    def __init__(self, color: str = "auto", out: TextIO | None = None) -> None:
        self.out = out or sys.stdout
        self.colored = color == "always" or (color == "auto" and self.out.isatty())
        self._console = None
        if self.colored:
            from rich.console import Console

            self._console = Console(file=self.out, force_terminal=True, highlight=False, soft_wrap=True)

    def line(self, text: str = "", style: str | None = None) -> None:
        """One or more lines as they are, in a rich style if coloured."""
        if self._console is not None:
            from rich.text import Text

            self._console.print(Text(text, style=style or ""))
        else:
            print(text, file=self.out)

    def heading(self, text: str) -> None:
        """A heading, as a comment: the output can be read back."""
        self.line(f"// {text}", "bold cyan")

    def code(self, text: str, kind: str) -> None:
        """A program; `kind` is the extension of its file."""
        if self._console is None:
            print(text, file=self.out)
            return
        lexer = {"jaxpr": None, "mlir": "mlir", "s": "gas", "ptx": "ptx"}.get(kind)
        if lexer is None:
            self._console.print(_jaxpr_text(text))
        else:
            from rich.syntax import Syntax

            highlighted = Syntax(text, lexer, theme="ansi_dark", background_color="default").highlight(text)
            highlighted.rstrip()
            self._console.print(highlighted)

    def diff(self, before: str, after: str, names: tuple[str, str]) -> None:
        """A unified diff; says so when nothing changed."""
        lines = list(difflib.unified_diff(before.splitlines(), after.splitlines(), *names, lineterm="", n=3))
        if not lines:
            self.line(f"// {names[0]} and {names[1]} are the same", "dim")
        for line in lines:
            bold = line.startswith(("---", "+++"))
            style = "bold" if bold else {"+": "green", "-": "red", "@": "cyan"}.get(line[:1])
            self.line(line, style)

    def table(self, rows: Sequence[Sequence[str]]) -> None:
        """Rows of text in columns; the first is the heading."""
        widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
        for i, row in enumerate(rows):
            self.line("  ".join(c.ljust(w) for c, w in zip(row, widths)).rstrip(), "bold" if i == 0 else None)


def _jaxpr_text(text: str):  # noqa: ANN202
    from rich.text import Text

    out = Text(text)
    out.highlight_regex(r"#.*|//.*", "dim")
    out.highlight_regex(r"\b(lambda|let|in)\b", "bold magenta")
    out.highlight_regex(r":((?:bool|float0|token|b?[fiuc]\d+)\[[\d,]*\]\*?)", "green")
    out.highlight_regex(r"= ([\w-]+)", "bold")
    return out
