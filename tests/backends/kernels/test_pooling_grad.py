"""The kernel of pooling's gradient against the reference backend; compiled programs against JAX."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import quire
import quire.lax
from quire.backends.kernels import CPU_AVX2, CPU_BASELINE, GPU, NoKernel, Spec
from quire.backends.kernels.windows.pooling_grad import pooling_grad
from quire.backends.kernels.windows.window_loops import Op, Windows
from quire.backends.reference.windows import select_and_scatter_add
from tests.backends.kernels.test_scatter import draw

# name -> (operand shape, lengths, strides, padding)
FORMS = {
    "channels": ((2, 9, 10, 32), (1, 2, 2, 1), (1, 2, 2, 1), ((0, 0),) * 4),
    "channels, covered": ((3, 8, 12, 16), (1, 2, 3, 1), (1, 2, 3, 1), ((0, 0),) * 4),
    "channels, overlapping": ((2, 15, 17, 16), (1, 3, 3, 1), (1, 2, 2, 1), ((0, 0), (1, 1), (0, 2), (0, 0))),
    "channels, dense": ((2, 11, 13, 37), (1, 3, 2, 1), (1, 1, 1, 1), ((0, 0), (1, 1), (0, 1), (0, 0))),
    "channels, apart": ((2, 15, 17, 16), (1, 2, 1, 1), (1, 3, 2, 1), ((0, 0), (1, 0), (0, 0), (0, 0))),
    "many channels": ((3, 5, 300), (1, 3, 1), (1, 2, 1), ((0, 0), (1, 1), (0, 0))),
    "blocks": ((70, 5, 16), (3, 2, 1), (2, 1, 1), ((1, 1), (0, 1), (0, 0))),
    "blocks of three dimensions": ((60, 5, 7, 8), (4, 2, 3, 1), (3, 1, 2, 1), ((2, 0), (0, 1), (2, 2), (0, 0))),
    "blocks, apart": ((90, 70), (3, 1), (4, 1), ((2, 0), (0, 0))),
    "windows between": ((40, 6, 30, 8), (2, 1, 3, 1), (1, 1, 2, 1), ((0, 0),) * 4),
    "windows in the padding": ((70, 64), (2, 3), (1, 2), ((0, 4), (9, 9))),
    "rows": ((4, 30, 41), (1, 2, 2), (1, 2, 2), ((0, 0),) * 3),
    "rows, covered": ((4, 32, 64), (1, 2, 2), (1, 2, 2), ((0, 0),) * 3),
    "rows, overlapping": ((4, 30, 41), (1, 3, 3), (1, 2, 2), ((0, 0), (1, 1), (0, 1))),
    "rows, dense": ((4, 30, 41), (1, 3, 5), (1, 1, 1), ((0, 0), (1, 1), (2, 2))),
    "rows, apart": ((4, 30, 41), (1, 2, 2), (1, 3, 4), ((0, 0), (1, 0), (3, 2))),
    "rows, three": ((4, 30, 45), (1, 4, 4), (1, 3, 3), ((0, 0), (0, 0), (1, 1))),
    "short rows": ((64, 30, 7), (1, 3, 3), (1, 2, 2), ((0, 0), (1, 1), (1, 1))),
    "long rows": ((3, 3501), (1, 5), (1, 2), ((0, 0), (2, 2))),
    "long windows": ((3, 3501), (1, 100), (1, 3), ((0, 0), (60, 99))),
    "one row": ((9000,), (9,), (1,), ((4, 4),)),
    "columns and rows": ((90, 70), (5, 3), (2, 1), ((2, 2), (1, 1))),
    "few channels": ((2, 19, 40, 3), (1, 3, 2, 1), (1, 2, 2, 1), ((0, 0), (1, 0), (1, 1), (0, 0))),
    "few channels, dense": ((2, 19, 41, 5), (1, 2, 3, 1), (1, 1, 1, 1), ((0, 0), (1, 0), (1, 1), (0, 0))),
    "two channels": ((2, 30, 41, 2), (1, 3, 3, 1), (1, 2, 3, 1), ((0, 0),) * 4),
}  # fmt: skip

CASES = [(form, op, "f32", CPU_AVX2) for form in FORMS for op in ("max", "min")]
CASES += [
    (form, "max", dtype, CPU_AVX2)
    for form in ("channels, overlapping", "rows, overlapping", "few channels", "rows")
    for dtype in ("f16", "bf16", "f64")
]
CASES += [(form, "max", "f32", CPU_BASELINE) for form in ("channels, dense", "rows, overlapping", "few channels")]


def windows_of(form: str) -> tuple[tuple[int, ...], Windows]:
    shape, lengths, strides, padding = FORMS[form]
    return shape, Windows(lengths, strides, padding, (1,) * len(shape))


def expected(op: Op, values: np.ndarray, x: np.ndarray, w: Windows) -> np.ndarray:
    return select_and_scatter_add(
        values, x, select_prim={"max": "ge", "min": "le"}[op], window_dimensions=w.lengths, window_strides=w.strides,
        padding=w.padding,
    )  # fmt: skip


@pytest.fixture(scope="module")
def compiled(bundle):
    module = bundle()
    for form, op, name, target in CASES:
        shape, w = windows_of(form)
        module.add(pooling_grad(op, Spec.of(shape, name), w, target))
    module.compile()
    return module


@pytest.mark.parametrize("case", range(len(CASES)), ids=lambda i: "-".join(map(str, CASES[i][:3])))
def test_pooling_grad(compiled, case):
    form, op, name, _ = CASES[case]
    shape, w = windows_of(form)
    for seed in range(3):
        rng = np.random.default_rng(seed)
        x, values = draw(name, shape, rng), draw(name, w.results(shape), rng)
        if seed == 1:  # few ties
            x = rng.standard_normal(shape).astype(x.dtype)
        if seed == 2:
            x = rng.choice(np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 1]), shape).astype(x.dtype)
        (got,) = compiled.run(case, values, x)
        np.testing.assert_array_equal(got, expected(op, values, x, w))


def test_what_the_kernel_does_not_take():
    ones, none = (1, 1), ((0, 0), (0, 0))
    x, w = Spec.of((100, 64), "f32"), Windows((2, 1), ones, none, ones)
    assert pooling_grad("max", x, w, CPU_AVX2).text
    for spec, windows, why in (
        (Spec.of((100, 64), "i32"), w, "is for floats"),
        (Spec.of((100, 64), "c64"), w, "takes no complex numbers"),
        (Spec.of((10, 64), "f32"), w, "fewer than 4096 elements"),
        (x, Windows((2, 1), ones, none, (2, 1)), "gaps in the windows or between the elements"),
        (x, Windows((2, 1), ones, none, ones, (2, 1)), "gaps in the windows or between the elements"),
        (x, Windows((1, 2), (1, 5), none, ones), "a stride of more than 4 along rows"),
        (Spec.of((1000, 7), "f32"), Windows((128, 1), ones, none, ones), None),
        (Spec.of((300, 200, 3), "f64"), Windows((1, 128, 1), (1, 1, 1), ((0, 0),) * 3, (1, 1, 1)), None),
        (Spec.of((300, 200, 7), "f64"), Windows((1, 120, 1), (1, 1, 1), ((0, 0),) * 3, (1, 1, 1)), None),
    ):
        if why is None:
            pooling_grad("max", spec, windows, CPU_AVX2)
            continue
        with pytest.raises(NoKernel, match=why):
            pooling_grad("max", spec, windows, CPU_AVX2)
    with pytest.raises(NoKernel, match="is for CPUs"):
        pooling_grad("max", x, w, GPU)


PROGRAMS = {
    "channels last": ((2, 19, 21, 16), (1, 3, 3, 1), (1, 2, 2, 1), "SAME", "vectors of 16 channels"),
    "channels first": ((2, 8, 17, 33), (1, 1, 2, 2), (1, 1, 2, 2), "VALID", "along rows"),
    "three channels": ((2, 32, 32, 3), (1, 3, 3, 1), (1, 1, 1, 1), "SAME", "along rows"),
    "small": ((1, 8, 8, 4), (1, 2, 2, 1), (1, 2, 2, 1), "VALID", "no kernel: fewer than 4096 elements"),
}


def test_compiled_programs_use_it_and_are_those_of_jax():
    arrays = {k: np.random.default_rng(0).standard_normal(v[0]).astype(np.float32) for k, v in PROGRAMS.items()}

    def losses(lax, np_, grad):
        def loss(x, op, window, strides, padding):
            return np_.sum(
                lax.reduce_window(x, -np.inf if op is lax.max else np.inf, op, window, strides, padding) ** 2
            )

        return lambda xs: {
            (k, op.__name__): grad(loss)(x, op, *PROGRAMS[k][1:4]) for k, x in xs.items() for op in (lax.max, lax.min)
        }

    f = quire.jit(losses(quire.lax, quire.numpy, quire.grad))
    got, want = f(arrays), losses(jax.lax, jax.numpy, jax.grad)(arrays)
    for key, value in want.items():
        np.testing.assert_allclose(got[key], value, rtol=1e-6, atol=1e-6, err_msg=str(key))
    text = f.lower(arrays).as_text()
    assert all(reason in text for *_, reason in PROGRAMS.values())


def test_second_derivatives_through_the_kernel():
    x = np.random.default_rng(2).standard_normal((2, 20, 22, 16)).astype(np.float32)

    def hvp(lax, np_, transforms):
        def loss(x):
            return np_.sum(lax.reduce_window(x, -np.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME") ** 3)

        return lambda x: transforms.jvp(transforms.grad(loss), (x,), (x,))[1]

    got = quire.jit(hvp(quire.lax, quire.numpy, quire))(x)
    np.testing.assert_allclose(got, hvp(jax.lax, jax.numpy, jax)(x), rtol=1e-5, atol=1e-5)
