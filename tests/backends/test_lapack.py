"""LAPACK's functions are loaded without the rest of scipy.linalg, and live together with it."""

import subprocess
import sys

import pytest

SOLVE = """
import sys
import numpy as np, quire.numpy as qnp
{first}
a = np.array([[4, 1], [1, 3]], np.float32)
np.testing.assert_allclose(qnp.linalg.cholesky(a), np.linalg.cholesky(a), rtol=1e-6)
np.testing.assert_allclose(qnp.linalg.solve(a, a), np.eye(2), atol=1e-6)
print("scipy.linalg" in sys.modules)
{then}
"""
SCIPY = "import scipy.linalg; assert scipy.linalg.cholesky(np.eye(2))[1, 1] == 1"
SAME = SCIPY + "; assert scipy.linalg.lapack.dpotrf is sys.modules['scipy.linalg._flapack'].dpotrf"

ABSENT = "from quire.backends.reference import linalg; linalg.PathFinder = type('', (), {'find_spec': lambda *_: None})"


@pytest.mark.parametrize(
    ("first", "then", "imported"),
    [("", "", "False"), ("", SAME, "False"), ("import scipy.linalg", SAME, "True"), (ABSENT, SCIPY, "True")],
    ids=["alone", "before scipy.linalg", "after scipy.linalg", "a SciPy built in another way"],
)
def test_together_with_scipy(first, then, imported):
    script = SOLVE.format(first=first, then=then)
    done = subprocess.run([sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [imported]
