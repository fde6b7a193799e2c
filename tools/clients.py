"""Runs libraries that import jax on quire and compares with what JAX gave: `./tools/test-clients`, docs/libraries.md.

Each program of tests/clients/programs uses one library as a user would, and gives numbers; tests/clients/recorded.json has what
JAX gave. Each runs in a process of its own, twice, and the second time is told.

python -m quire.tools.clients [NAME ...]                 run them (all) and compare
python -m quire.tools.clients --table                    run all, and write docs/libraries.md
python -m quire.tools.clients --record PYTHON [NAME ...] record numbers, times and versions with a Python that has jax
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "tests" / "clients"
RECORDED = FOLDER / "recorded.json"
PAGE = ROOT / "docs" / "libraries.md"
#: Relative to the largest number of an array.
TOLERANCE = 1e-4
#: Of values whose name begins with "~": means over a chain, in which a rounding error changes every later draw.
STATISTICAL = 0.35
#: What the suite of CI runs: light, and of what most other libraries are made.
IN_CI = ("optax", "einops", "jmp", "jaxtyping", "jraph", "equinox")
SECONDS = 900


@dataclass(frozen=True)
class Outcome:
    """What became of a program.

    Attributes:
        name: the program's.
        error: the end of its traceback; empty if it ran.
        differences: what is not as recorded, a line each.
        largest: the largest difference of all, relative.
        first, second: seconds of the first and the second run.
    """

    name: str
    error: str = ""
    differences: tuple[str, ...] = ()
    largest: float = 0.0
    first: float = 0.0
    second: float = 0.0

    @property
    def equal(self) -> bool:
        """Whether it ran and gave the recorded numbers."""
        return not self.error and not self.differences


def names() -> list[str]:
    """The programs' names."""
    return sorted(path.stem for path in (FOLDER / "programs").glob("*.py"))


def describe(name: str) -> str:
    """What a program does: its docstring."""
    return (FOLDER / "programs" / f"{name}.py").read_text(encoding="utf-8").split('"""')[1].strip()


def tolerance(name: str) -> float:
    """A program's own TOLERANCE, or the common one."""
    found = re.search(r"^TOLERANCE = ([\d.e+-]+)", (FOLDER / "programs" / f"{name}.py").read_text(), re.MULTILINE)
    return float(found[1]) if found else TOLERANCE


