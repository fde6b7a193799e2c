"""What is measured on a device beside the functions: products against the peak, bandwidth, loops, scans, scatters, sums."""

from __future__ import annotations

import importlib.util
import re
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

import numpy as np

from .surface import Numbers

Unit = Literal["flop", "byte", "step", "element"]
CALLS = 7


@dataclass(frozen=True)
class Measure:
    """A computation in three libraries.

    Attributes:
        of: given the module of quire or JAX, the function.
        torch: the same function, of torch's module and tensors.
        numbers: its arguments.
        work: how much of the unit a call does.
        peak: the device's figure that it is compared with: a dtype, or "bytes"; None: with none.
    """

    name: str
    of: Callable[[Any], Callable[..., Any]]
    torch: Callable[..., Any] | None
    numbers: tuple[Numbers, ...]
    work: float
    unit: Unit
    peak: str | None = None


@dataclass(frozen=True)
class Measured:
    """Median seconds of a call after the first one, or why there are none."""

    name: str
    library: str
    seconds: float = 0.0
    first: float = 0.0
    error: str = ""


def measures(small: bool) -> Mapping[str, Measure]:
    """The measures by name; of small arrays where the device is a software driver."""
    n, many, steps = (256, 1 << 15, 20) if small else (4096, 1 << 24, 1000)
    found: list[Measure] = []
    for dtype in ("f32", "f16", "bf16"):
        square = Numbers(dtype, (n, n))
        found.append(
            Measure(
                f"matmul {dtype} {n}",
                lambda jax: lambda x, y: x @ y,
                lambda torch, x, y: x @ y,
                (square, square),
                2.0 * n**3,
                "flop",
                dtype,
            )  # fmt: skip
        )
    square, whole = Numbers("f32", (n, n)), Numbers("i8", (n, n), -100, 100)
    found += [
        Measure(f"matmul tf32 {n}", lambda jax: lambda x, y: jax.numpy.matmul(x, y, precision="tensorfloat32"), None,
                (square, square), 2.0 * n**3, "flop", "tf32"),
        Measure(f"matmul i8 {n}", lambda jax: lambda x, y: jax.numpy.matmul(x, y, preferred_element_type=np.int32), None,
                (whole, whole), 2.0 * n**3, "flop", "i8"),
    ]  # fmt: skip
    flat, places = Numbers("f32", (many,)), Numbers("i32", (many,), 0, many // 16)
    found += [
        Measure(f"add {many}", lambda jax: lambda x, y: x + y, lambda torch, x, y: x + y, (flat, flat), 12.0 * many,
                "byte", "bytes"),
        Measure(f"sum {many}", lambda jax: lambda x: jax.numpy.sum(x), lambda torch, x: x.sum(), (flat,), 4.0 * many,
                "byte", "bytes"),
        Measure(f"cumsum {many}", lambda jax: lambda x: jax.numpy.cumsum(x), lambda torch, x: x.cumsum(0), (flat,),
                8.0 * many, "byte", "bytes"),
        Measure(f"scatter add {many}", lambda jax: lambda x, i: jax.numpy.zeros(many // 16).at[i].add(x),
                lambda torch, x, i: torch.zeros(many // 16, device=x.device).index_add_(0, i.long(), x), (flat, places),
                float(many), "element"),
        Measure(f"sort {many // 16}", lambda jax: lambda x: jax.numpy.sort(x), lambda torch, x: x.sort().values,
                (Numbers("f32", (many // 16,)),), float(many // 16), "element"),
        Measure(f"while of {steps} steps", lambda jax: _steps(jax, steps), None, (Numbers("f32", (1024,)),), float(steps),
                "step"),
    ]  # fmt: skip
    return MappingProxyType({m.name: m for m in found})


def _steps(jax: Any, steps: int) -> Callable[..., Any]:
    def loop(x: Any) -> Any:
        return jax.lax.while_loop(lambda s: s[0] < steps, lambda s: (s[0] + 1, s[1] * 0.999 + 1.0), (0, x))[1]

    return loop


#: Peaks of the makers' data sheets, dense: TFLOP/s by dtype (f32 without tensor cores), GB/s.
PEAKS: Mapping[str, Mapping[str, float]] = MappingProxyType(
    {
        "H100.*PCIe": {"f32": 51, "f16": 756, "bf16": 756, "tf32": 378, "i8": 1513, "bytes": 2000},
        "H200": {"f32": 67, "f16": 989, "bf16": 989, "tf32": 494, "i8": 1979, "bytes": 4800},
        "H100": {"f32": 67, "f16": 989, "bf16": 989, "tf32": 494, "i8": 1979, "bytes": 3350},
        "A100.*80": {"f32": 19.5, "f16": 312, "bf16": 312, "tf32": 156, "i8": 624, "bytes": 2000},
        "A100": {"f32": 19.5, "f16": 312, "bf16": 312, "tf32": 156, "i8": 624, "bytes": 1555},
        "RTX 4090": {"f32": 82.6, "f16": 165, "bf16": 165, "tf32": 82.6, "i8": 661, "bytes": 1008},
        "RTX 3090": {"f32": 35.6, "f16": 71, "bf16": 71, "tf32": 35.6, "i8": 284, "bytes": 936},
        "Tesla T4": {"f32": 8.1, "f16": 65, "i8": 130, "bytes": 320},
        "L4": {"f32": 30.3, "f16": 121, "bf16": 121, "tf32": 60, "i8": 242, "bytes": 300},
    }
)


def peak_of(device_kind: str, measure: Measure) -> float | None:
    """The device's peak in the measure's unit a second; None where it is not known."""
    if measure.peak is None:
        return None
    figures = next((f for name, f in PEAKS.items() if re.search(name, device_kind)), {})
    figure = figures.get(measure.peak)
    return None if figure is None else figure * (1e9 if measure.peak == "bytes" else 1e12)


def libraries(target: str) -> list[str]:
    """quire, and of torch and JAX what is installed, for a CUDA device (the others have none of the same kind)."""
    others = [name for name in ("torch", "jax") if target == "cuda" and importlib.util.find_spec(name)]
    return ["quire", *others]


def measured(name: str, target: str, library: str, *, small: bool) -> Measured:
    """Measure one computation by one library, in this process."""
    measure = measures(small)[name]
    rng = np.random.default_rng(0)
    arrays = [numbers.make(rng) for numbers in measure.numbers]
    try:
        call = {"quire": _by_quire, "jax": _by_jax, "torch": _by_torch}[library](measure, target, arrays)
        start = time.perf_counter()
        call()
        first = time.perf_counter() - start
        seconds: list[float] = []
        for _ in range(CALLS):
            start = time.perf_counter()
            call()
            seconds.append(time.perf_counter() - start)
    except Exception as error:
        return Measured(name, library, error=f"{type(error).__name__}: {' '.join(str(error).split())[:300]}")
    return Measured(name, library, statistics.median(seconds), first)


def _by_quire(measure: Measure, target: str, arrays: list[Any]) -> Callable[[], Any]:
    import quire

    device = quire.devices(target)[0]
    given, f = [quire.device_put(a, device) for a in arrays], quire.jit(measure.of(quire))
    return lambda: quire.block_until_ready(f(*given))


def _by_jax(measure: Measure, target: str, arrays: list[Any]) -> Callable[[], Any]:
    import jax

    device = jax.devices("gpu")[0]
    given, f = [jax.device_put(a, device) for a in arrays], jax.jit(measure.of(jax))
    return lambda: jax.block_until_ready(f(*given))


def _by_torch(measure: Measure, target: str, arrays: list[Any]) -> Callable[[], Any]:
    import torch  # pyright: ignore[reportMissingImports]

    f = measure.torch
    if f is None:
        raise ValueError("torch has no loops that a program runs")
    given = [
        torch.from_numpy(a.astype(np.float32)).to("cuda", torch.bfloat16) if a.dtype.name == "bfloat16"
        else torch.from_numpy(a).to("cuda")
        for a in arrays
    ]  # fmt: skip

    def call() -> None:
        f(torch, *given)
        torch.cuda.synchronize()

    return call
