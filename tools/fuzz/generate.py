"""A program for a seed."""

from __future__ import annotations

import dataclasses
import random

from quire.ir.config import config

from .builder import Builder, Refused, Setting, Value, kind_of
from .families import favoured
from .prelude import argument
from .program import Arg, Program, Transform, pruned, read_names, with_references

SIZES = (0, 1, 1, 2, 2, 3, 3, 4, 5, 6, 7, 8, 9, 15, 16, 17, 31, 33, 64, 65)
#: With these, and arrays of so many times the usual most, kernels have several workgroups and blocks.
LARGE_SIZES = (1, 2, 3, 5, 10, 16, 24, 31, 50, 64, 77, 100, 128, 129, 257, 500, 1000, 1023, 2048, 4097, 10_000)
LARGE_SCALE = 20
DERIVATIVES = ("gradient", "value_and_gradient", "pushforward", "pullback")


def _setting(rng: random.Random, x64: bool, stack: list[str], large: bool) -> Setting:
    sizes = [rng.choice(LARGE_SIZES if large else SIZES) for _ in range(3)]
    if large:
        sizes[0] = rng.choice(LARGE_SIZES[9:])
    elif rng.random() < 0.03:
        sizes[0] = rng.choice((300, 300, 5000))
    if 0 in sizes and rng.random() < 0.7:
        sizes = [n or 3 for n in sizes]
    wide = ("float64", "complex128", "int64", "uint64") if x64 else ("float32", "complex64", "int32", "uint32")
    floats = [wide[0] if rng.random() < 0.8 else "float32"]
    if rng.random() < 0.2:
        floats.append(rng.choice(("float16", "bfloat16")))
    if rng.random() < 0.15:
        floats.append(wide[1])
    ints = [rng.choice((wide[2], wide[2], "int32"))]
    if rng.random() < 0.3:
        ints.append(rng.choice(("int8", "uint8", "int16", "uint16", wide[3])))
    lanes = 1
    for name in stack:
        lanes *= 3 if name == "vmap" else 2 if name in DERIVATIVES else 1
    reverse = any(n in DERIVATIVES and n != "pushforward" for n in stack)
    return Setting(
        tuple(sizes),
        tuple(floats),
        tuple(ints),
        any(n in DERIVATIVES for n in stack),
        reverse,
        lanes,
        costly=rng.random() < 0.12,
        scale=LARGE_SCALE if large else 1,
    )


def _stack(rng: random.Random) -> list[str]:
    """Names of transformations: at most two derivatives and two vmaps."""
    names: list[str] = []
    for _ in range(rng.choice((0, 0, 1, 1, 1, 2, 2, 3))):
        name = rng.choice((*DERIVATIVES, "vmap", "vmap", "jit", "checkpoint"))
        if sum(n in DERIVATIVES for n in names) >= 2 and name in DERIVATIVES:
            continue
        if names.count("vmap") >= 2 and name == "vmap":
            continue
        names.append(name)
    return names


def _arguments(rng: random.Random, b: Builder) -> list[Arg]:
    args: list[Arg] = []
    setting = b.setting
    count = rng.randint(1, 4)
    for i in range(count):
        name = "abcde"[i]
        roll = rng.random()
        shape = b.shape()
        if i == 0 or roll < 0.55:
            dtype, kind = rng.choice(setting.floats), rng.choice(("normal", "normal", "normal", "positive", "ties"))
            if dtype.startswith("complex"):
                kind = "normal"
        elif roll < 0.85:
            dtype, kind = rng.choice(setting.ints), rng.choice(("normal", "index"))
            if kind == "index":
                shape = rng.choice(((), (rng.choice(setting.sizes),), (3,), ()))
                shape = tuple(min(n, 33) for n in shape)
        else:
            dtype, kind = "bool", "normal"
            if rng.random() < 0.5 and args:
                shape = args[-1].aval[0]
        args.append(Arg(name, (shape, dtype), kind, rng.randrange(10_000)))
    return args


