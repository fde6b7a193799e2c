"""Tokens: effects are kept in order without them, so that they make no equations."""

from __future__ import annotations

from typing import Any

from ..arrays.tokens import Token


def create_token(_: Any = None) -> Token:
    """A token, for programs that order effects by them; quire keeps effects in the order of the program.

    >>> quire.jit(lambda t, x: (t, x + 1))(quire.lax.create_token(), 1.0)[1].item()
    2.0
    """
    return Token()


def after_all(*operands: Token) -> Token:
    """A token for what comes after all of these.

    Raises:
        TypeError: an operand is no token.

    >>> isinstance(quire.lax.after_all(quire.lax.create_token()), quire.extend.core.Token)
    True
    """
    for x in operands:
        if not isinstance(x, Token):
            raise TypeError(f"after_all: arguments must be tokens, got {x!r} of type {type(x).__name__}")
    return Token()


__all__ = ["after_all", "create_token"]
