"""Tokens, by which JAX's programs say in which order effects happen. quire keeps that order itself: a token holds nothing."""

from __future__ import annotations

from typing import Any, ClassVar

from quire.ir.avals import AbstractToken
from quire.ir.avals import token as _type

from .. import tree_util


class Token:
    """A value that stands for the order of effects; a leaf of pytrees, of which compiled functions see no array."""

    aval: ClassVar[AbstractToken] = _type

    def __init__(self, buf: Any = None) -> None:
        self._buf = buf

    def block_until_ready(self) -> Token:
        """Returns at once."""
        return self


tree_util.register_boundary_node(Token, lambda token: ((), None), lambda *_: Token())

__all__ = ["Token"]
