"""What is true of a primitive is said in its declaration: a pass or backend that lists primitives gives a reason for it here."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("passes", "backends", "runtime", "frontend")
# What kernels hold of primitives are their rules, on shelves of their own.
KERNELS = "backends/kernels/"

RULES = "a table of rules, some of which are made of one function"
NAMES = "the functions of a name, which the library is made of"
LISTS = {
    "passes/ad/elementwise.py: _LINEAR": "those that a transpose rule or its absence is stated of one by one",
    "passes/ad/linalg.py: _NOT_LINEAR": "the reason of the absent transposes",
    "passes/checkify.py: _MOVING": "JAX reports a NaN of other exact primitives where they are, of these it does not",
    "passes/checkify.py: _STARTS": RULES,
    "passes/checkify.py: _NESTED": RULES,
    "passes/ad/saving.py: _rules": RULES,
    "passes/cost.py: _PARTS": "what reads only what it takes",
    "passes/cost.py: _SPECIAL": RULES,
    "passes/cost.py: _VIEWS": "what moves nothing, if others read it where it lies",
    "passes/foreign.py: _NESTED": RULES,
    "passes/fusion/broadcasts.py: _SPREAD": "what is dearer to read than to make again, within fusions",
    "passes/fusion/clusters.py: SEEDS": "what kernels of reductions compute",
    "passes/fusion/contractions.py: SEEDS": "whose kernels take epilogues",
    "passes/fusion/elementwise.py: _MOVES": "what elementwise kernels read by another index",
    "passes/fusion/elementwise.py: _READ_IN_PLACE": "the moves that IREE makes a part of what reads them",
    "passes/fusion/elementwise.py: _STORED_TOO": "whose operands and results IREE or a kernel has in memory",
    "passes/fusion/forms.py: _MOVES": "what forms of alike clusters hold beside elementwise equations",
    "passes/fusion/indexing.py: SEEDS": "whose kernels take what makes the indices",
    "passes/fusion/stencils.py: SHIFTS": "the moves that an elementwise kernel would copy for, and a stencil reads in place",
    "passes/fusion/clusters.py: _RESHAPED": "by which numbers become components of index vectors: of other uses clusters have rules",
    "passes/fusion/updates.py: _STORED": "what the pass's proof takes as stored, with care: more may be",
    "passes/hoist.py: _ENDLESS": "what might not end",
    "passes/hoist.py: _LOOPS": RULES,
    "passes/join_sums.py: _REDUCTIONS": "whose results do not depend on the order, but for roundings of sums",
    "passes/narrow.py: _CALLBACKS": "whose functions are given what the bytes stand for",
    "passes/partition/assembly.py: _RULES": RULES,
    "passes/partition/combining.py: _SUMS": "the collectives of which one of joined operands is the joined results",
    "passes/partition/emission.py: _COMBINING": "the collective of each monoid that has one",
    "passes/partition/nested.py: NESTED": RULES,
    "passes/partition/propagation.py: NESTED": RULES,
    "passes/rank_programs.py: _LOOPS": RULES,
    "passes/store_compared.py: COMPARISONS": "the comparisons of which an operand may be a selection of the other",
    "passes/store_compared.py: PRODUCTS": "what a machine may round together with a sum",
    "passes/store_compared.py: SELECTING": "whose results are elements of the operands",
    "passes/store_compared.py: SUMS": "what a machine may round together with a product",
    "passes/store_compared.py: _APPLIED": "whose programs are of arrays",
    "passes/simplify/slices.py: _COMPUTED": "with parameters that hold for a slice as for the whole",
    "passes/simplify/structure.py: _WITH_PARAMETERS": "whose parameters do not speak of shapes",
    "backends/kernel_forms.py: WITHOUT": "what has no form in kernels",
    "backends/kernel_forms.py: WITHOUT_DOUBLE": "what has no form in kernels for float64",
    "backends/reference/elementwise.py: _HALF_SAFE": RULES,
    "backends/reference/elementwise_math.py: _CAREFUL": RULES,
    "backends/reference/ranks.py: COLLECTIVES": RULES,
    "backends/reference/ranks.py: NESTED": RULES,
    "backends/reference/rounding.py: _OF_TERMS": "how the model of rounding measures the functions that cancel",
    "backends/stablehlo/elementwise_complex.py: COMPLEX_RULES": RULES,
    "backends/stablehlo/elementwise_math.py: _REAL": RULES,
    "backends/stablehlo/elementwise_special.py: _IGAMMA": RULES,
    "backends/stablehlo/indexing.py: _OPS": RULES,
    "backends/stablehlo/linalg_forms.py: FORMS": RULES,
    "frontend/numpy/_ops.py: _BINARY": NAMES,
    "frontend/numpy/elementwise.py: _UNARY_INEXACT": NAMES,
    "frontend/numpy/elementwise.py: _BINARY": NAMES,
    "frontend/numpy/indexing.py: UPDATES": NAMES,
}


def primitives_in(value: ast.expr) -> set[str]:
    """The primitives that an expression names: quire's names of them end in ``_p``."""
    named = {getattr(node, "attr", getattr(node, "id", "")) for node in ast.walk(value)}
    return {name for name in named if name.endswith("_p") and not name.startswith("c_")}


def lists_of(source: str) -> Iterator[str]:
    """The names that a module gives to tuples, sets or tables of several primitives."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            # A call may be of anything; one of a builtin makes a collection.
            collection = not isinstance(node.value, ast.Call) or ast.unparse(node.value.func) in (
                "frozenset", "set", "tuple", "dict", "MappingProxyType",
            )  # fmt: skip
            if collection and len(primitives_in(node.value)) > 1:
                yield ast.unparse(node.targets[0] if isinstance(node, ast.Assign) else node.target)


def test_lists_are_found() -> None:
    source = "A = (x_p, m.y_p)\nB: frozenset[P] = frozenset({m.x_p, m.y_p})\nC = m.x_p\nD = {m.x_p: f, m.y_p: f}\nE = f(x_p, y_p)"
    assert list(lists_of(source)) == ["A", "B", "D"]


def test_every_list_of_primitives_has_a_reason() -> None:
    found = {
        f"{name}: {target}"
        for folder in FOLDERS
        for file in sorted((ROOT / folder).rglob("*.py"))
        for name in (file.relative_to(ROOT).as_posix(),)
        if not name.startswith(KERNELS)
        for target in lists_of(file.read_text(encoding="utf-8"))
    }
    new, gone = sorted(found - set(LISTS)), sorted(set(LISTS) - found)
    assert not new, f"is it a fact of the primitives, which their declarations should say? Else give the reason: {new}"
    assert not gone, f"these are no more: {gone}"
