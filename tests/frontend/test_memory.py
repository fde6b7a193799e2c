"""What a call allocates: seen in the addresses of its results, counted, and as `memory_analysis` tells it beforehand."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import quire
import quire.numpy as qnp
from quire import lax, tree_util
from quire.backends.plan import plan
from quire.backends.plan.parsing import parse
from quire.compiling.memory_analysis import planned_allocations
from quire.runtime import buffers

N = 503 * 1007  # no multiple of a vector's length
copied = quire.compile(lambda x: x + 0)


def on_device(tree: Any) -> Any:
    """Arrays whose memory NumPy has not seen: a program gets these very buffers."""
    return tree_util.tree_map(copied, tree)


def address(x: Any) -> int:
    """Where an array lies; NumPy does not keep what it sees here."""
    return buffers.to_numpy(x._view, x.device).ctypes.data


def adam(p, m, v, g):
    m = 0.9 * m + 0.1 * g
    v = 0.99 * v + 0.01 * g * g
    return p - 0.1 * m / (qnp.sqrt(v) + 1e-3), m, v


def gradients(w1, w2, x):
    def loss(ws):
        return qnp.mean(qnp.tanh(x @ ws[0]) @ ws[1]) + 1e-3 * qnp.sum(ws[0] ** 2)

    return quire.value_and_grad(loss)((w1, w2))


def step(w1, w2, x):
    """Each weight's update is the epilogue of a product: in place, the product would take the memory saved."""
    value, (g1, g2) = gradients(w1, w2, x)
    return w1 - 0.1 * g1, w2 - 0.1 * g2, value


def momentum(w1, w2, m1, m2, x):
    """Each weight is read by products that its own update does not need."""
    value, (g1, g2) = gradients(w1, w2, x)
    m1, m2 = 0.9 * m1 + g1, 0.9 * m2 + g2
    return w1 - 0.1 * m1, w2 - 0.1 * m2, m1, m2, value


@dataclass(frozen=True)
class Case:
    """A program; the number of the donated argument that each result lies in (None: new memory)."""

    f: Callable[..., Any]
    args: tuple[np.ndarray, ...]
    donated: int
    places: tuple[int | None, ...]


rng = np.random.default_rng(0)
A, B, C, D = (rng.standard_normal(N).astype(np.float32) for _ in range(4))
W1, W2, X = (rng.standard_normal(s).astype(np.float32) for s in ((503, 1007), (1007, 65), (64, 503)))
CASES = {
    "sgd": Case(lambda p, g: p - 0.1 * g, (A, B), 1, (0,)),
    "adam": Case(adam, (A, B, abs(C), D), 3, (0, 1, 2)),
    "other dtypes": Case(lambda p, q: (p + 1, q * 2 - 1), (A.astype(np.float16), B.astype(np.int32)), 2, (0, 1)),
    "not elementwise": Case(lambda p, q: p + p[::-1] * q, (A, B), 1, (None,)),
    "crossed": Case(lambda p, q: (q + 1, p * p), (A, B), 2, (1, 0)),
    "read too": Case(lambda p: (p - 1, p[::-1]), (A,), 1, (None, None)),
    "updated and read": Case(lambda p: (p.at[3].set(1.0), p * 2), (A,), 1, (None, None)),
    "loop": Case(lambda p: lax.fori_loop(0, 20, lambda i, c: c * 0.9 + 1, p), (A,), 1, (0,)),
    "scan": Case(lambda p: lax.scan(lambda c, x: (c + x, x), p, qnp.arange(5.0))[0], (A,), 1, (0,)),
    "loop of updates": Case(
        lambda p: lax.fori_loop(0, 20, lambda i, c: c.at[i * 3].set(c[i] + 1), p), (A,), 1, (0,)
    ),
    "at set": Case(lambda p: p.at[3].set(1.0), (A,), 1, (0,)),
    "at add": Case(lambda p, g: p.at[qnp.array([5, 5, 9])].add(g[:3]), (A, B), 1, (0,)),
    "slice": Case(lambda p, g: lax.dynamic_update_slice(p, g[:7], (11,)), (A, B), 1, (0,)),
    "step": Case(step, (W1, W2, X), 2, (None, None, None)),
    "momentum": Case(momentum, (W1, W2, W1, W2, X), 4, (0, 1, 2, 3, None)),
}  # fmt: skip


