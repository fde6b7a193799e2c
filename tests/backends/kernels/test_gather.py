"""The gather kernel against a window-by-window NumPy gather, index values of every kind."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from quire.backends.kernels import CPU_AVX2, CPU_BASELINE, DTYPES, GPU, NoKernel, Spec
from quire.backends.kernels.indexing.gather import UNROLLED, check, covering, gather, result_shape
from quire.ir.primitives.indexing import GatherDimensionNumbers
from tests.backends.kernels.test_scatter import draw, draw_indices

ROWS = GatherDimensionNumbers((1,), (0,), (0,))
# name -> (operand shape, indices shape, dimension numbers, slice sizes)
FORMS = {
    "rows": ((9, 21), (6, 1), ROWS, (1, 21)),
    "rows of 16 bytes": ((9, 16), (5, 1), ROWS, (1, 16)),
    "long rows": ((5, 9000), (3, 1), ROWS, (1, 9000)),
    "rows of matrices": ((5, 3, 16), (6, 1), GatherDimensionNumbers((1, 2), (0,), (0,)), (1, 3, 16)),
    "tokens of sequences": ((11, 40), (3, 4, 1), GatherDimensionNumbers((2,), (0,), (0,)), (1, 40)),
    "parts of rows": ((8, 50), (4, 2), GatherDimensionNumbers((1,), (0,), (0, 1)), (1, 33)),
    "windows, order of dims": ((7, 40), (3, 2), GatherDimensionNumbers((1, 2), (), (1, 0)), (3, 19)),
    "x[:, i]": ((3, 5, 32), (7, 1), GatherDimensionNumbers((0, 2), (1,), (1,)), (3, 1, 32)),
    "x[i, j]": ((3, 5, 32), (7, 2), GatherDimensionNumbers((1,), (0, 1), (0, 1)), (1, 1, 32)),
    "batched": ((3, 8, 17), (3, 4, 1), GatherDimensionNumbers((2,), (1,), (1,), (0,), (0,)), (1, 1, 17)),
    "batched, indices the other way": (
        (3, 8, 17),
        (4, 3, 1),
        GatherDimensionNumbers((2,), (1,), (1,), (0,), (1,)),
        (1, 1, 17),
    ),
    "one window": ((8, 40), (2,), GatherDimensionNumbers((0, 1), (), (0, 1)), (3, 30)),
    "window before": ((4, 6, 20), (5, 1), GatherDimensionNumbers((0, 2), (1,), (1,)), (2, 1, 20)),
}


def reference(mode, fill, operand, indices, dims: GatherDimensionNumbers, sizes) -> np.ndarray:
    """StableHLO's definition, one window at a time."""
    spec = Spec.of(indices.shape, "i32")
    out = np.full(result_shape(spec, dims, sizes), fill, operand.dtype)
    places = [d for d in range(out.ndim) if d not in dims.offset_dims]
    single = (*dims.collapsed_slice_dims, *dims.operand_batching_dims)
    for place in itertools.product(*(range(out.shape[d]) for d in places)):
        start = [0] * operand.ndim
        for component, d in enumerate(dims.start_index_map):
            start[d] = int(indices[place][component])
        for o, i in zip(dims.operand_batching_dims, dims.start_indices_batching_dims):
            start[o] = place[i]
        if mode == "clip":
            start = [min(max(s, 0), n - w) for s, n, w in zip(start, operand.shape, sizes)]
        if any(s < 0 or s + w > n for s, n, w in zip(start, operand.shape, sizes)):
            continue
        window = operand[tuple(slice(s, s + w) for s, w in zip(start, sizes))]
        picked = [slice(None)] * out.ndim
        for d, p in zip(places, place):
            picked[d] = p
        out[tuple(picked)] = window.reshape([w for d, w in enumerate(sizes) if d not in single])
    return out


def cases() -> list[tuple]:
    out = [(form, mode, "i32", "f32", CPU_AVX2) for form in FORMS for mode in ("fill", "clip")]
    out += [("rows", mode, i, "f32", CPU_AVX2) for i in DTYPES if i[0] in "iu" for mode in ("fill", "clip")]
    for name in DTYPES:
        out += [(form, "fill", "i32", name, CPU_AVX2) for form in ("rows", "long rows", "rows of 16 bytes")]
    out += [("rows", "fill", "i64", name, CPU_BASELINE) for name in ("c128", "u8")]
    return list(dict.fromkeys(out))


CASES = cases()
FILLS = {"bool": True, "float": np.nan, "complex": complex(np.nan, 1), "int": -7, "uint": 200}


@pytest.fixture(scope="module")
def compiled(bundle):
    module = bundle()
    numbers = []
    for form, mode, index, name, target in CASES:
        operand, indices, dims, sizes = FORMS[form]
        specs = Spec.of(operand, name), Spec.of(indices, index)
        numbers.append(module.add(gather(*specs, dims, sizes, target, mode=mode, fill=FILLS[DTYPES[name].kind])))
    module.compile()
    return module, numbers


