"""Operations that IREE 3.13 gets wrong or refuses: what quire compiles them to is right, and IREE still has the fault.

The first part compiles compositions with each of these operations, many in one module. The second hands IREE the
smallest module that shows a fault, as it is. Where such a test fails, IREE has been mended: the form that avoids the
fault, named in the message, may go.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import quire
import quire.numpy as qnp
from quire import lax
from quire.backends.iree import CompileService
from quire.backends.targets import get_target
from quire.ir import dtypes
from quire.ir.errors import CompileError
from quire.runtime import buffers
from quire.runtime.executable import Executable

from ..helpers import Case, check

HALF = [dtypes.float16, dtypes.bfloat16]
NARROW = [*HALF, dtypes.float32, dtypes.int8, dtypes.complex64]


def leaves(f: Any) -> Any:
    """The function with its results as a flat list."""
    return lambda *args: quire.tree_util.tree_leaves(f(*args))


def array(dtype: Any, *shape: int) -> np.ndarray[Any, Any]:
    """Small numbers with repetitions, exact in every dtype."""
    x = (np.arange(int(np.prod(shape))) * 5 % 7 - 3).reshape(shape)
    return x > 0 if dtypes.is_bool(np.dtype(dtype)) else (np.abs(x) if np.dtype(dtype).kind == "u" else x).astype(dtype)


# -- bools add as "or" -------------------------------------------------------------------------------------------------


def test_bools_add_as_or_and_multiply_as_and():
    a, b = np.array([True, False, True, True]), np.array([True, True, False, True])
    m = np.array([[True, False, True], [True, True, True]])

    def arithmetic(a: Any, b: Any) -> list[Any]:
        return [
            a + b,
            a * b,
            a + b + a + b,
            a + b + 1,
            qnp.sum(a + b),
            qnp.where(a + b, a * b, b + b),
            qnp.add(a, b)[::2],
        ]

    def contractions(m: Any) -> list[Any]:
        return [m @ m.T, m.T @ m, qnp.einsum("ij,kj->ik", m, m), quire.vmap(lambda v: v + m[0])(m)]

    def reductions(m: Any) -> list[Any]:
        return [
            qnp.sum(m, dtype=bool), qnp.prod(m, 0, dtype=bool), lax.cummax(m.astype("int8"), axis=1), qnp.max(m, 1),
            qnp.cumsum(m, dtype=bool), qnp.sum(m, 0), qnp.prod(m, 1), lax.reduce_or(m + m, (0,)),
        ]  # fmt: skip

    def gradient(x: Any, a: Any, b: Any) -> Any:
        return quire.grad(lambda x: qnp.sum(x * (a + b)))(x)

    def loop(m: Any) -> Any:
        return lax.scan(lambda c, r: (c + r, c * r), m[0], m)

    check([
        Case("arithmetic", leaves(arithmetic), [a, b]),
        Case("contractions", leaves(contractions), [m]),
        Case("reductions", leaves(reductions), [m]),
        Case("gradient", leaves(gradient), [np.ones(4, np.float32), a, b]),
        Case("loop", leaves(loop), [m]),
    ])  # fmt: skip
    np.testing.assert_array_equal(quire.jit(lambda a, b: a + b)(a, b), a | b)


# -- sums of equal elements --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_sums_of_equal_elements_count_each(dtype):
    one = np.ones((), dtype)[()]

    def constants() -> Any:
        ones = qnp.full((7, 3), 1, dtype)
        return [
            qnp.sum(qnp.full(7, 1, dtype)), qnp.sum(ones, 0), qnp.sum(ones, 1), qnp.prod(qnp.full(5, 2, dtype)),
            qnp.sum(qnp.full(9, -2, dtype) * qnp.full(9, 3, dtype)), qnp.sum(-ones), qnp.sum(ones[2:5], 1), ones @ ones.T,
            qnp.sum(qnp.concatenate([ones, ones + ones]), 0), qnp.cumsum(ones, 1), qnp.sum(ones.reshape(3, 7), 1),
            lax.reduce(ones, one * 0, lax.add, (1,)), lax.reduce_window(ones, one * 0, lax.add, (3, 2), (1, 1), "VALID"),
            lax.reduce_window(qnp.full(7, 2, dtype), one, lax.mul, (3,), (2,), "VALID"),
            qnp.sum(qnp.pad(ones, 1, constant_values=1), 1),
        ]  # fmt: skip

    def values(x: Any) -> Any:
        wide = qnp.broadcast_to(x, (7, 3))
        return [
            qnp.sum(wide), qnp.sum(wide, 0), qnp.sum(wide, 1), qnp.prod(qnp.full(5, x)), qnp.full((3, 7), x) @ wide,
            lax.reduce_window(wide, one * 0, lax.add, (3, 2), (1, 1), "SAME"),
            quire.vmap(lambda s: qnp.sum(qnp.full((7, 3), s), 1))(wide[0]), lax.map(lambda s: qnp.sum(qnp.full(7, s)), wide[0]),
        ]  # fmt: skip

    check([Case("constants", leaves(constants), []), Case("values", leaves(values), [np.array(2, dtype)])])


@pytest.mark.parametrize("dtype", HALF, ids=str)
def test_the_gradient_of_a_scalar_bias_counts_the_batch(dtype):
    w, b, x = np.ones((4, 3), dtype), np.array(0.5, dtype), np.ones((7, 4), dtype)

    def gradients(w: Any, b: Any, x: Any) -> Any:
        def of(f: Any) -> Any:
            return quire.grad(f)(b)

        return [
            of(lambda b: qnp.sum(x @ w + b)), of(lambda b: qnp.mean(x @ w + b)),
            of(lambda b: qnp.sum(qnp.broadcast_to(b, (7, 3)))), of(lambda b: qnp.sum((x + b).astype("float32"))),
            quire.vmap(quire.grad(lambda b: qnp.sum(x @ w + b)))(qnp.stack([b, b])),
            quire.grad(lambda b: qnp.sum(x @ w + b))(qnp.stack([b, b, b])),
        ]  # fmt: skip

    case = Case("gradients", leaves(gradients), [w, b, x])
    check([case])
    assert float(quire.jit(gradients)(w, b, x)[0]) == 21.0


def test_complex_initial_values_of_two_reductions_are_apart():
    f = quire.jit(lambda: [qnp.sum(qnp.full(7, 1, "complex64")), qnp.prod(qnp.full(7, 2, "complex64"))])
    assert [complex(x) for x in f()] == [7, 128]


# -- reversed slices ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.uint8, dtypes.bool_, dtypes.bfloat16], ids=str)
def test_reversed_slices_with_strides(dtype):
    def plain(x: Any) -> Any:
        v = x.reshape(-1)
        return [
            x[::-2], x[::2][::-1], x[::-1, ::2], x[::-2, ::-3], x[3:0:-2, 4::-2], x[::2, ::2][::-1, ::-1][::-1], v[::-2],
            v[::2][::-1], v[::-5][::-2], x.T[::-2], x[::-2].T, x[::2][::2][::-1],
        ]  # fmt: skip

    def composed(x: Any) -> Any:
        return [
            lax.pad(x, x[0, 0], ((1, 2, 1), (0, 0, 0)))[::-2], qnp.concatenate([x[::-2], x[::2]])[::-1], qnp.rot90(x[::2]),
            qnp.flip(qnp.concatenate([x[::2], x[::-1]]), 1)[:, ::2], lax.pad(x[::-2], x[0, 0], ((0, 0, 1), (-1, -1, 0))),
            x.reshape(6, 4)[::-2].reshape(-1), qnp.roll(x[::-2], 1, 0), lax.dynamic_slice(x[::-1], (1, 2), (2, 3))[::-2],
            x[::-2].at[0].set(x[0]), x[::-2][qnp.array([1, 0])], quire.vmap(lambda r: r[::2][::-1], in_axes=1)(x),
        ]  # fmt: skip

    cases = [
        Case("plain", leaves(plain), [array(dtype, 4, 6)]),
        Case("composed", leaves(composed), [array(dtype, 4, 6)]),
    ]
    if dtype == dtypes.float32:

        def derived(x: Any) -> Any:
            return [
                quire.grad(lambda x: qnp.sum(x[::-1, ::2] ** 2))(x), qnp.cumsum(x[::2][::-1]), qnp.sort(x[::-2, ::-2], 1),
                quire.grad(lambda x: qnp.sum(qnp.cumsum(x[::-2, ::-3], 0)[::2] ** 2))(x), x[::-2, ::-2] @ x[:3, :2],
            ]  # fmt: skip

        cases.append(Case("derived", leaves(derived), [array(dtype, 4, 6)]))
    check(cases)


# -- windows of which one fits -----------------------------------------------------------------------------------------

WINDOWS = [
    ((5,), (3,), (3,)), ((7,), (2,), (9,)), ((5, 5), (3, 3), (3, 3)), ((1, 6, 6, 2), (1, 4, 4, 1), (1, 3, 3, 1)),
    ((3, 8), (3, 2), (2, 3)),
]  # fmt: skip


@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.bfloat16, dtypes.int32], ids=str)
def test_strided_windows_of_which_one_fits(dtype):
    cases: list[Case] = []
    for shape, window, strides in WINDOWS:

        def reduced(x: Any, window: Any = window, strides: Any = strides) -> Any:
            def of(f: Any, init: int, padding: Any, **options: Any) -> Any:
                return lax.reduce_window(x, np.asarray(init, x.dtype)[()], f, window, strides, padding, **options)

            out = [of(f, init, p) for f, init in ((lax.add, 0), (lax.max, -9), (lax.min, 9)) for p in ("VALID", "SAME")]
            twos = (2,) * len(window)
            out += [
                of(lax.mul, 1, "VALID"),
                of(lambda a, b: a + b * 1, 2, [(1, 2)] * len(window), window_dilation=twos),
            ]
            return [*out, of(lax.add, 0, "VALID", base_dilation=twos), of(lax.add, 3, [(9, -8)] * len(window))]

        cases.append(Case(f"{shape} {window} {strides}", leaves(reduced), [array(dtype, *shape)]))
        if dtype == dtypes.float32:

            def derived(x: Any, window: Any = window, strides: Any = strides) -> Any:
                def of(f: Any, init: float) -> Any:
                    return quire.grad(
                        lambda x: qnp.sum(lax.reduce_window(x, np.float32(init), f, window, strides, "VALID") ** 2)
                    )(x)

                return [of(lax.add, 0), of(lax.max, -np.inf)]

            cases.append(Case(f"gradients {shape} {window} {strides}", leaves(derived), [array(dtype, *shape)]))
    check(cases)


@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.bfloat16, dtypes.int32], ids=str)
def test_strided_convolutions_of_which_one_window_fits(dtype):
    cases: list[Case] = []
    for x, k, strides, padding in (
        ((1, 2, 5), (3, 2, 3), (3,), "VALID"), ((2, 3, 5, 5), (4, 3, 3, 3), (3, 3), "VALID"),
        ((2, 3, 6, 9), (4, 3, 4, 2), (3, 2), "VALID"), ((1, 1, 7), (1, 1, 2), (9,), "VALID"),
        ((2, 3, 5, 5), (4, 3, 3, 3), (5, 5), "SAME"), ((1, 2, 3), (2, 2, 2), (5,), ((4, -3),)),
    ):  # fmt: skip

        def convolved(x: Any, k: Any, strides: Any = strides, padding: Any = padding) -> Any:
            many = lax.conv_general_dilated(
                x, qnp.concatenate([k[:, :1]] * x.shape[1]), strides, padding, feature_group_count=x.shape[1]
            )
            one = lax.conv_general_dilated(x, k, strides, padding)
            return [one, many, quire.vmap(lambda x: lax.conv_general_dilated(x, k, strides, padding))(x[None])]

        cases.append(Case(f"{x} {k} {strides}", leaves(convolved), [array(dtype, *x), array(dtype, *k)], atol=1e-5))
    check(cases)


# -- several reduced results -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.bfloat16, dtypes.int32], ids=str)
def test_positions_of_extremes_whose_readers_transpose(dtype):
    x = array(dtype, 3, 4, 5, 6)
    cases: list[Case] = []
    for axis in range(4):

        def positions(x: Any, axis: int = axis) -> Any:
            def mapped(f: Any) -> Any:
                return quire.vmap(f, in_axes=axis)(x)

            return [
                *(mapped(lambda v, i=i: qnp.argmax(v, i, keepdims=True)) for i in range(3)),
                mapped(lambda v: qnp.argmin(v, 1).T), mapped(lambda v: 2 * qnp.argmax(v, 0).T),
                mapped(lambda v: qnp.take_along_axis(v, qnp.argmin(v, 1, keepdims=True), 1)),
                mapped(lambda v: qnp.put_along_axis(
                    v, qnp.argmax(v, 1, keepdims=True), qnp.zeros((), v.dtype), 1, inplace=False
                )),
            ]  # fmt: skip

        cases.append(Case(f"in_axes={axis}", leaves(positions), [x]))
    check(cases)


# -- carried values that the body does not read ------------------------------------------------------------------------


def test_loops_that_carry_what_their_bodies_do_not_read():
    x = np.random.default_rng(3).normal(size=(4, 6)).astype(np.float32)

    def orthogonal(x: Any) -> Any:
        return qnp.linalg.qr(x.T)[0].T

    def by_flag(x: Any) -> Any:
        def body(c: Any) -> Any:
            i, a, _, _ = c
            y = orthogonal(a)
            return i + 1, y, qnp.where(i > 2, y, y * 2), qnp.logical_or(i > 2, qnp.isnan(qnp.sum(y)))

        return lax.while_loop(lambda c: ~c[3], body, (0, x, x, False))

    def chain(x: Any) -> Any:
        def body(c: Any) -> Any:
            i, a, b, s, ones, _ = c
            return i + 1, orthogonal(a) + b, qnp.zeros((4, 6)), qnp.sum(a) ** 2, qnp.ones(3) * i, qnp.arange(3)

        start = (0, x, x, 0.0, qnp.zeros(3), qnp.zeros(3, int))
        return lax.while_loop(lambda c: (c[0] < 3) & (c[3] >= 0), body, start)

    def no_trip(x: Any) -> Any:
        step = lambda c: (c[0] + 1, orthogonal(c[1]), c[1], qnp.sum(c[1]))  # noqa: E731
        return lax.while_loop(lambda c: qnp.sum(c[1]) < -1e9, step, (0, x, x + 1, 7.0))

    def swapped(x: Any) -> Any:
        step = lambda c: (c[0] + 1, orthogonal(c[1]), c[3], qnp.sum(c[1]), c[2])  # noqa: E731
        return lax.while_loop(lambda c: (c[0] < 3) & (qnp.sum(c[1]) < 1e9), step, (0, x, 0.0, 1.0, 2.0))

    def counted(x: Any, n: Any) -> Any:
        step = lambda i, c: (orthogonal(c[0]) * 2, c[0], qnp.sum(c[0]), i)  # noqa: E731
        return lax.fori_loop(0, n, step, (x, x * 0, 0.0, 7))

    check([
        *(Case(f.__name__, leaves(f), [x], rtol=1e-4, atol=1e-4) for f in (by_flag, chain, no_trip, swapped)),
        Case("counted", leaves(counted), [x, np.int32(0)], rtol=1e-4, atol=1e-4),
        Case("counted twice", leaves(counted), [x, np.int32(2)], rtol=1e-4, atol=1e-4),
    ])  # fmt: skip


# -- what IREE itself does ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def service():
    service = CompileService(workers=1)
    yield service
    service.close()


def by_iree(service: CompileService, module: str, *args: Any) -> list[Any]:
    """The results of a module that is given to IREE as it is."""
    output = service.compile(module, get_target("cpu").flags)
    device = quire.devices("cpu")[0]
    views = [buffers.from_numpy(a, device, copy=True) for a in args]
    return [buffers.to_numpy(v, device) for v in Executable.load(output.vmfb, device).execute(views)]


GONE = "IREE has mended this fault: {} may go"

SUM_OF_CONVERTED = """func.func @main() -> tensor<f32> {
  %c = stablehlo.constant dense<1.0> : tensor<7xbf16>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %x = stablehlo.convert %c : (tensor<7xbf16>) -> tensor<7xf32>
  %r = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [0]
    : (tensor<7xf32>, tensor<f32>) -> tensor<f32>
  return %r : tensor<f32>
}"""


def test_iree_takes_one_element_of_a_sum_of_equal_ones(service):
    (r,) = by_iree(service, SUM_OF_CONVERTED)
    assert r == 1.0, GONE.format("hlo.no_fill")


SUM_OF_BOOLS = """func.func @main(%a: tensor<2xi1>) -> tensor<2xi1> {
  %r = stablehlo.add %a, %a : tensor<2xi1>
  return %r : tensor<2xi1>
}"""


def test_iree_adds_bools_modulo_2(service):
    (r,) = by_iree(service, SUM_OF_BOOLS, np.array([True, False]))
    assert not r.any(), GONE.format("hlo.add's case of bools")


COMPLEX_INITIALISERS = """func.func @main(%a: tensor<7xf32>, %b: tensor<7xf32>) -> (tensor<complex<f32>>, tensor<complex<f32>>) {
  %o = stablehlo.constant dense<1.0> : tensor<f32>
  %n = stablehlo.constant dense<0.0> : tensor<f32>
  %zero = stablehlo.complex %n, %n : tensor<complex<f32>>
  %one = stablehlo.complex %o, %n : tensor<complex<f32>>
  %x = stablehlo.complex %a, %b : tensor<7xcomplex<f32>>
  %s = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [0]
    : (tensor<7xcomplex<f32>>, tensor<complex<f32>>) -> tensor<complex<f32>>
  %p = stablehlo.reduce(%x init: %one) applies stablehlo.multiply across dimensions = [0]
    : (tensor<7xcomplex<f32>>, tensor<complex<f32>>) -> tensor<complex<f32>>
  return %s, %p : tensor<complex<f32>>, tensor<complex<f32>>
}"""


def test_iree_takes_the_first_of_several_initialised_constants(service):
    total, _ = by_iree(service, COMPLEX_INITIALISERS, np.full(7, 2, np.float32), np.zeros(7, np.float32))
    assert total == 15, GONE.format("hlo._no_initialiser")  # 14 plus the product's initial value


REFUSED = {
    "origins.takes_strides": """func.func @main(%x: tensor<4x6xf32>) -> tensor<4x3xf32> {
  %s = stablehlo.slice %x [0:4, 0:6:2] : (tensor<4x6xf32>) -> tensor<4x3xf32>
  %r = stablehlo.reverse %s, dims = [0] : tensor<4x3xf32>
  return %r : tensor<4x3xf32>
}""",
    "single_windows in hlo.reduce_window": """func.func @main(%x: tensor<5xf32>) -> tensor<1xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %r = "stablehlo.reduce_window"(%x, %zero) ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %c = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %c : tensor<f32>
  }) {window_dimensions = array<i64: 3>, window_strides = array<i64: 3>} : (tensor<5xf32>, tensor<f32>) -> tensor<1xf32>
  return %r : tensor<1xf32>
}""",
    "single_windows in emit_conv": """func.func @main(%x: tensor<1x5x2xf32>, %k: tensor<3x2x4xf32>) -> tensor<1x1x4xf32> {
  %r = "stablehlo.convolution"(%x, %k) {
    dimension_numbers = #stablehlo.conv<[b, 0, f]x[0, i, o]->[b, 0, f]>, window_strides = array<i64: 3>,
    feature_group_count = 1 : i64, batch_group_count = 1 : i64
  } : (tensor<1x5x2xf32>, tensor<3x2x4xf32>) -> tensor<1x1x4xf32>
  return %r : tensor<1x1x4xf32>
}""",
    "hlo._apart": """func.func @main(%x: tensor<3x4x5xf32>) -> tensor<4x3xi32> {
  %i = stablehlo.iota dim = 2 : tensor<3x4x5xi32>
  %least = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %none = stablehlo.constant dense<9> : tensor<i32>
  %a:2 = stablehlo.reduce(%x init: %least), (%i init: %none) across dimensions = [2]
    : (tensor<3x4x5xf32>, tensor<3x4x5xi32>, tensor<f32>, tensor<i32>) -> (tensor<3x4xf32>, tensor<3x4xi32>)
    reducer(%p: tensor<f32>, %q: tensor<f32>) (%j: tensor<i32>, %k: tensor<i32>) {
      %g = stablehlo.compare GE, %p, %q : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %v = stablehlo.select %g, %p, %q : tensor<i1>, tensor<f32>
      %w = stablehlo.select %g, %j, %k : tensor<i1>, tensor<i32>
      stablehlo.return %v, %w : tensor<f32>, tensor<i32>
    }
  %r = stablehlo.transpose %a#1, dims = [1, 0] : (tensor<3x4xi32>) -> tensor<4x3xi32>
  return %r : tensor<4x3xi32>
}""",
}
"""Modules that IREE refuses, by the form that avoids them."""


@pytest.mark.parametrize("form", REFUSED)
def test_iree_refuses(service, form):
    try:
        service.compile(REFUSED[form], get_target("cpu").flags)
    except CompileError:
        return
    pytest.fail(GONE.format(form))
