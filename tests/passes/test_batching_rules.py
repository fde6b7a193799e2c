# ruff: noqa: E501 - tables
"""Every primitive's batching rule against an explicit loop, for every combination of batched operands."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import quire
from quire.ir import dtypes
from quire.ir.config import config
from quire.ir.primitive import PRIMITIVES
from quire.passes.batching.rules import batching

from ..primitive_applications import APPLICATIONS, Application, primitive_names, traced

BATCHED = [a for a in APPLICATIONS if a.batch]
LANES = 3

# Batched elsewhere, or not batched: where, or why.
ELSEWHERE = {
    **dict.fromkeys(("custom_jvp_call", "custom_vjp_call", "custom_linear_solve"), "test_custom_derivatives"),
    **dict.fromkeys(("psum", "pmax", "pmin", "ppermute", "all_gather", "reduce_scatter", "all_to_all", "axis_index", "pbroadcast", "pvary"), "test_collectives"),
    "pcast": "tests/frontend/test_manual_sums",
    "shard_map": "test_shard_map", "kernel_call": "tests/frontend/test_kernels",
    "check": "test_checkify", "custom_vmap_call": "test_custom_batching", "use_key": "test_key_reuse",
    "random_bits": "tests/primitives/test_random",
    **dict.fromkeys(("pure_callback", "ffi_call", "io_callback", "debug_callback"), "test_callbacks"),
    **dict.fromkeys(("rng_bit_generator", "rng_uniform"), "other bits than a loop's, as in JAX"),
    "iota": "no operands",
}  # fmt: skip


def lanes_of(x: np.ndarray, axis: int) -> np.ndarray:
    """Lanes of an argument, slightly different ones where it is inexact."""
    if dtypes.is_inexact(x.dtype):
        rows = [x * (1 + 0.01 * k) for k in range(LANES)]
    elif x.dtype == np.bool_:
        rows = [x ^ (k == 1) for k in range(LANES)]
    else:
        rows = [np.roll(x, k) if x.ndim else np.asarray(max(int(x) - k, 0), x.dtype) for k in range(LANES)]
    return np.stack(rows, axis)


@pytest.mark.parametrize("a", BATCHED, ids=[a.name for a in BATCHED])
def test_against_a_loop(a: Application) -> None:
    with config.override(enable_x64=True, disable_jit=True):
        f = traced(a)
        for mask in itertools.product((False, True), repeat=len(a.args)):
            if not any(mask):
                continue
            for last in (False, True):
                axes = [(x.ndim if last else 0) if m else None for m, x in zip(mask, a.args)]
                args = [lanes_of(x, ax) if ax is not None else x for x, ax in zip(a.args, axes)]
                got = quire.vmap(f, in_axes=tuple(axes))(*args)
                rows = [
                    f(*(np.take(x, k, ax) if ax is not None else x for x, ax in zip(args, axes))) for k in range(LANES)
                ]
                for i, (g, *ws) in enumerate(zip(got, *rows, strict=True)):
                    want = np.stack([np.asarray(w) for w in ws])
                    g = np.asarray(g)
                    assert (g.shape, g.dtype) == (want.shape, want.dtype), (axes, i)
                    np.testing.assert_allclose(g, want, rtol=1e-9, atol=1e-9, err_msg=f"in_axes {axes}, result {i}")


def test_no_primitive_is_missing() -> None:
    with config.override(enable_x64=True):
        covered = set().union(*(primitive_names(a) for a in BATCHED))
    missing = {p.name for p in PRIMITIVES.values() if p in batching} - covered - set(ELSEWHERE)
    assert not missing


def test_no_rule_loops() -> None:
    """Batching keeps an operation batched: no loop appears that was not there."""
    loops = {"scan", "while", "bounded_while"}
    with config.override(enable_x64=True):
        for a in BATCHED:
            before = primitive_names(a)
            f = traced(a)
            jaxpr = quire.make_jaxpr(quire.vmap(f))(*(lanes_of(x, 0) for x in a.args)).jaxpr
            from ..primitive_applications import primitives_of

            assert not (primitives_of(jaxpr) & loops) - before, a.name
