"""The pooling kernel against windows taken one by one in NumPy; the choice, and JAX's numbers, for compiled programs."""

from __future__ import annotations

import itertools

import jax
import numpy as np
import pytest

import quire
import quire.lax
from quire.backends.kernels import CPU_AVX2, CPU_BASELINE, DTYPES, GPU, NoKernel, Spec
from quire.backends.kernels.windows.pooling import pooling
from quire.backends.kernels.windows.window_loops import Windows
from tests.backends.kernels.test_scatter import draw

# name -> (operand shape, lengths, strides, padding, dilation, and the distances of elements where they are not 1)
FORMS = {
    "channels": ((2, 9, 10, 32), (1, 2, 2, 1), (1, 2, 2, 1), ((0, 0),) * 4, (1,) * 4),
    "channels, padded": ((2, 9, 10, 32), (1, 3, 3, 1), (1, 2, 1, 1), ((0, 0), (1, 1), (0, 2), (0, 0)), (1,) * 4),
    "channels, gaps": ((1, 12, 11, 37), (1, 3, 2, 1), (1, 1, 2, 1), ((0, 0), (3, 2), (1, 1), (0, 0)), (1, 2, 3, 1)),
    "many channels": ((3, 5, 300), (1, 3, 1), (1, 1, 1), ((0, 0), (1, 1), (0, 0)), (1, 1, 1)),
    "channels of two dimensions": ((20, 4, 60), (4, 1, 1), (3, 1, 1), ((2, 0), (0, 0), (0, 0)), (1, 1, 1)),
    "large windows": ((30, 150), (11, 1), (1, 1), ((5, 5), (0, 0)), (1, 1)),
    "rows": ((4, 30, 41), (1, 2, 2), (1, 2, 2), ((0, 0),) * 3, (1,) * 3),
    "rows, padded": ((4, 30, 41), (1, 3, 3), (1, 1, 1), ((0, 0), (1, 1), (1, 1)), (1,) * 3),
    "rows, gaps": ((3, 30, 47), (1, 3, 3), (1, 2, 3), ((0, 0), (4, 1), (3, 5)), (1, 2, 2)),
    "long rows": ((3, 1501), (1, 5), (1, 1), ((0, 0), (2, 2)), (1, 1)),
    "long rows, strides": ((3, 2999), (1, 4), (1, 4), ((0, 0), (7, 6)), (1, 1)),
    "one row": ((5000,), (9,), (2,), ((0, 0),), (1,)),
    "windows in the padding": ((70, 64), (2, 3), (1, 2), ((0, 4), (9, 9)), (1, 1)),
    "columns only": ((9, 20, 31), (2, 3, 1), (1, 1, 1), ((0, 0),) * 3, (1,) * 3),
    "elements apart": ((2, 9, 10, 32), (1, 2, 3, 1), (1,) * 4, ((0, 0), (1, 1), (2, 1), (0, 0)), (1,) * 4, (1, 2, 3, 1)),
    "elements apart, strides": ((40, 7, 32), (4, 1, 1), (3, 2, 1), ((5, 0), (0, 1), (0, 0)), (1,) * 3, (5, 1, 1)),
    "rows apart": ((4, 30, 41), (1, 3, 3), (1, 1, 1), ((0, 0), (2, 2), (1, 1)), (1,) * 3, (1, 2, 1)),
    "few channels": ((2, 19, 40, 3), (1, 3, 2, 1), (1, 2, 2, 1), ((0, 0), (1, 0), (1, 1), (0, 0)), (1,) * 4),
    "few channels, gaps": ((2, 19, 41, 5), (1, 2, 3, 1), (1, 1, 3, 1), ((0, 0), (1, 0), (2, 2), (0, 0)), (1, 1, 2, 1)),
    "two channels": ((2, 30, 41, 2), (1, 1, 3, 1), (1, 1, 1, 1), ((0, 0),) * 4, (1,) * 4),
    "places between": ((12, 20, 21), (1, 3, 3), (1, 1, 1), ((0, 0), (1, 2), (2, 1)), (1,) * 3, (1, 2, 2)),
    "places between, few": ((2, 19, 40, 3), (1, 3, 5, 1), (1,) * 4, ((0, 0), (1, 0), (0, 4), (0, 0)), (1,) * 4, (1, 2, 3, 1)),
    "places between, empty": ((3, 1501), (1, 2), (1, 1), ((0, 0), (5, 2)), (1, 1), (1, 4)),
    "strides only": ((9, 20, 64), (1, 1, 1), (2, 1, 3), ((0, 0),) * 3, (1,) * 3),
}  # fmt: skip


def identity(op: str, dtype: np.dtype):
    if op == "sum":
        return 0
    if dtype.kind in "fV":
        return np.inf if op == "min" else -np.inf
    if dtype == np.bool_:
        return op == "min"
    return np.iinfo(dtype).max if op == "min" else np.iinfo(dtype).min


def reference(op: str, x: np.ndarray, w: Windows) -> np.ndarray:
    fill = identity(op, x.dtype)
    work = x.astype(np.float32) if x.dtype.itemsize == 2 and x.dtype.kind in "fV" else x
    apart = np.full([(n - 1) * w.apart(d) + 1 for d, n in enumerate(x.shape)], fill, work.dtype)
    apart[tuple(slice(None, None, w.apart(d)) for d in range(x.ndim))] = work
    padded = np.pad(apart, w.padding, constant_values=fill)
    shape = w.results(x.shape)
    ufunc = {"sum": np.add, "max": np.maximum, "min": np.minimum}[op]
    out = np.full(shape, fill, work.dtype)
    for k in itertools.product(*map(range, w.lengths)):
        starts = [i * d for i, d in zip(k, w.dilation)]
        out = ufunc(out, padded[tuple(slice(a, a + (n - 1) * s + 1, s) for a, n, s in zip(starts, shape, w.strides))])
    return out.astype(x.dtype)


