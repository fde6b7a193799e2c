"""``dumpir --memory``: its numbers are those of `memory_analysis`, and it says who holds what."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import quire
import quire.numpy as qnp
from quire import lax
from quire.backends.iree.service import compile_service
from quire.compiling.stage_texts import stages_of
from quire.tools.dumpir.cli import main
from quire.tools.dumpir.memory import memory_of

SCRIPT = """\
import functools
import numpy as np
import quire
import quire.numpy as qnp
from quire import lax

def mlp(params, x, y):
    def loss(p):
        h = qnp.tanh(x @ p['w1'] + p['b1'])
        out = h @ p['w2']
        return qnp.mean((out - y) ** 2)
    return quire.value_and_grad(loss)(params)

@functools.partial(quire.compile, donate_argnums=(0, 1, 2))
def step(p, q, r):
    return p - 0.1 * q, qnp.sort(q) + q

def loop(x, n):
    def body(c):
        y, k = c
        return qnp.sort(qnp.fft.rfft(y).real[:8].repeat(2)) + y, k + 1
    return lax.while_loop(lambda c: c[1] < n, body, (x, 0))

def long(x):
    for i in range(40):
        x = qnp.sort(x) * qnp.cumsum(x)
    return x

def same(x):
    return x

def layers(ws, x):
    def loss(ws, x):
        for w in ws:
            x = qnp.tanh(qnp.sort(x @ w))
        return qnp.sum(x)
    return quire.grad(loss)(ws, x)

if __name__ == '__main__':
    f = quire.compile(lambda data: {'out': qnp.sort(data['a'])[::-1]})
    f({'a': np.ones(100, 'f4')})
    f({'a': np.ones(200, 'f4')})
"""
MLP = ["--args", "{'w1': f32[64,128], 'b1': f32[128], 'w2': f32[128,10]}", "f32[32,64]", "f32[32,10]"]


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("memory") / "model.py"
    path.write_text(SCRIPT)
    return str(path)


class Run:
    """Runs dumpir in this process."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.capsys = capsys
        self.said = ""

    def __call__(self, *words: str, status: int = 0) -> str:
        found = main([*words, "--memory"] if "--memory" not in words else list(words))
        captured = self.capsys.readouterr()
        self.said = captured.err
        assert found == status, captured.err
        return captured.out

    def data(self, *words: str) -> list[dict[str, Any]]:
        return json.loads(self(*words, "--json"))


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    return Run(capsys)


def test_what_is_held_at_the_peak_and_by_whom(script: str, run: Run) -> None:
    (found,) = run.data(f"{script}:mlp", *MLP)
    steps = {s["number"]: s for s in found["steps"]}
    peak = steps[found["peak"]]
    assert peak["held"] == found["held"] == max(s["held"] for s in steps.values())
    assert sum(v["bytes"] for v in found["values"]) == found["held"] <= found["least"] <= found["transient"]
    made = {(v["type"], Path(v["lines"]).name) for v in found["values"]}
    assert ("f32[32,128]", "model.py:9") in made  # h, which the gradient reads
    names = {s["name"].split("_")[0] for s in steps.values()}
    assert "dot" in names  # dot_general: the kernel's name
    lines = {s["lines"].rpartition(":")[2] for s in steps.values() if s["kind"] == "dispatch"}
    assert lines <= {"9", "10", "11"} | {x for x in lines if "," in x} and "10" in lines
    # The same on the screen.
    text = run(f"{script}:mlp", *MLP)
    assert text.startswith("// mlp: memory (cpu)\narguments ")
    assert re.search(rf"^ +{peak['number']}\* #+ ", text, re.MULTILINE)
    assert f"held at the peak, while step {peak['number']} runs: " in text
    assert re.search(
        r"^ +16 KiB  f32\[32,128\] +transient\[\d+:\d+\] +by step \d+, .*model\.py:9\)$", text, re.MULTILINE
    )
    assert len(text.splitlines()) < 50


