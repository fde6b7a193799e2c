"""What a compile is asked for: the record that every step between tracing and running reads."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from quire.backends.targets import COMMON_PASSES, CPU_PASSES, Target
from quire.ir.avals import ShapedArray
from quire.ir.config import config
from quire.ir.extensions import noted_fingerprint
from quire.ir.identity import identity
from quire.ir.jaxpr import ClosedJaxpr
from quire.ir.narrow import is_narrow
from quire.passes.base import Pass, parse_pipeline, passes_key
from quire.passes.foreign import expand
from quire.passes.narrow import as_bytes
from quire.passes.undivided import without_divisions
from quire.runtime.compile_cache import cache_key

from ..watching.transformations import Transformation


@dataclass(frozen=True, eq=False)
class Request:
    """A traced program, and what it is compiled for.

    Attributes:
        program: as it was traced, before any pass; captured arrays are its constants.
        target: what it is compiled for.
        name: the function's.
        donated: the arguments whose memory the program may use for its results.
        keep_unused: the module takes the arguments that it does not use, too.
        names: the path of each argument, as ``params['w']``; empty where they are not known.
        out_tree: the tree of the results, where it is known.
        transformations: what grad, vmap, ... did while it was traced, innermost first.
        trace_seconds: what tracing took, where it was traced for this.
        passes: those that are run instead of the target's own; None: its own.
        traced: the program with the primitives of other packages; in `program` is what those are lowered to.
    """

    program: ClosedJaxpr
    target: Target
    name: str = "main"
    donated: tuple[int, ...] = ()
    keep_unused: bool = False
    names: tuple[str, ...] = ()
    out_tree: Any = None
    transformations: tuple[Transformation, ...] = ()
    trace_seconds: float | None = None
    passes: tuple[Pass, ...] | None = None
    traced: ClosedJaxpr = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "traced", self.program)
        object.__setattr__(self, "program", as_bytes(without_divisions(expand(self.program, self.target.runs_on))))

    @property
    def out_avals(self) -> tuple[ShapedArray, ...]:
        """The types of the function's results, which `program` may give as bytes."""
        pairs = zip(self.traced.out_avals, self.program.out_avals, strict=True)
        return tuple(of_user.undivided() if is_narrow(of_user) else aval for of_user, aval in pairs)

    def key(self) -> str:
        """The program's name in the persistent cache: of the traced jaxpr, so that a hit runs no pass."""
        digest = hashlib.sha256()
        for c in self.program.consts:
            array = np.asarray(c)
            digest.update(f"{array.dtype}{array.shape}".encode())
            digest.update(
                np.ascontiguousarray(array).view(np.uint8).data if array.nbytes and array.shape else array.tobytes()
            )
        return cache_key(
            identity(self.program.jaxpr), digest.digest(), self.target.fingerprint(),
            repr((self.donated, self.keep_unused)), repr(config.options.trace_key),
            self._passes_key(), noted_fingerprint(),
        )  # fmt: skip

    def _passes_key(self) -> str:
        """The passes with their options and, where they are other packages', a digest of their code."""
        if self.passes is not None:
            return "asked\n" + passes_key(self.passes)
        own = self.target.pipeline
        return "" if own in (COMMON_PASSES, CPU_PASSES) else passes_key(parse_pipeline(own))


__all__ = ["Request"]
