"""`quire.from_stablehlo`: modules of StableHLO as quire's functions, compared with the numbers of what made them."""

from __future__ import annotations

import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import quire
import quire.numpy as qnp
from quire import lax
from quire.compiling.lowering import optimize
from quire.compiling.request import Request
from quire.ir.errors import ParseError, UnsupportedError
from quire.runtime.devices import devices

MODULES = Path(__file__).parent / "modules"
RNG = np.random.default_rng(0)


def floats(*shape: int) -> np.ndarray[Any, Any]:
    return RNG.normal(size=shape).astype(np.float32)


X, W = floats(6, 8), floats(8, 4)


def read(name: str) -> Any:
    path = MODULES / name
    return path.read_bytes() if name.endswith("bc") else path.read_text()


def same(got: Any, want: Any, tol: float = 1e-4) -> None:
    got, want = list(map(np.asarray, got)), list(map(np.asarray, want))
    assert len(got) == len(want)
    for g, w in zip(got, want):
        assert (g.shape, g.dtype) == (w.shape, w.dtype)
        wide = np.complex128 if w.dtype.kind == "c" else np.float64
        np.testing.assert_allclose(g.astype(wide), w.astype(wide), rtol=tol, atol=tol)


# -- recorded modules: they need no JAX -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["mlp.mlir", "mlp.mlirbc"])
def test_recorded_gradient_of_a_perceptron(name):
    f = quire.from_stablehlo(read(name))
    args = [floats(*a.shape) for a in f.in_avals]

    def loss(w1, b1, w2, x, y):
        return qnp.mean((qnp.tanh(x @ w1 + b1) @ w2 - y) ** 2)

    value, grads = quire.value_and_grad(loss, (0, 1, 2))(*args)
    same(f(*args), [value, *grads])
    same(quire.jit(f)(*args), [value, *grads])


