"""When the compiler's process starts."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

IMPORT = "import quire; from quire.backends.iree import service; print(service._service is not None)"


def started(folder, **environment: str) -> bool:
    """Whether the import of quire has started it, with this folder of cached programs."""
    variables = {**os.environ, "QUIRE_CACHE_DIR": str(folder), **environment}
    run = subprocess.run([sys.executable, "-c", IMPORT], env=variables, capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr
    return run.stdout.strip() == "True"


@pytest.fixture
def used(tmp_path):
    """A cache with a program in it."""
    (tmp_path / "programs" / "ab").mkdir(parents=True)
    return tmp_path


def test_with_the_import_where_nothing_is_cached(tmp_path):
    assert started(tmp_path, QUIRE_CACHE="1")


def test_with_the_first_compile_where_programs_are_cached(used):
    assert not started(used, QUIRE_CACHE="1")


def test_with_the_import_where_the_cache_is_off(used):
    assert started(used, QUIRE_CACHE="0")


def test_not_before_the_first_compile_if_so_asked(tmp_path):
    assert not started(tmp_path, QUIRE_CACHE="1", QUIRE_EARLY_COMPILER="0")


def test_the_cache_may_be_named_after_the_import(tmp_path):
    code = f"""import os, quire
os.environ["QUIRE_CACHE_DIR"] = {str(tmp_path / "later")!r}
from quire.runtime.compile_cache import compile_cache
print(compile_cache().folder)"""
    variables = {**os.environ, "QUIRE_CACHE_DIR": str(tmp_path / "before"), "QUIRE_EARLY_COMPILER": "1"}
    run = subprocess.run([sys.executable, "-c", code], env=variables, capture_output=True, text=True, timeout=120)
    assert run.stdout.strip() == str(tmp_path / "later" / "programs"), run.stderr
