"""``dumpir --diff A B``: what differs between two programs, equations matched by structure and not by letters.

An equation's *shape* is its primitive, its parameters and types, and the shapes of what it is computed from: two equations of
one shape compute the same of the same arguments. Equations of equal shape are matched first, in order. What is left is
matched where its neighbours are (the same primitive, most operands matched): such an equation has *changed*. The rest is
in one program only. Nested programs count as parameters, so a loop whose body differs has changed, and the body is compared.
"""

from __future__ import annotations

import difflib
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from quire.ir.identity import identity
from quire.ir.jaxpr import Atom, ClosedJaxpr, Eqn, Jaxpr, Literal, Var, nested_jaxprs

from .answers import Answer, capped, place_text, short
from .inputs import InputError, Program, load
from .survey import eqn_text

ROWS = 12


@dataclass
class Matched:
    """Which equations of two programs stand for each other."""

    same: list[tuple[Eqn, Eqn]] = field(default_factory=list[tuple[Eqn, Eqn]])
    changed: list[tuple[Eqn, Eqn]] = field(default_factory=list[tuple[Eqn, Eqn]])
    gone: list[Eqn] = field(default_factory=list[Eqn])
    new: list[Eqn] = field(default_factory=list[Eqn])

    @property
    def equal(self) -> bool:
        """Whether nothing differs."""
        return not (self.changed or self.gone or self.new)


def _param_key(params: Any) -> Any:
    out: list[tuple[str, str]] = []
    for k, v in sorted(params.items()):
        nested = list(nested_jaxprs({k: v}))
        out.append((k, "|".join(map(str, map(_nested_key, nested))) if nested else repr(v)))
    return tuple(out)


def _nested_key(j: Jaxpr | ClosedJaxpr) -> Any:
    return identity(j.jaxpr if isinstance(j, ClosedJaxpr) else j)


def _shapes(jaxpr: Jaxpr) -> list[int]:
    """The shape of each equation, as a number."""
    known: dict[Var, int] = {}
    for i, v in enumerate((*jaxpr.constvars, *jaxpr.invars)):
        known[v] = hash(("argument", i, v.aval.strong()))
    eqns: list[int] = []

    def shape(a: Atom) -> Any:
        return hash(("literal", str(a.value), a.aval.dtype)) if isinstance(a, Literal) else known.get(a, 0)

    for e in jaxpr.eqns:
        given = [shape(a) for a in e.inputs]
        key = hash((e.primitive.name, _param_key(e.params), tuple(sorted(given) if e.primitive.commutative else given)))
        eqns.append(key)
        known.update((v, hash((key, k, v.aval.strong()))) for k, v in enumerate(e.outputs))
    return eqns


def matched(a: Jaxpr, b: Jaxpr) -> Matched:
    """The equations of two programs, matched by structure."""
    left, right = _shapes(a), _shapes(b)
    places: defaultdict[int, list[int]] = defaultdict(list)
    for j, key in enumerate(right):
        places[key].append(j)
    pair: dict[int, int] = {}
    for i, key in enumerate(left):
        if places[key]:
            pair[i] = places[key].pop(0)
    back = {j: i for i, j in pair.items()}
    out = Matched([(a.eqns[i], b.eqns[j]) for i, j in sorted(pair.items())])
    value: dict[Var, Var] = {
        v: w for v, w in zip((*a.constvars, *a.invars), (*b.constvars, *b.invars)) if v.aval == w.aval
    }
    for i, j in pair.items():
        value.update(zip(a.eqns[i].outputs, b.eqns[j].outputs))
    free = [j for j in range(len(b.eqns)) if j not in back]
    for i, e in enumerate(a.eqns):
        if i in pair:
            continue
        best, most = None, 0.0
        for j in free:
            score = _likeness(e, b.eqns[j], value)
            if score > most:
                best, most = j, score
        if best is None or most < 1.0:
            out.gone.append(e)
            continue
        free.remove(best)
        f = b.eqns[best]
        # What is computed of something that has changed is as it was, if nothing of itself differs.
        known = set(value.values())
        given = [_stands_for(x, y, value, known) for x, y in zip(e.inputs, f.inputs)]
        own = _param_key(e.params) == _param_key(f.params) and _types_of(e) == _types_of(f)
        (out.same if own and all(given) else out.changed).append((e, f))
        value.update(zip(e.outputs, f.outputs))
    out.new.extend(b.eqns[j] for j in free)
    return out


