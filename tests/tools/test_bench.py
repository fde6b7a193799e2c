"""The bench itself: what it measures, compares and writes. No timing is asserted."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from quire.tools.bench import cli, report, roofline, workload
from quire.tools.bench.measure import Effort, Measured, Result, measure
from quire.tools.bench.sections import markers
from quire.tools.bench.workload import Figure, Library, Timed, Unavailable, Work, Workload

LIBRARIES = ("quire", "numpy")
QUICK = Effort(seconds=0.01, least=2, most=3)


def _sum(lib: Library) -> Timed:
    f = lib.compiled(lambda x: lib.np.sum(x) * 2)
    x = lib.put(np.arange(8, dtype=np.float32))
    return Timed(lambda: f(x), count=lambda: 2 if lib.name == "quire" else 4)


def test_a_workload_is_measured_in_each_library() -> None:
    result = measure(Workload("test", "sum", _sum, LIBRARIES), LIBRARIES, QUICK)
    assert result.failed is None and result.skipped is None
    assert set(result.measured) == set(LIBRARIES)
    assert all(0 < m.p10 <= m.median and 2 <= m.blocks <= 3 for m in result.measured.values())
    assert result.ratio("numpy") == result.measured["quire"].median / result.measured["numpy"].median
    assert result.ratio_count("numpy") == 0.5 and result.ratio("jax") is None


def test_different_results_are_a_failure_and_are_not_timed() -> None:
    def build(lib: Library) -> Timed:
        return Timed(lambda: np.float32(1.0 if lib.name == "quire" else 1.5))

    result = measure(Workload("test", "unequal", build, LIBRARIES), LIBRARIES, QUICK)
    assert result.failed == "result 0: quire and numpy differ by 0.5 (values to 1.5)" and not result.measured


def test_a_program_is_held_against_the_least_that_memory_and_arithmetic_take(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = roofline.Limits(((1000, 2e9), (1_000_000, 1e9)), 1e9)
    assert machine.bandwidth(999) == 2e9 and machine.bandwidth(1001) == machine.bandwidth(10**9) == 1e9
    assert machine.least(Work(10, 1000)) == (5e-7, "memory") and machine.least(Work(1e6, 1000)) == (1e-3, "operations")
    monkeypatch.setattr(workload, "_entries", {})
    workload.program(
        "test",
        "roofline",
        lambda lib: lambda x, y: lib.np.sum(x @ y),
        lambda rng: (np.ones((8, 16), "f"), np.ones((16, 4), "f")),
    )
    entry = workload._entries["test/roofline"]
    assert isinstance(entry, Workload)
    found = roofline.measure(entry, machine, QUICK)
    assert found.failed is None and found.bytes == 4 * (8 * 16 + 16 * 4 + 1) and found.operations >= 2 * 8 * 16 * 4
    assert found.ratio == pytest.approx(found.seconds / max(found.bytes / 2e9, found.operations / 1e9))  # type: ignore[operator]
    assert roofline.from_json(found.to_json()) == found and not found.is_work
    assert (
        roofline.measure(Workload("test", "sum", _sum, LIBRARIES), machine, QUICK).skipped == "not one compiled program"
    )
    slow = roofline.Roofline("matmul/slow", 2.0, 1.0, "operations")
    fast = roofline.Roofline("elementwise/fast", 1.2, 1.0, "memory")
    assert roofline.farthest_first([fast, found, slow], ["quire"]) == [slow, fast, found]
    lines = roofline.summary([fast, slow, found], ["quire"])
    assert "limited by memory: 1 of at least 20 us, geometric mean 1.20; 1 within 1.3" in lines
    assert "limited by operations, matrix products: 1 of at least 20 us, geometric mean 2.00; 0 within 1.2" in lines


def test_bandwidth_and_arithmetic_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roofline, "FOOTPRINTS", (3 << 13, 3 << 16))
    machine = roofline.limits()
    assert [size for size, _ in machine.bandwidths] == [3 << 13, 3 << 16]
    assert all(speed > 1e8 for _, speed in machine.bandwidths) and machine.operations > 1e8
    assert "GFLOP/s" in roofline.described(machine)


def test_what_a_library_lacks_is_skipped_with_the_reason() -> None:
    def build(lib: Library) -> Timed:
        return Timed(lib.no_such_thing)

    result = measure(Workload("test", "missing", build, LIBRARIES), LIBRARIES, QUICK)
    assert result.skipped == "quire has no no_such_thing" and result.failed is None


def test_an_error_of_one_workload_is_told_and_ends_nothing() -> None:
    def build(lib: Library) -> Timed:
        raise ValueError("bad shape\nand more")

    assert measure(Workload("test", "broken", build, LIBRARIES), LIBRARIES, QUICK).failed == "ValueError: bad shape"


def test_a_figure_is_compared_with_its_mark() -> None:
    result = measure(Figure("test", "load", lambda name: 0.01, ("quire",), mark=0.02), LIBRARIES, QUICK)
    assert result.ratio("mark") == 0.5 and result.ratio("numpy") is None
    assert "ratio to the mark of 20 ms" in report.row(result, LIBRARIES)[-1]


def test_names_select_workloads() -> None:
    entries = list(workload.entries())
    assert {e.group for e in cli.chosen(["call", "trace/*2000*"], entries)} == {"call", "trace"}
    assert cli.chosen([], entries) == entries
    with pytest.raises(ValueError, match="no workload is named 'nothing'; the groups are call, "):
        cli.chosen(["nothing"], entries)
    with pytest.raises(ValueError, match="two workloads named"):
        workload.register(entries[0])


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUIRE_CACHE_DIR", str(tmp_path))
    page = tmp_path / "page.md"
    start, end = markers(report.SECTION)
    page.write_text(f"before\n{start}\nSTALE\n{end}\nafter\n")
    out = tmp_path / "run.json"
    argv = ["eager/x + y", "--against", "numpy", "--seconds", "0.01", "--json", str(out), "--markdown", str(page)]
    assert cli.main(argv) == 0
    assert "eager/x + y" in capsys.readouterr().out
    (result,) = json.loads(out.read_text())["results"]
    assert result["title"] == "eager/x + y" and result["ratios"]["numpy"] > 0
    text = page.read_text()
    assert (
        text.startswith("before\n") and text.endswith("after\n") and "STALE" not in text and "| eager/x + y |" in text
    )
    assert cli.main(["--list", "call"]) == 0 and "call/2 arrays" in capsys.readouterr().out
    assert cli.main(["nothing"]) == 2 and "no workload is named" in capsys.readouterr().err
    assert cli.main(["call", "--against", "torch"]) == 2 and "expected jax and numpy" in capsys.readouterr().err


def test_the_table_has_the_slowest_first() -> None:
    def result(title: str, seconds: float) -> Result:
        return Result(title, {"quire": Measured(seconds, seconds, 1), "jax": Measured(1.0, 1.0, 1)})

    results = [result("a", 0.5), result("b", 2.0), Result("c", skipped="why")]
    assert [r.title for r in report.slowest_first(results)] == ["b", "a", "c"]
    assert report.geometric_mean(results, "jax") == pytest.approx(1.0)
    assert report.duration(0.00123) == "1.23 ms" and report.duration(None) == ""
    width = len(report.columns(("quire", "jax")))
    assert all(len(report.row(r, ("quire", "jax"))) == width for r in results)


def test_importing_the_bench_needs_no_plotting() -> None:
    import subprocess
    import sys

    code = "import sys, quire.tools.bench; assert not {'matplotlib', 'jax'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_missing_attribute_of_a_library_is_named() -> None:
    with pytest.raises(Unavailable, match="numpy has no quantum"):
        _ = Library("numpy").quantum
