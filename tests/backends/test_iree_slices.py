"""Slices, pads and windows that IREE 3.13 gets wrong or refuses: what quire compiles them to is right.

Other operations are in `test_iree_forms.py`.
"""

from __future__ import annotations

import itertools
import re
from typing import Any

import numpy as np
import pytest

import quire
import quire.numpy as qnp
from quire import lax, tree_util
from quire.ir import dtypes
from quire.ir.config import config

from ..helpers import Case, array, check, leaves


def test_windows_of_one_element_of_what_is_read_as_a_whole_too():
    x = np.arange(30, dtype=np.float32).reshape(5, 6)

    def windows(shape: tuple[int, ...], strides: tuple[int, ...]) -> Any:
        def f(x: Any) -> Any:
            whole = x * 0.5 + 0.25
            return [whole, lax.reduce_window(whole, np.zeros((), np.float32), lax.add, shape, strides, "VALID")]

        return f

    check([
        *(Case(f"{w} {s}", windows(w, s), [x]) for w in ((1, 2), (1, 1)) for s in ((2, 1), (1, 2), (3, 3))),
        Case("one dimension", windows((1,), (2,)), [x[0]]),
    ])  # fmt: skip


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


def test_reversed_slices_of_one_element_a_row():
    def cases(x: Any) -> list[Any]:
        return [
            qnp.flip(x[:, :, :1]), qnp.flip(x[:, :, 1:2], 0), qnp.flip(qnp.sin(x[:, 1:2, 2:3]), (0, 1)), x[::-1, :, 1:2] + 1,
            qnp.flip(lax.dynamic_slice(x, (0, 0, 1), (3, 4, 1)), 1), x.at[:, :, :1].set(qnp.flip(x[:, :, :1])),
            quire.vmap(lambda r: r.at[:, 2:3:2].max(qnp.flip(r[:, 2:3:2])))(x), qnp.flip(x[:, 1:2, None, :, None], 0),
        ]  # fmt: skip

    check([Case("rows", leaves(cases), [array(np.float32, 3, 4, 5)])])


PADS = [((0, 0, 1),), ((2, 2, 0),), ((1, 0, 2),), ((-1, 2, 0),), ((0, -1, 1),)]


@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.bool_, dtypes.complex64, dtypes.complex128], ids=str)
def test_padding_what_is_padded(dtype):
    zero = np.zeros((), dtype)

    def padded(x: Any) -> list[Any]:
        return [lax.pad(lax.pad(x, zero, first), zero, then) for first in PADS for then in PADS]

    with config.override(enable_x64=dtype == dtypes.complex128):
        check([Case("padded", padded, [array(dtype, 5)])])


@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.bool_, dtypes.int8, dtypes.complex128], ids=str)
def test_padding_with_one_value_what_is_padded_with_another(dtype):
    """IREE fills, computes and fills in one dispatch, and refuses it."""
    one, two = np.ones((), dtype), np.zeros((), dtype)

    def computed(x: Any) -> list[Any]:
        made = [x + x, qnp.broadcast_to(x[0], (5,)), x]
        return [lax.pad(lax.pad(y, one, first), two, then) for y in made for first in PADS for then in PADS]

    def of_scalars(x: Any) -> list[Any]:
        spread = qnp.broadcast_to(x[0], (1, 3))
        rows = lax.pad(spread, x[1], ((0, 2, 0), (0, 0, 0)))
        return [lax.pad(rows, x[2], ((0, 0, 0), (0, 1, 0))), lax.pad(rows.T, x[2], ((0, 0, 0), (0, 1, 0)))]

    def of_nothing(x: Any) -> Any:
        return qnp.pad(x[:0, None] + x[0], ((1, 2), (0, 1)), constant_values=((0, 1), (1, 0)))

    with config.override(enable_x64=dtype == dtypes.complex128):
        x = array(dtype, 5)
        check([Case(f.__name__, leaves(f), [x]) for f in (computed, of_scalars, of_nothing)])


def test_derivatives_of_slices_with_strides_of_what_is_padded():
    def pulled(f: Any) -> Any:
        def g(x: Any) -> Any:
            y, pull = quire.vjp(f, x)
            return [*y, *pull([0.5 - 0.25 * v for v in y])]

        return g

    def sliced(x: Any) -> list[Any]:
        return [lax.pad(x, np.float32(0), ((2, 2, 1), (2, 2, 0)))[:, 3:0:-1]]

    check([Case("twice", pulled(pulled(sliced)), [array(np.float32, 2, 2)])])


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


def padded_then(move: Any) -> Any:
    """`move` of arrays that are padded at the edges, within, and written into larger ones."""

    def f(x: Any) -> Any:
        zero = np.zeros((), x.dtype)
        pads = [((1, 0, 0), (0, 2, 0)), ((0, 1, 1), (1, 1, 0)), ((2, 1, 2), (0, 0, 0))]
        some = [lax.pad(x, zero, pad) for pad in pads]
        some.append(lax.dynamic_update_slice(qnp.zeros((6, 7), x.dtype), x, (1, 0)))
        return [move(p) for p in some]

    return f


