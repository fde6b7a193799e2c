"""Type checks of the repository: pyright, strict on ir/ and passes/, basic on the rest.

The folders of the repository are packages of other names (frontend/ is `quire`), which a type checker does not know:
it is shown a folder of links, build/typecheck/quire, with the names that Python sees.

    python -m quire.tools.check_types [pyright options]
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("ir", "passes", "backends", "runtime", "tools")
STRICT = ("quire/ir", "quire/passes")
# MLIR's Python bindings are a compiled module whose names a type checker cannot see: all of them are of type Any.
UNTYPED = ("iree/compiler/ir", "iree/compiler/passmanager")


def make_links(folder: Path) -> None:
    """Fill the folder with links in the shape of the installed package, and pyright's configuration."""
    if folder.exists():
        shutil.rmtree(folder)
    package = folder / "quire"
    package.mkdir(parents=True)
    for entry in sorted((ROOT / "frontend").iterdir()):
        if entry.name != "__pycache__":
            (package / entry.name).symlink_to(entry)
    for name in PACKAGES:
        (package / name).symlink_to(ROOT / name)
    for module in UNTYPED:
        stub = folder / "typings" / f"{module}.pyi"
        stub.parent.mkdir(parents=True, exist_ok=True)
        stub.write_text("from typing import Any\n\ndef __getattr__(name: str) -> Any: ...\n")
    configuration = {
        # Links to folders are followed only where they are named.
        "include": ["quire", *(f"quire/{entry.name}" for entry in sorted(package.iterdir()) if entry.is_dir())],
        "strict": list(STRICT),
        "stubPath": "typings",
        "pythonVersion": "3.11",
        "reportMissingTypeStubs": False,
        "reportMissingModuleSource": False,
        # quire has private names that its own packages share.
        "reportPrivateUsage": False,
        # NumPy's and IREE's stubs leave parts of their types unknown; rules take values of any kind.
        "reportUnknownMemberType": False,
        "reportUnknownLambdaType": False,
        # matplotlib (the extra "report") need not be installed; the one import of it says so in its error.
        "reportMissingImports": "warning",
    }
    (folder / "pyrightconfig.json").write_text(json.dumps(configuration, indent=2))


def main(arguments: list[str] | None = None) -> int:
    """Run pyright; its exit code."""
    folder = ROOT / "build" / "typecheck"
    make_links(folder)
    options = sys.argv[1:] if arguments is None else arguments
    command = [sys.executable, "-m", "pyright", "--project", str(folder), "--pythonpath", sys.executable, *options]
    return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    raise SystemExit(main())
