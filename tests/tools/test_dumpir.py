"""dumpir, through its command."""

# ruff: noqa: E501  (programs and messages on one line)

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from quire.ir.parser import parse
from quire.ir.verifier import verify
from quire.tools.dumpir.cli import main

SCRIPT = """\
import sys
import numpy as np
import quire
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import reductions as rd

scale = np.arange(3.0, dtype='f4')

@quire.compile
def loss(x, y):
    z = ew.neg(ew.neg(ew.mul(x, 2.0)))
    return rd.reduce_sum(ew.add(z, y), (0,))

def plain(tree, *, by=1.0):
    return ew.mul(tree['w'], by), tree['b']

def nothing():
    return ew.sin(0.5)

def unused(x, n):
    return ew.sin(x)

def bad(x):
    if x > 0:
        return x

if __name__ == '__main__':
    print('the script ran with', sys.argv[1:])
    loss(np.ones((8, 3), 'f4'), np.ones((8, 3), 'f4'))
    loss(np.ones((4, 3), 'f4'), np.ones((4, 3), 'f4'))
    plain({'w': scale, 'b': 1})
"""
PROGRAM = "{ lambda ; a:f32[3]. let b:f32[3] = neg a c:f32[3] = neg b d:f32[3] = mul c 2.0:f32[] in (d,) }\n"


@pytest.fixture(scope="module")
def script(tmp_path_factory) -> str:
    path = tmp_path_factory.mktemp("dumpir") / "model.py"
    path.write_text(SCRIPT)
    return str(path)


def dumpir(*args: str, status: int = 0, stdin: str = "", env: dict[str, str] | None = None):
    """What the command prints: of scripts, which may do anything, and of other environments in a process of its own."""
    if stdin or env or any(".py" in a for a in args):
        run = subprocess.run(
            [sys.executable, "-m", "quire.tools.dumpir", *args],
            input=stdin, capture_output=True, text=True, check=False, env={**os.environ, **(env or {})}, timeout=300,
        )  # fmt: skip
    else:
        run = in_this_process(args)
    assert run.returncode == status, f"{run.args}\n{run.stdout}\n{run.stderr}"
    assert "Traceback" not in run.stderr
    return run


def in_this_process(args: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main(args)
        except SystemExit as end:  # argparse's
            code = int(end.code or 0)
    return subprocess.CompletedProcess(args, code, out.getvalue(), err.getvalue())


def sections(text: str) -> dict[str, str]:
    """The printed programs by their headings."""
    parts = re.split(r"^// (.+)$", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], (p.strip() for p in parts[2::2])))


def test_a_script_shows_every_compiled_function(script):
    run = dumpir(script, "--stage", "jaxpr,optimized", "stablehlo", "--", "one", "--two")
    assert "the script ran with ['one', '--two']" in run.stderr
    found = sections(run.stdout)
    assert [h for h in found if ": jaxpr" in h] == ["loss: jaxpr (cpu)", "loss-2: jaxpr (cpu)"]
    assert "f32[4,3]" in found["loss-2: jaxpr (cpu)"]
    jaxpr, optimized = parse(found["loss: jaxpr (cpu)"]), parse(found["loss: optimized (cpu)"])
    verify(jaxpr)
    assert len(jaxpr.eqns) == 5 and len(optimized.eqns) == 3
    assert "stablehlo.reduce" in found["loss: stablehlo (cpu)"]


def test_optimized_is_what_is_lowered(script):
    """Updates in place and merged clusters are passes, and arguments that nothing reads are gone."""
    program = "{ lambda ; a:f32[64,64] b:f32[3] c:f32[64,64]. let d:f32[64,64] = add a c in (d,) }"
    run = dumpir("-", "--passes", "default", "--donate", "0", "--stage", "updates", "stablehlo", stdin=program)
    assert "kind=update" in run.stdout and "iree.abi.consume" in run.stdout
    found = sections(
        dumpir(f"{script}:unused", "--args", "f32[3]", "i32[]", "--stage", "merge-alike", "optimized").stdout
    )
    assert found["unused: merge-alike (cpu)"].startswith("{ lambda ; a:f32[3] b:i32[]. let")
    assert found["unused: optimized (cpu)"].startswith("{ lambda ; a:f32[3]. let")
    assert "+{ lambda ; a:f32[3]. let" in dumpir(f"{script}:unused", "--args", "f32[3]", "i32[]", "--diff").stdout


