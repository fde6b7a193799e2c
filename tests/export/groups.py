"""The table's functions, several to one exported function, and what NumPy's rules (the reference backend) give for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from quire.backends.export.targets import ExportTarget
from quire.backends.reference import eval_jaxpr
from quire.compiling.compiled_function import CompiledFunction
from quire.export.programs import Example, Exported, prepare

from .table import TABLE

SIZE = 16


def groups(names: Sequence[str], size: int = SIZE) -> dict[str, tuple[Callable[..., Any], tuple[Any, ...]]]:
    """Functions of the arguments of several; those that donate stay alone."""
    alone = [n for n in names if isinstance(TABLE[n][0], CompiledFunction)]
    rest = [n for n in names if n not in alone]
    out: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {n: TABLE[n] for n in alone}
    for start in range(0, len(rest), size):
        part = rest[start : start + size]

        def together(given: Any, part: Sequence[str] = tuple(part)) -> Any:
            return {n: TABLE[n][0](*given[n]) for n in part}

        out[f"from_{part[0]}"] = (together, ({n: TABLE[n][1] for n in part},))
    return out


def exported_with_examples(
    functions: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]], model: str, target: ExportTarget, threads: int = 0
) -> tuple[list[Exported], list[Example]]:
    """Each function, and its arguments and results by the reference backend."""
    made: list[Exported] = []
    examples: list[Example] = []
    for name, (f, args) in functions.items():
        e = prepare(f, args, {}, name=name, model=model, target=target, threads=threads)
        jaxpr = e.compiled.trace(*args).jaxpr
        given = [np.asarray(x) for x in e.compiled.dynamic_leaves(args, {})]
        results = [np.asarray(x) for x in eval_jaxpr(jaxpr, *given)]
        made.append(e)
        examples.append(
            Example(
                [
                    np.ascontiguousarray(x, leaf.dtype).tobytes()
                    for x, leaf in zip(given, e.function.arguments, strict=True)
                ],
                [
                    np.ascontiguousarray(x, leaf.dtype).tobytes()
                    for x, leaf in zip(results, e.function.results, strict=True)
                ],
            )
        )
    return made, examples
