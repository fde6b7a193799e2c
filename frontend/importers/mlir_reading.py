"""Reading MLIR modules of StableHLO, and of VHLO (its portable form): types, attributes, constants, lines of the user.

Both dialects are read through the text of their attributes, which differ in little: VHLO writes versions into names
(``"vhlo.add_v1"``, ``!vhlo.f32_v1``) and takes structured attributes apart.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.avals import ShapedArray
from quire.ir.dtypes import DType
from quire.ir.errors import ParseError, UnsupportedError
from quire.ir.source import Source

_ELEMENTS: dict[str, DType] = {
    "i1": dtypes.bool_, "bool": dtypes.bool_, "f16": dtypes.float16, "bf16": dtypes.bfloat16, "f32": dtypes.float32,
    "f64": dtypes.float64, "complex<f32>": dtypes.complex64, "complex<f64>": dtypes.complex128,
    **{f"i{8 * d.itemsize}": d for d in dtypes.SIGNED}, **{f"si{8 * d.itemsize}": d for d in dtypes.SIGNED},
    **{f"ui{8 * d.itemsize}": d for d in dtypes.UNSIGNED},
}  # fmt: skip
_VERSION = re.compile(r"_v\d+\b")
_TENSOR = re.compile(r"tensor<((?:[\d?]+x)*)(.*)>$", re.DOTALL)
_NAMED_LINE = re.compile(r'"([^"]*)"\("([^"\n]+)":(\d+)')
_LINE = re.compile(r'"([^"\n]+)":(\d+):')
_NUMBER = re.compile(r"-?(?:0x[0-9A-Fa-f]+|\d+\.?\d*(?:[eE][+-]?\d+)?|inf|nan)|true|false")


def parse_module(program: str | bytes) -> Any:
    """An MLIR module of its text or bytecode, in a context of its own.

    Where JAX is installed it reads bytecode with what IREE has no dialect for, Shardy's notes on linear algebra.

    Raises:
        ParseError: it is none that can be read.
    """
    import iree.compiler.ir as mlir

    context = mlir.Context()
    context.allow_unregistered_dialects = True
    given = _without_shardy(program) if isinstance(program, str) else program
    with context, mlir.Location.unknown():
        try:
            return mlir.Module.parse(given)
        except (mlir.MLIRError, ValueError) as error:
            text = _text_by_jax(program) if isinstance(program, bytes) and "sdy" in str(error) else None
            if text is not None:
                return mlir.Module.parse(_without_shardy(text))
            raise ParseError(
                f"from_stablehlo: this is no module of StableHLO that can be read: {error}. Give the text of the module "
                "(exported.mlir_module(), lowered.as_text()) or its bytecode (exported.mlir_module_serialized)"
            ) from None


_MESH = re.compile(r"^\s*sdy\.mesh @.*$", re.MULTILINE)
_CONSTRAINT = re.compile(r"sdy\.sharding_constraint (%\w+(?:#\d+)?) <.*> : (tensor<[^>]*>+)")


def _without_shardy(text: str) -> str:
    """The text of a module without Shardy's operations: where JAX's devices hold what says nothing here."""
    if "sdy." not in text:
        return text
    return _CONSTRAINT.sub(r"stablehlo.reshape \1 : (\2) -> \2", _MESH.sub("", text))


def _text_by_jax(program: bytes) -> str | None:
    """The text of bytecode, by the real JAX; None where it is not installed, or cannot read it either."""
    try:
        from jax._src.interpreters.mlir import make_ir_context
        from jaxlib.mlir.dialects import stablehlo  # pyright: ignore[reportMissingImports, reportUnknownVariableType]
    except ImportError:
        return None
    context = make_ir_context()
    with context:
        try:
            module: Any = stablehlo.deserialize_portable_artifact(context, program)  # pyright: ignore[reportUnknownMemberType]
        except Exception:  # whatever its bindings raise: the first error is told
            return None
        return module.operation.get_asm(enable_debug_info=True)


def plain(text: str) -> str:
    """The text of a type or attribute, VHLO's as StableHLO's."""
    return _VERSION.sub("", text.replace("!vhlo.", "").replace("#vhlo.", "").replace("#vhlo<", "#stablehlo<"))


def name_of(op: Any) -> str:
    """The name of an operation: ``stablehlo.add`` of VHLO's ``vhlo.add_v1`` too."""
    name = op.name
    if not name.startswith("vhlo."):
        return name
    name = _VERSION.sub("", name.removeprefix("vhlo."))
    return {"func": "func.func", "call": "func.call"}.get(name, f"stablehlo.{name}")


