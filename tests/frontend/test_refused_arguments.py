"""What is refused, with a text that names it; and what JAX accepts though it looks wrong."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import quire
import quire.numpy as qnp
from quire import lax
from tests.frontend.jax_oracle import jax

MASKED = np.ma.masked_array([1.0, 2.0], [0, 1])
F32 = quire.ShapeDtypeStruct((2,), np.float32)


def _with_vjp(forward: Callable[..., Any]) -> Callable[..., Any]:
    def double(x: Any) -> Any:
        return x * 2

    f = quire.custom_vjp(double)
    f.defvjp(forward, lambda _, g: (g,))
    return f


def _with_jvp(rule: Callable[..., Any]) -> Callable[..., Any]:
    def double(x: Any) -> Any:
        return x * 2

    f = quire.custom_jvp(double)
    f.defjvp(rule)
    return f


def _callback(result: Any, shape: tuple[int, ...] = (2,)) -> Callable[[Any], Any]:
    declared = quire.ShapeDtypeStruct(shape, np.float32)
    return lambda x: quire.pure_callback(lambda _: result, declared, x, vmap_method="expand_dims")


def _transpose(f: Callable[..., Any], *args: Any) -> Any:
    return quire.linear_transpose(f, *args)(1.0)


REFUSED: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    # Numbers that their dtype does not hold.
    "int32 of a large integer": (lambda: qnp.int32(2**40), OverflowError, "Python integer 1099511627776 out of bounds for int32"),
    "uint8 of a negative one": (lambda: qnp.array(-1, "uint8"), OverflowError, "Python integer -1 out of bounds for uint8"),
    "in a list": (lambda: qnp.array([[1, 2], [3, 300]], "uint8"), OverflowError, "300 out of bounds for uint8"),
    "asarray": (lambda: qnp.asarray(300, "uint8"), OverflowError, "300 out of bounds for uint8"),
    "uint32": (lambda: qnp.uint32(-1), OverflowError, "-1 out of bounds for uint32"),
    "nan as an integer": (lambda: qnp.array(float("nan"), "int32"), ValueError, "cannot convert float NaN to integer"),
    "infinity as an integer": (lambda: qnp.array(float("inf"), "int32"), OverflowError, "infinity to integer"),
    "complex as a float": (lambda: qnp.float32(1j), TypeError, "real number, not 'complex'"),
    "complex as bfloat16": (lambda: qnp.array(1j, "bfloat16"), TypeError, "expected real numbers for bfloat16"),
    "float of complex": (lambda: float(qnp.array(1j)), TypeError, r"float\(\) argument must be .* real number, not 'complex'"),
    "int of complex": (lambda: int(qnp.array(1j)), TypeError, r"int\(\) argument"),
    "an operand": (lambda: qnp.ones(3, int) + 2**40, OverflowError, "Python int 1099511627776 is too large for int32"),
    "arange of complex": (lambda: qnp.arange(1j), ValueError, "arange: start, stop and step must be real"),
    # Masked arrays.
    "masked": (lambda: qnp.asarray(MASKED), ValueError, r"masked arrays are not supported.*x\.filled\(value\)"),
    "masked operand": (lambda: qnp.ones(2) + MASKED, ValueError, "masked arrays are not supported"),
    "masked under jit": (lambda: quire.jit(lambda x: x)(MASKED), ValueError, "masked arrays are not supported"),
    "masked put": (lambda: quire.device_put(MASKED), ValueError, "masked arrays are not supported"),
    "masked in sin": (lambda: qnp.sin(MASKED), ValueError, "masked arrays are not supported"),
    # Functions that are none.
    "jit of None": (lambda: quire.jit(None), TypeError, "quire.compile: expected a function, got None of type NoneType"),
    "jacfwd of a number": (lambda: quire.jacfwd(3), TypeError, "jacfwd: expected a function, got 3"),
    "jacrev of a number": (lambda: quire.jacrev(3), TypeError, "jacrev: expected a function, got 3"),
    "hessian of None": (lambda: quire.hessian(None), TypeError, "expected a function, got None"),
    "linear_transpose of None": (lambda: quire.linear_transpose(None, 1.0), TypeError, "linear_transpose: expected a function"),
    # Rules that return something else.
    "callback, shape": (lambda: _callback(np.ones(3, "f"))(1.0), TypeError, r"shape \[3\] as result 0; f32\[2\] was declared"),
    "callback, one dimension more": (lambda: _callback(np.ones(1, "f"), ())(1.0), TypeError, r"\[1\].* was declared"),
    "callback under jit": (lambda: quire.jit(_callback(np.ones(3, "f")))(1.0), TypeError, r"float32\[2\] was declared"),
    "callback under vmap": (
        lambda: quire.vmap(_callback(np.ones(2, "f")))(np.ones(3, "f")), TypeError,
        r"shape \[2\] as result 0; f32\[3,2\] was declared",
    ),
    "custom_vjp, shape": (
        lambda: quire.grad(lambda x: _with_vjp(lambda x: (qnp.ones(3) * x, None))(x).sum())(1.0), TypeError,
        r"the forward rule of double must return what double returns: output is f32\[\], the rule returned f32\[3\]",
    ),
    "custom_vjp, dtype": (
        lambda: quire.grad(_with_vjp(lambda x: (lax.convert_element_type(x * 2, "float16"), None)))(1.0), TypeError,
        r"the forward rule of double .*f32\[\], the rule returned f16\[\]",
    ),
    "custom_jvp, shape": (
        lambda: quire.jvp(_with_jvp(lambda p, t: (qnp.ones(3), qnp.ones(3))), (1.0,), (1.0,)), TypeError,
        r"the jvp rule of double must return what double returns: output is f32\[\], the rule returned f32\[3\]",
    ),
    # Transposes of what is not linear.
    "x * x": (lambda: _transpose(lambda x: x * x, 1.0), TypeError,
              r"linear_transpose of <lambda>: <lambda> is not linear in its arguments: (mul|square|integer_pow) .*test_refused"),
    "x * y": (lambda: _transpose(lambda x, y: x * y, 1.0, 2.0), TypeError, r"mul \(at .*\) multiplies two values that depend on"),
    "x @ x": (lambda: _transpose(lambda x: x @ x, np.ones(2)), TypeError, "dot_general .*multiplies two values"),
    "1 / x": (lambda: _transpose(lambda x: 1 / x, 1.0), TypeError, "div .*divides by a value that depends on them"),
    "where of x": (lambda: _transpose(lambda x: qnp.where(x > 0, x, 0), 1.0), TypeError, "select_n .*chooses by a value"),
    "another cotangent": (
        lambda: quire.linear_transpose(lambda x: x * 2, 1.0)(qnp.ones(3)), TypeError,
        r"the cotangent of an output f32\[\] must be like it, got f32\[3\]",
    ),
    # Others.
    "a format of a traced value": (
        lambda: quire.jit(lambda x: f"{x:.2f}" and x)(1.0), TypeError,
        r"a traced value f32\[\] has no number to format as '.2f' \(at .*test_refused.*quire.debug.print",
    ),
    "slice by floats": (lambda: lax.slice(qnp.arange(5), (1.0,), (4,)), TypeError, "slice: start_indices must be integers"),
    "slice under jit": (lambda: quire.jit(lambda x: lax.slice(x, (-1,), (3,)))(qnp.arange(5)), TypeError, "got start -1, limit 3"),
    "slice too long": (lambda: lax.slice(qnp.arange(5), (-1,), (5,)), TypeError, "got start -1, limit 5"),
    "integer_pow": (lambda: lax.integer_pow(2.0, 1.5), TypeError, "integer_pow: y must be an integer .*lax.pow"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    f, kind, text = REFUSED[name]
    with pytest.raises(kind, match=text):
        f()


def _nested(depth: int) -> Any:
    tree: Any = 1.0
    for _ in range(depth):
        tree = [tree]
    return tree


ACCEPTED: dict[str, Callable[[Any, Any, Any], Any]] = {
    "slice with a negative start": lambda j, n, lax_: lax_.slice(n.arange(5), (-1,), (3,)),
    "slice of negative bounds": lambda j, n, lax_: lax_.slice(n.arange(5), (-3,), (-1,)),
    "deepcopy of a traced value": lambda j, n, lax_: j.jit(lambda x: copy.deepcopy({"a": [x]})["a"][0] * 2)(3.0),
    "deepcopy under grad": lambda j, n, lax_: j.grad(lambda x: copy.deepcopy(x) * copy.copy(x))(3.0),
    "a deep tree": lambda j, n, lax_: j.tree_util.tree_leaves(
        j.jit(lambda t: j.tree_util.tree_map(lambda x: x + 1, t))(_nested(900))
    )[0],
    "a deep tree that is called again": lambda j, n, lax_: [
        j.tree_util.tree_leaves(f(_nested(900)))[0]
        for f in [j.jit(lambda t: j.tree_util.tree_map(lambda x: x + 1, t))]
        for _ in range(4)
    ],
    "a deep tree under grad": lambda j, n, lax_: j.tree_util.tree_leaves(
        j.grad(lambda t: j.tree_util.tree_leaves(t)[0] ** 2)(_nested(900))
    )[0],
    "cond of a number": lambda j, n, lax_: lax_.cond(1.5, lambda: 1, lambda: 2),
    "a float as an integer": lambda j, n, lax_: n.array([1.7, -1.7], "int32"),
    "integers of other arrays wrap": lambda j, n, lax_: n.array(np.array([300]), "uint8"),
    "a number of another array's dtype wraps": lambda j, n, lax_: n.ones(3, "uint8") + 300,
    "linear_transpose": lambda j, n, lax_: j.linear_transpose(lambda x: x * 2 + x / 4, 1.0)(1.0)[0],
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_accepted_as_by_jax(name: str) -> None:
    f = ACCEPTED[name]
    np.testing.assert_array_equal(np.asarray(f(quire, qnp, lax)), np.asarray(f(jax, jax.numpy, jax.lax)), strict=True)


def test_a_traced_value_is_shown_without_a_format() -> None:
    shown: list[str] = []
    quire.jit(lambda x: shown.append(f"{x} {x!s} {x!r}") or x)(1.0)
    assert shown == ["Traced<f32[]> Traced<f32[]> Traced<f32[]>"]
    quire.grad(lambda x: shown.append(f"{x:.2f}") or x)(1.5)
    assert shown[1] == "1.50"  # outside of jit the number is known


def test_a_decorator_with_options_needs_no_function() -> None:
    @quire.jit(static_argnums=0)
    def f(n: int, x: Any) -> Any:
        return x * n

    assert float(f(2, 3.0)) == 6.0
