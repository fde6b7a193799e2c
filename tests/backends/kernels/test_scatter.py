"""The scatter kernels against a window-by-window NumPy scatter, and JAX, index values of every kind."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from quire.backends.kernels import CPU_AVX2, CPU_BASELINE, DTYPES, NoKernel, Spec, scatter
from quire.ir.primitives.indexing import ScatterDimensionNumbers

OPS = ("set", "add", "mul", "min", "max")

ROWS = ScatterDimensionNumbers((1,), (0,), (0,))
SCALARS = ScatterDimensionNumbers((), (0,), (0,))
# name -> (operand shape, indices shape, updates shape, dimension numbers)
FORMS = {
    "scalars": ((11,), (7, 1), (7,), SCALARS),
    "rows": ((9, 21), (6, 1), (6, 21), ROWS),
    "rows of matrices": ((5, 3, 4), (6, 1), (6, 3, 4), ScatterDimensionNumbers((1, 2), (0,), (0,))),
    "columns": ((6, 12), (7, 1), (6, 7), ScatterDimensionNumbers((0,), (1,), (1,))),
    "one window": ((8, 9), (2,), (3, 5), ScatterDimensionNumbers((0, 1), (), (0, 1))),
    "part of a row": ((8, 9), (4, 2), (4, 5), ScatterDimensionNumbers((1,), (0,), (0, 1))),
    "overlapping windows, order of dims": (
        (7, 10),
        (3, 2, 2),
        (3, 2, 2, 3),
        ScatterDimensionNumbers((2, 3), (), (1, 0)),
    ),
    "points": ((7, 10, 3), (4, 5, 3), (4, 5), ScatterDimensionNumbers((), (0, 1, 2), (0, 1, 2))),
    "x[:, i, :, j]": ((3, 5, 4, 6), (7, 2), (3, 7, 4), ScatterDimensionNumbers((0, 2), (1, 3), (1, 3))),
    "batched": ((3, 8, 5), (3, 4, 1), (3, 4, 5), ScatterDimensionNumbers((2,), (1,), (1,), (0,), (0,))),
    "batched windows": ((8, 3, 9), (4, 3, 1), (4, 3, 2), ScatterDimensionNumbers((2,), (0,), (2,), (1,), (1,))),
}
FORMS["overlapping windows, their places first"] = (
    (20,), (30, 1), (3, 30), ScatterDimensionNumbers((0,), (), (0,)),
)  # fmt: skip
FORMS["batched windows"] = ((8, 3, 9), (4, 3, 2), (4, 3, 2), ScatterDimensionNumbers((2,), (0,), (0, 2), (1,), (1,)))


def combine(op: str, old: np.ndarray, new: np.ndarray) -> np.ndarray:
    if op == "set":
        return new
    if op == "add":
        return old | new if old.dtype == np.bool_ else old + new
    if op == "mul":
        return old & new if old.dtype == np.bool_ else old * new
    if old.dtype.kind == "c":
        first = (old.real < new.real) | ((old.real == new.real) & (old.imag < new.imag))
        return np.where(first == (op == "min"), old, new)
    return (np.minimum if op == "min" else np.maximum)(old, new)


def reference(op, mode, operand, indices, updates, dims: ScatterDimensionNumbers) -> np.ndarray:
    """StableHLO's definition, one window at a time."""
    out = operand.copy()
    positions = [d for d in range(updates.ndim) if d not in dims.update_window_dims]
    windows = [d for d in range(operand.ndim) if d not in (*dims.inserted_window_dims, *dims.operand_batching_dims)]
    sizes = [1] * operand.ndim
    for o, u in zip(windows, dims.update_window_dims):
        sizes[o] = updates.shape[u]
    for place in itertools.product(*(range(updates.shape[d]) for d in positions)):
        start = [0] * operand.ndim
        for component, d in enumerate(dims.scatter_dims_to_operand_dims):
            start[d] = int(indices[place][component])
        for o, i in zip(dims.operand_batching_dims, dims.scatter_indices_batching_dims):
            start[o] = place[i]
        if mode == "clip":
            start = [min(max(s, 0), n - w) for s, n, w in zip(start, operand.shape, sizes)]
        if any(s < 0 or s + w > n for s, n, w in zip(start, operand.shape, sizes)):
            continue
        where = tuple(slice(s, s + w) for s, w in zip(start, sizes))
        picked = [slice(None)] * updates.ndim
        for d, p in zip(positions, place):
            picked[d] = p
        new = updates[tuple(picked)].reshape(sizes)
        out[where] = combine(op, out[where], new)
    return out


