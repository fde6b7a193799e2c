"""The input phase: what quire's worker does to StableHLO before IREE 3.13 converts it, and why."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import quire
import quire.numpy as qnp
from quire.backends.iree import worker
from quire.backends.iree.paths import compiler_library
from quire.backends.targets import get_target
from quire.ir.primitive import PRIMITIVES

from ..helpers import Case, check
from .test_iree_faults_ops import GONE

X = np.linspace(-2.3, 3.1, 6, dtype=np.float32).reshape(2, 3)
H = np.cos(np.arange(30, dtype=np.float32)).reshape(2, 3, 5).astype(np.float16)


@pytest.fixture(scope="module")
def compiler() -> worker.Compiler:
    return worker.Compiler(str(compiler_library()))


def test_the_worker_knows_the_operations_of_the_declarations():
    """It imports nothing of quire: what primitives of one operand are lowered to is in its own list."""
    from quire.backends.iree import shape_orders  # which finds what it imports beside it once the worker is

    named = {f"stablehlo.{p.stablehlo}".encode() for p in PRIMITIVES.values() if p.stablehlo and p.arity == 1}
    assert {name for name in named if b"chlo." not in name} <= shape_orders.FUNCTIONS


def both(f: Any, form: Any) -> Any:
    """f of a form of x, and of a form of that."""

    def of(x: Any) -> Any:
        t = form(x)
        return f(t), f(qnp.broadcast_to(t, (4, *t.shape))), f(t[None])

    return of


def with_an_axis_more(f: Any, form: Any) -> Any:
    """f of a form of what is computed from x, with a dimension more, and of that repeated."""

    def of(x: Any) -> Any:
        t = form(x * 2)[..., None]
        return f(qnp.broadcast_to(t, (*t.shape[:-1], 2))), f(t)

    return of


FUNCTIONS: dict[str, Any] = {
    "floor": qnp.floor, "ceil": qnp.ceil, "negative": lambda x: -x, "abs": qnp.abs, "sign": qnp.sign, "round": qnp.round,
    "narrower": lambda x: x.astype("float16"), "whole": lambda x: x.astype("int32"), "root": lambda x: qnp.sqrt(qnp.abs(x)),
    "finite": qnp.isfinite, "not": lambda x: ~(x > 0), "exp": qnp.exp, "real": lambda x: qnp.real(x * 1j + 2),
}  # fmt: skip
FORMS: dict[str, Any] = {
    "transposed": lambda x: x.T,
    "reshaped": lambda x: x.reshape(2, 1, 3),
    "flat": lambda x: x.reshape(-1),
    "both": lambda x: x.T.reshape(2, 3).T,
}


def test_functions_of_forms_and_of_forms_of_these():
    """`floor(x.T)` beside `floor(broadcast_to(x.T, ...))` was x.T."""
    check([Case(f"{f} {form}", both(FUNCTIONS[f], FORMS[form]), [X]) for f in FUNCTIONS for form in FORMS])


def test_functions_of_two_changes_of_shape():
    """Once f is before the second, the first and the second are together, which IREE failed to legalise."""
    check([Case(f"{f} {form}", with_an_axis_more(FUNCTIONS[f], FORMS[form]), [X]) for f in FUNCTIONS for form in FORMS])


def test_a_maximum_in_half_precision_that_is_tiled():
    """IREE moved the tile's conversion to where the other one was, then both past the reshape."""

    def loss(a: Any) -> Any:
        m = qnp.max(a, axis=-2, keepdims=True)
        tiled, out = qnp.tile(m, (2, 1)), qnp.sum(a * qnp.tanh(m), axis=-2)
        return qnp.sum(tiled.astype("float32") * 1.1) + qnp.sum(out.astype("float32") * 1.1)

    check([Case("gradient", quire.value_and_grad(loss), [H], rtol=1e-2)])


