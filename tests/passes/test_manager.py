"""Pipelines as text, the registry of passes, and what the pass manager does around each pass."""

# ruff: noqa: E501  (programs and messages on one line)

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

import quire.backends.reference  # noqa: F401
from quire.backends.targets import TARGETS
from quire.ir.config import config
from quire.ir.errors import PassError, VerificationError
from quire.ir.jaxpr import ClosedJaxpr, Jaxpr
from quire.ir.parser import parse
from quire.passes.base import Pass, find_pass, parse_pipeline, pipeline_to_str, register_pass, registered_passes
from quire.passes.manager import PassManager

PROGRAM = parse(
    "{ lambda ; a:f32[3]. let b:f32[3] = neg a  # m.py:1 (f)\n c:f32[3] = neg b  # m.py:2 (f)\n"
    " d:f32[3] = mul c 2.0:f32[]  # m.py:3 (f)\n in (d,) }"
)


@register_pass
@dataclass(frozen=True)
class Sample(Pass):
    """A pass with an option of each type; by `mode` it breaks the program, raises, or does nothing."""

    name = "sample-of-tests"
    max_inputs: int = 8
    factor: float = 1.0
    deep: bool = False
    mode: str = "nothing"
    limit: int | None = None
    only: tuple[str, ...] = ()

    def apply(self, program, context):
        j = program.jaxpr
        if self.mode == "raise":
            raise RuntimeError("bad luck")
        if self.mode == "break":
            return ClosedJaxpr(Jaxpr((), j.invars, j.outvars, j.eqns[1:]))
        if self.mode == "drop":
            return ClosedJaxpr(Jaxpr((), j.invars, [j.eqns[0].outputs[0]], j.eqns))
        return program


PIPELINES = [
    "", "inline", "inline,simplify,cse,dce", "inline{derivatives=false},dce",
    "sample-of-tests{max-inputs=3,factor=0.5,deep=true,mode=x,limit=4,only=a|b},dce",
]  # fmt: skip


@pytest.mark.parametrize("text", PIPELINES)
def test_pipelines_round_trip(text):
    passes = parse_pipeline(text)
    assert pipeline_to_str(passes) == text
    assert parse_pipeline(pipeline_to_str(passes)) == passes


def test_options_have_their_types():
    (p,) = parse_pipeline(" sample-of-tests { max-inputs = 3 , deep , limit=none, only=x } ")
    assert p == Sample(max_inputs=3, deep=True, only=("x",))
    assert str(Sample()) == "sample-of-tests"


