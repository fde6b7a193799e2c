"""jvp, linearize, transpose, vmap and checkify as passes: their programs have the numbers of grad and the others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import quire
import quire.numpy as qnp
from quire import lax
from quire.backends.reference.engine import eval_jaxpr
from quire.ir.errors import PassError
from quire.ir.jaxpr import ClosedJaxpr
from quire.ir.parser import parse
from quire.ir.verifier import verify
from quire.passes.base import parse_pipeline, pipeline_to_str
from quire.passes.manager import PassManager

SCALE = np.linspace(0.5, 1.5, 4, dtype=np.float32)
X, T = np.linspace(-1, 1, 4, dtype=np.float32), np.linspace(2, 3, 4, dtype=np.float32)
N = np.int32(2)


def model(x: Any, n: Any) -> Any:
    """A constant, a branch, a loop, an integer argument that is a result too."""
    y = qnp.sin(x) * SCALE
    y = lax.cond(n > 1, lambda y: y * y, lambda y: -y, y)
    y, _ = lax.scan(lambda c, s: (c * s + 1, None), y, SCALE[:3])
    return y.sum(), n


PROGRAM: ClosedJaxpr = quire.make_jaxpr(model)(X, N)


def after(pipeline: str, program: ClosedJaxpr = PROGRAM) -> ClosedJaxpr:
    return PassManager(pipeline, verify_each=True).run(program)


def close(got: Any, want: Any) -> None:
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=2e-5, atol=1e-6)


def test_jvp() -> None:
    f = lambda x: model(x, N)[0]  # noqa: E731
    y, t = quire.jvp(f, (X,), (T,))
    close(eval_jaxpr(after("jvp"), X, N, T), (y, N, t))
    close(eval_jaxpr(after("jvp{wrt=0},simplify,cse,dce"), X, N, T), (y, N, t))


def test_linearize_and_transpose() -> None:
    f = lambda x: model(x, N)[0]  # noqa: E731
    y, t = quire.jvp(f, (X,), (T,))
    out, n, *residuals = eval_jaxpr(after("linearize"), X, N)
    close((out, n), (y, N))
    close(eval_jaxpr(after("linearize{part=linear}"), *residuals, T), (t,))
    backward = after("linearize{part=linear},transpose{wrt=-1},dce")
    close(eval_jaxpr(backward, *residuals, np.float32(1)), (quire.grad(f)(X),))


def test_vmap() -> None:
    xs = np.stack([X, T, X + 1])
    for axes, given in (("0|none", xs), ("-1|none", xs.T), ("1|none", xs.T)):
        got = eval_jaxpr(after(f"vmap{{in-axes={axes},size=3}}"), given, N)
        close(got, (quire.vmap(lambda x: model(x, N)[0])(xs), np.full(3, N)))


def test_a_named_axis() -> None:
    program = parse("{ lambda ; x:f32[]. let s:f32[] = psum[axes=(i,)] x q:f32[] = div x s in (q,) }")
    close(eval_jaxpr(after("vmap{size=4,axis-name=i}", program), T), (T / T.sum(),))


def test_checkify() -> None:
    program = quire.make_jaxpr(lambda x, i: (1 / x)[i])(X, N)
    checked = after("checkify{errors=div|index}", program)
    verify(checked)
    assert int(eval_jaxpr(checked, X, N)[0]) == 0
    codes = {int(eval_jaxpr(checked, *a)[0]) for a in ((X * 0, N), (X, np.int32(9)))}
    assert len(codes) == 2 and 0 not in codes


def test_they_compose_and_are_compared() -> None:
    pipeline = "jvp,simplify,vmap{in-axes=0|none|0,size=3},simplify,dce"
    assert pipeline_to_str(parse_pipeline(pipeline)) == pipeline
    result = PassManager(pipeline, verify_each=True, compare=True).run_recorded(PROGRAM)
    assert result.reference is result.records[2].after
    assert [a.short() for a in result.program.in_avals] == ["f32[3,4]", "i32[]", "f32[3,4]"]
    plain = PassManager("simplify", compare=True).run_recorded(PROGRAM)
    assert plain.reference is PROGRAM


def test_sources_stay() -> None:
    (line,) = {e.source.line for e in PROGRAM.eqns if e.source and e.primitive.name == "sin"}
    for pipeline in ("jvp", "linearize", "vmap{in-axes=0|none,size=2}", "checkify"):
        assert line in {e.source.line for e in after(pipeline).eqns if e.source}, pipeline


SMALL = "{ lambda ; a:f32[3] n:i32[]. let b:f32[3] = sin a c:f32[3] = mul a b in (c, n) }"
WRONG = [
    ("jvp{wrt=1}", "jvp{wrt=1}: argument 1 is i32[]: only floating and complex ones have derivatives"),
    ("jvp{wrt=2}", "jvp{wrt=2}: there is no argument 2, the program has 2, numbered from 0"),
    ("jvp{wrt=0|-2}", "jvp{wrt=0|-2}: argument -2 is named twice"),
    ("jvp{wrt=}", "jvp{wrt=}: wrt names no argument"),
    ("jvp{wrt=x}", "option wrt of pass jvp: got 'x', expected integers separated by '|' or none"),
    ("linearize{part=both}", "linearize{part=both}: part is 'both', expected primal or linear"),
    ("transpose", "transpose: the program is not linear in argument 0: mul multiplies two values that depend on them; "
     "name the linear arguments, as in transpose{wrt=1}"),
    ("vmap", "vmap: give the number of lanes, as in vmap{size=8}"),
    ("vmap{size=2,in-axes=0|0|0}", "vmap{in-axes=0|0|0,size=2}: in-axes has 3 entries, the program 2 arguments"),
    ("vmap{size=2,in-axes=none}",
     "vmap{in-axes=none,size=2}: in-axes is none for every argument: there is nothing to map"),
    ("vmap{size=2,in-axes=2|0}",
     "vmap{in-axes=2|0,size=2}: axis 2 of argument 0: one lane is f32[3], so the lanes can be at 0 to 1"),
    ("vmap{size=2,in-axes=0|x}",
     "option in-axes of pass vmap: got '0|x', expected integers or none, separated by '|'"),
    ("checkify{errors=inf}", "checkify{errors=inf}: 'inf' is no kind of check; there are nan, div, index, user"),
]  # fmt: skip


@pytest.mark.parametrize(("pipeline", "message"), WRONG, ids=[w[0] for w in WRONG])
def test_errors(pipeline: str, message: str) -> None:
    with pytest.raises(PassError) as error:
        after(pipeline, parse(SMALL))
    assert str(error.value) == message


def test_a_program_of_integers_has_no_derivative() -> None:
    with pytest.raises(
        PassError, match=r"jvp: the program has no argument with derivatives \(its arguments: i32\[\]\)"
    ):
        after("jvp", parse("{ lambda ; n:i32[]. let in (n,) }"))


def test_what_a_rule_refuses_is_an_error_of_the_pass() -> None:
    program = quire.make_jaxpr(lambda x: lax.while_loop(lambda c: c[0].sum() < 9, lambda c: (c[0] * x,), (x,)))(T)
    with pytest.raises(PassError, match=r"transpose: .*while"):
        after("transpose", program)