def test_donated_arguments_must_be_there(script):
    assert (
        "--donate 1: stdin takes 1 argument(s), numbered from 0"
        in dumpir("-", "--donate", "1", stdin=PROGRAM, status=2).stderr
    )


def test_one_function_with_types(script):
    run = dumpir(f"{script}:loss", "--args", "f32[8,3]", "f32[8,3]", "--source")
    found = sections(run.stdout)
    assert list(found) == [f"loss: {stage} (cpu)" for stage in ("jaxpr", "optimized", "stablehlo")]
    assert "the script ran" not in run.stderr
    program = parse(found["loss: jaxpr (cpu)"])
    assert [e.source.line for e in program.eqns] == [11, 11, 11, 12, 12]
    assert all(e.source.file.endswith("model.py") and e.source.function == "loss" for e in program.eqns)
    # The user's line goes down to StableHLO.
    assert 'model.py":11' in found["loss: stablehlo (cpu)"]


def test_one_function_with_expressions(script):
    run = dumpir(f"{script}:plain", "--args", "{'w': scale, 'b': i32[]}", "by=2.5", "--stage", "jaxpr")
    (text,) = sections(run.stdout).values()
    assert "i32[]" in text and "f32[3]" in text


def test_a_function_without_arguments(script):
    assert "sin 0.5:f32[]*" in dumpir(f"{script}:nothing", "--stage", "jaxpr").stdout


def test_the_target_decides_the_code(script):
    args = (f"{script}:loss", "--args", "f32[8,3]", "f32[8,3]", "--stage")
    assert "main_dispatch_0" in dumpir(*args, "assembly").stdout
    assert "spirv.EntryPoint" in dumpir(*args, "spirv", "--target", "vulkan").stdout
    assert ".visible .entry" in dumpir(*args, "code", "--target", "cuda").stdout


def test_iree_phases(script):
    run = dumpir(f"{script}:loss", "--args", "f32[8,3]", "f32[8,3]", "--stage", "flow", "executable-sources", "vm")
    found = sections(run.stdout)
    assert "flow.dispatch" in found["loss: flow (cpu)"]
    assert "hal.executable" in found["loss: executable-sources (cpu)"]
    assert "vm.module" in found["loss: vm (cpu)"]


def test_files_of_all_stages(script, tmp_path):
    out = tmp_path / "out"
    dumpir(f"{script}:loss", "--args", "f32[8,3]", "f32[8,3]", "-o", str(out))
    names = sorted(p.name for p in out.iterdir())
    assert names[0] == "00-jaxpr.jaxpr" and names[-1].endswith("-assembly.s")
    assert any(n.endswith("-stablehlo.mlir") for n in names) and any(n.endswith("-vm.mlir") for n in names)
    listed = dumpir("--list-stages").stdout.split()
    assert [re.sub(r"^\d+-|\.\w+$", "", n) for n in names] == listed
    verify(parse((out / "00-jaxpr.jaxpr").read_text()))
    # The same text from run to run.
    again = tmp_path / "again"
    dumpir(f"{script}:loss", "--args", "f32[8,3]", "f32[8,3]", "-o", str(again))
    for name in names:
        assert (out / name).read_text() == (again / name).read_text(), name


def test_a_folder_for_each_function_of_a_script(script, tmp_path):
    dumpir(script, "-o", str(tmp_path), "--stage", "jaxpr", "optimized")
    assert sorted(p.name for p in tmp_path.iterdir())[:2] == ["loss", "loss-2"]
    assert [p.name for p in sorted((tmp_path / "loss").iterdir())][0] == "00-jaxpr.jaxpr"