def draw(name: str, shape, rng) -> np.ndarray:
    dtype = DTYPES[name]
    if dtype.kind == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.kind in ("int", "uint"):
        return rng.integers(0 if dtype.kind == "uint" else -9, 10, shape).astype(dtype.numpy())
    x = rng.integers(-3, 4, shape)  # small integers: every order of float operations is exact
    return (
        (x + 1j * rng.integers(-3, 4, shape)).astype(dtype.numpy())
        if dtype.kind == "complex"
        else x.astype(dtype.numpy())
    )


def draw_indices(shape, operand_shape, dtype, rng) -> np.ndarray:
    """Mostly inside, some just outside, some at the limits of the type."""
    info = np.iinfo(dtype)
    n = max(operand_shape)
    edge = [info.min, info.max, info.max - 1, n, n + 1, -1, -n, info.max // 2 + 1]
    edge = [e for e in edge if info.min <= e <= info.max]
    inside = rng.integers(0, min(operand_shape), shape)
    chosen = rng.choice(np.array(edge, dtype=object), shape)
    return np.where(rng.random(shape) < 0.8, inside, chosen).astype(dtype)


def cases() -> list[tuple]:
    out = []
    for form in FORMS:
        for op, mode, index in (("set", "drop", "i32"), ("add", "clip", "i64"), ("add", "drop", "i8")):
            out.append((form, op, mode, index, "f32", CPU_AVX2))
    for index in ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"):
        for mode in ("drop", "clip"):
            out.append(("part of a row", "set", mode, index, "i32", CPU_AVX2))
    for name in DTYPES:
        out += [("rows", op, "drop", "i32", name, CPU_AVX2) for op in OPS]
    out += [("rows", op, "drop", "i32", "c64", CPU_BASELINE) for op in OPS]
    return list(dict.fromkeys(out))


CASES = cases()


@pytest.fixture(scope="module")
def compiled(bundle):
    module = bundle()
    numbers = []
    for form, op, mode, index, name, target in CASES:
        operand, indices, updates, dims = FORMS[form]
        specs = Spec.of(operand, name), Spec.of(indices, index), Spec.of(updates, name)
        numbers.append(module.add(scatter(op, *specs, dims, target, mode=mode)))
    module.compile()
    return module, numbers


@pytest.mark.parametrize("case", range(len(CASES)), ids=lambda i: "-".join(map(str, CASES[i][:5])))
def test_scatter(compiled, tools, case):
    module, numbers = compiled
    form, op, mode, index, name, _ = CASES[case]
    operand_shape, indices_shape, updates_shape, dims = FORMS[form]
    for seed in range(4):
        rng = np.random.default_rng(seed)
        operand, updates = draw(name, operand_shape, rng), draw(name, updates_shape, rng)
        indices = draw_indices(indices_shape, operand_shape, DTYPES[index].numpy(), rng)
        expected = reference(op, mode, operand, indices, updates, dims)
        (got,) = module.run(numbers[case], operand, indices, updates)
        np.testing.assert_array_equal(got, expected)


def test_scatter_equals_jax(bundle, tools):
    jax = pytest.importorskip("jax")
    functions = {
        "set": jax.lax.scatter, "add": jax.lax.scatter_add, "mul": jax.lax.scatter_mul,
        "min": jax.lax.scatter_min, "max": jax.lax.scatter_max,
    }  # fmt: skip
    modes = {"drop": jax.lax.GatherScatterMode.FILL_OR_DROP, "clip": jax.lax.GatherScatterMode.CLIP}
    module, runs = bundle(), []
    for number, (form, op, mode) in enumerate(itertools.product(FORMS, ("set", "max"), modes)):
        operand, indices, updates, dims = FORMS[form]
        specs = Spec.of(operand, "f32"), Spec.of(indices, "i32"), Spec.of(updates, "f32")
        runs.append((form, op, mode, number, module.add(scatter(op, *specs, dims, CPU_AVX2, mode=mode))))
    module.compile()
    for form, op, mode, seed, number in runs:
        rng = np.random.default_rng(seed)
        operand, indices, updates, dims = FORMS[form]
        x, u = draw("f32", operand, rng), draw("f32", updates, rng)
        i = draw_indices(indices, operand, np.dtype(np.int32), rng)
        numbers = jax.lax.ScatterDimensionNumbers(
            dims.update_window_dims,
            dims.inserted_window_dims,
            dims.scatter_dims_to_operand_dims,
            dims.operand_batching_dims,
            dims.scatter_indices_batching_dims,
        )
        arrays = map(jax.numpy.asarray, (x, i, u))
        wanted = functions[op](*arrays, numbers, mode=modes[mode])
        np.testing.assert_array_equal(module.run(number, x, i, u)[0], np.asarray(wanted), err_msg=form)


def test_special_values(bundle, tools):
    values = np.array([0.0, -0.0, np.nan, 1, np.inf, -np.inf, 1e-45, -1e-45], np.float32)
    x, u = (a.ravel() for a in np.meshgrid(values, values))
    indices = np.arange(64, dtype=np.int32)[:, None]
    specs = Spec.of((64,), "f32"), Spec.of((64, 1), "i32"), Spec.of((64,), "f32")
    module = bundle()
    numbers = {op: module.add(scatter(op, *specs, SCALARS, CPU_AVX2)) for op in ("set", "min", "max")}
    module.compile()
    (got,) = module.run(numbers["set"], x, indices, u)
    np.testing.assert_array_equal(tools.bits(got), tools.bits(u))
    for op in ("min", "max"):
        (got,) = module.run(numbers[op], x, indices, u)
        np.testing.assert_array_equal(got, combine(op, x, u))
        zeros = (x == 0) & (u == 0)
        negative = np.signbit(x) | np.signbit(u) if op == "min" else np.signbit(x) & np.signbit(u)
        np.testing.assert_array_equal(np.signbit(got[zeros]), negative[zeros])


def test_extremes_of_copies_and_of_ranges(bundle):
    """Where there are many updates the operand holds keys meanwhile; where there are few, each update makes two."""
    rng = np.random.default_rng(0)
    values = np.array([0.0, -0.0, np.nan, 1, -2, np.inf, -np.inf, 3e-5])
    module, runs = bundle(), []
    for dtype, op, keep in itertools.product(("f16", "f32", "f64"), ("min", "max"), (False, True)):
        many = Spec.of((600, 128), dtype), Spec.of((900, 1), "i32"), Spec.of((900, 128), dtype)
        few = Spec.of((9, 3000), dtype), Spec.of((7, 1), "i32"), Spec.of((7, 3000), dtype)
        alone = Spec.of((4000,), dtype), Spec.of((500, 1), "i32"), Spec.of((500,), dtype)
        blocks = Spec.of((300,), dtype), Spec.of((1101, 1), "i32"), Spec.of((1101,), dtype)  # 512, 512 and 77
        for specs, dims in ((many, ROWS), (few, ROWS), (alone, SCALARS), (blocks, SCALARS)):
            kernel = scatter(op, *specs, dims, CPU_AVX2, keep=keep)
            runs.append((kernel, op, specs, dims, module.add(kernel)))
    assert {kernel.groups for kernel, *_ in runs} >= {1, 2, 3, 5}
    assert {kernel.tied for kernel, *_ in runs} == {(), ((0, 0),)}
    module.compile()
    for _, op, (operand, indices, updates), dims, number in runs:
        x, u = (rng.choice(values, spec.shape).astype(operand.dtype.numpy()) for spec in (operand, updates))
        i = rng.integers(-2, operand.shape[0] + 2, indices.shape).astype(np.int32)
        (got,), want = module.run(number, x, i, u), reference(op, "drop", x, i, u, dims)
        np.testing.assert_array_equal(got, want)


def test_large_scatters(bundle):
    """Several workgroups; many duplicates in order."""
    rng = np.random.default_rng(0)
    wide = Spec.of((64, 2500), "f32"), Spec.of((1500, 1), "i32"), Spec.of((64, 1500), "f32")
    many = Spec.of((100,), "i32"), Spec.of((50_000, 1), "i32"), Spec.of((50_000,), "i32")
    module = bundle()
    columns = module.add(scatter("add", *wide, ScatterDimensionNumbers((0,), (1,), (1,)), CPU_AVX2))
    sums = module.add(scatter("add", *many, SCALARS, CPU_AVX2))
    last = module.add(scatter("set", *many, SCALARS, CPU_AVX2))
    assert "%x = arith.constant 11 : index" in module.kernels[columns].text  # the grid: 64 * 1500 updates
    module.compile()
    x, u = rng.integers(0, 9, (64, 2500)).astype(np.float32), rng.integers(0, 9, (64, 1500)).astype(np.float32)
    i = rng.integers(0, 2500, (1500, 1)).astype(np.int32)
    expected = x.copy()
    np.add.at(expected, (slice(None), i[:, 0]), u)
    np.testing.assert_array_equal(module.run(columns, x, i, u)[0], expected)
    x, i = np.zeros(100, np.int32), rng.integers(-5, 105, (50_000, 1)).astype(np.int32)
    u = rng.integers(0, 1000, 50_000).astype(np.int32)
    good = (i[:, 0] >= 0) & (i[:, 0] < 100)
    expected = np.zeros(100, np.int32)
    np.add.at(expected, i[good, 0], u[good])
    np.testing.assert_array_equal(module.run(sums, x, i, u)[0], expected)
    for place, value in zip(i[good, 0], u[good]):
        expected[place] = value
    np.testing.assert_array_equal(module.run(last, x, i, u)[0], expected)


def test_unique_elements_are_shared_among_workgroups(bundle):
    """Also from outside; windows of several places along an indexed dimension may overlap, and are not shared."""
    rng = np.random.default_rng(0)
    points, rows = ScatterDimensionNumbers((), (0, 1), (0, 1)), ScatterDimensionNumbers((1,), (0,), (0, 1))
    specs = Spec.of((400, 300), "f32"), Spec.of((200, 150, 2), "i32"), Spec.of((200, 150), "f32")
    parts = Spec.of((400, 300), "f32"), Spec.of((400, 2), "i32"), Spec.of((400, 150), "f32")
    module = bundle()
    numbers = {op: module.add(scatter(op, *specs, points, CPU_AVX2, unique=True)) for op in ("set", "add")}
    assert all("%x = arith.constant 3 : index" in module.kernels[k].text for k in numbers.values())  # the grid
    assert scatter("add", *parts, rows, CPU_AVX2, unique=True).text == scatter("add", *parts, rows, CPU_AVX2).text
    clipped = scatter("add", *specs, points, CPU_AVX2, mode="clip", unique=True)  # clamped, two may be equal
    assert clipped.text == scatter("add", *specs, points, CPU_AVX2, mode="clip").text
    module.compile()
    x, u = draw("f32", (400, 300), rng), draw("f32", (200, 150), rng)
    places = np.stack(np.meshgrid(np.arange(-3, 397, 2), np.arange(301, 1, -2), indexing="ij"), -1).astype(np.int32)
    for op, number in numbers.items():
        np.testing.assert_array_equal(module.run(number, x, places, u)[0], reference(op, "drop", x, places, u, points))


def test_zero_sizes_forward_the_operand(bundle):
    module = bundle()
    none = module.add(
        scatter("add", Spec.of((5, 3), "u8"), Spec.of((0, 1), "i32"), Spec.of((0, 3), "u8"), ROWS, CPU_AVX2)
    )
    empty = module.add(
        scatter("add", Spec.of((5, 0), "c64"), Spec.of((2, 1), "i32"), Spec.of((2, 0), "c64"), ROWS, CPU_AVX2)
    )
    assert module.kernels[none].tied == () and module.kernels[none].forward == (0,)
    module.compile()
    x = np.arange(15, dtype=np.uint8).reshape(5, 3)
    got = module.run(none, x, np.zeros((0, 1), np.int32), np.zeros((0, 3), np.uint8))[0]
    np.testing.assert_array_equal(got, x)
    got = module.run(empty, np.zeros((5, 0), np.complex64), np.zeros((2, 1), np.int32), np.zeros((2, 0), np.complex64))
    assert got[0].shape == (5, 0)


def test_what_scatter_does_not_take():
    x, i, u = Spec.of((5, 3), "f32"), Spec.of((2, 1), "i32"), Spec.of((2, 3), "f32")
    assert scatter("set", x, i, u, ROWS, CPU_AVX2).tied == ((0, 0),)
    with pytest.raises(NoKernel, match="indices must be integers, got f32"):
        scatter("set", x, Spec.of((2, 1), "f32"), u, ROWS, CPU_AVX2)
    with pytest.raises(NoKernel, match="operand and updates differ: f32 and f64"):
        scatter("set", x, i, Spec.of((2, 3), "f64"), ROWS, CPU_AVX2)
    with pytest.raises(NoKernel, match="larger than the operand"):
        scatter("set", x, i, Spec.of((2, 4), "f32"), ROWS, CPU_AVX2)
