"""The questions of dumpir, each answered on a three-layer GPT's train step: on one screen, and in little time of its own.

What the compiler takes is in other processes, so this process's time is what an answer takes beyond it.
"""

# ruff: noqa: E501  (patterns on one line)

from __future__ import annotations

import functools
import json
import re
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from quire.backends.stablehlo.lowering import lowering
from quire.backends.targets import TARGETS
from quire.compiling.stage_texts import Stages, stages_of
from quire.ir.jaxpr import ClosedJaxpr
from quire.ir.primitives import elementwise as ew
from quire.passes.manager import PassManager
from quire.tools.dumpir.answers import Answer
from quire.tools.dumpir.cli import main
from quire.tools.dumpir.comparison import compare_answer
from quire.tools.dumpir.difference import diff_answer
from quire.tools.dumpir.inputs import InputError, Program, load
from quire.tools.dumpir.lines import line_answer
from quire.tools.dumpir.located import Line, operations
from quire.tools.dumpir.memory import memory_of
from quire.tools.dumpir.memory_text import memory_answer
from quire.tools.dumpir.names import name_answer
from quire.tools.dumpir.nans import nan_answer
from quire.tools.dumpir.recompiled import recompiled_answer
from quire.tools.dumpir.reduce import reduce_answer
from quire.tools.dumpir.report import html_answer
from quire.tools.dumpir.savings import fits_answer, total, with_batch
from quire.tools.dumpir.summary import summary
from quire.tools.dumpir.survey import Survey
from quire.tools.dumpir.why import why_kernel, why_not_fused

GPT = str(Path(__file__).parents[2] / "examples" / "gpt.py")
# Three seconds on a machine that does nothing else: where a core is shared, processor time grows too.
ROWS, SECONDS, WIDTH = 40, 5.0, 230
FLAT = "inline,canonicalize-literals,simplify,cse,dce"


def line_of(text: str) -> int:
    """The number of the line of the GPT that holds a text."""
    return next(i for i, row in enumerate(Path(GPT).read_text().splitlines(), 1) if text in row)


@pytest.fixture(scope="module")
def gpt() -> tuple[Program, Stages]:
    (program,) = load(f"{GPT}:step", ["params()", "tokens()"], ())
    stages = stages_of(
        program.closed, "cpu", None, program.name, program.donated, names=program.names, out_tree=program.out_tree,
        transformations=program.transformations, trace_seconds=program.trace_seconds,
    )  # fmt: skip
    assert stages.lowered.module.kernels  # lowering is a part of a compile
    return program, stages


def answered(ask: Callable[[], Answer]) -> str:
    """The text of an answer, which is short and quick."""
    start = time.process_time()
    answer = ask()
    took = time.process_time() - start
    assert len(answer.lines) <= ROWS and max(map(len, answer.lines)) <= 320, "\n".join(answer.lines)
    assert took < SECONDS, f"{took:.1f} s of this process"
    assert json.loads(json.dumps(answer.data, default=str))
    return "\n".join(answer.lines)


def test_summary(gpt: tuple[Program, Stages]) -> None:
    program, stages = gpt
    text = answered(lambda: summary(stages, program))
    assert text.startswith("22 arguments, 22 results, ")
    assert re.search(r"^simplify +[\d.]+  \d+ -> \d+ +divide by a power of two \d+", text, re.MULTILINE)
    (gemm,) = re.findall(r"^gemm +(\d+) +(\d+) .* us +\d+x\d+ @ \d+x\d+ f32: ", text, re.MULTILINE)
    assert int(gemm[0]) == sum(k.symbol.startswith("gemm") for k in stages.lowered.module.kernels) > int(gemm[1])
    assert re.search(r"^attention +6 ", text, re.MULTILINE) and re.search(r"^IREE: ", text, re.MULTILINE)
    refused = Survey(stages).refusals
    assert ("\nnothing fell back\n" in text) == (not refused)
    assert all(f"{c.primitive} (" in text and c.text[:60] in text for c in refused[:2])
    assert re.search(
        r"^compile .*: trace .*passes .*lowering .*dispatches .*plan .*kernels .*machine code ", text, re.MULTILINE
    )
    assert re.search(
        r"^temporary memory [\d.]+ MiB, most of it \([\d.]+ MiB\) held while step \d+ runs: ", text, re.MULTILINE
    )
    assert re.search(r"^ +128 KiB  f32\[4,32,256\] .*gpt\.py:\d+\)$", text, re.MULTILINE)


