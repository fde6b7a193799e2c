"""Programs on a Vulkan device: Mesa's software driver where it is installed (package mesa-vulkan-drivers).

Each dtype's programs are one module, compared with the reference backend.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import quire as qr
import quire.numpy as qnp
from quire.ir import dtypes
from quire.ir.errors import UnsupportedError
from quire.tools.fuzz import cli


def _device() -> Any | None:
    try:
        found = qr.devices("vulkan")
    except (RuntimeError, ValueError):
        return None
    return found[0] if found else None


pytestmark = [
    pytest.mark.vulkan,
    pytest.mark.skipif(_device() is None, reason="no Vulkan driver (Debian and Ubuntu: mesa-vulkan-drivers)"),
]

FLOATS = ("float32", "float16", "bfloat16")
INTEGERS = ("int8", "int16", "int32", "uint8", "uint16", "uint32")
WIDE = ("int64", "uint64", "float64")

Program = Callable[[Any, Any], Any]

# Each dispatch takes the driver about 0.2 s to compile, so most dtypes run some of the programs.
SOME = ("add", "where", "sum of axis 0", "gather", "set", "transpose")

ANY: dict[str, Program] = {
    "add": lambda x, y: x + y,
    "multiply": lambda x, y: x * y,
    "subtract": lambda x, y: x - y,
    "where": lambda x, y: qnp.where(x > y, x, y),
    "compare": lambda x, y: (x == y) | (x < y),
    "transpose": lambda x, y: x.T,
    "concatenate": lambda x, y: qnp.concatenate([x, y], axis=1),
    "slice": lambda x, y: x[1:, ::2],
    "sum of axis 0": lambda x, y: qnp.sum(x, axis=0),
    "max of axis 1": lambda x, y: qnp.max(x, axis=1),
    "broadcast": lambda x, y: x[0] + y,
    "gather": lambda x, y: x[np.array([2, 0, 2])],
    "set": lambda x, y: x.at[1].set(y[0]),
}
SHORT = {name: ANY[name] for name in SOME}
OF_FLOATS: dict[str, Program] = {
    "divide": lambda x, y: x / (y + 3),
    "exp": lambda x, y: qnp.exp(x * y / 8),
    "tanh": lambda x, y: qnp.tanh(x),
    "sin": lambda x, y: qnp.sin(x),
    "sqrt": lambda x, y: qnp.sqrt(y),
    "mean": lambda x, y: qnp.mean(x, axis=1),
    "to int32": lambda x, y: x.astype("int32"),
}
OF_INTEGERS: dict[str, Program] = {
    "floor divide": lambda x, y: x // (y + 1),
    "remainder": lambda x, y: x % (y + 1),
    "and": lambda x, y: x & y,
    "shift": lambda x, y: x << (y % 4),
    "to float32": lambda x, y: x.astype("float32") / 3,
}
OF_COMPLEX: dict[str, Program] = {
    "add": lambda x, y: x + y,
    "multiply": lambda x, y: x * y,
    "conjugate": lambda x, y: qnp.conj(x) - y,
    "parts": lambda x, y: qnp.real(x) * qnp.imag(y),
    "sum": lambda x, y: qnp.sum(x, axis=1),
}


def _operands(dtype: str) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    rng = np.random.default_rng(0)
    kind = dtypes.as_dtype(dtype)
    x, y = rng.integers(0, 7, (2, 3, 5))
    if dtype.startswith("complex"):
        return (x + 1j * y).astype(kind), (y - 2j * x).astype(kind)
    return x.astype(kind), y.astype(kind)


def _check(programs: dict[str, Program], dtype: str) -> None:
    x, y = _operands(dtype)

    def every(x: Any, y: Any) -> dict[str, Any]:
        return {name: program(x, y) for name, program in programs.items()}

    got = qr.compile(every, backend="vulkan")(x, y)
    expected = every(qnp.asarray(x), qnp.asarray(y))
    coarse = {"float16": 4e-3, "bfloat16": 3e-2}.get(dtype, 2e-5)
    for name in programs:
        a, b = np.asarray(got[name]), np.asarray(expected[name])
        assert (a.dtype, a.shape) == (b.dtype, b.shape), name
        if b.dtype.kind in "biu":
            np.testing.assert_array_equal(a, b, err_msg=f"{name} of {dtype}")
        else:
            wide = np.complex64 if b.dtype.kind == "c" else np.float64
            np.testing.assert_allclose(a.astype(wide), b.astype(wide), coarse, coarse, err_msg=f"{name} of {dtype}")


@pytest.mark.parametrize("dtype", FLOATS)
def test_floats(dtype: str) -> None:
    _check((ANY if dtype == "float32" else SHORT) | OF_FLOATS, dtype)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers(dtype: str) -> None:
    _check((ANY if dtype == "int32" else SHORT) | OF_INTEGERS, dtype)


@pytest.mark.parametrize("dtype", WIDE)
def test_64_bit_dtypes(dtype: str) -> None:
    with qr.config.override(enable_x64=True):
        _check(SHORT | (OF_INTEGERS if "int" in dtype else {"divide": OF_FLOATS["divide"]}), dtype)


EDGES = np.array([1e30, np.inf, -np.inf, np.nan, 1, -1, -0.0, 0.0, 3], np.float32)

# What drivers take for 0, 1, x or |x| where numbers are real: they are not where they are NaN, infinite or signed zeros.
NOT_REAL: dict[str, Callable[[Any], Any]] = {
    "x * 0": lambda x: x * 0,
    "x * -0": lambda x: x * -0.0,
    "0 * x + 1": lambda x: 0 * x + 1,
    "abs(x) * 0": lambda x: qnp.abs(x) * 0.0,
    "exp(x) * 0": lambda x: qnp.exp(x) * 0,
    "element * 0": lambda x: x[3] * 0,
    "isnan(x * 0)": lambda x: qnp.isnan(x * 0),
    "1 / (x * 0)": lambda x: 1 / (x * 0),
    "where * x": lambda x: qnp.where(x > 0, x, 0.0) * x,
    "sum(x * 0)": lambda x: qnp.sum(x * 0),
    "max(x * 0 + 1)": lambda x: qnp.max(x * 0 + 1),
    "x - x": lambda x: x - x,
    "x + x - x": lambda x: x + x - x,
    "x * x - x * x": lambda x: x * x - x * x,
    "log(x) - log(x)": lambda x: qnp.log(x) - qnp.log(x),
    "sign(x - x)": lambda x: qnp.sign(x - x),
    "where finite": lambda x: qnp.where(x - x == 0, x, 7.0),
    "0 - x": lambda x: 0.0 - x,
    "abs(0 - x)": lambda x: qnp.abs(0.0 - x),
    "signbit(0 - x)": lambda x: qnp.signbit(0.0 - x),
    "x + 0": lambda x: x + 0.0,
    "x / 0": lambda x: x / 0.0,
    "0 / x": lambda x: 0.0 / x,
    "x / x": lambda x: x / x,
    "1 / (1 / x)": lambda x: 1 / (1 / x),
    "x * x / x": lambda x: x * x / x,
    "sqrt(x) ** 2": lambda x: qnp.sqrt(x) ** 2,
    "rsqrt(x) * rsqrt(x)": lambda x: qr.lax.rsqrt(x) * qr.lax.rsqrt(x),
    "not x < 0": lambda x: ~(x < 0),
    "loop from 0": lambda x: qr.lax.fori_loop(0, 3, lambda _, a: a * x + 1, qnp.zeros_like(x)),
}


@pytest.mark.parametrize("dtype", FLOATS)
def test_floats_are_not_taken_for_real_numbers(dtype: str) -> None:
    programs = dict(NOT_REAL)
    programs["vector with zeros"] = lambda x: x[:8].reshape(2, 4) * np.array([0, -0.0, 1, 2], x.dtype)
    with np.errstate(over="ignore"):
        x = EDGES.astype(dtypes.as_dtype(dtype))

    def every(x: Any) -> dict[str, Any]:
        return {name: program(x) for name, program in programs.items()}

    got, expected = qr.compile(every, backend="vulkan")(x), qr.compile(every, backend="cpu")(x)
    for name in programs:
        a, b = (np.asarray(result[name]).astype(np.float64) for result in (got, expected))
        np.testing.assert_array_equal(a, b, err_msg=f"{name} of {dtype}")
        numbers = ~np.isnan(b)
        np.testing.assert_array_equal(
            np.signbit(a)[numbers], np.signbit(b)[numbers], err_msg=f"signs of {name} of {dtype}"
        )


REDUCTIONS: dict[str, Program] = {
    "sum": lambda x, y: qnp.sum(x),
    "sum of axis 0": lambda x, y: qnp.sum(x, axis=0),
    "sum of axis 1": lambda x, y: qnp.sum(x, axis=1),
    "var": lambda x, y: qnp.var(x, axis=1),
    "max": lambda x, y: qnp.max(x),
    "min of axis 1": lambda x, y: qnp.min(x, axis=1),
    "norm": lambda x, y: qnp.linalg.norm(x),
    "product with a vector": lambda x, y: x @ y[0],
    "softmax": lambda x, y: qr.nn.softmax(x),
    "attention": lambda x, y: qr.nn.softmax(x @ y.T) @ y,
    # Positions and a reduction in one dispatch, into another reduction.
    "positions": lambda x, y: qnp.sum(qnp.arange(96) * (x - qnp.sum(x, 1, keepdims=True)) / 96, 1),
    "triangle": lambda x, y: qnp.sum(qnp.tril(qr.nn.softmax(x)), 1),
}


def test_reductions_of_several_subgroups() -> None:
    """Arrays so large that a workgroup has several subgroups: with another size than the device's they are wrong."""
    x, y = np.random.default_rng(0).standard_normal((2, 64, 96)).astype(np.float32)
    got = qr.compile(lambda x, y: {name: f(x, y) for name, f in REDUCTIONS.items()}, backend="vulkan")(x, y)
    for name, f in REDUCTIONS.items():
        np.testing.assert_allclose(
            np.asarray(got[name]), np.asarray(f(qnp.asarray(x), qnp.asarray(y))), 1e-4, 1e-4, err_msg=name
        )


