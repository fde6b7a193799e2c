"""Contraction kernels against NumPy: dimension numbers, layouts, dtypes, every form of plan, odd sizes, decisions."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quire.backends.kernels import CPU_AVX2, CPU_AVX512, CPU_BASELINE, GPU, NoKernel, Spec, dot, dtype_of
from quire.backends.kernels.products.choice import kernel
from quire.backends.kernels.products.dot_products import DotProductsPlan, dot_products
from quire.backends.kernels.products.gemm import Gemm, Plan
from quire.backends.kernels.products.matrices import product, result_shape
from quire.backends.kernels.products.plans import plan, tile
from quire.backends.kernels.products.vecmat import VecmatPlan, vecmat

NN, NT, TN, TT = ((((1 - a,), (b,)), ((), ())) for a, b in ((0, 0), (0, 1), (1, 0), (1, 1)))
BATCH = (((2,), (1,)), ((0,), (0,)))
RTOL = {"f32": 1e-5, "f64": 1e-13, "i32": 0}

# lhs shape, rhs shape, dimension numbers, dtype of operands, of sums, target
CASES = {
    "square": ((64, 64), (64, 64), NN, "f32", "f32", CPU_AVX2),
    "odd": ((37, 101), (101, 53), NN, "f32", "f32", CPU_AVX2),
    "nt": ((37, 101), (53, 101), NT, "f32", "f32", CPU_AVX2),
    "tn": ((101, 67), (101, 53), TN, "f32", "f32", CPU_AVX2),
    "tt": ((101, 67), (83, 101), TT, "f32", "f32", CPU_AVX2),
    "few rows": ((3, 200), (200, 77), NN, "f32", "f32", CPU_AVX2),
    "few columns": ((77, 200), (200, 3), NN, "f32", "f32", CPU_AVX2),
    "few columns along k": ((77, 203), (3, 203), NT, "f32", "f32", CPU_AVX2),
    "few rows along k": ((5, 203), (77, 203), NT, "f32", "f32", CPU_AVX2),
    "matrix by vector": ((45, 333), (333,), NN, "f32", "f32", CPU_AVX2),
    "vector by matrix": ((333,), (333, 45), (((0,), (0,)), ((), ())), "f32", "f32", CPU_AVX2),
    "vector by wide matrix": ((300,), (300, 512), (((0,), (0,)), ((), ())), "f32", "f32", CPU_AVX2),
    "outer": ((70, 1), (1, 90), NN, "f32", "f32", CPU_AVX2),
    "rows alone": ((50,), (90,), (((), ()), ((), ())), "f32", "f32", CPU_AVX2),
    "batch": ((5, 21, 30), (5, 30, 19), BATCH, "f32", "f32", CPU_AVX2),
    "heads": ((2, 17, 3, 16), (2, 19, 3, 16), (((3,), (3,)), ((0, 2), (0, 2))), "f32", "f32", CPU_AVX2),
    "heads, values": ((2, 3, 17, 19), (2, 19, 3, 16), (((3,), (1,)), ((0, 1), (0, 2))), "f32", "f32", CPU_AVX2),
    "two summed": ((50, 20, 33), (50, 40, 33), (((0, 2), (0, 2)), ((), ())), "f32", "f32", CPU_AVX2),
    "two summed, turned": ((3, 20, 701), (701, 3, 40), (((0, 2), (1, 0)), ((), ())), "f32", "f32", CPU_AVX2),
    "long and batch": ((4, 20, 700), (700, 30, 4), (((2,), (0,)), ((0,), (2,))), "f32", "f32", CPU_AVX2),
    "free dimensions apart": ((9, 20, 8), (20, 5, 16), (((1,), (0,)), ((), ())), "f32", "f32", CPU_AVX2),
    "double": ((61, 70), (70, 45), NN, "f64", "f64", CPU_AVX2),
    "double nt": ((61, 70), (45, 70), NT, "f64", "f64", CPU_AVX2),
    "bfloat": ((61, 70), (70, 45), NN, "bf16", "f32", CPU_AVX2),
    "half nt": ((61, 70), (45, 70), NT, "f16", "f32", CPU_AVX2),
    "half by vector": ((61, 170), (170,), NN, "f16", "f32", CPU_AVX2),
    "bytes": ((61, 70), (70, 45), NN, "i8", "i32", CPU_AVX2),
    "integers": ((61, 70), (70, 45), NN, "i32", "i32", CPU_AVX2),
    "avx512": ((61, 270), (270, 145), NN, "f32", "f32", CPU_AVX512),
    "avx512 tt": ((270, 61), (145, 270), TT, "f32", "f32", CPU_AVX512),
    "baseline": ((61, 70), (70, 45), NN, "f32", "f32", CPU_BASELINE),
    "baseline tt": ((70, 61), (45, 70), TT, "f64", "f64", CPU_BASELINE),
}  # fmt: skip

# Forms that small sizes are not given: parts of k, blocks, tails of both, several workgroups.
PLANS = {
    "in place by parts": (NN, Plan(6, 2, 4, 40, 99, "direct", False, 2, 2, 3)),
    "in place by parts, turned": (TN, Plan(5, 1, 1, 33, 99, "direct", False, 1, 1, 1)),
    "strips by parts": (NN, Plan(6, 2, 4, 40, 99, "strip", False, 2, 2, 3)),
    "packed strips": (NT, Plan(5, 2, 4, 40, 2, "strip", True, 2, 2, 4)),
    "blocks": (NN, Plan(6, 2, 4, 40, 3, "block", True, 2, 2, 4)),
    "blocks turned": (TT, Plan(4, 1, 4, 24, 3, "block", True, 3, 2, 2)),
    "rhs blocks alone": (TN, Plan(4, 3, 4, 101, 3, "block", False, 1, 2, 2)),
    "blocks by vectors of 4": (TN, Plan(6, 2, 4, 40, 3, "block", True, 2, 1, 2)),
}
M, K, N = 77, 101, 45
SHAPES = {NN: ((M, K), (K, N)), NT: ((M, K), (N, K)), TN: ((K, M), (K, N)), TT: ((K, M), (N, K))}


def einsum(x, y, dims):
    (lc, rc), (lb, rb) = dims
    names = iter("abcdefghijklmnop")
    left, right = [""] * x.ndim, [""] * y.ndim
    out = []
    for i, j in zip(lb, rb):
        left[i] = right[j] = next(names)
        out.append(left[i])
    for i, j in zip(lc, rc):
        left[i] = right[j] = next(names)
    for side in (left, right):
        for i, name in enumerate(side):
            if not name:
                side[i] = next(names)
                out.append(side[i])
    return np.einsum(f"{''.join(left)},{''.join(right)}->{''.join(out)}", x, y, optimize=True)


def draw(shape, name, rng):
    dtype = dtype_of(name).numpy()
    if dtype.kind == "i":
        return rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, shape, dtype, endpoint=True)
    return rng.standard_normal(shape).astype(dtype)


def forced(dims, chosen, target):
    shapes = SHAPES[dims]
    specs = [Spec.of(s, "f32") for s in (*shapes, (M, N))]
    return Gemm(product(*shapes, dims), dtype_of("f32"), chosen, target, specs).build("as told")


def all_cases():
    out = []
    for name, (lhs, rhs, dims, operand, total, target) in CASES.items():
        specs = [Spec.of(s, d) for s, d in ((lhs, operand), (rhs, operand), (result_shape(lhs, rhs, dims), total))]
        out.append((name, lhs, rhs, dims, operand, kernel(product(lhs, rhs, dims), dtype_of(total), specs, target)))
    for name, (dims, chosen) in PLANS.items():
        target = CPU_BASELINE if "4" in name else CPU_AVX2
        out.append((name, *SHAPES[dims], dims, "f32", forced(dims, chosen, target)))
    specs = [Spec.of(s, "f32") for s in ((60,), (60, 96), (96,))]
    p = product((60,), (60, 96), (((0,), (0,)), ((), ())))
    out.append(
        (
            "added rows",
            (60,),
            (60, 96),
            (((0,), (0,)), ((), ())),
            "f32",
            vecmat(p, dtype_of("f32"), VecmatPlan(8, 6, 2, 2, 24), CPU_AVX2, specs, "as told"),
        )
    )
    specs = [Spec.of(s, "f32") for s in ((3, 29, 43), (3, 8, 43), (3, 29, 8))]
    dims = (((2,), (2,)), ((0,), (0,)))
    p = product((3, 29, 43), (3, 8, 43), dims)
    out.append(
        (
            "dots of a batch",
            (3, 29, 43),
            (3, 8, 43),
            dims,
            "f32",
            dot_products(p, dtype_of("f32"), DotProductsPlan(3, 3, 2, 3, 2), CPU_AVX2, specs, "as told"),
        )
    )
    return out


ALL = all_cases()


@pytest.fixture(scope="module")
def compiled(bundle):
    module = bundle()
    for *_, chosen in ALL:
        module.add(chosen)
    return module.compile()


@pytest.mark.parametrize("number", range(len(ALL)), ids=[c[0] for c in ALL])
def test_product(compiled, number):
    _, lhs, rhs, dims, name, chosen = ALL[number]
    rng = np.random.default_rng(number)
    x, y = draw(lhs, name, rng), draw(rhs, name, rng)
    total = chosen.outputs[0].dtype
    wide = np.float64 if total.kind == "float" else total.numpy()
    expected = einsum(x.astype(wide), y.astype(wide), dims)
    (got,) = compiled.run(number, x, y)
    tolerance = RTOL[total.name]
    np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance * np.sqrt(x.size) * 4)


def test_infinities_and_nans_stay_where_they_are(compiled):
    # Blocks that are moved back inside and padded strips must not mix elements of other rows or columns in.
    for name in ("odd", "blocks", "packed strips"):
        number = [c[0] for c in ALL].index(name)
        _, lhs, rhs, dims, *_ = ALL[number]
        (lc, rc), _ = dims
        x, y = np.ones(lhs, np.float32), np.ones(rhs, np.float32)
        x[(5, 7) if lc == (1,) else (7, 5)] = np.inf
        y[(7, 9) if rc == (0,) else (9, 7)] = np.nan
        (got,) = compiled.run(number, x, y)
        np.testing.assert_array_equal(np.isinf(got[5]), np.arange(got.shape[1]) != 9)
        np.testing.assert_array_equal(np.isnan(got), np.broadcast_to(np.arange(got.shape[1]) == 9, got.shape))


# -- strides


@st.composite
def contractions(draw_):
    """Shapes and dimension numbers of a dot_general of up to five dimensions an operand."""
    sizes = st.integers(1, 3)
    batch, summed, left, right = (draw_(st.lists(sizes, max_size=m)) for m in (2, 2, 2, 2))
    names = [*(("b", i, n) for i, n in enumerate(batch)), *(("k", i, n) for i, n in enumerate(summed))]
    lhs = draw_(st.permutations([*names, *(("l", i, n) for i, n in enumerate(left))]))
    rhs = draw_(st.permutations([*names, *(("r", i, n) for i, n in enumerate(right))]))

    def places(kind, side, count):
        return tuple([d[:2] for d in side].index((kind, i)) for i in range(count))

    dims = tuple(
        (places(kind, lhs, len(own)), places(kind, rhs, len(own))) for kind, own in (("k", summed), ("b", batch))
    )
    return tuple(d[2] for d in lhs), tuple(d[2] for d in rhs), dims


@settings(max_examples=150, deadline=None)
@given(contractions())
def test_the_strides_of_a_product_are_those_of_the_contraction(case):
    lhs, rhs, dims = case
    rng = np.random.default_rng(0)
    x, y = rng.integers(-5, 6, lhs), rng.integers(-5, 6, rhs)
    expected = einsum(x, y, dims)
    p = product(lhs, rhs, dims)
    got = np.full(expected.size, 99)
    for b in np.ndindex(*p.batch):
        at = [sum(i * s for i, s in zip(b, side.batch)) for side in (p.lhs, p.rhs, p.out)]
        for i, j in np.ndindex(p.m, p.n):
            total = 0
            for outer in np.ndindex(*(d[0] for d in p.outer)):
                left, right = (sum(t * d[side] for t, d in zip(outer, p.outer)) for side in (1, 2))
                for k in range(p.k):
                    total += (
                        x.ravel()[at[0] + i * p.lhs.row + k * p.lhs.column + left]
                        * y.ravel()[at[1] + k * p.rhs.row + j * p.rhs.column + right]
                    )
            got[at[2] + i * p.out.row + j * p.out.column] = total
    np.testing.assert_array_equal(got, expected.ravel())
    assert p.flops == 2 * expected.size * int(np.prod([lhs[i] for i in dims[0][0]]))


# -- decisions


def reason(lhs, rhs, dims, target=CPU_AVX2, operand="f32", total="f32"):
    try:
        return dot(Spec.of(lhs, operand), Spec.of(rhs, operand), dtype_of(total), dims, target).reason
    except NoKernel as no:
        return no.reason


def test_what_is_left_to_stablehlo_and_why():
    assert reason((3, 4), (4, 5), NN) == "3x4 @ 4x5: fewer than 131072 operations"
    assert reason((64, 64), (64, 64), NN, GPU) == "the target has no matrix units for tf32"
    assert reason((64, 64), (64, 64), NN, total="i16", operand="i16") == "no kernel sums in i16"
    assert reason((64, 64), (64, 64), NN, operand="i8", total="f32") == "no kernel sums i8 in f32"


def test_the_form_follows_size_and_layout():
    assert "dot products of 1 rows and 1 columns" in reason((90000,), (90000,), (((0,), (0,)), ((), ())))
    assert "6x2 vectors, k by 64, operands read in place" in reason((240, 64), (64, 64), NN)
    assert "6x2 vectors, k by 512, strips of rhs packed, 8 workgroups" in reason(
        (512, 512), (512, 512), NN, target_of(8)
    )
    assert "blocks of rhs packed, lhs packed" in reason((2048, 2048), (2048, 2048), NN)
    assert "blocks of rhs packed, lhs packed" in reason((512, 512), (512, 512), TN)
    assert "strips of rhs packed" in reason((512, 512), (512, 512), NT)
    assert "dot products of 8 rows and 1 columns" in reason((512, 512), (512,), NN)
    assert "8 rows at a time added" in reason((512,), (512, 512), (((0,), (0,)), ((), ())))


def target_of(workgroups):
    from dataclasses import replace

    return replace(CPU_AVX2, workgroups=workgroups)


@pytest.mark.parametrize("target", [CPU_BASELINE, CPU_AVX2, CPU_AVX512])
def test_a_tile_fits_the_registers_and_the_result(target):
    for m in (1, 2, 3, 5, 6, 7, 28, 100, 2048):
        for n in (1, 3, 8, 17, 64, 100, 2048):
            lanes = target.lanes(32)
            mr, nv = tile(m, n, lanes, target)
            assert mr * nv + nv + 1 <= target.registers
            assert mr <= m and (nv - 1) * lanes < n


def test_scratch_memory_stays_small():
    p = product((2048, 2048), (2048, 2048), NN)
    chosen = plan(p, (False, False), 4, CPU_AVX2)
    square = Spec.of((2048, 2048), "f32")
    scratch = sum(s.size * 4 for s in dot(square, square, dtype_of("f32"), NN, CPU_AVX2).results[1:])
    assert chosen.groups <= CPU_AVX2.workgroups
    assert scratch <= CPU_AVX2.workgroups * (1 << 20)


def test_equal_products_are_one_executable(bundle):
    module = bundle()
    for _ in range(3):
        module.add(dot(Spec.of((64, 64), "f32"), Spec.of((64, 64), "f32"), dtype_of("f32"), NN, CPU_AVX2))
    assert module.text().count("stream.executable private") == 1


def test_sixteen_bit_operands_are_summed_in_f32(compiled):
    number = [c[0] for c in ALL].index("bfloat")
    x = np.full((61, 70), 1, ml_dtypes.bfloat16)
    y = np.full((70, 45), 1 / 128, ml_dtypes.bfloat16)
    x[:, 0] = 128  # in bf16 the others would vanish beside it
    (got,) = compiled.run(number, x, y)
    np.testing.assert_array_equal(got, np.full((61, 45), 1 + 69 / 128, np.float32))