def test_a_line_is_followed_through_every_stage(gpt: tuple[Program, Stages]) -> None:
    """A line that is within a fusion: its equations are nobody's own, and its location is one of several."""
    _, stages = gpt
    number = line_of("qnp.where(np.tril")
    text = answered(lambda: line_answer(stages, f"gpt.py:{number}"))
    assert "select_n bool[4,4,32,32]" in text and "fuse: " in text
    assert re.search(r"^optimized: 6 equations\n.*fusion\[attention: ", text, re.MULTILINE)
    assert re.search(r"^stablehlo: 6 operations: flow.dispatch 6$", text, re.MULTILINE)
    assert re.search(r"^kernels: 6 of quire's own\n    3 x attention_\w+: ", text, re.MULTILINE)
    for phase in ("input", "dispatch-creation", "flow"):
        assert re.search(rf"^{phase}: 6 operations: flow.dispatch 6$", text, re.MULTILINE)
    assert re.search(r"^stream: .*stream.cmd.dispatch 6", text, re.MULTILINE)
    assert re.search(r"^plan: 6 steps\n    attention_\w+: 3 launches$", text, re.MULTILINE)


@pytest.mark.parametrize("holds", ["return x * scale", 'layer["qkv"]).reshape', "weights = quire.nn", "quire.nn.gelu", "logs = ", "take_along", "p - 0.1"])  # fmt: skip
def test_locations_survive(gpt: tuple[Program, Stages], holds: str) -> None:
    _, stages = gpt
    line = Line("gpt.py", line_of(holds))
    for phase in ("stablehlo", "input", "global-optimization", "dispatch-creation", "flow", "stream"):
        found = [o for o in operations(stages.located[phase]) if o.is_from(line)]
        assert found, f"{line} is lost in {phase}"
    assert answered(lambda: line_answer(stages, str(line))).count("\nplan: 0 steps") == 0


def test_names_of_arguments_and_results(gpt: tuple[Program, Stages]) -> None:
    program, stages = gpt
    text = answered(lambda: name_answer(stages, program, "params['layers'][1]['up']"))
    assert text.startswith("params['layers'][1]['up']: argument 12, f32[64,256], donated\njaxpr: read by 3 equations")
    assert "stablehlo: %arg12, an operand of 3 operations" in text and "kernels: 3 of quire's own" in text
    assert "plan: arg12, in 3 steps" in text and "\ndonated: " in text
    text = answered(lambda: name_answer(stages, program, "result[0]['scale']"))
    assert "made by\n    f32[64] = sub f32[64], f32[64]" in text
    assert "loc(\"params['layers'][1]['up']\")" in stages.located["stablehlo"]
    with pytest.raises(InputError, match=r"has no argument or result of that name; it has params\['embed'\]"):
        name_answer(stages, program, "nobody")


def test_why_not_fused(gpt: tuple[Program, Stages]) -> None:
    _, stages = gpt
    product, split, norm = (f"gpt.py:{line_of(t)}" for t in ('layer["qkv"]', "qnp.split", "return x * scale"))
    mask, soft, update, up = (
        f"gpt.py:{line_of(t)}" for t in ("np.tril", "weights = quire", "p - 0.1", "quire.nn.gelu")
    )
    text = answered(lambda: why_not_fused(stages, mask, soft))
    assert re.match(rf"some equations of {mask} and {soft} are one fusion: .*\n  kernel attention_\w+: ", text)
    assert "kernel gemm_" in answered(lambda: why_not_fused(stages, up, update))
    text = answered(lambda: why_not_fused(stages, f"{norm}:reduce_sum", f"{norm}:sqrt"))
    assert re.match(
        rf"some equations of {norm}:reduce_sum and {norm}:sqrt are one fusion: .*\n  kernel rows_\w+: ", text
    )
    text = answered(lambda: why_not_fused(stages, f"{split}:split", f"{product}:dot_general"))
    assert "the epilogue of dot_general" in text and "split is of the family structural" in text
    with pytest.raises(InputError, match="no equation is named so before fusion; the line has "):
        why_not_fused(stages, f"{norm}:sort", soft)


def test_why_kernel(gpt: tuple[Program, Stages]) -> None:
    _, stages = gpt
    text = answered(lambda: why_kernel(stages, ""))
    assert re.search(r"^gemm_\w+ +3 .*gpt.py:\d+ +128x64 @ 64x192 f32: ", text, re.MULTILINE)
    text = answered(lambda: why_kernel(stages, f"gpt.py:{line_of('take_along')}"))
    assert "scatter_add_" in text and "\nnone for\n" in text
    assert "attention_" in answered(lambda: why_kernel(stages, "attention"))
    with pytest.raises(
        InputError,
        match="the kinds of kernels are alike, attention, columns, elementwise, gemm, rows, scatter_add",
    ):
        why_kernel(stages, "bla")


