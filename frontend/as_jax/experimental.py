"""What `jax.experimental` shows beside quire's own names."""

from __future__ import annotations

from typing import Any, NoReturn


def cur_qdd(x: Any) -> NoReturn:
    """The state of a mutable value of a user's own type: there is none.

    Raises:
        NotImplementedError: always.
    """
    raise NotImplementedError(
        "jax.experimental.cur_qdd: quire traces arrays, and no values of users' own mutable types (hijax)"
    )
