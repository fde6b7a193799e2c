"""Random programs: fixed ones of the suite, and the fuzz itself, which must find and reduce what is planted."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import time
from typing import Any

import numpy as np
import pytest

from quire.backends.reference import reference
from quire.backends.stablehlo.lowering import lowering
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import reductions as rd
from quire.runtime.compile_cache import compile_cache
from quire.tools.fuzz import cli
from quire.tools.fuzz.generate import generate
from quire.tools.fuzz.program import Arg, Program, Statement, pruned
from quire.tools.fuzz.reduce import reduced
from quire.tools.fuzz.running import Finding, run_batch
from quire.tools.fuzz.script import script
from quire.tools.fuzz.workers import _Worker, computed

FIXED, PART = 160, 80


@pytest.mark.parametrize("first", range(0, FIXED, PART))
def test_fixed_programs(first: int, capsys: pytest.CaptureFixture[str]) -> None:
    status = cli.main(["--seed", str(first), "--count", str(PART), "--no-reduce", "--jobs", "2"])
    assert status == 0, capsys.readouterr().out[-8000:]


def test_programs_of_large_arrays(capsys: pytest.CaptureFixture[str]) -> None:
    """Kernels of several workgroups, blocks and strips, which the other programs' arrays are too small for."""
    programs = [generate(s, False, large=True) for s in range(24)]
    assert sum(any(x.size > 20_000 for x in p.values()) for p in programs) >= 3
    options = ["--large", "--batch", "4", "--no-reduce", "--jobs", "2"]
    status = cli.main([*options, "--seed", "130000000", "--count", "32"])
    assert status == 0, capsys.readouterr().out[-8000:]


def test_loops_whose_bodies_are_fused(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUIRE_CPU_PIPELINE", "")  # what --host-loops sets is taken back
    options = ["--host-loops", "--small-kernels", "--family", "control_flow"]
    status = cli.main([*options, "--seed", "92000000", "--count", "32", "--no-reduce", "--jobs", "2"])
    assert status == 0, capsys.readouterr().out[-8000:]


def chain(
    *lines: tuple[str, str, tuple[str, ...]], results: tuple[str, ...], shape: tuple[int, ...] = (17,)
) -> Program:
    """A program of one argument `a`; each line is a target, a text and operands, of the argument's type."""
    aval = (shape, "float32")
    statements = tuple(Statement((target,), text, operands, (aval,)) for target, text, operands in lines)
    return Program((Arg("a", aval, "normal", 1),), statements, results)


def test_programs_of_one_family_and_with_special_numbers() -> None:
    """What --family and --special make: programs that are right, half of whose statements move arrays, of NaN and infinities."""
    programs = [generate(s, False, family="stencils", special=True) for s in range(12)]
    text = "\n".join(p.text() for p in programs)
    assert sum(text.count(word) for word in ("roll", "flip", "pad", "concatenate", "split", "[::")) > 12
    values = [x for p in programs for x in p.values() if x.dtype == np.float32]
    assert any(np.isnan(x).any() for x in values) and any(np.isinf(x).any() for x in values)
    assert not any(
        t.name in ("gradient", "pushforward", "pullback", "value_and_gradient") for p in programs for t in p.stack
    )
    assert not run_batch(programs, jax=False).findings


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="what a process computed is read from /proc")
def test_a_hang_is_told_by_what_was_computed() -> None:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as process:
        since, spent = time.monotonic() - 10, computed(process.pid)
        assert not _Worker(process, None, since=since, spent=spent).hangs(5.0)  # type: ignore[arg-type]
        assert not _Worker(process, None, since=since + 9, spent=spent - 9).hangs(5.0)  # type: ignore[arg-type]
        assert _Worker(process, None, since=since, spent=spent - 9).hangs(5.0)  # type: ignore[arg-type]
        assert _Worker(process, None, since=since, spent=spent).hangs(1.0)  # type: ignore[arg-type]
        process.kill()


LONG = chain(
    ("b", "np.cos({0})", ("a",)),
    ("c", "{0} * {1} + 1", ("a", "b")),
    ("d", "np.tanh({0})", ("c",)),
    ("e", "np.cumsum({0}) * 0.5", ("d",)),
    ("g", "{0} - {1}", ("e", "b")),
    ("h", "np.flip({0})", ("g",)),
    results=("h", "c", "a"),
)  # fmt: skip


@pytest.fixture
def no_cache(monkeypatch: pytest.MonkeyPatch):
    """Programs of a planted fault are not kept."""
    monkeypatch.setattr(compile_cache(), "enabled", False, raising=True)


def found_and_reduced(kind: str) -> tuple[Finding, Program]:
    """The finding of LONG, and the program that is left of it."""
    (finding,) = [f for f in run_batch([LONG], jax=False).findings if f.kind == kind]

    def still(programs: tuple[Program, ...]) -> bool:
        return any(f.kind == kind for f in run_batch(programs, jax=False).findings)

    (small,) = reduced(finding.programs, still, time.monotonic() + 300, tries=40)
    return finding, small


