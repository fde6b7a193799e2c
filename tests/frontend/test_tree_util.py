"""Pytrees against jax.tree_util."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict, defaultdict, namedtuple

import jax
import numpy as np
import pytest

import quire
from quire import tree_util as tu

Point = namedtuple("Point", "x y")


class Pair:
    def __init__(self, a, b):
        self.a, self.b = a, b


for library in (tu, jax.tree_util):
    library.register_pytree_node(Pair, lambda p: ((p.a, p.b), "m"), lambda m, c: Pair(*c))


class Keyed:
    def __init__(self, a, b):
        self.a, self.b = a, b


for library in (tu, jax.tree_util):
    library.register_pytree_with_keys(
        Keyed,
        lambda p, library=library: (((library.GetAttrKey("a"), p.a), (library.DictKey("b"), p.b)), None),
        lambda m, c: Keyed(*c),
    )

TREES = [
    1, None, (), [], {}, (1, 2), [1, (2, [3])], {"b": 1, "a": (2, None)}, Point(1, [2]), OrderedDict([("b", 1), ("a", 2)]),
    defaultdict(list, {"z": 1, "k": [2]}), Pair(1, (2, 3)), {"p": Keyed(1, {"q": 2})}, (None, {"x": None}), "text", np.arange(3),
]  # fmt: skip


@pytest.mark.parametrize("tree", TREES, ids=range(len(TREES)))
def test_flatten_agrees_with_jax(tree):
    leaves, treedef = tu.tree_flatten(tree)
    want, want_def = jax.tree_util.tree_flatten(tree)
    assert all(a is b for a, b in zip(leaves, want, strict=True))
    assert treedef.num_leaves == want_def.num_leaves
    assert tu.tree_leaves(tree) == leaves if not isinstance(tree, np.ndarray) else True
    again = tu.tree_unflatten(treedef, leaves)
    assert type(again) is type(tree)
    assert tu.tree_structure(again) == treedef


@pytest.mark.parametrize("tree", TREES, ids=range(len(TREES)))
def test_paths_agree_with_jax(tree):
    got, _ = tu.tree_flatten_with_path(tree)
    want, _ = jax.tree_util.tree_flatten_with_path(tree)
    assert [repr(p) for p, _ in got] == [repr(p) for p, _ in want]
    assert [tu.keystr(p) for p, _ in got] == [jax.tree_util.keystr(p) for p, _ in want]
    for separator in ("/", "."):
        assert [tu.keystr(p, simple=True, separator=separator) for p, _ in got] == [
            jax.tree_util.keystr(p, simple=True, separator=separator) for p, _ in want
        ]
    names = tu.tree_map_with_path(lambda path, x: tu.keystr(path), tree)
    assert tu.tree_leaves(names) == [tu.keystr(p) for p, _ in got]


def test_map_and_reduce():
    tree = {"a": 1, "b": (2, None)}
    assert tu.tree_map(lambda x: 10 * x, tree) == {"a": 10, "b": (20, None)}
    assert tu.tree_map(lambda x, y: (x, y), {"a": 1}, {"a": [2, 3]}) == {"a": (1, [2, 3])}
    assert tu.tree_map(lambda x: x, [(1, 2)], is_leaf=lambda x: isinstance(x, tuple)) == [(1, 2)]
    assert tu.tree_reduce(lambda a, b: a + b, tree) == 3
    assert tu.tree_reduce(lambda a, b: a + b, tree, 10) == 13
    assert tu.tree_reduce(lambda a, b: a + b, tree, initializer=10) == 13
    assert tu.tree_reduce_associative(lambda a, b: a + b, [1, 2, 3, 4, 5]) == 15
    assert tu.tree_reduce_associative(lambda a, b: a + b, [], identity=0) == 0
    assert tu.tree_all([True, 1]) and not tu.tree_all([True, {"a": 0}])
    assert tu.all_leaves([1, 2]) and not tu.all_leaves([1, (2,)])
    assert tu.tree_broadcast((1, 2), ([0, 0], {"a": 0})) == ([1, 1], {"a": 2})


def test_transpose():
    outer, inner = tu.tree_structure((0, 0)), tu.tree_structure({"a": 0, "b": 0})
    tree = ({"a": 1, "b": 2}, {"a": 3, "b": 4})
    assert tu.tree_transpose(outer, inner, tree) == {"a": (1, 3), "b": (2, 4)}
    assert tu.tree_transpose(outer, None, tree) == {"a": (1, 3), "b": (2, 4)}
    with pytest.raises(TypeError, match="tree_transpose: Mismatch"):
        tu.tree_transpose(outer, inner, ({"a": 1, "b": 2}, {"a": 3}))


@pytest.mark.parametrize(
    "first, second, text",
    [
        ((1, 2), (1, 2, 3), "at the root: a tuple of length 2 and one of length 3"),
        ({"k": (1, 2)}, {"k": [1, 2]}, r"at \['k'\]: a tuple and a list"),
        ({"a": 1}, {"b": 1}, r"at the root: a dict with keys \['a'\] and one with keys \['b'\]"),
        ([None], [1], r"at \[0\]: a NoneType and a int"),
        ((1, Pair(1, 2)), (1, Keyed(1, 2)), r"at \[1\]: a Pair and a Keyed"),
        (Keyed((1,), 2), Keyed([1], 2), r"at \.a: a tuple and a list"),
        (Keyed(1, (2,)), Keyed(1, [2]), r"at \['b'\]: a tuple and a list"),
    ],
)
def test_map_names_where_structures_differ(first, second, text):
    message = "tree_map: the structure of the first tree is no prefix of that of tree 2; they differ "
    with pytest.raises(ValueError, match=message + text):
        tu.tree_map(lambda a, b: a, first, second)


def test_dataclasses():
    @tu.register_dataclass
    @dataclasses.dataclass
    class Layer:
        w: object
        name: str = dataclasses.field(metadata={"static": True})

    layer = Layer(1, "l")
    assert tu.tree_leaves(layer) == [1]
    assert tu.tree_map(lambda x: x + 1, layer) == Layer(2, "l")
    assert tu.keystr(tu.tree_flatten_with_path(layer)[0][0][0]) == ".w"
    assert tu.tree_structure(layer) != tu.tree_structure(Layer(1, "m"))

    @dataclasses.dataclass
    class Two:
        x: int
        y: int

    with pytest.raises(ValueError, match="Missing fields: {'y'}"):
        tu.register_dataclass(Two, ["x"], [])
    with pytest.raises(ValueError, match="Unexpected fields: {'z'}"):
        tu.register_dataclass(Two, ["x", "y"], ["z"])
    tu.register_dataclass(Two, data_fields=["x"], meta_fields=["y"])
    assert tu.tree_leaves(Two(1, 2)) == [1]
    with pytest.raises(ValueError, match="Duplicate custom PyTreeDef type registration"):
        tu.register_dataclass(Two, data_fields=["x"], meta_fields=["y"])


def test_static_classes_and_class_decorators():
    @tu.register_static
    @dataclasses.dataclass(frozen=True)
    class Size:
        n: int

    assert tu.tree_leaves(Size(3)) == []
    assert tu.tree_structure(Size(3)) == tu.tree_structure(Size(3)) != tu.tree_structure(Size(4))

    @tu.register_pytree_node_class
    class Box:
        def __init__(self, v):
            self.v = v

        def tree_flatten(self):
            return (self.v,), None

        @classmethod
        def tree_unflatten(cls, metadata, children):
            return cls(*children)

    assert tu.tree_map(lambda x: -x, Box(2)).v == -2

    @tu.register_pytree_with_keys_class
    class KeyedBox(Box):
        def tree_flatten_with_keys(self):
            return ((tu.GetAttrKey("v"), self.v),), None

    assert tu.keystr(tu.tree_flatten_with_path(KeyedBox(1))[0][0][0]) == ".v"


def test_partial():
    f = tu.Partial(lambda a, b, c: (a, b, c), 1, c=3)
    assert f(2) == (1, 2, 3)
    assert tu.tree_leaves(f) == [1, 3]
    assert tu.tree_map(lambda x: 10 * x, f)(2) == (10, 2, 30)
    out = quire.jit(lambda p, x: p(x))(tu.Partial(lambda a, x: a * x, quire.numpy.float32(3)), 2.0)
    assert float(out) == 6


def test_treedefs():
    treedef = tu.tree_structure((1, [2, 3]))
    assert [d.num_leaves for d in tu.treedef_children(treedef)] == [1, 2]
    assert tu.treedef_is_leaf(tu.tree_structure(1)) and not tu.treedef_is_leaf(treedef)
    assert tu.treedef_tuple([tu.tree_structure(1), tu.tree_structure([2])]) == tu.tree_structure((1, [2]))
    with pytest.raises(ValueError, match="Too few leaves"):
        tu.tree_unflatten(treedef, [1])


def test_leaves_that_take_the_path():
    tree = {"a": [1, 2], "b": [3]}
    pairs = tu.tree_leaves_with_path(tree, lambda path, x: path == (tu.DictKey("a"),), is_leaf_takes_path=True)
    assert [(tu.keystr(p), x) for p, x in pairs] == [("['a']", [1, 2]), ("['b'][0]", 3)]


def test_short_names():
    assert quire.tree.map(lambda x: x + 1, (1,)) == (2,)
    assert {n for n in dir(jax.tree) if not n.startswith("_")} <= set(quire.tree.__all__)
    assert not {n for n in dir(jax.tree_util) if not n.startswith("_")} - set(dir(tu))
