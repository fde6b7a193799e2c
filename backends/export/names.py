"""Names and types of other languages for paths and dtypes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from types import MappingProxyType

from quire.ir import dtypes
from quire.ir.dtypes import DType

_C_WORDS = frozenset(
    "auto break case char const continue default do double else enum extern float for goto if inline int long register "
    "restrict return short signed sizeof static struct switch typedef union unsigned void volatile while bool true false "
    "class new delete this template typename namespace public private protected virtual operator using try catch throw "
    "var let function export import in of typeof yield await null main errno stdin stdout stderr".split()
)
"""Words that names must not be, in C, C++ and JavaScript."""

_OWN = re.compile(r"c|context|weights|arena|[arvuo]\d+|new_v\d+|q_\w*")
"""Names that the printed functions use themselves."""

C_TYPES = MappingProxyType(
    {
        "bool": "uint8_t", "int8": "int8_t", "int16": "int16_t", "int32": "int32_t", "int64": "int64_t", "uint8": "uint8_t",
        "uint16": "uint16_t", "uint32": "uint32_t", "uint64": "uint64_t", "float16": "uint16_t", "bfloat16": "uint16_t",
        "float32": "float", "float64": "double", "complex64": "float", "complex128": "double",
    }
)  # fmt: skip
"""The C type of an element; of a complex number that of each of its two parts. Of half floats it is their bits."""
JS_TYPES = MappingProxyType(
    {
        "bool": "Uint8Array", "int8": "Int8Array", "int16": "Int16Array", "int32": "Int32Array", "int64": "BigInt64Array",
        "uint8": "Uint8Array", "uint16": "Uint16Array", "uint32": "Uint32Array", "uint64": "BigUint64Array",
        "float16": "Uint16Array", "bfloat16": "Uint16Array", "float32": "Float32Array", "float64": "Float64Array",
        "complex64": "Float32Array", "complex128": "Float64Array",
    }
)  # fmt: skip
"""The typed array of JavaScript that holds an array."""
NOTES = MappingProxyType(
    {
        "bool": "0 or 1", "float16": "bits of IEEE half floats", "bfloat16": "the upper halves of floats' bits",
        "complex64": "real and imaginary parts in turn", "complex128": "real and imaginary parts in turn",
    }
)  # fmt: skip


def parts(dtype: DType) -> int:
    """How many numbers an element is in C."""
    return 2 if dtype.kind == "c" else 1


def identifier(text: str) -> str:
    """A name for a path: ``params['w'][0]`` is ``params_w_0``."""
    name = re.sub(r"[^0-9A-Za-z]+", "_", text).strip("_") or "x"
    if name[0].isdigit():
        name = "_" + name
    return name + "_" if name in _C_WORDS or _OWN.fullmatch(name) else name


def unique(names: Iterable[str], taken: Iterable[str] = ()) -> list[str]:
    """The names, those that appear before with a number behind. Upper and lower case are alike: macros are upper case."""
    known = {name.lower() for name in taken}
    out: list[str] = []
    for name in names:
        own, number = name, 1
        while own.lower() in known:
            number += 1
            own = f"{name}_{number}"
        known.add(own.lower())
        out.append(own)
    return out


def type_text(dtype: DType, shape: Sequence[int]) -> str:
    """As quire prints types: ``f32[8,784]``."""
    return f"{dtypes.SHORT[dtype]}[{','.join(map(str, shape))}]"
