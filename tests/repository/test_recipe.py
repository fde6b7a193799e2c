"""The recipe for a primitive in CONTRIBUTING.md is complete: its files, as they stand there, are a package that works."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

USE = """
import numpy as np
import quire
import quire.numpy as qnp
import toy
from quire.ir.primitive import PRIMITIVES
from quire.ir.weights import weight
from quire.tools import rule_table

def want(x):
    return x * x * (3 - 2 * x)

x = np.linspace(0, 1, 7, dtype=np.float32)
np.testing.assert_allclose(toy.smoothstep(qnp.array(x)), want(x), 1e-6)
np.testing.assert_allclose(quire.compile(toy.smoothstep)(x), want(x), 1e-6)
slope = quire.grad(lambda x: qnp.sum(qnp.sin(toy.smoothstep(x))))
np.testing.assert_allclose(quire.compile(slope)(x), np.cos(want(x)) * 6 * x * (1 - x), 1e-5, 1e-6)
rows = np.stack([x, 1 - x])
np.testing.assert_allclose(quire.compile(quire.vmap(toy.smoothstep))(rows), want(rows), 1e-6)
np.testing.assert_allclose(quire.vmap(quire.grad(toy.smoothstep))(x), 6 * x * (1 - x), 1e-5, 1e-6)

traced = quire.make_jaxpr(quire.vmap(toy.smoothstep))(rows)
(eqn,) = traced.jaxpr.eqns
assert str(eqn.primitive) == "smoothstep" and weight(eqn) == 4, traced
assert eqn.primitive.family == "elementwise" and eqn.primitive.rounding == "approximate"
assert rule_table.gaps() == [], rule_table.gaps()
page = rule_table.make_page()
assert "| `smoothstep` | elementwise |" in page and "- `smoothstep`: A smooth step from 0 to 1" in page
many = np.linspace(0, 1, 1000, dtype=np.float32)
heavy = quire.compile(lambda x: qnp.sin(toy.smoothstep(x)) + qnp.cos(x))
assert "kind=elementwise" in heavy.lower(many).as_text("optimized"), heavy.lower(many).as_text("optimized")
np.testing.assert_allclose(heavy(many), np.sin(want(many)) + np.cos(many), 1e-5)
try:
    quire.compile(toy.smoothstep)(np.arange(3))
except TypeError as error:
    assert str(error).startswith("smoothstep: operand i32[3] has dtype int32, expected a float dtype"), error
else:
    raise AssertionError("integers were taken")
print("done")
"""


def files() -> dict[str, str]:
    """The recipe's files by path, each named in its first line."""
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    section = page.split("\n## How to add a primitive\n")[1].split("\n## ")[0]
    found: dict[str, str] = {}
    for block in re.findall(r"^ *```python\n(.*?)^ *```$", section, re.MULTILINE | re.DOTALL):
        text = textwrap.dedent(block)
        named = re.match(r"# (toy/\w+\.py) \(([\w/]+\.py)\)\n", text)
        assert named and (ROOT / named[2]).exists(), text
        found[named[1]] = text
    return found


def test_a_package_made_by_the_recipe_works(tmp_path: Path) -> None:
    pytest.importorskip("iree.compiler")
    for name, text in files().items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    run = subprocess.run(
        [sys.executable, "-c", USE],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        check=False,
    )
    assert run.stdout == "done\n", run.stderr
