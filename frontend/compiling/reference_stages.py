"""The steps of a compile, one by one, for functions that take references: the program is that of their values."""

from __future__ import annotations

from typing import Any

from quire.ir.avals import aval_of
from quire.ir.source import current_source, where

from .. import tree_util
from .aot import Compiled, Lowered, Traced
from .references import ReferenceVariant


class ReferenceLowered(Lowered):
    """A function with references, lowered: the module takes what they hold, and gives what it writes last."""

    def __init__(self, traced: Traced, variant: ReferenceVariant, values: Lowered) -> None:
        super().__init__(traced, values.request, values.ranked)
        self._variant = variant
        self._values = values

    def compile(self, compiler_options: Any = None) -> Compiled:
        """Compile for the device; what it returns is called with the references."""
        return ReferenceCompiled(self._variant, self._values.compile(compiler_options), self)


class ReferenceCompiled(Compiled):
    """A compiled program of values, called with the references that hold them."""

    def __init__(self, variant: ReferenceVariant, values: Compiled, lowered: Lowered) -> None:
        super().__init__(values.lowered, values.variant)
        self._variant = variant
        self._values = values
        self._outer = lowered

    @property
    def in_tree(self) -> Any:
        """The tree of the arguments, positional and by keyword."""
        return self._outer.in_tree

    @property
    def out_tree(self) -> Any:
        """The tree of the results."""
        return self._outer.out_tree

    @property
    def leaf_types(self) -> tuple[Any, ...]:
        """The types of the arguments' leaves."""
        traced = self._variant.traced
        return tuple(traced.jaxpr.in_avals[len(traced.captured) :])

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        leaves, tree = tree_util.flatten_arrays((args, kwargs))
        name = self._outer.traced.fun_name
        if tree != self.in_tree:
            raise TypeError(
                f"{name} was compiled for arguments of structure {self.in_tree}, got {tree}{where(current_source(2))}"
            )
        for x, aval in zip(leaves, self.leaf_types):
            got: Any = aval_of(x)
            if type(got) is not type(aval) or got.shape != aval.shape or got.dtype != aval.dtype:
                raise TypeError(f"{name} was compiled for {aval.short()}, got {got.short()}{where(current_source(2))}")
        return self._variant.finish(leaves, self._values(*self._variant.arguments(leaves)))


__all__ = ["ReferenceCompiled", "ReferenceLowered"]