def test_memory(gpt: tuple[Program, Stages]) -> None:
    """The steps around the peak, who holds what, what became of donated arguments, what would save memory."""
    program, stages = gpt

    def donated_too(numbers: tuple[int, ...]) -> Stages:
        raise AssertionError(f"all arguments of results' types are donated, not {numbers}")

    text = answered(lambda: memory_answer(stages, donated_too))
    (peak,) = re.findall(r"^ +(\d+)\* #{24} +([\d.]+ MiB)  .*gpt\.py:\d+\)$", text, re.MULTILINE)
    assert f"held at the peak, while step {peak[0]} runs: {peak[1]}" in text
    assert re.search(r"^ +1\.5 MiB  f32\[4,32,256\] +12 values .*gpt\.py:63\)$", text, re.MULTILINE)
    assert re.search(r"^donated: \d+ of 21 become results$", text, re.MULTILINE)
    assert re.search(r"^  \.\.\. \d+ more \(all of them: -o DIR, --json\)$", text, re.MULTILINE)
    assert re.search(r"^ +1 MiB  8 x f32\[4,32,256\]  mul \(.*gpt\.py:63\), cheap: ", text, re.MULTILINE)
    cheap, dear = re.findall(
        r": ([\d.]+) MiB at the peak instead of [\d.]+ MiB, .* \(([\d.]+) %\)$", text, re.MULTILINE
    )
    assert float(dear[0]) < float(cheap[0]) < 0.75 * float(peak[1].split()[0])
    assert float(cheap[1]) < 5 < float(dear[1]) < 33  # the whole forward pass once more would be a third


def test_the_largest_batch(gpt: tuple[Program, Stages]) -> None:
    def needed(n: int) -> int:
        (program,) = load(f"{GPT}:step", with_batch(["params()", "i32[B,33]"], n), ())
        return total(memory_of(stages_of(program.closed, "cpu", None, program.name, program.donated)))

    text = answered(lambda: fits_answer("8MB", needed))
    assert re.match(r"B = \d fits into 8 MiB: a call takes 7\.\d+ MiB, with B = \d+ [89]\.?\d* MiB$", text), text


def test_why_recompiled(tmp_path: Path) -> None:
    """Calls of the GPT's normalization with other types, and through a new lambda each time."""
    path = tmp_path / "calls.py"
    path.write_text(
        f"import sys\nsys.path.insert(0, {str(Path(GPT).parent)!r})\nimport gpt, quire\n"
        "norm, p = quire.compile(gpt.norm), gpt.params()\n"
        "norm(p['embed'], p['scale'])\nnorm(p['position'], p['scale'])\nnorm(p['embed'], 2.0)\n"
        "for i in range(3):\n    quire.compile(lambda p: gpt.norm(p, p[0]) * i)(p['embed'])\n"
    )
    text = answered(lambda: recompiled_answer(str(path), ()))
    assert text.startswith("2 functions were compiled, 2 of them several times\n"), text
    assert re.search(r"^norm \(.*gpt\.py:\d+\): 3 times$", text, re.MULTILINE), text
    assert re.search(r"^  shape of x: \(96, 64\) -> \(32, 64\) \(called at .*calls\.py:6\)$", text, re.MULTILINE), text
    assert "  2 x the function itself is a new object each time" in text


def test_compare(gpt: tuple[Program, Stages]) -> None:
    """Every stage has the reference's numbers; what IREE takes is in other processes."""
    program, stages = gpt
    text = answered(lambda: compare_answer(stages, program))
    assert re.match(r"step: equal, 22 results, largest difference [\d.]+e-0\d, which rounding explains\n", text), text
    for stage in (
        "simplify",
        "fuse",
        "IREE without kernels",
        "IREE with kernels",
        "two runs",
        "one worker and several",
    ):
        assert re.search(rf"^  {stage} +(equal|the same bits)", text, re.MULTILINE)
    assert re.search(r"rules of the transformations: \d\d derivatives, \d\d transposes", text)