def all_cases(donated: dict[str, tuple[Any, ...]], kept: dict[str, tuple[Any, ...]]) -> dict[str, Any]:
    """The cases as one program."""
    return {name: case.f(*donated[name], *kept[name]) for name, case in CASES.items()}


DONATED = {name: case.args[: case.donated] for name, case in CASES.items()}
KEPT = {name: case.args[case.donated :] for name, case in CASES.items()}
donating = quire.compile(all_cases, donate_argnums=0)
keeping = quire.compile(all_cases)


def test_results_lie_in_donated_arguments():
    donated, kept = on_device(DONATED), on_device(KEPT)
    expected = keeping(donated, kept)
    addresses = tree_util.tree_map(address, donated)
    for results in expected.values():
        for x in results if isinstance(results, tuple) else (results,):
            assert address(x) not in tree_util.tree_leaves(addresses)
    # What is not donated stays.
    for x, host in zip(tree_util.tree_leaves((donated, kept)), tree_util.tree_leaves((DONATED, KEPT)), strict=True):
        np.testing.assert_array_equal(buffers.to_numpy(x._view, x.device), host)

    results = donating(donated, kept)
    for name, case in CASES.items():
        got, want = (r[name] if isinstance(r[name], tuple) else (r[name],) for r in (results, expected))
        found = tuple(addresses[name].index(a) if (a := address(x)) in addresses[name] else None for x in got)
        assert found == case.places, name
        for x, y in zip(got, want, strict=True):
            np.testing.assert_allclose(np.asarray(x), np.asarray(y), rtol=2e-6, atol=1e-5, err_msg=name)


def resident() -> tuple[int, int]:
    """Bytes of this process that are in memory, and the most that were since the last reset of the peak."""
    with open("/proc/self/status", encoding="ascii") as f:
        fields = dict(line.split(":", 1) for line in f)
    now, peak = (int(fields[name].split()[0]) * 1024 for name in ("VmRSS", "VmHWM"))
    return now, peak


def new_memory(f: Callable[..., Any], *args: Any) -> int:
    """The bytes that a call adds to those of the process at most."""
    with open("/proc/self/clear_refs", "w", encoding="ascii") as reset:
        reset.write("5")
    before = resident()[0]
    result = f(*args)
    count = resident()[1] - before
    del result
    return count


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is counted by /proc")
def test_the_plan_is_what_is_allocated():
    donated, kept = on_device(DONATED), on_device(KEPT)
    fresh = {}
    for name, f in (("kept", keeping), ("donated", donating)):
        plan = f.lower(DONATED, KEPT).compile().memory_analysis()
        assert plan.argument_size_in_bytes == sum(x.nbytes for x in tree_util.tree_leaves((DONATED, KEPT)))
        fresh[name] = plan.output_size_in_bytes - plan.alias_size_in_bytes
        placed = sum(
            case.args[i].nbytes for case in CASES.values() for i in case.places if i is not None and name == "donated"
        )
        assert placed - 4096 <= plan.alias_size_in_bytes <= placed
        assert plan.peak_memory_in_bytes >= plan.argument_size_in_bytes + plan.temp_size_in_bytes
    # IREE keeps what is freed: results are held until a call takes all of their memory from the system.
    gc.collect()
    held = []
    while new_memory(lambda *args: held.append(keeping(*args)), donated, kept) < 0.9 * fresh["kept"]:
        assert len(held) < 100, "calls that return new arrays take no memory"
    assert 0.9 * fresh["kept"] <= new_memory(keeping, donated, kept) < 1.1 * fresh["kept"]
    held.append(keeping(donated, kept))
    # Intermediate values that are larger than those of the other program are new, too.
    most = fresh["donated"] + plan.temp_size_in_bytes
    assert 0.9 * fresh["donated"] <= new_memory(donating, donated, kept) < 1.1 * most < 0.6 * fresh["kept"]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is counted by /proc")
