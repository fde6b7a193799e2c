"""Epilogues: what follows a contraction is computed by its kernel, wherever the operands lie and however it is cut."""

import numpy as np
import pytest

import quire
import quire.numpy as qnp
from quire.backends.kernels import CPU_AVX2, Epilogue, NoKernel, Spec, dot, dtype_of
from quire.backends.targets import COMMON_PASSES
from quire.ir.jaxpr import Jaxpr
from quire.passes.manager import PassManager

rng = np.random.default_rng(11)


def normal(*shape, dtype=np.float32):
    return rng.standard_normal(shape).astype(dtype)


def gelu(y):
    return 0.5 * y * (1 + qnp.tanh(0.7978845608 * (y + 0.044715 * y * y * y)))


def conv(x, w, stride=1, dims=("NHWC", "HWIO", "NHWC"), padding="SAME", lhs_dilation=(1, 1)):
    return quire.lax.conv_general_dilated(x, w, (stride, stride), padding, lhs_dilation, dimension_numbers=dims)


# name: (function, arguments); all are products of more operations than StableHLO is left with
CASES = {
    "bias and gelu": (lambda x, w, b: gelu(x @ w + b), (normal(96, 80), normal(80, 128), normal(128))),
    "odd sizes": (lambda x, w, b: gelu(x @ w + b), (normal(67, 71), normal(71, 53), normal(53))),
    "few columns": (lambda x, w, b: qnp.maximum(x @ w + b, 0), (normal(301, 129), normal(129, 11), normal(11))),
    "one row": (lambda x, w, b: qnp.exp(x @ w) + b, (normal(1, 1024), normal(1024, 67), normal(67))),
    "residual, row and column": (
        lambda x, w, r, b, c: (x @ w) * c[:, None] + r * b,
        (normal(130, 70), normal(70, 50), normal(130, 50), normal(50), normal(130)),
    ),
    "k in parts, several results": (
        lambda x, w, m, v: (0.9 * m + 0.1 * (x @ w), v - (x @ w) * (x @ w), (x @ w) > 0),
        (normal(77, 1500), normal(1500, 90), normal(77, 90), normal(77, 90)),
    ),
    "k in parts, no result of the sums' type": (
        lambda x, w: (x @ w > 0, (x @ w).astype(np.int32)), (normal(53, 1300), normal(1300, 45)),
    ),
    "large k in blocks": (lambda x, w, b: x.T @ w - b, (normal(1100, 300), normal(1100, 70), normal(70))),
    "batches": (
        lambda x, w, b, c: qnp.tanh(x @ w * 0.125 + b) * c,
        (normal(3, 2, 50, 40), normal(3, 2, 40, 66), normal(2, 50, 66), normal(3, 1, 1, 1)),
    ),
    "many dimensions": (
        lambda x, w, b, c: qnp.tensordot(x, w, 1) * b + c,
        (normal(4, 9, 60), normal(60, 5, 12), normal(5, 12), normal(4, 9, 1, 1)),
    ),
    "columns that are neither whole nor one": (
        lambda x, w, b: qnp.tensordot(x, w, 1) + b, (normal(40, 60), normal(60, 5, 12), normal(12)),
    ),
    "a scalar and a literal": (lambda x, w, s: (x @ w) * s + 1, (normal(64, 64), normal(64, 64), np.float32(0.3))),
    "integers": (
        lambda x, w, b: qnp.maximum(x @ w + b, 0) // 3,
        tuple(rng.integers(-9, 9, s).astype(np.int32) for s in ((60, 61), (61, 62), (62,))),
    ),
    "halves": (
        lambda x, w, b: qnp.tanh(x.astype("bfloat16") @ w.astype("bfloat16") + b.astype("bfloat16")).astype("float32"),
        (normal(64, 70), normal(70, 80), normal(80)),
    ),
    "dot products": (lambda x, w, b: qnp.tanh(x @ w + b), (normal(300, 600), normal(600), normal(300))),
    "added rows": (lambda x, w, b: qnp.tanh(x @ w + b), (normal(300), normal(300, 640), normal(640))),
    "convolution": (
        lambda x, w, b: qnp.maximum(conv(x, w) + b, 0), (normal(2, 9, 11, 5), normal(3, 3, 5, 21), normal(21)),
    ),
    "strided, with residual": (
        lambda x, w, r: conv(x, w, 2) * 2 + r, (normal(3, 14, 14, 8), normal(3, 3, 8, 16), normal(3, 7, 7, 16)),
    ),
    "features first": (
        lambda x, w, b: qnp.maximum(conv(x, w, dims=("NCHW", "OIHW", "NCHW")) + b[:, None, None], 0),
        (normal(2, 8, 9, 9), normal(16, 8, 3, 3), normal(16)),
    ),
    "dilated input": (
        lambda x, w, b: qnp.tanh(conv(x, w, padding=((1, 1), (1, 1)), lhs_dilation=(2, 2)) + b), (normal(2, 7, 7, 8), normal(3, 3, 8, 16), normal(16)),
    ),
    "gradient of a filter": (
        lambda x, w: w - 0.1 * quire.grad(lambda w: qnp.sum(conv(x, w) ** 2))(w), (normal(2, 8, 8, 8), normal(3, 3, 8, 16)),
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def outcomes():
    """The results of all cases from one compiled program, and its reference."""

    def everything(arguments):
        return {name: f(*arguments[name]) for name, (f, _) in CASES.items()}

    arguments = {name: given for name, (_, given) in CASES.items()}
    compiled = quire.compile(everything)
    with quire.disable_jit():
        wanted = everything(arguments)
    return compiled(arguments), wanted, compiled.lower(arguments).as_text()


@pytest.mark.parametrize("name", CASES)
def test_results(outcomes, name):
    got, wanted, _ = outcomes
    for x, y in zip(quire.tree_util.tree_leaves(got[name]), quire.tree_util.tree_leaves(wanted[name]), strict=True):
        x, y = np.asarray(x), np.asarray(y)
        assert x.dtype == y.dtype
        if name == "halves":
            np.testing.assert_allclose(x, y, atol=0.02)
        elif x.dtype.kind == "f":
            np.testing.assert_allclose(x, y, rtol=2e-4, atol=2e-4)
        else:  # signs and whole parts of sums that were rounded otherwise
            assert np.mean(x != y) < 0.01


def test_the_choice_is_printed(outcomes):
    text = outcomes[2]
    assert "epilogue of 11 equations (add, mul, tanh)" in text
    assert "no epilogue: 300x600 @ 600x1 f32" in text and "dot products have no epilogue" in text
    assert "added rows have no epilogue" in text
    assert text.count("epilogue of") >= 15


def test_nan_and_infinities():
    x = normal(64, 64)
    x[3, 5], x[7, 9], x[11, 1] = np.nan, np.inf, -np.inf
    w, b = normal(64, 48), np.where(np.arange(48) % 7, 0, -np.inf).astype(np.float32)
    got = quire.compile(lambda x, w, b: qnp.maximum(x @ w + b, 0))(x, w, b)
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(got, np.maximum(x @ w + b, 0), rtol=1e-4, atol=1e-4)


def test_donated_operands():
    """An operand's memory may become the result's: it is read before it is written, also while sums are continued."""
    x, w, m = normal(77, 1500), normal(1500, 90), normal(77, 90)
    f = quire.compile(lambda x, w, m: (0.9 * m + x @ w, qnp.sin(x[:, :90] @ w[:90] + m)), donate_argnums=(2,))
    g = quire.compile(lambda y, w: qnp.tanh(y @ w) + y, donate_argnums=(0,))
    for _ in range(3):
        first, second = f(x, w, qnp.array(m))
        np.testing.assert_allclose(first, 0.9 * m + x @ w, rtol=1e-3, atol=1e-3)
        np.testing.assert_allclose(second, np.sin(x[:, :90] @ w[:90] + m), rtol=1e-3, atol=1e-3)
        y, square = normal(301, 301), normal(301, 301)
        np.testing.assert_allclose(g(qnp.array(y), square), np.tanh(y @ square) + y, rtol=1e-3, atol=1e-3)


def epilogue_of(f, *args) -> Epilogue:
    """The epilogue of a function of a contraction's result and other operands."""
    closed = PassManager(COMMON_PASSES).run(quire.make_jaxpr(f)(*args))
    j = closed.jaxpr
    return Epilogue(Jaxpr((), j.invars, j.outvars, j.eqns), lambda p, dtypes, params: None)


def test_the_text_is_short():
    """An epilogue is written once a kernel, not once a vector of the tile."""
    x, w = Spec.of((512, 512), "f32"), Spec.of((512, 512), "f32")
    numbers = (((1,), (0,)), ((), ()))
    plain = dot(x, w, dtype_of("f32"), numbers, CPU_AVX2)
    y, b = normal(512, 512), normal(512)
    with_gelu = dot(x, w, dtype_of("f32"), numbers, CPU_AVX2, epilogue=epilogue_of(lambda y, b: gelu(y + b), y, b))
    assert with_gelu.text.count("math.tanh") == 1
    assert len(with_gelu.text.splitlines()) < len(plain.text.splitlines()) + 60
    assert len(with_gelu.operands) == 3 and len(with_gelu.outputs) == 1


def test_what_has_no_kernel_is_declined_with_the_reason():
    x, w = Spec.of((64, 64), "f32"), Spec.of((64, 64), "f32")
    y = normal(64, 64)
    epilogue = epilogue_of(lambda y: qnp.cbrt(y), y)
    with pytest.raises(NoKernel, match=r"no epilogue of 1 equations \(cbrt\): cbrt of f32"):
        dot(x, w, dtype_of("f32"), (((1,), (0,)), ((), ())), CPU_AVX2, epilogue=epilogue)
