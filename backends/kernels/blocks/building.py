"""From a user's function over blocks to a kernel for some shapes and a target."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from quire.ir import dtypes
from quire.ir.avals import ShapedArray
from quire.ir.errors import KernelError

from ..core.builder import KernelBuilder
from ..core.kernel import Kernel, Spec
from ..core.target import KernelTarget
from ..core.values import Value
from ..elements.memory import Memory
from ..elements.operations import Expand
from .arrays import Ref
from .indices import Index
from .language import Block

#: Programs are shared among workgroups where each has so many elements to read and write.
_LEAST_WORK = 4096
#: The most workgroups of a GPU along one dimension.
_MOST_GROUPS = 65535


@dataclass(frozen=True)
class Lanes:
    """Leading dimensions, the outermost first, that operands have and the kernel's function does not see: those of `vmap`.

    Attributes:
        sizes: of each.
        operands: for each dimension, which operands have it. Results have all of them.
    """

    sizes: tuple[int, ...] = ()
    operands: tuple[tuple[bool, ...], ...] = ()

    def of_operand(self, i: int) -> tuple[int, ...]:
        """The dimensions that an operand has, by their numbers."""
        return tuple(d for d, has in enumerate(self.operands) if has[i])


def build(
    name: str, function: Callable[..., None], options: Mapping[str, Any], operands: Sequence[ShapedArray],
    results: Sequence[ShapedArray], grid: Sequence[int], lanes: Lanes, target: KernelTarget, expand: Expand,
) -> Kernel:  # fmt: skip
    """The kernel that a function writes: it is called with a `Block`, and a `Ref` for each operand and result.

    `operands` and `results` have the shapes that the function sees.

    Raises:
        KernelError: the function makes a mistake; the message has its line.
        NoKernel: what it computes has no form in a kernel for the target.
    """
    for aval in (*operands, *results):
        if dtypes.is_complex(aval.dtype):
            raise KernelError(f"kernel {name}: {aval.short()}: kernels of blocks have no complex numbers")
    if any(not isinstance(n, int) or n < 0 for n in grid):
        raise KernelError(f"kernel {name}: its grid is {tuple(grid)}, expected non-negative Python ints")
    sizes = [tuple(lanes.sizes[d] for d in lanes.of_operand(i)) for i in range(len(operands))]
    specs = [Spec.of((*s, *a.shape), a.dtype) for s, a in zip(sizes, operands)]
    outs = [Spec.of((*lanes.sizes, *a.shape), a.dtype) for a in results]
    count = math.prod(lanes.sizes) * math.prod(grid)
    if any(o.size == 0 for o in outs) and all(o.size == 0 for o in outs):
        return Kernel.nothing(name, specs, outs, [-1] * len(outs), "no elements")
    if count == 0 or any(s.size == 0 for s in (*specs, *outs)):
        raise KernelError(
            f"kernel {name}: an operand, a result or the grid {tuple(grid)} is empty, and not all results are"
        )
    work = sum(s.size for s in (*specs, *outs))
    if target.kind == "gpu":
        groups = min(count, _MOST_GROUPS)
    else:
        groups = target.groups(work, _LEAST_WORK, count)
    b = KernelBuilder(name, specs, outs, target)
    block = Block(name, b, expand)
    block.groups = groups
    with b.distributed(count, groups) as piece:
        rest, places = piece, [Index(block, b.index(0), 0, 0, 0)] * (len(lanes.sizes) + len(grid))
        for d, n in reversed(list(enumerate((*lanes.sizes, *grid)))):
            if d == 0:
                places[d] = Index(block, rest, 0, n - 1, 0)
            else:
                rest, own = b.divmod(rest, n)
                places[d] = Index(block, own, 0, n - 1, 0)
        block.set_programs(places[len(lanes.sizes) :], tuple(grid))
        names = _names(function, len(operands) + len(results))
        for i, aval in enumerate(operands):
            offset = _offset(b, [(places[d], lanes.sizes[d]) for d in lanes.of_operand(i)], aval.size)
            view = ShapedArray((specs[i].size,), aval.dtype)
            memory = Memory.of(block.elements, i, view)
            block.refs.append(Ref(block, names[i], aval.shape, aval.dtype, memory, offset, written=False))
        for i, aval in enumerate(results):
            offset = _offset(b, list(zip(places, lanes.sizes)), aval.size)
            memory = Memory.of(block.elements, i, ShapedArray((outs[i].size,), aval.dtype), result=True)
            name_of = names[len(operands) + i]
            block.refs.append(Ref(block, name_of, aval.shape, aval.dtype, memory, offset, written=True))
        refs = list(block.refs)
        function(block, *refs, **options)
        block.check_finished()
        b.check_length()
    unwritten = [r.name for r in refs if r.written and not r.stored]
    if unwritten:
        raise KernelError(f"kernel {name}: it writes nothing to its result {', '.join(unwritten)}{_defined(function)}")
    return b.build((groups,), f"quire.kernel {name}: {count} programs, {groups} workgroups")


def _offset(b: KernelBuilder, dims: Sequence[tuple[Index, int]], size: int) -> Value:
    at: Value | None = None
    for index, n in dims:
        at = index.value if at is None else b.add(b.mul(at, n), index.value)
    return b.index(0) if at is None else b.mul(at, size)


def _names(function: Callable[..., None], count: int) -> list[str]:
    """The arrays' names, as the function's parameters say them."""
    code = function.__code__
    found = list(code.co_varnames[1 : code.co_argcount])
    if code.co_flags & 0x04:  # *arrays
        found += [f"array {i}" for i in range(len(found), count)]
    return found[:count] + [f"array {i}" for i in range(len(found), count)]


def _defined(function: Callable[..., None]) -> str:
    code = function.__code__
    return f" (at {code.co_filename}:{code.co_firstlineno})"


__all__ = ["Lanes", "build"]
