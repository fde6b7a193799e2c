"""``python -m quire.tools.jax_tests CHECKOUT [FILE[::PATTERN] ...]``: a sample of JAX's tests, run on quire."""

from __future__ import annotations

import argparse
import collections
import json
import os
import random
import re
import select
import subprocess
import sys
from pathlib import Path
from typing import Any

DEFAULT_FILES = (
    "lax_numpy_test lax_numpy_indexing_test lax_numpy_operators_test lax_numpy_reducers_test lax_numpy_einsum_test "
    "lax_numpy_ufuncs_test lax_numpy_vectorize_test lax_numpy_setops_test lax_test lax_autodiff_test lax_control_flow_test "
    "lax_vmap_test lax_vmap_op_test batching_test api_test custom_api_test tree_util_test random_test random_lax_test "
    "lax_scipy_test lax_scipy_special_functions_test scipy_stats_test scipy_signal_test scipy_ndimage_test "
    "scipy_interpolate_test scipy_spatial_test scipy_optimize_test scipy_fft_test nn_test fft_test linalg_test image_test"
).split()


class Worker:
    """A process of `worker`, which is started again for the cases that are left when one ends it."""

    def __init__(self, checkout: Path, file: str, limit: float, environment: dict[str, str]) -> None:
        self._limit = limit
        self._process = subprocess.Popen(
            [sys.executable, "-m", "quire.tools.jax_tests.worker", str(checkout), file, str(limit)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment,
        )
        self.hello = self._answer(300.0)

    def _answer(self, seconds: float) -> dict[str, Any] | None:
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], seconds)
        line = self._process.stdout.readline() if ready else ""
        return json.loads(line) if line else None

    def run(self, case: str) -> dict[str, Any]:
        """One case; a process that died or hung says so, and must be replaced."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(case) + "\n")  # names hold arrays, with new lines
            self._process.stdin.flush()
            answer = self._answer(self._limit + 30)
        except BrokenPipeError:
            answer = None
        if answer is not None:
            return answer
        try:
            code = self._process.wait(timeout=1)
        except subprocess.TimeoutExpired:
            code = None
        outcome = "timeout" if code is None else "crash"
        self.end()
        return {
            "case": case, "outcome": outcome, "kind": "behaviour", "type": outcome, "message": f"exit code {code}",
            "seconds": self._limit, "ended": True,
        }  # fmt: skip

    def end(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()


def run_file(checkout: Path, file: str, pattern: str, cases: int, seed: int, limit: float, x64: bool) -> dict[str, Any]:
    """The results of a sample of a file's cases."""
    environment = dict(os.environ, JAX_ENABLE_X64="1" if x64 else "0", QUIRE_ENABLE_X64="1" if x64 else "0")
    worker = Worker(checkout, file, limit, environment)
    hello = worker.hello
    if hello is None or "failed" in hello:
        worker.end()
        return {"file": file, "failed": hello or {"failed": "the process ended"}, "results": []}
    names = [n for n in hello["cases"] if re.search(pattern, n)]
    chosen = names if len(names) <= cases else random.Random(f"{seed}").sample(sorted(names), cases)
    chosen.sort()
    results: list[dict[str, Any]] = []
    for name in chosen:
        result = worker.run(name)
        results.append(result)
        if result.pop("ended", False):
            worker = Worker(checkout, file, limit, environment)
    worker.end()
    return {"file": file, "all": len(names), "results": results}


def share(results: list[dict[str, Any]]) -> tuple[int, int]:
    """How many passed, of how many that neither skip nor need JAX's internals or texts."""
    counted = [r for r in results if r["outcome"] != "skip" and r.get("kind") not in ("internals", "texts")]
    return sum(r["outcome"] == "pass" for r in counted), len(counted)


def summary(report: dict[str, Any]) -> str:
    """One line for a file."""
    if "failed" in report:
        return f"{report['file']:36} not loaded: {report['failed'].get('failed')} at {report['failed'].get('test_line', '')}"
    results = report["results"]
    passed, counted = share(results)
    kinds = collections.Counter(r["kind"] for r in results if r["outcome"] not in ("pass", "skip"))
    skipped = sum(r["outcome"] == "skip" for r in results)
    rate = f"{100 * passed / counted:5.1f} %" if counted else "   -   "
    details = ", ".join(f"{n} {kind}" for kind, n in sorted(kinds.items()))
    return f"{report['file']:36} {rate}  {passed}/{counted} of {report['all']}; {skipped} skipped; {details}"


def _signature(result: dict[str, Any]) -> str:
    text = (result.get("message") or "").strip()
    first = next((line for line in text.splitlines() if line.strip()), "")
    return f"{result['type']}: " + re.sub(r"\d+", "N", first)[:160]


def failures(report: dict[str, Any], kinds: tuple[str, ...]) -> str:
    """The failures of a file, grouped by what they say."""
    groups: dict[str, list[dict[str, Any]]] = collections.defaultdict(list)
    for result in report["results"]:
        if result["outcome"] not in ("pass", "skip") and result["kind"] in kinds:
            groups[_signature(result)].append(result)
    lines: list[str] = []
    for signature, members in sorted(groups.items(), key=lambda g: -len(g[1])):
        lines.append(f"  {len(members)} x [{members[0]['kind']}] {signature}")
        for member in members[:6]:
            lines.append(f"        {member['case']}  | {member.get('test_line', '')} | {member.get('quire_line', '')}")
    return "\n".join(lines)


def main() -> int:
    """Run, and print the share of each file."""
    parser = argparse.ArgumentParser(prog="python -m quire.tools.jax_tests", description=__doc__)
    parser.add_argument("checkout", type=Path, help="a checkout of JAX's repository")
    parser.add_argument("files", nargs="*", help="test files without .py, each with ::PATTERN of cases if wanted")
    parser.add_argument("--cases", type=int, default=50, help="cases of each file at most")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--limit", type=float, default=30.0, help="seconds for a case")
    parser.add_argument("--x64", action="store_true", help="with 64-bit dtypes")
    parser.add_argument("-o", "--output", type=Path, help="a file for all results, as JSON")
    parser.add_argument("-v", "--verbose", action="store_true", help="show the failures, grouped")
    parser.add_argument("--kinds", default="behaviour,absent", help="kinds that -v shows (internals, texts too)")
    options = parser.parse_args()
    reports: list[dict[str, Any]] = []
    for text in options.files or DEFAULT_FILES:
        file, _, pattern = text.removesuffix(".py").partition("::")
        report = run_file(
            options.checkout.resolve(), file, pattern, options.cases, options.seed, options.limit, options.x64
        )
        reports.append(report)
        print(summary(report), flush=True)
        if options.verbose and "failed" not in report:
            print(failures(report, tuple(options.kinds.split(","))), flush=True)
        if options.output:
            options.output.write_text(json.dumps(reports, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
