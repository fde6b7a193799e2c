"""The estimate of a program's work, and what is decided by it: whether it runs on the calling thread."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import quire
import quire.numpy as qnp
from quire import lax
from quire.passes.cost import CACHE_BYTES, OTHERS, PRODUCTS, Cost, estimate


@dataclass(frozen=True)
class Fixed:
    """A machine of round numbers."""

    workers: int = 4
    flops_per_second: float = 4e9
    bytes_per_second: float = 1e9
    cached_bytes_per_second: float = 1e10


def cost_of(f: Callable[..., Any], *args: Any) -> Cost:
    return estimate(quire.jit(f).lower(*args).program().request.program.jaxpr)


def lowered_cost(f: Callable[..., Any], *args: Any) -> Cost:
    return quire.jit(f).lower(*args).program().cost


def test_a_fusion_moves_what_goes_in_and_out() -> None:
    x = np.zeros((1000, 1000), np.float32)

    def chain(x: Any) -> Any:
        return qnp.sin(qnp.cos(x) + x) * 2 - x

    assert lowered_cost(chain, x).bytes == 2 * x.nbytes
    assert cost_of(chain, x).bytes > 4 * x.nbytes  # each equation for itself


def test_the_time_of_one_thread() -> None:
    a, b = np.zeros((100, 300), np.float32), np.zeros((300, 200), np.float32)
    product = cost_of(lambda a, b: a @ b, a, b)
    assert product.products == product.flops == 2 * 100 * 200 * 300
    assert product.seconds_of_one_thread(Fixed()) == pytest.approx(product.flops / (PRODUCTS * 1e9))
    elements = cost_of(lambda a: a + a, a)
    assert elements.products == 0
    assert elements.cached == elements.bytes == 3 * a.nbytes
    assert elements.seconds_of_one_thread(Fixed()) == pytest.approx(max(a.size / (OTHERS * 1e9), elements.bytes / 1e10))
    large = cost_of(lambda a: a + a, np.zeros(CACHE_BYTES // 4, np.float32))
    assert large.cached == 0 and large.bytes == 3 * CACHE_BYTES
    assert large.seconds_of_one_thread(Fixed()) == pytest.approx(large.bytes / 1e9)
    both = elements + product * 3
    assert both == Cost(elements.flops + 3 * product.flops, elements.bytes + 3 * product.bytes, 3 * product.flops,
                        elements.cached + 3 * product.cached)  # fmt: skip


def test_loops_multiply() -> None:
    x = np.zeros(1000, np.float32)
    once = cost_of(lambda x: qnp.sin(x), x)
    many = cost_of(lambda x: lax.fori_loop(0, 50, lambda _, c: qnp.sin(c), x), x)
    assert many.flops >= 50 * once.flops and many.cached >= 50 * once.bytes


def test_which_programs_run_on_the_calling_thread() -> None:
    from quire.backends.targets import get_target

    if get_target("cpu").workers < 2:
        pytest.skip("one processor")

    def one_thread(f: Callable[..., Any], *shapes: tuple[int, ...]) -> bool:
        return quire.jit(f).lower(*(np.zeros(s, np.float32) for s in shapes)).program().one_thread

    def markov(start: Any, moves: Any, seen: Any) -> Any:
        def step(alpha: Any, x: Any) -> Any:
            return quire.scipy.special.logsumexp(alpha[:, None] + moves, axis=0) + x, None

        return quire.scipy.special.logsumexp(lax.scan(step, start + seen[0], seen[1:])[0])

    # One kernel of one workgroup, and small arithmetic around it.
    assert one_thread(markov, (12,), (12, 12), (900, 12))
    assert one_thread(lambda x: x + 1, (100_000,))
    assert one_thread(lambda a, b: a @ b, (64, 64), (64, 64))
    assert not one_thread(lambda a, b: a @ b, (700, 700), (700, 700))

    def decoded(q: Any, keys: Any, values: Any, k: Any) -> Any:
        """Kernels of one workgroup each, which write into copies of large arguments."""
        keys = keys.at[:, qnp.argmax(q[0])].set(k)
        return qnp.einsum("ht,htd->hd", quire.nn.softmax(qnp.einsum("hd,htd->ht", q, keys)), values), keys

    assert not one_thread(decoded, (8, 64), (8, 512, 64), (8, 512, 64), (8, 64))
    assert not one_thread(lambda x: qnp.sin(x), (1_000_000,))
    assert not one_thread(lambda x: x + 1, (16_000_000,))