@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float16, dtypes.int32], ids=str)
def test_windows_and_convolutions_of_what_is_padded(dtype):
    """The dilation of the one was not applied to the padding of the other: gradients of windows that are cropped."""
    x, zero = array(dtype, 3, 4), np.zeros((), dtype)

    def window(pad: Any, base: Any, step: Any = (1, 1)) -> Any:
        return lambda p: lax.reduce_window(p, zero, lax.add, (2, 3), step, pad, base_dilation=base)

    def convolution(pad: Any, dilation: Any, step: Any = (1, 1)) -> Any:
        kernel = array(dtype, 1, 1, 2, 3)
        return lambda p: lax.conv_general_dilated(p[None, None], kernel, step, pad, lhs_dilation=dilation)

    check([
        Case(f"{kind} {pad} {base} {step}", padded_then(made(pad, base, step)), [x])
        for kind, made in (("window", window), ("convolution", convolution))
        for pad in (((0, 0), (0, 0)), ((1, 1), (2, 0)))
        for base in ((1, 1), (1, 3), (2, 2))
        for step in ((1, 1), (2, 1))
    ])  # fmt: skip


def test_the_gradient_of_cropped_windows():
    x, w = np.linspace(-1, 1, 65, dtype=np.float32), np.cos(np.arange(7, dtype=np.float32))

    def loss(x: Any) -> Any:
        return qnp.sum(lax.reduce_window(x[::3], np.float32(0), lax.add, (3,), (3,), "SAME")[1:] ** 2 * w)

    check([Case("cropped", quire.grad(loss), [x])])


def test_what_crops_is_a_slice_beside_a_pad():
    """IREE moved the window that it makes of a cropping pad to where the ranks no longer agree (fuzz seed 7504841)."""
    x = np.linspace(-1, 1, 36, dtype=np.float32).reshape(6, 6)

    def f(x: Any) -> Any:
        updated = (x * 2).at[::2].set(1)
        fallen = updated * 0 - 1
        row = (x * 2)[-1, None, 2:3]
        return fallen + fallen.at[0].set(0), x * 2 + updated, fallen.at[0].set(0), qnp.stack([row, row], 2), updated

    def back(x: Any) -> Any:
        out, pull = quire.vjp(f, x)
        return pull(tuple(qnp.cos(y) for y in out))

    padded = [
        Case(str(pads), lambda x, pads=pads: lax.pad(x, np.float32(3), pads), [x])
        for pads in itertools.product(((-2, 1, 0), (1, -7, 0), (-9, 8, 0), (-3, -2, 1), (-1, 4, 2)), repeat=2)
    ]
    check(
        [
            Case("stacked", back, [x]),
            Case("twice", lambda x: quire.grad(lambda x: qnp.sum(back(x)[0]))(x), [x]),
            *padded,
        ]
    )
    assert all("-" not in made for made in _paddings(padded, x))


def _paddings(cases: list[Case], x: Any) -> list[str]:
    """The paddings of the edges in the modules of the cases."""
    texts = [quire.jit(case.f).lower(x).as_text() for case in cases]
    return [found for text in texts for found in re.findall(r"stablehlo\.pad .*?(low = .*?) interior", text)]


def test_what_is_taken_of_expanded_slices():
    """A gather from a strided slice with a new dimension; IREE makes one slice of both, for which it has no code."""

    def f(a: Any) -> Any:
        return a[0:4:2, None].at[np.array([-4, 4, -1])].get(mode="fill")

    a = array(np.float64, 3, 5)
    with config.override(enable_x64=True):
        check([Case("batched", leaves(quire.vmap(f)), (a,)), Case("alone", leaves(f), (a[0],))])


def test_padded_windows_of_slices_with_strides():
    """Two elements with one between them, and a padded window over them: IREE has no code (fuzz seed 8004305)."""
    x = np.linspace(-1, 1, 31, dtype=np.float32)

    def windows(x: Any, n: int, pads: str) -> Any:
        return [lax.reduce_window(x[6 : 6 + 2 * n : 2] * s, np.float32(0), lax.add, (2,), (1,), pads) for s in (1, 2)]

    def best(x: Any) -> Any:
        return lax.reduce_window(x[6:9:2], np.float32(-np.inf), lax.max, (2,), (1,), "SAME")

    check(
        [
            *(Case(f"{n} {p}", leaves(lambda x, n=n, p=p: windows(x, n, p)), [x]) for n in (2, 3) for p in ("SAME", "VALID")),
            Case("largest", lambda x: quire.value_and_grad(lambda x: qnp.sum(best(x) ** 2))(x)[1], [x]),
        ]
    )  # fmt: skip


