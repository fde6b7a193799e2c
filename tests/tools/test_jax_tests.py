"""The runner of JAX's test files, on a small checkout of the same shape."""

import json
import subprocess
import sys

import pytest

TEST_UTIL = """
import unittest
class JaxTestCase(unittest.TestCase):
    pass
"""

TEST_FILE = """
import unittest
import os
import jax
from jax import no_such_module
from jax._src import test_util as jtu
from jax._src import config, internal_table
jax.config.parse_flags_with_absl()

class Cases(jtu.JaxTestCase):
    def test_passes(self):
        self.assertEqual(float(jax.numpy.add(1.0, 2.0)), 3.0)
    def test_setting(self):
        with config.enable_x64(True):
            self.assertEqual(jax.numpy.ones(2).dtype, "float64")
        self.assertFalse(config.enable_x64.value)
    def test_behaviour(self):
        self.assertEqual(float(jax.numpy.add(1.0, 2.0)), 4.0)
    def test_text(self):
        with self.assertRaisesRegex(TypeError, "no error says this"):
            jax.numpy.add(1.0)
    def test_internals(self):
        internal_table.lookup("x")
    def test_absent(self):
        no_such_module.f()
    def test_skipped(self):
        raise unittest.SkipTest("not here")
    def test_ends_the_process(self):
        os._exit(7)
    def test_passes_after(self):
        pass
    def test_takes_too_long(self):
        import time
        time.sleep(60)
"""


def test_outcomes_and_kinds(tmp_path):
    pytest.importorskip("absl", reason="the runner reads JAX's flags with absl")
    private = tmp_path / "jax/_src"
    private.mkdir(parents=True)
    (private / "test_util.py").write_text(TEST_UTIL)
    (private / "internal_table.py").write_text("")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/small_test.py").write_text(TEST_FILE)
    output = tmp_path / "results.json"
    command = [sys.executable, "-m", "quire.tools.jax_tests", str(tmp_path), "small_test", "--limit", "2", "-o", output]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    (report,) = json.loads(output.read_text())
    found = {r["case"].removeprefix("Cases.test_"): (r["outcome"], r.get("kind")) for r in report["results"]}
    assert found == {
        "passes": ("pass", None),
        "setting": ("pass", None),
        "behaviour": ("fail", "behaviour"),
        "text": ("fail", "texts"),
        "internals": ("fail", "internals"),
        "absent": ("fail", "absent"),
        "skipped": ("skip", None),
        "ends_the_process": ("crash", "behaviour"),
        "passes_after": ("pass", None),
        "takes_too_long": ("timeout", "behaviour"),
    }
    assert "42.9 %  3/7 of 10; 1 skipped" in done.stdout
