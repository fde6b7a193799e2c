"""quire.lax's contractions, fft and linear algebra: JAX's names, signatures and values."""

import inspect

import jax
import numpy as np
import pytest

import quire.lax as lax
from quire.backends import reference
from tests.helpers import trace

RNG = np.random.default_rng(0)


def normal(*shape):
    return RNG.normal(size=shape).astype(np.float32)


def run(f, *args):
    return reference.eval_jaxpr(trace(f, args), *args)


NHWC = ("NHWC", "HWIO", "NHWC")
CASES = {
    "dot vv": (lambda l, x, y: l.dot(x, y), normal(4), normal(4)),
    "dot mv": (lambda l, x, y: l.dot(x, y), normal(3, 4), normal(4)),
    "dot vm": (lambda l, x, y: l.dot(x, y), normal(4), normal(4, 3)),
    "dot mm": (lambda l, x, y: l.dot(x, y, preferred_element_type=np.float32), normal(2, 4), normal(4, 3)),
    "dot numbers": (lambda l, x, y: l.dot(x, y, dimension_numbers=(((0,), (0,)), ((), ()))), normal(4, 2), normal(4, 3)),
    "batch_matmul": (lambda l, x, y: l.batch_matmul(x, y), normal(2, 3, 4), normal(2, 4, 5)),
    "conv": (lambda l, x, y: l.conv(x, y, (1, 2), "SAME"), normal(2, 3, 5, 6), normal(4, 3, 3, 2)),
    "general padding": (
        lambda l, x, y: l.conv_with_general_padding(x, y, (1, 1), [(1, 0), (2, 1)], (1, 2), (2, 1)),
        normal(2, 3, 5, 6), normal(4, 3, 3, 2),
    ),
    "patches": (lambda l, x, y: l.conv_general_dilated_patches(x, (3, 2), (1, 2), "SAME"), normal(2, 3, 5, 6), normal(1)),
    "patches nhwc": (
        lambda l, x, y: l.conv_general_dilated_patches(x, (3, 2), (1, 1), "VALID", dimension_numbers=NHWC),
        normal(2, 5, 6, 3), normal(1),
    ),
    "local": (
        lambda l, x, y: l.conv_general_dilated_local(x, y, (1, 1), "VALID", (3, 2)), normal(2, 3, 5, 6), normal(4, 18, 3, 5)
    ),
    "local nhwc": (
        lambda l, x, y: l.conv_general_dilated_local(x, y, (1, 1), "VALID", (3, 2), dimension_numbers=NHWC),
        normal(2, 5, 6, 3), normal(3, 5, 18, 4),
    ),
    "fft": (lambda l, x, y: l.fft(x, "RFFT", (6,)), normal(2, 6), normal(1)),
    "cholesky": (lambda l, x, y: l.linalg.cholesky(x), normal(3, 3) + 5 * np.eye(3, dtype=np.float32), normal(1)),
    "eigh": (lambda l, x, y: l.linalg.eigh(x)[1], normal(2, 3, 3), normal(1)),
    "svd": (lambda l, x, y: l.linalg.svd(x, full_matrices=False)[1], normal(4, 3), normal(1)),
    "lu": (lambda l, x, y: l.linalg.lu(x), normal(4, 3), normal(1)),
    "qr": (lambda l, x, y: l.linalg.qr(x, full_matrices=False), normal(4, 3), normal(1)),
    "solve vector": (
        lambda l, x, y: l.linalg.triangular_solve(x, y, left_side=True, lower=True),
        normal(3, 3) + 3 * np.eye(3, dtype=np.float32), normal(3),
    ),
}  # fmt: skip
for _padding in ("SAME", "VALID", [(1, 0), (2, 1)]):
    for _strides in ((2, 2), (1, 3), (4, 1)):
        for _options in ({}, {"transpose_kernel": True}, {"rhs_dilation": (2, 1)}, {"use_consistent_padding": True}):
            channels = (4, 3) if "transpose_kernel" in _options else (3, 4)
            CASES[f"conv_transpose {_padding} {_strides} {_options}"] = (
                lambda l, x, y, p=_padding, s=_strides, o=_options: l.conv_transpose(x, y, s, p, **o),
                normal(2, 4, 5, 3), normal(3, 2, *channels),
            )  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_equals_jax(name):
    f, *args = CASES[name]

    def flat(out):
        return list(out) if isinstance(out, (tuple, list)) else [out]

    got = run(lambda *a: flat(f(lax, *a)), *args)
    want = flat(f(jax.lax, *map(jax.numpy.asarray, args)))
    assert len(got) == len(want)
    for g, w in zip(got, want):
        assert g.dtype == w.dtype
        np.testing.assert_allclose(g, w, rtol=1e-4, atol=1e-5)


CONTRACTIONS = [
    "dot", "dot_general", "batch_matmul", "conv", "conv_general_dilated", "conv_general_dilated_local",
    "conv_general_dilated_patches", "conv_transpose", "conv_with_general_padding", "conv_dimension_numbers", "fft",
    "rng_bit_generator", "rng_uniform",
]  # fmt: skip
LINALG = [
    n
    for n in dir(lax.linalg)
    if callable(getattr(jax.lax.linalg, n, None)) and inspect.isfunction(getattr(lax.linalg, n))
]


@pytest.mark.parametrize("name", CONTRACTIONS + [f"linalg.{n}" for n in LINALG])
def test_signatures_are_jaxs(name):
    ours, theirs = lax, jax.lax
    for part in name.split("."):
        ours, theirs = getattr(ours, part), getattr(theirs, part)
    a, b = (inspect.signature(f).parameters for f in (ours, theirs))
    assert list(a) == list(b)
    assert [p.kind for p in a.values()] == [p.kind for p in b.values()]
    defaults = [(x.name, x.default, y.default) for x, y in zip(a.values(), b.values())
                if (x.default is x.empty) != (y.default is y.empty)]  # fmt: skip
    assert not defaults


@pytest.mark.parametrize(
    "f, message",
    [
        (lambda: lax.dot(normal(3, 4), normal(3)), r"dot: incompatible shapes, got f32\[3,4\] and f32\[3\]"),
        (lambda: lax.batch_matmul(normal(3), normal(3)), "batch_matmul: operands must have one rank, at least 2"),
        (lambda: lax.conv_transpose(normal(1, 2, 2, 1), normal(2, 2, 1, 1), (1, 1), "FULL"), "padding 'FULL' must be"),
        (
            lambda: lax.conv_general_dilated(
                normal(1, 1, 4, 4), normal(1, 1, 3, 3), (1, 1), "SAME", lhs_dilation=(2, 1)
            ),
            r"padding 'SAME' with lhs_dilation \(2, 1\).* give pairs \(low, high\) of the dilated operand, or call lax.conv_transpose",
        ),
        (lambda: lax.linalg.cholesky(normal(2, 3)), r"cholesky: operand f32\[2,3\] must be square matrices"),
        (lambda: lax.linalg.eigh(normal(2, 3)), r"eigh: operand f32\[2,3\] must be square matrices"),
    ],
)
def test_errors(f, message):
    with pytest.raises((TypeError, ValueError), match=message):
        f()
