"""The table of operations (`tools/replay`) as functions of the real JAX, with values for their arguments."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import jax
import jax.example_libraries.stax
import jax.experimental.checkify
import jax.numpy as jnp
import jax.scipy
import numpy as np

from quire.tools.replay.operations import OPERATIONS

_DTYPES = {
    "b": "bool", "i8": "int8", "i16": "int16", "i32": "int32", "u8": "uint8", "u16": "uint16", "u32": "uint32",
    "f16": "float16", "f32": "float32", "c64": "complex64", "bf16": jnp.bfloat16,
}  # fmt: skip
_TYPE = re.compile(r"(\w+)\[([\d,]*)\]")


@jax.custom_vjp
def custom(x):
    return jnp.sin(x)


custom.defvjp(lambda x: (jnp.sin(x), x), lambda x, ct: (ct * jnp.cos(x) * 2,))
NAMESPACE = {
    "quire": jax, "np": jnp, "lax": jax.lax, "nn": jax.nn, "random": jax.random, "scipy": jax.scipy, "custom": custom,
}  # fmt: skip


@dataclass
class Entry:
    """A function of JAX's and its arguments, and whether it is differentiated too."""

    text: str
    f: Callable[..., Any]
    args: list[np.ndarray[Any, Any]]
    grad: bool


def _values(name: str, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray[Any, Any]:
    dtype = np.dtype(_DTYPES[name])
    if name == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if name[0] in "iu":
        return np.asarray(rng.integers(0, 4, shape)).astype(dtype)
    if name[0] == "c":
        return (rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(dtype)
    return np.asarray(rng.uniform(0.1, 0.9, shape)).astype(dtype)


def entries(first_only: bool = True) -> Iterator[Entry]:
    """The operations, each for the first of its lists of types (or for all)."""
    for text, *cases in OPERATIONS:
        grad = any("grad" in case.split() for case in cases)
        for case in cases[:1] if first_only else cases:
            words = case.split()
            if "x64" in words:
                continue
            types = [m.groups() for m in map(_TYPE.fullmatch, words) if m]
            rng = np.random.default_rng(zlib.crc32(text.encode()))
            args = [_values(n, tuple(int(s) for s in shape.split(",") if s), rng) for n, shape in types]
            f = eval(f"lambda {', '.join('xyzw'[: len(args)])}: ({text})", dict(NAMESPACE))
            yield Entry(text, f, args, grad and any(jnp.issubdtype(x.dtype, jnp.floating) for x in args))


def gradient(q: Any, f: Callable[..., Any], args: list[Any]) -> Callable[..., Any]:
    """The gradient, by q (quire or jax), of a real number that depends on all inexact results, by the real arguments."""
    numbers = [i for i, x in enumerate(args) if jnp.issubdtype(x.dtype, jnp.floating)]

    def g(*xs):
        def h(*ys):
            full = list(xs)
            for i, y in zip(numbers, ys):
                full[i] = y
            leaves = q.tree_util.tree_leaves(f(*full))
            parts = [q.numpy.sum(q.numpy.sin(q.numpy.real(y).astype("float32"))) for y in leaves
                     if jnp.issubdtype(y.dtype, jnp.inexact)]  # fmt: skip
            return sum(parts, np.float32(0))

        return q.grad(h, argnums=tuple(range(len(numbers))))(*(xs[i] for i in numbers))

    return g
