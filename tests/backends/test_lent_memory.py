"""Functions of the host's are lent the memory of what they read and make: nothing is copied, and the numbers stay."""

import numpy as np
import pytest

import quire
import quire.numpy as qnp
from quire import lax

X = np.arange(12, dtype=np.float32).reshape(3, 4)


def call(function, *operands, like=None):
    like = operands[0] if like is None else like
    return quire.pure_callback(function, quire.ShapeDtypeStruct(like.shape, like.dtype), *operands)


def twice(x):
    return 2 * np.asarray(x)


def both(x, y):
    return np.asarray(x) + np.asarray(y), np.asarray(x) > np.asarray(y)


def two(x, y):
    return quire.pure_callback(
        both, (quire.ShapeDtypeStruct(x.shape, x.dtype), quire.ShapeDtypeStruct(x.shape, bool)), x, y
    )


def read_twice(x):
    y = qnp.sin(x)
    return call(twice, y) + call(lambda a, b: np.asarray(a) * b, y, y), y


def of_rows(x):
    """Parts of a larger array, which are read in their place."""
    y = qnp.cos(x)
    return call(twice, y[1]) + call(twice, y[2, :]), call(twice, y[:, 1])


def of_a_constant(x):
    table = qnp.asarray(np.linspace(0, 1, 4, dtype=np.float32))
    return call(lambda a, b: np.asarray(a) + b, x, table)


def carried(x):
    return lax.fori_loop(0, 5, lambda i, c: (call(twice, c[1]), c[0] - 1), (x, x + 1))


def until(x):
    return lax.while_loop(lambda c: call(twice, c).sum() < 1e4, lambda c: call(twice, c) + 1, x)


def branching(x):
    return lax.cond(x.sum() > 0, lambda: call(twice, x), lambda: x), lax.cond(
        x.sum() < 0, lambda: call(twice, x), lambda: x
    )


def bits(x):
    n = (x * 25).astype(qnp.uint8)
    return call(lambda a: np.asarray(a) + np.uint8(100), n), two(n, n[::-1])


def written_after(x):
    """What is read may be written over by what comes later, not before."""
    y = qnp.exp(x / 9)
    z = call(twice, y)
    return y.at[0].set(z[1]), call(twice, y.at[1].set(0.0))


def unused(x):
    _, larger = two(x, x[::-1])
    return larger


def empty(x):
    return call(twice, x[:0]), call(twice, x[1:])


CASES = {
    "an argument": lambda x: call(twice, x), "an argument within": lambda x: call(twice, x) + 1,
    "several results": lambda x: two(x, x[::-1]), "returned too": read_twice, "parts": of_rows, "constant": of_a_constant,
    "loop": carried, "while": until, "branches": branching, "bytes": bits, "updates": written_after, "unused": unused,
    "empty": empty, "scan": lambda x: lax.scan(lambda c, r: (call(twice, c) - r, call(twice, r)), x[0], x),
    "batched": lambda x: quire.vmap(lambda r: quire.pure_callback(
        twice, quire.ShapeDtypeStruct(r.shape, r.dtype), qnp.sin(r), vmap_method="sequential"))(x),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:Some donated buffers")
@pytest.mark.parametrize("donated", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_numbers(name, donated):
    f = CASES[name]
    with quire.disable_jit():
        expected = f(qnp.asarray(X))
    compiled = quire.jit(f, donate_argnums=(0,) if donated else ())
    for _ in range(2):
        found = compiled(qnp.array(X))
        for a, b in zip(quire.tree.leaves(found), quire.tree.leaves(expected), strict=True):
            assert a.dtype == b.dtype
            np.testing.assert_allclose(a, b, rtol=1e-6)


def plan_of(f, *args):
    return quire.jit(f).lower(*args).compile().as_text("plan")


def test_a_loop_of_calls_copies_nothing():
    """64 KB are lent for reading and for writing; the loop's own copy is of what it carries."""
    x = np.ones(1 << 14, np.float32)
    inside = plan_of(lambda v: lax.fori_loop(0, 9, lambda i, c: call(twice, c) + 1, v), x).split("  for ")[1]
    turn = [line.split()[0] for line in inside.splitlines()[1:] if line.startswith("    ")]
    assert turn == ["call", "dispatch"]


def test_large_carries_change_places():
    x = np.ones(1 << 20, np.float32)
    text = plan_of(lambda v: lax.fori_loop(0, 9, lambda i, c: call(twice, c), v), x)
    inside = text.split("  for ")[1]
    assert "exchanges" in inside.splitlines()[0]
    assert [line.split()[0] for line in inside.splitlines()[1:] if line.startswith("    ")] == ["call"]

    def changed(v):
        """Two large carries, one read by a kernel too, and of odd numbers of turns."""
        return lax.fori_loop(0, 5, lambda i, c: (call(twice, c[1]), call(twice, c[0]) + c[1][::-1]), (v, v + 1))

    x = np.arange(1 << 16, dtype=np.float32) / 65536
    with quire.disable_jit():
        expected = changed(qnp.asarray(x))
    for found, wanted in zip(quire.jit(changed)(x), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_what_a_function_keeps_is_its_own():
    kept = []

    def keep(x):
        kept.append(x)
        return np.asarray(x)

    quire.jit(lambda v: lax.fori_loop(0, 3, lambda i, c: call(keep, c) * 2, v))(X).block_until_ready()
    for i, x in enumerate(kept):
        np.testing.assert_array_equal(x, X * 2**i)


def test_an_error_ends_the_program():
    def fail(x):
        if np.asarray(x)[0, 1] > 3:
            raise ValueError("too large")
        return np.asarray(x)

    f = quire.jit(lambda v: lax.fori_loop(0, 9, lambda i, c: call(fail, c) * 2, v))
    for _ in range(2):
        with pytest.raises(ValueError, match="too large"):
            f(X).block_until_ready()
