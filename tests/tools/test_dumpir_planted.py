"""Bugs planted at every level are found and named by ``dumpir --compare``, and made small by ``--reduce``."""

# ruff: noqa: E501  (patterns on one line)

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import quire
import quire.numpy as qnp
from quire import lax
from quire.backends.iree.service import compile_service
from quire.backends.kernels.elements import operations
from quire.backends.stablehlo.lowering import lowering
from quire.compiling.building import PROGRAM
from quire.compiling.stage_comparison import without_fusions
from quire.compiling.stage_texts import stages_of
from quire.ir.errors import CompileError
from quire.ir.jaxpr import ClosedJaxpr, Eqn, Jaxpr
from quire.ir.parser import parse
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import reductions as rd
from quire.ir.primitives.calls import fusion_p
from quire.passes import fusion
from quire.passes.ad.rules import jvp, transpose
from quire.passes.batching.rules import batching
from quire.passes.compare import evaluate, random_inputs
from quire.passes.simplify.rewriter import RULES, Rule
from quire.tools.dumpir.cli import main
from quire.tools.dumpir.comparison import compare_answer
from quire.tools.dumpir.inputs import Program
from quire.tools.dumpir.rules import check_rules

X = np.linspace(-1.5, 2.0, 40, dtype=np.float32).reshape(5, 8)


def program_of(f: Callable[..., Any], *args: Any) -> Program:
    traced = quire.compile(f).trace(*args)
    leaves = tuple(np.asarray(x) for x in args)
    return Program(
        traced.fun_name, traced.jaxpr, "cpu", names=traced.names, out_tree=traced.out_tree, values=leaves,
        transformations=traced.transformations,
    )  # fmt: skip


def compared(f: Callable[..., Any], *args: Any) -> str:
    """What --compare says of a function, which is wrong."""
    program = program_of(f, *args)
    answer = compare_answer(stages_of(program.closed, "cpu", None, program.name), program)
    assert answer.status == 3 and not answer.data["equal"] and len(answer.lines) <= 40
    return "\n".join(answer.lines)


def line_here(f: Callable[..., Any], offset: int) -> str:
    return rf"test_dumpir_planted.py:{f.__code__.co_firstlineno + offset}\b"