def test_the_totals_are_those_of_the_analysis() -> None:
    def f(p, q, n):
        seen = quire.pure_callback(np.negative, quire.ShapeDtypeStruct((3,), np.float32), q[:3])
        large = lax.while_loop(lambda x: x[0] < 3, lambda x: qnp.sort(x) + x[::-1] + 1, qnp.tile(q, 8))
        return p - 0.1 * q, qnp.sort(qnp.cumsum(q)), q, qnp.tile(q, 64), qnp.sum(seen) + large[3]

    a = np.ones(1 << 13, np.float32)
    lowered = quire.compile(f, donate_argnums=0).lower(a, a, np.ones(3, np.float32))
    found = memory_of(lowered.stages, lowered.traced.names)
    analysis = lowered.compile().memory_analysis()
    assert found.arguments == analysis.argument_size_in_bytes == 2 * a.nbytes
    assert found.reused == analysis.alias_size_in_bytes == 2 * a.nbytes
    assert found.results == analysis.output_size_in_bytes - analysis.alias_size_in_bytes == 65 * a.nbytes + 4
    assert found.transient + found.exchanged + found.scalars + found.callbacks == analysis.temp_size_in_bytes
    assert min(found.transient, found.exchanged, found.scalars) > 0
    assert found.callbacks == 0  # what a callback reads and makes is lent to it
    assert found.donated == (("p", "f32[8192]", True, "result 0 is written into it"),)


def test_a_loop_and_what_the_host_reads(script: str, run: Run) -> None:
    text = run(f"{script}:loop", "--args", "f32[16]", "i32[]")
    rows = [line for line in text.splitlines() if re.match(r" +\d+[* ] ", line)]
    assert [r for r in rows if "for loop" in r or "the host reads" in r]
    inner = [r for r in rows if re.search(r"bytes    \S", r)]
    assert any("fft_" in r for r in inner) and any("sort_" in r for r in inner)
    assert "copy x to result[0]" in text and re.search(r"^constants +128 bytes$", text, re.MULTILINE)


def test_a_long_program_is_shortened_on_the_screen_only(script: str, run: Run, tmp_path: Path) -> None:
    text = run(f"{script}:long", "--args", "f32[1024]")
    assert len(text.splitlines()) < 50
    left_out = sum(int(n) for n in re.findall(r"^  \.\.\.  (\d+) steps?, which hold", text, re.MULTILINE))
    assert left_out + len(re.findall(r"^ +\d+[* ] ", text, re.MULTILINE)) == 120
    assert run(f"{script}:long", "--args", "f32[1024]", "-o", str(tmp_path)) == ""
    assert run.said == f"{tmp_path / 'memory.txt'}\n"
    whole = (tmp_path / "memory.txt").read_text()
    assert "..." not in whole and len(re.findall(r"^ +\d+[* ] ", whole, re.MULTILINE)) == 120
    run(f"{script}:long", "--args", "f32[1024]", "-o", str(tmp_path), "--json")
    assert json.loads((tmp_path / "memory.json").read_text())["name"] == "long"


def test_values_that_are_alike_are_counted(script: str, run: Run, tmp_path: Path) -> None:
    args = [f"{script}:layers", "--args", "[quire.ShapeDtypeStruct((64, 64), 'f4') for _ in range(20)]", "f32[32,64]"]
    (found,) = run.data(*args)
    text = run(*args)
    (count, line), *_ = re.findall(r"^ +\S+ KiB .* (\d+) values +.*model\.py:(\d+)\)$", text, re.MULTILINE)
    assert int(count) >= 10 and SCRIPT.splitlines()[int(line) - 1].strip() == "x = qnp.tanh(qnp.sort(x @ w))"
    shown = text.partition("held at the peak")[2].splitlines()[1:]
    values = sum(
        int(n[1]) if (n := re.search(r" (\d+) (?:values|more)", row)) else 1 for row in shown if row.startswith("  ")
    )
    assert values >= len(found["values"])
    run(*args, "-o", str(tmp_path))
    whole = (tmp_path / "memory.txt").read_text()
    assert " values " not in whole and whole.count("by step ") >= len(found["values"])


def test_every_function_of_a_script(script: str, run: Run) -> None:
    first, second = run.data(script)
    assert (first["name"], first["arguments"], second["arguments"]) == ("<lambda>", 400, 800)
    text = run(script)
    assert text.count(": memory (cpu)") == 2
    copies = [s["name"] for s in first["steps"]]
    assert all("argument 0" not in name for name in copies)  # they have the user's names
    assert copies[0] == "allocate result['out']" and copies[-1] == "hand over result['out']"


def test_scratch_memory_is_told_apart(script: str, run: Run) -> None:
    (found,) = run.data(f"{script}:long", "--args", "f32[1024]")
    assert {v["bytes"]: v["type"] for v in found["values"]} == {8192: "scratch", 4096: "f32[1024]"}


