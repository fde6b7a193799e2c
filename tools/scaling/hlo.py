"""What a device receives in a program that JAX's partitioner made, read from its compiled HLO.

Run as a program it prints, for each model, kinds of collectives to their number and bytes, as JSON. It needs
``XLA_FLAGS=--xla_force_host_platform_device_count=8``, so `measured` runs it in a process of its own.
"""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any

Counts = dict[str, tuple[int, int]]

_SIZES = {"pred": 1, "s8": 1, "u8": 1, "bf16": 2, "f16": 2, "f32": 4, "s32": 4, "u32": 4, "f64": 8, "s64": 8, "u64": 8}
_FACTORS: dict[str, Callable[[int], float]] = {
    # of the bytes of the result: what one of k devices receives
    "all-gather": lambda k: (k - 1) / k,
    "all-reduce": lambda k: 2 * (k - 1) / k,
    "reduce-scatter": lambda k: k - 1,
    "all-to-all": lambda k: (k - 1) / k,
    "collective-permute": lambda k: 1,
}
_COLLECTIVE = re.compile(rf"= (.*?) ({'|'.join(_FACTORS)})(-start)?\(")
_HEADER = re.compile(r"^(?:ENTRY )?%?([\w.\-]+) .*\{$")
_WHILE = re.compile(r"\bwhile\(.*?condition=%?([\w.\-]+), body=%?([\w.\-]+)")
_CALLED = re.compile(r"(?:to_apply|calls|branch_computations|called_computations)=\{?%?([\w.\-]+)")


def received(hlo: str, devices: int) -> Counts:
    """The collectives of a compiled program: how many of each kind, and the bytes that a device receives.

    A loop's collectives count as often as the loop turns; ValueError where the program does not say how often.
    """
    bodies: dict[str, list[str]] = {}
    name = entry = ""
    for line in hlo.splitlines():
        header = _HEADER.match(line)
        if header:
            name = header[1]
            bodies[name] = []
            entry = name if line.startswith("ENTRY") else entry
        elif name:
            bodies[name].append(line)
    return _of(entry, bodies, devices)


def _of(name: str, bodies: dict[str, list[str]], devices: int) -> Counts:
    out: Counts = {}
    for line in bodies.get(name, ()):
        found = _COLLECTIVE.search(line)
        if found:
            size = sum(
                _SIZES[d] * math.prod(int(n) for n in shape.split(",") if n)
                for d, shape in re.findall(r"(\w+)\[([\d,]*)\]", found[1])
            )
            groups = re.search(r"replica_groups=\{\{([\d,]+)\}", line)
            iota = re.search(r"replica_groups=\[(\d+),(\d+)\]", line)
            k = len(groups[1].split(",")) if groups else int(iota[2]) if iota else devices
            _add(out, {found[2]: (1, round(size * _FACTORS[found[2]](k)))}, 1)
            continue
        loop = _WHILE.search(line)
        if loop:
            turns = re.search(r'known_trip_count":\{"n":"(\d+)"', line)
            inner = _of(loop[2], bodies, devices)
            if inner and not turns:
                raise ValueError(f"the HLO does not say how often a loop with collectives turns: {line.strip()}")
            _add(out, inner, int(turns[1]) if turns else 1)
            continue
        called = _CALLED.search(line)
        if called and "reduce(" not in line:
            _add(out, _of(called[1], bodies, devices), 1)
    return out


def _add(out: Counts, more: Counts, times: int) -> None:
    for kind, (count, size) in more.items():
        known = out.get(kind, (0, 0))
        out[kind] = (known[0] + count * times, known[1] + size * times)


def measured(names: Sequence[str] = ()) -> dict[str, Counts]:
    """What devices receive under JAX, by model; all models without names. Raises CalledProcessError if JAX fails."""
    env = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=8", "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-m", "quire.tools.scaling.hlo", *names]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=env, check=True)
    return {k: {kind: (c, b) for kind, (c, b) in v.items()} for k, v in json.loads(done.stdout).items()}


def main(names: Sequence[str]) -> None:
    """Compile models with JAX and print what their devices receive."""
    import jax
    import jax.numpy as np

    from .models import MODELS, Library

    results: dict[str, Any] = {}
    for name in names or MODELS:
        m = MODELS[name]
        mesh = jax.make_mesh(
            tuple(n for _, n in m.mesh), tuple(a for a, _ in m.mesh), (jax.sharding.AxisType.Auto,) * len(m.mesh)
        )

        def sharding(spec: Any, mesh: Any = mesh) -> Any:
            return jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*spec))

        def constrain(x: Any, *spec: Any, sharding: Any = sharding) -> Any:
            return jax.lax.with_sharding_constraint(x, sharding(spec))

        outs = tuple(map(sharding, m.out_specs))
        library = Library(jax, np, jax.lax, mesh, jax.sharding.PartitionSpec, constrain)
        function = m.make(library)

        def flat(*args: Any, function: Any = function) -> Any:
            return jax.tree_util.tree_leaves(function(*args))

        f = jax.jit(flat, in_shardings=tuple(map(sharding, m.specs)), out_shardings=list(outs))
        integers = dict(m.integers)
        args = [jax.ShapeDtypeStruct(s, np.int32 if i in integers else np.float32) for i, s in enumerate(m.shapes)]
        text = f.lower(*args).compile().as_text() or ""
        results[name] = received(text, mesh.size)
    print(json.dumps(results))


if __name__ == "__main__":
    main(sys.argv[1:])
