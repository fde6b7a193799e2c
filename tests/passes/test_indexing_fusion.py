"""Gathers and scatters with what computes their index vectors: what is joined, and the numbers beside JAX's."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import quire
import quire.numpy as qnp
from tests.passes.test_fuse import fuse, inside, names

RNG = np.random.default_rng(0)
TABLE = RNG.standard_normal((40, 3, 24)).astype(np.float32)
AT = RNG.integers(-60, 60, 50).astype(np.int32)
OTHER = RNG.integers(-3, 3, 50).astype(np.int32)
ROWS = RNG.integers(-4, 5, (50, 3, 24)).astype(np.float32)


def kinds(jaxpr) -> list[str]:
    return [e.params["kind"] if e.primitive.name == "fusion" else e.primitive.name for e in jaxpr.eqns]


def test_a_wrapped_index_is_computed_inside():
    jaxpr = fuse(lambda x, i: x[i], TABLE, AT)
    assert kinds(jaxpr) == ["indexing"]
    assert inside(jaxpr) == [["lt", "add", "select_n", "broadcast_in_dim", "gather"]]
    (e,) = jaxpr.eqns
    assert e.params["space"] == (50, 1) and len(e.inputs) == 2


def test_components_are_joined_inside():
    jaxpr = fuse(lambda x, i, j: x.at[i, j].add(1.0), TABLE, AT, OTHER)
    (body,) = inside(jaxpr)
    assert body[-2:] == ["concatenate", "scatter-add"]


def test_equations_that_others_read_are_copied():
    def f(x, y, i):
        i = qnp.clip(i, 0, 30)
        return x[i], y[i], i

    jaxpr = fuse(f, TABLE, TABLE + 1, AT)
    assert kinds(jaxpr).count("indexing") == 2
    assert {"min", "max"} <= set(names(jaxpr)) | {"clamp"} or "clamp" in names(jaxpr)
    assert all(len(e.inputs) == 2 for e in jaxpr.eqns if e.primitive.name == "fusion")


def test_heavy_equations_and_stored_indices_stay_apart():
    heavy = fuse(lambda x, u: x[(qnp.tan(qnp.sin(u)) * 40).astype(np.int32)], TABLE, ROWS[:, 0, 0])
    assert ["sin" in body for body in inside(heavy)] == [True, False] and kinds(heavy)[1] == "indexing"
    assert "gather" in names(fuse(lambda x, i: x.at[i].get(mode="clip", wrap_negative_indices=False), TABLE, AT))


def test_what_is_written_is_not_read_for_the_indices():
    def f(x):
        return x.at[x % 7].add(x)

    x = np.arange(-20, 20, dtype=np.int32)
    assert "scatter-add" in names(fuse(f, x))
    np.testing.assert_array_equal(quire.jit(f)(x), jax.jit(f)(jnp.asarray(x)))


PROGRAMS = {
    "rows": lambda m: lambda x, i, j, r: x[i],
    "filled": lambda m: lambda x, i, j, r: x.at[i].get(mode="fill", fill_value=7.0),
    "clipped": lambda m: lambda x, i, j, r: x.at[i + 5].get(mode="clip"),
    "two components": lambda m: lambda x, i, j, r: x[i, j],
    "components of other shapes": lambda m: lambda x, i, j, r: x[i[:10, None], j[None, :4]],
    "a slice between": lambda m: lambda x, i, j, r: x[:, j],
    "computed": lambda m: lambda x, i, j, r: x.at[m.abs(i * 3 - j) % 40, m.arange(50) % 3].get(),
    "of another dtype": lambda m: lambda x, i, j, r: x[(i % 40).astype(m.uint8)],
    "take": lambda m: lambda x, i, j, r: m.take(x, i, axis=2, mode="clip"),
    "take_along_axis": lambda m: lambda x, i, j, r: m.take_along_axis(x, m.broadcast_to(j[:8, None, None], (8, 3, 24)), 0),
    "add": lambda m: lambda x, i, j, r: x.at[i].add(r),
    "add, and the operand itself": lambda m: lambda x, i, j, r: (x.at[i].add(r), x * 2),
    "set": lambda m: lambda x, i, j, r: x.at[m.arange(40)[::-1]].set(r[:40]),
    "max": lambda m: lambda x, i, j, r: x.at[i, j].max(r[:, 0]),
    "min": lambda m: lambda x, i, j, r: x.at[:, j].min(r[:40, :, None, 0].transpose(0, 2, 1)[:, :, :1] * m.ones((1, 50, 24))),
    "mul": lambda m: lambda x, i, j, r: x.at[i * 2].mul(r, mode="drop"),
    "into zeros": lambda m: lambda x, i, j, r: m.zeros((64, 3, 24)).at[i].add(r),
    "twice": lambda m: lambda x, i, j, r: x.at[i].add(r).at[j].set(r),
    "of what it was": lambda m: lambda x, i, j, r: x.at[i].add(x[i] + r),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_numbers_are_those_of_jax(name):
    make = PROGRAMS[name]
    args = (TABLE, AT, OTHER, ROWS)
    kept = TABLE.copy()
    got = quire.jit(make(qnp))(*args)
    want = jax.jit(make(jnp))(*map(jnp.asarray, args))
    for a, b in zip(got if isinstance(got, tuple) else [got], want if isinstance(want, tuple) else [want]):
        np.testing.assert_allclose(a, b, rtol=2e-6, atol=1e-6)
    np.testing.assert_array_equal(TABLE, kept)


def test_a_donated_operand_is_updated_in_place():
    f = quire.jit(lambda x, i, r: x.at[i].add(r), donate_argnums=0)
    assert "into a copy" in quire.jit(lambda x, i, r: x.at[i].add(r)).lower(TABLE, AT, ROWS).as_text()
    assert "in place" in f.lower(TABLE, AT, ROWS).as_text()
    got = f(qnp.asarray(TABLE), AT, ROWS)
    np.testing.assert_allclose(got, jnp.asarray(TABLE).at[AT].add(ROWS), rtol=2e-6, atol=1e-6)


def test_large_tables_are_shared_by_workgroups():
    rng = np.random.default_rng(1)
    x = rng.integers(0, 9, (3000, 160)).astype(np.float32)
    i, r = rng.integers(-3100, 3100, 4000).astype(np.int64), rng.integers(0, 9, (4000, 160)).astype(np.float32)
    f = lambda x, i, r: x.at[i].add(r)  # noqa: E731
    text = quire.jit(f).lower(x, i, r).as_text()
    assert "7 ranges of dimension 0" in text or "8 ranges of dimension 0" in text
    np.testing.assert_array_equal(quire.jit(f)(x, i, r), jnp.asarray(x).at[i].add(r))
    np.testing.assert_array_equal(quire.jit(f, donate_argnums=0)(qnp.asarray(x), i, r), jnp.asarray(x).at[i].add(r))
    last = quire.jit(lambda x, i, r: x.at[i].set(r))(x, i, r)  # the last of equal places
    want = x.copy()
    for place, row in zip(i, r):
        if -3000 <= place < 3000:
            want[place] = row
    np.testing.assert_array_equal(last, want)


def test_the_reason_is_told():
    assert (
        "no kernel: fewer than 1024 elements one by one"
        in quire.jit(lambda x, i: x[i]).lower(TABLE[:, 0, 0], AT).as_text()
    )
    text = quire.jit(lambda x, i: x[i]).lower(TABLE, AT).as_text()
    assert "gather of runs of 72 f32, the indices computed here; outside: moved inside" in text


def test_each_vector_is_computed_where_it_is_used():
    """Of a remainder, which is dear and read more than once, there was an array made anew for each update: 400 times as slow."""
    x, i = np.zeros((80, 100), np.float32), np.arange(5000, dtype=np.int32)
    compiled = quire.jit(lambda x, i: x.at[i % 80, i % 100].add(2.0))
    text = compiled.lower(x, i).as_text()
    assert "scatter add" in text and not any("store" in line and "5000xi32" in line for line in text.splitlines())
    assert not any("alloca" in line and "i32" in line for line in text.splitlines())
    expected = x.copy()
    np.add.at(expected, (i % 80, i % 100), 2)
    assert np.array_equal(compiled(x, i), expected)
