"""dumpir: show, diff, parse, check and transform every stage of a program."""

from .cli import main

__all__ = ["main"]
