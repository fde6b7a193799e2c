"""What would save memory: arguments that could be given away, and the largest batch that fits into some bytes.

Both are answers of plans: no code is made.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from quire.compiling.stage_texts import Stages
from quire.ir.errors import size_text

from .answers import Answer
from .inputs import InputError
from .memory import Memory, memory_of

UNITS = {"B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40}
#: The name that stands for the size of the batch in --args.
BATCH = re.compile(r"\bB\b")
#: So many plans are made at most to find the largest batch.
PLANS = 40


@dataclass(frozen=True)
class Donation:
    """What giving arguments away would save: their paths, and bytes of a call."""

    arguments: tuple[str, ...]
    bytes: int


def total(memory: Memory) -> int:
    """The bytes that a call takes in all."""
    m = memory
    return m.arguments + m.results + m.constants + m.transient + m.exchanged + m.scalars + m.callbacks


def by_donation(stages: Stages, donated_too: Callable[[tuple[int, ...]], Stages], memory: Memory) -> Donation | None:
    """What a call would save if arguments of results' types were given away; None where there are none, or nothing is saved.

    `donated_too` gives the stages of the program with these arguments donated.
    """
    closed, given = stages.result.reference, set(stages.donated)
    free = Counter(a.strong() for a in closed.out_avals)
    for i in given:
        free[closed.in_avals[i].strong()] -= 1
    chosen: list[int] = []
    for i in stages.lowered.kept:
        aval = closed.in_avals[i].strong()
        if i not in given and free[aval] > 0:
            free[aval] -= 1
            chosen.append(i)
    if not chosen:
        return None
    names = (
        stages.names
        if len(stages.names) == len(closed.in_avals)
        else [f"argument {i}" for i in range(len(closed.in_avals))]
    )
    other = memory_of(donated_too((*stages.donated, *chosen)), stages.names, stages.out_tree)
    saved = total(memory) - total(other)
    return Donation(tuple(names[i] for i in chosen), saved) if saved > 0 else None


def donation_text(d: Donation) -> str:
    """One line."""
    more = f" and {len(d.arguments) - 4} more" if len(d.arguments) > 4 else ""
    return f"giving away {', '.join(d.arguments[:4])}{more} (donate_argnums) would save {size_text(d.bytes)}"


def size_of(text: str) -> int:
    """Bytes of ``4GB``, ``512MiB``, ``1000``.

    Raises:
        InputError: it is no size.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?) ?([KMGT]i?B|B)?", text.strip(), re.IGNORECASE)
    if match is None:
        raise InputError(f"--fits {text!r}: expected a size such as 4GB, 512MiB or 1000")
    return int(float(match[1]) * UNITS[(match[2] or "B").upper().replace("I", "")])


def with_batch(args: Sequence[str], n: int) -> list[str]:
    """The arguments with a number for ``B``.

    Raises:
        InputError: there is no ``B``.
    """
    if not any(BATCH.search(a) for a in args):
        raise InputError("--fits asks how large B may be: write it in --args, as in --args 'f32[B,784]' 'i32[B]'")
    return [BATCH.sub(str(n), a) for a in args]


def fits_answer(size: str, needed: Callable[[int], int]) -> Answer:
    """The largest batch whose calls need at most `size`, by `needed(batch)`.

    Raises:
        InputError: `size` is none.
    """
    limit = size_of(size)
    batch, bytes_, beyond = largest(needed, limit)
    data = {"limit": limit, "largest": batch, "bytes": bytes_, "next": beyond}
    if batch == 0:
        return Answer([f"not even B = 1 fits into {size_text(limit)}: a call takes {size_text(bytes_)}"], data)
    more = f", with B = {batch + 1} {size_text(beyond)}" if beyond is not None else "; it may be larger still"
    return Answer([f"B = {batch} fits into {size_text(limit)}: a call takes {size_text(bytes_)}{more}"], data)


def largest(needed: Callable[[int], int], limit: int) -> tuple[int, int, int | None]:
    """The largest batch that needs at most `limit` bytes: it, its bytes, and those of one more (None: not looked at).

    Memory grows with the batch and is nearly a straight line: the next guess is where the line meets the limit.
    (0, bytes of 1, bytes of 1) where not even one fits.
    """
    low, at_low = 1, needed(1)
    if at_low > limit:
        return 0, at_low, at_low
    high, at_high = 2, needed(2)
    plans = 2
    while at_high <= limit:  # no bound yet
        slope = (at_high - at_low) / (high - low)
        low, at_low = high, at_high
        high = min(max(2 * high, int(low + 1.05 * (limit - at_low) / slope) + 1), 1 << 40) if slope > 0 else 4 * high
        if high >= 1 << 40 or plans >= PLANS:
            return low, at_low, None
        at_high, plans = needed(high), plans + 1
    while high - low > 1 and plans < PLANS:
        guess = low + int((limit - at_low) / (at_high - at_low) * (high - low))
        if plans % 3 == 2:  # the line may be bent: now and then the middle
            guess = (low + high) // 2
        guess = min(max(guess, low + 1), high - 1)
        bytes_, plans = needed(guess), plans + 1
        if bytes_ <= limit:
            low, at_low = guess, bytes_
        else:
            high, at_high = guess, bytes_
    return low, at_low, at_high if high == low + 1 else None
