"""The one declaration a primitive: which dimensions of its operands and results are the same dimension.

A *factor* is a dimension of the computation that an equation stands for. Each dimension of an operand or result is a
tuple of factors, the major one first: a reshape of ``[6]`` to ``[2, 3]`` has the factors 2 and 3, its operand has both in
one dimension. Dividing a factor by a mesh axis divides all dimensions that hold it. From it follow how shardings spread,
how an equation runs on parts, and what that costs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from quire.ir.avals import ShapedArray
from quire.ir.primitive import Primitive, RuleTable

from .halos import Sent, Slide, messages
from .specs import Axes, Sizes, Spec, local_shape, parts

Dims = tuple[tuple[int, ...], ...]
"""For each dimension of an array the numbers of its factors."""
Params = Mapping[str, Any]
Shapes = Sequence[tuple[int, ...]]
Assignment = Mapping[int, Axes]
"""For each factor that is divided the axes along which."""


@dataclass(frozen=True)
class Factors:
    """The factors of one equation.

    Attributes:
        sizes: of each factor.
        operands, results: the factors of each dimension of each of them.
        reduced: the monoid by which the parts of a factor that no result has are combined.
        whole: factors that cannot be divided.
        even: factors that can be divided into equal parts only.
        collected: factors of which something is gathered where they are divided, and its bytes a part, undivided otherwise.
        exchanged: (operand, dimension) of which devices exchange their parts where it is divided.
        masked: factors whose padding is taken care of where they are reduced; others get the monoid's identity.
        slides: operands' dimensions of which parts need more than their own elements.
        params: the parameters for parts: operands' local shapes and results' local shapes to the changed ones.
    """

    sizes: tuple[int, ...]
    operands: tuple[Dims, ...]
    results: tuple[Dims, ...]
    reduced: Mapping[int, str] = field(default_factory=lambda: dict[int, str]())
    whole: frozenset[int] = frozenset()
    even: frozenset[int] = frozenset()
    masked: frozenset[int] = frozenset()
    slides: tuple[Slide, ...] = ()
    exchanged: frozenset[tuple[int, int]] = frozenset()
    collected: Mapping[int, int] = field(default_factory=lambda: dict[int, int]())
    params: Callable[[Shapes, Shapes], Params] | None = None

    @property
    def communicates(self) -> bool:
        """Whether parts need something of others, apart from sums."""
        return bool(self.slides or self.exchanged or self.collected)

    def messages(
        self, needs: Sequence[Spec], avals: Sequence[ShapedArray], assignment: Assignment, sizes: Sizes
    ) -> list[int]:
        """The bytes of each message by which parts get what they need of others' (`halos`)."""
        found: dict[tuple[int, int, Sent], int] = {}
        for s in self.slides:
            axes = assignment.get(s.factor)
            if axes:
                aval = avals[s.operand]
                shape = local_shape(aval.shape, needs[s.operand], sizes)
                other = aval.dtype.itemsize * math.prod(n for d, n in enumerate(shape) if d != s.dim)
                for sent in messages(self.slides, s, parts(axes, sizes), shape[s.dim]).values():
                    found[s.operand, s.dim, sent] = (sent[1] - sent[0]) * other
        out = list(found.values())
        for i, size in self.collected.items():
            if i in assignment:
                others = parts(tuple(a for j, axes in assignment.items() if j != i for a in axes), sizes)
                out.append(size * (parts(assignment[i], sizes) - 1) // others)
        for k, d in self.exchanged:
            if assignment.get(self.operands[k][d][0]):
                out.append(math.prod(local_shape(avals[k].shape, needs[k], sizes)) * avals[k].dtype.itemsize)
        return out


FactorRule = Callable[..., Factors]
factors: RuleTable[FactorRule] = RuleTable("factors", "partitioning: which dimensions are the same")

Emission = Callable[..., Sequence[Any]]
emissions: dict[Primitive, Emission] = {}
"""Primitives whose operation on parts is another than on wholes: ``rule(place, operands, eqn)``, see `emission.Place`."""


def emission(*primitives: Primitive) -> Callable[[Emission], Emission]:
    """Decorator: register how these primitives are computed on parts."""

    def register(rule: Emission) -> Emission:
        for p in primitives:
            emissions[p] = rule
        return rule

    return register


class Builder:
    """Collects the factors of an equation, for rules."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.whole: set[int] = set()
        self.reduced: dict[int, str] = {}
        self.even: set[int] = set()
        self.masked: set[int] = set()
        self.slides: list[Slide] = []
        self.exchanged: set[tuple[int, int]] = set()
        self.collected: dict[int, int] = {}

    def new(self, size: int, *, whole: bool = False, reduced: str | None = None) -> int:
        """The number of a new factor."""
        self.sizes.append(size)
        number = len(self.sizes) - 1
        if whole:
            self.whole.add(number)
        if reduced is not None:
            self.reduced[number] = reduced
        return number

    def dims(self, shape: Sequence[int], *, whole: bool = False) -> list[tuple[int, ...]]:
        """A new factor for each dimension."""
        return [(self.new(n, whole=whole),) for n in shape]

    def done(
        self,
        operands: Sequence[Sequence[tuple[int, ...]]],
        results: Sequence[Sequence[tuple[int, ...]]],
        params: Callable[[Shapes, Shapes], Params] | None = None,
    ) -> Factors:
        """The declaration."""
        return Factors(
            tuple(self.sizes),
            tuple(tuple(x) for x in operands),
            tuple(tuple(x) for x in results),
            dict(self.reduced),
            frozenset(self.whole),
            frozenset(self.even),
            frozenset(self.masked),
            tuple(self.slides),
            frozenset(self.exchanged),
            dict(self.collected),
            params,
        )


def undivided(in_avals: Sequence[ShapedArray], out_avals: Sequence[ShapedArray]) -> Factors:
    """No dimension can be divided."""
    b = Builder()
    return b.done([b.dims(a.shape, whole=True) for a in in_avals], [b.dims(a.shape, whole=True) for a in out_avals])


def alike(in_avals: Sequence[ShapedArray], out_avals: Sequence[ShapedArray], whole: Sequence[int] = ()) -> Factors:
    """Operands and results of one shape; scalars among them go with any. `whole`: dimensions that are not divided."""
    shape = max((a.shape for a in (*in_avals, *out_avals)), key=len)
    b = Builder()
    dims = [(b.new(n, whole=d in whole),) for d, n in enumerate(shape)]
    return b.done([dims if a.shape else [] for a in in_avals], [dims if a.shape else [] for a in out_avals])


def leading(count: int, in_avals: Sequence[ShapedArray], out_avals: Sequence[ShapedArray]) -> Factors:
    """The first `count` dimensions of all operands and results are the same; the others are not divided."""
    b = Builder()
    shape = max((a.shape for a in in_avals), key=len)
    first = b.dims(shape[:count])

    def one(a: ShapedArray) -> list[tuple[int, ...]]:
        return [*first, *b.dims(a.shape[count:], whole=True)]

    return b.done([one(a) for a in in_avals], [one(a) for a in out_avals])


# -- shardings of factors and of dimensions -----------------------------------------------------------------------


def spread(f: Factors, dims: Dims, spec: Spec, sizes: Sizes) -> dict[int, Axes]:
    """The axes of a tensor's dimensions given to the factors: the major factor first, the next one if that is used up."""
    out: dict[int, Axes] = {}
    for axes, ids in zip(spec, dims):
        if not axes:
            continue
        if len(ids) == 1:
            if ids[0] not in f.whole:
                out[ids[0]] = axes
            continue
        rest = list(axes)
        for i in ids:
            got: list[Any] = []
            n = 1
            while rest and f.sizes[i] % (n * sizes[rest[0]]) == 0:
                n *= sizes[rest[0]]
                got.append(rest.pop(0))
            if got and i not in f.whole:
                out[i] = tuple(got)
            if n != f.sizes[i] or i in f.whole:
                break
    return out


def divided(f: Factors, dims: Dims, assignment: Assignment, sizes: Sizes) -> Spec | None:
    """The spec of a tensor under an assignment; None where its parts would not be contiguous or not equal."""
    out: list[Axes] = []
    for ids in dims:
        axes: Axes = ()
        open_ = True
        for i in ids:
            got = assignment.get(i, ())
            k = parts(got, sizes)
            if got and (not open_ or (len(ids) > 1 and f.sizes[i] % k)):
                return None
            axes += got
            open_ = open_ and k == f.sizes[i]
        out.append(axes)
    found = [a for axes in out for a in axes]
    return tuple(out) if len(set(found)) == len(found) else None


def extended(f: Factors, dims: Dims, spec: Spec, best: Assignment, sizes: Sizes) -> Spec:
    """The spec with the axes that the factors got beside those it has; an axis is used once."""
    taken = {a for axes in spec for a in axes}
    out: list[Axes] = []
    for ids, old in zip(dims, spec):
        axes: Axes = ()
        for i in ids:
            got = best.get(i, ())
            if len(ids) > 1:
                while got and f.sizes[i] % parts(got, sizes):
                    got = got[:-1]
            axes += got
            if parts(got, sizes) != f.sizes[i]:
                break
        new = old
        if axes[: len(old)] == old:
            for a in axes[len(old) :]:
                if a in taken:
                    break
                taken.add(a)
                new = (*new, a)
        out.append(new)
    return tuple(out)