def source_of(op: Any) -> Source | None:
    """The line that an operation's location names, if any."""
    text = str(op.location)
    found = _NAMED_LINE.search(text)
    if found:
        return Source(found[2], int(found[3]), found[1])
    found = _LINE.search(text)
    return Source(found[1], int(found[2]), "") if found else None


def place_of(op: Any) -> str:
    """Where an operation is, as the end of a message."""
    source = source_of(op)
    if source is not None:
        return f" (at {source.file}:{source.line}{f', in {source.function}' if source.function else ''})"
    text = str(op.location)
    return "" if text == "loc(unknown)" else f" (at {text.removeprefix('loc(').removesuffix(')')})"


def refuse(op: Any, why: str) -> UnsupportedError:
    """The error of an operation that cannot be imported: its name, why, and where it is."""
    return UnsupportedError(f"from_stablehlo: {name_of(op)}: {why}{place_of(op)}")


def aval_from(text: str, op: Any) -> ShapedArray:
    """A tensor type as an aval.

    Raises:
        UnsupportedError: its shape is dynamic, or it has elements that quire does not have (quantised ones, tokens).
    """
    found = _TENSOR.match(plain(text))
    if found is None:
        raise refuse(op, f"values of type {text} have no counterpart: expected tensors")
    sizes, element = found[1], found[2].split(", #")[0].split(", type_extensions")[0].strip()
    if "?" in sizes:
        raise refuse(op, f"the type {text} has a dynamic shape: export the program for fixed shapes")
    if element.startswith(("!quant", "quant")):
        raise refuse(op, f"quantised values of type {text} have no counterpart")
    if element not in _ELEMENTS:
        raise refuse(op, f"quire has no dtype {element} of the type {text}")
    return ShapedArray(tuple(int(n) for n in sizes.split("x") if n), _ELEMENTS[element])


def aval_of_value(value: Any, op: Any) -> ShapedArray:
    """The aval of an operand or result. Raises UnsupportedError as `aval_from`."""
    return aval_from(str(value.type), op)


# -- attributes -------------------------------------------------------------------------------------------------------------


def text_of(op: Any, name: str, default: str = "") -> str:
    """The text of an attribute; the default where there is none."""
    attributes = op.attributes
    return plain(str(attributes[name])) if name in attributes else default


def ints(op: Any, name: str, default: tuple[int, ...] = ()) -> tuple[int, ...]:
    """A list of integers: ``array<i64: 1, 2>`` or ``dense<[1, 2]> : tensor<2xi64>``; a splat is repeated."""
    text = text_of(op, name)
    if not text:
        return default
    return ints_in(text)


def ints_in(text: str) -> tuple[int, ...]:
    """The integers in the text of an attribute."""
    listed = re.search(r"array<\w+(?::\s*([^>]*))?>", text)
    if listed and "dense" not in text:
        return tuple(int(n) for n in re.findall(r"-?\d+|true|false", _bits(listed[1] or "")))
    dense = re.search(r"dense<(.*?)>\s*:\s*tensor<([\dx]*)x?\w+>", text, re.DOTALL)
    if dense is None:
        return tuple(int(n) for n in re.findall(r"-?\d+", _bits(text)))
    shape = [int(n) for n in re.findall(r"\d+(?=x)", dense[0].rpartition("tensor<")[2])]
    size = int(np.prod(shape, dtype=np.int64))
    if dense[1].startswith('"0x'):
        return tuple(np.frombuffer(bytes.fromhex(dense[1].strip('"')[2:]), np.int64).tolist())
    values = [int(n) for n in re.findall(r"-?\d+", _bits(dense[1]))]
    return tuple(values * size if len(values) == 1 else values)


