"""`quire.kernel`: kernels over blocks against their references, NumPy and JAX's derivatives; what composes with them; errors."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import quire
import quire.numpy as qnp
from quire import lax
from quire.errors import KernelError, KernelMismatchError
from quire.ir.primitive import PRIMITIVES
from quire.tools.bench.user_kernels import (
    heat_step,
    local_attention,
    local_attention_of_arrays,
    masked_softmax,
    masked_softmax_of_arrays,
    rms_norm,
    rms_norm_of_arrays,
)

pytest.importorskip("iree.compiler")

ROOT = Path(__file__).resolve().parents[2]
F = np.float32


def masked_arguments(rng, n, m):
    return rng.normal(size=(n, m)).astype(F), (rng.random((n, m)) < 0.7) | (np.arange(m) == 0)


def norm_arguments(rng, n, m):
    return rng.normal(size=(n, m)).astype(F), rng.normal(size=m).astype(F)


def attention_arguments(rng, n, d):
    return tuple(rng.normal(size=s).astype(F) for s in ((n, d), (d, n), (n, d)))


# -- the page's examples ----------------------------------------------------------------------------------------------


def test_the_page_shows_the_examples_as_they_are():
    page = (ROOT / "docs" / "user-kernels.md").read_text(encoding="utf-8")
    source = (ROOT / "tools" / "bench" / "user_kernels.py").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert sum(block.strip() in source for block in blocks) == 4 and len(blocks) == 6


def test_examples_agree_with_their_references():
    checks = (
        masked_softmax.check(lambda rng, size: masked_arguments(rng, size(), size()), trials=2),
        rms_norm.check(lambda rng, size: norm_arguments(rng, size(), size()), trials=2, eps=1e-3),
        heat_step.check(lambda rng, size: (rng.normal(size=(size(), size() * 3)).astype(F),), trials=2),
        local_attention.check(lambda rng, size: attention_arguments(rng, size(), size()), trials=2, window=9),
    )
    assert all(c.worst < 1 for c in checks) and len(checks[0].shapes) == 2


def test_examples_agree_with_numpy_and_with_finite_differences():
    rng = np.random.default_rng(0)
    x, mask = masked_arguments(rng, 5, 77)
    e = np.where(mask, np.exp(x.astype(np.float64)), 0)
    np.testing.assert_allclose(masked_softmax(x, mask), e / e.sum(1, keepdims=True), 1e-5)
    x, w = norm_arguments(rng, 21, 33)

    def norm(x, w):
        return x / np.sqrt((x * x).mean(1, keepdims=True) + 1e-6) * w

    np.testing.assert_allclose(rms_norm(x, w), norm(x, w), 1e-5)
    ct, tangent = rng.normal(size=(2, *x.shape))
    dx, dw = quire.grad(lambda x, w: qnp.sum(rms_norm(x, w) * ct.astype(F)), (0, 1))(x, w)
    h, wide = 1e-5, x.astype(np.float64)
    along = ((norm(wide + h * tangent, w) - norm(wide - h * tangent, w)) / (2 * h) * ct).sum()
    np.testing.assert_allclose((np.asarray(dx, np.float64) * tangent).sum(), along, 1e-4)
    np.testing.assert_allclose(dw, (norm(wide, 1.0) * ct).sum(0), 1e-3, 1e-4)


def test_local_attention_is_softmax_of_what_is_seen():
    q, keys, values = attention_arguments(np.random.default_rng(4), 100, 20)
    back = np.arange(100)[:, None] - np.arange(100)
    for window in (1, 30, 128):
        e = np.where((back >= 0) & (back < window), np.exp(q.astype(np.float64) @ keys / 20**0.5), 0)
        np.testing.assert_allclose(
            local_attention(q, keys, values, window=window), e @ values / e.sum(1, keepdims=True), 1e-4, 1e-5
        )

    def slopes(f):
        return quire.compile(quire.grad(lambda *a: qnp.sum(qnp.sin(f(*a, window=30))), (0, 1, 2)))(q, keys, values)

    for a, b in zip(slopes(local_attention), slopes(local_attention_of_arrays)):
        np.testing.assert_allclose(a, b, 1e-4, 1e-5)


def test_kernels_compose():
    rng = np.random.default_rng(1)
    x, mask = masked_arguments(rng, 6, 40)

    def loss(f):
        return lambda x: qnp.sum(qnp.sin(f(x * 2, mask)) * x)

    def everything(f):
        def run(x):
            hessian_row = quire.jvp(quire.grad(loss(f)), (x,), (qnp.cos(x),))[1]
            looped = lax.fori_loop(0, 3, lambda i, y: f(y + x, mask), x)
            branched = lax.cond(x[0, 0] > 0, lambda y: f(y, mask), lambda y: y, x)
            return hessian_row, looped, branched, quire.checkpoint(lambda y: f(y, mask))(x)

        return run

    ours, theirs = (quire.compile(everything(f))(x) for f in (masked_softmax, masked_softmax_of_arrays))
    for a, b in zip(ours, theirs):
        np.testing.assert_allclose(a, b, 2e-4, 2e-5)
    xs = np.stack([x, x + 1, x * 2])
    nested = quire.vmap(quire.vmap(rms_norm, (0, None)), (0, 0))
    w = rng.normal(size=(2, 40)).astype(F)
    deep = np.stack([xs, xs[::-1]])
    want = np.stack([[rms_norm_of_arrays(a, v) for a in b] for b, v in zip(deep, w)])
    np.testing.assert_allclose(quire.compile(nested)(deep, w), want, 1e-5, 1e-6)
    slopes = quire.compile(quire.vmap(quire.grad(loss(masked_softmax))))(xs)
    np.testing.assert_allclose(slopes, quire.vmap(quire.grad(loss(masked_softmax_of_arrays)))(xs), 2e-4, 2e-5)
    inner = quire.vmap(masked_softmax, (0, None))
    np.testing.assert_allclose(
        quire.grad(lambda x: qnp.sum(inner(x, mask) ** 2))(xs),
        quire.grad(lambda x: qnp.sum(quire.vmap(masked_softmax_of_arrays, (0, None))(x, mask) ** 2))(xs), 2e-4, 2e-5,
    )  # fmt: skip


def test_one_kernel_under_vmap_and_one_text_for_equal_ones():
    x, mask = masked_arguments(np.random.default_rng(2), 4, 32)
    text = quire.compile(quire.vmap(masked_softmax)).lower(np.stack([x, x]), np.stack([mask, mask])).as_text()
    assert text.count("stream.executable private") == 1 and "quire.kernel masked_softmax: 8 programs" in text
    twice = quire.compile(lambda x: masked_softmax(masked_softmax(x, mask), mask)).lower(x).as_text()
    assert twice.count("stream.executable private") == 1 and twice.count("flow.dispatch") == 2


# -- the language -----------------------------------------------------------------------------------------------------


@quire.kernel(
    grid=lambda a, b: (a.shape[0] // 8, b.shape[1] // 16),
    out=lambda a, b: quire.ShapeDtypeStruct((a.shape[0], b.shape[1]), a.dtype),
    reference=lambda a, b: qnp.matmul(a.astype(qnp.float32), b.astype(qnp.float32)).astype(a.dtype),
)
def product(k, a, b, out):
    rows, columns = k.span(k.program_id(0) * 8, 8), k.span(k.program_id(1) * 16, 16)
    total = k.scratch((8, 16), "float32")
    total[...] = 0.0
    for t in k.loop(0, a.shape[1], 4):
        part = k.dot(k.cast(a[rows, k.span(t, 4)], "float32"), k.cast(b[k.span(t, 4), columns], "float32"))
        total[...] = total[...] + part
    out[rows, columns] = k.cast(total[...], out.dtype)


@quire.kernel(
    out=lambda a, b: quire.ShapeDtypeStruct((a.shape[0], b.shape[1]), a.dtype),
    reference=lambda a, b: qnp.matmul(a.astype(qnp.float32 if a.dtype.itemsize < 4 else a.dtype), b).astype(a.dtype),
)
def whole_product(k, a, b, out):
    """The product of expressions, in one tile: they are kept before they are read again and again."""
    out[...] = k.dot(a[...] + 0, b[...] * 1)


@quire.kernel(out=lambda a, b: quire.ShapeDtypeStruct((a.shape[0], b.shape[1]), bool))
def whole_or(k, a, b, out):
    out[...] = k.dot(a[...], b[...])


def test_products_of_tiles_of_any_size():
    """Blocks of registers at the ends are moved back inside; what is narrower than a vector is summed by numbers."""
    rng = np.random.default_rng(5)
    shapes = [(1, 1, 1), (1, 16, 3), (7, 19, 5), (13, 33, 1), (5, 15, 9), (23, 48, 8), (6, 17, 64), (32, 100, 31)]
    for dtype in (np.float32, np.float16, qnp.bfloat16, np.int32, np.int8):
        pairs = [
            (rng.integers(-4, 5, (m, depth)).astype(dtype), rng.integers(-4, 5, (depth, n)).astype(dtype))
            for m, n, depth in shapes
        ]
        for (a, b), out in zip(pairs, quire.compile(lambda ps: [whole_product(*p) for p in ps])(pairs)):
            want = (a.astype(np.int64) @ b.astype(np.int64)).astype(dtype)
            np.testing.assert_array_equal(np.asarray(out), want, f"{dtype} {a.shape} {b.shape}")
    yes = rng.random((7, 9)) < 0.2, rng.random((9, 33)) < 0.2
    np.testing.assert_array_equal(quire.compile(whole_or)(*yes), yes[0] @ yes[1])
    with quire.enable_x64():
        a, b = rng.normal(size=(9, 21)), rng.normal(size=(21, 19))
        np.testing.assert_allclose(quire.compile(whole_product)(a, b), a @ b, 1e-12)


def pieces(x, n):
    top = qnp.max(x, 1)
    return (
        qnp.sum(x, 0), top, qnp.any(x > 2.0), qnp.where(qnp.arange(x.shape[1]) % 3 == 0, x, n).astype(qnp.int32),
        x[:, ::-1][:, : x.shape[1]] * 0 + (x - top[:, None]), qnp.min(qnp.abs(x)),
    )  # fmt: skip


@quire.kernel(reference=pieces)
def many(k, x, n, columns, top, flag, whole, shifted, least):
    tile = x[:, :]
    columns[:] = k.sum(tile, axis=0)
    rows = k.max(tile, axis=-1)
    top[:] = rows
    flag[()] = k.any(tile > 2.0)
    whole[:, :] = k.cast(k.where(k.span(0, x.shape[1]) % 3 == 0, tile, n[()]), "int32")
    shifted[...] = tile - rows[:, None]
    least[()] = 1e9
    for i in k.loop(0, x.shape[0]):
        least[()] = k.minimum(least[()], k.min(k.abs(x[i, :])))


@quire.kernel(
    grid=lambda x: -(-x.shape[0] // 4), reference=lambda x: (qnp.where(x > 0, x, 0), qnp.roll(x, 1).at[0].set(9))
)
def masked(k, x, out, moved):
    at = k.span(k.program_id() * 4, 4)
    tile = x.load(at, other=0)
    out.store(at, value=0, inside=True)
    out.store(at, value=tile, mask=tile > 0, inside=True)
    moved.store(at, value=x.load(at - 1, mask=at > 0, other=9), inside=True)
    with k.when(k.program_id() >= 1000):
        moved[0] = 0
    with k.when(k.program_id() == 1000):
        moved[1] = 0


@quire.kernel(grid=lambda x: x.shape[0], reference=lambda x: qnp.cumsum(x, 1))
def running(k, x, out):
    row = k.program_id()
    total = k.scratch((), x.dtype)
    total[()] = 0
    for i in k.loop(0, x.shape[1]):
        total[()] = total[()] + x[row, i]
        out[row, i] = total[()]


def by_columns(x):
    e = qnp.exp(x - qnp.max(x, 1, keepdims=True))
    return e / qnp.sum(e, 1, keepdims=True), qnp.sum(x, 0)


@quire.kernel(reference=by_columns)
def long_rows(k, x, out, columns):
    """More memory than a workgroup has of the stack."""
    total = k.scratch((x.shape[1],), x.dtype)
    total[:] = 0.0
    for i in k.loop(0, x.shape[0]):
        e = k.keep(k.exp(x[i, :] - k.max(x[i, :])))
        out[i, :] = e / k.sum(e)
        total[:] = total[:] + x[i, :]
    columns[:] = total[:]


def language_cases(rng):
    a, b = rng.normal(size=(16, 12)), rng.normal(size=(12, 32))
    yield product, (a.astype(F), b.astype(F))
    yield product, (a.astype(np.float16), b.astype(np.float16))
    yield many, (rng.normal(size=(5, 37)).astype(F) * 3, np.float32(-2))
    for n in (3, 4, 5, 33):
        yield masked, (rng.integers(-5, 5, n).astype(np.int32),)
    yield masked, (rng.normal(size=18).astype(F),)
    yield long_rows, (rng.normal(size=(3, 7003)).astype(F),)
    yield running, (rng.integers(0, 9, (3, 10)).astype(np.int32),)


def test_the_language_on_the_cpu():
    cases = list(language_cases(np.random.default_rng(3)))
    ours = quire.compile(lambda *given: [f(*xs) for (f, _), xs in zip(cases, given)])(*[xs for _, xs in cases])
    for (f, xs), got in zip(cases, ours):
        want = f.reference(*map(qnp.asarray, xs))
        for g, w in zip(quire.tree.leaves(got), quire.tree.leaves(want)):
            np.testing.assert_allclose(
                np.asarray(g, np.float64), np.asarray(w, np.float64), 2e-3 if g.dtype == np.float16 else 1e-5, 1e-5
            )


@pytest.mark.vulkan
def test_the_language_on_vulkan():
    try:
        device = quire.devices("vulkan")[0]
    except RuntimeError as error:
        pytest.skip(str(error))
    rng = np.random.default_rng(3)
    # A GPU's workgroup has less memory of its own, and lavapipe no float16.
    cases = [c for c in language_cases(rng) if c[1][0].dtype != np.float16 and c[0] is not long_rows]
    cases += [(masked_softmax, masked_arguments(rng, 3, 150)), (rms_norm, norm_arguments(rng, 18, 33)),
              (heat_step, (rng.normal(size=(18, 300)).astype(F),))]  # fmt: skip
    run = quire.compile(lambda *given: [f(*xs) for (f, _), xs in zip(cases, given)], device=device)
    for (f, xs), got in zip(cases, run(*[xs for _, xs in cases])):
        for g, w in zip(quire.tree.leaves(got), quire.tree.leaves(f.reference(*map(qnp.asarray, xs)))):
            np.testing.assert_allclose(np.asarray(g, np.float64), np.asarray(w, np.float64), 1e-5, 1e-5)


def test_targets():
    x, mask = masked_arguments(np.random.default_rng(0), 4, 32)
    narrow = quire.plugins.get_target("cpu").derived("narrow", "--iree-llvmcpu-target-cpu=x86-64", vector_bytes=16)
    np.testing.assert_allclose(
        quire.compile(masked_softmax, target=narrow)(x, mask), masked_softmax_of_arrays(x, mask), 1e-5
    )
    assert "gpu.barrier" in quire.compile(masked_softmax, target="cuda").lower(x, mask).as_text()
    with pytest.raises(
        NotImplementedError, match="kernel masked_softmax for the target metal: there are kernels of blocks for CPUs"
    ):
        quire.compile(masked_softmax, target="metal").lower(x, mask)


def test_the_reference_stands_for_the_kernel_where_nothing_is_compiled():
    x, mask = masked_arguments(np.random.default_rng(0), 4, 32)
    with quire.config.override(check=True):
        np.testing.assert_allclose(
            quire.compile(lambda x: masked_softmax(x, mask) + 1)(x), masked_softmax_of_arrays(x, mask) + 1, 1e-5
        )
    tiered = quire.compile(lambda x: masked_softmax(x, mask) * 2, tiered=True)
    np.testing.assert_allclose(tiered(x), masked_softmax_of_arrays(x, mask) * 2, 1e-5)


def test_rules_that_are_given():
    def made(**rules):
        return quire.kernel(lambda k, x, out: out.__setitem__(slice(None), x[:] * x[:]), out=lambda x: x, **rules)

    x = np.arange(1, 5, dtype=F)
    odd = made(jvp=lambda p, t: (p[0] * p[0], 3 * p[0] * t[0]))
    assert quire.grad(lambda x: qnp.sum(odd(x)))(x).tolist() == [3, 6, 9, 12]
    by_hand = made(vjp=(lambda x: (x * x, x), lambda x, ct: (5 * x * ct,)))
    assert quire.grad(lambda x: qnp.sum(by_hand(x)))(x).tolist() == [5, 10, 15, 20]
    seen = []

    def batch(size, batched, x):
        seen.append((size, batched))
        return x * x, True

    assert quire.vmap(made(batch=batch))(np.stack([x, x])).shape == (2, 4) and seen == [(2, [True])]
    with pytest.raises(TypeError, match="has no derivative: give reference="):
        quire.grad(lambda x: qnp.sum(made()(x)))(x)
    with pytest.raises(TypeError, match="give jvp or vjp, not both"):
        made(jvp=1, vjp=2)


def test_check_finds_mistakes():
    wrong = quire.kernel(
        lambda k, x, out: out.__setitem__(slice(None), x[:] + k.where(k.span(0, x.shape[0]) > 15, 1.0, 0.0)),
        reference=lambda x: x,
    )
    with pytest.raises(
        KernelMismatchError, match=r"kernel <lambda>, result 0 for arguments of shapes \(\(\d+,\),\): element \(16,\)"
    ):
        wrong.check(lambda rng, size: (np.zeros(size(17), F),))
    slope = quire.kernel(
        lambda k, x, out: out.__setitem__(slice(None), x[:]), reference=lambda x: x, jvp=lambda p, t: (p[0], 2 * t[0])
    )
    with pytest.raises(KernelMismatchError, match="cotangent 0"):
        slope.check(lambda rng, size: (np.ones(size(), F),), trials=1)


FLOAT_FUNCTIONS = [
    p
    for p in PRIMITIVES.values()
    if p.family == "elementwise" and p.arity == 1 and not p.params and p.weight
    and p.name not in ("not", "population_count", "clz", "bessel_i1e")
]  # fmt: skip


@quire.kernel(
    grid=lambda x: 1,
    out=lambda x: quire.ShapeDtypeStruct((len(FLOAT_FUNCTIONS), *x.shape), x.dtype),
    reference=lambda x: qnp.stack([p.bind(x).astype(x.dtype) for p in FLOAT_FUNCTIONS]),
)
def functions(k, x, out):
    for i, p in enumerate(FLOAT_FUNCTIONS):
        out[i, :] = k.cast(getattr(k, p.name)(x[:]), out.dtype)


def test_every_elementwise_function_of_one_number_is_there():
    """Each primitive of the family is a function of kernels, by its name."""
    x = np.linspace(0.05, 0.95, 37, dtype=F)
    rows = zip(FLOAT_FUNCTIONS, functions(x), quire.compile(functions.reference)(x), strict=True)
    for p, found, wanted in rows:
        np.testing.assert_allclose(found, wanted, 2e-6, 2e-6, err_msg=p.name)
    assert len(FLOAT_FUNCTIONS) > 30


# -- mistakes ---------------------------------------------------------------------------------------------------------


def too_far(k, x, i, out):
    out[:] = x[k.span(k.program_id() + 1, 8)]


def two_dtypes(k, x, i, out):
    out[:] = x[:] + i[:]


def writes_another_dtype(k, x, i, out):
    out[:] = i[:]


def writes_an_operand(k, x, i, out):
    x[:] = 0.0


def another_shape(k, x, i, out):
    out[:] = x[k.span(0, 4)]


def too_few_places(k, x, i, out):
    out[:] = x[0, 0]


def python_branch(k, x, i, out):
    if x[0] > 0:
        out[:] = x[:]


def leaves_a_loop(k, x, i, out):
    out[:] = x[:]
    for t in k.loop(0, 4):
        out[t] = 0.0
        break


def used_after_its_loop(k, x, i, out):
    for t in k.loop(0, 8):
        last = k.sum(x[:]) * x[t]
    out[:] = last


def stale(k, x, i, out):
    out[:] = x[:]
    before = out[:]
    out[:] = before * 2.0
    out[:] = before + 1.0


def writes_nothing(k, x, i, out):
    k.sum(x[:])


def float_of_integers(k, x, i, out):
    out[:] = k.cast(i[:] * 0.5, "float32")


def reduces_bools(k, x, i, out):
    out[:] = k.sum(x[:] > 0)


def no_axis(k, x, i, out):
    out[:] = x[:] + k.program_id(1)


@pytest.mark.parametrize(
    ("f", "text"),
    [
        (too_far, "the kernel reads x f32[8] at 8 along dimension 0, which has the places 0 to 7: change the grid"),
        (two_dtypes, "add of tiles of float32 and int32: convert one with k.cast"),
        (writes_another_dtype, "a tile of int32 is written to out f32[8]: convert it with k.cast(tile, 'float32')"),
        (writes_an_operand, "x is an operand, and is written: only results and scratch memory are"),
        (another_shape, "the tile has shape (4,), which does not fit (8,)"),
        (too_few_places, "x f32[8] is indexed by 2 place(s), expected 1"),
        (python_branch, "known when the kernel runs, not while it is written: use k.where or k.when"),
        (leaves_a_loop, "a k.loop is left by break or return"),
        (used_after_its_loop, "is used after it"),
        (
            stale,
            "a tile was read from out before it was written there, and is used after it: put k.keep around the load",
        ),
        (writes_nothing, "it writes nothing to its result out"),
        (float_of_integers, "the number 0.5 meets a tile of int32: convert the tile with k.cast"),
        (reduces_bools, "a reduction by add of a tile of bool: bools have any and all"),
        (no_axis, "program_id(1): the grid (1,) has 1 axis/axes"),
    ],
)
def test_mistakes_name_the_kernels_line(f, text):
    with pytest.raises(KernelError) as caught:
        quire.kernel(f, out=lambda x, i: x)(np.ones(8, F), np.ones(8, np.int32))
    message = str(caught.value)
    assert text in message and message.startswith(f"kernel {f.__name__}: "), message
    first = f.__code__.co_firstlineno
    lines = [int(n) for n in re.findall(r"test_kernels\.py:(\d+)", message)]
    assert lines and all(first <= n <= first + 6 for n in lines), message


def test_mistakes_of_the_call():
    x = np.ones((3, 4), F)
    for options, given, text in (
        ({"grid": "many"}, x, r"its grid is \('many',\), expected non-negative Python ints"),
        ({}, x.astype(np.complex64), "kernels of blocks have no complex numbers"),
        ({"out": None}, x, "give out=, the types of the results, or a reference="),
    ):
        with pytest.raises(KernelError, match=text):
            quire.kernel(lambda k, x, out: None, **{"out": lambda x: x, **options})(given)
    assert quire.kernel(lambda k, x, out: None, out=lambda x: x)(x[:0]).shape == (0, 4)


def test_kernels_on_parts_of_arrays():
    """`shard_map` finishes a kernel anew for the devices that one program simulates."""
    code = (
        "import numpy as np, quire, quire.numpy as qnp\n"
        "from quire.sharding import AxisType, NamedSharding, PartitionSpec as P\n"
        "from quire.tools.bench.user_kernels import masked_softmax as s, masked_softmax_of_arrays as t, rms_norm, rms_norm_of_arrays\n"
        "mesh = quire.make_mesh((4,), ('r',), (AxisType.Auto,))\n"
        "x, w = np.random.default_rng(0).normal(size=(8, 40)).astype('f4'), np.arange(40, dtype='f4')\n"
        "f = quire.shard_map(rms_norm, mesh=mesh, in_specs=(P('r'), P()), out_specs=P('r'))\n"
        "lying = quire.device_put(x, NamedSharding(mesh, P('r')))\n"
        "want = np.asarray(rms_norm_of_arrays(x, w))\n"
        "for run in (quire.jit(f), quire.jit(lambda x, w: rms_norm(x, w))):\n"
        "    np.testing.assert_allclose(run(lying, w), want, 1e-5)\n"
        "slope = lambda g: quire.jit(quire.grad(lambda x: qnp.sum(g(x, x > -1) ** 2)))(x)\n"
        "f = quire.shard_map(s, mesh=mesh, in_specs=(P('r'), P('r')), out_specs=P('r'))\n"
        "np.testing.assert_allclose(slope(f), slope(t), 1e-4, 1e-5)\n"
        "print('done')\n"
    )
    env = {**os.environ, "QUIRE_NUM_CPU_DEVICES": "4"}
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, check=False)
    assert ran.stdout == "done\n", ran.stderr