def run(name: str, python: str = sys.executable, quire: bool = True) -> dict[str, Any] | str:
    """The result of a program, or the end of what it wrote where it failed."""
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "result.json"
        flags = ["--quire"] if quire else []
        # Not in the checkout: tests/ and the like are not to be importable there.
        try:
            ran = subprocess.run(
                [python, str(FOLDER / "run.py"), *flags, name, str(result)], capture_output=True, text=True,
                timeout=SECONDS, cwd=folder, env={**os.environ, "PYTHONWARNINGS": "ignore"},
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return f"it took more than {SECONDS} s"
        if ran.returncode != 0 or not result.exists():
            return "\n".join(ran.stderr.strip().splitlines()[-12:]) or f"exit {ran.returncode}"
        return json.loads(result.read_text())


def difference(found: Sequence[float], wanted: Sequence[float]) -> float:
    """The largest difference of two lists of numbers, relative to the largest finite one."""
    scale = max((abs(y) for y in wanted if math.isfinite(y)), default=0.0) or 1.0
    worst = 0.0
    for x, y in zip(found, wanted, strict=True):
        if x == y or (math.isnan(x) and math.isnan(y)):
            continue
        worst = max(worst, abs(x - y) / scale if math.isfinite(x) and math.isfinite(y) else math.inf)
    return worst


def compare(name: str, result: dict[str, Any], recorded: dict[str, Any]) -> Outcome:
    """What a program gave beside what was recorded."""
    differences, largest = [], 0.0
    allowed = tolerance(name)
    for key, wanted in recorded["numbers"].items():
        found = result["numbers"].get(key)
        if found is None or found["shape"] != wanted["shape"]:
            differences.append(f"{key}: shape {found and found['shape']}, expected {wanted['shape']}")
            continue
        off = difference(found["values"], wanted["values"])
        statistical = key.startswith("~")
        if not statistical:
            largest = max(largest, off)
        if off > (STATISTICAL if statistical else allowed):
            differences.append(f"{key}: differs by {off:.2g}: {found['values'][:4]}, expected {wanted['values'][:4]}")
    return Outcome(name, "", tuple(differences), largest, result["first"], result["second"])


def check(name: str) -> Outcome:
    """Run a program on quire and compare."""
    recorded = json.loads(RECORDED.read_text())["programs"]
    if name not in recorded:
        return Outcome(name, "nothing is recorded for it: python -m quire.tools.clients --record")
    result = run(name)
    return Outcome(name, result) if isinstance(result, str) else compare(name, result, recorded[name])


def record(python: str, chosen: Sequence[str]) -> int:
    """Run programs with a Python that has jax, and keep what they give."""
    ask = "import jax, importlib.metadata as m; print(jax.__version__)"
    version = subprocess.run([python, "-c", ask], capture_output=True, text=True, check=True).stdout.strip()
    kept: dict[str, Any] = json.loads(RECORDED.read_text()) if RECORDED.exists() else {"programs": {}}
    failed = 0
    for name in chosen:
        result = run(name, python, quire=False)
        if isinstance(result, str):
            failed += 1
            print(f"{name}: failed\n{result}", file=sys.stderr)
            continue
        kept["programs"][name] = {**result, "first": round(result["first"], 3), "second": round(result["second"], 4)}
        print(f"{name}: recorded, {result['second']:.3f} s")
    kept["jax"] = version
    kept["programs"] = {n: kept["programs"][n] for n in names() if n in kept["programs"]}
    text = json.dumps(kept, indent=1)
    RECORDED.write_text(re.sub(r"\[\s+([^\[\]{}]*?)\s+\]", lambda m: f"[{' '.join(m[1].split())}]", text) + "\n")
    return failed


def versions() -> dict[str, str]:
    """The pinned version of each package of the extra `clients`."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return dict(line.split("==") for line in project["optional-dependencies"]["clients"] if "==" in line)


#: A program's package, where its name is another.
PACKAGES = {"flax_linen": "flax", "flax_nnx": "flax", "tensorflow-probability": "tfp-nightly"}

HEAD = """# Libraries of JAX on quire

Generated by `./tools/test-clients --table`. Each library runs unchanged, with jax not installed, in a small program of
[tests/clients/programs](../tests/clients/programs); its numbers are compared with those that JAX {jax} gave for the same program
(`tests/clients/recorded.json`). The difference is relative to the largest number of each array; {tolerance:g} is allowed, more where
the program says so. Of long chains of draws, in which a rounding error changes all that comes after, means are compared. The times
are of the second run of a program in its process, which includes tracing where the library traces anew: single runs, JAX's and
quire's at different hours of a machine that did other work too, so that they tell no more than orders of magnitude.

| library | version | what is run | equal | largest difference | quire, s | JAX, s |
| --- | --- | --- | --- | --- | --- | --- |
"""


def make_page(outcomes: Sequence[Outcome]) -> str:
    """The table of libraries."""
    recorded, pinned = json.loads(RECORDED.read_text()), versions()
    rows = []
    for o in outcomes:
        what = "yes" if o.equal else "no" if not o.error else "does not run"
        jax = recorded["programs"].get(o.name, {}).get("second", math.nan)
        numbers = f"{o.largest:.0e} | {o.second:.3f}" if not o.error else "| "
        version = pinned.get(PACKAGES.get(o.name, o.name), "")
        rows.append(f"| {o.name} | {version} | {describe(o.name)} | {what} | {numbers} | {jax:.3f} |\n")
    equal = sum(o.equal for o in outcomes)
    tail = f"\n{equal} of {len(outcomes)} run with equal numbers.\n"
    wrong = [o for o in outcomes if not o.equal]
    if wrong:
        tail += "\nWhat differs:\n\n" + "".join(
            f"- {o.name}: {'; '.join(o.differences) if o.differences else o.error.splitlines()[-1]}\n" for o in wrong
        )
    return HEAD.format(jax=recorded["jax"], tolerance=TOLERANCE) + "".join(rows) + tail


def main(arguments: list[str] | None = None) -> int:
    """Run, record, or write the table; the number of programs that fail or differ, at most 1."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="programs of tests/clients/programs; default: all")
    parser.add_argument("--table", action="store_true", help="write docs/libraries.md")
    parser.add_argument("--record", metavar="PYTHON", help="record with a Python that has jax and the libraries")
    options = parser.parse_args(arguments)
    unknown = sorted(set(options.names) - set(names()))
    if unknown:
        parser.error(f"there is no program {', '.join(unknown)}; there are {', '.join(names())}")
    if options.table and options.names:
        parser.error("--table writes the rows of all programs: leave the names out")
    chosen = options.names or names()
    if options.record:
        return 1 if record(options.record, chosen) else 0
    outcomes = []
    for name in chosen:
        outcome = check(name)
        outcomes.append(outcome)
        word = "equal" if outcome.equal else "FAILED" if outcome.error else "DIFFERENT"
        print(f"{name}: {word}, {outcome.largest:.1e}, {outcome.first:.1f} s, then {outcome.second:.3f} s", flush=True)
        for line in (*outcome.differences, *outcome.error.splitlines()):
            print(f"    {line}", flush=True)
    print(f"{sum(o.equal for o in outcomes)} of {len(outcomes)} run with equal numbers")
    if options.table:
        PAGE.write_text(make_page(outcomes), encoding="utf-8")
    return 0 if all(o.equal for o in outcomes) else 1


if __name__ == "__main__":
    raise SystemExit(main())
