"""The kernels of docs/kernels.md: the text of the page is what is compiled."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quire.backends.kernels import CPU_AVX2, CPU_BASELINE, GPU, NoKernel, Spec

PAGE = Path(__file__).resolve().parents[3] / "docs" / "kernels.md"


@pytest.fixture(scope="module")
def templates() -> dict[str, Any]:
    """What the page's section defines."""
    section = PAGE.read_text().split("\n## Writing a kernel\n")[1].split("\n## ")[0]
    defined: dict[str, Any] = {}
    for block in re.findall(r"^```python\n(.*?)^```$", section, re.MULTILINE | re.DOTALL):
        exec(compile(block, str(PAGE), "exec"), defined)
    return defined


def test_the_kernels_of_the_page_compute_what_it_says(templates, bundle):
    module, rng = bundle(), np.random.default_rng(0)
    cases = []
    for target in (CPU_BASELINE, CPU_AVX2):
        for rows, n in ((1, 1), (3, 7), (5, 8), (70, 100)):
            x = rng.standard_normal((rows, n)).astype(np.float32)
            number = module.add(templates["squared_lengths"](Spec.of(x.shape, "f32"), target))
            cases.append((number, x, (x * x).sum(1)))
        for n in (8, 9, 4000, 4001):
            x = rng.standard_normal(n).astype(np.float32)
            cases.append((module.add(templates["clipped"](Spec.of(x.shape, "f32"), target)), x, np.maximum(x, 0)))
    module.compile()
    for number, x, want in cases:
        np.testing.assert_allclose(module.run(number, x)[0], want, rtol=1e-5)


def test_what_they_do_not_take(templates):
    with pytest.raises(NoKernel, match="is for CPUs"):
        templates["squared_lengths"](Spec.of((3, 4), "f32"), GPU)
    with pytest.raises(NoKernel, match=r"got f64\[3,4\]"):
        templates["squared_lengths"](Spec.of((3, 4), "f64"), CPU_AVX2)
    with pytest.raises(NoKernel, match="at least 8 elements"):
        templates["clipped"](Spec.of((7,), "f32"), CPU_AVX2)
