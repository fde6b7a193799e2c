"""A process that runs test cases of one file of JAX's: names of cases come in, a line of JSON for each goes out."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import re
import signal
import sys
import time
import traceback
import unittest
import warnings
from pathlib import Path
from typing import Any

import ml_dtypes

from . import missing, shims


class CaseTimeout(BaseException):
    """A case took longer than its limit."""


def _on_alarm(signum: int, frame: Any) -> None:
    raise CaseTimeout


def load(path: Path) -> Any:
    """The module of a test file."""
    sys.path.insert(0, str(path.parent))
    for _ in range(100):
        try:
            return _load_once(path)
        except (AttributeError, ImportError) as error:
            if not _stood_in_for(str(error)):
                raise
    raise ImportError(f"{path}: too many names are absent")


_ABSENT = re.compile(
    r"module '(?P<module>[\w.]+)' has no attribute '(?P<name>\w+)'|"
    r"cannot import name '(?P<imported>\w+)' from '(?P<source>[\w.]+)'|No module named '(?P<path>(?:jax|jaxlib)\.[\w.]+)'"
)


def _stood_in_for(message: str) -> bool:
    """Let an absent public name be imported by a file, of which only the tests that use it are to fail."""
    found = _ABSENT.search(message)
    if found is None:
        return False
    source, name = found["module"] or found["source"], found["name"] or found["imported"]
    if found["path"]:
        source, _, name = found["path"].rpartition(".")
    module = importlib.import_module(source)
    stand_in = getattr(ml_dtypes, name, None) or missing.Missing(f"{source}.{name}", missing.AbsentError)
    setattr(module, name, stand_in)
    if found["path"]:
        modules: dict[str, Any] = sys.modules
        modules[found["path"]] = stand_in
    return True


def _load_once(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def cases_of(module: Any) -> list[str]:
    """The names of the file's cases, `Class.method`."""
    loader = unittest.TestLoader()
    found: list[str] = []
    for name, value in vars(module).items():
        if isinstance(value, type) and issubclass(value, unittest.TestCase) and value.__module__ == module.__name__:
            found += [f"{name}.{method}" for method in loader.getTestCaseNames(value)]
    return found


_PRIVATE_ATTRIBUTE = re.compile(
    r"^_\w+$|(has no attribute|cannot import name) '_|has no attribute '_src|no attribute '_cache|_src\.|"
    r"No module named 'jax(lib|\._src|\.interpreters|\.extend|\.experimental\.pallas)"
)


# Lines of tests that compare a text: of an error, a printed form, an XLA program, a name of JAX's in a traceback.
_TEXT_LINE = re.compile(
    r"check_raises\(|assertEqual\(repr\(|assertMultiLineStrippedEqual\(|assertIn\(.*, (hlo|msg|str\(x\.sharding\))\)|"
    r"assertIn\('Array\(|"
    r"assertRegex\(txt, r.optimization_barrier|assertEqual\(actual, expected\)$|s\.count\('rematted_computation'\)"
)
# XLA's programs and executables, which no other compiler has.
_XLA = re.compile(r"no stage is named 'hlo'|Unknown dialect: hlo|.*there is no executable of XLA")
# The depth of tracebacks, members of jitted functions' pickled state, XLA's client, JAX's classes of Python literals.
_INTERNAL_LINE = re.compile(
    r"self\.cur_depth\(\)|__getstate__\(\)|live_executables\(\)|literals\.Typed|count_primitive_compiles|ArrayImpl\.__name__"
)

_FEWER = re.compile(r"(\d+) != (\d+)$|Expected exactly (\d+) XLA compilations, but executed (\d+)")


