"""What each process of MPI runs: all programs, or all cases of the surface; the outcome is one line of JSON."""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np

import quire
from quire import tree_util
from quire.experimental import multihost_utils
from quire.sharding import Mesh

from .programs import PROGRAMS
from .random_programs import compiled
from .surface import CASES


def whole(x: Any) -> Any:
    return np.asarray(x) if x.is_fully_replicated else multihost_utils.process_allgather(x, tiled=True)


def compare(found: Any, expected: Any) -> None:
    given, wanted = tree_util.tree_leaves(found), tree_util.tree_leaves(expected)
    assert len(given) == len(wanted)
    for a, b in zip(given, wanted):
        np.testing.assert_allclose(whole(a), np.asarray(b), rtol=2e-5, atol=1e-5)


def attempt(name: str, f: Callable[[], None], failed: dict[str, str]) -> None:
    """Call a function; what it raises goes to `failed`, under its name. All processes come back from it together."""
    try:
        f()
    except Exception:
        failed[name] = traceback.format_exc()
    multihost_utils.sync_global_devices(name)


def main() -> None:
    quire.distributed.initialize()
    failed: dict[str, str] = {}
    if sys.argv[1] == "programs":
        mesh = Mesh(np.array(quire.devices()).reshape(2, 2), ("x", "y"))
        for program in PROGRAMS:
            attempt(program.__name__, lambda p=program: compare(*p(mesh)), failed)
        if len(quire.local_devices()) > 1:
            attempt("random programs", lambda: compiled(mesh), failed)
    else:
        mesh = Mesh(np.array(quire.devices()), "x")
        for case in CASES:
            attempt(case.__name__, lambda c=case: c(mesh), failed)
    sys.stdout.write(json.dumps({"process": quire.process_index(), "failed": failed}) + "\n")


if __name__ == "__main__":
    main()
