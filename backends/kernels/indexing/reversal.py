"""What lies in short groups backwards, as the pixels of an image along its rows, or the channels of each pixel.

Vectors hold whole groups, or whole rows where these are short, and their lanes change places.
"""

from __future__ import annotations

import math

from ..core.builder import KernelBuilder
from ..core.errors import NoKernel
from ..core.kernel import Kernel, Spec
from ..core.target import KernelTarget, workgroups

#: Longer groups are rows of stencils, whose vectors go along them; fewer elements in all are not worth a kernel.
MOST, LEAST = 15, 1 << 14
#: So many elements are worth a workgroup of their own.
WORK = 1 << 15


def reversed_groups(operand: Spec, first: int, stop: int, target: KernelTarget) -> Kernel:
    """The kernel that reverses an array along its dimensions from ``first`` up to ``stop``; a group is what follows these.

    Raises :class:`NoKernel` for long groups (of long rows; as long rows of single elements are), and for small arrays.
    """
    words, shape = operand.dtype.words, operand.shape
    n, group = math.prod(shape[first:stop]), math.prod(shape[stop:]) * words
    size, row, lanes = operand.size * words, n * group, target.lanes(int(operand.dtype.word[1:]))
    whole = n * math.prod(shape[stop:]) <= MOST  # a vector holds rows
    unit = row if whole else group
    part = math.lcm(unit, lanes) if unit < lanes else unit
    if target.kind != "cpu" or n < 2 or operand.size < LEAST or unit > MOST * words or part > (size if whole else row):
        raise NoKernel(f"{size // row} rows of {n} groups of {group // words} elements backwards")
    b = KernelBuilder("reverse", [operand], [operand], target)
    source, result = (view(0, (size,), operand.dtype.word) for view in (b.operand, b.result))
    per_row = -(-row // part)
    pieces = -(-size // part) if whole else size // row * per_row
    groups = target.groups(size, WORK, pieces)
    with b.distributed(pieces, groups) as piece:
        if whole:
            at = at_source = b.moved_inside(piece * part, part, size)
            order = [k // row * row + (row - group - k % row // group * group) + k % group for k in range(part)]
        else:
            number, k = b.divmod(piece, per_row)
            within = b.moved_inside(k * part, part, row)
            at, at_source = number * row + within, (number * row + (row - part)) - within
            order = [part - group - k // group * group + k % group for k in range(part)]
        x = b.vload(part, source, at_source)
        b.vstore(b.shuffle(x, x, order), result, at)
    how = f"rows of {n}" if whole else f"{part // group} of {n}"
    return b.build((groups,), f"{how} groups of {group // words} elements backwards at once; {workgroups(groups)}")
