"""Programs whose communication is compared with that of JAX's partitioner; written for both libraries.

Run as a program it prints, for each workload, what JAX's compiled program receives: it needs
``XLA_FLAGS=--xla_force_host_platform_device_count=8``.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Workload:
    """A function of flat arguments, their shapes, the mesh, and the axes of each argument's dimensions."""

    make: Callable[[Any, Any], Callable[..., Any]]
    shapes: tuple[tuple[int, ...], ...]
    mesh: tuple[tuple[str, int], ...]
    specs: tuple[tuple[Any, ...], ...]
    out_specs: tuple[tuple[Any, ...], ...]


def mlp_gradient(api: Any, np: Any) -> Callable[..., Any]:
    def loss(w1: Any, w2: Any, w3: Any, x: Any, y: Any) -> Any:
        return ((np.tanh(np.tanh(x @ w1) @ w2) @ w3 - y) ** 2).mean()

    return api.grad(loss, (0, 1, 2))


def block(api: Any, np: Any) -> Callable[..., Any]:
    """A transformer's block: attention of 8 heads, then two layers."""

    def f(x: Any, wq: Any, wk: Any, wv: Any, wo: Any, w1: Any, w2: Any) -> Any:
        q, k, v = (np.einsum("bsd,dhe->bhse", x, w) for w in (wq, wk, wv))
        scores = np.einsum("bhse,bhte->bhst", q, k) / 4.0
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights = weights / weights.sum(-1, keepdims=True)
        mixed = np.einsum("bhst,bhte->bhse", weights, v)
        x = x + np.einsum("bhse,hed->bsd", mixed, wo)
        return x + np.tanh(x @ w1) @ w2

    return f


def block_gradient(api: Any, np: Any) -> Callable[..., Any]:
    def loss(*args: Any) -> Any:
        return (block(api, np)(*args) ** 2).mean()

    return api.grad(loss, tuple(range(1, 7)))


_MLP = ((784, 512), (512, 512), (512, 16), (256, 784), (256, 16))
_BLOCK = ((8, 64, 128), *[(128, 8, 16)] * 3, (8, 16, 128), (128, 512), (512, 128))
_HEADS = ((), *[(None, "model")] * 3, ("model",), (None, "model"), ("model",))

WORKLOADS = {
    "data parallel MLP, gradient, 8": Workload(
        mlp_gradient, _MLP, (("data", 8),), ((), (), (), ("data",), ("data",)), ((), (), ())
    ),
    "tensor parallel MLP, gradient, 4x2": Workload(
        mlp_gradient, _MLP, (("data", 4), ("model", 2)),
        ((None, "model"), ("model",), (), ("data",), ("data",)), ((None, "model"), ("model",), ()),
    ),
    "transformer block, 2x4": Workload(
        block, _BLOCK, (("data", 2), ("model", 4)), (("data",), *_HEADS[1:]), (("data",),)
    ),
    "transformer block, gradient, 2x4": Workload(
        block_gradient, _BLOCK, (("data", 2), ("model", 4)), (("data",), *_HEADS[1:]), _HEADS[1:]
    ),
}  # fmt: skip

_SIZES = {"f32": 4, "s32": 4, "pred": 1, "u32": 4}
_FACTORS: dict[str, Callable[[int], float]] = {
    # of the bytes of the result: what one of k devices receives
    "all-gather": lambda k: (k - 1) / k,
    "all-reduce": lambda k: 2 * (k - 1) / k,
    "reduce-scatter": lambda k: k - 1,
    "all-to-all": lambda k: (k - 1) / k,
    "collective-permute": lambda k: 1,
}


def received(hlo: str, devices: int) -> dict[str, tuple[int, int]]:
    """The collectives of a compiled program: how many of each kind, and the bytes that a device receives."""
    out: dict[str, tuple[int, int]] = {}
    for line in hlo.splitlines():
        found = re.search(
            r"= (.*?) (all-gather|all-reduce|reduce-scatter|all-to-all|collective-permute)(-start)?\(", line
        )
        if not found:
            continue
        types, kind = found[1], found[2]
        size = sum(
            _SIZES[d] * math.prod(int(n) for n in shape.split(",") if n)
            for d, shape in re.findall(r"(\w+)\[([\d,]*)\]", types)
        )
        groups = re.search(r"replica_groups=\{\{([\d,]+)\}", line)
        iota = re.search(r"replica_groups=\[(\d+),(\d+)\]", line)
        k = len(groups[1].split(",")) if groups else int(iota[2]) if iota else devices
        count, total = out.get(kind, (0, 0))
        out[kind] = (count + 1, total + round(size * _FACTORS[kind](k)))
    return out


def main() -> None:
    import jax
    import jax.numpy as np

    results: dict[str, Any] = {}
    for name, w in WORKLOADS.items():
        mesh = jax.make_mesh(tuple(n for _, n in w.mesh), tuple(a for a, _ in w.mesh))

        def sharding(spec: Any, mesh: Any = mesh) -> Any:
            return jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*spec))

        outs = tuple(map(sharding, w.out_specs))
        f = jax.jit(
            w.make(jax, np),
            in_shardings=tuple(map(sharding, w.specs)),
            out_shardings=outs if len(outs) > 1 else outs[0],
        )
        args = [jax.ShapeDtypeStruct(s, np.float32) for s in w.shapes]
        results[name] = received(f.lower(*args).compile().as_text(), mesh.size)
    print(json.dumps(results))


if __name__ == "__main__":
    main()