def test_diff(gpt: tuple[Program, Stages], tmp_path: Path) -> None:
    """Another normalization and a tanh: two lines of the program, found among 559 equations."""
    path = tmp_path / "other.py"
    path.write_text(Path(GPT).read_text().replace("1e-5)", "1e-6)").replace("quire.nn.gelu(", "qnp.tanh("))
    names = [f"{GPT}:step", f"{path}:step"]
    text = answered(lambda: diff_answer(names, None, ["params()", "tokens()"], None))
    assert re.search(
        r": \d{3} equations are the same, \d+ have changed, \d+ are in the first only, \d+ in the second only", text
    )
    assert re.search(
        r"^  ~ 7 x add \(other\.py:48\): 1e-05 -> 1e-06$", text.replace(str(tmp_path) + "/", ""), re.MULTILINE
    ), text
    assert re.search(r"^  - .*= .*gpt\.py:63\)$", text, re.MULTILINE)

    def after(program: Program, pipeline: str) -> ClosedJaxpr:
        return PassManager(pipeline, target=TARGETS["cpu"]).run(program.closed)

    pipelines = ["inline,simplify", "inline,simplify,cse"]
    text = answered(lambda: diff_answer(pipelines, f"{GPT}:step", ["params()", "tokens()"], after))
    assert "0 have changed" in text and "0 in the second only" in text
    assert re.search(r"^  - 4 x f32\[4,32,64\] = broadcast_in_dim ", text, re.MULTILINE) or " x " in text


