"""inline, dce and cse by program; random programs are compared in test_simplify."""

# ruff: noqa: E501  (programs and messages on one line)

from __future__ import annotations

import pytest

import quire.backends.reference  # noqa: F401
from quire.ir.jaxpr import ClosedJaxpr, all_eqns
from quire.ir.parser import parse
from quire.ir.printer import to_text
from quire.passes.manager import PassManager
from quire.passes.rewriting import count_eqns


def run(passes: str, text: str) -> ClosedJaxpr:
    return PassManager(passes, verify_each=True, compare=True).run(parse(text))


G = "{ lambda ; a:f32[] b:f32[]. let c:f32[] = sin a d:f32[] = cos b in (c, d) }"
CALL = "jit[donated_invars=(False, False) inline=False jaxpr=@g name=g]"


def test_inline_keeps_the_source_and_takes_the_callers_where_there_is_none():
    program = run(
        "inline",
        "let @g = { lambda ; a:f32[]. let b:f32[] = sin a  # g.py:1 (g)\n c:f32[] = cos b in (c,) } in\n"
        "{ lambda ; d:f32[]. let e:f32[] = jit[donated_invars=(False,) inline=False jaxpr=@g name=g] d  # m.py:2 (f)\n"
        "f:f32[] = jit[donated_invars=(False,) inline=False jaxpr=@g name=g] e  # m.py:3 (f)\n in (f,) }",
    )
    assert [(e.primitive.name, str(e.source)) for e in program.eqns] == [
        ("sin", "g.py:1 (g)"), ("cos", "m.py:2 (f)"), ("sin", "g.py:1 (g)"), ("cos", "m.py:3 (f)"),
    ]  # fmt: skip


def test_inline_goes_into_calls_and_loops():
    program = run(
        "inline",
        "let @h = { lambda ; a:f32[]. let b:f32[] = sin a in (b,) } in "
        "let @g = { lambda ; a:f32[]. let b:f32[] = jit[donated_invars=(False,) inline=False jaxpr=@h name=h] a in (b,) } in "
        "{ lambda ; a:f32[] b:f32[4]. let c:f32[] = jit[donated_invars=(False,) inline=False jaxpr=@g name=g] a "
        "d:f32[] e:f32[4] = scan[jaxpr={ lambda ; f:f32[] g:f32[]. let "
        "h:f32[] = jit[donated_invars=(False,) inline=False jaxpr=@g name=g] f i:f32[] = add h g in (i, h) } "
        "length=4 linear=(False, False) num_carry=1 num_consts=0 reverse=False unroll=1] c b in (d, e) }",
    )
    assert [e.primitive.name for e in all_eqns(program.jaxpr)] == ["sin", "scan", "sin", "add"]


def test_inline_keeps_types_where_weak_types_differ():
    program = run(
        "inline",
        "{ lambda ; a:f32[]*. let b:f32[] = jit[donated_invars=(False,) inline=False"
        " jaxpr={ lambda ; c:f32[]. let d:f32[] = sin c in (d,) } name=g] a in (b,) }",
    )
    assert [e.primitive.name for e in program.eqns] == ["convert_element_type", "sin"]
    assert count_eqns(PassManager("drop-weak-types").run(program)) == 1


def test_dce_removes_what_nothing_uses():
    out = run(
        "dce",
        "{ lambda a:f32[2]=[1.0 2.0] ; b:f32[2]. let c:f32[2] = sin b d:f32[2] = mul c a e:f32[2] = cos b in (e,) }",
    )
    assert to_text(out) == "{ lambda ; a:f32[2]. let b:f32[2] = cos a in (b,) }"


def test_dce_keeps_effects():
    text = "{ lambda ; a:f32[]. let () = debug_callback[callback=f ordered=False] a in (a,) }"
    assert count_eqns(PassManager("dce,cse").run(parse(text))) == 1


def test_dce_narrows_a_call():
    out = run("dce", f"let @g = {G} in {{ lambda ; a:f32[] b:f32[]. let c:f32[] d:f32[] = {CALL} a b in (d,) }}")
    (eqn,) = out.eqns
    assert len(eqn.inputs) == len(eqn.outputs) == 1
    assert eqn.params["donated_invars"] == (False,)
    assert [e.primitive.name for e in all_eqns(out.jaxpr)] == ["jit", "cos"]


def test_dce_narrows_a_cond():
    out = run(
        "dce",
        f"{{ lambda ; i:i32[] a:f32[] b:f32[]. let c:f32[] d:f32[] = cond[branches=({G},"
        " { lambda ; a:f32[] b:f32[]. let in (b, a) })] i a b in (c,) }",
    )
    (eqn,) = out.eqns
    # One branch needs the first operand, the other the second.
    assert (len(eqn.inputs), len(eqn.outputs)) == (3, 1)
    assert [e.primitive.name for e in all_eqns(out.jaxpr)] == ["cond", "sin"]


SCAN = (
    "{ lambda ; k:f32[] a:f32[] b:f32[] xs:f32[4] zs:f32[4]. let c:f32[] d:f32[] e:f32[4] f:f32[4] = scan["
    "jaxpr={ lambda ; k:f32[] a:f32[] b:f32[] x:f32[] z:f32[]. let g:f32[] = add a x h:f32[] = mul b k"
    " i:f32[] = add h z in (g, h, g, i) } length=4 linear=(False, False, False, False, False) num_carry=2 num_consts=1"
    " reverse=False unroll=1] k a b xs zs in (%s,) }"
)


