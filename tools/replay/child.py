"""The process that lowers programs with the quire of one commit, and writes down their texts.

It is started with the tool's own folders on its path, so that this package is `replay` there: `quire.tools` would be
the other commit's. Its standard input holds a job; its standard output tells each program before it is lowered.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import json
import sys
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import Any

from .store import Result, Store, chosen

BEGIN = "begin "
"""Before the name of a program, on the standard output."""


@dataclass(frozen=True)
class Job:
    """What one process does.

    Attributes:
        root: the folder of the commit's source.
        packages: from names of packages to folders below the root.
        target: what is lowered for.
        stores: for each group the folder for its results.
        only: patterns of names; all programs if there are none.
        part: of how many parts which one is lowered; (0, 0): none, only the names are noted.
    """

    root: str
    packages: Mapping[str, str]
    target: str
    stores: Mapping[str, str]
    only: Sequence[str] = ()
    part: tuple[int, int] = (0, 1)

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> Job:
        values: dict[str, Any] = json.loads(text)
        return Job(**{**values, "part": tuple(values["part"])})


@dataclass
class Finder(importlib.abc.MetaPathFinder):
    """Finds quire in a commit's source, as an editable install of it would, and nowhere else."""

    root: Path
    packages: Mapping[str, str] = field(default_factory=dict)

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: Any = None) -> ModuleSpec | None:
        if fullname.partition(".")[0] != "quire":
            return None
        folder = self.packages.get(fullname)
        if folder is None:
            found = PathFinder.find_spec(fullname, path)
        else:
            init = self.root / folder / "__init__.py"
            found = importlib.util.spec_from_file_location(fullname, init) if init.exists() else None
        if found is None:  # an installed quire, which is another one, has the next word otherwise
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)
        return found


def lowered(program: Any, target: str) -> dict[str, str]:
    """The texts of a program's stages."""
    import quire

    made = program.make()
    with quire.enable_x64(made.x64):
        compiled = quire.jit(made.f, **made.options)
        stages = compiled.trace(*made.args, **made.kwargs).lower(backend=target)
        return {stage: stages.as_text(stage) for stage in ("optimized", "stablehlo")}


def result_of(program: Any, target: str, root: str) -> Result:
    """What becomes of a program: its texts, or its error."""
    start = time.perf_counter()
    texts: dict[str, str] = {}
    error = ""
    try:
        texts = {stage: text.replace(f"{root}/", "") for stage, text in lowered(program, target).items()}
    except Exception as e:
        error = f"{type(e).__name__}: {e}".replace(f"{root}/", "")
    return Result(program.name, texts, error, time.perf_counter() - start)


def _listed(group: Any) -> list[Any]:
    """The programs of a group; a group that cannot be made is one program, which fails."""
    from .programs import Program, failing

    try:
        return list(group.programs())
    except Exception as error:
        return [Program(group.name, failing(error))]


def run(job: Job) -> None:
    """Lower the programs of a job that have no result yet."""
    import quire

    from .programs import GROUPS

    part, parts = job.part
    number = 0
    for group in GROUPS:
        folder = job.stores.get(group.name)
        if folder is None:
            continue
        store = Store(Path(folder))
        found = _listed(group)
        names = [p.name for p in found]
        store.put_names(names)
        wanted = set(chosen(names, job.only) if parts else ())
        for program in found:
            if program.name not in wanted:
                continue
            number += 1
            if number % parts != part or store.has(program.name):
                continue
            print(f"{BEGIN}{program.name}", flush=True)
            store.put(result_of(program, job.target, job.root))
            # What one program leaves in memory must not be seen in the next one's text.
            quire.clear_caches()


def main() -> None:
    """Do the job of the standard input."""
    job = Job.from_json(sys.stdin.read())
    sys.meta_path.insert(0, Finder(Path(job.root), job.packages))
    warnings.simplefilter("ignore")
    run(job)


if __name__ == "__main__":
    main()