def test_textual_programs(tmp_path: Path, run: Run) -> None:
    path = tmp_path / "two.jaxpr"
    one = "{ lambda ; a:f32[300]. let b:f32[300] = cumsum[axis=0 reverse=False] a c:f32[300] = cumsum[axis=0 reverse=True] b in (c,) }\n"
    path.write_text(f"{one}// -----\n{{ lambda ; a:f32[3]. let in (a,) }}\n")
    first, second = run.data(str(path), "--passes", "default")
    assert first["held"] == 1200 and [s["kind"] for s in first["steps"]] == ["new", "dispatch", "dispatch", "give"]
    assert (second["steps"], second["reused"]) == ([], 12)
    assert "nothing is computed" in run(str(path))


def test_the_memory_of_a_derivative(tmp_path: Path, run: Run) -> None:
    """A transformation in the pipeline makes another program, with arguments and results of its own."""
    path = tmp_path / "a.jaxpr"
    path.write_text("{ lambda ; a:f32[256]. let b:f32[256] = sin a in (b,) }\n")
    said = run(str(path), "--passes", "jvp", "--memory")
    assert re.search(r"^arguments +2 KiB$", said, re.MULTILINE) and re.search(r"^results +2 KiB$", said, re.MULTILINE)


def test_donated_arguments(script: str, run: Run) -> None:
    args = ["--args", "f32[8192]", "f32[8192]", "f32[5]"]
    text = run(f"{script}:step", *args)
    assert "\ndonated\n  p (f32[8192]): result[0] is written into it\n  q (f32[8192]): " in text
    assert text.endswith("\n  r (f32[5]): the program does not read it\n")
    (found,) = run.data(f"{script}:step", *args)
    assert found["donated"][0] == {
        "name": "p", "type": "f32[8192]", "reused": True, "text": "result[0] is written into it",
    }  # fmt: skip


def test_other_targets_and_stages(script: str, run: Run) -> None:
    text = run(f"{script}:mlp", *MLP, "--target", "vulkan", "--stage", "plan")
    assert "// mlp: plan (vulkan)\nplan @main\n" in text and "// mlp: memory (vulkan)\n" in text
    assert "nothing is computed" in run(f"{script}:same", "--args", "f32[3]")


@pytest.mark.parametrize(
    "words, said",
    [
        (("--json", "--stage", "plan", "--memory"), "--json prints answers only: leave out --stage, --diff, --timing and --spmd"),
    ],
)  # fmt: skip
def test_wrong_use(script: str, run: Run, words: tuple[str, ...], said: str) -> None:
    run(f"{script}:same", "--args", "f32[3]", *words, status=2)
    assert run.said == f"dumpir: {said}\n"