def test_diff(script):
    run = dumpir(f"{script}:loss", "--args", "f32[8,3]", "f32[8,3]", "--diff")
    assert "--- loss: canonicalize-literals\n+++ loss: simplify" in run.stdout
    assert re.search(r"^-    \w+:f32\[8,3\] = neg \w+$", run.stdout, re.MULTILINE)
    assert "are the same" in run.stdout
    assert "\x1b[" not in run.stdout
    assert "\x1b[" in dumpir("-", "--passes", "simplify", "--diff", "--color", "always", stdin=PROGRAM).stdout


def test_timing(script):
    run = dumpir(f"{script}:loss", "--args", "f32[8,3]", "f32[8,3]", "--stage", "vm", "code", "--timing")
    assert re.search(r"^simplify +\d+\.\d\d  5 -> 4 +neg\(neg\(x\)\) -> x: 1$", run.stdout, re.MULTILINE)
    assert re.search(r"^iree: \d+", run.stdout, re.MULTILINE) and re.search(
        r"^stablehlo: \d+", run.stdout, re.MULTILINE
    )
    assert re.findall(r"^iree ([\w-]+): \d+", run.stdout, re.MULTILINE)[-1] == "vm"
    lines = [line.split(":")[0] for line in run.stdout.splitlines() if re.search(r"^\w+: \d+\.\d ms$", line)]
    assert lines == ["trace", "stablehlo", "iree", "load"]


def test_timing_of_a_script_and_of_textual_ir(tmp_path):
    path = tmp_path / "run.py"
    path.write_text("import quire\n@quire.compile\ndef f(x):\n    return x + 1\nf(1.0)\n")
    out = dumpir(str(path), "--stage", "jaxpr", "--timing").stdout
    assert re.search(r"^trace: \d+\.\d ms$", out, re.MULTILINE) and re.search(r"^load: \d+\.\d ms$", out, re.MULTILINE)
    out = dumpir("--passes", "dce", "--timing", stdin=PROGRAM).stdout
    assert "trace:" not in out and "load:" not in out and "total" in out


def test_timing_for_a_target_without_devices(script):
    args = ("--args", "f32[8,3]", "f32[8,3]", "--target", "rocm", "--stage", "jaxpr", "--timing")
    assert "load: not measured: target rocm has no devices: programs for it are compiled only" in (
        dumpir(f"{script}:loss", *args).stdout
    )


def test_text_from_standard_input():
    assert dumpir("--passes", "simplify,dce", stdin=PROGRAM).stdout == (
        "{ lambda ; a:f32[3]. let b:f32[3] = mul a 2.0:f32[] in (b,) }\n"
    )
    assert len(parse(dumpir("-", stdin=PROGRAM).stdout).eqns) == 3


def test_several_programs_in_a_file(tmp_path):
    path = tmp_path / "two.jaxpr"
    path.write_text(PROGRAM + "// -----\n" + PROGRAM)
    out = dumpir(str(path), "-p", "simplify,dce").stdout
    assert out.count("mul a 2.0:f32[]") == 2 and out.count("// -----") == 1
    path.write_text(PROGRAM + "// -----\n" + PROGRAM.replace("mul", "mull"))
    assert "two.jaxpr:3:" in dumpir(str(path), status=1).stderr


def test_text_down_to_iree(tmp_path):
    path = tmp_path / "one.jaxpr"
    path.write_text(PROGRAM)
    out = dumpir(str(path), "--passes", "default", "--stage", "stablehlo").stdout
    assert "func.func @main(%arg0: tensor<3xf32>) -> tensor<3xf32>" in out


