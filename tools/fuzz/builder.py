"""Making programs: the values at hand, and statements that are evaluated by the reference as they are made.

Evaluating tells the types of the results, and lets the values stay moderate: what grows is made small again, what is
not finite is not used any more.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as onp

from quire import tree_util
from quire.backends import reference
from quire.ir.avals import aval_of
from quire.ir.tracing import close_captured, trace_flat

from .program import Aval, Block, Shape, Statement, library_names, read_names, statement_lines

Array = onp.ndarray[Any, Any]
LARGE = 60.0
#: Parts of statements that take long to compile.
COSTLY = ("sort", "top_k", "median", "quantile", "unique", "digitize", "interp", "random.")
MOST_ELEMENTS = 20_000


@dataclass(frozen=True)
class Value:
    """A name at hand, with an example of its value."""

    name: str
    sample: Array

    @property
    def shape(self) -> Shape:
        return self.sample.shape

    @property
    def ndim(self) -> int:
        return self.sample.ndim

    @property
    def size(self) -> int:
        return self.sample.size

    @property
    def dtype(self) -> str:
        return self.sample.dtype.name

    @property
    def aval(self) -> Aval:
        return self.shape, self.dtype

    @property
    def kind(self) -> str:
        """One of "b", "i", "u", "f", "c"."""
        return kind_of(self.sample.dtype)


def kind_of(dtype: Any) -> str:
    """NumPy's letter, "f" for bfloat16 too."""
    kind = onp.dtype(dtype).kind
    return "f" if kind == "V" else kind


class Refused(Exception):
    """The library refuses a statement that was to be made."""

    def __init__(self, statement: Statement, error: Exception) -> None:
        super().__init__(str(error))
        self.statement = statement


@dataclass(frozen=True)
class Setting:
    """What a program may hold.

    Attributes:
        sizes: of dimensions.
        floats, ints: the dtypes it prefers.
        derived: it is differentiated.
        reverse: in reverse: no while loops.
        lanes: how many fold the transformations make its values.
        costly: it may sort and draw random numbers: such programs take ten times as long to compile.
        special: values that are not finite are used like others.
        scale: the elements that an array may have, as a multiple of the usual most.
    """

    sizes: tuple[int, ...]
    floats: tuple[str, ...]
    ints: tuple[str, ...]
    derived: bool
    reverse: bool
    lanes: int = 1
    costly: bool = True
    special: bool = False
    scale: int = 1

    @property
    def most(self) -> int:
        """The elements that an array may have."""
        return MOST_ELEMENTS * self.scale


