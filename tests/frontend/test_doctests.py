"""The examples in docstrings: each runs and gives what it says."""

from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil
import types
from collections.abc import Iterator

import numpy as np
import pytest

import quire
import quire.lax
import quire.numpy

FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
_OTHERS = {"ir", "passes", "backends", "runtime", "tools", "as_jax"}  # to import as_jax puts quire in jax's place


def packages(package: str) -> Iterator[str]:
    """The package, and the packages within it, of which none of the others is imported."""
    yield package
    for info in pkgutil.iter_modules(importlib.import_module(package).__path__, package + "."):
        if info.ispkg and info.name.split(".")[1] not in _OTHERS:
            yield from packages(info.name)


PACKAGES = list(packages("quire"))


def module_names(package: str) -> Iterator[str]:
    """The package and its modules, without those of nested packages that stand on their own."""
    root = importlib.import_module(package)
    yield package
    for info in pkgutil.iter_modules(root.__path__, package + "."):
        if not info.ispkg and not info.name.endswith("__main__"):
            yield info.name


def owned(module: types.ModuleType) -> Iterator[tuple[str, object]]:
    """The objects with docstrings that the module's file defines, also those made by factories and named `quire.numpy`."""
    yield module.__name__, module
    named = getattr(module, "__all__", None) or [n for n in vars(module) if not n.startswith("_")]
    for name in named:
        value = vars(module).get(name)
        home = getattr(value, "__module__", None)
        if inspect.isclass(value) and home == module.__name__:
            yield name, value
            for method, function in vars(value).items():
                if inspect.isfunction(function) or isinstance(function, property):
                    yield f"{name}.{method}", function
        elif callable(value) and not inspect.isclass(value):
            code = getattr(inspect.unwrap(value), "__code__", None)
            if home == module.__name__ or code is not None and code.co_filename == module.__file__:
                yield name, value


MODULES = [name for package in PACKAGES for name in module_names(package)]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name):
    module = importlib.import_module(name)
    parser, failures = doctest.DocTestParser(), []
    for label, value in owned(module):
        text = inspect.getdoc(value)
        if not text or ">>>" not in text:
            continue
        names = {"quire": quire, "np": np, "numpy": np}
        test = parser.get_doctest(text, names, f"{name}.{label}", module.__file__, None)
        runner = doctest.DocTestRunner(verbose=False, optionflags=FLAGS)
        runner.run(test, out=failures.append)
    assert not failures, "".join(failures)


def test_examples_are_found():
    counted = 0
    for name in ("quire.numpy.reductions", "quire.numpy.shapes", "quire.numpy.joining", "quire.numpy.parts"):
        module = importlib.import_module(name)
        counted += sum(">>>" in (inspect.getdoc(v) or "") for _, v in owned(module))
    assert counted > 60