def test_reversed_parts_of_transposed_arrays():
    """The transpose moves behind the slice, which then has strides: IREE cannot translate it reversed (fuzz seed 9003930)."""
    c = np.linspace(-1, 1, 9 * 3 * 31, dtype=np.float32).reshape(9, 3, 31)

    def part(c: Any) -> Any:
        return lax.slice(qnp.transpose(c, (1, 2, 0)), (0, 0, 4), (3, 1, 7))

    def sums(c: Any) -> Any:
        return qnp.sum(part(c)[..., ::-1] * qnp.arange(9.0).reshape(3, 1, 3))

    check(
        [
            Case("reversed", lambda c: [lax.rev(part(c), (2,))], [c]),
            Case("turned", lambda c: [qnp.transpose(qnp.squeeze(lax.rev(part(c), (2,)), 1)), 0.5 * c], [c]),
            Case("of the other way", lambda c: [lax.rev(qnp.transpose(c[4:7, :, :1], (1, 2, 0)), (2,))], [c]),
            Case("gradient", lambda c: [quire.grad(sums)(c)], [c]),
        ]
    )


def test_pads_of_what_branches_and_loops_pass_on():
    """IREE leaves out what passes a value on, and then makes one pad of two (fuzz seed 8004009)."""
    x = np.arange(1, 8, dtype=np.float32)

    def spread(x: Any) -> Any:
        return lax.pad(x, np.float32(0), ((2, 1, 2),))

    def branch(x: Any) -> Any:
        y = spread(x)
        return qnp.pad(lax.cond(qnp.sum(x) > 1, lambda v: v, lambda v: y, y), 2)

    def loop(x: Any) -> Any:
        y, n = lax.while_loop(lambda c: c[1] < qnp.sum(x), lambda c: (c[0], c[1] + 7.0), (spread(x), 0.0))
        return qnp.pad(y, 2), n

    def both(x: Any) -> Any:
        y, z = lax.cond(qnp.sum(x) > 1, lambda v, w: (v, w * 2), lambda v, w: (v, w - 1), spread(x), x[::2])
        return qnp.pad(y, 2), qnp.pad(z, 1)

    def either(x: Any) -> Any:
        return qnp.pad(lax.cond(qnp.sum(x) > 1, lambda v: spread(v), lambda v: spread(v * 2), x), 2)

    check([Case(f.__name__, leaves(f), [x]) for f in (branch, loop, both, either)])


def test_pads_of_nothing_beside_what_is_added_to_them():
    """Seed 53000126 of the fuzz: no code was found for a slice of such a pad that is stored, and added to."""

    def f(x: Any) -> Any:
        part = lax.pad(x, np.zeros((), x.dtype), ((0, 2, 0), (1, 2, 0)))[:, 2:]
        return part + 3, part, part.at[:, 0].set(1)

    for dtype in ("float16", "float32", "complex64", "int8"):
        for got, want in zip(quire.compile(f)(np.zeros((15, 0), dtype)), (3, 0, 1), strict=True):
            np.testing.assert_array_equal(np.asarray(got), np.full((17, 1), want, dtype))


def test_windows_as_long_as_what_they_slide_over():
    """Seed 45017846 of the fuzz: by the padding on one side IREE takes them for cumulative sums."""
    c, x = np.arange(1, 4, dtype=np.int32), np.random.default_rng(0).standard_normal((3, 3)).astype(np.float32)

    def f(c: Any, x: Any) -> Any:
        pads = ((1, 2), (2, 1), (2, 3), (4, 2), (2, 2), (0, 2))
        sums = [lax.reduce_window(c, np.int32(0), lax.add, (3,), (1,), (p,)) for p in pads]
        largest = [lax.reduce_window(x, -np.inf, lax.max, (3, 3), (1, 1), (p, p)) for p in pads]
        return sums, largest, lax.reduce_window(x, 0.0, lax.add, (3, 3), (1, 1), ((1, 2), (1, 2)), base_dilation=(1, 2))

    got, want = quire.compile(f)(c, x), f(qnp.asarray(c), qnp.asarray(x))
    for a, b in zip(tree_util.tree_leaves(got), tree_util.tree_leaves(want), strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-6)


def test_gradients_of_differences_along_one_element():
    """Seed 74000265 of the fuzz: the cotangent has no elements, and its pads were a stencil of more than 16384."""
    x = np.ones((150, 1, 150), np.float32)

    def f(x: Any) -> Any:
        return quire.grad(lambda x: qnp.sum(qnp.diff(x, axis=1) ** 2) + qnp.sum(x))(x), qnp.pad(x[:, :0] * 2, 1) + x[
            0, 0, 0
        ]

    check([Case("differences", leaves(f), [x])])


def test_what_is_taken_of_what_is_computed_of_slices_with_gaps():
    """Seed 120003135 of the fuzz: elements that are widened are read where they are needed, with strides there."""
    i = np.array([10, -19, 12], np.int32)

    def f(x: Any) -> Any:
        return [
            (x.astype(wide)[46:123:3] + 1)[i] if gaps else (x.astype(wide)[46:72] + 1)[i]
            for wide in ("int32", "float32")
            for gaps in (True, False)
        ]

    x = np.arange(300)
    check([Case(d, f, [x.astype(d)]) for d in ("bool", "int8", "uint16", "float16", "int32")])
