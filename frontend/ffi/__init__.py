"""Functions of shared libraries in compiled programs (`jax.ffi`); docs/ffi.md has a worked example.

A target is a C function of the interface in ``include/quire_ffi.h``. It is registered under a name, and `ffi_call` of that
name is an operation like any other: in compiled functions, under `vmap` (as `vmap_method` says), and in the rules of
`custom_jvp` and `custom_vjp`, which give it a derivative.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.avals import ShapedArray, aval_of
from quire.ir.jaxpr import Eqn
from quire.ir.primitives.calls import ffi_call_p
from quire.runtime.foreign_functions import ForeignCall, ForeignFunction, ForeignFunctionError, attribute, register

from ..absent_names import module_getattr
from ..interpreters.mlir import LoweredFunction
from ..watching.callbacks import VMAP_METHODS

_XLA = b"xla._CUSTOM_CALL_TARGET"


def include_dir() -> str:
    """The folder of ``quire_ffi.h``, for a C compiler's ``-I``."""
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), "include")


def pycapsule(funcptr: Any) -> Any:
    """A function of `ctypes` (``library.name``) as a PyCapsule, for `register_ffi_target`."""
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    return new(ctypes.cast(funcptr, ctypes.c_void_p), None, None)


def register_ffi_target(name: str, fn: Any, platform: str = "cpu", api_version: int = 1, **kwargs: Any) -> None:
    """Register a C function under a name.

    Args:
        name: what `ffi_call` finds it by.
        fn: the function: of `ctypes` (``library.name``), a PyCapsule of it (`pycapsule`), its address, or a dictionary with
            one of these as ``"execute"``.
        platform: ``"cpu"``: compiled programs of other targets cannot call functions of the host's libraries.
        api_version, kwargs: accepted: the interface is quire's own.

    Raises:
        TypeError: `fn` is none of these.
        ValueError: it is for another platform, belongs to XLA's interface, or the name is another function's.
    """
    if platform.lower() not in ("cpu", "host"):
        raise ValueError(
            f"ffi.register_ffi_target: {name!r} is for platform {platform!r}; quire calls functions of shared libraries on cpu"
        )
    if isinstance(fn, Mapping):
        if "execute" not in fn:
            raise TypeError(f"ffi.register_ffi_target: a dictionary must have 'execute', got {sorted(fn)}")
        fn = fn["execute"]
    register(name, "cpu", ForeignFunction(_address(name, fn), fn))


def _address(name: str, fn: Any) -> int:
    if type(fn).__name__ == "PyCapsule":
        api = ctypes.pythonapi
        api.PyCapsule_GetName.restype, api.PyCapsule_GetName.argtypes = ctypes.c_char_p, (ctypes.py_object,)
        api.PyCapsule_GetPointer.restype = ctypes.c_void_p
        api.PyCapsule_GetPointer.argtypes = (ctypes.py_object, ctypes.c_char_p)
        label = api.PyCapsule_GetName(fn)
        if label == _XLA:
            raise ValueError(
                f"ffi.register_ffi_target: {name!r} is made for XLA's interface; quire calls functions of the interface in "
                f"{include_dir()}/quire_ffi.h"
            )
        return api.PyCapsule_GetPointer(fn, label)
    if isinstance(fn, int) and not isinstance(fn, bool):
        return fn
    # The class of which the functions of every library are instances has a private name only.
    of_ctypes = isinstance(fn, ctypes._CFuncPtr | ctypes.c_void_p)  # type: ignore[attr-defined]
    address = ctypes.cast(fn, ctypes.c_void_p).value if of_ctypes else None
    if not address:
        raise TypeError(
            f"ffi.register_ffi_target: expected a function of ctypes, a PyCapsule or an address for {name!r}, got {fn!r}"
        )
    return address