def test_results_that_are_dropped_are_used_again():
    f = quire.compile(lambda x: x * 0.5 + 0.25)
    x = on_device(np.ones(1 << 20, np.float32))

    def hold(n: int) -> int:
        held = [f(x) for _ in range(n)]
        del held
        return resident()[0]

    first = hold(8)
    assert max(hold(8) for _ in range(6)) - first < 2 * x.nbytes  # IREE's own pool grew by 7 of 8 each time


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is counted by /proc")
def test_memory_of_results_is_counted_and_given_back():
    f = quire.compile(lambda x: x * 0.5 + 0.25)
    x = on_device(np.ones(1 << 20, np.float32))
    device = x.device
    result = f(x)
    device.trim()
    held = device.memory_stats()["bytes_in_use"]
    del result
    device.trim()
    assert device.memory_stats()["bytes_in_use"] == held - x.nbytes


def test_one_result_does_not_hold_the_memory_of_another():
    f = quire.compile(lambda x: (x * 0.5, x + 0.25))
    x = on_device(np.ones(1 << 20, np.float32))
    f(x)
    x.device.trim()
    before = x.device.memory_stats()["bytes_in_use"]
    second = f(x)[1]
    x.device.trim()
    assert x.device.memory_stats()["bytes_in_use"] == before + second.nbytes


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is counted by /proc")
@pytest.mark.parametrize("make", [lambda h: qnp.asarray(h), lambda h: qnp.asarray(h[:1]) + qnp.zeros_like(h)])
def test_an_argument_is_in_memory_once(make):
    host = np.ones(8 << 20, np.float32)
    x = make(host)
    f = quire.compile(lambda x: qnp.sum(x[:8]))
    f(x)  # compiled; x has been seen
    x = make(host)
    gc.collect()
    before = resident()[0]
    assert f(x) == 8
    gc.collect()
    assert resident()[0] - before < x.nbytes // 4
    np.testing.assert_array_equal(np.asarray(x), host)


def test_an_address_stays_when_a_compiled_function_takes_the_array():
    for x in (qnp.ones(1 << 16) + 1, qnp.asarray(np.ones(1 << 16)), qnp.ones(3) + 1):
        before = x.unsafe_buffer_pointer()
        seen = np.asarray(x)
        quire.compile(lambda x: x * 2)(x)
        assert x.unsafe_buffer_pointer() == before
        np.testing.assert_array_equal(np.asarray(x), seen)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_what_numpy_has_seen_outlives_the_array(dtype):
    for x in (qnp.asarray(np.full(1 << 18, 2.0)), qnp.ones((512, 512)).T + 1, qnp.ones((512, 512)).T * 2):
        x = x.astype(dtype)
        seen = np.asarray(x)
        assert not seen.flags.writeable
        x.delete()
        gc.collect()
        others = [np.full(x.shape, 7, seen.dtype) for _ in range(4)]  # would take the memory if it were free
        assert (seen == 2).all() and len(others) == 4


def test_what_numpy_has_seen_is_kept_when_the_array_is_donated():
    x = qnp.ones(1 << 16) + 1
    seen = np.asarray(x)
    quire.compile(lambda x: x * 2)(x)  # from now on the elements are in memory of the device
    quire.compile(lambda x: x.at[0].set(7.0), donate_argnums=0)(x)
    assert (seen == 2).all()


def test_an_array_given_twice_is_not_overwritten():
    f = quire.compile(lambda p, q: (p * 2.0, q.at[0].set(p[1])), donate_argnums=(0, 1))
    x = on_device(A)
    twice, placed = f(x, x)
    np.testing.assert_array_equal(np.asarray(twice), A * 2)
    assert placed[0] == A[1]


def test_waiting_does_not_hinder_donation():
    x = on_device(A)
    assert x.block_until_ready() is x
    assert x._host is None


