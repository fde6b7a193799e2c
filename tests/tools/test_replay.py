"""The replay: texts up to names, differences that are planted in a copy of quire, and commits that are equal."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import quire
from quire.tools.replay import cli
from quire.tools.replay.comparing import difference, shown
from quire.tools.replay.normal import jaxpr, module
from quire.tools.replay.operations import OPERATIONS
from quire.tools.replay.store import Result, Store
from quire.tools.replay.table import programs
from quire.tools.replay.trees import TreeError, snapshot

SOME = (
    "operations/np.tan(x) f32[8,16]", "operations/np.sort(x) f32[1000] grad", "bench/call/keyword and static argument",
    "bench/eager/matmul", "bench/trace/vmap of grad of an MLP's loss", "applications/sorting_networks: quicksort",
)  # fmt: skip


# -- texts up to names

JAXPR = """{ lambda c:f32[3] ; a:f32[3] sin:f32[3]. let
    d:f32[3] = sin a
    e:f32[3] = scan[jaxpr={ lambda ; g:f32[3]. let h:f32[3] = mul g 2.0:f32[] in (h,) } kind=loop] d sin c
  in (e,) }"""


def test_variables_of_a_jaxpr_are_numbered() -> None:
    other = re.sub(r"\b([acdegh])(?=[: ,.\n])", r"x\1", JAXPR).replace(" sin:", " q:").replace("d sin ", "d q ")
    assert other != JAXPR and jaxpr(other) == jaxpr(JAXPR)
    assert "= sin v1" in jaxpr(JAXPR) and "kind=loop" in jaxpr(JAXPR)
    for before, after in (("2.0:", "3.0:"), ("mul g", "mul h"), (" = sin", " = cos"), ("] d sin c", "] sin d c")):
        assert before in JAXPR and jaxpr(JAXPR.replace(before, after)) != jaxpr(JAXPR)


MODULE = """// dot_general at model.py:12: kernel gemm_0123456789ab: small
#translation = #iree_codegen.translation_info<pipeline = #iree_codegen.no_pipeline>
module @f {
  func.func @main(%arg0: tensor<4xf32>) -> tensor<4xf32> {
    %0 = flow.dispatch @gemm_0123456789ab::@gemm_0123456789ab(%arg0) : (tensor<4xf32>) -> tensor<4xf32>
    %1 = flow.dispatch @sort_ba9876543210::@sort_ba9876543210(%0) : (tensor<4xf32>) -> tensor<4xf32>
    %2 = func.call @formula_0(%1) : (tensor<4xf32>) -> tensor<4xf32>
    %3 = func.call @formula_1(%2) : (tensor<4xf32>) -> tensor<4xf32>
    return %3 : tensor<4xf32>
  }
  stream.executable private @gemm_0123456789ab {
    func.func @gemm_0123456789ab(%arg0: !stream.binding) attributes {translation_info = #translation} {
      %c4 = arith.constant 4 : index
    }
  }
  stream.executable private @sort_ba9876543210 {
    func.func @sort_ba9876543210(%arg0: !stream.binding) {
      %c8 = arith.constant 8 : index
    }
  }
  func.func private @formula_0(%arg0: tensor<4xf32>) -> tensor<4xf32> {
    return %arg0 : tensor<4xf32>
  }
  func.func private @formula_1(%arg0: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.negate %arg0 : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}"""


def test_names_of_a_module_are_numbered() -> None:
    text = MODULE
    for before, after in (
        ("0123456789ab", "fedcba987654"), ("#translation", "#other"), ("%arg0", "%x"), ("%1", "%17"), ("%c4", "%c4_3"),
        ("model.py:12", "elsewhere/model.py:7"), ("formula_0", "formula_9"),
    ):  # fmt: skip
        assert before in text
        text = text.replace(before, after)
    first, second = text.index("  stream.exec"), text.index("  stream.executable private @sort")
    end = text.index("  func.func private @formula_9")
    moved = text[:first] + text[second:end] + text[first:second] + text[end:]
    assert module(moved) == module(MODULE)
    host, kernels = module(MODULE)
    assert "@gemm.0" in host and "arith.constant" not in host
    assert kernels.count("stream.executable") == 2 and "stablehlo" not in kernels
    assert "no_pipeline" in kernels and "model.py" not in host


@pytest.mark.parametrize(
    ("before", "after", "kernel"),
    [
        ("constant 4", "constant 5", True), ("no_pipeline", "some_pipeline", True), ("negate", "sine", False),
        ("formula_1(%2)", "formula_0(%2)", False), (": small", ": large", False), ("main_not_there", "x", None),
    ],
)  # fmt: skip
def test_what_is_no_name_is_compared(before: str, after: str, kernel: bool | None) -> None:
    (host, kernels), (other_host, other_kernels) = module(MODULE), module(MODULE.replace(before, after))
    assert (host != other_host) is (kernel is False)
    assert (kernels != other_kernels) is (kernel is True)


def _result(texts: str = JAXPR, error: str = "") -> Result:
    return Result("p", {} if error else {"optimized": texts, "stablehlo": MODULE}, error)


def test_differences_are_told_by_their_first_stage() -> None:
    assert difference(_result(), _result(), "p") is None
    assert difference(_result(error="E: a <f at 0x12>"), _result(error="E: a <f at 0x9f>"), "p") is None
    changed = _result(JAXPR.replace("2.0:", "3.0:"))
    assert str(difference(_result(), changed, "p")) == "p: optimized (-1 +1 lines)"
    lines = list(shown(_result(), changed, ("old", "new")))
    assert lines[:3] == ["// optimized", "--- old", "+++ new"]
    assert [line[0] for line in lines if "mul" in line] == ["-", "+"]
    assert str(difference(_result(), _result(error="TypeError: no\nmore"), "p")) == "p: error: fails now: TypeError: no"
    assert str(difference(_result(error="TypeError: no"), _result(), "p")) == "p: error: failed before: TypeError: no"
    assert "there is no such program" in str(difference(None, _result(), "p"))


def test_a_value_that_comes_is_one_line_of_a_difference() -> None:
    more = JAXPR.replace("    d:f32[3] =", "    b:f32[3] = neg c\n    d:f32[3] =")
    assert str(difference(_result(), _result(more), "p")) == "p: optimized (-0 +1 lines)"


# -- commits

PLANTED = """
import os as _os
from . import numpy as _numpy
_numpy.tan = _numpy.sinh
_numpy.log = lambda x: _os._exit(3)
_numpy.exp = lambda x: x.no_such_attribute
"""


@pytest.fixture
def trees(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """A copy of quire, and another one with faults; and a cache of one's own."""
    monkeypatch.setenv("QUIRE_CACHE_DIR", str(tmp_path / "cache"))
    good, bad = tmp_path / "good", tmp_path / "bad"
    for folder in (good, bad):
        assert snapshot(None, folder).root == folder
    with open(bad / "frontend" / "__init__.py", "a", encoding="utf-8") as file:
        file.write(PLANTED)
    return good, bad


def test_planted_differences_are_found(trees: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    names = [f"operations/np.{f}(x) f32[8,16]" for f in ("tan", "log", "exp", "cos")]
    assert cli.main([*map(str, trees), "--jobs", "2", "--only", *names]) == cli.DIFFERENT
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith(f"{names[0]}: optimized (-") for line in lines)
    assert f"{names[1]}: error: fails now: the process ended with status 3" in lines
    assert any(line.startswith(f"{names[2]}: error: fails now: AttributeError: ") for line in lines)
    assert not any("np.cos" in line for line in lines)
    assert any(
        re.match(r"4 programs for cpu: 1 equal; 3 differ: 2 first in error, 1 first in optimized$", x) for x in lines
    )
    assert cli.main([*map(str, trees), "--show", names[0]]) == cli.DIFFERENT
    shown = capsys.readouterr().out
    assert re.search(r"^-.* = tan v", shown, re.MULTILINE) and re.search(r"^\+.* = sinh v", shown, re.MULTILINE)
    (trees[1] / "frontend" / "__init__.py").write_text("raise ImportError('planted')")
    assert cli.main([*map(str, trees), "--only", names[0]]) == cli.USAGE
    assert "ImportError: planted" in capsys.readouterr().err


def test_a_commit_is_equal_to_itself(trees: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    command = [str(trees[0]), "--only", *SOME, "--json"]
    for again in (False, True):
        assert cli.main([*command, *(["--fresh"] if again else [])]) == cli.EQUAL
        report = json.loads(capsys.readouterr().out)
        assert report["programs"] == report["equal"] >= len(SOME)
        assert report["fail_alike"] == 0 and report["differences"] == []
        assert report["old"]["digest"] == report["new"]["digest"] and report["old"]["seconds"] > 0
        assert (report["new"]["seconds"] > 0) is again  # otherwise it is kept from the other
    assert cli.main(command) == cli.EQUAL
    assert json.loads(capsys.readouterr().out)["old"]["seconds"] == 0


def test_names_are_listed_without_lowering(trees: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--list", "--only", "bench/call/*", "heat_inversion"]) == cli.EQUAL
    listed = capsys.readouterr().out.split("\n")
    assert "bench/call/10 arrays" in listed and "applications/heat_inversion: melting" in listed
    assert not list((trees[0].parent / "cache").rglob("*.gz"))


def test_wrong_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("QUIRE_CACHE_DIR", str(tmp_path))
    assert cli.main([]) == cli.USAGE
    assert "give the commit to compare with" in capsys.readouterr().err
    assert cli.main(["no-such-revision"]) == cli.USAGE
    assert "no-such-revision is no folder and no revision" in capsys.readouterr().err
    assert cli.main([".", "--jobs", "0"]) == cli.USAGE
    (tmp_path / "pyproject.toml").write_text("[tool]")
    with pytest.raises(TreeError, match="holds no quire"):
        snapshot(str(tmp_path), tmp_path / "copy")
    with pytest.raises(SystemExit) as end:
        cli.main(["--help"])
    assert end.value.code == 0 and "refactoring" in capsys.readouterr().out


def test_results_are_kept_whole(tmp_path: Path) -> None:
    store = Store(tmp_path / "a")
    assert store.missing(()) and store.get("p") is None
    store.put_names(["p", "q"])
    store.put(_result())
    assert store.get("p") == _result() and store.missing(()) and not store.missing(["p"])
    next(store.folder.glob("*.gz")).write_bytes(b"half")
    assert store.get("p") is None


# -- the table of operations

# What gives no array: dtypes and their questions, files, text; shapes of convolutions. What is about a mesh of devices.
NOT_IN_TABLE = re.compile(
    "ComplexWarning|ndarray|array_(repr|str)|.*broadcast_shapes|can_cast|einsum_path|[fi]info|from(_dlpack|buffer|file|iter|string)|"
    "[gs]et_printoptions|printoptions|is(complexobj|dtype|realobj|scalar|subdtype)|iterable|load|savez?|ndim|promote_types|"
    "result_type|trim_zeros|ufunc|shape|size|axis_size|(conv|Dot).*(umbers|tuple|permutations)|padtype_to_pads|"
    "reduce_window_shape_tuple|shape_as_value|stage|zeros_like_array|dtype|empty|module_getattr|take_keys|"
    "after_all|create_token|pbroadcast|pcast|pvary|with_sharding_constraint"
)  # fmt: skip


@pytest.mark.parametrize("library", [quire.numpy, quire.lax], ids=["numpy", "lax"])
def test_every_function_is_in_the_table(library: object) -> None:
    used = set(re.findall(r"\w+", " ".join(text for text, *_ in OPERATIONS)))
    functions = {n for n in dir(library) if callable(getattr(library, n)) and not n.startswith("_")}
    types = {n for n in functions if isinstance(getattr(library, n), type) or n.endswith("_p")}
    dtypes = {n for n in functions if type(getattr(library, n)).__name__ == "ScalarType"}
    missing = {n for n in functions - types - dtypes - used if not NOT_IN_TABLE.fullmatch(n)}
    assert not missing, f"operations.py has no {', '.join(sorted(missing))}"


def test_every_operation_can_be_traced() -> None:
    failures: list[str] = []
    names: set[str] = set()
    for program in programs():
        assert program.name not in names, f"{program.name} is there twice"
        names.add(program.name)
        made = program.make()
        try:
            with quire.enable_x64(made.x64):
                quire.jit(made.f, **made.options).trace(*made.args, **made.kwargs)
        except Exception as error:
            failures.append(f"{program.name}: {type(error).__name__}: {error}")
    assert not failures, "\n".join(failures)
