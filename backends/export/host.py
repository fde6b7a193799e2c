"""What is exported: functions with names and types, their kernels' code, and what the host does between the kernels.

The host's part is made by `backends/iree/host_steps.py` of a proved plan. It is of builtin types (`Host`):

    kernels     {"name", "ordinal", "local", "counts"} each; local: bytes of a workgroup's own memory
    arguments   how many
    results     of each ("result", number): memory of its own; ("argument", number): it lies where the argument was; or
                ("given", number): it is the argument as it is, and nothing brings it anywhere
    constants   bytes each
    buffers     (kind, of, size) each; kind: argument, result, constant (of: its number) or arena (of: where it begins)
    arena       bytes of the program's own memory
    variables   types of the scalars v0, v1, ...: i1, i8, i16, i32, i64, index, f32, f64
    steps       a list of lists, which begin with a word:

    ["dispatch", kernel, scalars, [[buffer, offset, length], ...], the user's lines]
    ["copy", [buffer, offset], [buffer, offset], length]       target, source
    ["fill", [buffer, offset], length, value, type]
    ["load", variable, type, [buffer, offset]]
    ["let", variable, type, operation, operands, their type]   the words of MLIR's `arith`
    ["set", [[variable, value, type], ...]]                    at the same time
    ["if", value, steps, steps]
    ["switch", value, [[number, steps], ...], steps]
    ["for", variable, type, "slt" or "ult", from, to, by, steps]
    ["while", steps, value, steps]                             up to the condition, and after it

A value is a number, or a variable's name. Offsets and lengths are values.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from quire.ir.dtypes import DType

Host = Mapping[str, Any]
ALIGNMENT = 64
"""Of all memory that kernels are given."""
PAGE = 4096
"""Kernels count memory of their own in such pages."""


@dataclass(frozen=True)
class Leaf:
    """One array that a function takes or gives.

    Attributes:
        name: an identifier.
        path: where it is in the user's arguments or results, as ``params['w']``.
        dtype, shape: its type.
        donated: its memory becomes a result's, or is the program's own during a call.
    """

    name: str
    path: str
    dtype: DType
    shape: tuple[int, ...]
    donated: bool = False

    @property
    def nbytes(self) -> int:
        """Its size."""
        return math.prod(self.shape) * self.dtype.itemsize

    @property
    def size(self) -> int:
        """The number of its elements."""
        return math.prod(self.shape)


@dataclass(frozen=True)
class Function:
    """A function of a model.

    Attributes:
        name: its name in the model, an identifier.
        symbol: the name that its C function has.
        arguments, results: in the user's order.
        kept: which of the arguments the program takes.
        places: of each result ("result", number) of the program, or ("argument", number): an argument as it is.
        host: the host's part.
        kernels: an object for the target's linker, with one function ``SYMBOL_kernels_library_query``; empty without kernels.
        paired: results and donated arguments of one type, (result, argument) each: the result is brought there in the end.
    """

    name: str
    symbol: str
    arguments: tuple[Leaf, ...]
    results: tuple[Leaf, ...]
    kept: tuple[int, ...]
    places: tuple[tuple[str, int], ...]
    host: Host
    kernels: bytes
    paired: tuple[tuple[int, int], ...] = ()

    def owner(self, number: int) -> int | None:
        """The first result that is a result of the program; None if none is."""
        return next((i for i, place in enumerate(self.places) if place == ("result", number)), None)

    def computed(self, i: int) -> bool:
        """Whether the program computes a result; others are copies, of arguments or of results before them."""
        kind, number = self.places[i]
        return kind == "result" and self.owner(number) == i

    def pointer(self, i: int) -> str:
        """The variable of the printed function that points to a result."""
        return f"r{self.places[i][1]}" if self.computed(i) else f"o{i}"

    def left_in(self, i: int) -> int | None:
        """The argument in whose memory the plan leaves a result; None where it is not left in one."""
        if not self.computed(i):
            return None
        where, of = self.host["results"][self.places[i][1]]
        return self.kept[of] if where == "argument" else None

    def in_place(self, i: int) -> int | None:
        """The argument whose memory becomes a result's; None for a result with memory of its own."""
        left = self.left_in(i)
        return dict(self.paired).get(i) if left is None else left

    def own_results(self) -> list[int]:
        """The results for which the caller brings memory."""
        return [i for i in range(len(self.results)) if self.in_place(i) is None]

    def with_pairs(self) -> Function:
        """The same with a donated argument for each result of its type, as long as there are some, whatever the plan does.

        So what a function is called with follows from its types alone.
        """
        free = [i for i, leaf in enumerate(self.arguments) if leaf.donated]
        free = [i for i in free if i not in {self.left_in(r) for r in range(len(self.results))}]
        pairs: list[tuple[int, int]] = []
        for i, leaf in enumerate(self.results):
            if self.left_in(i) is not None or not leaf.nbytes:
                continue
            alike = [a for a in free if (self.arguments[a].dtype, self.arguments[a].shape) == (leaf.dtype, leaf.shape)]
            if alike:
                free.remove(alike[0])
                pairs.append((i, alike[0]))
        return replace(self, paired=tuple(pairs))

    def pair_places(self) -> dict[int, int]:
        """Where in the arena each paired result is computed."""
        places: dict[int, int] = {}
        end = -(-self.host["arena"] // ALIGNMENT) * ALIGNMENT
        for i, _ in self.paired:
            places[i] = end
            end += -(-self.results[i].nbytes // ALIGNMENT) * ALIGNMENT
        return places

    @property
    def arena(self) -> int:
        """The bytes of memory that a call needs."""
        return (
            self.host["arena"]
            + sum(-(-self.results[i].nbytes // ALIGNMENT) * ALIGNMENT for i, _ in self.paired)
            + (ALIGNMENT if self.paired else 0)
        )

    def copies(self) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
        """What is copied before the program runs, (result, argument) each, and after it, (result, result) each."""
        before = [(i, n) for i, (kind, n) in enumerate(self.places) if kind == "argument"]
        after: list[tuple[int, int]] = []
        for i, (kind, n) in enumerate(self.places):
            first = self.owner(n) if kind == "result" else None
            if first is not None and first != i:
                after.append((i, first))
        return before, after


@dataclass(frozen=True)
class Weights:
    """The constants of several functions, each content once.

    Attributes:
        data: all of them, aligned.
        offsets: of each function, where each of its constants begins.
    """

    data: bytes
    offsets: tuple[tuple[int, ...], ...]


def pool(functions: Sequence[Function]) -> Weights:
    """One block of all constants."""
    known: dict[bytes, int] = {}
    parts: list[bytes] = []
    end = 0
    offsets: list[tuple[int, ...]] = []
    for f in functions:
        own: list[int] = []
        for content in f.host["constants"]:
            if content not in known:
                known[content] = end
                padded = -(-len(content) // ALIGNMENT) * ALIGNMENT
                parts.append(content.ljust(padded, b"\0"))
                end += padded
            own.append(known[content])
        offsets.append(tuple(own))
    return Weights(b"".join(parts), tuple(offsets))


@dataclass(frozen=True)
class Model:
    """What one folder holds.

    Attributes:
        name: an identifier, the prefix of all names in C.
        functions: at least one.
        weights: their constants.
        threads: how many threads workgroups are spread over; 0: none are started.
        version: quire's.
        target: the name of the target.
    """

    name: str
    functions: tuple[Function, ...]
    weights: Weights
    threads: int
    version: str
    target: str

    @property
    def arena(self) -> int:
        """The bytes that a context needs for its functions, of which one runs at a time."""
        return max(f.arena for f in self.functions)

    @property
    def local(self) -> int:
        """The bytes of a workgroup's own memory, in whole pages."""
        most = max((k["local"] for f in self.functions for k in f.host["kernels"]), default=0)
        return -(-most // PAGE) * PAGE

    @property
    def identity(self) -> int:
        """A number that tells these weights from others."""
        import hashlib

        return int.from_bytes(hashlib.sha256(self.weights.data).digest()[:8], "little")