def test_remainders_of_the_least_integers_and_leading_zeros() -> None:
    """IREE's remainder in SPIR-V is of magnitudes, of which the least integer has none; its leading zeros are of 32 bits."""
    numbers = [
        np.array([np.iinfo(d).min, np.iinfo(d).min + 1, -7, 0, 3, np.iinfo(d).max], d) for d in ("i1", "i2", "i4", "i8")
    ]
    unsigned = [x.view(d) for x, d in zip(numbers, ("u1", "u2", "u4", "u8"))]

    def f(signed: list[Any], unsigned: list[Any]) -> Any:
        signed, unsigned = ([qnp.asarray(x) for x in xs] for xs in (signed, unsigned))
        rests = [(qnp.fmod(x[:, None], x), x[:, None] % x, x[:, None] // x) for x in signed]
        # In a kernel of quire's own.
        kernel = qr.lax.fori_loop(0, 3, lambda i, c: qr.lax.rem(c, np.int32(-7)) + c, signed[2])
        return rests, kernel, [qr.lax.clz(x) for x in (*signed, *unsigned)]

    with qr.enable_x64(True):
        got = qr.compile(f, backend="vulkan")(numbers, unsigned)
        with qr.disable_jit():
            wanted = f(numbers, unsigned)
    for x, y in zip(qr.tree_util.tree_leaves(got), qr.tree_util.tree_leaves(wanted), strict=True):
        np.testing.assert_array_equal(x, y)


def test_reductions_read_along_two_loops() -> None:
    """In one dispatch with what reads them so they are wrong on GPUs too."""
    x = np.random.default_rng(0).standard_normal((12, 7)).astype(np.float32)

    def f(x: Any) -> list[Any]:
        s, m = qnp.sum(x, 1), x[:7] * qnp.sum(x[:7], 0)
        return [s - s[:, None], qnp.outer(s, s), m * qnp.max(m, 0)[:, None], s[:, None] * qnp.pad(s, (1, 0))[1:]]

    for got, want in zip(qr.compile(f, backend="vulkan")(x), f(qnp.asarray(x)), strict=True):
        np.testing.assert_allclose(np.asarray(got), np.asarray(want), 1e-5, 1e-5)


@pytest.mark.parametrize("shape", [(5, 33), (64, 65), (5, 33, 7)], ids=str)
def test_what_other_threads_compute_is_not_read(shape: tuple[int, ...]) -> None:
    """Threads that share a dispatch do not wait for each other: what one reads it has written itself."""
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)

    def along(x: Any, axis: int) -> list[Any]:
        y = qnp.exp(x / 4)
        s = qnp.sum(x, axis, keepdims=True)
        return [qnp.max(x, axis, keepdims=True) * 0.5 + x * x, s + x, y / (1 + qnp.sum(y, axis, keepdims=True)) - s]

    def f(x: Any) -> list[Any]:
        square = qnp.exp(x @ qnp.swapaxes(x, -1, -2) / 8)
        return [*(y for axis in range(x.ndim) for y in along(x, axis)), square + qnp.swapaxes(square, -1, -2)]

    compiled = qr.compile(f, backend="vulkan")
    for _ in range(2):
        for got, want in zip(compiled(x), f(qnp.asarray(x)), strict=True):
            np.testing.assert_allclose(np.asarray(got), np.asarray(want), 1e-5, 1e-5)


def test_copies_write_into_the_arrays_of_their_own_call() -> None:
    """Recorded commands that were executed again copied between the arrays of the first call."""

    def f(x: Any, y: Any) -> list[Any]:
        return [qnp.concatenate([x, y, x]), qnp.zeros(7).at[2:5].set(y), qnp.tile(x, 2)]

    compiled, kept = qr.compile(f, backend="vulkan"), list[tuple[list[Any], list[Any]]]()
    for k in range(4):
        x, y = (np.arange(3, dtype=np.float32) + 10 * k + i for i in range(2))
        kept.append((compiled(x, y), f(qnp.asarray(x), qnp.asarray(y))))
    for got, want in kept:
        for a, b in zip(got, want, strict=True):
            np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


def test_a_family_with_subgroups_of_another_size_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    device = _device()
    assert device is not None
    sizes = device.target.device_targets
    if sizes is None or "subgroup_size_choices = [8]" not in sizes:
        pytest.skip(f"{device.device_kind} has subgroups of another size than the software driver's")
    monkeypatch.setenv("QUIRE_VULKAN_TARGET", "ampere")
    with pytest.raises(
        UnsupportedError, match="QUIRE_VULKAN_TARGET=ampere: its programs need subgroups of 32 lanes, and .* has 8"
    ):
        qr.compile(lambda x: x * 5, backend="vulkan")(np.ones(3, np.float32))


def test_complex64() -> None:
    _check(OF_COMPLEX, "complex64")


def test_bool() -> None:
    programs: dict[str, Program] = {
        "and": lambda x, y: x & y,
        "xor": lambda x, y: x ^ y,
        "not": lambda x, y: ~x,
        "any": lambda x, y: qnp.any(x, axis=0),
        "to int32": lambda x, y: x.astype("int32") + y,
    }
    _check(programs, "bool")


def test_a_program_runs_where_its_arguments_are() -> None:
    device = _device()
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    a = qr.device_put(x, device)
    assert a.devices() == {device}
    out = qr.compile(lambda x: x * 2 + 1)(a)
    assert out.devices() == {device}
    np.testing.assert_array_equal(np.asarray(out), x * 2 + 1)
    back = qr.device_put(out, qr.devices("cpu")[0])
    assert back.devices() == {qr.devices("cpu")[0]}
    np.testing.assert_array_equal(np.asarray(back), x * 2 + 1)


def test_eager_operations_run_on_the_device() -> None:
    device = _device()
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    a = qr.device_put(x, device)
    for got, expected in ((a + a, x + x), (a * 2.0, x * 2), (qnp.sum(a, axis=0), x.sum(0)), (a[1], x[1])):
        assert got.devices() == {device}
        np.testing.assert_array_equal(np.asarray(got), expected)


def test_loops() -> None:
    def newton(x: Any) -> Any:
        return qr.lax.fori_loop(0, 8, lambda _, r: 0.5 * (r + x / r), x)

    x = np.array([1, 4, 9, 2], np.float32)
    got = qr.compile(newton, backend="vulkan")(x)
    np.testing.assert_allclose(np.asarray(got), np.sqrt(x), rtol=1e-5)


def test_what_the_target_cannot_do_names_the_users_line() -> None:
    def f(x: Any) -> Any:
        return qnp.exp(x)  # the line

    line = f.__code__.co_firstlineno + 1
    with qr.config.override(enable_x64=True):
        with pytest.raises(UnsupportedError) as error:
            qr.compile(f, backend="vulkan")(np.ones(3))
        text = str(error.value)
        assert text.startswith("exp: target vulkan cannot do it on float64") and f"test_vulkan.py:{line}" in text
        with pytest.raises(UnsupportedError, match=r"cannot do dtype complex128 .*test_vulkan.py:\d+.*128-bit"):
            qr.compile(lambda x: x + x, backend="vulkan")(np.ones(3, np.complex128))


def test_random_programs(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUIRE_PLATFORM", "")  # what --platform sets is taken back
    options = ["--platform", "vulkan", "--no-jax", "--batch", "1", "--no-reduce", "--jobs", "2"]
    status = cli.main([*options, "--seed", "41000000", "--count", "16"])
    assert status == 0, capsys.readouterr().out[-8000:]


def test_more_scalars_than_the_device_has_storage_buffers_for() -> None:
    x = np.arange(3, dtype=np.float32)
    got = qr.compile(lambda x: qnp.stack([x[i % 2] * i for i in range(70)]), backend="vulkan")(x)
    np.testing.assert_array_equal(np.asarray(got), [x[i % 2] * i for i in range(70)])


def test_scatters_sorts_and_transforms_in_programs() -> None:
    """Operands that are read again and written in loops, derivatives, lanes; compared with the CPU, and called twice."""
    rng = np.random.default_rng(0)
    x, u = (rng.integers(-9, 10, n).astype(np.float32) for n in (400, 3000))
    i = rng.integers(-5, 405, 3000).astype(np.int32)
    rows = rng.integers(-9, 10, (3, 400)).astype(np.float32)

    def f(x: Any, i: Any, u: Any, rows: Any) -> list[Any]:
        added = x.at[i].add(u)
        return [
            x, added, x.at[i].set(1.0) + added, added.at[3].max(x[:1][0]),
            qr.lax.fori_loop(0, 3, lambda k, y: y.at[i].add(u * k), x),
            qr.grad(lambda x: (x[i % 400] * u).sum())(x),
            qr.vmap(lambda r: r.at[i[:50]].min(u[:50]))(rows),
            qr.ops.segment_sum(u.astype("int8"), i, 400), qnp.argsort(u), qnp.sort(qnp.round(qnp.tile(u, 30) / 2)),
        ]  # fmt: skip

    def transforms(rows: Any) -> list[Any]:
        z = qnp.fft.fft(rows)
        return [qnp.fft.ifft(z * z).real, qnp.fft.irfft(qnp.fft.rfft(rows, axis=0), n=3, axis=0),
                qr.grad(lambda r: (qnp.abs(qnp.fft.rfft(r)) ** 2).sum())(rows)]  # fmt: skip

    compiled, twice = qr.compile(f, backend="vulkan"), qr.compile(transforms, backend="vulkan")
    wanted = qr.compile(f, backend="cpu")(x, i, u, rows)
    for _ in range(2):
        for got, want in zip(compiled(x, i, u, rows), wanted, strict=True):
            np.testing.assert_array_equal(
                np.asarray(got), np.asarray(want)
            )  # whole numbers: any order of sums is exact
    for got, want in zip(twice(rows), qr.compile(transforms, backend="cpu")(rows), strict=True):
        np.testing.assert_allclose(np.asarray(got), np.asarray(want), atol=1e-5 * np.abs(np.asarray(want)).max())