@pytest.mark.parametrize("case", range(len(CASES)), ids=lambda i: "-".join(map(str, CASES[i][:4])))
def test_gather(compiled, tools, case):
    module, numbers = compiled
    form, mode, index, name, _ = CASES[case]
    operand, indices, dims, sizes = FORMS[form]
    fill = np.asarray(FILLS[DTYPES[name].kind]).astype(DTYPES[name].numpy())[()]
    for seed in range(4):
        rng = np.random.default_rng(seed)
        x = draw(name, operand, rng)
        i = draw_indices(indices, operand, DTYPES[index].numpy(), rng)
        (got,) = module.run(numbers[case], x, i)
        np.testing.assert_array_equal(tools.bits(got), tools.bits(reference(mode, fill, x, i, dims, sizes)))


def test_bits_are_moved_as_they_are(bundle, tools):
    """Denormals and payloads of NaNs."""
    x = np.random.default_rng(0).integers(0, 2**32, (50, 24), dtype=np.uint64).astype(np.uint32).view(np.float32)
    x[0] = 1e-45
    module = bundle()
    number = module.add(gather(Spec.of((50, 24), "f32"), Spec.of((50, 1), "i32"), ROWS, (1, 24), CPU_AVX2))
    module.compile()
    i = np.random.default_rng(1).permutation(50).astype(np.int32)
    (got,) = module.run(number, x, i[:, None])
    np.testing.assert_array_equal(tools.bits(got), tools.bits(x[i]))


def test_many_rows_are_shared_by_workgroups(bundle):
    module = bundle()
    specs = Spec.of((1000, 65), "f32"), Spec.of((7, 333, 1), "i32")
    dims = GatherDimensionNumbers((2,), (0,), (0,))
    number = module.add(gather(*specs, dims, (1, 65), CPU_AVX2, mode="clip"))
    assert module.kernels[number].groups == 7 * 333 * 65 * 4 >> 16
    module.compile()
    rng = np.random.default_rng(0)
    x = rng.standard_normal((1000, 65)).astype(np.float32)
    i = rng.integers(-10, 1010, (7, 333, 1)).astype(np.int32)
    np.testing.assert_array_equal(module.run(number, x, i)[0], x[np.clip(i[..., 0], 0, 999)])


def test_zero_sizes_are_new_tensors(bundle):
    module = bundle()
    none = module.add(gather(Spec.of((5, 30), "f32"), Spec.of((0, 1), "i32"), ROWS, (1, 30), CPU_AVX2))
    narrow = module.add(gather(Spec.of((5, 0), "c64"), Spec.of((3, 1), "i32"), ROWS, (1, 0), CPU_AVX2))
    module.compile()
    assert module.run(none, np.zeros((5, 30), np.float32), np.zeros((0, 1), np.int32))[0].shape == (0, 30)
    assert module.run(narrow, np.zeros((5, 0), np.complex64), np.zeros((3, 1), np.int32))[0].shape == (3, 0)


def test_what_gather_does_not_take():
    x, i = Spec.of((5, 30), "f32"), Spec.of((2, 1), "i32")
    check(x, i, ROWS, (1, 30), CPU_AVX2)
    with pytest.raises(NoKernel, match="the gather kernel is for CPUs"):
        gather(x, i, ROWS, (1, 30), GPU)
    with pytest.raises(NoKernel, match="indices must be integers, got f32"):
        gather(x, Spec.of((2, 1), "f32"), ROWS, (1, 30), CPU_AVX2)
    with pytest.raises(NoKernel, match=r"a window \(1, 31\) is larger than the operand f32\[5,30\]"):
        gather(x, i, ROWS, (1, 31), CPU_AVX2)
    with pytest.raises(NoKernel, match="fewer than 1024 elements one by one"):
        gather(Spec.of((5, 3), "f32"), i, ROWS, (1, 3), CPU_AVX2)
    with pytest.raises(NoKernel, match="fewer than 1024 elements one by one"):
        gather(Spec.of((30, 5), "f32"), i, GatherDimensionNumbers((0,), (1,), (1,)), (30, 1), CPU_AVX2)


def test_vectors_of_a_row_are_within_it():
    """A row of 248 words was written as one of 256: past the end of the result, into what came after (fuzz seed 7503041)."""
    for lanes in (2, 4, 8, 16, 32):
        for piece in range(lanes, 40 * lanes + 3):
            turns, starts = covering(piece, lanes)
            step = UNROLLED * lanes
            written = [*range(0, turns * step, lanes), *starts]
            assert max(written) + lanes == piece
            assert {at + k for at in written for k in range(lanes)} == set(range(piece))
