"""Values that are updated, and read before, meanwhile or afterwards: each keeps its own elements.

IREE 3.13 updates in place. Which copies it needs, in which order it reads and writes, and which buffers it takes for one
was wrong in each of these programs: they are compiled one by one, against JAX, and called several times.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as onp
import pytest

import quire
from quire import tree_util

V = onp.arange(1, 9, dtype=onp.float32)
X = onp.arange(48, dtype=onp.float32).reshape(8, 6) / 7
S = onp.array([[3, 1, 0], [1, 4, 1], [0, 1, 5]], onp.float32)
ONE = onp.int32(1)
CASES: dict[str, tuple[Any, tuple[Any, ...]]] = {}


def case(*args: Any) -> Any:
    """Enter a function of a library (quire or jax) and arrays into the table."""

    def enter(f: Any) -> Any:
        CASES[f.__name__] = f, args
        return f

    return enter


# -- scatters whose operand holds keys meanwhile -------------------------------------------------------------------------

MANY = onp.where(onp.arange(20_000) % 17 == 0, onp.nan, onp.sin(onp.arange(20_000)) * 9).astype(onp.float32)
PLACES = (onp.arange(20_000) * 7919 % 40_001 - 20_000).astype(onp.int32)


@case(MANY, PLACES)
def extremes_of_what_is_read_too(m, x, i):
    y = x * 1.5
    loop = m.lax.fori_loop(0, 3, lambda k, c: c.at[m.np.roll(i, k)].max(c[::-1] - 1), x)
    of_itself = m.np.nan_to_num(m.np.abs(x)).astype("int32")
    return x.at[i].max(x[::-1]), x.at[i].min(x), y.at[i].max(-y), y[::-1] + 1, loop, x.at[of_itself].max(x)


# -- longer chains of updates than IREE follows in a hundred rounds ------------------------------------------------------


@case(*(onp.full(1 + i % 3, i, onp.float32) for i in range(130)))
def put_together_from_many(m, *xs):
    return m.np.concatenate(xs), m.np.stack([x[0] for x in xs])


@case(X)
def put_together_from_many_parts(m, x):
    return m.np.stack([m.np.sort(x[i % 8]) if i % 50 == 0 else x[i % 8] for i in range(150)])


@case(V, onp.array([1, 3], onp.int32))
def scattered_into_often(m, v, i):
    for k in range(150):
        v = v.at[i + k % 6].add(v[:2])
        v = v * 0.5 if k % 10 == 9 else v
    return v


# -- an old value beside what is made from it --------------------------------------------------------------------------


@case(V)
def beside_a_sum(m, x):
    v = x * 2
    return v, m.np.sum(x), v.at[1:2].set(0)


@case(X)
def reversed_beside_a_cumulative_sum(m, x):
    v = x[::-1]
    return v, m.np.cumsum(x), v.at[-2:].set(0.0)


@case(X)
def views_beside_updates(m, x):
    v = x * 2
    return v[::-1], m.np.cumsum(x), v.at[-2:].set(0.0), x[::-1], x[::-1].at[-2:].add(1.0)


@case(X)
def a_chain_of_versions(m, x):
    v = m.np.sin(x)
    w = v.at[1:].set(v[:-1])
    z = w.at[:-1].set(w[1:])
    return v, w, z, v + z


# -- an update of a value from its own other positions -----------------------------------------------------------------


def _own(name: str, update: Any) -> None:
    """The update of an intermediate value; of an argument; by vmap; in a loop that calls LAPACK, so is no kernel."""

    def of(m: Any, x: Any) -> Any:
        v = m.np.sin(x)

        def step(i: Any, w: Any) -> Any:
            return update(m, w) + 0 * m.np.linalg.cholesky(9 * m.np.eye(6) + w.T @ w)[0, 0]

        return (
            update(m, v),
            update(m, x),
            m.vmap(lambda r: update(m, r))(m.np.stack([v, x])),
            m.lax.fori_loop(0, 2, step, v),
        )

    CASES["own " + name] = of, (X,)


_own("rows", lambda m, v: v.at[1:].set(v[:-1]))
_own("rows back", lambda m, v: v.at[:-1].set(v[1:]))
_own("rows added", lambda m, v: v.at[1:].add(v[:-1]))
_own("columns", lambda m, v: v.at[:, 1:].set(v[:, :-1]))
_own("columns multiplied", lambda m, v: v.at[:, 2:].multiply(v[:, :-2]))
_own("reversed", lambda m, v: v.at[1:].set(v[1:][::-1]))
_own("stencil", lambda m, v: v.at[1:-1].set((v[:-2] + v[2:]) / 2))
_own("positions", lambda m, v: v.at[m.np.array([1, 2, 3])].set(m.np.cos(v[m.np.array([0, 1, 2])])))
_own("permuted", lambda m, v: v.at[m.np.arange(8)[::-1]].set(v))
_own("of a sum", lambda m, v: v.at[1:].set(m.np.cumsum(v, 0)[:-1]))
_own("where it says", lambda m, v: v.at[m.np.argmax(v[:, 0]) // 2].set(v[2] * 2))
_own("transposed", lambda m, v: v.T.at[1:].set(v.T[:-1]).T)
_own(
    "at a position of its own",
    lambda m, v: m.lax.dynamic_update_slice(v, v[2:4], (m.np.argmin(v[:, 1]) % 4, 0)),
)


@case(X, ONE)
def a_dynamic_slice_of_itself(m, x, i):
    v = m.np.sin(x)
    return m.lax.dynamic_update_slice(v, m.lax.dynamic_slice(v, (i, 0), (4, 6)), (i + 1, 0))


@case(X[0, 1])
def one_element_of_a_transposed_row(m, s):
    row = m.lax.scan(lambda c, _: (s, c), s, None, length=4)[1][:, None].T
    return row.at[:, 3:4].min(row[:, 3:4]), row.at[:, :1].set(row[:, 3:4] + 0)


# -- loops -------------------------------------------------------------------------------------------------------------


def _loop_of_unknown_end(m: Any) -> Any:
    """A while that is no kernel, because it calls LAPACK, and ends when its data says so."""

    def run(c: Any, k: Any) -> Any:
        def step(s: Any) -> Any:
            return m.np.linalg.cholesky(s @ s.T + m.np.eye(3)) * 0.7 + 0.01 * k

        return m.lax.while_loop(lambda s: m.np.max(s) > 3.0, step, c)

    return run


@case(S)
def stacked_results_of_a_loop(m, x):
    """Both stacks begin as zeros: IREE took them for one buffer."""
    run = _loop_of_unknown_end(m)

    def step(c: Any, k: Any) -> Any:
        y = run(c, k)
        return y, (y[0, 0], y[2, 0])

    return m.lax.scan(step, x, m.np.arange(3.0))


@case(S)
def equal_buffers_of_a_loop(m, x):
    run = _loop_of_unknown_end(m)

    def step(i: Any, s: Any) -> Any:
        x, a, b, c = s
        y = run(x, 1.0 * i)
        return y, a.at[i].set(y[0, 0]), b.at[i].set(y[2, 0]), c.at[2 - i].set(a[0])

    return m.lax.fori_loop(0, 3, step, (x, m.np.zeros(3), m.np.zeros(3), m.np.ones(3)))


@case(X)
def swapped_buffers(m, x):
    def step(i: Any, s: Any) -> Any:
        a, b = s
        t = m.np.linalg.cholesky(9 * m.np.eye(6) + a.T @ a)[0, 0]
        return b.at[i].set(t), a.at[i + 1].add(1.0)

    return m.lax.fori_loop(0, 4, step, (x, x))


@case(S)
def a_buffer_before_and_after_its_update(m, x):
    def step(c: Any, k: Any) -> Any:
        f = m.np.linalg.cholesky(x + k * m.np.eye(3))
        new = c.at[1].set(f[1] + c[0])
        return new, (c, new)

    return m.lax.scan(step, m.np.zeros((3, 3)), m.np.arange(4.0))


@case(S)
def gradient_of_a_scan_that_carries_a_constant(m, x):
    def loss(p: Any) -> Any:
        def step(c: Any, k: Any) -> Any:
            mean, cov = c
            g = m.np.eye(3).at[0, 2].set(p * k).at[1, 2].set(-p)
            cov = g @ cov @ g.T + 0.1 * m.np.eye(3)
            gain = m.np.linalg.solve(cov + m.np.eye(3), cov).T
            return (mean + gain @ (x[0] - mean), (m.np.eye(3) - gain) @ cov), mean

        return m.np.sum(m.lax.scan(step, (m.np.zeros(3), m.np.eye(3)), m.np.arange(4.0))[1] ** 2)

    return m.value_and_grad(loss)(0.3)


# -- transforms in loops: complex paddings, initialised constants ------------------------------------------------------


def _spectral(n: int) -> None:
    def gradient(m: Any, w: Any, s: Any) -> Any:
        def loss(w: Any, s: Any) -> Any:
            f = m.np.fft.rfft2(s * m.np.ones((n, n)))

            def step(w: Any, _: Any) -> Any:
                return w + 0.1 * (m.np.fft.rfft2(m.np.sin(m.np.fft.irfft2(w))) + f), None

            return m.np.sum(m.np.abs(m.lax.scan(step, w, None, length=2)[0]) ** 2) / n

        return m.grad(loss, (0, 1))(w, s)

    w = onp.fft.rfft2(onp.random.default_rng(n).normal(size=(n, n))).astype(onp.complex64)
    CASES[f"gradient through transforms of {n}"] = gradient, (w, onp.float32(0.3))


for _n in (8, 12, 16):
    _spectral(_n)


@case(onp.int32(3))
def resampled_when_needed(m, seed):
    n = 50
    first, rest = m.random.split(m.random.PRNGKey(seed))

    def step(c: Any, y: Any) -> Any:
        x, logw, k = c
        k, move, draw = m.random.split(k, 3)
        x = 0.5 * x + m.random.normal(move, (n,))
        logw = logw - 0.5 * (y - x) ** 2
        w = m.np.exp(logw - m.np.max(logw))
        w = w / m.np.sum(w)

        def again(state: Any) -> Any:
            at = m.np.searchsorted(m.np.cumsum(w), (m.np.arange(n) + m.random.uniform(draw)) / n)
            return state[0][m.np.minimum(at, n - 1)], m.np.zeros(n)

        few = 1 / m.np.sum(w**2) < 0.5 * n
        x, logw = m.lax.cond(few, again, lambda state: state, (x, logw))
        return (x, logw, k), m.np.sum(x * w)

    return m.lax.scan(step, (m.random.normal(first, (n,)), m.np.zeros(n), rest), m.np.sin(m.np.arange(12.0)))[1]


@case(X)
def a_branch_in_which_nothing_is_done(m, x):
    v = m.np.sin(x)
    a, b = m.lax.cond(m.np.sum(x) > 1, lambda a, b: (a, b), lambda a, b: (b, b), v, x * 2)
    return a, b, v, a.at[0].set(1.0)


# -- large values that loops carry: two places that are exchanged --------------------------------------------------------

LARGE = onp.random.default_rng(5).normal(size=(256, 160)).astype("f4")


@case(LARGE)
def a_large_value_of_which_the_old_is_read_while_the_new_is_made(m, x):
    def turn(i: Any, c: Any) -> Any:
        return m.np.sort(m.np.fft.fft(c).real, axis=1) * 1e-2 + c

    return m.lax.fori_loop(0, 5, turn, x), m.lax.fori_loop(0, 4, turn, x * 0.5)


@case(LARGE)
def two_large_values_that_change_places(m, x):
    def turn(c: Any) -> Any:
        a, b, k = c
        return m.np.sort(b, axis=1) * 0.9 + a, m.np.sort(a, axis=1) - b, k + m.np.int32(a[0, 0] < b[0, 0]) + 1

    a, b, k = m.lax.while_loop(lambda c: (c[2] < 9) & (m.np.sum(c[0]) < 1e6), turn, (x, x[::-1], 0))
    return a, b, k, m.np.sum(a), x


@case(LARGE)
def large_values_of_a_loop_in_a_loop(m, x):
    def inner(i: Any, c: Any) -> Any:
        return m.np.sort(m.np.fft.fft(c).real, axis=1) * 1e-2 + c

    def outer(c: Any, k: Any) -> Any:
        a, b = c
        made = m.lax.fori_loop(0, k, inner, a)
        return (m.np.sort(made, axis=1) * 0.1 + b, made - a * 0.5), m.np.sum(made[::50], axis=1)

    return m.lax.scan(outer, (x, m.np.flip(x, 1)), m.np.arange(4))


# -- buffers of kernels ------------------------------------------------------------------------------------------------


@case(V)
def more_buffers_than_an_executable_takes(m, x):
    def step(c: Any, k: Any) -> Any:
        return tuple(a * 0.9 + m.np.roll(a, 1) * k for a in c), tuple(a[0] for a in c)

    return m.lax.scan(step, tuple(x + i for i in range(20)), m.np.arange(3.0))


# ----------------------------------------------------------------------------------------------------------------------


def library(xp: Any) -> SimpleNamespace:
    return SimpleNamespace(
        np=xp.numpy, lax=xp.lax, random=xp.random, vmap=xp.vmap, grad=xp.grad, value_and_grad=xp.value_and_grad
    )


@pytest.mark.parametrize("name", CASES)
def test_each_value_keeps_its_elements(name):
    jax = pytest.importorskip("jax")
    f, args = CASES[name]
    want = jax.tree_util.tree_leaves(f(library(jax), *map(jax.numpy.asarray, args)))
    compiled = quire.jit(lambda *args: tree_util.tree_leaves(f(library(quire), *args)))
    calls = [[onp.array(x) for x in compiled(*args)] for _ in range(5)]
    for i, (x, y) in enumerate(zip(calls[0], want, strict=True)):
        onp.testing.assert_allclose(x, y, rtol=2e-5, atol=2e-5, err_msg=f"result {i}")
    for again in calls[1:]:
        assert all(x.tobytes() == y.tobytes() for x, y in zip(calls[0], again, strict=True))


BITS = onp.array([[1, 1, 1, 1], [0, 1, 0, 0], [0, 1, 0, 1], [1, 1, 0, 0]], bool)
RETURNED_BY_FOLDING: dict[str, tuple[Any, onp.ndarray[Any, Any]]] = {
    "or": (lambda b: (b.at[:-2].min(b[2:]), b | b), BITS),
    "sum of bools": (lambda b: (b.at[:-2].min(b[2:]), b + b), BITS),
    "larger one": (lambda b: (b.at[:-2].set(0), quire.numpy.maximum(b, b)), onp.arange(16, dtype="i4").reshape(4, 4)),
    "selected": (
        lambda b: (b.at[:-2].set(0), quire.lax.select(b > 3, b, b)),
        onp.arange(16.0, dtype="f4").reshape(4, 4),
    ),
}


@pytest.mark.parametrize("name", RETURNED_BY_FOLDING)
def test_a_donated_argument_that_iree_returns_as_it_is(name):
    f, x = RETURNED_BY_FOLDING[name]
    new, same = quire.jit(f, donate_argnums=0)(quire.device_put(x.copy()))
    onp.testing.assert_array_equal(onp.asarray(same), x)
    assert not (onp.asarray(new) == x).all()


def test_a_copy_of_another_result_than_the_first():
    """Of a dispatch that takes no tensor: found by the fuzz, see `Mlir.keep_apart`."""
    jax = pytest.importorskip("jax")

    def f(m: Any) -> Any:
        def g(a: Any) -> Any:
            made = a.at[1:].set(a[:-1])
            return m.numpy.sum((m.numpy.sum(a) + made) * m.numpy.cos(m.numpy.arange(3, dtype="float16")))

        return m.value_and_grad(g)

    a = onp.array([0.3, -1.25, 2.0], "f2")
    for got, want in zip(quire.jit(f(quire))(a), jax.jit(f(jax))(a)):
        onp.testing.assert_allclose(onp.asarray(got), onp.asarray(want), rtol=2e-3)


# -- places that are known -----------------------------------------------------------------------------------------------


def _static_updates(seed: int) -> tuple[tuple[int, ...], Any]:
    """A shape, and a random chain of updates at places that are known: the function of a library, x and y."""
    r = onp.random.default_rng(seed)
    shape = tuple(int(n) for n in r.integers(3, 20, r.integers(1, 4)))
    chain = []
    for _ in range(r.integers(2, 7)):
        kind = str(r.choice(["set", "number", "add", "multiply", "reversed", "roll", "sin"]))
        place: list[int | slice] = []
        for n in shape:
            low = int(r.integers(0, n))
            place.append((int(r.integers(-n, n)), slice(None), slice(low, int(r.integers(low, n + 1))))[r.integers(3)])
        chain.append((kind, tuple(place), int(r.integers(1, 100))))

    def f(m: Any, x: Any, y: Any) -> Any:
        for kind, place, k in chain:
            if kind == "set":
                x = x.at[place].set(y[place] * k)
            elif kind == "number":
                x = x.at[place].set(float(k))
            elif kind == "add":
                x = x.at[place].add(x[place])
            elif kind == "multiply":
                x = x.at[place].multiply(float(k))
            elif kind == "reversed":
                x = x.at[place].set(m.np.flip(x, 0)[place])
            elif kind == "roll":
                x = m.np.roll(x, k % 3, 0)
            else:
                x, y = x.at[place].set(m.np.sin(x)[place]), x if k % 2 else y
        return (x, y, m.np.sum(x)) if chain[0][2] % 3 == 0 else x

    return shape, f


@pytest.mark.parametrize("donate", [(), (0,)], ids=["kept", "donated"])
def test_chains_of_updates_at_known_places(donate: tuple[int, ...]) -> None:
    jax = pytest.importorskip("jax")
    chains = [_static_updates(seed) for seed in range(24)]
    xs = [onp.random.default_rng(k).standard_normal(shape).astype(onp.float32) for k, (shape, _) in enumerate(chains)]
    ys = [x[::-1].copy() for x in xs]

    def all_of(m: Any) -> Any:
        return lambda xs, ys: [f(m, x, y) for (_, f), x, y in zip(chains, xs, ys)]

    wanted = jax.jit(all_of(SimpleNamespace(np=jax.numpy)))(xs, ys)
    compiled = quire.compile(all_of(SimpleNamespace(np=quire.numpy)), donate_argnums=donate)
    got = compiled([quire.numpy.array(x) for x in xs], ys)
    for a, b in zip(tree_util.tree_leaves(got), tree_util.tree_leaves(wanted), strict=True):
        onp.testing.assert_allclose(onp.asarray(a), onp.asarray(b), rtol=1e-5, atol=1e-5)


def test_the_host_reads_no_index_that_is_known() -> None:
    """A boundary that is set is a fill, a part that is added to is written where it lies: no kernel computes its place."""

    def f(u: Any, v: Any) -> Any:
        u = (u * 2).at[0].set(0.0).at[-1].set(1.0)
        return u.at[3:7].add(u[3:7] * v)

    plan = quire.compile(f).lower(X[:, 0].repeat(50), V[:4]).compile().as_text("plan")
    steps = [line.split()[0 if line.split()[0] != "|" else 1] for line in plan.splitlines() if line.startswith("  ")]
    assert "load" not in steps
    assert steps.count("fill") == 2 and steps.count("dispatch") == 2
