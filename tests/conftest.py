"""The suite runs with its own compile cache, so that it tests the compiler and not what an earlier run left."""

from __future__ import annotations

import os
import tempfile

import pytest

# Before quire is imported: the cache is private to the run unless a folder is named.
if "QUIRE_CACHE_DIR" not in os.environ:
    os.environ["QUIRE_CACHE_DIR"] = tempfile.mkdtemp(prefix="quire-test-cache-")


@pytest.fixture
def x64():
    """64-bit dtypes for one test."""
    from quire.ir.config import config

    with config.override(enable_x64=True):
        yield
