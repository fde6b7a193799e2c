"""Recognisers: the shortest way of a call must agree with the general one for every structure."""

from __future__ import annotations

import collections
from typing import Any, NamedTuple

import numpy as np
import pytest

import quire as qr
from quire.compiling.recognition import MISMATCH, assembler, recogniser
from quire.tree_util import tree_flatten


class Point(NamedTuple):
    x: Any
    y: Any


def make(*args: Any, static: frozenset[int] = frozenset(), names: frozenset[str] = frozenset(), **kwargs: Any) -> Any:
    dynamic = [a for i, a in enumerate(args) if i not in static]
    leaves = tree_flatten((tuple(dynamic), {k: v for k, v in kwargs.items() if k not in names}))[0]
    return recogniser(args, kwargs, leaves, static, names)


ARRAY = qr.device_put(np.float32(1))
STRUCTURES: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((), {}),
    ((ARRAY,), {}),
    ((ARRAY, 2.0), {}),
    (((ARRAY, [ARRAY]),), {}),
    (({"b": ARRAY, "a": [1, 2]}, None), {}),
    ((Point(ARRAY, {"k": 3}),), {"w": ARRAY}),
    (([],), {"z": (), "a": {}}),
    (((ARRAY, ARRAY),), {}),
    (([ARRAY, ARRAY],), {}),
    (({"a": ARRAY},), {}),
    (({1: ARRAY, 0: ARRAY},), {}),
]


@pytest.mark.parametrize("index", range(len(STRUCTURES)))
def test_a_recogniser_takes_its_own_structure_and_no_other(index: int) -> None:
    args, kwargs = STRUCTURES[index]
    recognise = make(*args, **kwargs)
    leaves, tree = tree_flatten((args, kwargs))
    assert [id(x) for x in recognise(args, kwargs)[0]] == [id(x) for x in leaves]
    for other_args, other_kwargs in STRUCTURES:
        if tree_flatten((other_args, other_kwargs))[1] != tree:
            with pytest.raises(MISMATCH):
                recognise(other_args, other_kwargs)


def test_the_key_tells_types_and_static_values_apart() -> None:
    recognise = make(ARRAY, 2, static=frozenset({1}), names=frozenset({"mode"}), mode="a")
    keys = [
        recognise((x, n), {"mode": m})[1]
        for x in (ARRAY, qr.device_put(np.int32(1)), qr.device_put(np.ones(2, np.float32)))
        for n in (2, 2.0, 3)
        for m in "ab"
    ]
    assert len(set(keys)) == len(keys)


def test_other_containers_take_the_general_way() -> None:
    assert make(collections.OrderedDict(a=ARRAY)) is None
    assert make({(1, 2): ARRAY}) is None
    assert make([ARRAY] * 1001) is None
    f = qr.compile(lambda d: d["a"] + 1)
    for _ in range(3):
        assert f(collections.OrderedDict(a=ARRAY)).item() == 2


def test_an_assembler_builds_the_tree() -> None:
    example = {"b": [0, (1,)], "a": Point(2, None), "c": ()}
    build = assembler(example, 3)
    assert build is not None and build("xyz") == {"b": ["x", ("y",)], "a": Point("z", None), "c": ()}
    assert assembler(collections.OrderedDict(a=0), 1) is None


def test_calls_of_changing_structure_stay_right() -> None:
    f = qr.compile(lambda tree, *, scale=1.0: {"out": [tree["a"] * scale, tree["b"][0]], "none": None})
    rng = np.random.default_rng(0)
    for i in range(30):
        shape = (2,) if i % 3 else (3,)
        a, b = rng.standard_normal((2, *shape)).astype(np.float32)
        leaf = qr.device_put(a) if i % 2 else a
        got = f({"a": leaf, "b": (b,)}, scale=2.0) if i % 5 else f({"b": [b], "a": leaf})
        np.testing.assert_array_equal(got["out"][0], a * (2.0 if i % 5 else 1.0))
        np.testing.assert_array_equal(got["out"][1], b)
        assert got["none"] is None
    assert len(f.cache_info().variants) == 4