def test_json_without_memory(script: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([f"{script}:same", "--args", "f32[3]", "--json"]) == 2
    assert capsys.readouterr().err.startswith("dumpir: --json is for answers: to --memory, ")


def test_no_code_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    service, asked = compile_service(), []
    compile = service.compile

    def noted(*args: Any, **kwargs: Any) -> Any:
        asked.append(kwargs)
        return compile(*args, **kwargs)

    monkeypatch.setattr(service, "compile", noted)
    traced = quire.compile(lambda x: qnp.sort(x)).trace(np.ones(100, np.float32))
    memory_of(stages_of(traced.jaxpr, "cpu"))
    assert [kwargs["phase"] for kwargs in asked] == ["plan"]


def test_what_giving_arguments_away_would_save(tmp_path: Path, run: Run) -> None:
    path = tmp_path / "update.py"
    path.write_text("def f(p, g):\n    return p * 2 - g, p.sum()\n")
    args = ("--args", "f32[256,256]", "f32[256,256]")
    (found,) = run.data(f"{path}:f", *args)
    assert found["would_save"]["donating"] == {"arguments": ["p"], "bytes": 256 * 256 * 4}
    assert "giving away p (donate_argnums) would save 256 KiB" in run(f"{path}:f", *args)
    (found,) = run.data(f"{path}:f", *args, "--donate", "0")
    assert found["would_save"]["donating"] is None


LAYERS = """\
import quire
import quire.numpy as qnp

def loss_of(layer):
    def loss(ws, x):
        for w, v in ws:
            x = layer(x, w, v)
        return qnp.mean(x * x)
    return quire.grad(loss)

def block(x, w, v):
    return x + quire.nn.gelu(x @ w) @ v

plain = loss_of(block)
dots = loss_of(quire.checkpoint(block, policy=quire.checkpoint_policies.dots_saveable))
inputs = loss_of(quire.checkpoint(block))
"""


def test_what_computing_again_would_save(tmp_path: Path, run: Run) -> None:
    """Beside the same program with `checkpoint` around each layer: what it keeps is products, or its input alone."""
    path = tmp_path / "layers.py"
    path.write_text(LAYERS)
    args = (
        "--args",
        "[(quire.ShapeDtypeStruct((32, 128), 'f4'), quire.ShapeDtypeStruct((128, 32), 'f4'))] * 4",
        "f32[64,32]",
    )
    (plain,), (dots,), (inputs,) = (run.data(f"{path}:{f}", *args) for f in ("plain", "dots", "inputs"))
    found = plain["would_save"]["recomputing"]
    cheap, dear = found["savings"]
    assert (cheap["what"], dear["what"]) == ("cheap", "dear") and cheap["values"] < dear["values"]
    assert plain["held"] > dots["held"] > inputs["held"]
    for estimated, real in ((cheap, dots), (dear, inputs)):
        saved = plain["held"] - real["held"]
        assert 0.7 * saved < plain["held"] - estimated["held"] < 1.3 * saved
        assert 0 < estimated["operations"] and 0 < estimated["share"] < 0.5
    # A product costs more than what is elementwise, and the values at the peak say so.
    assert dear["operations"] > 3 * cheap["operations"]
    made = {how: {p for v in found["values"] if v["how"] == how for p in v["primitives"]} for how in ("cheap", "dear")}
    assert "dot_general" in made["dear"] and "mul" in made["cheap"] and "dot_general" not in made["cheap"]
    assert found["values"][0]["line"].endswith("layers.py:12")
    text = run(f"{path}:plain", *args)
    assert re.search(
        r"^ +\S+ KiB  \d+ x f32\[64,128\]  mul.* \(.*layers\.py:12\), cheap: .* operations$", text, re.MULTILINE
    )
    assert re.search(
        r"^  the cheap ones \(\d+ values, .*\): .* KiB at the peak instead of .* KiB, .* more \([\d.]+ %\)$",
        text,
        re.MULTILINE,
    )
    # The pass that it speaks of, in the passes of the program; it is not asked once more.
    passes = "inline,canonicalize-literals,simplify,cse,dce,rematerialize,default"
    (again,) = run.data(f"{path}:plain", *args, "--passes", passes)
    assert again["would_save"]["recomputing"] is None and again["held"] < 0.85 * plain["held"]


def test_nothing_is_held_for_later(script: str, run: Run) -> None:
    (found,) = run.data(f"{script}:long", "--args", "f32[1024]")
    assert found["would_save"]["recomputing"] is None
    assert "computed again" not in run(f"{script}:long", "--args", "f32[1024]")


def test_the_largest_batch_that_fits(script: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Checked by the memory of a call with that batch, and with one more."""
    weights = MLP[1]

    def asked(size: str, *more: str) -> str:
        assert main([f"{script}:mlp", "--args", weights, "f32[B,64]", "f32[B,10]", "--fits", size, *more]) == 0
        return capsys.readouterr().out

    def bytes_of(n: int) -> int:
        assert main([f"{script}:mlp", "--args", weights, f"f32[{n},64]", f"f32[{n},10]", "--memory", "--json"]) == 0
        (m,) = json.loads(capsys.readouterr().out)
        return sum(
            m[k] for k in ("arguments", "results", "constants", "transient", "exchanged", "scalars", "callbacks")
        )

    found = json.loads(asked("3MB", "--json"))
    n = found["largest"]
    assert bytes_of(n) == found["bytes"] <= 3 << 20 < found["next"] == bytes_of(n + 1)
    assert asked("3 MB").startswith(f"B = {n} fits into 3 MiB: a call takes ")
    assert "not even B = 1 fits into 1000 bytes" in asked("1000")
    for size, args, said in (
        ("much", ["f32[B]"], "--fits 'much': expected a size such as 4GB, 512MiB or 1000"),
        ("1GB", ["f32[8]"], "--fits asks how large B may be: write it in --args, as in --args 'f32[B,784]' 'i32[B]'"),
    ):
        assert main([f"{script}:mlp", "--args", *args, "--fits", size]) == 2
        assert said in capsys.readouterr().err
