"""From a loaded program to a call: the shortest path from the flat arguments to the result's tree."""

from __future__ import annotations

import collections
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.avals import ShapedArray, aval_of
from quire.ir.config import config
from quire.runtime.array import Array, device_view, from_host, from_view, memory_of
from quire.runtime.devices import Device
from quire.runtime.placements import Place

from .. import tree_util
from ..watching.value_checks import check_parts
from .loading import Program
from .ranked import Ranked, make_results
from .recognition import assembler
from .shardings import Layout
from .tracing import TracedFunction, result_paths
from .variants import VariantInfo

_new = object.__new__

Call = Callable[[Sequence[Any]], Any]


class Variant:
    """One compiled variant and its call: a function from the flat arguments to the result's tree."""

    __slots__ = ("call", "info", "layout", "program", "traced")

    def __init__(
        self, info: VariantInfo, traced: TracedFunction, program: Program, layout: Layout, ranked: Ranked | None = None
    ) -> None:
        self.layout = layout
        self.info = info
        self.traced = traced
        self.program = program
        self.call = _make_call(self) if ranked is None else _make_ranked_call(self, ranked)

    def check_first_call(self, function: str) -> None:
        """Compare the program with the reference backend at its first call; `function`: its name and line."""
        from .result_checks import checked_once

        plain = self.call
        names = [f"result{p}" for p in result_paths(self.traced.out_tree)]

        def done() -> None:
            if self.call is checked:
                self.call = plain

        request = self.program.request
        checked = checked_once(
            plain, request.program, self.program.device, request.donated, function, names, done
        )  # fmt: skip
        self.call = checked


def _make_ranked_call(variant: Variant, ranked: Ranked) -> Call:
    """The call of a program that several ranks run."""
    info, out_tree = variant.info, variant.traced.out_tree
    results = make_results(variant.program, ranked)
    checks = config.options.debug_nans or config.options.debug_infs  # part of the variant's key
    leaf = tree_util.is_single_leaf(out_tree)

    def call(leaves: Sequence[Any]) -> Any:
        info.uses += 1
        out = results(leaves)
        if checks:
            check_parts(out, variant.program.request.name)
        return out[0] if leaf else out_tree.unflatten(out)

    return call


def _make_call(variant: Variant) -> Call:
    """The shortest path from the flat arguments to the result."""
    program, info = variant.program, variant.info
    out_avals = program.out_avals
    device = program.device
    result_bytes = sum(a.nbytes for a in out_avals)
    invoke = program.executable.make_call(result_bytes)
    out_tree = variant.traced.out_tree
    leaf = tree_util.is_single_leaf(out_tree)
    n_out = out_tree.num_leaves
    unflatten = assembler(out_tree.unflatten(range(n_out)), n_out) or out_tree.unflatten
    n_leaves = len(variant.traced.jaxpr.invars) - len(variant.traced.captured)
    kept = program.artifact.kept
    everything = kept == tuple(range(n_leaves))
    own, places = variant.layout.own, variant.layout.places
    plain = own is None and places is None
    # The arguments' memory is this process' own: that of the first CPU device, which all others share.
    on_host = plain or device.is_host and all(p is None or p.is_host for p in variant.info.signature.devices)
    n_results = program.executable.n_results
    makers = [
        (kind, i, aval, aval if plain else (aval, own)) for (kind, i), aval in zip(program.artifact.results, out_avals)
    ]
    # An argument that the program does not take keeps its memory, which nothing writes to (as in JAX).
    taken = {*kept, *(i for kind, i, _, _ in makers if kind == "argument")}
    donated = frozenset(program.request.donated) & taken

    first = len(variant.traced.captured)
    dtypes_in = [(i, variant.traced.jaxpr.invars[first + i].aval.dtype) for i in kept]

    def view_of(x: Any) -> Any:
        return device_view(x, device)

    # A call that may be left before its end keeps what it was given.
    borrow = program.executable.length == "short"

    def views_of(leaves: Sequence[Any]) -> list[Any]:
        return [
            device_view(x, device) if type(x := leaves[i]) is Array else from_host(x, dtype, device, borrow)
            for i, dtype in dtypes_in
        ]

    if leaf and n_results == 1 and makers[0][0] == "result" and everything and plain and not donated:
        _, _, out_aval, signature = makers[0]

        def call_simple(leaves: Sequence[Any]) -> Any:
            info.uses += 1
            try:
                views = [x._view or view_of(x) for x in leaves]
            except AttributeError:
                views = views_of(leaves)
            view = invoke(views)
            out = _new(Array)
            out.aval = out_aval
            out._signature = signature
            out._host = None
            out._view = view
            out._device = None
            out._shared = False
            return out

        return call_simple

    uses_of = collections.Counter(i for kind, i, _, _ in makers if kind == "result")
    shared = {i for i, n in uses_of.items() if n > 1}
    # Each result once and in order: the usual case, in which nothing is looked up.
    in_order = [(kind, i) for kind, i, _, _ in makers] == [("result", i) for i in range(n_results)]
    avals = [aval for _, _, aval, _ in makers]
    select = _selector(kept, everything)

    def call(leaves: Sequence[Any]) -> Any:
        info.uses += 1
        if on_host and not donated:
            try:
                views = [x._view or view_of(x) for x in select(leaves)]
            except AttributeError:
                views = views_of(leaves)
        else:
            views = views_of(leaves)
        if donated:
            views = _donate(leaves, views, kept, donated, device)
            try:
                out = invoke(views)
            except BaseException:
                _delete(leaves, donated)  # the program may have written into them, or do so still
                raise
        else:
            out = invoke(views)
        if n_results == 1:
            out = (out,)
        if places is not None:
            results = [
                _result(kind, i, aval, place, out, leaves, shared, device)
                for (kind, i, aval, _), place in zip(makers, places)
            ]
        elif in_order:
            results = [from_view(v, aval, own) for v, aval in zip(out, avals)]
        else:
            results = [_result(kind, i, aval, own, out, leaves, shared, device) for kind, i, aval, _ in makers]
        if donated:
            _delete(leaves, donated)
        return results[0] if leaf else unflatten(results)

    return call