WRONG = [
    ("simplfy", "no pass is named 'simplfy'; did you mean 'simplify'?"),
    ("xyzzy", "no pass is named 'xyzzy'; the passes are canonicalize-literals, checkify, cse"),
    ("inline{derivative=1}", "pass inline has no option 'derivative'; did you mean 'derivatives'?"),
    ("dce{x=1}", "pass dce has no option 'x'; it has no options"),
    ("inline{derivatives=maybe}", "option derivatives of pass inline: got 'maybe', expected bool"),
    ("sample-of-tests{max-inputs=1.5}", "option max-inputs of pass sample-of-tests: got '1.5', expected int"),
    ("sample-of-tests{deep=true,deep=false}", "option deep of pass sample-of-tests is given twice"),
    ("dce,", "a pass is expected after the last ','"),
    ("dce cse", "expected pass or pass{option=value,...} separated by ',' at 'dce cse'"),
    ("dce{", "expected pass or pass{option=value,...} separated by ',' at 'dce{'"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message"), WRONG, ids=[t for t, _ in WRONG])
def test_wrong_pipelines_are_refused(text, message):
    with pytest.raises(PassError) as caught:
        parse_pipeline(text)
    assert message in str(caught.value)


def test_a_name_is_taken_once():
    with pytest.raises(PassError, match="two passes are named 'dce': .*DeadCode and .*Other"):

        @register_pass
        @dataclass(frozen=True)
        class Other(Pass):
            name = "dce"


def test_a_name_is_plain():
    with pytest.raises(PassError, match="its name 'My Pass' must be lower-case words"):

        @register_pass
        @dataclass(frozen=True)
        class Other(Pass):
            name = "My Pass"


def test_every_pass_says_what_it_does():
    for name, cls in registered_passes().items():
        assert cls.__doc__ and not cls.__doc__.startswith(cls.__name__ + "("), name
        assert find_pass(name) is cls


@pytest.mark.parametrize("target", TARGETS)
def test_every_target_has_a_pipeline(target):
    text = TARGETS[target].pipeline
    assert pipeline_to_str(parse_pipeline(text)) == text
    assert PassManager(text, verify_each=True).run(PROGRAM).eqns


def test_records():
    seen = []
    manager = PassManager("simplify,dce,simplify", observers=[seen.append])
    result = manager.run_recorded(PROGRAM)
    assert tuple(seen) == result.records
    assert [r.stage for r in seen] == list(manager.stages) == ["simplify", "dce", "simplify-2"]
    assert [(r.eqns_before, r.eqns_after) for r in seen] == [(3, 2), (2, 1), (1, 1)]
    assert seen[0].counters == {"neg(neg(x)) -> x": 1}
    assert seen[0].before is PROGRAM and seen[1].before is seen[0].after
    assert all(r.seconds > 0 for r in seen)
    table = result.table().splitlines()
    assert table[0].split() == ["pass", "ms", "equations"]
    assert "3 -> 2" in table[1] and "neg(neg(x)) -> x: 1" in table[1]
    assert table[-1].startswith("total")


def test_verify_each_names_the_pass():
    with pytest.raises(
        VerificationError, match=r"^after pass sample-of-tests\{mode=break\}: operand .* \(at m.py:2, in f\)"
    ):
        PassManager("dce,sample-of-tests{mode=break}", verify_each=True).run(PROGRAM)
    with config.override(verify_each=True), pytest.raises(VerificationError, match="after pass"):
        PassManager("sample-of-tests{mode=break}").run(PROGRAM)


def test_a_failing_pass_is_named():
    with pytest.raises(PassError, match=r"pass sample-of-tests\{mode=raise\} failed: RuntimeError: bad luck"):
        PassManager("sample-of-tests{mode=raise}").run(PROGRAM)


def test_compare_finds_the_first_pass_that_changes_the_numbers():
    assert PassManager("simplify,dce", compare=True).run(PROGRAM).eqns
    with pytest.raises(
        PassError, match=r"pass sample-of-tests\{mode=drop\} changes the numbers: result 0 at index \(0,\) was"
    ):
        PassManager("simplify,sample-of-tests{mode=drop},dce", compare=True).run(PROGRAM)
    with pytest.raises(PassError, match=r"was 4.0, is -2.0"):
        PassManager("sample-of-tests{mode=drop}", compare=True, compare_inputs=[[2.0, 3.0, 4.0]]).run(PROGRAM)


def in_a_process_with_the_plugin(code: str, *more_paths: Path) -> subprocess.CompletedProcess[str]:
    folder = Path(__file__).parent / "plugin"
    path = os.pathsep.join(map(str, (folder, *more_paths)))
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
        check=False,
    )


def test_another_package_adds_a_pass():
    run = in_a_process_with_the_plugin(
        "from quire.passes.manager import PassManager\n"
        "from quire.ir.parser import parse\n"
        "print(PassManager('halve{value=0.5}').run(parse('{ lambda ; a:f32[]. let b:f32[] = mul a 2.0:f32[] in (b,) }')))"
    )
    assert run.stdout.strip() == "{ lambda ; a:f32[]. let b:f32[] = mul a 0.5:f32[] in (b,) }", run.stderr


def test_two_packages_with_one_name_are_an_error(tmp_path):
    (tmp_path / "quire_other-1.0.dist-info").mkdir()
    (tmp_path / "quire_other-1.0.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: quire-other\nVersion: 1.0\n"
    )
    (tmp_path / "quire_other-1.0.dist-info" / "entry_points.txt").write_text(
        "[quire.passes]\nhalve = quire_other:Halve\n"
    )
    (tmp_path / "quire_other.py").write_text(
        "from dataclasses import dataclass\nfrom quire.passes.base import Pass\n"
        "@dataclass(frozen=True)\nclass Halve(Pass):\n    'Another.'\n    name = 'halve'\n"
    )
    run = in_a_process_with_the_plugin("from quire.passes.base import find_pass; find_pass('halve')", tmp_path)
    assert "two passes are named 'halve': quire_" in run.stderr


def test_the_module_that_reads_pipelines_finds_all_passes():
    """Nothing else of quire is imported."""
    text = "from quire.passes.base import parse_pipeline; print(len(parse_pipeline('hoist,cse,jvp,vmap{size=8},fuse,checkify')))"
    run = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)
    assert run.stdout.strip() == "6", run.stderr
