"""The user's lines that operations of a module come from, as MLIR's locations tell.

Imported by the worker, beside which it lies.
"""

from __future__ import annotations

import ctypes

import mlir_c

TYPE_CHECKING = False
if TYPE_CHECKING:  # `typing` takes longer to import than all else here
    from collections.abc import Iterator

_p = ctypes.c_void_p
MOST = 6
"""So many lines of one file are told at most: a kernel may be made of a hundred equations."""

# name: (result, arguments), as declared in mlir-c/IR.h
_SIGNATURES = {
    "mlirLocationCallSiteGetCallee": (_p, [_p]),
    "mlirLocationCallSiteGetCaller": (_p, [_p]),
    "mlirLocationFileLineColRangeGetFilename": (_p, [_p]),
    "mlirLocationFileLineColRangeGetStartLine": (ctypes.c_int, [_p]),
    "mlirLocationFusedGetLocations": (None, [_p, _p]),
    "mlirLocationFusedGetNumLocations": (ctypes.c_uint, [_p]),
    "mlirLocationIsACallSite": (ctypes.c_bool, [_p]),
    "mlirLocationIsAFileLineColRange": (ctypes.c_bool, [_p]),
    "mlirLocationIsAFused": (ctypes.c_bool, [_p]),
    "mlirLocationIsAName": (ctypes.c_bool, [_p]),
    "mlirLocationNameGetChildLoc": (_p, [_p]),
}


class UserLines:
    """Locations of one module as text, ``model.py:12,14``; several files are separated by ``; ``."""

    def __init__(self, mlir: mlir_c.Mlir) -> None:
        self.mlir = mlir
        self.known: dict[int, str] = {}
        for name, (result, arguments) in _SIGNATURES.items():
            if not hasattr(mlir, name):
                function = getattr(mlir.library, name)
                function.restype, function.argtypes = result, arguments
                setattr(mlir, name, function)

    def of_operation(self, op: int) -> str:
        """Those of one operation; empty where it has none."""
        location = self.mlir.mlirOperationGetLocation(op)
        found = self.known.get(location)
        if found is None:
            found = self.known[location] = self.of_location(location)
        return found

    def of_location(self, location: int) -> str:
        """The lines of a location, file by file: ``model.py:3,7``; empty where it names none."""
        files: dict[str, list[int]] = {}
        for file, line in self.parts(location):
            lines = files.setdefault(file, [])
            if line not in lines:
                lines.append(line)
        return "; ".join(
            f"{file}:{','.join(map(str, sorted(lines)[:MOST]))}{',...' if len(lines) > MOST else ''}"
            for file, lines in files.items()
        )

    def parts(self, location: int) -> Iterator[tuple[str, int]]:
        """The files and lines within a location. Those of the texts of kernels, which have no file, are left out."""
        mlir = self.mlir
        if mlir.mlirLocationIsAFileLineColRange(location):
            name = mlir.mlirLocationFileLineColRangeGetFilename(location)
            file = mlir_c.content(mlir.mlirIdentifierStr(name)).decode("utf-8", "replace")
            if file not in ("-", "module.mlir", ""):
                yield file, mlir.mlirLocationFileLineColRangeGetStartLine(location)
        elif mlir.mlirLocationIsAName(location):
            yield from self.parts(mlir.mlirLocationNameGetChildLoc(location))
        elif mlir.mlirLocationIsACallSite(location):
            yield from self.parts(mlir.mlirLocationCallSiteGetCallee(location))
            yield from self.parts(mlir.mlirLocationCallSiteGetCaller(location))
        elif mlir.mlirLocationIsAFused(location):
            count = mlir.mlirLocationFusedGetNumLocations(location)
            inner = (_p * count)()
            mlir.mlirLocationFusedGetLocations(location, inner)
            for part in inner:
                if part:
                    yield from self.parts(part)