def _stands_for(x: Atom, y: Atom, value: dict[Var, Var], known: set[Var]) -> bool:
    """Whether one operand is the other's, or both are made by equations that are in one program only."""
    if isinstance(x, Var) and isinstance(y, Var):
        return value.get(x) is y or (x not in value and y not in known)
    return _same(x, y)


def _types_of(e: Eqn) -> list[Any]:
    return [v.aval.strong() for v in e.outputs]


def _same(x: Atom, y: Atom) -> bool:
    if not isinstance(x, Literal) or not isinstance(y, Literal):
        return False
    return str(x.value) == str(y.value) and x.aval.dtype == y.aval.dtype


def _likeness(e: Eqn, f: Eqn, value: dict[Var, Var]) -> float:
    """How much two equations are alike: the same primitive, operands that stand for each other, types, the line."""
    if e.primitive is not f.primitive or len(e.outputs) != len(f.outputs):
        return 0.0
    score = 0.5
    for x, y in zip(e.inputs, f.inputs):
        if isinstance(x, Var) and value.get(x) is y:
            score += 1.0
        elif _same(x, y):
            score += 0.3
    score += 0.5 * (_param_key(e.params) == _param_key(f.params))
    score += 0.3 if _types_of(e) == _types_of(f) else -0.6
    if e.source is not None and f.source is not None and e.source.line == f.source.line:
        score += 0.4
    return score


