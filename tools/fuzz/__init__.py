"""`python -m quire.tools.fuzz`: random programs, compiled against the reference backend against JAX."""

from .cli import main

__all__ = ["main"]
