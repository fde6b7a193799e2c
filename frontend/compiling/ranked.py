"""Programs that ranks run together: processes under MPI, each with its boxes of the arrays, or threads that stand for them.

The program is that of one rank (`passes/rank_programs.py`), the same on all of them; what it takes and gives are the rank's
boxes. A process holds the box of its devices anyhow. Threads (`QUIRE_SPMD=threads`) are given slices of whole arrays, and
their results are put together.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.avals import ShapedArray
from quire.ir.config import config
from quire.ir.identity import identity
from quire.ir.jaxpr import ClosedJaxpr
from quire.ir.printer import to_text
from quire.ir.ranks import RankGrid, rank_grid
from quire.ir.sharding import Mesh, PartitionSpec
from quire.runtime import buffers
from quire.runtime.array import Array, device_view, from_numpy, from_view, host_value
from quire.runtime.placements import Place, Placement, process_grid
from quire.runtime.processes.communicator import RanksError
from quire.runtime.processes.current import process
from quire.runtime.processes.threads import run_ranks

from ..arrays.result_places import spec_of
from .loading import Program
from .request import Request

Results = Callable[[Sequence[Any]], list[Any]]


def thread_ranks() -> int | None:
    """How many ranks programs run as that are threads: 0 for one a device; None where they do not.

    Raises ValueError for another value of the option `spmd` than ``"threads"`` and ``"threads:2"``.
    """
    text = config.options.spmd
    if text is None:
        return None
    kind, _, count = text.partition(":")
    if kind != "threads" or count and not count.isdigit():
        raise ValueError(f"spmd={text!r} (QUIRE_SPMD): expected 'threads', or 'threads:2' for two of them")
    return int(count or 0)


def is_ranked(mesh: Mesh | None) -> bool:
    """Whether programs over a mesh are run by several ranks."""
    if mesh is None or mesh.size < 2:
        return False
    return mesh.is_multi_process or thread_ranks() is not None


def _grid_of_threads(mesh: Mesh, count: int) -> RankGrid:
    """The ranks of a mesh that are threads. Raises ValueError where the devices are no multiple of their number."""
    count = count or mesh.size
    if mesh.size % count:
        raise ValueError(
            f"spmd='threads:{count}' (QUIRE_SPMD): {mesh.size} devices cannot be divided among {count} ranks"
        )
    return rank_grid(mesh, np.arange(mesh.size) // (mesh.size // count))


@dataclass(frozen=True, eq=False)
class Ranked:
    """A program divided among ranks.

    Attributes:
        grid: the ranks.
        threads: they are threads of this process, not processes.
        closed: the program of each.
        axes: the indices that it takes after the arguments: for each the axes along which it counts.
        in_specs: how each argument is divided.
        in_avals: the types of the whole arguments.
        out_avals: the types of the whole results.
        out_places: where the results lie.
        donated: the arguments that are given away.
    """

    grid: RankGrid
    threads: bool
    closed: ClosedJaxpr
    axes: tuple[tuple[Any, ...], ...]
    in_specs: tuple[PartitionSpec, ...]
    in_avals: tuple[ShapedArray, ...]
    out_avals: tuple[ShapedArray, ...]
    out_places: tuple[Any, ...]
    donated: tuple[int, ...] = ()

    def request(self, whole: Request) -> Request:
        """What is to be compiled for a rank, where `whole` asks for the program of whole arrays."""
        return dataclasses.replace(
            whole,
            program=self.closed,
            donated=() if self.threads else whole.donated,
            names=(*whole.names, *(f"index along {'+'.join(str(x.name) for x in a)}" for a in self.axes)),
        )


def divide(
    closed: ClosedJaxpr, mesh: Mesh, arguments: Sequence[Place], results: Sequence[Place], donated: tuple[int, ...] = ()
) -> Ranked:
    """Divide a program of whole arrays among the ranks of a mesh; what lies nowhere is whole on every rank.

    Raises:
        ValueError: an argument or result lies on another mesh, or the devices of a process are no box of the mesh.
    """
    from quire.passes.rank_programs import rank_program  # takes its time to import

    count = thread_ranks()
    threads = not mesh.is_multi_process
    for place in (*arguments, *results):
        if type(place) is Placement and place.sharding.mesh != mesh and not threads:
            raise ValueError(
                f"a program of several processes has arrays on one mesh, got {mesh!s} and {place.sharding.mesh!s}: move the "
                "arrays to one of them with quire.device_put before"
            )
    if threads:
        grid = _grid_of_threads(mesh, count or 0)
    else:
        grid = process_grid(mesh)
    in_specs = tuple(spec_of(p, mesh) or PartitionSpec() for p in arguments)
    out_specs = tuple(spec_of(p, mesh) or PartitionSpec() for p in results)
    made = rank_program(closed, mesh, grid, in_specs, out_specs)
    return Ranked(
        grid,
        threads,
        made.closed,
        made.axes,
        in_specs,
        tuple(closed.in_avals),
        tuple(closed.out_avals),
        tuple(results),
        donated,
    )


def check_agreement(ranked: Ranked, name: str, at: str) -> None:
    """Compare the program with those that the other processes are about to run; threads have one.

    Args:
        ranked: the program.
        name: the function's name.
        at: its file and line, or what else tells where it is.

    Raises:
        RanksError: they differ.
    """
    if ranked.threads:
        return
    here = process()
    group = here.group([here.ranks.index(r) for r in ranked.grid.ranks])
    digest = hashlib.sha256(identity(ranked.closed.jaxpr))
    types = ", ".join(a.short() for a in ranked.in_avals)
    what = f"{name}({types}){at}"
    found = group.exchange((digest.hexdigest(), what), f"the first call of {name}")
    if all(f[0] == found[0][0] for f in found):
        return
    mine = found[group.rank]
    other = next(i for i, f in enumerate(found) if f[0] != mine[0])
    texts = group.exchange(to_text(ranked.closed).splitlines(), f"the programs of {name}")
    a, b = texts[group.rank], texts[other]
    line = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
    first = [t[line].strip() if line < len(t) else "(ends)" for t in (a, b)]
    raise RanksError(
        f"the processes are about to run different programs: process {ranked.grid.ranks[group.rank]} runs {mine[1]}, "
        f"process {ranked.grid.ranks[other]} runs {found[other][1]}; line {line + 1} of the program is `{first[0]}` here and "
        f"`{first[1]}` there. All processes must call the same functions in the same order, with arrays of the same shapes "
        "and dtypes; what depends on the process may be values of arrays only"
    )


def make_results(program: Program, ranked: Ranked) -> Results:
    """From the flat arguments to the flat results, as whole arrays of which this process may hold a part."""
    return _threads_results(program, ranked) if ranked.threads else _process_results(program, ranked)


def _index_views(ranked: Ranked, rank: int, device: Any) -> list[Any]:
    return [
        buffers.from_numpy(np.array(ranked.grid.index(rank, [x.name for x in a]), np.int32), device)
        for a in ranked.axes
    ]


def _process_results(program: Program, ranked: Ranked) -> Results:
    device, grid = program.device, ranked.grid
    rank = process().rank
    invoke = program.executable.make_call()
    single = program.executable.n_results == 1
    count = len(ranked.in_avals)
    indices = _index_views(ranked, rank, device)
    boxes = [grid.box(rank, s, a.shape) for s, a in zip(ranked.in_specs, ranked.in_avals, strict=True)]
    kept, donated = program.artifact.kept, frozenset(program.request.donated)
    makers = list(zip(program.artifact.results, ranked.out_avals, ranked.out_places, strict=True))
    uses = [made for made, _, _ in makers]

    def view_of(x: Any, i: int) -> Any:
        if type(x) is Array and type(x._device) is Placement and x._device.grid is not None:
            return x._view or device_view(x, device)
        aval, box = ranked.in_avals[i], boxes[i]
        if type(x) is Array:
            whole = all(s.stop - s.start == n for s, n in zip(box, aval.shape))
            return device_view(x, device) if whole else buffers.from_numpy(host_value(x)[box], device)
        return buffers.from_numpy(np.asarray(x, aval.dtype)[box], device, copy=True)

    def given_away(x: Any, view: Any, views: Sequence[Any]) -> Any:
        """The memory of a donated argument, or a copy where somebody else may see it."""
        if type(x) is Array and x._view is view and not x._shared and x._host is None and views.count(view) == 1:
            return view
        return buffers.from_numpy(buffers.to_numpy(view, device), device, copy=True)

    def results(leaves: Sequence[Any]) -> list[Any]:
        views = [view_of(leaves[i], i) if i < count else indices[i - count] for i in kept]
        if donated:
            views = [given_away(leaves[i], v, views) if i in donated else v for i, v in zip(kept, views)]
        try:
            out = invoke(views)
        finally:
            for i in donated:
                if type(leaves[i]) is Array:
                    leaves[i]._view = leaves[i]._host = None
        out = (out,) if single else out
        made: list[Any] = []
        for (kind, i), aval, place in makers:
            if kind == "float0":
                made.append(np.zeros(aval.shape, dtypes.float0))
                continue
            if kind == "argument" and i < count and type(leaves[i]) is Array:
                leaves[i]._shared = True
            view = out[i] if kind == "result" else view_of(leaves[i], i) if i < count else indices[i - count]
            array = from_view(view, aval, place)
            array._shared = kind != "result" or uses.count((kind, i)) > 1
            made.append(array)
        return made

    return results


def _threads_results(program: Program, ranked: Ranked) -> Results:
    device, grid = program.device, ranked.grid
    invoke = program.executable.make_call()
    single = program.executable.n_results == 1
    count = len(ranked.in_avals)
    ranks = grid.ranks
    indices = [_index_views(ranked, r, device) for r in ranks]
    boxes = [[grid.box(r, s, a.shape) for s, a in zip(ranked.in_specs, ranked.in_avals, strict=True)] for r in ranks]
    kept = program.artifact.kept

    def results(leaves: Sequence[Any]) -> list[Any]:
        wholes = {
            i: host_value(x) if type(x := leaves[i]) is Array else np.asarray(x, ranked.in_avals[i].dtype)
            for i in range(count)
        }

        def views_of(rank: int) -> list[Any]:
            return [
                buffers.from_numpy(wholes[i][boxes[rank][i]], device, copy=True)
                if i < count
                else indices[rank][i - count]
                for i in kept
            ]

        views = [views_of(r) for r in range(len(ranks))]
        outs = run_ranks(len(ranks), lambda r: invoke(views[r]))
        made: list[Any] = []
        for (kind, i), aval, place in zip(program.artifact.results, ranked.out_avals, ranked.out_places, strict=True):
            if kind == "float0":
                made.append(np.zeros(aval.shape, dtypes.float0))
                continue
            spec = spec_of(place, _mesh(place)) if type(place) is Placement else None
            whole = np.empty(aval.shape, aval.dtype)
            for r in range(len(ranks)):
                if kind == "result":
                    part = buffers.to_numpy(outs[r] if single else outs[r][i], device, aval.dtype)
                elif i < count:
                    part = wholes[i][boxes[r][i]]
                else:
                    part = buffers.to_numpy(indices[r][i - count], device, aval.dtype)
                whole[grid.box(r, spec or PartitionSpec(), aval.shape)] = part
            whole.setflags(write=False)
            made.append(from_numpy(whole, aval, place))
        for i in ranked.donated:
            if type(leaves[i]) is Array:
                leaves[i].delete()
        return made

    return results


def _mesh(place: Placement) -> Any:
    return place.sharding.mesh


__all__ = ["Ranked", "check_agreement", "divide", "is_ranked", "make_results", "thread_ranks"]
