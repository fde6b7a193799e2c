"""What the host does between kernels as a function beside them (backends/iree/native_host.py): programs of the calling thread."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import quire
import quire.numpy as qnp
from quire import lax, tree_util
from quire.backends import reference
from quire.backends.iree import compile_service
from quire.compiling.building import compile_flags

X = np.sin(np.arange(24, dtype=np.float32) * 3)
WIDE = np.cos(np.arange(600, dtype=np.float32)).reshape(20, 30)


def sorted_turns(x: Any, n: Any) -> Any:
    """A while whose end the host reads, and whose carries exchange memory."""
    return lax.while_loop(lambda c: c[1] < n, lambda c: (qnp.sort(c[0])[::-1] * 1.1 + c[0], c[1] + 1), (x, 0))


def data_decides(x: Any) -> Any:
    """The predicate is computed by kernels."""
    return lax.while_loop(lambda c: qnp.sum(qnp.sort(c)[:3]) > -40, lambda c: qnp.sort(c)[::-1] - qnp.abs(c) * 0.3, x)


def stacked(x: Any) -> Any:
    """Each turn writes and reads at another place."""
    return lax.scan(lambda c, t: ((y := qnp.sort(c + t)[::-1]), (y.sum(), y[:3])), x, qnp.arange(7.0))


def nested(x: Any) -> Any:
    """A loop in a loop, and a branch in both."""

    def inner(i: Any, c: Any) -> Any:
        return lax.cond(c[0] > c[-1], lambda v: qnp.sort(v), lambda v: qnp.cumsum(qnp.sort(v))[::-1] * 0.1, c)

    return lax.fori_loop(0, 5, lambda i, c: lax.fori_loop(0, i + 1, inner, c) + 1, x)


def chosen(x: Any, k: Any) -> Any:
    """One of several branches; what none of them computes goes on."""
    branches = [lambda v: qnp.sort(v), lambda v: qnp.cumsum(v), lambda v: qnp.sort(-v)[::-1], lambda v: v * 0]
    return lax.switch(k, branches, x), x


def filled(x: Any) -> Any:
    """Fills of every width, within a loop and before it."""
    kinds = ("int8", "bool", "float16", "float32", "uint16", "complex64")
    many = tuple(qnp.full((21,), 3, k) for k in kinds)

    def body(i: Any, c: Any) -> Any:
        y, *rest = c
        return (qnp.sort(y)[::-1] + i, *(lax.dynamic_update_slice(r, qnp.zeros((2,), r.dtype), (i * 3,)) for r in rest))

    return lax.fori_loop(0, 4, body, (x, *many))


def many_groups(x: Any) -> Any:
    """Kernels of several workgroups along several dimensions."""
    return lax.fori_loop(0, 3, lambda i, c: qnp.sort(c.T @ c, 0)[:20] * 0.001 + qnp.roll(c, i, 1)[:, :1], x)


def spectral(x: Any) -> Any:
    """Constants (factors of the transform) that a loop reads."""

    def body(i: Any, c: Any) -> Any:
        return qnp.fft.irfft(qnp.fft.rfft(qnp.sort(c)) * 0.9, 24) + c[::-1]

    return lax.fori_loop(0, 6, body, x)


def straight(x: Any) -> Any:
    """No loop, but many kernels."""
    for k in range(5):
        x = qnp.cumsum(qnp.sort(x)[::-1]) * 0.5 + k
    return x, qnp.argsort(x)


def gradient(x: Any) -> Any:
    """Of a loop: the residuals are stacked, and read again backwards; the initial value is read twice."""

    def loss(v: Any) -> Any:
        last, sums = lax.scan(lambda c, t: (qnp.sort(c * t)[::-1] + v, qnp.cumsum(c)[-1]), v, qnp.linspace(0.5, 1.5, 5))
        return qnp.sum(last * v) + qnp.sum(sums**2)

    return quire.value_and_grad(loss)(x)


def narrow(x: Any) -> Any:
    """Carries of few bytes; a bfloat16 decides."""

    def body(c: Any) -> Any:
        h, k, found = c
        return qnp.sort(h)[::-1] + h[0], k + 3, found ^ (k[:1] > 20)

    start = (x.astype("bfloat16"), qnp.arange(5, dtype="int8"), qnp.zeros(1, bool))
    return lax.while_loop(lambda c: (c[0][0] < 30) & (qnp.sort(c[1])[0] < 100), body, start)


def donating(x: Any) -> Any:
    """The caller's memory is written."""
    return lax.fori_loop(0, 4, lambda i, c: c.at[i].set(qnp.sort(c)[i + 1]), x)


NATIVE: dict[str, tuple[Any, tuple[Any, ...]]] = {
    f"{f.__name__} {k}": (f, args)
    for k, (f, args) in enumerate((
        (sorted_turns, (X, np.int32(5))), (sorted_turns, (X, np.int32(0))), (data_decides, (X,)), (stacked, (X,)), (nested, (X,)),
        (chosen, (X, np.int32(2))), (filled, (X,)), (many_groups, (WIDE,)), (spectral, (X,)), (straight, (X,)), (gradient, (X,)), (narrow, (X,)),
    ))
}  # fmt: skip


