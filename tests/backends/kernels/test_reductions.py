"""Reduction clusters as kernels: every form, dtype and tail in one module, against the reference backend and NumPy."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import quire
import quire.numpy as qnp
from quire import lax
from quire.backends.kernels.core.errors import NoKernel
from quire.backends.kernels.fused.reductions import reduction_kernel
from quire.backends.stablehlo.kernel_calls import kernel_target
from quire.backends.stablehlo.loop_kernels import expander
from quire.backends.targets import TARGETS
from quire.ir.jaxpr import ClosedJaxpr
from quire.passes.manager import PassManager
from tests.helpers import Case, check, trace

R = np.random.default_rng(0)


def array(*shape: int, dtype: str = "float32") -> np.ndarray:
    if dtype == "bool":
        return R.random(shape) < 0.999
    if "int" in dtype:
        return R.integers(-50 if dtype[0] == "i" else 0, 100, shape).astype(dtype)
    x = R.normal(size=shape)
    if dtype == "complex64":
        return (x + 1j * R.normal(size=shape)).astype(dtype)
    return x.astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)


def nan_in(x: np.ndarray) -> np.ndarray:
    x = x.copy()
    x[3, -1], x[5, 0], x[7, :] = np.nan, np.inf, -np.inf
    return x


def log_of_sums(x):
    m = qnp.max(x, 1, keepdims=True)
    m = qnp.where(qnp.isfinite(m), m, 0)
    return qnp.log(qnp.sum(qnp.exp(x - m), 1)) + m[:, 0]


def log_softmax_and_its_sums(x):
    shifted = x - qnp.max(x, -1, keepdims=True)
    e = qnp.exp(shifted)
    total = qnp.sum(e, -1, keepdims=True)
    return shifted - qnp.log(total), e / total, qnp.sum(shifted * e, -1)


def indices(most: int, *shape: int) -> np.ndarray:
    """Places in an array of so many elements, some counted from its end."""
    return R.integers(-most, most, shape).astype("int32")


def elements_at(x, vectors):
    """The elements at index vectors, by one gather."""
    rank = x.ndim
    numbers = lax.GatherDimensionNumbers(
        offset_dims=(), collapsed_slice_dims=tuple(range(rank)), start_index_map=tuple(range(rank))
    )
    return lax.gather(x, vectors, numbers, (1,) * rank)


def windows(x, places, sizes):
    """Windows of these sizes, one from the first element on of each row that a place says."""
    offset = tuple(range(1, x.ndim))
    numbers = lax.GatherDimensionNumbers(offset_dims=offset, collapsed_slice_dims=(0,), start_index_map=(0,))
    return lax.gather(x, places[:, None], numbers, sizes)


def with_nans(x: np.ndarray) -> np.ndarray:
    x = x.copy()
    x[3, 5] = x[3, 300] = x[7, -1] = np.nan
    x[5, :] = -np.inf
    return x


ROWS = array(37, 461)  # 57 vectors of 8 and a tail of 5
COLUMNS = array(131, 139)
THREE = array(7, 33, 83)


def softmax(x):
    e = qnp.exp(x - qnp.max(x, -1, keepdims=True))
    return e / qnp.sum(e, -1, keepdims=True)


def layer_norm(x, g, b):
    m = qnp.mean(x, -1, keepdims=True)
    v = qnp.mean((x - m) ** 2, -1, keepdims=True)
    return (x - m) / qnp.sqrt(v + 1e-5) * g + b


def log_softmax_loss(x, y):
    m = qnp.max(x, -1, keepdims=True)
    shifted = x - m
    logits = shifted - qnp.log(qnp.sum(qnp.exp(shifted), -1, keepdims=True))
    return logits, -qnp.sum(logits * y, -1)


def one_hot_loss(x, labels):
    """What is summed over all elements is computed of sums over rows: rows are summed first, by one kernel."""
    return -qnp.mean(qnp.sum(log_softmax_loss(x, 1)[0] * (labels[:, None] == qnp.arange(461)), -1))


def along(x, d):
    """The index along a dimension."""
    return lax.broadcasted_iota("int32", x.shape, d)


def log_softmax_and_gradient(x, t):
    """Both results are of the last pass, and one is where the exponentials wait that the other reads."""
    shifted = x - qnp.max(x, -1, keepdims=True)
    e = qnp.exp(shifted)
    total = qnp.sum(e, -1, keepdims=True)
    return shifted - qnp.log(total), t - e / total


def norm_and_gradient(x, t):
    """The differences are computed again in a pass after the one whose result could have had the place of `u`."""
    u = qnp.tanh(x) * x
    d = u - qnp.mean(u, -1, keepdims=True)
    y = d / qnp.sqrt(qnp.mean(d * d, -1, keepdims=True))
    return y, d * qnp.sum(y * t, -1, keepdims=True) - t


def masked(x, mask):
    x = qnp.where(mask, x, -1e9)
    return softmax(x)


CASES = [
    Case("softmax", softmax, [ROWS], rtol=1e-5),
    Case("layer norm", layer_norm, [ROWS, array(461), array(461)], rtol=1e-4, atol=1e-5),
    Case("cross entropy", log_softmax_loss, [ROWS, array(37, 461)], rtol=1e-4, atol=1e-4),
    Case("log softmax and gradient", log_softmax_and_gradient, [ROWS, array(37, 461)], rtol=1e-4, atol=1e-5),
    Case("norm and gradient", norm_and_gradient, [ROWS, array(37, 461)], rtol=1e-3, atol=1e-4),
    Case("masked attention", masked, [array(3, 4, 40, 40), array(1, 40, 40, dtype="bool")[0]], rtol=1e-5, atol=1e-7),
    Case("bias of an outer axis", lambda x, b: qnp.sum(x * b[:, None], 1), [ROWS, array(37)], rtol=1e-4, atol=1e-4),
    Case("scalar operand", lambda x, s: qnp.max(x * s, 1), [ROWS, np.float32(-2)]),
    Case("two axes", lambda x: qnp.sum(x, (1, 2)), [array(9, 33, 83)], rtol=1e-4, atol=1e-4),
    Case("all axes", lambda x: (qnp.sum(x), qnp.max(x)), [THREE], rtol=1e-4, atol=1e-4),
    Case("a long row", lambda x: (qnp.sum(x * x), qnp.min(x)), [array(70001)], rtol=1e-5),
    Case("a long row that is also a result", lambda x: (qnp.exp(x), qnp.sum(qnp.exp(x))), [array(40003)], rtol=1e-5),
    Case("columns", lambda x: (qnp.sum(x, 0), qnp.max(x * 2, 0)), [COLUMNS], rtol=1e-4, atol=1e-4),
    Case("columns of a middle axis", lambda x: qnp.sum(x, 1), [THREE], rtol=1e-4, atol=1e-4),
    Case("columns with a bias", lambda x, b: qnp.sum(qnp.tanh(x + b), 0), [COLUMNS, array(139)], rtol=1e-4, atol=1e-4),
    Case("column argmax", lambda x: (qnp.argmax(x, 0), qnp.argmin(x, 0)), [COLUMNS]),
    *[
        Case(f"far columns, {k}", f, [array(*shape, dtype=d)], rtol=1e-3, atol=1e-2)
        for k, f, shape, d in (
            ("sums", lambda x: (qnp.sum(x, 0), qnp.min(x * 2, 0)), (67, 1285), "float32"),
            ("a result that is full", lambda x: (qnp.exp(x), qnp.sum(qnp.exp(x), 0)), (45, 1031), "float32"),
            ("positions", lambda x: (qnp.argmax(x, 0), qnp.argmin(x, 0)), (39, 2571), "float32"),
            ("positions among equal", lambda x: qnp.argmax(x, 0), (70, 4099), "int8"),
            ("complex", lambda x: qnp.sum(x, 0), (33, 777), "complex64"),
            ("half", lambda x: qnp.sum(x * x, 0), (41, 2051), "bfloat16"),
            ("a middle axis", lambda x: (qnp.sum(x, 1), qnp.prod(1 + x / 100, 1)), (3, 35, 1027), "float32"),
            ("two widths", lambda x: qnp.sum(x.astype("float32") * 0.5, 0), (64, 4111), "uint8"),
            ("masks", lambda x: (qnp.any(x > 3, 0), qnp.sum(x, 0)), (37, 1100), "float32"),
            ("shares of rows", lambda x: qnp.sum(x, 0), (5003, 1024), "float32"),
        )
    ],
    *[
        Case(f"repeated arrays, {k}", f, [array(*a), array(*b)], rtol=1e-4, atol=1e-3)
        for k, f, a, b in (
            ("columns that begin again", lambda x, y: qnp.sum(qnp.abs(x[:, None] - y), 0), (37, 48), (41, 48)),
            ("columns in odd parts", lambda x, y: qnp.max(x[:, None] - y, 0), (61, 33), (23, 33)),
            ("columns one by one", lambda x, y: qnp.sum(qnp.tanh(x[:, None] - y), 0), (130, 7), (51, 7)),
            ("few columns", lambda x, y: qnp.min(x[:, None] - y, 1), (83, 3), (91, 3)),
            ("few columns, positions", lambda x, y: qnp.argmin(x[:, None] - y, 1), (83, 2), (123, 2)),
            ("short rows in odd parts", lambda x, y: qnp.sum(qnp.abs(x[:, None] - y), 2), (91, 3), (77, 3)),
            ("short rows one by one", lambda x, y: qnp.prod(qnp.abs(x[:, None] - y), 2), (3001, 3), (3, 3)),
            ("all", lambda x, y: qnp.sum(qnp.abs(x[:, None] - y)), (61, 9), (47, 9)),
            ("all but the first", lambda x, y: qnp.max(x[:, None] - y, (1, 2)), (61, 9), (47, 9)),
            ("all but the last", lambda x, y: qnp.sum(qnp.exp(x[:, None] - y), (0, 1)), (61, 3), (95, 3)),
            ("outer ones", lambda x, y: qnp.sum(qnp.exp(x[:, :, None] - y[:, None]), (0, 2)), (9, 33), (9, 65)),
            ("two of three", lambda x, y: qnp.max(x[:, :, None] * y[:, None], (0, 1)), (19, 35), (19, 45)),
        )
    ],
    Case("a few columns of an array", lambda x: (qnp.sum(x * 2, 1), qnp.max(x, 1)), [array(21, 277, 3)], rtol=1e-4, atol=1e-4),
    Case("complex columns of few", lambda x: qnp.sum(x * x, 1), [array(21, 277, 3, dtype="complex64")], rtol=1e-4, atol=1e-3),
    Case("axes apart", lambda x: (qnp.sum(x * x, (0, 2, 3)), qnp.any(x > 3, (1, 3))), [array(8, 9, 17, 19)], rtol=1e-4),
    Case("axes apart, halves", lambda x: qnp.sum(x * x, (0, 2)), [array(70, 9, 67, dtype="bfloat16")], rtol=1e-2, atol=1),
    *[
        Case(f"parts of arrays, {k}", f, [array(*shape)], rtol=1e-4, atol=1e-3)
        for k, f, shape in (
            ("differences along rows", lambda x: qnp.sum(qnp.abs(x[:, 1:] - x[:, :-1]), 1), (61, 283)),
            ("differences along columns", lambda x: qnp.sum(qnp.abs(x[1:] - x[:-1]), 0), (75, 301)),
            ("of far rows", lambda x: qnp.max(qnp.abs(x[1:] - x[:-1]), 0), (33, 1285)),
            ("of all", lambda x: qnp.sum(qnp.sqrt((x[1:, :-1] - x[:-1, :-1]) ** 2 + (x[:-1, 1:] - x[:-1, :-1]) ** 2)), (150, 151)),
            ("every other", lambda x: qnp.sum(x[:, ::2] * x[:, 1::2], 1), (97, 400)),
            ("every fifth", lambda x: qnp.sum(x[::2, ::5] * 2, 1), (97, 2003)),
            ("the inside", lambda x: qnp.max(x[:, 3:-2, 5:-1], (1, 2)), (7, 61, 67)),
            ("the inside, in columns", lambda x: qnp.min(x[:, 3:-2, 5:-1] * 2, 0), (7, 61, 67)),
            ("of short rows", lambda x: qnp.sum(x[:, 1:] * x[:, :-1], 1), (4001, 6)),
            ("few columns", lambda x: qnp.sum(x[:, 1:, 1:] - x[:, :-1, 1:], 1), (90, 101, 4)),
            ("normalised", lambda x: (lambda y: y / qnp.sum(y, 1, keepdims=True))(qnp.exp(x[1:, 1:])), (61, 283)),
        )
    ],
    *[
        Case(f"indices along dimensions, {k}", f, [array(*shape)], rtol=1e-4, atol=1e-2)
        for k, f, shape in [
            ("rows", lambda x: qnp.sum(qnp.tril(x, 70), 1), (37, 461)),
            ("softmax", lambda x: softmax(qnp.where(qnp.tri(140, 139, dtype=bool), x, -qnp.inf)), (140, 139)),
            ("two reduced axes", lambda x: qnp.sum(qnp.where(along(x, 1) > along(x, 2), x, 0), (1, 2)), (9, 33, 83)),
            ("all axes", lambda x: qnp.max(x * qnp.cos(along(x, 1) + 100.0 * along(x, 0))), (33, 83)),
            ("a long row", lambda x: qnp.sum(qnp.triu(x)), (231, 307)),
            ("short rows", lambda x: qnp.sum(x * (along(x, 0) % 7 + 10 * along(x, 1) + along(x, 2)), 2), (40, 13, 5)),
            ("columns", lambda x: qnp.sum(x * (along(x, 0) + 2 * along(x, 1)), 0), (131, 139)),
            ("columns of a middle axis", lambda x: qnp.sum(x * (along(x, 0) + along(x, 1) * along(x, 2)), 1), (7, 33, 83)),
            ("few columns", lambda x: qnp.max(x * (along(x, 0) % 5 + along(x, 1) + along(x, 2)), 1), (21, 277, 3)),
            ("bytes and words", lambda x: qnp.sum(qnp.where(along(x, 1).astype("uint8") > 9, x, 0), 1), (37, 461)),
        ]
    ],
    *[
        Case(f"gathers, {k}", f, [array(*shape), indices(*n)], rtol=1e-4, atol=1e-2)
        for k, f, shape, n in [
            ("a long row", lambda x, i: (qnp.sum(x[i] * 2), qnp.max(x[i])), (4001,), (4001, 40003)),
            ("rows", lambda x, i: qnp.sum(x[i] * x[i + 1], 1), (4001,), (4000, 37, 461)),
            ("out of bounds", lambda x, i: qnp.sum(x.at[i].get(mode="fill", fill_value=7), 1), (4001,), (9000, 37, 461)),
            ("of the same row", lambda x, i: qnp.sum(qnp.take_along_axis(x, i, 1) ** 2, 1), (37, 461), (461, 37, 401)),
            ("of the same row, columns", lambda x, i: qnp.sum(qnp.take_along_axis(x, i, 1), 0), (131, 461), (461, 131, 139)),
            ("of the same column", lambda x, i: qnp.max(qnp.take_along_axis(x, i, 0), 0), (37, 139), (37, 131, 139)),
            ("two places", lambda x, i: qnp.sum(x[i, i % 7]), (120, 7), (120, 131, 139)),
            ("index vectors", lambda x, i: qnp.sum(elements_at(x, i[:, :, None] % qnp.array([37, 461])), 1), (37, 461), (999, 67, 83)),
            ("short rows", lambda x, i: qnp.sum(x[i] * 0.5, 1), (4001,), (4001, 3001, 5)),
            ("softmax", lambda x, i: softmax(x[i]), (4001,), (4001, 140, 139)),
            ("of what is computed", lambda x, i: qnp.sum(qnp.tanh(x)[i] - qnp.tanh(x)), (4001,), (4001, 4001)),
            ("in columns of a middle axis", lambda x, i: qnp.sum(x[i], 1), (4001,), (4001, 7, 33, 83)),
            ("by bytes", lambda x, i: qnp.sum(x[i.astype("uint8")], 1), (200,), (200, 37, 461)),
            ("of bools", lambda x, i: qnp.any((x > 3)[i], 1), (4001,), (4001, 37, 461)),
        ]
    ],
    *[
        Case(f"rows of {n}, {k}, {d}", f, [nan_in(array(71, n, dtype=d))], rtol=2e-2 if d == "bfloat16" else 1e-4, atol=1e-3)
        for n, d in [(8, "float32"), (13, "float32"), (16, "float32"), (23, "float64"), (33, "float32"), (50, "bfloat16"), (77, "float32")]
        for k, f in [
            ("log of sums", log_of_sums),
            ("softmax", softmax),
            ("positions", lambda x: (qnp.argmax(x, 1), qnp.argmin(qnp.abs(x), 1), qnp.max(x, 1))),
            ("norm", lambda x: (x - qnp.mean(x, 1, keepdims=True)) / qnp.sqrt(qnp.var(x, 1, keepdims=True) + 1)),
            ("sum and product", lambda x: (qnp.sum(x * x, 1) * 2, qnp.prod(1 + x / 100, 1))),
            ("kept and written", log_softmax_and_its_sums),
        ]
    ],
    *[
        Case(f"rows of {n} {d}", lambda x: (qnp.sum(x, 1) * 2, qnp.max(x, 1) - 1, qnp.argmin(x, 1)), [array(67, n, dtype=d)])
        for n in (9, 37) for d in ("int8", "uint16", "int32")
    ],
    Case("rows of masks", lambda x: (qnp.sum(x, 1) + 1, ~qnp.any(x, 1), qnp.argmin(x, 1)), [array(67, 37, dtype="bool")]),
    Case("rows of complex numbers", lambda x: qnp.sum(x * x, 1) * 2j, [array(67, 37, dtype="complex64")], rtol=1e-4, atol=1e-3),
    Case("rows and arrays of the rows", lambda x, r: qnp.sum(qnp.exp(x * r[:, None]), 1) * r + along(x, 0)[:, 0], [array(67, 37) / 9, array(67) / 9], rtol=1e-4),
    *[
        Case(f"gathered rows, {k}", f, [array(*shape), indices(shape[0], *n)], rtol=1e-4, atol=1e-2)
        for k, f, shape, n in [
            ("scaled", lambda x, i: x[i] * 2, (300, 64), (401,)),
            ("of odd length", lambda x, i: qnp.tanh(x[i]) + x[0], (300, 53), (401,)),
            ("of a few elements", lambda x, i: x[i] + 1, (300, 5), (401,)),
            ("differences", lambda x, i: x[i] - x[i[::-1]], (300, 32), (401,)),
            ("products", lambda x, i: qnp.sum(x[i] * x[i + 1], -1), (300, 45), (401,)),
            ("distances in space", lambda x, i: qnp.sqrt(qnp.sum((x[i] - x[-1 - i]) ** 2, -1)), (300, 3), (401,)),
            ("with positions", lambda x, i: x[i] + x[:19], (300, 40), (23, 19)),
            ("normalised", lambda x, i: softmax(x[i]), (300, 47), (401,)),
            ("of two dimensions", lambda x, i: qnp.sum(x[i] * x[0], (1, 2)), (30, 12, 9), (401,)),
            ("of two dimensions, kept", lambda x, i: qnp.exp(x[i]), (30, 12, 9), (401,)),
            ("filled", lambda x, i: x.at[i * 2].get(mode="fill", fill_value=7) * 2, (300, 40), (401,)),
            ("clipped", lambda x, i: x.at[i * 2].get(mode="clip") * 2, (300, 40), (401,)),
            ("by two indices", lambda x, i: x[i % 30, i % 10] * 2, (30, 10, 40), (401,)),
            ("of what is computed", lambda x, i: qnp.exp(x)[i] * x, (401, 40), (401,)),
            ("by what is computed", lambda x, i: x[qnp.argmax(x[i], 1)] + 1, (401, 40), (401,)),
            ("of part of a row", lambda x, i: windows(x, abs(i), (1, 19)) * 2, (300, 40), (401,)),
            ("of part of a row, reduced", lambda x, i: softmax(windows(x, abs(i), (1, 19))), (300, 40), (401,)),
            ("of part of two dimensions", lambda x, i: qnp.sum(windows(x, abs(i), (1, 5, 4)) ** 2, (1, 2)), (30, 12, 9), (401,)),
            ("that begin within rows", lambda x, i: quire.vmap(lambda at: lax.dynamic_slice(x[0], (at,), (33,)))(i) - x[1, :33], (300, 60), (401,)),
            ("of each of many arrays", lambda x, i: quire.vmap(lambda y, at: y[at % 12])(x, i.reshape(30, 20)) * 2, (30, 12, 19), (600,)),
            ("of each of many arrays, reduced", lambda x, i: quire.vmap(lambda y, at: qnp.max(y[at % 12], -1))(x, i.reshape(30, 20)), (30, 12, 5), (600,)),
            ("their derivative", quire.grad(lambda x, i: qnp.sum(softmax(x[i]) * x[i - 1])), (300, 41), (401,)),
            ("of words", lambda x, i: (x.astype("int16") & 63)[i] + i[:, None].astype("int16"), (300, 40), (401,)),
        ]
    ],
    Case("the mean of all rows' cross entropies", one_hot_loss, [ROWS, R.integers(0, 461, 37).astype("int32")], rtol=1e-4),
    *[
        Case(f"{k} of small products, {d}", lambda a, b, f=f: qnp.einsum(f, a, b), [array(*s, dtype=d), array(*t, dtype=d)], rtol=1e-4, atol=1e-4)
        for d in ("float32", "int32")
        for k, f, s, t in [
            ("matrices by vectors", "bij,bj->bi", (401, 3, 4), (401, 4)),
            ("vectors by matrices", "bi,bij->bj", (401, 5), (401, 5, 3)),
            ("rows by vectors", "bji,bj->bi", (401, 8, 3), (401, 8)),
            ("pairs of vectors", "abi,abi->ab", (20, 31, 7), (20, 31, 7)),
            ("stacks by vectors", "bijk,bk->bij", (301, 2, 3, 6), (301, 6)),
        ]
    ],
    Case("axes of one", lambda x: (qnp.sum(x, (0, 2)), qnp.max(x, (2, 4))), [array(2, 63, 1, 45, 7)], rtol=1e-4, atol=1e-4),
    Case("nothing but axes of one", lambda x: (qnp.sum(x * 2, (1, 3)), qnp.max(x, (0, 1))), [array(150, 1, 130, 1)]),
    Case("the first true", lambda x: (qnp.argmax(x > 2, 1), qnp.argmin(x > -2, 0)), [array(131, 261)]),
    Case("three axes apart", lambda x: qnp.sum(x, (0, 2, 4)), [array(11, 3, 33, 2, 15)], rtol=1e-4, atol=1e-3),
    Case("two leading axes of points", lambda x: qnp.mean(x * x, (0, 1)), [array(97, 89, 2)], rtol=1e-4),
    Case("row argmax", lambda x: (qnp.argmax(x, 1), qnp.argmin(x, 1)), [with_nans(ROWS)]),
    Case("first of equal ones", lambda x: (qnp.argmax(x, 1), qnp.argmin(x, 1)), [array(37, 461, dtype="int8")]),
    Case("all and any", lambda x: (qnp.all(x, 1), qnp.any(~x, 1)), [array(37, 461, dtype="bool")]),
    Case("count", lambda x: qnp.sum(x > 0, 1), [ROWS]),
    Case("extremes with NaN", lambda x: (qnp.max(x, 1), qnp.min(x, 1)), [with_nans(ROWS)]),
    Case("product", lambda x: qnp.prod(1 + x / 100, 1), [ROWS], rtol=1e-4),
    Case("variance and mean", lambda x: (qnp.mean(x, 1), qnp.var(x, 1)), [ROWS], rtol=1e-4, atol=1e-5),
    Case("kept on the stack", lambda x: qnp.sum(qnp.exp(x) / qnp.sum(qnp.exp(x), 1, keepdims=True) > 1e-3, 1), [ROWS]),
    *[
        Case(f"sums of {d}", lambda x: (qnp.sum(x, 1), qnp.sum(x, 0)), [array(37, 461, dtype=d)], rtol=r, atol=r)
        for d, r in {"int32": 0, "uint8": 0, "int16": 0, "float16": 1e-2, "bfloat16": 6e-2, "complex64": 1e-4}.items()
    ],
]  # fmt: skip


def fused(case: Case) -> ClosedJaxpr:
    return PassManager(TARGETS["cpu"].pipeline, target=TARGETS["cpu"]).run(trace(case.f, case.args))


def kernel_of(case: Case) -> list[str]:
    target = kernel_target(TARGETS["cpu"])
    assert target is not None
    out = []
    for e in fused(case).jaxpr.eqns:
        if e.primitive.name == "fusion" and e.params["kind"] in ("reduction", "rows"):
            p = e.params
            found = reduction_kernel(p["jaxpr"].jaxpr, p["space"], p["axes"], target, expander(TARGETS["cpu"]))
            out.append(found.kernel.reason)
    return out


def test_kernels_compute_what_the_reference_does():
    check(CASES)


@pytest.mark.parametrize("case", CASES, ids=[c.name for c in CASES])
def test_each_case_is_made_of_kernels(case):
    """No large reduction is left outside (what a first step leaves is small), and each cluster has a kernel."""
    outside = [e for e in fused(case).jaxpr.eqns if e.primitive.name.startswith(("reduce_", "arg"))]
    assert not [e.primitive.name for e in outside if e.inputs[0].aval.size >= 16384]
    assert kernel_of(case)


@pytest.mark.parametrize(
    ("name", "passes"), [("softmax", "3 passes"), ("layer norm", "3 passes"), ("count", "one pass")]
)
def test_the_reason_names_the_passes(name, passes):
    (reason,) = kernel_of(next(c for c in CASES if c.name == name))
    assert passes in reason and "workgroup" in reason


def test_few_short_rows_are_left_to_the_compiler():
    program = trace(lambda x: qnp.sum(x * x, 1), [array(3, 2)])
    (e,) = PassManager("inline,simplify,fuse{least-elements=1}").run(program).jaxpr.eqns
    with pytest.raises(NoKernel, match="3 rows of 2 elements"):
        reduction_kernel(
            e.params["jaxpr"].jaxpr, e.params["space"], e.params["axes"], kernel_target(TARGETS["cpu"]),
            expander(TARGETS["cpu"]),
        )  # fmt: skip