def kind_of(error: BaseException, line: str = "") -> str:
    """internals, texts, absent (a public name is not there) or behaviour, also by the line of the test at which it was raised."""
    message = str(error)
    if _INTERNAL_LINE.search(line):
        return "internals"
    if isinstance(error, AssertionError) and message and _TEXT_LINE.search(line):
        return "texts"
    if (counted := _FEWER.match(message)) and int(counted[1] or counted[4]) < int(counted[2] or counted[3]):
        if "count" in line or "compilations" in line:  # JAX's events, of which quire has fewer: it compiles less
            return "internals"
    if isinstance(error, missing.InternalsError):
        return "internals"
    if ": not in quire>" in message or message.startswith("quire.Array is not made by calling it"):  # `ArrayImpl(...)`
        return "internals"
    if _XLA.match(message):
        return "texts"
    if isinstance(error, missing.AbsentError):
        return "absent"
    if isinstance(error, (AttributeError, ImportError)):
        if _PRIVATE_ATTRIBUTE.search(message):
            return "internals"
        if re.search(r"^module '(jax|quire)|No module named|cannot import name", message):
            return "absent"
    if isinstance(error, AssertionError):
        if '" does not match "' in message or re.match(r"'(sdy|mhlo|all-|stablehlo)[^']*' not found in ", message):
            return "texts"  # the second: of XLA's programs
        if message.startswith(
            ("Expected warning not found", "Exception message does not match", "Regex didn't match: 'PyTreeDef")
        ):
            return "texts"
    return "behaviour"


def _places(error: BaseException, tests: Path) -> tuple[str, str]:
    """The innermost lines of the tests and of quire on the way to the error."""
    own = quires = ""
    for frame in traceback.extract_tb(error.__traceback__):
        if Path(frame.filename).parent == tests:
            own = f"{Path(frame.filename).name}:{frame.lineno}: {frame.line}"
        elif "/frontend/" in frame.filename or "/passes/" in frame.filename or "/ir/" in frame.filename:
            quires = f"{'/'.join(Path(frame.filename).parts[-3:])}:{frame.lineno}: {frame.line}"
    return own, quires


def run(module: Any, name: str, limit: float, tests: Path) -> dict[str, Any]:
    """One case: its outcome, and what went wrong."""
    class_name, method = name.split(".", 1)
    start = time.perf_counter()
    result: dict[str, Any] = {"case": name, "outcome": "pass"}
    errors: list[BaseException] = []
    skips: list[str] = []

    class Result(unittest.TestResult):
        def addError(self, test: Any, err: Any) -> None:
            errors.append(err[1])

        addFailure = addError

        def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:
            if err is not None:
                errors.append(err[1])

        def addSkip(self, test: Any, reason: str) -> None:
            skips.append(reason)

    signal.signal(signal.SIGALRM, _on_alarm)
    missing.running[0] = True
    try:
        cls = getattr(module, class_name)
        if not getattr(cls, "_quire_set_up", False):
            cls.setUpClass()
            cls._quire_set_up = True
        signal.setitimer(signal.ITIMER_REAL, limit)
        try:
            cls(method)(Result())
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    except CaseTimeout:
        result |= {"outcome": "timeout", "kind": "behaviour", "type": "timeout", "message": f"more than {limit} s"}
    except BaseException as error:
        errors.append(error)
    finally:
        missing.running[0] = False
    if errors and isinstance(errors[0], CaseTimeout):
        result |= {"outcome": "timeout", "kind": "behaviour", "type": "timeout", "message": f"more than {limit} s"}
    elif errors:
        error = errors[0]
        own, quires = _places(error, tests)
        result |= {
            "outcome": "fail",
            "kind": kind_of(error, own),
            "type": type(error).__name__,
            "message": str(error)[:1500],
            "test_line": own,
            "quire_line": quires,
        }
    elif skips:
        result |= {"outcome": "skip", "message": skips[0]}
    result["seconds"] = round(time.perf_counter() - start, 2)
    return result


def main(arguments: list[str]) -> int:
    """``worker CHECKOUT FILE LIMIT``: names on stdin, results on the file descriptor that stdout was."""
    checkout, file, limit = Path(arguments[0]), arguments[1], float(arguments[2])
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what tests print must not come between the results

    def say(value: Any) -> None:
        out.write(json.dumps(value) + "\n")
        out.flush()

    warnings.simplefilter("ignore")
    tests = checkout / "tests"
    try:
        shims.install(checkout)
        sys.argv = [file]
        from absl import flags  # type: ignore[import-not-found]

        flags.FLAGS([file])
        from jax._src import test_util  # type: ignore[import-not-found]  # noqa: F401

        module = load(tests / f"{file}.py")
        say({"cases": cases_of(module)})
    except BaseException as error:
        own, quires = _places(error, tests)
        say({"failed": f"{type(error).__name__}: {error}", "test_line": own, "quire_line": quires})
        traceback.print_exc()
        return 1
    for line in sys.stdin:
        say(run(module, json.loads(line), limit, tests))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
