"""Programs that extend JAX, run as they are by JAX and, with `quire` in the place of `jax`, by quire."""

from __future__ import annotations

import linecache
import re
import textwrap
from typing import Any

import numpy as np


def run(source: str, package: str) -> dict[str, Any]:
    """The names that a program defines; it is written for ``jax``."""
    text = re.sub(r"\bjax\b", package, textwrap.dedent(source))
    name = f"<a program for {package} {abs(hash(text))}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    names: dict[str, Any] = {"__name__": "program"}
    exec(compile(text, name, "exec"), names)
    return names


def same(source: str, *, rtol: float = 1e-5) -> dict[str, Any]:
    """Run the program by both and compare the list `results` that it fills; returns what quire's run defined.

    Entries are arrays, numbers, texts, or lists and tuples of them.
    """
    want, got = run(source, "jax")["results"], (names := run(source, "quire"))["results"]
    assert len(want) == len(got) and want
    for i, (w, g) in enumerate(zip(want, got)):
        _compare(w, g, rtol, f"result {i}")
    return names


def _compare(want: Any, got: Any, rtol: float, where: str) -> None:
    if isinstance(want, list | tuple):
        assert len(want) == len(got), where
        for i, (w, g) in enumerate(zip(want, got)):
            _compare(w, g, rtol, f"{where}[{i}]")
    elif isinstance(want, str | bool | None.__class__):
        assert want == got, where
    else:
        w, g = np.asarray(want), np.asarray(got)
        assert w.shape == g.shape, where
        np.testing.assert_allclose(g, w, rtol=rtol, atol=1e-6, err_msg=where)
