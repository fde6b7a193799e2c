"""The kernels of a large program in several libraries: how they are grouped, and that the program is the same."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

import quire
import quire.numpy as qnp
from quire.backends.iree import worker
from quire.backends.iree.paths import compiler_library
from quire.backends.targets import get_target
from quire.runtime import buffers
from quire.runtime.devices import devices
from quire.runtime.executable import Executable

FLAGS = get_target("cpu").flags
X = np.linspace(-1, 1, 64 * 48, dtype=np.float32).reshape(64, 48)

# The worker imports what lies beside it, by these names.
libraries = sys.modules[worker.Invocation.__module__].libraries


def many_kernels(x: Any) -> Any:
    """Products, sorts and reductions of several shapes."""
    products = [qnp.tanh(x[:, : 8 * k] @ x[:, : 8 * k].T) for k in range(1, 5)]
    return [qnp.sort(p, axis=1)[:, :5] + qnp.sum(p, 0)[:5] for p in products], [qnp.cumsum(p, 0)[-1] for p in products]


@pytest.fixture(scope="module")
def compiler() -> worker.Compiler:
    return worker.Compiler(str(compiler_library()))


def compiled(compiler: worker.Compiler, monkeypatch: pytest.MonkeyPatch, most: int) -> dict[str, Any]:
    """What the worker answers for the program with at most so many libraries, however small."""
    monkeypatch.setattr(libraries, "WORTH", 1)
    return worker.compile_job(compiler, {**job(), "libraries": most})


def job() -> dict[str, Any]:
    module = quire.jit(many_kernels).lower(X).as_text().encode() + b"\0"
    return {"op": "compile", "module": module, "flags": FLAGS, "verify": False, "trusted": False, "one_thread": False}


def count(vmfb: bytes) -> int:
    """How many shared libraries a program holds."""
    return vmfb.count(b"\x7fELF")


@pytest.mark.parametrize("most", [1, 2, 4])
def test_a_program_has_as_many_libraries_as_it_may(compiler, monkeypatch, most):
    answer = compiled(compiler, monkeypatch, most)
    assert answer["ok"], answer["diagnostics"]
    assert count(answer["vmfb"]) == most


def test_results_do_not_depend_on_the_number(compiler, monkeypatch):
    """Bit by bit: each kernel's code is the same."""
    device, results = devices("cpu")[0], list[list[np.ndarray[Any, Any]]]()
    for most in (1, 3):
        program = Executable.load(compiled(compiler, monkeypatch, most)["vmfb"], device)
        found = program.execute([buffers.from_numpy(X, device, copy=True)])
        results.append([buffers.to_numpy(x, device) for x in found])
    for one, several in zip(*results, strict=True):
        np.testing.assert_array_equal(one, several)
    for got, want in zip(results[0], quire.tree_util.tree_leaves(many_kernels(qnp.asarray(X))), strict=True):
        np.testing.assert_allclose(got, np.asarray(want), rtol=1e-4, atol=1e-4)


def test_small_programs_and_what_is_looked_at_have_one(compiler, monkeypatch, tmp_path):
    assert count(worker.compile_job(compiler, {**job(), "module": small(), "libraries": 4})["vmfb"]) == 1
    monkeypatch.setattr(libraries, "WORTH", 1)
    assert count(worker.compile_job(compiler, {**job(), "libraries": 4, "one_thread": True})["vmfb"]) == 1
    shown = worker.compile_job(compiler, {**job(), "libraries": 4, "files_to": str(tmp_path)})
    assert shown["ok"] and sum(path.suffix == ".s" for path in tmp_path.iterdir()) == 1


def small() -> bytes:
    return quire.jit(lambda x: (qnp.sort(x, axis=1), qnp.sum(x, 0))).lower(X).as_text().encode() + b"\0"


def test_what_fails_in_another_thread_is_told(compiler, monkeypatch):
    class Failing(libraries.Library):
        def __init__(self, compiler: Any, module: bytes, flags: tuple[str, ...]) -> None:
            super().__init__(compiler, b"no module\0", flags)

    monkeypatch.setattr(libraries, "Library", Failing)
    answer = compiled(compiler, monkeypatch, 2)
    assert not answer["ok"] and not answer["vmfb"]
    assert any(severity == "error" for severity, _ in answer["diagnostics"])


def test_groups_are_of_about_equal_size(compiler, monkeypatch):
    found = []

    def groups(mlir: Any, module: int, most: int) -> Any:
        found.append([sum(libraries._size(mlir, op) for op in part) for part in made(mlir, module, most)])
        return made(mlir, module, most)

    made = libraries.groups
    monkeypatch.setattr(libraries, "groups", groups)
    assert compiled(compiler, monkeypatch, 3)["ok"]
    (sizes,) = found
    assert len(sizes) == 3 and max(sizes) < 1.5 * min(sizes)