class Builder:
    """A function under construction."""

    def __init__(self, rng: random.Random, setting: Setting, depth: int = 0) -> None:
        self.rng = rng
        self.setting = setting
        self.depth = depth
        self.values: list[Value] = []
        self.statements: list[Statement] = []
        self.counter = [0]
        self.quire = library_names("quire")

    # -- choices

    def chance(self, p: float) -> bool:
        return self.rng.random() < p

    def one(self, *options: Any) -> Any:
        return self.rng.choice(options)

    def pick(
        self,
        kinds: str = "fciub",
        accept: Callable[[Value], bool] | None = None,
        *,
        ndim: int | None = None,
        least_ndim: int = 0,
        nonempty: bool = False,
        most: int = MOST_ELEMENTS,
    ) -> Value:
        """A value of one of these kinds; recent ones are likelier. LookupError if there is none.

        `most` is for programs of the usual scale.
        """
        most *= self.setting.scale
        found = [
            v
            for v in self.values
            if v.kind in kinds
            and (ndim is None or v.ndim == ndim)
            and v.ndim >= least_ndim
            and (not nonempty or v.size > 0)
            and v.size <= most
            and (accept is None or accept(v))
        ]
        if not found:
            raise LookupError
        return self.rng.choice(found[-4:] if self.chance(0.5) else found)

    def size(self) -> int:
        return self.rng.choice(self.setting.sizes)

    def shape(self, most_ndim: int = 3) -> Shape:
        while True:
            shape = tuple(self.size() for _ in range(self.rng.choice((0, 1, 1, 1, 2, 2, 2, 3)[: 3 + 2 * most_ndim])))
            if onp.prod(shape, dtype=int) <= self.setting.most // self.setting.lanes:
                return shape

    def name(self, prefix: str = "v") -> str:
        self.counter[0] += 1
        return f"{prefix}{self.counter[0]}"

    # -- statements

    def emit(self, text: str, *operands: Value, blocks: Sequence[Block] = ()) -> Any:
        """Append a statement; its value, or a list of values where it has several results."""
        if not self.setting.costly and any(word in text for word in COSTLY):
            raise LookupError
        statement = Statement(("?",), text, tuple(v.name for v in operands), (), tuple(blocks))
        samples = {v.name: v.sample for v in (*self.values, *operands)}
        names = sorted(read_names(statement))
        source = [f"def evaluated({', '.join(names)}):", *(f"    {line}" for line in self._lines(statement))]
        scope = dict(self.quire)
        exec("\n".join(source), scope)
        trees: list[Any] = []

        def flat(*xs: Any) -> list[Any]:
            leaves, tree = tree_util.tree_flatten(scope["evaluated"](*xs))
            trees.append(tree)
            return leaves

        args = [samples[n] for n in names]
        try:
            jaxpr, captured, _ = trace_flat(flat, [aval_of(x) for x in args], name="statement")
            results = reference.eval_jaxpr(close_captured(jaxpr, captured), *args)
        except (LookupError, MemoryError):
            raise
        except Exception as error:
            raise Refused(dataclasses.replace(statement, targets=(self.name(),)), error) from error
        if sum(x.size for x in results) * self.setting.lanes > 4 * self.setting.most:
            raise LookupError
        targets = tuple(self.name() for _ in results)
        avals = tuple((x.shape, x.dtype.name) for x in results)
        single = trees[0] == tree_util.tree_structure(0)
        self.statements.append(dataclasses.replace(statement, targets=targets, avals=avals, several=not single))
        made = [self._tamed(Value(n, onp.asarray(x))) for n, x in zip(targets, results)]
        return made[0] if single else made

    def _lines(self, s: Statement) -> list[str]:
        lines = statement_lines(dataclasses.replace(s, targets=("result",)))
        return [*lines, "return result"]

    def _tamed(self, v: Value) -> Value:
        """The value, and what later statements use instead of it where it is large."""
        if v.kind in "fc" and v.size:
            magnitudes = onp.abs(v.sample.astype("complex128"))
            finite = onp.isfinite(magnitudes)
            if not onp.all(finite) and not self.setting.special:
                return v
            if onp.max(magnitudes, where=finite, initial=0.0) > LARGE:
                text = "np.tanh({0} * 0.01)" if v.kind == "f" else "{0} / (1.0 + np.abs({0}))"
                return self.emit(f"{text}.astype({v.dtype!r})", v)
        self.values.append(v)
        return v

    def of_aval(self, aval: Aval, *, fresh: bool = False) -> Value:
        """Some value of this type, converted where there is none."""
        shape, dtype = aval
        same = [v for v in self.values if v.aval == aval]
        if same and not (fresh and self.chance(0.5)):
            return self.rng.choice(same[-3:])
        alike = [v for v in self.values if v.shape == shape and (v.kind != "c" or kind_of(dtype) == "c")]
        if alike and kind_of(dtype) != "b":
            return self.emit("{0}.astype(" + repr(dtype) + ")", self.rng.choice(alike[-3:]))
        scalars = [v for v in self.values if v.shape == () and (v.kind != "c" or kind_of(dtype) == "c")]
        if scalars and kind_of(dtype) != "b":
            return self.emit(f"np.full({shape}, {{0}}, {dtype!r})", self.rng.choice(scalars[-3:]))
        return self.emit(f"np.full({shape}, {self.rng.randint(0, 2)}, {dtype!r})")

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """Statements made in the block are taken back if it raises."""
        before = len(self.statements), len(self.values)
        try:
            yield
        except BaseException:
            del self.statements[before[0] :], self.values[before[1] :]
            raise

    # -- nested functions

    def inner(self, params: Sequence[Array], captured: bool = True) -> tuple[Builder, list[Value]]:
        """A builder for a nested function with parameters like these, which sees the values outside."""
        child = Builder(self.rng, self.setting, self.depth + 1)
        child.counter = self.counter
        if captured:
            child.values += [v for v in self.values[-6:] if v.size <= 2000]
        own = [Value(self.name("x"), x) for x in params]
        child.values += own
        return child, own

    def steps(self, families: Sequence[Callable[[Builder], Any]], count: int) -> None:
        """Up to so many statements of the families; what is refused is left out."""
        for _ in range(count):
            try:
                with self.attempt():
                    self.rng.choice(list(families))(self)
            except (LookupError, Refused):
                pass
