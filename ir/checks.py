"""Checks of values at run time: what a `check` equation can fail with, and the message of one that failed.

A check carries a code: 0 for success, else 1 + the position of the `Site` that failed, and for each site some arrays
of which its message is made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from .errors import CheckError

# The arrays of a site to the text of its error; hashable, and equal for the same text.
Message: TypeAlias = Callable[..., str]


@dataclass(frozen=True)
class Site:
    """One thing that can be found wrong.

    Attributes:
        kind: the class of the error.
        message: makes the error's text of the site's arrays.
        arity: how many arrays that are.
    """

    kind: type[CheckError]
    message: Message
    arity: int


def exception_of(sites: Sequence[Site], code: Any, payload: Sequence[Any]) -> CheckError | None:
    """The error that a code stands for; None for success.

    A code with dimensions, and arrays with the same leading ones, are those of mapped lanes: the error names each lane
    that failed.
    """
    codes = np.asarray(code)
    arrays = [np.asarray(x) for x in payload]
    starts = np.cumsum([0, *(s.arity for s in sites)])
    messages: list[str] = []
    kind: type[CheckError] | None = None
    for index in zip(*np.nonzero(codes)) if codes.ndim else ([()] if codes else []):
        position = int(codes[index]) - 1
        site = sites[position]
        text = site.message(*(x[index] for x in arrays[starts[position] : starts[position + 1]]))
        messages.append(f"at mapped index {', '.join(str(int(i)) for i in index)}: {text}" if index else text)
        kind = kind or site.kind
    return None if kind is None else kind("\n".join(messages))
