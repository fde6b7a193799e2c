"""``python -m quire.as_jax script.py args...`` and ``-m module args...``: run a program that imports jax on quire."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

_USAGE = (
    "usage: python -m quire.as_jax SCRIPT.py [ARGUMENT ...]\n       python -m quire.as_jax -m MODULE [ARGUMENT ...]"
)


def main(arguments: list[str]) -> int:
    """Run the script or module that the arguments name, as Python itself would; its exit is this process's."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_USAGE, file=sys.stderr if not arguments else sys.stdout)
        return 0 if arguments else 2
    if arguments[0] == "-m":
        if len(arguments) < 2:
            print(f"{_USAGE}\nno module is named after -m", file=sys.stderr)
            return 2
        sys.argv = arguments[1:]
        # As `python -m` does: modules of the current folder are found first.
        sys.path.insert(0, str(Path.cwd()))
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        return 0
    script = Path(arguments[0])
    if not script.is_file():
        print(f"{_USAGE}\nthere is no file {arguments[0]!r}", file=sys.stderr)
        return 2
    sys.argv = arguments
    sys.path.insert(0, str(script.resolve().parent))
    runpy.run_path(str(script), run_name="__main__")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