def test_a_lowering(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(lowering.rules, ew.sin_p, lowering.rules[ew.cos_p])

    def f(x):
        y = qnp.exp(x) * 2
        return qnp.sum(qnp.sin(y), axis=0) + 1, y

    said = compared(f, X)
    assert re.search(r"changes the numbers \(the \d+ passes do not: it is lowering or IREE\): result 0", said)
    assert re.search(r"in IREE without kernels: the first wrong value is that of sin \(at .*" + line_here(f, 2), said)
    assert "by the lowering of sin: f32[5,8] = sin f32[5,8]" in said


def test_a_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only kernels are wrong: what an elementwise one computes for a product with a number."""
    rules: dict[Any, Any] = operations._RULES  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setitem(rules, ew.tanh_p, rules[ew.exp_p])

    def f(x):
        y = x * 2 + 1
        for _ in range(4):
            y = qnp.tanh(y) * 0.5 + qnp.exp(-y * y) / 3
        return y - 1

    said = compared(f, X + np.float32(0.125))
    assert "\n  IREE without kernels: " in said and "IREE with kernels" in said
    assert re.search(r"the first wrong value is that of fusion \(elementwise\) \(at .*" + line_here(f, 3), said)
    assert re.search(r"\n  by kernel elementwise_\w+: f32\[5,8\] = fusion \(elementwise\) f32\[5,8\]", said)


def test_a_rule_of_simplify(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = Rule("abs of anything", lambda r, e: e.inputs[0])
    monkeypatch.setitem(RULES, ew.abs_p, [wrong, *RULES.get(ew.abs_p, ())])

    def f(x):
        y = qnp.abs(qnp.exp(x))
        return qnp.abs(x) + y

    said = compared(f, X)
    assert "pass simplify changes the numbers: result 0 at index (0, 0)" in said
    assert re.search(r"by its rule 'abs of anything' on f32\[5,8\] = abs f32\[5,8\] \(at .*" + line_here(f, 2), said)


def test_rules_of_other_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """cse takes a difference for a sum; a fusion computes another function: the first wrong rewrite has its name and line."""

    def f(x):
        y = (qnp.exp(x) - qnp.sin(x)) * (qnp.sin(x) - qnp.exp(x))
        return qnp.exp(y * 0.1) + y

    with monkeypatch.context() as planted:
        planted.setattr(ew.sub_p, "commutative", True)
        said = compared(f, X)
    assert "pass cse changes the numbers: result 0 at index (0, 0)" in said
    assert re.search(
        r"by its rule 'cse sub' on f32\[5,8\] = sub f32\[5,8\], f32\[5,8\] \(at .*" + line_here(f, 1), said
    )

    right = fusion.replaced

    def wrong(jaxpr: Jaxpr, clusters: Any) -> Jaxpr:
        """exp within a fusion is expm1."""
        made = right(jaxpr, clusters)
        return Jaxpr(
            made.constvars, made.invars, made.outvars, [within(e) if e.primitive is fusion_p else e for e in made.eqns]
        )

    def within(eqn: Eqn) -> Eqn:
        inner: Jaxpr = eqn.params["jaxpr"].jaxpr
        eqns = [e.replace(primitive=ew.expm1_p, params={}) if e.primitive is ew.exp_p else e for e in inner.eqns]
        changed = ClosedJaxpr(Jaxpr(inner.constvars, inner.invars, inner.outvars, eqns))
        return eqn.replace(params={**eqn.params, "jaxpr": changed})

    def g(x):
        y = x * 2 + 1
        for _ in range(4):
            y = qnp.tanh(y) * 0.5 + qnp.exp(-y * y) / 3
        return y - 1

    monkeypatch.setattr(fusion, "replaced", wrong)
    said = compared(g, X + np.float32(0.125))
    assert re.search(r"^g: pass fuse changes the numbers: result 0 at index ", said), said
    assert re.search(
        r"\n  by its rule 'elementwise of \d+' on f32\[5,8\] = .* \(at .*test_dumpir_planted.py:\d+", said
    ), said


def test_rules_of_derivatives_and_batching(monkeypatch: pytest.MonkeyPatch) -> None:
    def f(x):
        return qnp.sum(qnp.sin(x) * qnp.cumsum(x, axis=1) + qnp.max(x))

    def gradient(x):
        return quire.grad(f)(x)

    def mapped(x):
        return quire.vmap(lambda row: qnp.cumsum(row) / 2)(x)

    with monkeypatch.context() as planted:
        planted.setitem(jvp.rules, ew.sin_p, jvp.rules[ew.cos_p])
        said = compared(gradient, X)
        assert re.search(r"the jvp rule of sin is wrong \(at .*" + line_here(f, 1), said)
        assert "where differences give" in said
    with monkeypatch.context() as planted:
        rule = transpose.rules[rd.cumsum_p]
        planted.setitem(
            transpose.rules, rd.cumsum_p, lambda ct, x, *, axis, reverse: rule(ct, x, axis=axis, reverse=not reverse)
        )
        said = compared(gradient, X)
        assert re.search(
            r"the transpose rule of cumsum is wrong \(at .*" + line_here(f, 1) + r"\): <vjp\(ct\), t> is ", said
        )
    with monkeypatch.context() as planted:
        planted.setitem(
            batching.rules, rd.cumsum_p,
            lambda lanes, operands, dims, *, axis, reverse: (rd.cumsum_p.bind(*operands, axis=0, reverse=reverse), dims[0]),
        )  # fmt: skip
        said = compared(mapped, X)
        assert re.search(
            r"the batching rule of cumsum is wrong \(at .*" + line_here(mapped, 1) + r"\): lane 0 has ", said
        )
    for g in (gradient, mapped):
        program = program_of(g, X)
        assert check_rules(program.transformations)[0] is None


def test_nothing_is_wrong_with_a_model() -> None:
    """What rounding explains is no difference; the rules that a mapped gradient of many operations needs are right."""

    def f(x, w):
        h = quire.nn.softmax(qnp.sort(qnp.tanh(x @ w), axis=-1))
        z = lax.fori_loop(0, 3, lambda k, c: c * qnp.cos(c), qnp.cumsum(h, axis=0))
        return qnp.sum(qnp.where(z > 0.1, qnp.sin(z), qnp.exp(-z)) * qnp.max(x[1:3]))

    def model(x, w):
        return quire.vmap(quire.grad(f, argnums=1), in_axes=(0, None))(x, w)

    program = program_of(model, np.stack([X, X[::-1]]), np.linspace(0, 1, 64, dtype=np.float32).reshape(8, 8))
    answer = compare_answer(stages_of(program.closed, "cpu", None, program.name), program)
    assert answer.status == 0, answer.lines
    assert re.match(r"model: equal, 1 results, (largest difference \S+e-0[5-9]|to the bit)", answer.lines[0])
    counts = answer.data["rules"]
    assert counts["derivatives"] > 8 and counts["transposes"] > 8 and counts["batched"] > 8
    fused = stages_of(program.closed, "cpu").result.program
    args = random_inputs(fused.in_avals)
    for a, b in zip(evaluate(fused, args), evaluate(without_fusions(fused), args)):
        np.testing.assert_array_equal(a, b)


def attention(x, w):
    """Masked by a number that stands for infinity; the maximum of its softmax starts from -inf, which is captured."""
    s = 40 * (x @ w) @ x.T
    return qnp.sum(quire.nn.softmax(qnp.where(qnp.tril(qnp.ones(s.shape, bool)), s, -1e9)) @ x)


def forward_scores(x, w):
    """-1e30 minus a number is -1e30: a step of a difference does not move it."""
    a = qnp.full(8, -1e30).at[0].set(x[0, 0])
    return qnp.sum(qnp.logaddexp(a - qnp.max(a), (x @ w)[1]) - lax.convert_element_type(a, np.float32))


def near_a_kink(x, w):
    return qnp.sum(qnp.maximum(x[0] * 1e-7, 0) + qnp.maximum((x @ w)[1], 1e-5)) + qnp.max(
        qnp.zeros(8).at[3].set(1e-6 * w[0, 0])
    )


def decompositions(x, w):
    m = w @ w.T + 8 * qnp.eye(8)
    values, vectors = qnp.linalg.eigh(m)
    return qnp.sum(qnp.linalg.cholesky(m)[:, 0]) + qnp.sum(values * qnp.cos(vectors[0] ** 2))


def cancelling(x, w):
    """A row of it is a sum of numbers that cancel to nothing but rounding."""
    return qnp.sum((x - qnp.mean(x, axis=1, keepdims=True)) @ qnp.ones(8) * 1e6 + (x @ w)[:, 0])


def ties(x, w):
    """The median of equal numbers moves by the median of their tangents, whichever of them the rule takes."""
    low = qnp.floor(w) * 0.5 + 0 * w
    return qnp.sum(qnp.sort(low, axis=0) * w) + qnp.sum(lax.top_k(low, 3)[0] * x[:, :3].sum())


def promised(x, w):
    """Indices that are inside for the arguments that the function has, and not for random ones."""
    i = lax.convert_element_type((x[:, 0] - x[0, 0]) * 2, np.int32)
    return qnp.sum(w.at[i].get(mode="promise_in_bounds") * 2) + qnp.sum(qnp.nextafter(w, 2 * w))


@pytest.mark.parametrize(
    "f", [attention, forward_scores, near_a_kink, decompositions, cancelling, ties, promised]
)  # fmt: skip
def test_no_false_alarm_of_rules(f: Callable[..., Any]) -> None:
    w = np.random.default_rng(0).standard_normal((8, 8)).astype(np.float32)
    mapped = quire.vmap(quire.grad(f, (0, 1)), in_axes=(0, None))
    fault, counts = check_rules(program_of(mapped, np.stack([X, X[::-1]]), w).transformations)
    assert fault is None, str(fault)
    assert counts["derivatives"] > 3 and counts["transposes"] > 3 and counts["batched"] > 8


SCRIPT = """\
import quire.numpy as np
from quire import lax
def f(x, w):
    y = np.sort(np.tanh(x @ w))
    z = np.cumsum(y, 0) * np.max(x)
    u = lax.fori_loop(0, 5, lambda k, c: c * 0.5 + np.exp(-c), z)
    return np.sum(u), np.mean(y * 2), {'a': np.sin(u[::2]) + 3}
"""


def run(*words: str) -> int:
    return main(list(words))


@pytest.fixture
def script(tmp_path: Path) -> Sequence[str]:
    path = tmp_path / "model.py"
    path.write_text(SCRIPT)
    return [f"{path}:f", "--args", "f32[12,8]", "f32[8,8]", "-o", str(tmp_path / "out")]


def test_reduce_what_is_wrong(
    script: Sequence[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setitem(lowering.rules, rd.cumsum_p, lowering.rules[rd.cummax_p])
    assert run(*script, "--reduce", "--until", "wrong") == 0
    program = parse((tmp_path / "out" / "reduced.jaxpr").read_text())
    assert [e.primitive for e in program.eqns] == [rd.cumsum_p] and program.in_avals[0].size == 2
    said = capsys.readouterr().out
    assert re.search(r"\d+ equations of .* elements became 1 of 4, \d+ programs were tried", said)
    text = (tmp_path / "out" / "reduced.py").read_text()
    assert '= p["cumsum"].bind(a, axis=0, reverse=False)' in text
    # In a process where nothing is planted, the script runs and finds nothing wrong.
    done = subprocess.run(
        [sys.executable, str(tmp_path / "out" / "reduced.py")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0 and "compiled: [" in done.stdout, done.stderr


def test_reduce_by_a_text_and_a_command(
    script: Sequence[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """Errors of lowering; a command that looks at the file."""

    def fails(ctx, x, **params):
        raise RuntimeError(f"no sums of {ctx.avals_in[0].dtype} here")

    with monkeypatch.context() as planted:
        planted.setitem(lowering.rules, rd.cumsum_p, fails)
        assert run(*script, "-p", "inline,dce", "--reduce", "--until", "no sums of float32") == 0
    program = parse((tmp_path / "out" / "reduced.jaxpr").read_text())
    assert [e.primitive.name for e in program.eqns] == ["cumsum"] and program.in_avals[0].size == 1
    assert run(*script, "--reduce", "grep -q 'sort\\[' {}") == 0
    program = parse((tmp_path / "out" / "reduced.jaxpr").read_text())
    assert [e.primitive.name for e in program.eqns] == ["sort"] and program.in_avals[0].size == 1
    assert run(*script, "--reduce", "grep -q conv {}") == 2
    assert "nothing to reduce in f: the command fails for it" in capsys.readouterr().err
    assert run(*script, "--reduce") == 2


def test_the_reproducer_of_a_failed_compile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It holds the program as it was traced, which can be reduced."""
    monkeypatch.setenv("QUIRE_CACHE_DIR", str(tmp_path))
    service = compile_service()

    def fail(module: Any, flags: Any, **kwargs: Any) -> Any:
        folder = tmp_path / "reproducer"
        folder.mkdir(exist_ok=True)
        error = CompileError("IREE's compiler gave up")
        error.reproducer = folder
        raise error

    monkeypatch.setattr(service, "compile", fail)
    with pytest.raises(CompileError, match="gave up"):
        quire.compile(lambda x: qnp.cumsum(quire.nn.softmax(x) * 1.625), donate_argnums=0)(X[0].copy())
    text = (tmp_path / "reproducer" / PROGRAM).read_text()
    assert text.startswith("// <lambda>, for target cpu, donated 0\n") and "cumsum" in text
    assert run(str(tmp_path / "reproducer"), "--reduce", "--until", "crash", "-o", str(tmp_path / "out")) == 0
    assert len(parse((tmp_path / "out" / "reduced.jaxpr").read_text()).eqns) == 1