def _bits(text: str) -> str:
    return text.replace("true", "1").replace("false", "0")


def integer(op: Any, name: str, default: int = 0) -> int:
    """An integer attribute (``1 : i64``)."""
    text = text_of(op, name)
    found = re.search(r"-?\d+|true|false", text.replace("integer", ""))
    return default if found is None else int(_bits(found[0]))


def flag(op: Any, name: str, default: bool = False) -> bool:
    """A bool attribute."""
    text = text_of(op, name)
    return default if not text else "true" in text


def word(op: Any, name: str, default: str = "") -> str:
    """The last word of an enumeration's attribute: EQ of ``#stablehlo<comparison_direction EQ>``."""
    found = re.findall(r"[A-Za-z_0-9]+", text_of(op, name))
    return found[-1] if found else default


def string(op: Any, name: str, default: str = "") -> str:
    """A string or symbol attribute without its quotes."""
    text = text_of(op, name)
    found = re.search(r'"([^"]*)"', text) or re.search(r"@([\w.$-]+)", text)
    return found[1] if found else default


def named_lists(text: str) -> dict[str, tuple[int, ...]]:
    """The fields of a structured attribute: ``offset_dims = [1], index_vector_dim = 1``."""
    found = {k: tuple(int(n) for n in re.findall(r"-?\d+", v)) for k, v in re.findall(r"(\w+) = \[([^\]]*)\]", text)}
    found.update({k: (int(v),) for k, v in re.findall(r"(\w+) = (-?\d+)", text)})
    return found


# -- constants --------------------------------------------------------------------------------------------------------------


def constant(op: Any) -> tuple[np.ndarray[Any, Any], bool]:
    """The value of a constant, and whether all its elements are one (then the value is a scalar).

    Raises:
        UnsupportedError: it is no dense tensor.
    """
    import iree.compiler.ir as mlir

    aval = aval_of_value(op.results[0], op)
    if aval.dtype == dtypes.bfloat16 or dtypes.is_complex(aval.dtype):
        # The bindings have no arrays of these, and fail where such an attribute is asked for.
        return _from_text(str(op), aval, op)
    attribute = op.attributes["value"]
    if op.name.startswith("vhlo."):
        inner = re.search(r"dense<.*> : tensor<.*>(?=>)", str(attribute), re.DOTALL)
        if inner is None:
            raise refuse(op, "the value is no dense tensor")
        attribute = mlir.Attribute.parse(inner[0], context=op.context)
    array = np.asarray(attribute)
    if attribute.is_splat and aval.size:
        return np.array(array.ravel()[0], aval.dtype), True
    return np.array(array, aval.dtype).reshape(aval.shape), False


def _from_text(text: str, aval: ShapedArray, op: Any) -> tuple[np.ndarray[Any, Any], bool]:
    """A constant of elements that the bindings give no array of, from its text."""
    found = re.search(r"dense<(.*?)> : tensor<", text, re.DOTALL)
    if found is None:
        raise refuse(op, "the value is no dense tensor")
    inside = found[1]
    if inside.startswith('"0x'):
        data = np.frombuffer(bytes.fromhex(inside.strip('"')[2:]), aval.dtype)
        return (data.reshape(()), True) if data.size == 1 else (data.reshape(aval.shape), False)
    part = dtypes.real_dtype(aval.dtype)
    values = np.array([_scalar(t, part) for t in _NUMBER.findall(inside)], part)
    if dtypes.is_complex(aval.dtype):
        values = values.view(aval.dtype)
    return (values.reshape(()), True) if values.size == 1 and aval.size else (values.reshape(aval.shape), False)


def _scalar(token: str, dtype: DType) -> Any:
    """A number as MLIR writes it: hexadecimal ones are the bits of floats."""
    if "0x" in token:
        return np.frombuffer(int(token, 16).to_bytes(dtype.itemsize, "little"), dtype)[0]
    return np.asarray(float(token)).astype(dtype)[()]