def _selector(kept: Sequence[int], everything: bool) -> Callable[[Sequence[Any]], Sequence[Any]]:
    """Picks the leaves that the program takes."""
    if everything:
        return _same
    if len(kept) < 2:  # itemgetter gives a bare item for one, and does not exist for none
        return lambda leaves: [leaves[i] for i in kept]
    return operator.itemgetter(*kept)


def _same(leaves: Sequence[Any]) -> Sequence[Any]:
    return leaves


def _result(
    kind: str, i: int, aval: ShapedArray, place: Place, out: Sequence[Any], leaves: Sequence[Any], shared: set[int],
    device: Device,
) -> Any:  # fmt: skip
    """One result: the i-th of the program's, or of the arguments, or of a dtype without values."""
    if kind == "result":
        array = from_view(out[i], aval, place)
        array._shared = i in shared
        return array
    if kind == "float0":
        return np.zeros(aval.shape, dtypes.float0)
    return _forward(leaves[i], aval, device, place)


def _forward(x: Any, aval: ShapedArray, device: Device, place: Place) -> Array:
    """A result that is an argument itself: another Array over the same buffer, which may not be donated any more."""
    if type(x) is Array and x.aval.undivided() is aval.undivided() and memory_of(x) is device:
        view = device_view(x, device)
        x._shared = True
        out = from_view(view, aval, place)
        out._host = x._host
        out._shared = True
        return out
    if type(x) is Array:
        return from_view(device_view(x, device), aval, place)
    from quire.runtime import buffers

    return from_view(buffers.from_numpy(np.array(x, dtype=aval.dtype), device, copy=True), aval, place)


def shared_copy(x: Any) -> Any:
    """Another Array over the same buffer, which is copied before it is donated; of other values the value itself."""
    return _forward(x, x.aval, memory_of(x), x._device) if type(x) is Array else x


def _donate(
    leaves: Sequence[Any], views: list[Any], kept: Sequence[int], donated: frozenset[int], device: Device
) -> list[Any]:
    """Views whose donated members nobody else can see: what is shared, exposed to NumPy, or given twice is copied."""
    from quire.runtime import buffers

    out: list[Any] = []
    given = collections.Counter(id(view) for view in views)
    for view, i in zip(views, kept):
        x = leaves[i]
        if i in donated and (type(x) is not Array or x._shared or x._host is not None or given[id(view)] > 1):
            host = np.asarray(x, dtype=aval_of(x).dtype)
            view = buffers.from_numpy(host, device, copy=True)
        out.append(view)
    return out


def _delete(leaves: Sequence[Any], donated: frozenset[int]) -> None:
    for i in donated:
        x = leaves[i]
        if type(x) is Array:
            x._view = x._host = None


__all__ = ["Call", "Variant", "shared_copy"]
