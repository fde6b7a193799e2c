"""The bench's measurements in processes of their own: memory and the warm start. No figure is asserted."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from quire.tools.bench import child, cli, fresh, kinds, memory, report, resident, sections, warm_start
from quire.tools.bench.memory import Memory, MemoryResult
from quire.tools.bench.warm_start import WarmStart
from quire.tools.bench.workload import Unavailable, entries

LIBRARIES = ("quire", "jax")
LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is counted by /proc")
MB = 1_000_000


def _result(title: str, quire: int, jax: int) -> MemoryResult:
    return MemoryResult(title, {"quire": Memory(quire, 100 * MB, 150 * MB), "jax": Memory(jax, 200 * MB)})


def _page(path: Path) -> str:
    kept = [sections.markers(k.section) for k in (kinds.TIME, kinds.MEMORY, kinds.WARM_START)]
    text = "".join(f"about\n{start}\nSTALE\n{end}\n" for start, end in kept) + "end\n"
    path.write_text(text)
    return text


# -- sections of a page


def test_each_kind_replaces_its_own_section_only(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    before = _page(page)
    for kind in (kinds.TIME, kinds.MEMORY, kinds.WARM_START):
        sections.replace_section(page, kind.section, [f"new {kind.name}"])
        start, end = sections.markers(kind.section)
        before = before.replace(f"{start}\nSTALE\n{end}", f"{start}\nnew {kind.name}\n{end}")
        assert page.read_text() == before
    assert len({k.section for k in (kinds.TIME, kinds.MEMORY, kinds.WARM_START)}) == 3


def test_a_page_without_the_section_is_refused_and_kept(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    start, end = sections.markers("bench memory")
    for text in ("nothing\n", f"{end}\n{start}\n", f"{start}\n{start}\n{end}\n"):
        page.write_text(text)
        with pytest.raises(ValueError, match="page.md has no section between <!-- bench memory: begin --> and"):
            sections.replace_section(page, "bench memory", ["new"])
        assert page.read_text() == text


def test_cells_of_a_table_hold_no_bar() -> None:
    assert sections.table(["a", "b", "c"], [["x|y", "1", ""]])[2] == "| x\\|y | 1 |  |"


def test_the_documentation_has_every_section() -> None:
    text = (Path(__file__).parents[2] / "docs" / "performance.md").read_text(encoding="utf-8")
    for kind in (kinds.TIME, kinds.MEMORY, kinds.WARM_START):
        assert all(text.count(m) == 1 for m in sections.markers(kind.section)), kind.name


# -- memory


def test_ratios_of_memory() -> None:
    result = _result("a", 6 * MB, 4 * MB)
    assert result.ratio("jax") == 1.5 and result.ratio_total("jax") == 0.5 and result.ratio("numpy") is None
    small = _result("b", MB // 2, MB // 4)
    assert small.ratio("jax") is None and small.ratio_total("jax") == 0.5
    assert memory.row(small, LIBRARIES)[-1] == "below 1 MB in quire and jax"
    assert _result("c", 2 * MB, 0).ratio("jax") == float("inf")
    assert [r.title for r in memory.largest_first([small, _result("d", 4 * MB, 4 * MB), result], LIBRARIES)] == [
        "a", "d", "b",
    ]  # fmt: skip
    lines = memory.summary([result, small], LIBRARIES)
    assert lines == [
        "the calls, against jax: geometric mean 1.50 of 1; 1 above 1.0",
        "whole processes, against jax: geometric mean 0.50 of 2; 0 above 1.0",
        "below 1 MB in quire and jax, without a ratio: 1",
    ]


def test_rows_of_memory_have_the_columns() -> None:
    failed = MemoryResult("x", failed="quire: died")
    for libraries in (LIBRARIES, ("quire", "jax", "numpy"), ("quire",)):
        for result in (_result("a", 6 * MB, 4 * MB), failed, MemoryResult("y", skipped="why")):
            assert len(memory.row(result, libraries)) == len(memory.columns(libraries))
    assert memory.row(failed, LIBRARIES)[-1] == "FAILED: quire: died"
    assert memory.from_json(json.loads(json.dumps(_result("a", 1, 2).to_json()))) == _result("a", 1, 2)


@LINUX
def test_resident_memory_and_its_peak() -> None:
    resident.forget_peak()
    start = resident.resident()
    held = bytearray(32 * MB)
    held[::4096] = b"1" * len(held[::4096])
    assert resident.resident().peak - start.now >= 30 * MB
    del held
    resident.forget_peak()
    assert resident.resident().peak - start.now < 16 * MB
    with pytest.raises(Unavailable, match="resident memory is read from /proc/PID/status"):
        resident.resident("none")


@LINUX
def test_a_workload_is_measured_in_new_processes(tmp_path: Path) -> None:
    entry = next(e for e in entries() if e.title == "elementwise/sin of 1M")
    result = memory.measure(entry, ("quire", "numpy"), str(tmp_path))
    assert result.failed is None and set(result.measured) == {"quire", "numpy"}
    own, numpy = result.measured["quire"], result.measured["numpy"]
    assert 4 * MB <= own.beyond < own.total and own.compiler > 0  # its result
    assert 4 * MB <= numpy.beyond < numpy.total and numpy.compiler == 0


def test_another_library_is_measured_without_quire() -> None:
    tools = Path(child.__file__).parents[1]
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); from bench.child import KINDS, entries\n"
        "assert list(entries()) and not {'quire', 'jax'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code, str(tools)], check=True)


def test_a_process_that_fails_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = next(e for e in entries() if e.title == "call/2 arrays")
    with pytest.raises(RuntimeError, match="ValueError: the warm start is measured for quire, not for numpy"):
        fresh.in_new_process("warm-start", entry, "numpy", str(tmp_path), str(tmp_path))

    def fails(*args: Any) -> Any:
        raise RuntimeError("died")

    monkeypatch.setattr(memory, "in_new_process", fails)
    monkeypatch.setattr(warm_start, "in_new_process", fails)
    assert memory.measure(entry, LIBRARIES, str(tmp_path)).failed == "quire: died"
    assert warm_start.measure(entry, str(tmp_path)).failed == "died"


# -- the warm start


def test_stages_are_those_of_the_outermost_spans() -> None:
    events: list[Any] = [
        ("inner", "trace", 0, 1_000, 2_000, {}), ("trace f", "trace", 0, 0, 5_000, {}),
        ("look up f", "look up", 0, 5_000, 1_000, {}), ("f", "run", 0, 7_000, 3_000, {}),
    ]  # fmt: skip
    assert child.outermost(events) == pytest.approx({"trace": 5e-6, "look up": 1e-6, "run": 3e-6})


def test_rows_of_the_warm_start() -> None:
    slow = WarmStart(
        "a", [0.05, 0.06, 0.07], 0.04, {"trace": 0.01, "look up": 0.005, "load": 0.005, "run": 0.02, "lower": 0.01}
    )
    assert slow.median == 0.06 and slow.rest == pytest.approx(0.01)
    assert warm_start.row(slow, LIBRARIES) == [
        "a", "60.0", "50.0", "40.0", "10.0", "5.0", "5.0", "20.0", "10.0", "10.0", "lower 10.0 ms; above the mark of 50.0 ms",
    ]  # fmt: skip
    fast, none = WarmStart("b", [0.01], 0.01, {"run": 0.005}), WarmStart("c", skipped="why")
    assert [r.title for r in warm_start.slowest_first([none, fast, slow], LIBRARIES)] == ["a", "b", "c"]
    assert all(len(warm_start.row(r, LIBRARIES)) == len(warm_start.columns(LIBRARIES)) for r in (slow, fast, none))
    assert warm_start.summary([slow, fast, none], LIBRARIES) == [
        "first result: median 35.0 ms of 2; 1 above 50.0 ms, of these 1 by the time of the run itself"
    ]
    assert warm_start.from_json(json.loads(json.dumps(slow.to_json()))) == slow


def test_a_warm_start_finds_its_program(tmp_path: Path) -> None:
    entry = next(e for e in entries() if e.title == "call/2 arrays")
    fresh.fill([entry], str(tmp_path), str(tmp_path))
    result = warm_start.measure(entry, str(tmp_path), samples=1)
    assert result.failed is None and len(result.seconds) == 1
    assert set(result.stages) == {"trace", "look up", "load", "run"}
    with pytest.raises(RuntimeError, match="the program was not in the cache"):
        fresh.in_new_process("warm-start", entry, "quire", str(tmp_path), str(tmp_path / "empty"))


# -- the command line


def test_kinds_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stored, page = tmp_path / "run.json", tmp_path / "page.md"
    report.write_json(stored, [_result("call/2 arrays", 6 * MB, 4 * MB)], "memory")
    _page(page)
    assert cli.main(["--memory", "--load", str(stored), "--markdown", str(page)]) == 0
    assert "the calls, against jax: geometric mean 1.50" in capsys.readouterr().out
    assert page.read_text().count("STALE") == 2 and "| call/2 arrays | 6.0 | 4.0 | 1.50 |" in page.read_text()
    assert cli.main(["--load", str(stored)]) == 2
    assert "run.json holds measurements of memory, not of time" in capsys.readouterr().err
    assert cli.main(["--memory", "startup"]) == 2
    assert "--memory measures workloads, and the names select figures only" in capsys.readouterr().err
    assert cli.main(["--warm-start", "call", "--plot", "x.png"]) == 2
    assert "--plot shows times, not warm start" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        cli.main(["--memory", "--warm-start"])
    assert "not allowed with argument" in capsys.readouterr().err