def ffi_call(
    target_name: str,
    result_shape_dtypes: Any,
    *,
    has_side_effect: bool = False,
    vmap_method: str | None = None,
    input_layouts: Sequence[Any] | None = None,
    output_layouts: Any = None,
    input_output_aliases: Mapping[int, int] | None = None,
    custom_call_api_version: int = 4,
    legacy_backend_config: Any = None,
) -> Callable[..., Any]:
    """A function of arrays that calls a registered C function.

    Args:
        target_name: as registered; it is looked up when a program is compiled, or the call evaluated.
        result_shape_dtypes: a `ShapeDtypeStruct` (or array), or a sequence of them for several results.
        has_side_effect: the call happens also where its results are not used.
        vmap_method: under `vmap`: "sequential" calls once a lane, "expand_dims" once with a leading batch dimension on batched
            arguments and one of size 1 on the others, "broadcast_all" with it on all arguments.
        input_layouts, output_layouts: the order of dimensions, the slowest first; None, or as they are.
        input_output_aliases: operand to result: the function finds the operand in the result's memory, and changes it there.
        custom_call_api_version, legacy_backend_config: accepted; the latter must be None.

    Returns a function ``call(*arrays, **attributes)``: attributes are numbers, texts and NumPy arrays. It gives one result, or
    a list (a tuple, where a tuple was declared).

    Raises:
        TypeError: a result is declared without shape and dtype, or an attribute has no form in C.
        ValueError: another layout, a wrong alias, or an unknown `vmap_method`.
        KeyError, UnsupportedError: by the call: no target has the name, or none for what is compiled for.
        ForeignFunctionError: by the call: the function returned a text.

    Example: ``quire.ffi.ffi_call("rms_norm", quire.ShapeDtypeStruct(x.shape, x.dtype))(x, eps=np.float32(1e-5))``.
    """
    if vmap_method is not None and vmap_method not in VMAP_METHODS:
        raise ValueError(f"ffi.ffi_call: vmap_method must be one of {', '.join(VMAP_METHODS)}, got {vmap_method!r}")
    if legacy_backend_config is not None:
        raise ValueError("ffi.ffi_call: legacy_backend_config is XLA's; give attributes by keyword")
    several = isinstance(result_shape_dtypes, list | tuple)
    declared = list(result_shape_dtypes) if several else [result_shape_dtypes]
    avals = tuple(_result_aval(r) for r in declared)
    _check_layouts("output_layouts", output_layouts if several or output_layouts is None else [output_layouts], avals)

    def call(*args: Any, **attributes: Any) -> Any:
        in_avals = [aval_of(x) for x in args]
        _check_layouts("input_layouts", input_layouts, in_avals)
        aliases = tuple(sorted((input_output_aliases or {}).items()))
        for operand, result in aliases:
            if not (0 <= operand < len(in_avals) and 0 <= result < len(avals)):
                raise ValueError(f"ffi.ffi_call: input_output_aliases names operand {operand} and result {result}")
            a, b = in_avals[operand].strong(), avals[result]
            if a != b:
                raise ValueError(
                    f"ffi.ffi_call: operand {operand} is {a.short()}, its alias, result {result}, {b.short()}"
                )
        given = tuple(attribute(name, value) for name, value in sorted(attributes.items()))
        function = ForeignCall(target_name, given, len(avals), aliases)
        out = ffi_call_p.bind(
            *args, function=function, result_avals=avals, has_side_effect=bool(has_side_effect), vmap_method=vmap_method
        )
        return (tuple(out) if isinstance(result_shape_dtypes, tuple) else list(out)) if several else out[0]

    return call


def _result_aval(declared: Any) -> ShapedArray:
    shape, dtype = getattr(declared, "shape", None), getattr(declared, "dtype", None)
    if shape is None or dtype is None:
        raise TypeError(
            f"ffi.ffi_call: result_shape_dtypes must hold objects with shape and dtype (quire.ShapeDtypeStruct), got {declared!r}"
        )
    return ShapedArray(tuple(shape), dtypes.canonicalize(np.dtype(dtype)))


def _check_layouts(what: str, layouts: Sequence[Any] | None, avals: Sequence[ShapedArray]) -> None:
    for i, (layout, aval) in enumerate(zip(layouts or (), avals)):
        order = None if layout is None else tuple(getattr(layout, "major_to_minor", layout))
        if order is not None and order != tuple(range(aval.ndim)):
            raise ValueError(
                f"ffi.ffi_call: {what}[{i}] is {order}; functions are given arrays with the last dimension fastest: transpose it"
            )


class _FfiLowering(LoweredFunction):
    """The lowering of another package's primitive to a C function: its parameters are the attributes."""

    def __init__(self, name: str, options: dict[str, Any]) -> None:
        super().__init__(lambda *_, **__: None, True)
        self._name, self._options = name, options

    def traced(self, eqn: Eqn, operands: Sequence[Any], target: str) -> Sequence[Any]:
        """The results of an equation, of the types that it says."""
        return ffi_call(self._name, [v.aval for v in eqn.outputs], **self._options)(*operands, **eqn.params)


def ffi_lowering(
    call_target_name: str, *, operand_layouts: Any = None, result_layouts: Any = None, has_side_effect: bool = False,
    operand_output_aliases: Mapping[int, int] | None = None, **_: Any,
) -> Any:  # fmt: skip
    """A lowering rule for `mlir.register_lowering`: the primitive is a call of a registered C function.

    Its parameters are the attributes. Layouts, aliases and effects are as for `ffi_call`.
    """
    options = {
        "input_layouts": operand_layouts, "output_layouts": result_layouts, "has_side_effect": has_side_effect,
        "input_output_aliases": operand_output_aliases,
    }  # fmt: skip
    return _FfiLowering(call_target_name, options)


__all__ = [
    "ForeignFunctionError", "ffi_call", "ffi_lowering", "include_dir", "pycapsule", "register_ffi_target",
]  # fmt: skip

__getattr__ = module_getattr("quire.ffi", globals())
