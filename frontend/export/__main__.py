"""``python -m quire.export script.py:f --args ... --to DIR``: write a folder with which C or JavaScript runs a function."""

from __future__ import annotations

import argparse
import sys
import traceback
import warnings
from pathlib import Path

from quire.backends.export.targets import DEFAULT, EXPORT_TARGETS, export_target

from .folders import Folder, c, javascript
from .scripts import InputError, arguments_of, as_script, function_of, message_of

_EPILOG = """\
examples:
  python -m quire.export model.py:predict --args 'f32[8,784]' --to predict
  python -m quire.export model.py:predict --args "{'w': f32[3], 'b': 0.5}" 'x=np.ones((8, 3))' --to predict --target aarch64
  python -m quire.export model.py:predict --args 'f32[1,784]' --to web --target wasm32

Arguments are types or Python expressions with the script's names; of types the check takes random numbers.
"""


def parser() -> argparse.ArgumentParser:
    """The command line."""
    p = argparse.ArgumentParser(
        "python -m quire.export",
        description=__doc__,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    p.add_argument("source", metavar="SCRIPT.py:FUNCTION")
    p.add_argument(
        "--args", nargs="*", default=[], metavar="ARG", help="the function's arguments: types or expressions"
    )
    p.add_argument("--to", required=True, metavar="DIR", help="the folder, which is made if it is not there")
    p.add_argument("--target", default=DEFAULT, choices=["host", *EXPORT_TARGETS], help=f"default: {DEFAULT}")
    p.add_argument("--name", help="the prefix of names in C; default: the function's")
    p.add_argument("--threads", type=int, default=0, metavar="N", help="spread workgroups over N threads (C)")
    p.add_argument("--no-check", action="store_true", help="do not compile and run the written program")
    p.add_argument("--traceback", action="store_true", help="print Python's traceback of an error, too")
    return p


def run(words: list[str]) -> Folder:
    """Export as the command line says. Raises InputError, what the export raises, and what the script raises."""
    options = parser().parse_args(words)
    path, colon, function = options.source.rpartition(":")
    if not colon or not path.endswith(".py"):
        raise InputError(f"{options.source}: name a function of a script, as model.py:predict")
    if not Path(path).is_file():
        raise InputError(f"no file {path}")
    with as_script(Path(path).absolute(), ()):
        f, names = function_of(path, function)
        args, kwargs = arguments_of(options.args, names)
    told = {"to": options.to, "name": options.name, "check": not options.no_check}
    if export_target(options.target).language == "javascript":
        if options.threads:
            raise InputError("--threads is for C")
        return javascript(f, *args, **told, **kwargs)
    return c(f, *args, target=options.target, threads=options.threads, **told, **kwargs)


def main(words: list[str]) -> int:
    """The command: 0 if the folder is written and right."""
    warnings.simplefilter("always")
    warnings.showwarning = lambda message, *_: print(message, file=sys.stderr)
    try:
        folder = run(words)
    except Exception as error:
        if "--traceback" in words:
            traceback.print_exc()
        print(f"python -m quire.export: {message_of(error)}", file=sys.stderr)
        return 1
    for name, size in folder.files.items():
        print(f"{size:>10}  {folder.path / name}")
    print("checked: it gives quire's results" if folder.checked else "not checked")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