@pytest.mark.parametrize(
    ("results", "operands", "outputs", "inner"),
    [
        ("c", 2, 1, ["add"]),
        ("e", 2, 2, ["add"]),
        ("d", 2, 1, ["mul"]),
        ("f", 3, 2, ["mul", "add"]),
        ("c, f", 5, 3, None),
    ],
)
def test_dce_narrows_a_scan_with_dead_carries(results, operands, outputs, inner):
    (eqn,) = run("dce", SCAN % results).eqns
    assert (len(eqn.inputs), len(eqn.outputs)) == (operands, outputs)
    if inner is not None:
        assert [e.primitive.name for e in eqn.params["jaxpr"].eqns] == inner


def test_dce_narrows_a_while_with_a_dead_carry():
    out = run(
        "dce",
        "{ lambda ; n:i32[] k:f32[] a:f32[] b:f32[]. let i:i32[] c:f32[] d:f32[] = while["
        "cond_jaxpr={ lambda ; n:i32[] i:i32[] a:f32[] b:f32[]. let p:bool[] = lt i n in (p,) } cond_nconsts=1"
        " body_jaxpr={ lambda ; k:f32[] i:i32[] a:f32[] b:f32[]. let j:i32[] = add i 1:i32[] e:f32[] = mul a k"
        " f:f32[] = sin b in (j, e, f) } body_nconsts=1] n k 0:i32[] a b in (d,) }",
    )
    (eqn,) = out.eqns
    assert (eqn.params["cond_nconsts"], eqn.params["body_nconsts"], len(eqn.outputs)) == (1, 0, 2)
    assert [e.primitive.name for e in eqn.params["body_jaxpr"].eqns] == ["add", "sin"]
    assert len(out.jaxpr.invars) == 4  # the program's own inputs stay


def test_cse_merges_equal_equations_in_either_order_of_operands():
    out = run(
        "cse,dce",
        "{ lambda ; a:f32[2] b:f32[2]. let c:f32[2] = add a b d:f32[2] = add b a e:f32[] = reduce_sum[axes=(0,)] c"
        " f:f32[] = reduce_sum[axes=(0,)] d g:f32[2] = sub a b h:f32[2] = sub b a in (e, f, g, h) }",
    )
    assert [e.primitive.name for e in out.eqns] == ["add", "reduce_sum", "sub", "sub"]
    assert out.jaxpr.outvars[0] is out.jaxpr.outvars[1]


def test_cse_tells_parameters_and_signed_zeros_apart():
    out = run(
        "cse",
        "{ lambda ; a:f32[2,2]. let b:f32[2] = reduce_sum[axes=(0,)] a c:f32[2] = reduce_sum[axes=(1,)] a"
        " d:f32[2,2] = add a 0.0:f32[] e:f32[2,2] = add a -0.0:f32[] in (b, c, d, e) }",
    )
    assert count_eqns(out) == 4


def test_cse_merges_constants_and_calls_and_looks_inside():
    out = run(
        "cse,dce",
        f"let @g = {G} in {{ lambda x:f32[2]=[1.0 2.0] y:f32[2]=[1.0 2.0] ; a:f32[] b:f32[]. let"
        f" c:f32[] d:f32[] = {CALL} a b e:f32[] f:f32[] = {CALL} a b g:f32[2] = mul x a h:f32[2] = mul y a"
        " i:f32[] = jit[donated_invars=(False,) inline=False name=k jaxpr={ lambda ; a:f32[]. let b:f32[] = sin a"
        " c:f32[] = sin a d:f32[] = add b c in (d,) }] a in (c, f, g, h, i) }",
    )
    assert len(out.consts) == 1
    assert [e.primitive.name for e in out.eqns] == ["jit", "mul", "jit"]
    assert [e.primitive.name for e in out.eqns[-1].params["jaxpr"].eqns] == ["sin", "add"]


def test_cse_keeps_effects_and_copies_apart():
    text = (
        "{ lambda ; a:f32[]. let b:f32[] = copy a c:f32[] = copy a d:f32[] = io_callback[callback=f ordered=True "
        "result_avals=(f32[],)] a e:f32[] = io_callback[callback=f ordered=True result_avals=(f32[],)] a in (b, c, d, e) }"
    )
    assert count_eqns(PassManager("cse").run(parse(text))) == 4


def test_canonical_literals():
    out = run(
        "canonicalize-literals",
        "{ lambda a:f32[]=[2.0] b:f32[3]=splat(0.5) c:f32[2]=[1.0 2.0] ; d:f32[3]. let e:f32[3] = mul 3.0:f32[] d"
        " f:f32[3] = mul e a g:f32[3] = add f b in (g, c) }",
    )
    assert to_text(out) == (
        "{ lambda a:f32[2]=[1.0 2.0] ; b:f32[3]. let\n"
        "    c:f32[3] = broadcast_in_dim[broadcast_dimensions=() shape=(3,)] 0.5:f32[]\n"
        "    d:f32[3] = mul b 3.0:f32[]\n"
        "    e:f32[3] = mul d 2.0:f32[]\n"
        "    f:f32[3] = add e c\n"
        "  in (f, a) }"
    )


def test_a_body_that_is_called_often_is_transformed_once():
    program = run(
        "simplify",
        "let @g = { lambda ; a:f32[]. let b:f32[] = neg a c:f32[] = neg b in (c,) } in { lambda ; a:f32[]. let"
        " b:f32[] = jit[donated_invars=(False,) inline=False jaxpr=@g name=g] a"
        " c:f32[] = jit[donated_invars=(False,) inline=False jaxpr=@g name=g] b in (c,) }",
    )
    first, second = (e.params["jaxpr"] for e in program.eqns)
    assert first is second
