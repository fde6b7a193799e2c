"""The table of functions over the whole surface, and the command that tries it on a device."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

import quire
from quire.backends import reference
from quire.ir.errors import UnsupportedError
from quire.tools.check_device import cli
from quire.tools.check_device.functions import Outcome, expected, outcome
from quire.tools.check_device.measures import Measured, measures
from quire.tools.check_device.report import functions_table, measures_table
from quire.tools.check_device.running import function_outcome
from quire.tools.check_device.surface import Entry, surface
from quire.tree_util import tree_leaves

SURFACE, OF_JAX = surface(quire), surface(jax)
SHORT = [name for name, entry in SURFACE.items() if not entry.x64]
#: What was wrong, or did not compile, on a device with 8 lanes a subgroup: in one module for each part of the list.
ONCE_WRONG = (
    ("expm1", "expm1 of large numbers", "log1p", "sinh", "inverse hyperbolic", "remainders", "exp and log", "gammainc"),
    (
        "sums of odd sizes",
        "argmax and argmin",
        "softmax",
        "det",
        "mean and var",
        "logsumexp",
        "sum of axis 0",
        "hessian",
    ),
    ("bf16 matmul", "grad of attention", "while_loop", "fori_loop", "sort of 3000", "top_k", "cumsum of columns"),
)


def _vulkan() -> bool:
    try:
        return bool(quire.devices("vulkan"))
    except (RuntimeError, ValueError):
        return False


def _together(names: list[str]) -> tuple[Any, list[Any]]:
    """One function of the arguments of several of the table."""
    entries = [SURFACE[name] for name in names]
    counts = [len(e.numbers) for e in entries]

    def every(*arguments: Any) -> list[Any]:
        rest = iter(arguments)
        return [tree_leaves(e.function(*(next(rest) for _ in range(n)))) for e, n in zip(entries, counts)]

    return every, [a for e in entries for a in e.arguments()]


def _wrong(names: list[str], results: list[Any]) -> list[str]:
    differences = {n: SURFACE[n].difference(got, expected(SURFACE[n])) for n, got in zip(names, results)}
    return [f"{n}: {d}" for n, d in differences.items() if d]


def test_the_table_covers_the_surface() -> None:
    assert len(SURFACE) >= 120 and list(SURFACE) == list(OF_JAX)
    assert {e.x64 for e in SURFACE.values()} == {False, True}
    for entry in SURFACE.values():
        first, again = entry.arguments(), entry.arguments()
        assert [a.dtype for a in first] == [a.dtype for a in again]
        assert all(np.array_equal(a, b) for a, b in zip(first, again)), entry.name


@pytest.mark.parametrize("part", range(4))
def test_the_reference_gives_what_jax_gives(part: int) -> None:
    names = SHORT[part::4]

    def of_jax(arguments: list[Any]) -> list[Any]:
        return [OF_JAX[n].function(*a) for n, a in zip(names, arguments)]

    results = jax.jit(of_jax)([SURFACE[n].arguments() for n in names])
    assert not _wrong(names, [[np.asarray(x) for x in jax.tree.leaves(r)] for r in results])


@pytest.mark.parametrize("part", range(4))
def test_the_cpu(part: int) -> None:
    names = SHORT[part::4]
    every, arguments = _together(names)
    assert not _wrong(names, quire.compile(every)(*arguments))


@pytest.mark.vulkan
@pytest.mark.skipif(not _vulkan(), reason="no Vulkan driver (Debian and Ubuntu: mesa-vulkan-drivers)")
@pytest.mark.parametrize("names", ONCE_WRONG)
def test_what_was_wrong_on_vulkan(names: tuple[str, ...]) -> None:
    every, arguments = _together(list(names))
    assert not _wrong(list(names), quire.compile(every, backend="vulkan")(*arguments))


@pytest.mark.parametrize(
    "name", ["grad of max pooling", "grad of attention", "fft2", "i16 remainder by 7", "f64 sum of f32"]
)
def test_what_did_not_compile_for_cuda(name: str) -> None:
    assert outcome(name, "cuda", compile_only=True).status == "compiled"


def test_what_is_wrong_is_told() -> None:
    entry = Entry("double", lambda x: 2 * x, SURFACE["sum"].numbers)
    (x,) = entry.arguments()
    assert entry.difference([2 * x], [2 * x]) == ""
    assert entry.difference([2 * x + (x > 1.9)], [2 * x]).startswith("result 0: ")
    assert "float64" in entry.difference([(2 * x).astype(np.float64)], [2 * x])
    assert entry.difference([], [x]) == "0 results instead of 1"
    with np.errstate(all="raise"):
        assert entry.difference([np.full(3, np.nan)], [np.full(3, np.nan)]) == ""


def test_outcomes(monkeypatch: pytest.MonkeyPatch) -> None:
    assert outcome("sum", "cpu").status == "right"
    monkeypatch.setattr(reference, "eval_jaxpr", lambda *_: [np.float32(1e9)])
    assert outcome("sum", "cpu").status == "wrong"

    def refuse(*_: Any) -> None:
        raise UnsupportedError("no such thing")

    monkeypatch.setattr(reference, "eval_jaxpr", refuse)
    found = outcome("sum", "cpu")
    assert (found.status, found.detail, found.passed) == ("refused", "no such thing", True)


def test_a_function_in_a_process_of_its_own() -> None:
    assert function_outcome("i16 times 3", "cpu", 120).status == "right"
    late = function_outcome("i16 times 3", "cpu", 0.01)
    assert (late.status, late.passed) == ("too slow", False)
    assert function_outcome("no such function", "cpu", 60).status == "error"


def test_the_command(capsys: pytest.CaptureFixture[str], tmp_path: Any) -> None:
    report = tmp_path / "report.md"
    assert cli.main(["cpu", "--only", "sum", "--no-measures", "-o", str(report)]) == 0
    text = report.read_text()
    assert text.startswith("# cpu: ") and "1 functions: 1 right" in text and "| sum | right |" in text
    assert cli.main(["cpu", "--only", "no such"]) == 2
    assert "no function is named 'no such'" in capsys.readouterr().err


def test_without_a_device_the_command_says_what_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    try:
        quire.devices("cuda")
        pytest.skip("there is a CUDA device")
    except RuntimeError:
        assert cli.main(["cuda"]) == 2
    error = capsys.readouterr().err
    assert "no CUDA device: an NVIDIA GPU with its driver" in error and "--compile-only" in error


def test_the_report() -> None:
    table = functions_table([Outcome("a", "right", "", 1.0, 0.002), Outcome("b", "wrong", "1 | 2 elements", 1.0, 0.1)])
    assert "2 functions: 1 right, 1 wrong" in table and "| b | wrong | 1 \\| 2 elements |" in table
    product = measures(False)["matmul f32 4096"]
    found = [Measured(product.name, "quire", 0.01), Measured(product.name, "torch", error="RuntimeError: none")]
    row = measures_table([(product, found)], "NVIDIA A100-SXM4-80GB").splitlines()[-1]
    assert row == "| matmul f32 4096 | 19.5 TFLOP/s | 10.000 ms, 13.7 TFLOP/s, 70% | RuntimeError: none |"
