"""The identity of a jaxpr: equal exactly where the printed form is."""

import numpy as np

import quire
import quire.numpy as qnp
from quire.ir.identity import identity
from quire.ir.jaxpr import ClosedJaxpr
from quire.ir.printer import jaxpr_to_str
from tests.primitive_applications import APPLICATIONS


def jaxprs() -> list:
    traced = []
    for a in APPLICATIONS:
        try:
            traced.append(quire.make_jaxpr(a.f)(*a.args).jaxpr)
        except TypeError:  # with static arguments
            continue
    return traced


def test_programs_have_one_identity_where_they_have_one_text():
    found = jaxprs()
    assert len(found) > 100
    by_text: dict[str, bytes] = {}
    for j in found:
        assert by_text.setdefault(jaxpr_to_str(j), identity(j)) == identity(j)
    assert len(set(by_text.values())) == len(by_text)


def test_names_and_source_lines_are_no_part_of_it():
    def f(x):
        return qnp.sin(x) + 1

    def g(y):
        z = qnp.sin(y)
        return z + 1

    x = np.ones(3, np.float32)
    assert identity(quire.make_jaxpr(f)(x).jaxpr) == identity(quire.make_jaxpr(g)(x).jaxpr)


def test_what_a_program_computes_is_part_of_it():
    x = np.ones((2, 3), np.float32)
    programs = [
        lambda x: x + 0.0,
        lambda x: x + -0.0,
        lambda x: x + np.float32(2),
        lambda x: x + np.float32(np.nan),
        lambda x: x + x,
        lambda x: (x + x, x),
        lambda x: qnp.sum(x, 0),
        lambda x: qnp.sum(x, 1),
        lambda x: quire.jit(lambda y: y + y)(x),
        lambda x: quire.lax.cond(x[0, 0] > 0, lambda y: y, lambda y: -y, x),
        lambda x: quire.lax.cond(x[0, 0] > 0, lambda y: -y, lambda y: y, x),
        lambda x: quire.lax.cond(x[0, 0] > 0, lambda y: y, lambda y: y, x),
    ]
    closed: list[ClosedJaxpr] = [quire.make_jaxpr(f)(x) for f in programs]
    assert len({identity(c.jaxpr) for c in closed}) == len(programs)
    assert identity(closed[0].jaxpr) != identity(quire.make_jaxpr(programs[0])(x.T).jaxpr)