def test_lists():
    passes = dumpir("--list-passes").stdout
    assert "simplify: Apply algebraic identities" in passes and "    derivatives: bool = true" in passes
    assert dumpir("--show-pipeline", "--target", "cuda").stdout.strip().endswith("store-compared,fuse-attention")
    assert "llvm-cpu" in dumpir("--list-targets").stdout
    stages = dumpir("--list-stages", "--target", "vulkan").stdout.split()
    assert stages[0] == "jaxpr" and "stablehlo" in stages and stages[-1] == "spirv"


def test_help_has_examples():
    text = dumpir("--help").stdout
    assert "examples:" in text and "dumpir model.py:loss --args 'f32[8,3]' 'i32[]'" in text and "exit status:" in text


def test_dump_to_without_touching_code(script, tmp_path):
    env = {**os.environ, "QUIRE_DUMP_TO": str(tmp_path)}
    run = subprocess.run([sys.executable, script], capture_output=True, text=True, env=env, check=False)
    assert run.returncode == 0, run.stderr
    assert {"loss", "loss-2"} <= {p.name for p in tmp_path.iterdir()}
    assert (tmp_path / "loss" / "00-jaxpr.jaxpr").is_file()
    assert any(p.name.endswith("-assembly.s") for p in (tmp_path / "loss").iterdir())


WRONG = [
    (("-",), "{ lambda ; a:f32[3]. let b:f32[3] = mull a a in (b,) }", 1, "<stdin>:1:37: no primitive is named mull"),
    (("-",), "{ lambda ; a:f32[3]. let b:f32[2] = neg a in (b,) }", 1, "result 0 of neg has type f32[3], the equation says"),
    (("-", "--passes", "simplfy"), PROGRAM, 2, "no pass is named 'simplfy'; did you mean 'simplify'?"),
    (("-", "--stage", "stabelhlo"), PROGRAM, 2, "no stage is named 'stabelhlo' for target cpu: did you mean 'stablehlo'?"),
    (("-", "--target", "tpu"), PROGRAM, 2, "no target is named 'tpu'; the targets are cpu, vulkan"),
    (("missing.jaxpr",), "", 2, "no file missing.jaxpr"),
    (("missing.py:f",), "", 2, "no file missing.py"),
    (("-", "--nonsense"), PROGRAM, 2, "unrecognized arguments: --nonsense"),
]  # fmt: skip


@pytest.mark.parametrize(("args", "stdin", "status", "message"), WRONG, ids=[m[:25] for *_, m in WRONG])
def test_wrong_use(args, stdin, status, message):
    assert message in dumpir(*args, stdin=stdin, status=status).stderr


