"""Known faults of IREE's by their diagnostics, and the flag with which the same module compiles."""

from __future__ import annotations

import re
from collections.abc import Sequence

RETRIES: tuple[tuple[re.Pattern[str], str], ...] = (
    (
        re.compile(
            r"circular dependency: input operation uses partition output|operand #\d+ does not dominate this use"
        ),
        "--iree-dispatch-creation-fuse-multi-use=false",
    ),
    (
        re.compile(r"binding count \d+ > \d+|declares \d+ storage buffers|requiring \d+ bindings exceeds"),
        "--iree-dispatch-creation-fuse-multi-use=false",
    ),
    (
        # Seen with the derivatives of several loops in one module.
        re.compile(r"circular dependency: input operation uses partition output"),
        "--iree-dispatch-creation-enable-aggressive-fusion=false",
    ),
    (re.compile(r"exceeded stack allocation limit"), "--iree-dispatch-creation-enable-aggressive-fusion=false"),
    *(
        # No code is found for a dispatch: seen of a softmax with several users, of sums over what is computed from positions,
        # of windows in padded arrays. With less in a dispatch there is.
        (
            re.compile(
                r"failed to run translation of source executable|restricted to workgroup distributed contexts"
                r"|stored by the dispatch that reduces|two results that begin as one array|computes along two loops"
                r"|beside what was reduced|with strides is of what|what other threads of its dispatch compute"
                r"|'vector\.\w+' op invalid"
            ),
            flag,
        )
        for flag in (
            "--iree-dispatch-creation-fuse-multi-use=false",
            "--iree-dispatch-creation-enable-aggressive-fusion=false",
            "--iree-opt-level=O1",
        )
    ),
)
"""Known diagnostics, and the flag with which the same module compiles."""


def retry_flags(message: str, flags: Sequence[str]) -> tuple[str, ...] | None:
    """The flags to compile with once more after `message`, or None where nothing is known to help.

    Also for errors that show when the module is loaded ("binding count 41 > 32").
    """
    for pattern, flag in RETRIES:
        if pattern.search(message) and flag not in flags:
            return (*flags, flag)
    return None


__all__ = ["RETRIES", "retry_flags"]