def test_reduce(gpt: tuple[Program, Stages], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lowering that fails, made small: the equation alone is left. (That the rest compiles is not looked at here.)"""
    program, stages = gpt

    def fails(*args: object, **kwargs: object) -> None:
        raise NotImplementedError("no tanh today")

    monkeypatch.setitem(lowering.rules, ew.tanh_p, fails)
    monkeypatch.setattr("quire.tools.dumpir.reduce.build", lambda lowered: None)
    ask = functools.partial(reduce_answer, program, "cpu", FLAT, "", "no tanh today", tmp_path)
    text = answered(ask)
    assert re.match(r"559 equations of [\d.]+ M elements became 1 of \d, \d+ programs were tried; written to ", text), (
        text
    )
    assert re.search(r"let b:f32\[[\d,]*\] = tanh a in \(b,\)", text)
    assert "no tanh" not in (tmp_path / "reduced.py").read_text().replace("--until no tanh today", "")


def test_find_nan(gpt: tuple[Program, Stages], capsys: pytest.CaptureFixture[str]) -> None:
    program, stages = gpt
    large = [np.asarray(x) * np.float32(1e30) if x.dtype == np.float32 else x for x in program.values or ()]
    text = answered(lambda: nan_answer(stages, replace(program, values=tuple(large))))
    assert re.match(
        r"forward: the first inf of step is made by mul \(at .*gpt\.py:48, in norm\): 8192 of 8192 elements, ", text
    )
    assert text.splitlines()[1].endswith(
        "gpt.py:48: return x * scale / qnp.sqrt(qnp.mean(x * x, axis=-1, keepdims=True) + 1e-5)"
    )
    assert answered(lambda: nan_answer(stages, program)) == (
        "step makes no NaN and no infinity, neither by the reference backend nor on cpu"
    )
    large_params = "quire.tree_util.tree_map(lambda p: p * 1e30, params())"
    assert main([f"{GPT}:step", "--args", large_params, "tokens()", "--find-nan", "--json"]) == 3
    (found,) = json.loads(capsys.readouterr().out)
    assert (found["question"], found["primitive"], found["kind"], found["target"]) == (
        "find-nan",
        "mul",
        "inf",
        "reference",
    )


def test_the_command(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Of a script a line a function; errors; JSON; the help has the questions."""
    path = tmp_path / "two.py"
    path.write_text(
        "import numpy as np, quire, quire.numpy as qnp\n"
        "f = quire.compile(lambda x: qnp.sort(x) + 1)\n"
        "@quire.compile\ndef g(x, n=2):\n    return qnp.sin(x) * n\n"
        "f(np.ones(64, 'f4')); g(np.ones(3, 'f4')); g(np.ones(4, 'f4'))\n"
        "for i in range(3):\n    quire.compile(lambda x: x + i)(np.ones(2, 'f4'))\n"
    )
    assert main([str(path), "--summary"]) == 0
    rows = capsys.readouterr().out.splitlines()
    assert len(rows) == 6
    assert re.match(r"<lambda>: 2 equations, 1 launches of own kernels and \d of IREE's, 0 fell back, estimated .* us, compiled in .*, .* temporary", rows[0])  # fmt: skip
    assert main([str(path), "--why-recompiled"]) == 0
    text = capsys.readouterr().out
    assert (
        "2 of them several times" in text
        and f"g ({path}:3): 2 times\n  shape of x: (3,) -> (4,) (called at {path}:6)" in text
    )
    assert f"<lambda> ({path}:8): 3 times\n  2 x the function itself is a new object each time" in text
    assert main([f"{path}:g", "--args", "f32[3]", "--line", "two.py:5", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert found["question"] == "line" and found["jaxpr"][0].startswith("f32[3] = sin")
    assert main([f"{path}:g", "--args", "f32[3]", "--line", "two.py:1"]) == 2
    assert "g has no equation of that line; lines 5 have some" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["--help"])
    text = capsys.readouterr().out
    for question in ("what did my program become?", "why?", "is it right?", "what does it take?"):
        assert f"\n{question}:\n" in text


def test_two_programs(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Equations are matched by what they compute: another order of statements and names is no difference."""
    first = (
        "import quire.numpy as np\nfrom quire import lax\ndef f(x, w):\n    h = np.tanh(x @ w) * 2.0\n"
        "    y = lax.fori_loop(0, 4, lambda i, c: np.sin(c) + i, h)\n    return y.sum(axis=1), x.max()\n"
    )
    texts = {
        "a": first, "b": first.replace("    h =", "    z = x.max()\n    h =").replace("np.tanh(x @ w) * 2.0", "2.0 * np.tanh(x @ w)").replace("x.max()\n", "z\n", 2).replace("z = z", "z = x.max()"),
        "c": first.replace("2.0", "3.0").replace("np.sin(c)", "np.cos(c)"),
    }  # fmt: skip
    names = {}
    for name, text in texts.items():
        path = tmp_path / f"{name}.py"
        path.write_text(text)
        names[name] = f"{path}:f"
    types = ["--args", "f32[4,8]", "f32[8,8]"]
    assert main(["--diff", names["a"], names["b"], *types]) == 0
    assert capsys.readouterr().out.endswith(": the same: 6 equations\n")
    assert main(["--diff", names["a"], names["c"], *types]) == 0
    text = capsys.readouterr().out
    assert "4 equations are the same, 2 have changed, 0 are in the first only, 0 in the second only" in text
    assert (
        "mul (" in text
        and ": 2.0 -> 3.0" in text
        and ": - f32[4,8] = sin f32[4,8]" in text
        and ": + f32[4,8] = cos" in text
    )
    for name in ("a", "c"):
        assert main([names[name], *types, "-s", "jaxpr,stablehlo", "-o", str(tmp_path / name)]) == 0
    assert main(["--diff", str(tmp_path / "a"), str(tmp_path / "a")]) == 0
    assert capsys.readouterr().out == "jaxpr.jaxpr: the same\nstablehlo.mlir: the same\n"
    assert main(["--diff", str(tmp_path / "a"), str(tmp_path / "c")]) == 0
    assert ": 2.0 -> 3.0" in capsys.readouterr().out
    assert main([names["a"], *types, "--diff", "inline", "inline,fuse"]) == 0
    assert "the same: 6 equations" in capsys.readouterr().out
    assert main(["--diff", names["a"]]) == 2


def test_the_page(tmp_path: Path) -> None:
    """Of a program of 2,000 equations: small, without network, with what each equation came from and became."""
    path = tmp_path / "large.py"
    path.write_text(
        "import quire.numpy as np\ndef f(x, w):\n    for i in range(400):\n        h = np.tanh(x) * 0.5\n"
        "        x = x + h / (1 + np.abs(h))\n    return x @ w\n"
    )
    (program,) = load(f"{path}:f", ["f32[64]", "f32[64,8]"], ())
    assert len(program.closed.eqns) > 2000
    stages = stages_of(program.closed, "cpu", None, program.name, names=program.names, out_tree=program.out_tree)
    text = answered(lambda: html_answer(stages, program, tmp_path / "page.html"))
    page = (tmp_path / "page.html").read_text()
    assert len(page) < 3e6 and f"{len(page) / 1e6:.2f} MB" in text
    assert "http" not in page.replace("http-equiv", "") and " src=" not in page
    data = json.loads(re.search(r'<script id="data" type="application/json">(.*?)</script>', page, re.DOTALL)[1])  # type: ignore[index]
    first, last = data["stages"][0], data["stages"][-1]
    assert first["name"] == "jaxpr" and len(first["eqns"]) == len(program.closed.eqns)
    assert all(e["d"] for e in first["eqns"])  # each equation became something
    assert any(e.get("k") for e in last["eqns"]) and any(e.get("n", 0) > 8 for e in last["eqns"])
    assert data["arguments"][0][1:] == ["x", "f32[64]"] and data["results"] == [["result", "f32[8]"]]
    assert data["files"][0]["rows"][3].strip() == "h = np.tanh(x) * 0.5"
    assert data["memory"] and data["seconds"] and data["kinds"] and data["rewrites"]