def test_the_allocations_of_a_plan():
    text = """plan @main
  buffer constant0: constant, 3072 bytes
  transient: 0 bytes, 0 at least
  give constant0[0:3072]

plan @main
  buffer arg0: argument, 64 bytes
  buffer result0: result, 64 bytes
  buffer result1: result, 8 bytes
  buffer transient: transient, 192 bytes
  transient: 192 bytes, 128 at least
"""
    found = planned_allocations(text, 1)
    assert (found.results, found.temporaries, found.reused, found.reused_bytes) == (72, 192, (), 0)
    more = """  buffer arg1: argument, 24 bytes
  buffer alternating3: alternating, 300 bytes
  buffer alternating4: alternating, 300 bytes
  buffer scalar1: staging, 1 bytes
  transient: 192 bytes, 128 at least
  give arg0[0:64] as result2
  give arg1[0:24] as result3
  give result0[0:64]
"""
    found = planned_allocations(text.replace("  transient: 192 bytes, 128 at least\n", more), 1)
    # Two places of 300 bytes, aligned to 256, and 16 bytes for a scalar. arg1 is no argument of the program's own.
    assert (found.results, found.temporaries, found.reused, found.reused_bytes) == (72, 192 + 1024 + 16, (0,), 64)
    assert planned_allocations("", 1).temporaries == 0


def test_the_plans_of_real_programs_are_read_back():
    kinds: set[str] = set()
    for f, args in ((keeping, (DONATED, KEPT)), (donating, (DONATED, KEPT)), (quire.compile(counted_loop), (S, 3))):
        text = f.lower(*args).as_text("plan")
        assert "test_memory.py:" in text
        read = parse(text)
        assert "\n".join(plan.text(p) for p in read).strip() == text.strip()
        kinds.update(s.kind for p in read for s in plan.walk(p.steps))
    assert kinds == {"new", "dispatch", "copy", "fill", "give", "load", "loop"}


def counted_loop(x, n):
    """The host reads a scalar."""

    def body(c):
        y, k = c
        return qnp.sort(qnp.fft.rfft(y).real[:8].repeat(2)) + y, k + 1

    return lax.while_loop(lambda c: c[1] < n, body, (x[:16], 0))


S = np.linspace(-1, 1, 1024, dtype=np.float32)
ALLOCATING = {
    "intermediate values": (lambda x: qnp.sum(qnp.cumsum(qnp.sort(x))[::-1] * qnp.sort(x)), (S,), ()),
    "scalars": (counted_loop, (S, np.int32(3)), ()),
    "several results": (lambda x: (x * 2, qnp.sum(x), x[::-1]), (S,), ()),
    "a large result": (lambda x: (qnp.tile(x, 32), x[3]), (S,), ()),
    "returned unchanged": (lambda x: (x, x + 1, qnp.transpose(x.reshape(2, -1))), (S,), ()),
    "donated": (lambda x, y: (x * 2 + y[3], qnp.sum(y)), (np.tile(S, 8), S), (0,)),
    "donated in a loop": (lambda x: lax.fori_loop(0, 5, lambda i, c: c.at[i].set(c[i + 1] * 2), x), (S,), (0,)),
    "callbacks": (lambda x: quire.pure_callback(np.negative, quire.ShapeDtypeStruct((1024,), "float32"), qnp.sort(x)) + x, (S,), ()),
    "donated in vain": (lambda x: (x - 1, x[::-1]), (S,), (0,)),
}  # fmt: skip


@pytest.mark.parametrize("name", ALLOCATING)
def test_the_analysis_is_what_the_runtime_counts(name):
    """Programs as short as these run in the calling thread, where each allocation is one of the device's allocator.

    Only scalars that decide a loop lie on its stack.
    """
    f, args, donated = ALLOCATING[name]
    compiled = quire.compile(f, donate_argnums=donated).lower(*args).compile()
    x = on_device(args)
    device = x[0].device
    memory = compiled.memory_analysis()
    gc.collect()
    device.trim()  # what is kept for later calls is not counted when it is taken
    before = device.memory_stats()["total_bytes_allocated"]
    result = compiled(*x)
    counted = device.memory_stats()["total_bytes_allocated"] - before
    new = memory.output_size_in_bytes - memory.alias_size_in_bytes
    on_stack = plan.STAGED if name == "scalars" else 0
    assert counted == new + memory.temp_size_in_bytes - on_stack
    assert sum(a.nbytes for a in tree_util.tree_leaves(result)) == memory.output_size_in_bytes
    aliased = {"returned unchanged": S.nbytes, "donated": 8 * S.nbytes, "donated in a loop": S.nbytes}
    assert memory.alias_size_in_bytes == aliased.get(name, 0)
