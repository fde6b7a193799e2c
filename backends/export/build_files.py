"""The files beside the program: Makefile, CMakeLists.txt, manifest.json and a loader for Python without quire."""

from __future__ import annotations

import json
from typing import Any

from .c_header import SMALL
from .host import Function, Leaf, Model
from .names import type_text
from .targets import ExportTarget


def objects(model: Model) -> list[str]:
    """The names of the kernels' objects."""
    return [f"{f.name}_kernels.o" for f in model.functions if f.host["kernels"]]


def makefile(model: Model, target: ExportTarget) -> str:
    """The text of the Makefile: `make` builds the check, `make lib` a shared library."""
    kernels = " ".join(objects(model))
    threads = " -pthread" if model.threads else ""
    return f"""\
# {model.name}: written by quire {model.version} for {target.name}.
CC = {target.compiler}
CFLAGS = -O2 -std={"c11" if model.threads else "c99"} -Wall -Wextra{threads}
KERNELS = {kernels}

check: check.o model.o $(KERNELS)
\t$(CC) $(CFLAGS) $(LDFLAGS) -o $@ check.o model.o $(KERNELS) -lm

lib{model.name}.so: model.c model.h $(KERNELS)
\t$(CC) $(CFLAGS) -fPIC -shared $(LDFLAGS) -o $@ model.c $(KERNELS) -lm

lib: lib{model.name}.so
test: check
\t./check
%.o: %.c model.h
\t$(CC) $(CFLAGS) -c -o $@ $<
clean:
\trm -f check check.o model.o lib{model.name}.so
.PHONY: lib test clean
"""


def cmake(model: Model, target: ExportTarget) -> str:
    """The text of CMakeLists.txt: a library, and a test."""
    del target
    kernels = "\n  ".join(f"${{CMAKE_CURRENT_SOURCE_DIR}}/{o}" for o in objects(model))
    threads = (
        f"find_package(Threads REQUIRED)\ntarget_link_libraries({model.name} PUBLIC Threads::Threads)\n"
        if model.threads
        else ""
    )
    return f"""\
cmake_minimum_required(VERSION 3.10)
project({model.name} C)
set(CMAKE_C_STANDARD {"11" if model.threads else "99"})
add_library({model.name} STATIC model.c
  {kernels})
target_include_directories({model.name} PUBLIC ${{CMAKE_CURRENT_SOURCE_DIR}})
target_link_libraries({model.name} PUBLIC m)
{threads}add_executable(check check.c)
target_link_libraries(check {model.name})
enable_testing()
add_test(NAME check COMMAND check WORKING_DIRECTORY ${{CMAKE_CURRENT_SOURCE_DIR}})
"""


def _leaf(leaf: Leaf) -> dict[str, Any]:
    return {
        "name": leaf.name, "path": leaf.path, "type": type_text(leaf.dtype, leaf.shape), "dtype": leaf.dtype.name,
        "shape": list(leaf.shape), "bytes": leaf.nbytes,
    }  # fmt: skip


def _function(f: Function, language: str) -> dict[str, Any]:
    results: list[dict[str, Any]] = []
    for i, leaf in enumerate(f.results):
        inside = f.in_place(i)
        results.append(
            {**_leaf(leaf), **({} if inside is None or language != "c" else {"in_place_of": f.arguments[inside].name})}
        )
    return {
        "name": f.name,
        "symbol": f.symbol,
        "arguments": [{**_leaf(x), "donated": x.donated} for x in f.arguments],
        "results": results,
        "kernels": [k["name"] for k in f.host["kernels"]],
        "arena_bytes": f.arena,
    }


def manifest(model: Model, target: ExportTarget, language: str, files: dict[str, int]) -> str:
    """The text of manifest.json: names, types, sizes, target and version."""
    told = {
        "name": model.name,
        "quire": model.version,
        "language": language,
        "target": {"name": target.name, "triple": target.triple, "cpu": target.cpu, "features": target.features},
        "threads": model.threads,
        "weights_bytes": len(model.weights.data),
        "weights": f"{model.identity:016x}",
        "arena_bytes": model.arena,
        "workgroup_bytes": model.local,
        "functions": [_function(f, language) for f in model.functions],
        "files": files,
    }
    return json.dumps(told, indent=1) + "\n"


_LOADER = '''\
"""{name} in Python, by NumPy and ctypes: `make lib`, then ``import loader; loader.call("{first}", x, ...)``."""

import ctypes, json, pathlib
import numpy as np

_here = pathlib.Path(__file__).resolve().parent
_told = {{f["name"]: f for f in json.loads((_here / "manifest.json").read_text())["functions"]}}
_lib, _context = ctypes.CDLL(str(_here / "lib{name}.so")), ctypes.c_void_p()
_lib.{name}_message.restype = _lib.{name}_detail.restype = ctypes.c_char_p
_code = _lib.{name}_create(ctypes.byref(_context), {weights})
if _code: raise RuntimeError(_lib.{name}_message(_code).decode())


def call(function, *arguments):
    """The results of a function, in its order; donated arguments hold theirs.

    Raises ValueError for a function that is not there, and where number, types, shapes or overlaps of arguments are not the function's.
    """
    if function not in _told:
        raise ValueError(f"there is no function {{function!r}}: there are {{', '.join(_told)}}")
    f = _told[function]
    if len(arguments) != len(f["arguments"]):
        raise ValueError(f"{{function}}: {{len(arguments)}} arguments given, {{len(f['arguments'])}} expected")
    own = [r for r in f["results"] if "in_place_of" not in r]
    results = [np.empty(r["shape"], _dtype(r["dtype"])) for r in own]
    groups = [[_array(*pair) for pair in zip(arguments, f["arguments"])], results]
    given = [v for g in groups for v in ((ctypes.c_void_p * len(g))(*(x.ctypes.data for x in g)),
                                         (ctypes.c_size_t * len(g))(*(x.nbytes for x in g)), ctypes.c_size_t(len(g)))]
    code = _lib[f["symbol"] + "_checked"](_context, *given)
    if code: raise ValueError(_lib.{name}_message(code).decode() + ": " + _lib.{name}_detail(_context).decode())
    places = {{a["name"]: x for a, x in zip(f["arguments"], groups[0])}}
    rest = iter(results)
    return [places[r["in_place_of"]].reshape(r["shape"]) if "in_place_of" in r else next(rest) for r in f["results"]]


def _dtype(name):
    return np.dtype("uint16" if name == "bfloat16" else name)


def _array(x, told):
    """An argument as its function takes it: bytes of another type would be read as numbers that they are not."""
    x, shape = np.asarray(x), tuple(told["shape"])
    if x.dtype.name == told["dtype"] == "bfloat16":
        x = x.view("uint16")
    if x.dtype != _dtype(told["dtype"]) or x.shape != shape:
        raise ValueError(f"{{told['name']}}: expected {{told['dtype']}} of shape {{shape}}, got {{x.dtype}} of shape {{x.shape}}: "
                         "convert it, as by numpy.asarray(x, dtype)")
    if told["donated"] and not x.flags.writeable:
        raise ValueError(f"{{told['name']}}: its memory is written to, and the array is read-only: give a copy")
    return np.ascontiguousarray(x)
'''


def loader(model: Model) -> str:
    """The text of loader.py."""
    weights = 'str(_here / "weights.bin").encode()' if len(model.weights.data) > SMALL else "None"
    return _LOADER.format(name=model.name, first=model.functions[0].name, weights=weights)
