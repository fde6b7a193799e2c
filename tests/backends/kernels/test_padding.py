"""What is in memory is padded by a kernel, what is computed by the kernel that computes it; against the reference."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

import quire
from quire import lax
from quire import numpy as qnp
from tests.helpers import Case, check

F32 = np.float32


def normal(*shape: int, dtype: Any = F32) -> Any:
    return (9 * np.random.default_rng(0).standard_normal(shape)).astype(dtype)


def kernels(f: Any, *args: Any) -> list[str]:
    """What the padding kernels of a program say of themselves."""
    return re.findall(
        r'quire_reason = "(\d+ equations of moved arrays \([a-z_]*pad[^"]*)"', quire.jit(f).lower(*args).as_text()
    )


ALONE: dict[str, tuple[Any, list[Any]]] = {
    "image": (lambda x: qnp.pad(x, ((0, 0), (0, 1), (0, 1), (0, 0))), [normal(8, 33, 32, 3)]),
    "channels first": (lambda x: qnp.pad(x, ((0, 0), (3, 3), (2, 1))), [normal(3, 70, 81)]),
    "rows only": (lambda x: qnp.pad(x, ((2, 1), (0, 0))), [normal(140, 129)]),
    "one dimension": (lambda x: qnp.pad(x, 5), [normal(20_001)]),
    "every dimension": (lambda x: qnp.pad(x, 1), [normal(27, 26, 29)]),
    "a number": (lambda x: qnp.pad(x, 1, constant_values=-2.5), [normal(140, 129)]),
    "infinity": (lambda x: lax.pad(x, F32(-np.inf), [(1, 2, 0), (0, 1, 0)]), [normal(140, 129)]),
    "an argument": (lambda x, c: lax.pad(x, c, [(1, 2, 0), (0, 1, 0)]), [normal(140, 129), F32(3.5)]),
    "int8": (lambda x: qnp.pad(x, 1, constant_values=-7), [normal(140, 129, dtype=np.int8)]),
    "bool": (lambda x: qnp.pad(x, 1, constant_values=True), [normal(140, 129) > 0]),
    "half": (lambda x: qnp.pad(x, 1, constant_values=0.5), [normal(140, 129, dtype=np.float16)]),
    "of a product of matrices": (lambda x: qnp.pad(x @ x, ((0, 1), (2, 0))), [normal(130, 130) * F32(0.01)]),
}
COMPUTED: dict[str, tuple[Any, list[Any]]] = {
    "bfloat16": (lambda x: qnp.pad(x.astype("bfloat16"), 1).astype("float32"), [normal(140, 129)]),
    "relu": (lambda x: qnp.pad(qnp.maximum(x, 0) * 2, 1), [normal(140, 129)]),
    "converted": (lambda x: qnp.pad(x.astype("float32"), ((0, 1), (3, 0))), [normal(140, 129, dtype=np.int8)]),
    "two arrays": (
        lambda x, y: qnp.pad(x * y + 1, ((1, 0), (0, 2)), constant_values=7),
        [normal(140, 129), normal(129)],
    ),
}
SHORT: dict[str, tuple[Any, list[Any]]] = {  # computed, with rows that IREE writes one element after another
    "channels": (lambda x: qnp.pad(qnp.maximum(x, 0) * 2, ((0, 0), (1, 2), (3, 0), (0, 0))), [normal(2, 60, 71, 3)]),
    "channels of a sum": (lambda x: qnp.pad(x.sum(0), ((1, 1), (1, 1), (0, 0))), [normal(5, 70, 90, 3)]),
}
BESIDE: dict[str, tuple[Any, list[Any]]] = {  # by no kernel of padding
    "between": (lambda x: lax.pad(x, F32(1), [(1, 2, 1), (0, 1, 2)]), [normal(140, 129)]),
    "cropped": (lambda x: lax.pad(x, F32(1), [(-1, 2, 0), (2, -3, 0)]), [normal(140, 129)]),
    "short rows": (lambda x: qnp.pad(x, ((0, 0), (1, 1))), [normal(9000, 3)]),
    "small": (lambda x: qnp.pad(x, 1), [normal(30, 31)]),
    "a scalar": (lambda x: lax.pad(x[0, 0], F32(0), []), [normal(2, 2)]),
    "empty": (lambda x: qnp.pad(x, ((80, 80), (100, 60))), [normal(0, 129)]),
    "complex": (lambda x: qnp.pad(x, 1), [normal(140, 129).astype(np.complex64)]),
    "of a sum": (lambda x: qnp.pad(x.sum(0), ((1, 1), (1, 1))), [normal(5, 140, 129)]),
    "twice": (lambda x: qnp.pad(qnp.pad(x, 1), 2, constant_values=1), [normal(140, 129)]),
    "of an update": (lambda x: qnp.pad(x.at[3:5].set(1), 1), [normal(140, 129)]),
    "in a loop": (lambda x: lax.fori_loop(0, 3, lambda i, x: qnp.pad(x, 1)[1:-1, 2:] * 0.5, x), [normal(140, 129)]),
    "gradient": (quire.grad(lambda x: qnp.sum(qnp.pad(x, 1)[1:, 1:] ** 2)), [normal(140, 129)]),
    "batched": (quire.vmap(lambda x: qnp.pad(x, 1)), [normal(3, 140, 129)]),
}  # fmt: skip


def test_padded_arrays_equal_reference() -> None:
    programs = {**ALONE, **COMPUTED, **SHORT, **BESIDE}
    check([Case(name, f, args, rtol=1e-5, atol=1e-4) for name, (f, args) in programs.items()])


def test_what_is_in_memory_is_padded_by_one_kernel() -> None:
    assert [name for name, (f, args) in {**ALONE, **SHORT}.items() if not kernels(f, *args)] == []


def test_what_is_computed_is_padded_by_the_same_kernel() -> None:
    for name, (f, args) in COMPUTED.items():
        (told,) = kernels(f, *args)
        assert not told.startswith("1 "), (name, told)


def test_an_image_that_two_products_read_is_padded_once() -> None:
    """A convolution and the gradient of its filter read the same padded image."""

    def step(w: Any, x: Any) -> Any:
        def loss(w: Any) -> Any:
            y = lax.conv_general_dilated(x, w, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
            return qnp.sum(y * y)

        return w - 0.01 * quire.grad(loss)(w)

    w, x = normal(3, 3, 16, 32) * F32(0.01), normal(4, 32, 32, 16)
    plan = quire.jit(step).lower(w, x).as_text("plan")
    assert plan.count("stencil") == 1, plan
    check([Case("a step", step, [w, x], rtol=1e-3, atol=1e-2)])
