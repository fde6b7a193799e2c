"""The walk over a module of StableHLO: functions, regions, and the table of what stands for which operation."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from quire.ir.avals import ShapedArray, aval_of
from quire.ir.errors import UnsupportedError
from quire.ir.jaxpr import ClosedJaxpr
from quire.ir.primitives import structural as st
from quire.ir.primitives.reductions import scalar_jaxpr
from quire.ir.source import SourceSetter
from quire.ir.tracing import no_trace

from .mlir_reading import aval_of_value, name_of, place_of, refuse, source_of, string

Value = Any
Rule = Callable[..., Any]

OPERATIONS: dict[str, Rule] = {}
"""By the name of StableHLO's operation: ``rule(walk, op, *values)``, which gives the result or a list of results."""


def counterpart(*names: str) -> Callable[[Rule], Rule]:
    """Decorator: what stands for these operations; a name without a dot is one of StableHLO's."""

    def register(rule: Rule) -> Rule:
        for name in names:
            OPERATIONS[name if "." in name else f"stablehlo.{name}"] = rule
        return rule

    return register


_WIDE = re.compile(r"\D(?:[su]?i64|f64)\b|[x<](?:u?i64|f64)")


def _known(rule: Rule, walk: Walk, op: Any, values: Sequence[Value]) -> list[Value]:
    """The results for known numbers. Those of fewer bits that are counting or equal numbers are written as such."""
    with no_trace():
        out = rule(walk, op, *values)
        arrays = [np.asarray(x) for x in (out if isinstance(out, list) else [out])]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    found: list[Value] = []
    for x in arrays:
        if x.dtype.itemsize == 8 and x.dtype.kind != "c" or not x.size or x.dtype.kind not in "iu":
            found.append(x)
        elif (x == x.flat[0]).all():
            found.append(st.full(x.shape, x.flat[0]))
        elif np.array_equal(x.ravel(), np.arange(x.size)):
            found.append(st.reshape(st.iota(x.dtype, x.size), x.shape))
        else:
            found.append(x)
    return found


_ENDS = ("func.return", "stablehlo.return")


class Walk:
    """A module that is being imported: its functions by name, and the values of its operations."""

    def __init__(self, module: Any, narrow: bool = False) -> None:
        self.around: dict[Any, Value] = {}  # the values of the operation that is looked at, and of those around it
        self.narrow = narrow  # 64-bit dtypes are off where the program will be used
        self.functions: dict[str, Any] = {}
        for view in module.body.operations:
            op = view.operation
            if name_of(op) == "func.func":
                self.functions[string(op, "sym_name")] = op

    def unknown(self) -> dict[str, Any]:
        """The operations that have no counterpart, each with its first occurrence."""
        found: dict[str, Any] = {}

        def look(op: Any) -> None:
            name = name_of(op)
            if name not in OPERATIONS and name not in _ENDS and name != "func.func":
                found.setdefault(name, op)
            for region in op.regions:
                for block in region.blocks:
                    for inner in block.operations:
                        look(inner.operation)

        for function in self.functions.values():
            look(function)
        return found

    def check(self) -> None:
        """Raise UnsupportedError, which names all of them, if operations have no counterpart."""
        unknown = self.unknown()
        if unknown:
            lines = "\n".join(f"  {name}{place_of(op)}" for name, op in unknown.items())
            raise UnsupportedError(f"from_stablehlo: operations that quire has no counterpart for:\n{lines}")

    def main(self, name: str | None) -> Any:
        """The function to call: that of the name, else ``main``, else the only one.

        Raises:
            ValueError: there is none of that name, or it is not known which is meant.
        """
        wanted = name or ("main" if "main" in self.functions else None)
        if wanted is None and len(self.functions) == 1:
            (wanted,) = self.functions
        if wanted not in self.functions:
            raise ValueError(
                f"from_stablehlo: the module has no function {wanted or 'main'!r}: give function=, one of "
                f"{', '.join(self.functions) or 'none'}"
            )
        return self.functions[wanted]

    def call(self, name: str, args: Sequence[Value], op: Any) -> list[Value]:
        """The results of a function of the module.

        Raises:
            UnsupportedError: the module has no such function.
        """
        function = self.functions.get(name)
        if function is None:
            raise refuse(op, f"the module has no function {name!r}")
        return self.region(function.regions[0], args, {})

    def region(self, region: Any, args: Sequence[Value], outer: dict[Any, Value]) -> list[Value]:
        """The results of a region with one block, which may use the values around it.

        Raises:
            UnsupportedError: it has several blocks or none, or an operation has no counterpart.
            AssertionError: a counterpart gives another type than the module says, which is a mistake of quire's.
        """
        blocks = list(region.blocks)
        if len(blocks) != 1:
            raise UnsupportedError(f"from_stablehlo: expected a region with one block, got {len(blocks)}")
        env = dict(outer)
        env.update(zip(blocks[0].arguments, args, strict=True))
        with SourceSetter() as set_source:
            for view in blocks[0].operations:
                op = view.operation
                name = name_of(op)
                values = [env[x] for x in op.operands]
                if name in _ENDS:
                    return values
                rule = OPERATIONS.get(name)
                if rule is None:
                    raise refuse(op, "quire has no counterpart")
                set_source(source_of(op))
                self.around = env
                results = list(op.results)
                if self.narrow and self._is_known(op, values):
                    out = _known(rule, self, op, values)
                else:
                    out = rule(self, op, *values)
                for result, value in zip(results, out if isinstance(out, list) else [out], strict=True):  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
                    env[result] = self.checked(op, result, value)
        raise UnsupportedError("from_stablehlo: a region ends without returning")

    def _is_known(self, op: Any, values: Sequence[Value]) -> bool:
        """Whether an operation on 64-bit numbers is one on known ones: it is computed now, so that none are left of them."""
        if (
            len(op.regions)
            or name_of(op) == "func.call"
            or not all(isinstance(x, np.ndarray | np.generic) for x in values)
        ):
            return False
        return any(_WIDE.search(str(x.type)) for x in (*op.operands, *op.results))

    def checked(self, op: Any, result: Any, value: Value) -> Value:
        """A result, after its type was compared with the module's.

        Raises:
            AssertionError: they differ.
        """
        if value is None:  # a token
            return value
        want, got = aval_of_value(result, op), aval_of(value)
        if want.shape != got.shape or want.dtype != got.dtype:
            raise AssertionError(
                f"from_stablehlo: {name_of(op)} should give {want.short()}, gives {got.short()}{place_of(op)}"
            )
        return value

    def scalar(self, op: Any, index: int, avals: Sequence[ShapedArray]) -> ClosedJaxpr:
        """A region of an operation as a function of scalars."""
        outer = dict(self.around)
        region = op.regions[index]

        def flat(*xs: Value) -> list[Value]:
            return self.region(region, xs, outer)

        return scalar_jaxpr(name_of(op), flat, avals)


def scalar_of(value: Value) -> Value:
    """A known number as NumPy's scalar, so that it is a literal; other values as they are."""
    return value[()] if isinstance(value, np.ndarray) and not value.shape else value