def test_iree_loses_a_function_of_a_transpose(compiler):
    """In the conversion, where its simplification has left one. Where the shapes differ, there is no code."""
    module = b"""func.func @main(%x: tensor<2x2xf32>) -> tensor<2x2xf32> {
      %t = stablehlo.transpose %x, dims = [1, 0] : (tensor<2x2xf32>) -> tensor<2x2xf32>
      %y = stablehlo.floor %t : tensor<2x2xf32>
      return %y : tensor<2x2xf32>
    }\0"""
    invocation = worker.Invocation(compiler, module, get_target("cpu").flags)
    try:
        assert invocation.parse() and invocation.run_passes("iree-stablehlo-to-iree-input")
        assert b"math.floor" not in invocation.text(), GONE.format("shape_orders")
    finally:
        invocation.close()


# -- what would be cloned -----------------------------------------------------------------------------------------------


def random_of_a_constant_key(x: Any) -> Any:
    key = quire.random.key(0)
    return (
        quire.random.normal(key, (4,)),
        quire.random.randint(key, (3, 3), 0, 9),
        quire.random.key_data(quire.random.split(key)),
        x + 1,
    )


def mixed(dtype: Any) -> Any:
    """A chain in which two values are used twice each, of counting numbers."""

    def f(x: Any) -> Any:
        a, b = qnp.arange(9).astype(dtype), qnp.full(9, 3).astype(dtype)
        for k in range(24):
            a = a + b if k % 2 else a - b * 0.5 if qnp.issubdtype(a.dtype, qnp.floating) else a ^ b
            b = qnp.where(a > b, b, a + 1) - qnp.minimum(a, 7)
            a = qnp.clip(a, -50, 50)
        return a, b, x * 2

    return f


def test_long_chains_of_counting_numbers():
    """Cloned into each use, they did not end."""
    check([
        Case("random bits of a constant key", random_of_a_constant_key, [X], rtol=1e-5),
        *(Case(str(d), mixed(d), [X]) for d in ("int32", "uint8", "float32")),
    ])  # fmt: skip


def chain(rounds: int) -> bytes:
    """20 rounds of a function of random bits, of counting numbers."""
    lines, kind = (
        ["%a0 = stablehlo.iota dim = 0 : tensor<8xi32>", "%b0 = stablehlo.constant dense<5> : tensor<8xi32>"],
        "tensor<8xi32>",
    )
    for k in range(rounds):
        lines += [
            f"%a{k + 1} = stablehlo.add %a{k}, %b{k} : {kind}",
            f"%c{k} = stablehlo.shift_left %b{k}, %b0 : {kind}",
            f"%d{k} = stablehlo.or %c{k}, %b{k} : {kind}",
            f"%b{k + 1} = stablehlo.xor %a{k + 1}, %d{k} : {kind}",
        ]
    body = "\n".join(lines)
    return f"func.func @main() -> {kind} {{\n{body}\nreturn %b{rounds} : {kind}\n}}\0".encode()


@pytest.mark.parametrize(("rounds", "stored"), [(3, False), (20, True)])
def test_only_long_chains_begin_with_a_stored_array(compiler, rounds, stored):
    invocation = worker.Invocation(compiler, chain(rounds), get_target("cpu").flags)
    try:
        mlir = compiler.mlir
        assert invocation.parse()
        module = mlir.ireeCompilerInvocationExportStealModule(invocation.invocation)
        mlir.ireeCompilerInvocationImportStealModule(invocation.invocation, module)
        assert all(invocation.to_linalg(module))
        assert (b"linalg.index" not in invocation.text()) == stored
    finally:
        invocation.close()


def test_what_is_stored_is_as_long_as_it_is():
    """Constants of few elements, memory for more, and for what is not whole."""

    def f(x: Any) -> Any:
        return *mixed("int32")(x), quire.random.bits(quire.random.key(0), (100,)), qnp.sin(qnp.arange(100.0))

    check([Case("long", f, [X], rtol=1e-5)])
