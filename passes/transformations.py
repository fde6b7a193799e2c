"""jvp, linearize, transpose, vmap and checkify as passes of pipelines: what grad and the others do, on a program in text.

``dumpir f.jaxpr --passes 'jvp{wrt=0|2},vmap{in-axes=0|none|0,size=8},dce'``. A transformation makes another program, with
other arguments and results: each class says which, in order. Arguments are named by their numbers, from 0, negative ones
from the end; several are separated by ``|``.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

from quire.ir import dtypes
from quire.ir.avals import ShapedArray
from quire.ir.errors import CheckError, DivisionByZeroError, FailedCheckError, NaNError, OOBError, PassError
from quire.ir.jaxpr import ClosedJaxpr, Jaxpr
from quire.ir.tracing import trace_flat

from .ad.jvp import jvp_jaxpr
from .ad.linearize import linearize_jaxpr
from .ad.transpose import NotLinearError, transpose_jaxpr
from .base import Pass, PassContext, register_pass
from .batching.batch import batch_jaxpr
from .batching.rules import Axis
from .dce import dce_eqns

Mask = tuple[bool, ...]


def _open(program: ClosedJaxpr) -> ClosedJaxpr:
    """The program with its constants as its first arguments, as the transformations take it."""
    jaxpr = program.jaxpr
    return ClosedJaxpr(Jaxpr((), (*jaxpr.constvars, *jaxpr.invars), jaxpr.outvars, jaxpr.eqns))


def _closed(opened: ClosedJaxpr, values: Sequence[Any]) -> ClosedJaxpr:
    """The program whose first arguments are constants."""
    jaxpr = opened.jaxpr
    n = len(values)
    return ClosedJaxpr(Jaxpr(jaxpr.invars[:n], jaxpr.invars[n:], jaxpr.outvars, jaxpr.eqns), values)


@contextmanager
def _refusals(p: Pass) -> Generator[None]:
    """What a rule refuses, as an error of the pass."""
    try:
        yield
    except (NotImplementedError, TypeError, ValueError) as error:
        raise PassError(f"{p}: {error}") from error


def _inexact(avals: Sequence[ShapedArray]) -> Mask:
    return tuple(dtypes.is_inexact(a.dtype) for a in avals)


def _chosen(p: Pass, program: ClosedJaxpr, wrt: tuple[int, ...] | None) -> Mask:
    """Which arguments an option names: all with derivatives where it is absent. PassError for what there is not."""
    avals = program.in_avals
    able = _inexact(avals)
    if wrt is None:
        if not any(able):
            types = ", ".join(a.short() for a in avals) or "none"
            raise PassError(f"{p}: the program has no argument with derivatives (its arguments: {types})")
        return able
    found: set[int] = set()
    for n in wrt:
        i = n + len(avals) if n < 0 else n
        if not 0 <= i < len(avals):
            raise PassError(f"{p}: there is no argument {n}, the program has {len(avals)}, numbered from 0")
        if i in found:
            raise PassError(f"{p}: argument {n} is named twice")
        if not able[i]:
            raise PassError(f"{p}: argument {n} is {avals[i].short()}: only floating and complex ones have derivatives")
        found.add(i)
    if not found:
        raise PassError(f"{p}: wrt names no argument")
    return tuple(i in found for i in range(len(avals)))


@register_pass
@dataclass(frozen=True)
class Jvp(Pass):
    """The forward derivative: a program of primals and tangents.

    Arguments: the program's, then a tangent of each one in `wrt` (none: all that are floating or complex). Results: the
    program's, then the tangent of each floating or complex one, zeros written out.
    """

    name = "jvp"
    keeps_results: ClassVar[bool] = False
    wrt: tuple[int, ...] | None = None

    def apply(self, program: ClosedJaxpr, context: PassContext) -> ClosedJaxpr:
        nonzeros = (*(False for _ in program.consts), *_chosen(self, program, self.wrt))
        with _refusals(self):
            made = jvp_jaxpr(_open(program), nonzeros, _inexact(program.out_avals))
        return _closed(made.closed, (*made.captured, *program.consts))


@register_pass
@dataclass(frozen=True)
class Linearize(Pass):
    """The derivative at a point, split in two: `part` says which.

    "primal": takes the program's arguments; gives its results, then the residuals, which the linear part reads.
    "linear": takes the residuals, then a tangent of each argument in `wrt` (none: all that are floating or complex); gives
    the tangent of each floating or complex result.
    """

    name = "linearize"
    keeps_results: ClassVar[bool] = False
    wrt: tuple[int, ...] | None = None
    part: str = "primal"

    def apply(self, program: ClosedJaxpr, context: PassContext) -> ClosedJaxpr:
        if self.part not in ("primal", "linear"):
            raise PassError(f"{self}: part is {self.part!r}, expected primal or linear")
        nonzeros = (*(False for _ in program.consts), *_chosen(self, program, self.wrt))
        with _refusals(self):
            split = linearize_jaxpr(_open(program), nonzeros, _inexact(program.out_avals))
        context.counters["residuals"] += split.num_res
        return split.unknown if self.part == "linear" else _closed(split.known, (*split.captured, *program.consts))


@register_pass
@dataclass(frozen=True)
class Transpose(Pass):
    """The transpose of a program that is linear in some arguments: the backward pass.

    Arguments: those that are not in `wrt` (none: all floating or complex ones are), then a cotangent of each floating or
    complex result. Results: the cotangent of each argument in `wrt`, zeros written out.
    """

    name = "transpose"
    keeps_results: ClassVar[bool] = False
    wrt: tuple[int, ...] | None = None

    def apply(self, program: ClosedJaxpr, context: PassContext) -> ClosedJaxpr:
        chosen = _chosen(self, program, self.wrt)
        linear = (*(False for _ in program.consts), *chosen)
        named = [str(i) for i, c in enumerate(chosen) if c]
        try:
            with _refusals(self):
                made = transpose_jaxpr(_open(program), linear, _inexact(program.out_avals), (True,) * len(named))
        except PassError as error:
            if not isinstance(error.__cause__, NotLinearError):
                raise
            which = f"argument{'s' * (len(named) > 1)} {', '.join(named)}"
            raise PassError(
                f"{self}: the program is not linear in {which}: {error.__cause__}; "
                "name the linear arguments, as in transpose{wrt=1}"
            ) from error
        return _closed(made.closed, (*made.captured, *program.consts))


@register_pass
@dataclass(frozen=True)
class Vmap(Pass):
    """The program for `size` lanes at once.

    `in-axes` holds, for each argument, the position of the lanes among its dimensions, or none if all lanes take the same;
    one entry counts for all arguments. Results have the lanes first. Collectives reach them by `axis-name`.
    """

    name = "vmap"
    keeps_results: ClassVar[bool] = False
    in_axes: tuple[int | None, ...] = (0,)
    size: int | None = None
    axis_name: str | None = None

    def apply(self, program: ClosedJaxpr, context: PassContext) -> ClosedJaxpr:
        if self.size is None or self.size < 0:
            raise PassError(f"{self}: give the number of lanes, as in vmap{{size=8}}")
        avals = program.in_avals
        axes = self.in_axes * len(avals) if len(self.in_axes) == 1 else self.in_axes
        if len(axes) != len(avals):
            raise PassError(f"{self}: in-axes has {len(axes)} entries, the program {len(avals)} arguments")
        dims = [self._dim(i, axis, aval) for i, (axis, aval) in enumerate(zip(axes, avals))]
        if avals and all(d is None for d in dims):
            raise PassError(f"{self}: in-axes is none for every argument: there is nothing to map")
        with _refusals(self):
            made = batch_jaxpr(
                _open(program), Axis(self.size, self.axis_name), (*(None for _ in program.consts), *dims),
                (True,) * len(program.out_avals),
            )  # fmt: skip
        return _closed(made.closed, (*made.captured, *program.consts))

    def _dim(self, i: int, axis: int | None, aval: ShapedArray) -> int | None:
        if axis is None:
            return None
        if not -aval.ndim - 1 <= axis <= aval.ndim:
            raise PassError(
                f"{self}: axis {axis} of argument {i}: one lane is {aval.short()}, so the lanes can be at 0 to {aval.ndim}"
            )
        return axis % (aval.ndim + 1)


_CHECKS: dict[str, type[CheckError]] = {
    "nan": NaNError, "div": DivisionByZeroError, "index": OOBError, "user": FailedCheckError,
}  # fmt: skip


@register_pass
@dataclass(frozen=True)
class Checkify(Pass):
    """Checks as results: NaN, division by zero (div), indices outside an array (index), the program's own (user).

    Results: the error's code (0: none, else 1 + the number of the check that failed first), the arrays of which the checks'
    messages are made, then the program's results.
    """

    name = "checkify"
    keeps_results: ClassVar[bool] = False
    errors: tuple[str, ...] = tuple(_CHECKS)

    def apply(self, program: ClosedJaxpr, context: PassContext) -> ClosedJaxpr:
        # Whoever compiles without checks does not load them.
        from .checkify import checkify_eval

        for name in self.errors:
            if name not in _CHECKS:
                raise PassError(f"{self}: {name!r} is no kind of check; there are {', '.join(_CHECKS)}")
        kinds = frozenset(_CHECKS[name] for name in self.errors)
        opened = _open(program).jaxpr

        def flat(*xs: Any) -> list[Any]:
            found = checkify_eval(opened, xs, kinds)
            for site in found.sites:
                context.counters[f"{site.kind.__name__} checks"] += 1
            return [found.code, *found.payload, *found.outs]

        with _refusals(self):
            traced, captured, _ = trace_flat(flat, opened.in_avals, name="checkify")
        return _closed(ClosedJaxpr(dce_eqns(traced)), (*captured, *program.consts))


__all__ = ["Checkify", "Jvp", "Linearize", "Transpose", "Vmap"]
