"""The import hook: programs that import jax run on quire. Each in a process of its own, since an import is for ever."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

_PROGRAM = """
import jax
import jax.numpy as jnp
from jax import lax, tree_util
from importlib.metadata import version
import quire, quire.numpy
assert jnp is quire.numpy and lax is quire.lax and jax.Array is quire.Array
assert jax.__version__ == version("jax") and jax.__version_info__ >= (0, 10, 0)
assert "quire" in repr(jax)
x = jax.jit(jax.grad(lambda x: jnp.sum(jnp.sin(x))))(jnp.arange(3.0))
assert isinstance(x, jax.Array)
print(x)
"""


def _run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, timeout=300, env={**os.environ, **environment}
    )


def test_a_program_that_imports_jax_runs_in_each_of_the_ways(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(_PROGRAM + "import sys; print(sys.argv[1:])\n")
    ran = _run("-m", "quire.as_jax", str(script), "one", "--two")
    assert ran.returncode == 0, ran.stderr
    assert "0.5403" in ran.stdout and ran.stdout.endswith("['one', '--two']\n")
    ran = _run("-c", "import quire.as_jax\n" + _PROGRAM)
    assert ran.returncode == 0 and "0.5403" in ran.stdout, ran.stderr


def test_a_real_jax_that_is_imported_already_is_not_replaced() -> None:
    ran = _run("-c", "import sys, types; sys.modules['jax'] = types.ModuleType('jax'); import quire.as_jax")
    assert ran.returncode == 1
    assert "quire.as_jax: the real jax is imported already" in ran.stderr
    assert "python -m quire.as_jax" in ran.stderr


def test_absent_names_are_import_and_attribute_errors_and_are_told_when_asked() -> None:
    program = """
import quire.as_jax
import jax
try:
    import jax.no_such_module
except ModuleNotFoundError as error:
    print(error)
try:
    from jax import no_such_name
except ImportError as error:
    print(error)
assert not hasattr(jax, "no_such_name")
"""
    ran = _run("-c", program, QUIRE_AS_JAX_REPORT="1")
    assert ran.returncode == 0, ran.stderr
    assert "No module named 'jax.no_such_module': quire.as_jax answers for jax" in ran.stdout
    assert "cannot import name 'no_such_name'" in ran.stdout
    assert ran.stderr.count("jax.no_such_name") == 1 and "  jax.no_such_module\n" in ran.stderr
    assert _run("-c", program).stderr == ""


def test_formats_and_the_registry_of_pytrees() -> None:
    """What checkpoint libraries put arrays by, and what geometry libraries walk trees by."""
    program = """
import quire.as_jax
import jax
from jax._src.tree_util import _registry
from jax.experimental.layout import Format, Layout
x = jax.device_put(jax.numpy.arange(3.0), Format(Layout((0,)), jax.devices()[0]))
assert x.devices() == {jax.devices()[0]} and jax.device_put(x, Format()).tolist() == [0, 1, 2]
children, keys = _registry[dict].to_iter({"b": 1, "a": 2})
assert hash(keys) == hash(("a", "b")) and _registry[dict].from_iter(keys, children) == {"a": 2, "b": 1}
print("done")
"""
    ran = _run("-c", program)
    assert ran.stdout == "done\n", ran.stderr


def test_variables_of_jax_set_options_where_quires_own_do_not() -> None:
    program = "import quire.as_jax, jax; print(jax.config.jax_enable_x64, jax.config.jax_default_prng_impl)"
    ran = _run("-c", program, JAX_ENABLE_X64="1", JAX_DEFAULT_PRNG_IMPL="rbg", QUIRE_ENABLE_X64="")
    assert ran.stdout == "True rbg\n", ran.stderr
    ran = _run("-c", program, JAX_ENABLE_X64="True", QUIRE_ENABLE_X64="0")
    assert ran.stdout == "False threefry2x32\n", ran.stderr
    ran = _run("-c", program, JAX_DEFAULT_PRNG_IMPL="dice")
    assert ran.returncode == 1 and "dice" in ran.stderr
    ran = _run("-c", "import quire; print(quire.config.enable_x64)", JAX_ENABLE_X64="1", QUIRE_ENABLE_X64="")
    assert ran.stdout == "False\n", ran.stderr