@pytest.mark.parametrize("name", ["conv.mlir", "conv.mlirbc"])
def test_recorded_gradient_of_a_convolution(name):
    f = quire.from_stablehlo(read(name))
    x, k = (floats(*a.shape) for a in f.in_avals)

    def loss(k):
        h = quire.nn.relu(lax.conv_general_dilated(x, k, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")))
        return qnp.sum(lax.reduce_window(h, -np.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID") ** 2)

    same(f(x, k), quire.value_and_grad(loss)(k))


def test_recorded_loop_has_a_derivative_in_reverse():
    f = quire.from_stablehlo(read("rnn.mlir"))
    w, xs = floats(3, 3), floats(4, 3)

    def rnn(w, xs):
        return lax.scan(lambda h, x: (qnp.tanh(h @ w + x), h.sum()), qnp.zeros(3), xs)

    same(f(w, xs), rnn(w, xs))
    want = quire.grad(lambda w: rnn(w, xs)[0].sum())(w)
    same([quire.jit(quire.grad(lambda w: f(w, xs)[0].sum()))(w)], [want])
    batched = quire.vmap(f, (None, 0))(w, np.stack([xs, xs + 1]))
    same([batched[1][1]], [rnn(w, xs + 1)[1]])


@pytest.mark.parametrize("name", ["sorts.mlir", "sorts.mlirbc"])
def test_recorded_sorts(name):
    f = quire.from_stablehlo(read(name))
    x = np.array([0.5, np.nan, -0.0, 0.0, -2.0, 3.0], np.float32)
    values, indices = lax.top_k(x, 2)
    want = [qnp.sort(x), qnp.argsort(x), values, indices, qnp.argmax(x), qnp.cumsum(x)]
    same(f(x), want)
    names = [e.primitive.name for e in f.jaxpr.eqns]
    assert names.count("sort") == 2 and {"top_k", "argmax", "cumsum"} <= set(names)


def test_recorded_random_numbers():
    f = quire.from_stablehlo(read("random.mlir"))
    key = quire.random.PRNGKey(7)
    want = [quire.random.normal(key, (5,)), quire.random.bits(key, (3,))]
    same(f(key), want)
    same(quire.jit(f)(key), want)
    same([quire.vmap(f)(quire.random.split(key, 3))[0].ravel()[:0]], [np.zeros(0, np.float32)])


def test_dumpir_reads_modules():
    done = subprocess.run(
        [sys.executable, "-m", "quire.tools.dumpir", str(MODULES / "sorts.mlirbc"), "--stage", "jaxpr"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "top_k[axis=0 k=2]" in done.stdout


# -- by hand: what there is of it, and errors -------------------------------------------------------------------------------------


def module(body: str, signature: str = "%arg0: tensor<3xf32>", result: str = "tensor<3xf32>") -> str:
    return f"module {{\n  func.func public @main({signature}) -> {result} {{\n{body}\n  }}\n}}\n"


def test_names_types_and_arguments():
    f = quire.from_stablehlo(
        'module {\n  func.func @other(%a: tensor<2xf32> loc("weights")) -> (tensor<2xf32> {jax.result_info = "out"}) {\n'
        "    %0 = stablehlo.add %a, %a : tensor<2xf32>\n    return %0 : tensor<2xf32>\n  }\n}"
    )
    assert repr(f) == "<other of a StableHLO module: (f32[2]) -> (f32[2])>"
    assert (f.name, f.in_names, f.out_names) == ("other", ("weights",), ("out",))
    with pytest.raises(TypeError, match=r"argument 0 \(weights\) must be f32\[2\], got f32\[3\]"):
        f(np.zeros(3, np.float32))
    with pytest.raises(TypeError, match="takes 1 arrays, got 2"):
        f(1.0, 2.0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            module('    %0 = "stablehlo.all_gather"(%arg0) <{all_gather_dim = 0 : i64, replica_groups = dense<0> : tensor<1x1xi64>}> '
                   ': (tensor<3xf32>) -> tensor<3xf32> loc("gather"("model.py":7:3))\n    return %0 : tensor<3xf32>'),
            r"no counterpart for:\n  stablehlo.all_gather \(at model.py:7, in gather\)",
        ),
        (
            module("    return %arg0 : tensor<?xf32>", "%arg0: tensor<?xf32>", "tensor<?xf32>"),
            r"tensor<\?xf32> has a dynamic shape: export the program for fixed shapes",
        ),
        (
            module("    return %arg0 : tensor<3x!quant.uniform<i8:f32, 0.1>>", "%arg0: tensor<3x!quant.uniform<i8:f32, 0.1>>",
                   "tensor<3x!quant.uniform<i8:f32, 0.1>>"),
            "quantised values",
        ),
        (module("    return %arg0 : tensor<3xf64>", "%arg0: tensor<3xf64>", "tensor<3xf64>"), "64-bit dtypes are off"),
        (
            module("    %0 = stablehlo.custom_call @mine(%arg0) : (tensor<3xf32>) -> tensor<3xf32>\n    return %0 : tensor<3xf32>"),
            "custom call @mine has no counterpart",
        ),
        (
            module('    %0 = "stablehlo.sort"(%arg0) <{dimension = 0 : i64}> ({\n    ^bb0(%a: tensor<f32>, %b: tensor<f32>):\n'
                   "      %1 = stablehlo.abs %a : tensor<f32>\n      %2 = stablehlo.compare LT, %1, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>\n"
                   "      stablehlo.return %2 : tensor<i1>\n    }) : (tensor<3xf32>) -> tensor<3xf32>\n    return %0 : tensor<3xf32>"),
            "its comparator is none of",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_imported_is_named(text, message):
    with pytest.raises(UnsupportedError, match=message):
        quire.from_stablehlo(text)


def test_what_is_no_module():
    with pytest.raises(ParseError, match=r"exported.mlir_module\(\)"):
        quire.from_stablehlo("module { what }")
    with pytest.raises(ParseError, match="no module of StableHLO"):
        quire.from_stablehlo(b"MLxyz")
    with pytest.raises(TypeError, match="expected the text or bytes of a module, got int"):
        quire.from_stablehlo(3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="no function 'f': give function=, one of main"):
        quire.from_stablehlo(read("mlp.mlir"), function="f")


def test_descending_and_total_orders():
    def sorted_by(direction: str, kind: str) -> Any:
        return quire.from_stablehlo(
            module('    %0 = "stablehlo.sort"(%arg0) <{dimension = 0 : i64}> ({\n    ^bb0(%a: tensor<f32>, %b: tensor<f32>):\n'
                   f"      %2 = stablehlo.compare {direction}, %a, %b, {kind} : (tensor<f32>, tensor<f32>) -> tensor<i1>\n"
                   "      stablehlo.return %2 : tensor<i1>\n    }) : (tensor<6xf32>) -> tensor<6xf32>\n    return %0 : tensor<6xf32>",
                   "%arg0: tensor<6xf32>", "tensor<6xf32>")
        )  # fmt: skip

    x = np.array([0.0, -0.0, np.nan, -np.nan, 2.0, -3.0], np.float32)
    y = np.array([0.0, -1.0, 5.0, -np.inf, 2.0, -3.0], np.float32)
    np.testing.assert_array_equal(sorted_by("LT", "FLOAT")(y)[0], np.sort(y))
    np.testing.assert_array_equal(sorted_by("GT", "FLOAT")(y)[0], np.sort(y)[::-1])
    order = sorted_by("LT", "TOTALORDER")(x)[0]
    want = np.array([-np.nan, -3.0, -0.0, 0.0, 2.0, np.nan], np.float32)
    assert np.asarray(order).tobytes() == want.tobytes()


def test_case_takes_the_last_branch_for_what_is_out_of_range():
    f = quire.from_stablehlo(
        module('    %0 = "stablehlo.case"(%i) ({\n      stablehlo.return %arg0 : tensor<3xf32>\n    }, {\n'
               "      %1 = stablehlo.negate %arg0 : tensor<3xf32>\n      stablehlo.return %1 : tensor<3xf32>\n    }) : (tensor<i32>) -> tensor<3xf32>\n"
               "    return %0 : tensor<3xf32>", "%i: tensor<i32>, %arg0: tensor<3xf32>")
    )  # fmt: skip
    x = floats(3)
    for i, sign in ((0, 1), (1, -1), (5, -1), (-1, -1)):
        same(f(np.int32(i), x), [sign * x])


# -- kernels ------------------------------------------------------------------------------------------------------------------------


def optimized(closed: Any) -> Any:
    return optimize(Request(closed, devices("cpu")[0].target, "test"))


NATIVE = {
    "dot": (lambda q, n, x, w: n.tanh(x @ w), (X, W)),
    "conv": (
        lambda q, n, x, k: q.lax.conv_general_dilated(x, k, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")),
        (floats(2, 8, 8, 3), floats(3, 3, 3, 4)),
    ),
    "sort": (lambda q, n, x: n.sort(x, axis=1), (X,)),
    "sum": (lambda q, n, x: n.sum(x, axis=1), (X,)),
    "max": (lambda q, n, x: n.max(x), (X,)),
    "argmax": (lambda q, n, x: n.argmax(x, axis=0), (X,)),
    "cumsum": (lambda q, n, x: n.cumsum(x, axis=1), (X,)),
    "top_k": (lambda q, n, x: q.lax.top_k(x, 3), (X,)),
    "pool": (lambda q, n, x: q.lax.reduce_window(x, -np.inf, q.lax.max, (2, 2), (2, 2), "VALID"), (X,)),
}  # fmt: skip


@pytest.mark.parametrize("name", NATIVE)
def test_kernels_are_those_of_the_native_program(name):
    """What is lowered of an imported module is what is lowered of the same function traced by quire."""
    jax = pytest.importorskip("jax")
    f, args = NATIVE[name]
    imported = quire.from_stablehlo(jax.jit(lambda *xs: f(jax, jax.numpy, *xs)).lower(*args).as_text())
    native = quire.make_jaxpr(lambda *xs: f(quire, qnp, *xs))(*args)
    assert optimized(imported.jaxpr) == optimized(native)


# -- programs that JAX exports ---------------------------------------------------------------------------------------------------------

TEXTS = (
    "np.sin(x)", "np.exp(x)", "np.arcsinh(x)", "np.log1p(x)", "np.abs(x)", "np.angle(x)", "np.add(x, y)", "np.power(x, y)",
    "np.floor_divide(x, y)", "np.left_shift(x, y)", "np.equal(x, y)", "np.where(x > 0, x, y)", "np.clip(x, -1, 1)",
    "x.astype('float32')", "x.astype('int32')", "x.astype('bfloat16') + y.astype('bfloat16')", "x * 2.5 + 1j",
    "lax.erf_inv(x)", "lax.lgamma(x)", "lax.digamma(x)", "lax.bessel_i1e(x)", "lax.clz(x)", "lax.population_count(x)",
    "lax.reduce_precision(x, 5, 10)", "lax.bitcast_convert_type(x, 'uint8')", "lax.nextafter(x, y)",
    "lax.zeta(x, y)", "lax.rng_bit_generator(x, (8,))", "nn.gelu(x)", "nn.softmax(x)", "nn.dot_product_attention(x, y, z)",
    "np.sum(x)", "np.prod(x)", "np.any(x)", "np.argmin(x)", "np.median(x)", "np.cumprod(x)", "lax.cummax(x, 0)",
    "lax.cumlogsumexp(x, 0)", "lax.reduce_xor(x, (0,))", "lax.reduce(x, np.float32(0), lambda a, b: a + b * 2, (1,))",
    "lax.reduce_window(x, -np.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), 'VALID')",
    "lax.reduce_window(x, 1.0, lax.mul, (3,), (1,), 'SAME')", "np.transpose(x, (1, 2, 0)) + 1", "np.pad(x, 2, 'reflect')",
    "lax.pad(x, np.float32(1), ((1, -1, 2), (0, 1, 0)))", "np.roll(x, 3, axis=0)", "np.tril(x)",
    "lax.conv_transpose(x, y, (2, 2), 'SAME')", "np.einsum('ij,jk->ik', x, y)", "lax.ragged_dot(x, y, z)",
    "np.sort(x)", "np.argsort(x)", "np.unique(x, size=4, return_inverse=True)", "np.searchsorted(x, y)", "lax.top_k(x, 5)",
    "np.fft.fft(x)", "np.fft.rfft(x)", "np.linalg.det(x)", "np.linalg.cholesky(x @ x.T + np.eye(5))", "np.linalg.qr(x)",
    "np.linalg.solve(x, y)", "np.linalg.inv(x)", "random.normal(x, (33,))", "random.bernoulli(x, y)", "random.permutation(x, y)",
    "lax.cond(y > 0, np.sin, lambda a: a * 2, x)", "lax.scatter_mul(x, y, z, lax.ScatterDimensionNumbers((1,), (0,), (0,)))",
    "lax.gather(x, y, lax.GatherDimensionNumbers((1,), (0,), (0,)), (1, 4))", "np.convolve(x, y)",
    "lax.dynamic_update_index_in_dim(x, y, z, 0)", "np.interp(x, y, z)", "scipy.special.gammainc(x, y)", "custom(x)",
    "lax.associative_scan(lambda a, b: a * b, x)", "lax.scatter(x, y, z, lax.ScatterDimensionNumbers((1,), (0,), (0,)))",
)  # fmt: skip


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("part", range(6))
def test_programs_that_jax_exports(part):
    """As text and as bytecode, and their gradients."""
    jax = pytest.importorskip("jax")
    from jax import export

    from .jax_table import entries, gradient

    table = {e.text: e for e in entries()}
    tried = [t for t in TEXTS if t in table]
    assert len(tried) >= 60
    for i, entry in enumerate(table[t] for t in tried[part::6]):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for f in [entry.f, *([gradient(jax, entry.f, entry.args)] if entry.grad else [])]:
                exported = export.export(jax.jit(f))(*entry.args)
                want = jax.tree_util.tree_leaves(exported.call(*entry.args))
                try:
                    given = exported.mlir_module_serialized if i % 2 else exported.mlir_module()
                    kept = [entry.args[k] for k in exported.module_kept_var_idx]
                    same(quire.from_stablehlo(given)(*kept), want, 1e-3)
                except Exception as error:
                    error.add_note(f"operation: {entry.text}")
                    raise