def compiled(f: Any, args: tuple[Any, ...], **options: Any) -> tuple[Any, Any, str]:
    """The program as it runs, what the compiler gave, and why the host keeps its part (empty: it does not)."""
    lowered = quire.compile(f, **options).lower(*args).program()
    flags = compile_flags(lowered.request.target)
    output = compile_service().compile(lowered.module.bytecode(), flags, trusted=True, one_thread=True)
    said = [text.rpartition("host: ")[2] for kind, text in output.diagnostics if kind == "remark"]
    return lowered, output, said[0] if said else ""


@pytest.mark.parametrize("name", NATIVE)
def test_it_is_what_the_host_would_do(name):
    f, args = NATIVE[name]
    lowered, output, reason = compiled(f, args)
    assert not reason
    assert b"main_host" in output.vmfb
    program = quire.compile(f)
    want = reference.eval_jaxpr(quire.make_jaxpr(f)(*args), *args)
    for _ in range(3):
        got = [np.asarray(x) for x in tree_util.tree_leaves(program(*args))]
        for x, y in zip(got, want, strict=True):
            np.testing.assert_allclose(x, y, rtol=2e-4, atol=2e-4)
    assert lowered.one_thread


def test_donated_arguments_are_written():
    x = quire.device_put(X.copy())
    want = reference.eval_jaxpr(quire.make_jaxpr(donating)(X), X)[0]
    _, _, reason = compiled(donating, (X,), donate_argnums=0)
    assert not reason
    got = quire.compile(donating, donate_argnums=0)(x)
    assert x.is_deleted()
    np.testing.assert_allclose(np.asarray(got), want)


def test_a_program_in_several_threads():
    """Scalars and structures are on the stack of each call."""
    from concurrent.futures import ThreadPoolExecutor

    program = quire.compile(sorted_turns)
    inputs = [X * k for k in range(1, 9)]
    want = [np.asarray(program(x, 5)[0]) for x in inputs]
    with ThreadPoolExecutor(8) as pool:
        for _ in range(10):
            for x, y in zip(pool.map(lambda x: np.asarray(program(x, 5)[0]), inputs), want, strict=True):
                np.testing.assert_array_equal(x, y)


def many_buffers(*xs: Any) -> Any:
    return lax.fori_loop(0, 3, lambda i, c: tuple(qnp.sort(v)[::-1] + i for v in c), xs)


def calling(x: Any) -> Any:
    return lax.fori_loop(
        0, 3, lambda i, c: quire.pure_callback(np.sort, quire.ShapeDtypeStruct((24,), "float32"), c) + i, x
    )


STAYING = {
    "less than it would take": (lambda x: qnp.cumsum(qnp.sort(x)), (X,)),
    "buffers": (many_buffers, tuple(X + k for k in range(20))),
    "within the program": (calling, (X,)),
}


@pytest.mark.parametrize("why", STAYING)
def test_what_stays_with_the_host(why):
    f, args = STAYING[why]
    _, output, reason = compiled(f, args)
    assert b"main_host" not in output.vmfb
    assert why in reason
    for x, y in zip(
        tree_util.tree_leaves(quire.compile(f)(*args)),
        reference.eval_jaxpr(quire.make_jaxpr(f)(*args), *args),
        strict=True,
    ):
        np.testing.assert_allclose(np.asarray(x), y, rtol=1e-5)


def test_the_structures_are_irees():
    """`native_launcher.TEXT` stores their fields at places of its own counting."""
    folder = Path(reference.__file__).parents[1] / "iree"
    sys.path.insert(0, str(folder))
    try:
        import native_launcher
    finally:
        sys.path.remove(str(folder))
    lowered = quire.compile(lambda x: qnp.sort(x) + 1).lower(X).program()
    flags = compile_flags(lowered.request.target)
    output = compile_service().compile(lowered.module.bytecode(), flags, phase="executable-targets")
    assert output.text is not None
    assert native_launcher.STATE in output.text
    assert native_launcher.GROUP in output.text or "workgroup_state" not in output.text


def test_of_loops_on_the_host_a_turn_counts():
    """Waking other threads in each turn would take longer than what they would do."""

    def turns(n: int) -> Any:
        return lambda x: lax.fori_loop(0, n, lambda i, c: qnp.fft.irfft(qnp.fft.rfft(c) * 0.5) + qnp.sort(c), x)

    def one_thread(f: Any, *args: Any) -> bool:
        return quire.compile(f).lower(*args).program().one_thread

    small, large = np.ones(1024, np.float32), np.ones((1 << 18,), np.float32)
    assert one_thread(turns(10_000), small)
    assert not one_thread(turns(10), large)
    # A loop that is one kernel counts whole: its lanes are shared among threads.
    assert not one_thread(lambda x: lax.fori_loop(0, 10_000, lambda i, c: qnp.sin(c) + 1, x), np.ones(4096, np.float32))