WRONG_FUNCTIONS = [
    (":los", ("f32[3]",), 2, "has no function los; did you mean loss?"),
    (":loss", None, 2, "loss takes x, y: give a type or a value for each, as in --args 'f32[8,3]' 'f32[8,3]'"),
    (":loss", ("f32[8,3]", "f32[8,2]"), 1, "TypeError: add: the operands must have one shape"),
    (":loss", ("f32[8,3", "1"), 2, "--args 'f32[8,3': SyntaxError"),
    (":loss", ("unknown", "1"), 2, "--args 'unknown': NameError"),
    (":scale", ("1",), 2, "scale is ndarray, not a function"),
    (":bad", ("f32[]",), 1, "was used as a Python condition"),
    ("", ("1",), 2, "--args belongs to a function"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("function", "args", "status", "message"), WRONG_FUNCTIONS, ids=[m[:25] for *_, m in WRONG_FUNCTIONS]
)
def test_wrong_functions(script, function, args, status, message):
    run = dumpir(script + function, *(("--args", *args) if args else ()), status=status)
    assert message in run.stderr
    if status == 1:
        assert re.search(r"model.py:\d+", run.stderr)


def test_a_script_that_compiles_nothing_or_fails(tmp_path):
    path = tmp_path / "empty.py"
    path.write_text("print('hello')")
    assert "compiled no function: decorate one with @quire.compile" in dumpir(str(path), status=2).stderr
    path.write_text("x = 1\n1 / 0")
    said = dumpir(str(path), status=1).stderr
    assert "ZeroDivisionError: division by zero" in said and "empty.py:2" in said


def test_compare_has_its_own_status():
    plugin = str(Path(__file__).parents[1] / "passes" / "plugin")
    run = dumpir(
        "-", "--passes", "simplify,halve,dce", "--compare", stdin=PROGRAM, status=3, env={"PYTHONPATH": plugin}
    )
    assert "pass halve changes the numbers: result 0 at index (0,) was" in run.stdout
    assert "halve: Change the numbers" in dumpir("--list-passes", env={"PYTHONPATH": plugin}).stdout


COMPARED = """
import quire.numpy as np, quire
def layer(x, w):
    h = np.tanh(x @ w)
    return (h ** 2).sum(), quire.nn.softmax(h)
def calls(x):
    return quire.pure_callback(lambda v: v, quire.ShapeDtypeStruct((2,), np.float32), x)
"""
PLANTED = """
from quire.backends.stablehlo.lowering import lowering
from quire.ir.primitives.elementwise import cos_p, sin_p
lowering.rules[sin_p] = lowering.rules[cos_p]
import quire.numpy as np
def model(x):
    y = x @ x
    return y, np.sin(y) + 1
"""


def test_compare_goes_through_to_the_compiled_program(tmp_path):
    path = tmp_path / "compared.py"
    path.write_text(COMPARED)
    # Sums of 300 products of both signs in another order differ by more than units in the last place.
    run = dumpir(f"{path}:layer", "--args", "f32[64,300]", "f32[300,200]", "--compare")
    heading, first, *stages = run.stdout.splitlines()
    assert heading == "// layer: compare (cpu)"
    assert re.fullmatch(r"layer: equal, 2 results, largest difference \S+e-0[5-7](, which rounding explains)?", first)
    names = [row.split("  ")[1] for row in stages]
    assert names[-4:] == ["IREE without kernels", "IREE with kernels", "two runs", "one worker and several"]
    without = dumpir(f"{path}:layer", "--args", "np.ones((2, 3))", "np.ones((3, 2))", "--compare", "-p", "").stdout
    assert [row.split("  ")[1] for row in without.splitlines()[2:]] == names[-4:]
    assert "calls: not compared: it calls a function of yours by pure_callback (at " in (
        dumpir(f"{path}:calls", "--args", "f32[2]", "--compare").stdout
    )
    only = dumpir(f"{path}:layer", "--args", "f32[2,3]", "f32[3,2]", "--compare", "--target", "metal").stdout
    assert re.search(
        r"layer: equal, 2 results, .*; not run compiled: target metal has no devices: programs for it are compiled only\n",
        only,
    )
    assert "let" in dumpir(f"{path}:layer", "--args", "f32[2,3]", "f32[3,2]", "--compare", "-s", "jaxpr").stdout


def test_compare_names_where_the_compiled_program_is_wrong(tmp_path):
    path = tmp_path / "planted.py"
    path.write_text(PLANTED)
    said = dumpir(f"{path}:model", "--args", "np.ones((3, 3))", "--compare", status=3, env={"QUIRE_CACHE": "0"}).stdout
    assert (
        "the compiled program changes the numbers (the 14 passes do not: it is lowering or IREE): result 1 at index"
        in said
    )
    assert "9 of 9 elements differ, by " in said
    assert re.search(
        r"in IREE without kernels: the first wrong value is that of sin \(at .*planted.py:8, in model\): \S+ at index \(0, 0\) inst",
        said,
    )
    assert "by the lowering of sin: f32[3,3] = sin f32[3,3]" in said


def test_the_console_script():
    command = Path(sys.executable).with_name("dumpir")
    if not command.exists():
        pytest.skip("quire is not installed with its console scripts")
    run = subprocess.run([command, "-p", "dce"], input=PROGRAM, capture_output=True, text=True, check=False)
    assert run.returncode == 0 and parse(run.stdout)
