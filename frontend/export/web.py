"""Folders for JavaScript: model.mjs, and model.wasm with the kernels."""

from __future__ import annotations

import shutil
import subprocess
import warnings
from collections.abc import Sequence
from pathlib import Path

from quire.backends.export import build_files, c_check, c_program, javascript
from quire.backends.export.host import Model
from quire.backends.export.linking import imports, link_wasm
from quire.backends.export.targets import ExportTarget
from quire.ir.errors import ExportError

from .folders import Folder, put
from .programs import Example


def write_javascript(
    folder: Path, examples: Sequence[Example], model: Model, target: ExportTarget, check: bool
) -> Folder:
    """Write the files of a model, and run its check by node where it is here.

    Raises:
        ExportError: the kernels call a function of the C library that JavaScript lacks, or the check is not right.
    """
    kernels = link_wasm(model.functions)
    unknown = sorted(set(imports(kernels)) - javascript.KNOWN)
    if unknown:
        raise ExportError(
            f"{model.name}: its kernels call {', '.join(unknown)} of the C library, which the exported JavaScript does not "
            "have; write the function with float32 arrays, or in other operations"
        )
    files: dict[str, str | bytes] = {
        "model.mjs": javascript.program(model),
        "model.wasm": kernels,
        "check.mjs": javascript.check(model, [e.rounding for e in examples]),
        "check.bin": c_check.data([e.arguments for e in examples], [e.results for e in examples]),
    }
    if model.weights.data:
        files["weights.bin"] = c_program.weights_file(model)
    sizes = put(folder, files)
    sizes |= put(folder, {"manifest.json": build_files.manifest(model, target, "javascript", sizes)})
    return Folder(folder, sizes, check and _run_check(folder))


def _run_check(folder: Path) -> bool:
    """Run the check by node; False, with a warning, where there is none. Raises ExportError where it is not right."""
    node = shutil.which("node")
    if node is None:
        warnings.warn(f"quire.export: {folder} is written, and not checked: there is no node here", stacklevel=4)
        return False
    told = subprocess.run([node, "check.mjs"], cwd=folder, capture_output=True, text=True, check=False)
    if told.returncode:
        raise ExportError(f"{folder}: the exported program does not give quire's results: {told.stderr.strip()[:2000]}")
    return True