def test_a_wrong_rule_of_the_compiler_is_found_and_reduced(monkeypatch: pytest.MonkeyPatch, no_cache: None) -> None:
    right = lowering.rules[rd.cumsum_p]

    def wrong(ctx: Any, x: Any, **params: Any) -> Any:
        return right(ctx, x, **{**params, "reverse": not params["reverse"]})

    monkeypatch.setitem(lowering.rules, rd.cumsum_p, wrong)
    finding, small = found_and_reduced("wrong")
    assert "compiled (is)" in finding.text
    assert [s.text for s in small.statements] == ["np.cumsum({0}) * 0.5"]
    assert small.results == (small.statements[0].targets[0],)
    assert small.args[0].aval[0][0] <= 4


def test_an_exception_of_the_compiler_is_found_and_reduced(monkeypatch: pytest.MonkeyPatch, no_cache: None) -> None:
    def broken(ctx: Any, x: Any, **params: Any) -> Any:
        raise RuntimeError("planted")

    monkeypatch.setitem(lowering.rules, rd.cumsum_p, broken)
    finding, small = found_and_reduced("failed")
    assert finding.text == "RuntimeError: planted"
    assert [s.text for s in small.statements] == ["np.cumsum({0}) * 0.5"]


def test_a_wrong_rule_of_the_reference_is_found_with_jax(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("jax")
    monkeypatch.setitem(reference.rules, ew.tanh_p, lambda x, **_: np.tanh(x) * np.float32(1.0001))
    kinds = {f.kind for f in run_batch([LONG]).findings}
    assert "reference" in kinds


def test_what_jax_compiles_wrongly_is_no_finding() -> None:
    """XLA's CPU backend updates in place what the update still reads; without jit JAX agrees with the reference."""
    pytest.importorskip("jax")
    program = chain(
        ("b", "{0} - 1", ("a",)),
        ("c", "np.flip({0}.at[1:].subtract({0}[1:][::-1]))", ("b",)),
        ("d", "{0}.at[1:].subtract({0}[1:][::-1])", ("c",)),
        results=("c", "d"),
    )
    outcome = run_batch([program], compiled=False)
    assert outcome.findings == [] and outcome.accepted == 0


def test_a_crash_ends_a_worker_only() -> None:
    from quire.tools.fuzz.workers import Pool, Task

    bad = chain(("b", "{0} + __import__('os')._exit(3)", ("a",)), results=("b",))
    good = chain(("b", "{0} + 1", ("a",)), results=("b",))
    pool = Pool(1, jax=False)
    try:
        assert pool.run(Task((bad,), False), time.monotonic() + 100).ended == "crashed (exit status 3)"
        assert pool.run(Task((good,), False), time.monotonic() + 100).outcome.findings == []
    finally:
        pool.close()


def test_programs_are_those_of_their_seeds() -> None:
    for seed in range(20):
        p = generate(seed)
        assert p == generate(seed)
        assert p == pruned(p)
        assert generate(seed, x64=True).x64


def test_a_finding_is_a_script_of_its_own(tmp_path: Any) -> None:
    seed = next(s for s in range(50) if any(t.name == "gradient" for t in generate(s).stack))
    program = dataclasses.replace(generate(seed), seed=seed)
    path = tmp_path / "finding.py"
    path.write_text(script([program, LONG], "a title"))
    run = subprocess.run(
        [sys.executable, str(path)], capture_output=True, text=True, timeout=300, env={**os.environ, "QUIRE_CACHE": "0"}
    )
    assert run.returncode == 0, run.stderr
    compiled, by_reference = run.stdout.split("by the reference:\n")
    assert len(compiled.splitlines()) == len(by_reference.splitlines()) > 3


def test_programs_whose_loops_keep_what_they_carry_in_references(capsys: pytest.CaptureFixture[str]) -> None:
    status = cli.main(["--references", "--no-compile", "--count", "40", "--no-reduce", "--jobs", "1"])
    assert status == 0, capsys.readouterr().out[-8000:]


def test_programs_are_computed_operation_by_operation_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """What only eager operations get wrong is found: their updates of arrays in host memory, for example."""
    from quire.numpy import indexing

    def wrong(x: object, *_: object) -> object:
        return x

    update = Statement(("b",), "{0}.at[2:4].set(1)", ("a",), (((17,), "float32"),))
    program = Program((Arg("a", ((17,), "float32"), "normal", 1),), (update,), ("b",))
    assert not run_batch([program], jax=False, compiled=False).findings
    monkeypatch.setattr(indexing, "_host_update", wrong)
    (finding,) = run_batch([program], jax=False, compiled=False).findings
    assert finding.kind == "eager" and "operation by operation" in finding.text
