"""Kernels of shifted, padded and joined parts of arrays, against the reference and NumPy."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import quire
from quire import lax
from quire import numpy as qnp
from quire.ir.rectangles import Rectangle, regions
from quire.passes.manager import PassManager
from tests.helpers import Case, check, trace

F32 = np.float32


def normal(*shape: int, dtype: Any = F32) -> Any:
    x = np.random.default_rng(0).standard_normal(shape)
    return (x + 1j * x[::-1]).astype(dtype) if np.dtype(dtype).kind == "c" else (9 * x).astype(dtype)


def laplacian(u: Any) -> Any:
    return qnp.roll(u, 1, 0) + qnp.roll(u, -1, 0) + qnp.roll(u, 1, 1) + qnp.roll(u, -1, 1) - 4 * u


def padded(mode: str) -> Callable[[Any], Any]:
    def f(u: Any) -> Any:
        p = qnp.pad(u, 1, mode=mode)
        return (p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:]) * 0.25

    return f


def rotary(x: Any) -> Any:
    n = x.shape[-1] // 2
    angle = qnp.arange(x.shape[0], dtype="float32")[:, None] * 0.1
    turned = qnp.concatenate([-x[:, n:], x[:, :n]], axis=1)
    return x * qnp.cos(angle) + turned * qnp.sin(angle)


def gates(x: Any) -> Any:
    a, b, c = qnp.split(x, 3, axis=1)
    return qnp.tanh(a) * b + c


PROGRAMS: dict[str, tuple[Callable[..., Any], list[Any], int]] = {  # and the number of regions
    "inner": (lambda u: u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:], [normal(150, 131)], 1),
    "periodic": (laplacian, [normal(140, 129)], 9),
    "three dimensions": (lambda u: sum(qnp.roll(u, s, d) for d in range(3) for s in (1, -1)), [normal(30, 28, 33)], 27),
    "one dimension": (lambda u: u[2:] - 2 * u[1:-1] + u[:-2], [normal(40_001)], 1),
    "one dimension, turned": (lambda u: u[::-1][1:] + u[:-1] * u[1:], [normal(20_000)], 1),
    "edges": (padded("edge"), [normal(140, 129)], 16),
    "reflected": (padded("reflect"), [normal(140, 129)], 16),
    "padded with a number": (padded("constant"), [normal(140, 129)], 9),
    "padded, a scalar": (lambda u, c: lax.pad(u, c, [(2, 3, 0), (0, 1, 0)])[1:] + lax.pad(u, c, [(1, 3, 0), (1, 0, 0)]),
                         [normal(140, 129), F32(2.5)], 9),
    "cropped": (lambda u: lax.pad(u, F32(3), [(-1, 2, 0), (2, -1, 0)]) + u.at[0].get()[0] + lax.pad(u, F32(1), [(0, 1, 0), (1, 0, 0)]),
                [normal(140, 129)], 9),
    "halves": (rotary, [normal(300, 64)], 2),
    "parts": (gates, [normal(300, 192)], 1),
    "every second": (lambda u: u[::2, ::3] + u[1::2, 1::3] * u[::2, 2::3], [normal(300, 399)], 1),
    "channels": (lambda x: ((x[..., 0].astype("uint16") * 77 + x[..., 1] * 150 + x[..., 2] * 29) >> 8).astype("uint8"),
                 [np.arange(150 * 130 * 3).reshape(150, 130, 3).astype(np.uint8)], 1),
    "channels, few": (lambda x: x[..., 0] - x[..., 1], [normal(1001, 17, 2)], 1),
    "with places": (lambda u: u[1:] * lax.broadcasted_iota(np.int32, (139, 129), 1)[:, ::-1] + u[:-1], [normal(140, 129)], 1),
    "bool": (lambda u: (u[1:] > 0) & ~(u[:-1] > 0), [normal(140, 129)], 1),
    "complex": (lambda u: u[1:] * u[:-1] - qnp.roll(u, 3, 1)[1:], [normal(140, 129, dtype=np.complex64)], 2),
    "int8": (lambda u: u[1:] + u[:-1] - qnp.roll(u, 3, 1)[1:], [normal(140, 129, dtype=np.int8)], 2),
    "half": (lambda u: u[1:] + u[:-1] * u[1:], [normal(140, 129, dtype=np.float16)], 1),
    "a row for all": (lambda u, r: u[1:] * r + u[:-1] * r[::-1], [normal(140, 129), normal(129)], 1),
    "dear, read at several places": (lambda u: qnp.tanh(u)[1:] + qnp.tanh(u)[:-1], [normal(140, 129)], 1),
    "rows to columns": (lambda u: u.T, [normal(140, 129)], 1),
    "rows to columns, doubles": (lambda u: u.T + 1, [normal(140, 129, dtype=np.float64)], 1),
    "rows to columns, bytes": (lambda u: u.T * u.T, [normal(141, 130, dtype=np.int8)], 1),
    "rows to columns, complex": (lambda u: qnp.conj(u.T), [normal(140, 129, dtype=np.complex64)], 1),
    "rows to columns, halves": (lambda u: u.T * u.T, [normal(140, 129, dtype=np.float16)], 1),
    "rows to columns, masks": (lambda u: (u > 0).T & (u.T < 3), [normal(140, 129)], 1),
    "added to its transpose": (lambda u: u + u.T * 2, [normal(139, 139)], 1),
    "two transposes": (lambda u, v: u.T * v + qnp.tanh(v.T).T, [normal(140, 129), normal(129, 140)], 1),
    "a transpose and a row": (lambda u, r: u.T * r - r.sum(), [normal(140, 129), normal(140)], 1),
    "rows to columns, dear": (lambda u, v: qnp.tanh(qnp.exp(u.T) * v) + qnp.sin(u.T) * qnp.log1p(qnp.abs(u.T)),
                              [normal(140, 129) / 9, normal(129, 140)], 1),
    "heads": (lambda u: u.reshape(12, 150, 8, 20).transpose(0, 2, 1, 3), [normal(12, 150, 160)], 1),
    "channels last": (lambda u: u.transpose(0, 2, 3, 1), [normal(3, 17, 30, 31)], 1),
    "a middle dimension last": (lambda u: u.transpose(0, 2, 1) - u.transpose(0, 2, 1)[:, ::-1], [normal(6, 41, 83)], 1),
    "dimensions turned about": (lambda u: u.transpose(2, 1, 0), [normal(31, 9, 83)], 1),
    "blocks to pixels": (lambda u: u.reshape(2, 20, 30, 4, 4, 16).transpose(0, 1, 3, 2, 4, 5), [normal(2, 20, 30, 256)], 1),
    "parts of a transpose": (lambda u: u.T[3:, 1:] - u[1:, 3:].T, [normal(140, 140)], 1),
    "gradient": (quire.grad(lambda u: qnp.sum((u[1:, 1:] - u[:-1, 1:]) ** 2 * u[1:, :-1])), [normal(140, 129)], 9),
}  # fmt: skip


JOINED: dict[str, tuple[Callable[..., Any], list[Any], str]] = {  # and what the reason says
    **{
        f"{k} side by side, {np.dtype(d).name}": (
            lambda *xs: qnp.stack([*xs[:-1], xs[-1] + xs[0]], -1), [normal(91, 93, dtype=d) + d(j) for j in range(k)],
            "side by side",
        )  # fmt: skip
        for k, d in ((2, F32), (3, np.uint8), (3, np.complex64), (5, np.int16), (8, np.float16))
    },
    "masks side by side": (lambda u: qnp.stack([u > 0, u > 1, ~(u > 2)], -1), [normal(91, 97)], "side by side"),
    "a cross product": (lambda a, b: qnp.cross(a, b[::-1]), [normal(61, 90, 3), normal(61, 90, 3)[:, ::-1]], "side by side"),
    "parts side by side": (lambda u: qnp.stack([u[1:, 1:], u[:-1, 1:] * 2, u[1:, :-1]], -1), [normal(91, 97)], "side by side"),
    "a vector beside another": (lambda u: qnp.stack([u, u * u], 1), [normal(9001)], "side by side"),
    "a number beside each": (lambda u: qnp.stack([u, qnp.ones_like(u)], -1), [normal(91, 93)], "side by side"),
    "rows joined": (lambda a, b: qnp.concatenate([a, b], 1), [normal(140, 61), normal(140, 67)], "2 regions"),
    "stacked in between": (lambda a, b: qnp.stack([a, b + 1], 1), [normal(140, 61), normal(140, 61)], "2 regions"),
    "elements repeated": (lambda a: qnp.repeat(a, 3, 1), [normal(61, 131)], "side by side"),
    "blocks repeated": (lambda a: qnp.repeat(qnp.repeat(a, 2, 0), 2, 1), [normal(61, 131)], "side by side"),
    "rows repeated": (lambda a: qnp.repeat(a, 3, 0), [normal(60, 131)], "one region"),
    "bytes of rows apart": (lambda u: ((u.astype("uint16") + u[::-1]) // 2).astype("uint8"),
                            [np.arange(99 * 61 * 3).reshape(99, 61, 3).astype(np.uint8)], "one region"),
}  # fmt: skip


def test_joined_arrays_compiled_equal_reference() -> None:
    check(
        [
            Case(name, f, args, rtol=1e-3 if "float16" in name else 1e-5, atol=1e-4)
            for name, (f, args, _) in JOINED.items()
        ]
    )


@pytest.mark.parametrize("name", JOINED)
def test_joined_arrays_are_one_kernel(name: str) -> None:
    f, args, told = JOINED[name]
    reasons = re.findall(r'quire_reason = "([^"]*equations of moved arrays[^"]*)"', quire.jit(f).lower(*args).as_text())
    assert any(told in r for r in reasons), reasons


def test_programs_compiled_equal_reference() -> None:
    check(
        [
            # Halves: a machine with such an instruction rounds product and sum once; the products are up to 700.
            Case(name, f, args, rtol=1e-3 if name == "half" else 1e-5, atol=0.25 if name == "half" else 1e-4)
            for name, (f, args, _) in PROGRAMS.items()
        ]
    )


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_kernel_of_so_many_regions(name: str) -> None:
    f, args, count = PROGRAMS[name]
    reasons = re.findall(r'quire_reason = "([^"]*equations of moved arrays[^"]*)"', quire.jit(f).lower(*args).as_text())
    assert reasons, "no stencil"
    told = "one region" if count == 1 else f"{count} regions"
    assert any(told in r for r in reasons), reasons


def test_what_others_read_is_computed_once() -> None:
    """tanh is an array of its own that the stencil reads; a product is not computed again for who else needs it."""
    u = normal(140, 129)
    text = quire.jit(lambda u: qnp.tanh(u)[1:] + qnp.tanh(u)[:-1]).as_text("optimized", u)
    assert (
        text.count(" tanh ") == 1 and text.count("kind=stencil") == 1 and text.index(" tanh ") < text.index("stencil")
    )
    check([Case("both", lambda u: [(u * 3)[1:] + (u * 3)[:-1], u * 3], [u])])


def test_regions_of_a_roll() -> None:
    """The parts cover the result, and each reads one rectangle of the operand."""
    shape = (7, 9)
    (out,) = [trace(lambda u: qnp.roll(u, 2, 0) + qnp.roll(u, -1, 1), [np.zeros(shape, F32)])]
    jaxpr = PassManager("inline").run(out).jaxpr
    found = regions(jaxpr, 16)
    assert found is not None and len(found) == 4
    covered = np.zeros(shape, int)
    for read in found:
        (part,) = read[jaxpr.outvars[0]]  # type: ignore[index]
        covered[tuple(slice(s, s + n) for s, n in zip(part.starts, part.sizes))] += 1
        assert len(read[jaxpr.invars[0]]) == 2
    assert (covered == 1).all()
    assert regions(jaxpr, 3) is None
    assert Rectangle.whole((4, 5)).cut(1, 2) == (Rectangle((0, 0), (4, 2)), Rectangle((0, 2), (4, 3)))


MOVES: list[Callable[[Any, int], Any]] = [
    lambda x, k: qnp.roll(x, k - 3, k % 2), lambda x, k: x[::-1] if k % 2 else x[:, ::-1],
    lambda x, k: qnp.concatenate([x[k:], x[:k] * 2]), lambda x, k: qnp.concatenate([x[:, k:], x[:, :k]], axis=1) - 1,
    lambda x, k: qnp.pad(x, ((k, 0), (0, 1)))[: x.shape[0], 1:], lambda x, k: qnp.pad(x, 2, mode="edge")[2:-2, k % 5 :][:, : x.shape[1]],
    lambda x, k: lax.pad(x, F32(k), [(-k, k, 0), (1, -1, 0)]), lambda x, k: x * k + 1, lambda x, k: qnp.maximum(x, x[k][None]),
    lambda x, k: qnp.repeat(x[:, :1], x.shape[1], 1) + x, lambda x, k: qnp.where(x > 0, x, qnp.roll(x, 1, 1)),
    lambda x, k: qnp.pad(x.T, ((0, 4), (0, 0)))[:, :127] + x, lambda x, k: (x[:127] + x[:127].T * k)[:, ::-1].repeat(2, 0)[:131],
    lambda x, k: x[..., None].reshape(x.shape) * x.reshape(1, *x.shape)[0][::-1],
]  # fmt: skip


@settings(max_examples=3, deadline=None, derandomize=True)
@given(st.lists(st.lists(st.tuples(st.integers(0, len(MOVES) - 1), st.integers(0, 5), st.integers(0, 5)), min_size=2, max_size=7),
                min_size=8, max_size=8))  # fmt: skip
def test_moves_made_by_chance(programs: list[list[tuple[int, int, int]]]) -> None:
    """Each step moves one of the arrays so far and adds another."""
    u = normal(131, 127)

    def program(steps: list[tuple[int, int, int]]) -> Callable[[Any], Any]:
        def f(x: Any) -> Any:
            arrays = [x]
            for move, k, other in steps:
                y = MOVES[move](arrays[-1], k)
                assert y.shape == x.shape
                arrays.append(y * 0.5 + arrays[other % len(arrays)] * 0.25)
            return arrays[-1]

        return f

    check([Case(str(steps), program(steps), [u], rtol=1e-4, atol=1e-3) for steps in programs])
