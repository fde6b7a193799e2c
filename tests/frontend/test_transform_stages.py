"""Every transformation is a stage of its own before the traced program."""

from __future__ import annotations

from typing import Any

import numpy as np

import quire
import quire.numpy as qnp
from quire.compiling.stage_texts import stages_of
from quire.ir.parser import parse
from quire.watching.stage_files import write_stages

W, XS = np.ones(3, np.float32), np.ones((4, 3), np.float32)


def loss(w: Any, x: Any) -> Any:
    return (qnp.tanh(x @ w) ** 2).sum()


def mean_loss(w: Any, xs: Any) -> Any:
    return quire.vmap(loss, (None, 0))(w, xs).mean()


@quire.jit
def cubes(x: Any) -> Any:
    return quire.grad(lambda y: (y**3).sum())(x)


def stages_for(f: Any, *args: Any) -> Any:
    traced = quire.jit(f).trace(*args)
    return stages_of(traced.jaxpr, "cpu", transformations=traced.transformations)


def test_transformations_are_stages() -> None:
    stages = stages_for(lambda w, x: quire.grad(mean_loss)(w, x) + cubes(w), W, XS)
    assert list(stages)[:7] == [
        "before vmap of loss", "vmap of loss", "before grad of mean_loss", "grad of mean_loss",
        "before grad of <lambda>", "grad of <lambda>", "jaxpr",
    ]  # fmt: skip
    assert "tanh" in stages["before vmap of loss"] and "f32[4]" not in stages["before vmap of loss"]
    assert "f32[4] = tanh" in stages["vmap of loss"]
    assert "dot_general" in stages["grad of mean_loss"] and "tanh" in stages["before grad of mean_loss"]
    for name in list(stages)[:6]:
        parse(stages[name])


def test_a_cached_nested_trace_is_shown_again() -> None:
    for _ in range(2):
        stages = stages_for(lambda x: cubes(x) * 2, W)
        assert "grad of <lambda>" in stages


def test_names_that_occur_again_are_numbered(tmp_path: Any) -> None:
    stages = stages_for(lambda x: cubes(x) + quire.grad(lambda y: y.sum())(x), W)
    assert "grad of <lambda> (2)" in stages
    files = write_stages(stages, tmp_path, list(stages)[:2])
    assert [f.name for f in files] == ["00-before-grad-of-lambda.jaxpr", "01-grad-of-lambda.jaxpr"]
