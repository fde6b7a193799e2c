"""Files of arrays in the format safetensors: a header of JSON, then the elements, which are read in place.

https://github.com/huggingface/safetensors describes it. Of complex dtypes it has none of 128 bits: complex arrays are written as
floats with a last dimension of 2, and the reader says what they are.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

Host = np.ndarray[Any, Any]

_NAMES: dict[str, np.dtype[Any]] = {
    "BOOL": np.dtype(np.bool_), "U8": np.dtype(np.uint8), "I8": np.dtype(np.int8), "U16": np.dtype(np.uint16),
    "I16": np.dtype(np.int16), "F16": np.dtype(np.float16), "BF16": np.dtype(ml_dtypes.bfloat16),
    "U32": np.dtype(np.uint32), "I32": np.dtype(np.int32), "F32": np.dtype(np.float32), "U64": np.dtype(np.uint64),
    "I64": np.dtype(np.int64), "F64": np.dtype(np.float64),
}  # fmt: skip
_OF_DTYPE = {dtype: name for name, dtype in _NAMES.items()}
_ALIGNMENT = 64


def _stored(x: Host) -> Host:
    x = np.ascontiguousarray(x).reshape(x.shape)
    return x.reshape(-1).view(x.real.dtype).reshape(*x.shape, 2) if x.dtype.kind == "c" else x


def write(path: Path, arrays: Mapping[str, Host]) -> None:
    """Write named arrays; the file appears when it is complete.

    Raises TypeError for a dtype that the format has not.
    """
    header: dict[str, Any] = {}
    start = 0
    for name, x in arrays.items():
        kind = x.real.dtype if x.dtype.kind == "c" else x.dtype
        if kind not in _OF_DTYPE:
            raise TypeError(f"{name}: arrays of dtype {x.dtype} cannot be stored")
        shape = (*x.shape, 2) if x.dtype.kind == "c" else x.shape
        header[name] = {"dtype": _OF_DTYPE[kind], "shape": list(shape), "data_offsets": [start, start + x.nbytes]}
        start += x.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-(len(text) + 8) % _ALIGNMENT)
    temporary = path.with_name(f"{path.name}.part")
    with open(temporary, "wb") as f:
        f.write(len(text).to_bytes(8, "little"))
        f.write(text)
        for x in arrays.values():
            f.write(_stored(x).reshape(-1).view(np.uint8).data)
        f.flush()
        os.fsync(f.fileno())
    os.replace(temporary, path)


def read(path: Path) -> dict[str, Host]:
    """The arrays of a file by name, as memory maps: elements are read when they are looked at.

    Raises ValueError for a file in another format, or one that ends early.
    """
    return dict(_read(path))


def _read(path: Path) -> Iterator[tuple[str, Host]]:
    size = path.stat().st_size
    with open(path, "rb") as f:
        length = int.from_bytes(f.read(8), "little")
        if size < 8 or length > size - 8:
            raise ValueError(f"{path} is no file of safetensors: it has {size} bytes, its header {length}")
        try:
            header = json.loads(f.read(length))
        except ValueError:
            raise ValueError(f"{path} is no file of safetensors: its header is no JSON") from None
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        start, stop = entry["data_offsets"]
        if 8 + length + stop > size:
            raise ValueError(f"{path} ends early: {name} is at {8 + length + start}, and there are {size} bytes")
        dtype, shape = _NAMES[entry["dtype"]], tuple(entry["shape"])
        if start == stop:
            yield name, np.empty(shape, dtype)
        else:
            yield name, np.memmap(path, dtype, "r", 8 + length + start, shape)


__all__ = ["read", "write"]
