# ruff: noqa: E501 - tables
"""Every primitive's derivatives against finite differences, in both modes and to order two, on the reference."""

from __future__ import annotations

import numpy as np
import pytest

import quire
import quire.numpy as qnp
from quire.ir.config import config
from quire.ir.primitive import PRIMITIVES
from quire.passes.ad.rules import jvp
from quire.test_util import check_grads

from ..primitive_applications import APPLICATIONS, Application, primitive_names, traced

DIFFERENTIABLE = [a for a in APPLICATIONS if a.order]

# Differentiated elsewhere, or not by a number: where, or why.
ELSEWHERE = {
    **dict.fromkeys(("custom_jvp_call", "custom_vjp_call", "custom_linear_solve"), "test_custom_derivatives"),
    **dict.fromkeys(("psum", "pmax", "pmin", "ppermute", "all_gather", "reduce_scatter", "all_to_all", "axis_index", "pbroadcast", "pvary"), "test_collectives"),
    "pcast": "tests/frontend/test_manual_sums",
    "shard_map": "test_shard_map", "reduce_window": "forward mode alone, as in JAX: tests/frontend/test_jax_behaviour",
    "check": "test_checkify", "custom_vmap_call": "test_custom_batching", "use_key": "test_key_reuse",
    "random_bits": "tests/primitives/test_random",
    **dict.fromkeys(("pure_callback", "ffi_call", "io_callback", "debug_callback"), "host functions have no derivative"),
    **dict.fromkeys(("threefry2x32", "rng_bit_generator", "rng_uniform"), "random bits"),
    **dict.fromkeys(("eq", "ne", "lt", "le", "gt", "ge", "and", "or", "xor", "not", "mulhi", "shift_left"), "no inexact result"),
    **dict.fromkeys(("shift_right_logical", "shift_right_arithmetic", "population_count", "clz"), "no inexact result"),
    **dict.fromkeys(("argmax", "argmin", "reduce_and", "reduce_or", "reduce_xor", "bitcast_convert_type"), "no inexact result"),
    **dict.fromkeys(("lu_pivots_to_permutation", "nextafter"), "derivative zero"),
    "while": "test_while_forward", "stop_gradient": "test_grad",
    "reduce": "by its reducer", "select_and_gather_add": "by tangents only",
}  # fmt: skip


@pytest.mark.parametrize("a", DIFFERENTIABLE, ids=[a.name for a in DIFFERENTIABLE])
def test_against_finite_differences(a: Application) -> None:
    with config.override(enable_x64=True, disable_jit=True):
        check_grads(traced(a), a.args, order=a.order, rtol=1e-5, atol=1e-6)


def test_while_forward() -> None:
    with config.override(enable_x64=True, disable_jit=True):
        for a in APPLICATIONS:
            if a.name == "while":
                check_grads(traced(a), a.args, order=2, modes=["fwd"], rtol=1e-5, atol=1e-6)


def test_no_primitive_is_missing() -> None:
    with config.override(enable_x64=True):
        covered = set().union(*(primitive_names(a) for a in DIFFERENTIABLE))
    missing = {p.name for p in PRIMITIVES.values() if p in jvp} - covered - set(ELSEWHERE)
    assert not missing


def test_higher_derivatives_where_terms_are_equal():
    """Of running sums of exponentials: what is taken off for the sake of range has no part in derivatives."""
    x = qnp.ones(3)
    found = quire.jacfwd(quire.hessian(lambda x: quire.lax.cumlogsumexp(x)[-1]))(x)
    expected = quire.jacfwd(quire.hessian(quire.scipy.special.logsumexp))(x)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    backwards = quire.jacrev(quire.hessian(lambda x: quire.lax.cumlogsumexp(x, reverse=True)[0]))(x)
    np.testing.assert_allclose(backwards, expected, atol=1e-6)


def test_second_derivative_of_a_cube_root_at_zero():
    assert quire.grad(quire.grad(qnp.cbrt))(0.0) == -np.inf
    np.testing.assert_allclose(quire.grad(quire.grad(qnp.cbrt))(8.0), -2 / 9 * 8 ** (-5 / 3), rtol=1e-6)