def _transforms(rng: random.Random, names: list[str], args: list[Arg]) -> tuple[Transform, ...]:
    numbers = tuple(i for i, a in enumerate(args) if "float" in a.aval[1] or "complex" in a.aval[1])
    ranks = [len(a.aval[0]) for a in args]
    out: list[Transform] = []
    for name in names:
        if name == "vmap":
            axes = [rng.randint(-r - 1, r) if rng.random() < 0.7 else None for r in ranks]
            if all(a is None for a in axes):
                axes[0] = 0
            ranks = [r + (a is not None) for r, a in zip(ranks, axes)]
            out.append(
                Transform(name, in_axes=tuple(axes), out_axes=rng.choice((0, 0, -1)), size=rng.choice((1, 2, 3, 3)))
            )
        elif name in DERIVATIVES:
            some = tuple(i for i in numbers if rng.random() < 0.8) or numbers[:1]
            out.append(Transform(name, numbers=some))
        elif name == "checkpoint":
            option = rng.choice(
                (
                    "",
                    "",
                    ", policy=api.checkpoint_policies.dots_saveable",
                    ", policy=api.checkpoint_policies.nothing_saveable",
                )
            )
            out.append(Transform(name, option=option))
        else:
            out.append(Transform(name))
    return tuple(out)


def generate(
    seed: int,
    x64: bool | None = None,
    references: bool = False,
    family: str | None = None,
    special: bool = False,
    large: bool = False,
) -> Program:
    """The program of a seed; 64-bit dtypes are enabled in one of six unless `x64` says.

    With `references` its loops and branches keep what they carry in references. Half of its statements are of `family`.
    With `special` its floats hold NaN, infinities and zeros of both signs, and it is not differentiated.
    With `large` its arrays have thousands of elements.
    """
    rng = random.Random(seed)
    wide = rng.random() < 1 / 6 if x64 is None else x64
    names = [n for n in _stack(rng) if not (special and n in DERIVATIVES)]
    b = Builder(rng, dataclasses.replace(_setting(rng, wide, names, large), special=special))
    args = _arguments(rng, b)
    if special:
        args = [dataclasses.replace(a, kind="special") if kind_of(a.aval[1]) in "fc" else a for a in args]
    stack = _transforms(rng, names, args)
    donated = rng.random() < 0.3
    for a in args:
        b.values.append(Value(a.name, argument(a.aval[0], a.aval[1], a.kind, a.seed)))
    families = favoured(family)
    refused = None
    with config.override(enable_x64=wide):
        for _ in range(rng.randint(2, 12)):
            try:
                with b.attempt():
                    rng.choice(families)(b)
            except LookupError:
                continue
            except Refused as error:
                if error.statement.targets and b.depth == 0:
                    refused = error.statement
                continue
    results = _results(rng, b, args, bool(stack))
    statements = b.statements
    if refused is not None and rng.random() < 0.2:
        known = {a.name for a in args} | {t for s in statements for t in s.targets}
        if read_names(refused) <= known:
            statements = [*statements, refused]
            results = (*results, refused.targets[0])
    if donated:
        args = [Arg(a.name, a.aval, a.kind, a.seed, rng.random() < 0.6) for a in args]
    program = pruned(Program(tuple(args), tuple(statements), results, stack, wide, seed))
    return with_references(program) if references else program


def _results(rng: random.Random, b: Builder, args: list[Arg], derived: bool) -> tuple[str, ...]:
    """The names that are returned: late ones are likelier, an argument now and then, a float among them."""
    made = b.values[len(args) :]
    if not made:
        return (args[0].name,)
    some = [made[-1], *(v for v in made if rng.random() < 0.35)]
    if derived and not any(v.kind in "fc" for v in some):
        floats = [v for v in b.values if v.kind in "fc"]
        some.append(floats[-1])
    names = list(dict.fromkeys(v.name for v in some))[:6]
    if rng.random() < 0.2:
        names.append(rng.choice(args).name)
    rng.shuffle(names)
    return tuple(names)
