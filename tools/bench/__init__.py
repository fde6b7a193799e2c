"""`python -m quire.tools.bench`: quire measured beside JAX, in one process and interleaved."""

from .cli import main

__all__ = ["main"]