def compared(a: ClosedJaxpr, b: ClosedJaxpr) -> tuple[list[str], dict[str, Any]]:
    """The differences of two programs in lines, and as data."""
    m = matched(a.jaxpr, b.jaxpr)
    if m.equal and len(a.in_avals) == len(b.in_avals):
        return [f"the same: {len(m.same)} equations"], {"same": len(m.same), "changed": [], "gone": [], "new": []}
    lines = [
        f"{len(m.same)} equations are the same, {len(m.changed)} have changed, {len(m.gone)} are in the first only, "
        f"{len(m.new)} in the second only"
    ]
    types = [
        f"  argument {i}: {x.short()} -> {y.short()}" for i, (x, y) in enumerate(zip(a.in_avals, b.in_avals)) if x != y
    ]
    if len(a.in_avals) != len(b.in_avals):
        types.append(f"  {len(a.in_avals)} arguments -> {len(b.in_avals)}")
    if a.out_avals != b.out_avals:
        types.append(
            f"  results: {', '.join(x.short() for x in a.out_avals)} -> {', '.join(x.short() for x in b.out_avals)}"
        )
    lines += capped([short(t) for t in types], 5)
    changed = [short(f"  ~ {text}") for e, f in m.changed for text in _changes(e, f)]
    lines += capped(_counted(changed), ROWS, "more changed")
    for sign, eqns in (("-", m.gone), ("+", m.new)):
        lines += capped(_counted([short(f"  {sign} {_shown(e)}") for e in eqns]), ROWS // 2 + 2, "more")
    data = {
        "same": len(m.same), "changed": [_changes(e, f) for e, f in m.changed], "gone": [_shown(e) for e in m.gone],
        "new": [_shown(e) for e in m.new], "types": types,
    }  # fmt: skip
    return lines, data


def _counted(rows: Sequence[str]) -> list[str]:
    return [f"{row[:4]}{n} x {row[4:]}" if n > 1 else row for row, n in Counter(rows).items()]


def _shown(e: Eqn) -> str:
    at = place_text(e.source)
    return f"{eqn_text(e, 110)}{f'  ({at})' if at else ''}"


def _changes(e: Eqn, f: Eqn) -> list[str]:
    """What differs between two equations that stand for each other, and within the programs that they hold."""
    out: list[str] = []
    name, at = e.primitive.name, place_text(f.source or e.source)
    where = f" ({at})" if at else ""
    for k in sorted({*e.params, *f.params}):
        x, y = e.params.get(k), f.params.get(k)
        inner = [list(nested_jaxprs({k: v})) for v in (x, y)]
        if inner[0] and len(inner[0]) == len(inner[1]):
            for p, q in zip(*inner):
                m = matched(*(j.jaxpr if isinstance(j, ClosedJaxpr) else j for j in (p, q)))
                out += [f"within {name}{where}: {text}" for c in m.changed for text in _changes(*c)]
                out += [f"within {name}{where}: - {_shown(g)}" for g in m.gone]
                out += [f"within {name}{where}: + {_shown(g)}" for g in m.new]
        elif repr(x) != repr(y):
            out.append(f"{name}{where}: {k} = {short(repr(x), 50)} -> {short(repr(y), 50)}")
    for x, y in zip(e.inputs, f.inputs):
        if isinstance(x, Literal) and isinstance(y, Literal) and not _same(x, y):
            out.append(f"{name}{where}: {x.value!s} -> {y.value!s}")
        elif isinstance(x, Literal) != isinstance(y, Literal) or x.aval.strong() != y.aval.strong():
            out.append(f"{name}{where}: an operand {x.aval.short()} -> {y.aval.short()}")
    if _types_of(e) != _types_of(f):
        out.append(f"{name}{where}: gives {_types(e)} -> {_types(f)}")
    return out or [f"{name}{where}: reads other values"]


def _types(e: Eqn) -> str:
    return ", ".join(v.aval.short() for v in e.outputs)


# -- what is compared


def diff_answer(names: Sequence[str], source: str | None, args: Sequence[str] | None, pipeline: Any) -> Answer:
    """The differences of two programs, two pipelines of the program of `source`, or two saved folders.

    `pipeline` gives the program after a pipeline's passes. Raises InputError for what is none of these.
    """
    a, b = names
    if source is not None:
        programs = [pipeline(load(source, args, ())[0], text) for text in names]
        lines, data = compared(*programs)
        return Answer([f"after {a!r} and after {b!r}: {lines[0]}", *lines[1:]], data)
    if Path(a).is_dir() and Path(b).is_dir():
        return _folders(Path(a), Path(b))
    left, right = (_loaded(x, args) for x in names)
    lines, data = compared(left.closed, right.closed)
    return Answer([f"{a} and {b}: {lines[0]}", *lines[1:]], data)


def _loaded(name: str, args: Sequence[str] | None) -> Program:
    programs = load(name, args if ".py:" in name else None, ())
    if len(programs) != 1:
        raise InputError(f"--diff: {name} has {len(programs)} programs, expected one: name a function of it")
    return programs[0]


def _folders(a: Path, b: Path) -> Answer:
    """Two folders of stages (`dumpir -o`): jaxprs by structure, other stages by their lines without names of values."""
    from .inputs import read_text

    lines: list[str] = []
    data: dict[str, Any] = {}
    shown = False  # the first stage that differs is shown, what follows from it is counted
    left, right = ({re.sub(r"^\d+-", "", p.name): p for p in x.iterdir() if p.is_file()} for x in (a, b))
    for name in sorted({*left, *right}, key=lambda n: (left.get(n) or right[n]).name):
        if name not in left or name not in right:
            lines.append(f"{name}: in {b if name in right else a} only")
            continue
        if name.endswith(".jaxpr"):
            said, found = compared(*(read_text(str(p[name]))[0].closed for p in (left, right)))
            data[name] = found
            same = found["same"] and not (found["changed"] or found["gone"] or found["new"])
            lines += [f"{name}: {'the same' if same else said[0]}", *(() if same or shown else said[1:9])]
            shown = shown or not same
        else:
            counts = _rows(left[name], right[name])
            data[name] = counts
            lines.append(f"{name}: " + ("the same" if not any(counts) else f"{counts[0]} lines gone, {counts[1]} new"))
    return Answer(capped(lines, 38, "stages"), data)


def _rows(a: Path, b: Path) -> tuple[int, int]:
    """Lines that are in one text only, values' names and hashes left out."""
    texts = [re.sub(r"%[\w#]+|_[0-9a-f]{12}\b", "%", p.read_text(encoding="utf-8")).splitlines() for p in (a, b)]
    if texts[0] == texts[1]:
        return 0, 0
    changed = [row[0] for row in difflib.ndiff(texts[0], texts[1])] if max(map(len, texts)) < 800 else []
    if changed:
        return changed.count("-"), changed.count("+")
    x, y = Counter(texts[0]), Counter(texts[1])
    return sum((x - y).values()), sum((y - x).values())
