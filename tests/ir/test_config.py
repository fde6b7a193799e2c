"""The configuration: defaults, JAX's names, overrides, errors."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import quire
from quire.ir.config import Config, Options


def test_jax_names_are_accepted():
    config = Config(Options())
    config.update("jax_enable_x64", True)
    assert config.enable_x64 is True
    assert config.jax_enable_x64 is True
    config.update("threefry_partitionable", False)
    assert config.jax_threefry_partitionable is False


def test_unknown_options_suggest_the_nearest():
    with pytest.raises(AttributeError, match="no option 'enable_x46'; did you mean 'enable_x64'"):
        quire.config.update("enable_x46", True)
    with pytest.raises(AttributeError, match="the options are"):
        quire.config.something_else  # noqa: B018


def test_wrong_values_are_errors():
    with pytest.raises(ValueError, match="numpy_rank_promotion: got 'maybe', expected one of allow, warn, raise"):
        quire.config.update("numpy_rank_promotion", "maybe")
    with pytest.raises(AttributeError, match=r"write config.update\('enable_x64', True\)"):
        quire.config.enable_x64 = True


def test_an_override_ends_with_its_block_and_stays_in_its_thread():
    seen = []
    with quire.config.override(enable_x64=True):
        thread = threading.Thread(target=lambda: seen.append(quire.config.enable_x64))
        thread.start()
        thread.join()
        assert quire.config.enable_x64
        with quire.config.override(jax_debug_nans=True):
            assert quire.config.enable_x64 and quire.config.debug_nans
    assert not quire.config.enable_x64
    assert seen == [False]


def test_traced_options_are_in_the_key_and_others_are_not():
    base = Options()
    assert Options(enable_x64=True).trace_key != base.trace_key
    assert Options(verify_each=True).trace_key == base.trace_key


def test_environment_variables_set_the_defaults():
    code = "import quire, numpy as np; print(quire.compile(lambda x: x * 2)(np.arange(3.)).dtype)"
    for value, want in (("1", "float64"), ("0", "float32")):
        environment = {**os.environ, "QUIRE_ENABLE_X64": value}
        out = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        assert out.stdout.strip() == want


def test_x64_gives_64_bit_types():
    with quire.config.override(enable_x64=True):
        assert quire.numpy.arange(3).dtype == np.int64
        assert quire.numpy.ones(3).dtype == np.float64
    assert quire.numpy.arange(3).dtype == np.int32
