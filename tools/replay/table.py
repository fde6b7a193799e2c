"""The table of operations as programs: each text with each list of types, as it is and transformed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import ml_dtypes
import numpy

import quire
import quire.example_libraries.stax
import quire.experimental.checkify
from quire import lax, nn, random, scipy
from quire import numpy as np

from .programs import Program, Traceable

_DTYPES = {
    "b": "bool", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64", "u8": "uint8", "u16": "uint16",
    "u32": "uint32", "u64": "uint64", "f16": "float16", "f32": "float32", "f64": "float64", "c64": "complex64",
    "c128": "complex128", "bf16": ml_dtypes.bfloat16,
}  # fmt: skip
_TYPE = re.compile(r"(\w+)\[([\d,]*)\]")
Function = Callable[..., Any]


@quire.custom_vjp
def _custom(x: Any) -> Any:
    """A function with a derivative of its own."""
    return np.sin(x)


_custom.defvjp(lambda x: (np.sin(x), x), lambda x, ct: (ct * np.cos(x) * 2,))
_NAMESPACE = {
    "quire": quire, "np": np, "lax": lax, "nn": nn, "random": random, "scipy": scipy, "custom": _custom,
}  # fmt: skip


def _inexact(x: Any) -> bool:
    return bool(np.issubdtype(x.dtype, np.inexact))


def _total(tree: Any) -> Any:
    """A real number that depends on each element of the inexact results."""
    parts = [np.sum(np.sin(np.real(y).astype("float32"))) for y in quire.tree.leaves(tree) if _inexact(y)]
    return sum(parts, np.float32(0))


def _inexact_arguments(args: Sequence[Any]) -> tuple[int, ...]:
    return tuple(i for i, x in enumerate(args) if numpy.dtype(x.dtype).kind not in "biu")


def _grad(f: Function, args: Sequence[Any]) -> Function:
    numbers = _inexact_arguments(args)

    def g(*xs: Any) -> Any:
        def h(*ys: Any) -> Any:
            full = list(xs)
            for i, y in zip(numbers, ys):
                full[i] = y
            return _total(f(*full))

        return quire.grad(h, argnums=tuple(range(len(numbers))))(*(xs[i] for i in numbers))

    def with_complex(*xs: Any) -> Any:
        # The derivative of a real number by complex arguments is taken by their parts.
        parts = [(np.real(x), np.imag(x)) if np.iscomplexobj(x) else (x,) for x in xs]

        def h(parts: Any) -> Any:
            return _total(f(*(lax.complex(*p) if len(p) == 2 else p[0] for p in parts)))

        return quire.grad(h)(parts)

    return with_complex if any(numpy.dtype(args[i].dtype).kind == "c" for i in numbers) else g


def _jvp(f: Function, args: Sequence[Any]) -> Function:
    def g(*xs: Any) -> Any:
        primals = tuple(xs)
        return quire.jvp(f, primals, tuple(x * 0.5 if _inexact(x) else numpy.zeros(x.shape, quire.dtypes.float0)
                                           for x in primals))  # fmt: skip

    return g


def _vmap(f: Function, args: Sequence[Any]) -> Function:
    return quire.vmap(f)


def _scan(f: Function, args: Sequence[Any]) -> Function:
    def g(*xs: Any) -> Any:
        return lax.scan(lambda n, x: (n + 1, f(*x)), 0, xs)

    return g


_STACKED = 3
_TRANSFORMED: dict[str, Callable[[Function, Sequence[Any]], Function]] = {
    "grad": _grad, "jvp": _jvp, "vmap": _vmap, "scan": _scan,
}  # fmt: skip
MODES = (*_TRANSFORMED, "donate", "keep", "x64")


def _types(text: str) -> list[Any]:
    found: list[Any] = []
    for name, shape in _TYPE.findall(text):
        sizes = tuple(int(n) for n in shape.split(",") if n)
        found.append(quire.ShapeDtypeStruct(sizes, _DTYPES[name]))
    return found


def _stacked(x: Any) -> Any:
    return quire.ShapeDtypeStruct((_STACKED, *x.shape), x.dtype)


def _make(text: str, types: str, mode: str, x64: bool) -> Callable[[], Traceable]:
    def make() -> Traceable:
        def typed() -> list[Any]:
            return _types(types)

        if x64:
            with quire.enable_x64(True):
                args = typed()
        else:
            args = typed()
        f: Function = eval(f"lambda {', '.join('xyzw'[: len(args)])}: ({text})", dict(_NAMESPACE))
        options: dict[str, Any] = {"donate_argnums": tuple(range(len(args)))} if mode == "donate" else {}
        if mode == "keep":
            options = {"keep_unused": True}
        if mode in _TRANSFORMED:
            f = _TRANSFORMED[mode](f, args)
        if mode in ("vmap", "scan"):
            args = [_stacked(x) for x in args]
        return Traceable(f, tuple(args), options=options, x64=x64)

    return make


def programs() -> Iterator[Program]:
    """All operations of the table; raises ValueError for a word that is no type and no mode."""
    from .operations import OPERATIONS

    for text, *cases in OPERATIONS:
        for case in cases:
            words = case.split()
            types = " ".join(w for w in words if _TYPE.fullmatch(w))
            modes = [w for w in words if not _TYPE.fullmatch(w)]
            unknown = set(modes) - set(MODES)
            if unknown:
                raise ValueError(f"operation {text!r}: {case!r}: unknown {', '.join(sorted(unknown))}")
            x64 = "x64" in modes
            for mode in ("", *(m for m in modes if m != "x64")):
                name = " ".join(filter(None, (text, types, "x64" if x64 else "", mode)))
                yield Program(f"operations/{name}", _make(text, types, mode, x64))