def cases() -> list[tuple]:
    out = [(form, op, "f32", CPU_AVX2) for form in FORMS for op in ("max", "sum")]
    names = [n for n, d in DTYPES.items() if d.kind != "complex"]
    for form in ("channels, padded", "rows, padded", "few channels", "places between"):
        out += [(form, op, n, CPU_AVX2) for n in names for op in ("max", "min", "sum") if (n, op) != ("bool", "sum")]
    out += [(form, "min", "f64", CPU_BASELINE) for form in ("channels", "rows, gaps")]
    return list(dict.fromkeys(out))


CASES = cases()


@pytest.fixture(scope="module")
def compiled(bundle):
    module = bundle()
    numbers = []
    for form, op, name, target in CASES:
        shape, *w = FORMS[form]
        numbers.append(module.add(pooling(op, Spec.of(shape, name), Windows(*w), target)))
    module.compile()
    return module, numbers


@pytest.mark.parametrize("case", range(len(CASES)), ids=lambda i: "-".join(map(str, CASES[i][:3])))
def test_pooling(compiled, case):
    module, numbers = compiled
    form, op, name, _ = CASES[case]
    shape, *w = FORMS[form]
    for seed in range(2):
        x = draw(name, shape, np.random.default_rng(seed))
        (got,) = module.run(numbers[case], x)
        np.testing.assert_array_equal(got, reference(op, x, Windows(*w)))


def test_special_values(bundle):
    values = np.array([0.0, np.nan, 1, np.inf, -np.inf, -2], np.float32)
    x = np.random.default_rng(0).choice(values, (80, 64))
    w = Windows((2, 1), (1, 1), ((1, 0), (0, 0)), (1, 1))
    module = bundle()
    numbers = {op: module.add(pooling(op, Spec.of(x.shape, "f32"), w, CPU_AVX2)) for op in ("max", "min", "sum")}
    module.compile()
    for op, number in numbers.items():
        with np.errstate(invalid="ignore"):
            np.testing.assert_array_equal(module.run(number, x)[0], reference(op, x, w))


def test_what_pooling_does_not_take():
    ones, none = (1, 1), ((0, 0), (0, 0))
    w, x = Windows((2, 1), ones, none, ones), Spec.of((100, 64), "f32")
    assert pooling("sum", x, w, CPU_AVX2).text
    for spec, windows, why in (
        (Spec.of((100, 64), "c64"), w, "takes no complex numbers"),
        (Spec.of((10, 64), "f32"), w, "fewer than 4096 elements"),
        (x, Windows((101, 1), ones, none, ones), "fewer than 4096 elements"),
        (x, Windows((13, 10), ones, none, ones), "windows of more than 128 elements"),
        (x, Windows((2, 1), ones, ((-1, 0), (0, 0)), ones), "negative padding"),
        (x, Windows((2, 1), ones, none, (2, 1), (2, 1)), "gaps in the windows and between the elements"),
        (x, Windows((1, 2), (1, 2), none, ones, (1, 2)), "gaps, between the elements of a row"),
        (x, Windows((1, 2), (1, 5), none, ones), "a stride of more than 4 along rows"),
        (x, Windows((1, 2), ones, ((0, 0), (1200, 0)), (1, 1100)), "windows over more than 1024 elements of a row"),
        (Spec.of((1000, 8), "f32"), Windows((1, 3), ones, none, ones), "rows shorter than a vector"),
        (Spec.of((1000, 20), "i8"), Windows((1, 3), ones, none, ones), "rows shorter than a vector"),
        (
            Spec.of((7, 1000, 3), "f32"),
            Windows((1, 2, 1), (1,) * 3, ((0, 0), (400, 0), (0, 0)), (1, 399, 1)),
            "elements of a row",
        ),
        (x, Windows(ones, ones, none, ones), "windows of one element"),
    ):
        with pytest.raises(NoKernel, match=why):
            pooling("max", spec, windows, CPU_AVX2)
    with pytest.raises(NoKernel, match="the pooling kernel is for CPUs"):
        pooling("max", x, w, GPU)


def test_compiled_programs_use_it():
    def pool(lax):
        def f(x):
            return lax.reduce_window(x, np.float32(-np.inf), lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")

        return f

    x = np.random.default_rng(0).standard_normal((2, 17, 18, 16)).astype(np.float32)
    f = quire.jit(pool(quire.lax))
    text = f.lower(x).as_text()
    assert "pooling: max of windows of 9, vectors of 16 channels" in text
    np.testing.assert_array_equal(f(x), pool(jax.lax)(x))
    small = f.lower(x[:1, :9, :9]).as_text()
    assert "no kernel: fewer than 4096 elements" in small


@pytest.mark.parametrize("shape", [(3, 20, 22, 16), (2, 8, 17, 33)], ids=["channels last", "channels first"])
def test_derivatives_are_those_of_jax(shape):
    window = (1, 3, 3, 1) if shape[-1] == 16 else (1, 1, 3, 3)
    x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    for name in ("max", "add"):

        def loss(lax, np_, name=name):
            init = np.float32(-np.inf if name == "max" else 0)
            return lambda x: np_.sum(lax.reduce_window(x, init, getattr(lax, name), window, window, "SAME") ** 2)

        got = quire.jit(quire.grad(loss(quire.lax, quire.numpy)))(x)
        np.testing.assert_allclose(got, jax.grad(loss(jax.lax, jax.numpy))(x), rtol=1e-5, atol=1e-5)
