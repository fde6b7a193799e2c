"""cond, switch, while, fori and scan, nested in each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as onp

from ..builder import Builder, Value
from ..program import Aval, Block, Statement

MOST = 2000  # elements of what loops carry


def _families(b: Builder) -> list[Callable[[Builder], object]]:
    from . import FAMILIES

    found = [f for f, weight in FAMILIES for _ in range(weight)]
    return [f for f in found if b.depth < 1 or f not in FAMILY]


def _carried(b: Builder, most: int = 3) -> list[Value]:
    count = b.rng.randint(1, most)
    out = [b.pick(most=MOST) for _ in range(count)]
    if b.chance(0.2):  # equal constant buffers
        shape = out[0].shape
        out += [b.emit(f"np.zeros({shape}, {out[0].dtype!r})") for _ in range(2)]
    return out


def _block(
    b: Builder, params: Sequence[Value], groups: Sequence[int], wanted: Sequence[Aval], extra: int = 0, count: int = 4
) -> tuple[Block, list[Value]]:
    """A nested function of parameters like these that returns values of the wanted types, and `extra` others.

    `groups` are the sizes of the tuples that the parameters come in (0: a parameter by itself).
    """
    inner, own = b.inner([v.sample for v in params])
    inner.steps(_families(inner), b.rng.randint(1, count))
    results: list[Value] = []
    for i, aval in enumerate(wanted):
        # A carried value that is handed on, made anew, or exchanged with another.
        if i < len(own) and own[i].aval == aval and b.chance(0.1):
            results.append(own[i])
        else:
            results.append(inner.of_aval(aval, fresh=True))
    others = [inner.pick(most=MOST) for _ in range(extra)]
    names = [v.name for v in own]
    shaped: list[str | tuple[str, ...]] = []
    for n in groups:
        shaped.append(tuple(names[:n]) if n else names[0])
        del names[: n or 1]
    groups_of_results: list[str | tuple[str, ...]] = [tuple(v.name for v in results)]
    if extra:
        groups_of_results.append(tuple(v.name for v in others))
    return Block(b.name("f"), tuple(shaped), tuple(inner.statements), tuple(groups_of_results)), others


def cond(b: Builder) -> object:
    xs = [b.pick(most=MOST) for _ in range(b.rng.randint(1, 3))]
    names = ", ".join(f"{{{i + 1}}}" for i in range(len(xs)))
    groups = [0] * len(xs)
    first, others = _block(b, xs, groups, (), extra=b.rng.randint(1, 2))
    first = Block(first.name, first.params, first.statements, first.results[1:])
    wanted = [v.aval for v in others]
    second, _ = _block(b, xs, groups, wanted)
    if b.chance(0.3):
        third, _ = _block(b, xs, groups, wanted)
        index = b.pick("i", ndim=0)
        return b.emit(
            f"lax.switch({{0}}, [{{f0}}, {{f1}}, {{f2}}], {names})", index, *xs, blocks=(first, second, third)
        )
    flags = [v for v in b.values if v.kind == "b" and v.ndim == 0]
    flag = b.one(*flags) if flags else b.emit("np.sum({0}) > 1", b.pick("fiu"))
    return b.emit(f"lax.cond({{0}}, {{f0}}, {{f1}}, {names})", flag, *xs, blocks=(first, second))


def scan(b: Builder) -> object:
    init = _carried(b)
    xs: list[Value] = []
    if b.chance(0.7):
        first = b.pick(least_ndim=1, accept=lambda v: 0 < v.shape[0] <= 20, most=MOST)
        xs = [
            first,
            *(v for v in b.values[-5:] if v.ndim and v.shape[0] == first.shape[0] and v.size <= MOST and b.chance(0.3)),
        ]
    like = [*init, *(Value(v.name, v.sample[0]) for v in xs)]
    extra = b.rng.randint(0, 2)
    k, m = len(init), len(xs)
    options = b.one("", "", ", reverse=True", ", unroll=2")
    block, _ = _block(b, like, [k, m], [v.aval for v in init], extra)
    if not extra:
        block = Block(block.name, block.params, block.statements, (*block.results, ()))
    if not m:  # no xs: the parameter is None
        options += f", length={b.rng.randint(0, 4)}"
        block = Block(block.name, (block.params[0], "nothing"), block.statements, block.results)
    carry = "(" + "".join(f"{{{i}}}, " for i in range(k)) + ")"
    slices = "(" + "".join(f"{{{k + i}}}, " for i in range(m)) + ")" if m else "None"
    text = f"lax.scan({{f0}}, {carry}, {slices}{options})"
    return b.emit(f"api.tree_util.tree_leaves({text})", *init, *xs, blocks=(block,))


def fori_loop(b: Builder) -> object:
    init = _carried(b)
    index = Value("i", onp.ones((), "int32"))
    k = len(init)
    block, _ = _block(b, [index, *init], [0, k], [v.aval for v in init])
    carry = "(" + "".join(f"{{{i}}}, " for i in range(k)) + ")"
    return b.emit(f"lax.fori_loop({b.one(0, 0, 1)}, {b.rng.randint(0, 4)}, {{f0}}, {carry})", *init, blocks=(block,))


def while_loop(b: Builder) -> object:
    """A loop whose end depends on data: a sum that grows, a counter."""
    if b.setting.reverse:
        raise LookupError
    init = _carried(b)
    k = len(init)
    count = Value("i", onp.zeros((), "int32"))
    block, _ = _block(b, [count, *init], [k + 1], [v.aval for v in init])
    (group,) = block.params
    (out,) = block.results
    counter = group[0]
    inner = b.name()
    statement = _increment(inner, counter)
    block = Block(block.name, (group,), (*block.statements, statement), ((inner, *out),))
    limit = b.rng.randint(0, 4)
    floats = [i for i, v in enumerate(init) if v.kind == "f"]
    test = f"c[0] < {limit}"
    if floats and b.chance(0.5):
        test = f"(c[0] < {limit}) & (np.sum(np.abs(c[{1 + b.one(*floats)}])) < 40)"
    carry = "(np.zeros((), 'int32'), " + "".join(f"{{{i}}}, " for i in range(k)) + ")"
    return b.emit(f"lax.while_loop(lambda c: {test}, {{f0}}, {carry})", *init, blocks=(block,))


def _increment(target: str, counter: str) -> Statement:
    return Statement((target,), "{0} + 1", (counter,), (((), "int32"),))


def map_(b: Builder) -> object:
    x = b.pick(least_ndim=1, accept=lambda v: 0 < v.shape[0] <= 20, most=MOST)
    block, _ = _block(b, [Value(x.name, x.sample[0])], [0], (), extra=1)
    block = Block(block.name, block.params, block.statements, block.results[1:])
    text = b.one("lax.map({f0}, {0})", "api.vmap({f0})({0})")
    return b.emit(f"api.tree_util.tree_leaves({text})", x, blocks=(block,))


def call(b: Builder) -> object:
    """A nested jit or checkpoint, called twice now and then."""
    xs = [b.pick(most=MOST) for _ in range(b.rng.randint(1, 2))]
    block, _ = _block(b, xs, [0] * len(xs), (), extra=b.rng.randint(1, 2))
    block = Block(block.name, block.params, block.statements, block.results[1:])
    names = ", ".join(f"{{{i}}}" for i in range(len(xs)))
    return b.emit(f"api.{b.one('jit', 'checkpoint')}({{f0}})({names})", *xs, blocks=(block,))


FAMILY = (cond, cond, scan, scan, scan, fori_loop, while_loop, while_loop, map_, call)
