"""rematerialize: the numbers stay to the bit, values across the peak are made again, and as much is saved as by `checkpoint`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import quire
import quire.numpy as qnp
from quire import lax
from quire.compiling.stage_texts import Stages, stages_of
from quire.ir.jaxpr import ClosedJaxpr
from quire.ir.verifier import verify
from quire.passes.compare import Equality, evaluate, first_difference, random_inputs, rounding_of
from quire.passes.cost import estimate
from quire.passes.manager import PassManager
from quire.passes.rematerialize import Lives, candidates
from quire.tools.dumpir.memory import memory_of

FLAT = "inline,canonicalize-literals,simplify,cse,dce"
W = np.zeros((16, 16), np.float32)
X = np.zeros((8, 16), np.float32)


def gelu_layers(policy: Any = None, *, checkpoint: bool = False) -> Callable[..., Any]:
    def block(x: Any, w: Any, v: Any) -> Any:
        return x + quire.nn.gelu(x @ w) @ v

    layer = quire.checkpoint(block, policy=policy) if checkpoint else block

    def loss(ws: Any, x: Any) -> Any:
        for w, v in ws:
            x = layer(x, w, v)
        return qnp.mean(x * x)

    return quire.value_and_grad(loss)


def dropout(key: Any, w: Any, x: Any) -> Any:
    def loss(w: Any) -> Any:
        y = x
        for i in range(3):
            keep = quire.random.bernoulli(quire.random.fold_in(key, i), 0.5, x.shape)
            y = qnp.where(keep, qnp.sin(y @ w), 0) * qnp.exp(-y)
        return qnp.sum(y)

    return quire.grad(loss)(w)


def split_and_sort(w: Any, x: Any) -> Any:
    def loss(w: Any) -> Any:
        a, b = qnp.split(qnp.tanh(x @ w), 2, axis=1)
        c = qnp.sort(a * b, axis=0) + qnp.cumsum(a, axis=1) * b
        return qnp.sum(quire.nn.softmax(c) @ c.T)

    return quire.grad(loss)(w)


def train(w: Any, x: Any) -> Any:
    """The peak is within a loop's body."""

    def step(w: Any, x: Any) -> Any:
        value, g = gelu_layers()([(w, w.T)] * 3, x)
        return w - 0.1 * sum(a + b.T for a, b in g), value

    return lax.scan(lambda w, _: step(w, x), w, None, length=3)


def of_scan(w: Any, x: Any) -> Any:
    """What is held are a loop's results: they stay."""
    return quire.grad(lambda w: qnp.sum(lax.scan(lambda x, _: (qnp.sin(x @ w), None), x, None, length=4)[0]))(w)


def traced(f: Callable[..., Any], *args: Any, pipeline: str = FLAT) -> ClosedJaxpr:
    return PassManager(pipeline).run(quire.compile(f).trace(*args).jaxpr)


PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "layers": (gelu_layers(), ([(W, W)] * 3, X)),
    "dropout": (dropout, (np.zeros(2, np.uint32), W, X)),
    "split": (split_and_sort, (W, X)),
    "train": (train, (W, X)),
    "scan": (of_scan, (W, X)),
    "nothing": (lambda w, x: qnp.sin(x @ w), (W, X)),
}


@pytest.mark.parametrize("products", [False, True])
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_numbers_stay_to_the_bit(name: str, products: bool) -> None:
    f, args = PROGRAMS[name]
    before = traced(f, *args)
    after = PassManager(f"rematerialize{{products={str(products).lower()}}}").run(before)
    verify(after)
    given = random_inputs(before.in_avals)
    for x, y in zip(evaluate(before, given), evaluate(after, given), strict=True):
        assert x.tobytes() == y.tobytes()
    if name == "nothing":
        assert after is before
    if name in ("layers", "dropout", "train"):
        assert estimate(after.jaxpr).flops > estimate(before.jaxpr).flops
    once_more = PassManager(FLAT).run(after)  # nothing makes one of what is made twice
    assert estimate(once_more.jaxpr).flops == estimate(PassManager(FLAT).run(once_more).jaxpr).flops
    if name == "layers":
        assert estimate(once_more.jaxpr).flops > 1.01 * estimate(before.jaxpr).flops


def test_what_is_chosen() -> None:
    jaxpr = traced(gelu_layers(), [(W, W)] * 3, X).jaxpr
    lives = Lives(jaxpr)
    assert lives.peak is not None and jaxpr.eqns[lives.peak].effects == frozenset()
    cheap, dear = candidates(jaxpr, lives), candidates(jaxpr, lives, products=True)
    made = {c.eqn.primitive.name for c in cheap if c.chosen}
    assert "mul" in made and "dot_general" not in made
    assert all(c.dear == 0 and c.cost.flops > 0 for c in cheap if c.chosen)
    assert any(c.eqn.primitive.name == "dot_general" and c.dear for c in cheap if not c.chosen)
    assert sum(c.chosen for c in dear) > sum(c.chosen for c in cheap) and max(c.dear for c in dear if c.chosen) == 1
    # What a loop gives is not made again, nor what another one needs.
    stays = candidates(traced(of_scan, W, X).jaxpr, products=True)
    assert not any(c.chosen for c in stays if c.eqn.primitive.name == "scan")


def held(f: Callable[..., Any], *args: Any, remat: str = "") -> int:
    """What the plan holds at the peak, of intermediate values."""
    stages = stages_of(quire.compile(f).trace(*args).jaxpr, "cpu")
    if remat:
        stages = Stages(stages.request, str(stages.manager).replace(",fuse", f",{remat},fuse"))
    return memory_of(stages).held


def test_as_much_is_saved_as_by_checkpoint() -> None:
    """The pass beside `checkpoint` of each layer, which keeps products, or nothing but its input."""
    w, v, x = (np.zeros(s, np.float32) for s in ((32, 128), (128, 32), (64, 32)))
    args = ([(w, v)] * 4, x)
    plain = held(gelu_layers(), *args)
    dots = held(gelu_layers(quire.checkpoint_policies.dots_saveable, checkpoint=True), *args)
    inputs = held(gelu_layers(checkpoint=True), *args)
    cheap, dear = (held(gelu_layers(), *args, remat=r) for r in ("rematerialize", "rematerialize{products=true}"))
    assert inputs < dots < plain and dear < cheap < plain
    assert abs(cheap - dots) < 0.2 * plain, (plain, dots, cheap)
    assert abs(dear - inputs) < 0.2 * plain, (plain, inputs, dear)


def test_compiled() -> None:
    """In the passes of a compile call."""
    rng = np.random.default_rng(0)
    w, v, x = (rng.standard_normal(s).astype(np.float32) for s in ((8, 16), (16, 8), (4, 8)))
    f = gelu_layers()
    compiled = quire.compile(f, passes=f"{FLAT},rematerialize,default")
    program = quire.compile(f).trace([(w, v)] * 2, x).jaxpr
    given = [w, v, w, v, x]
    want = evaluate(program, given)
    got = list(map(np.asarray, quire.tree_util.tree_leaves(compiled([(w, v)] * 2, x))))
    found = first_difference(want, got, rounding_of(program, given, want))
    assert isinstance(found, Equality), str(found)
