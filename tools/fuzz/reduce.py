"""Making a finding small: parts are left out as long as it is still found."""

from __future__ import annotations

import dataclasses
import re
import time
from collections.abc import Callable, Iterator

from .program import Arg, Program, Statement, Transform, flat, pruned, renamed

Still = Callable[[tuple[Program, ...]], bool]


def reduced(programs: tuple[Program, ...], still: Still, deadline: float, tries: int = 80) -> tuple[Program, ...]:
    """Fewer and smaller programs for which `still` holds, found by at most `tries` runs until `deadline`
    (`time.monotonic`)."""
    left = [tries]

    def holds(candidate: tuple[Program, ...]) -> bool:
        if left[0] <= 0 or time.monotonic() > deadline:
            return False
        left[0] -= 1
        return still(candidate)

    programs = _fewer(programs, holds)
    changed = True
    while changed and left[0] > 0 and time.monotonic() < deadline:
        changed = False
        for k in range(len(programs)):
            progress = True
            while progress:
                progress = False
                for candidate in _simpler(programs[k]):
                    whole = (*programs[:k], candidate, *programs[k + 1 :])
                    if _weight(candidate) < _weight(programs[k]) and holds(whole):
                        programs = whole
                        progress = changed = True
                        break
                if left[0] <= 0 or time.monotonic() > deadline:
                    break
    return programs


def _fewer(programs: tuple[Program, ...], holds: Still) -> tuple[Program, ...]:
    """Leave out whole programs, halves first."""
    size = len(programs) // 2
    while size >= 1 and len(programs) > 1:
        i = 0
        while i < len(programs):
            rest = programs[:i] + programs[i + size :]
            if rest and holds(rest):
                programs = rest
            else:
                i += size
        size //= 2
    return programs


def _weight(p: Program) -> tuple[int, ...]:
    """What is to become smaller."""
    text = p.text()
    numbers = [int(n) for n in re.findall(r"\d+", re.sub(r"[A-Za-z_]\w*", "", text))]
    elements = sum(numbers) + sum(sum(a.aval[0]) for a in p.args)
    return (
        10 * len(text.splitlines()) + 15 * len(p.stack) + 5 * len(p.args) + 3 * len(p.results)
        + 2 * sum(a.donated for a in p.args) + sum(sum(a is not None for a in t.in_axes) for t in p.stack)
        + sum(t.option != "" for t in p.stack),
        elements,
    )  # fmt: skip


def _simpler(p: Program) -> Iterator[Program]:
    """Candidates, those that leave out most first. Not all of them are valid programs."""
    yield from _fewer_results(p)
    yield from _fewer_transforms(p)
    yield from _cut(p)
    yield from _shorter_blocks(p)
    yield from _plainer_arguments(p)
    yield from _smaller_sizes(p)


def _tidy(p: Program) -> Program:
    """Without what is not read."""
    p = pruned(p)
    text = p.text().split("\n", 1)[-1]
    used = [i for i, a in enumerate(p.args) if re.search(rf"\b{a.name}\b", text)] or [0]
    return p if len(used) == len(p.args) else _with_arguments(p, used)


def _with_arguments(p: Program, kept: list[int]) -> Program:
    place = {old: new for new, old in enumerate(kept)}
    stack = tuple(
        dataclasses.replace(
            t,
            numbers=tuple(place[i] for i in t.numbers if i in place),
            in_axes=tuple(t.in_axes[i] for i in kept) if t.in_axes else (),
        )
        for t in p.stack
    )
    if any(t.name == "vmap" and all(a is None for a in t.in_axes) for t in stack):
        return p
    derivatives = ("gradient", "value_and_gradient", "pushforward", "pullback")
    if any(t.name in derivatives and not t.numbers for t in stack):
        return p
    return dataclasses.replace(p, args=tuple(p.args[i] for i in kept), stack=stack)


def _fewer_results(p: Program) -> Iterator[Program]:
    if len(p.results) > 1:
        for name in dict.fromkeys(p.results):
            yield _tidy(dataclasses.replace(p, results=(name,)))
        for i in range(len(p.results)):
            yield _tidy(dataclasses.replace(p, results=p.results[:i] + p.results[i + 1 :]))


def _fewer_transforms(p: Program) -> Iterator[Program]:
    if p.stack:
        yield dataclasses.replace(p, stack=())
    for i in range(len(p.stack)):
        yield _tidy(dataclasses.replace(p, stack=p.stack[:i] + p.stack[i + 1 :]))


def _free_name(p: Program) -> str:
    used = {a.name for a in p.args}
    return next(f"a{i}" for i in range(1, 99) if f"a{i}" not in used)


def _with_argument(p: Program, name: str, shape: tuple[int, ...], dtype: str) -> Program:
    stack = tuple(dataclasses.replace(t, in_axes=(*t.in_axes, 0)) if t.name == "vmap" else t for t in p.stack)
    kind = "index" if "int" in dtype else "normal"
    return dataclasses.replace(p, args=(*p.args, Arg(name, (shape, dtype), kind, 1)), stack=stack)


def _cut(p: Program) -> Iterator[Program]:
    """Statements replaced by arguments, last ones first; by values of their type at hand; by their own operands."""
    for k in range(len(p.statements) - 1, -1, -1):
        s = p.statements[k]
        if not s.avals:
            continue
        known: dict[str, tuple[tuple[int, ...], str]] = {a.name: a.aval for a in p.args}
        for t in p.statements[:k]:
            known.update(zip(t.targets, t.avals))
        names: dict[str, str] = {}
        q = p
        for target, aval in zip(s.targets, s.avals):
            same = [n for n in s.operands if known.get(n) == aval] or [n for n, v in known.items() if v == aval]
            if same:
                names[target] = same[0]
            else:
                names[target] = _free_name(q)
                q = _with_argument(q, names[target], *aval)
        yield _renamed(dataclasses.replace(q, statements=p.statements[:k] + p.statements[k + 1 :]), names)
        if q is p and len(p.statements) > 1:  # as arguments of their own
            for target, aval in zip(s.targets, s.avals):
                names[target] = _free_name(q)
                q = _with_argument(q, names[target], *aval)
            yield _renamed(dataclasses.replace(q, statements=p.statements[:k] + p.statements[k + 1 :]), names)


def _renamed(p: Program, names: dict[str, str]) -> Program:
    return _tidy(
        dataclasses.replace(
            p,
            statements=tuple(renamed(s, names) for s in p.statements),
            results=tuple(names.get(n, n) for n in p.results),
        )
    )


def _shorter_blocks(p: Program) -> Iterator[Program]:
    """Statements of nested functions left out: another value of their type, or ones, in their place."""
    outside: dict[str, tuple[tuple[int, ...], str]] = {a.name: a.aval for a in p.args}
    for k, s in enumerate(p.statements):
        for blocks in _shorter(s, dict(outside)):
            yield _tidy(dataclasses.replace(p, statements=(*p.statements[:k], blocks, *p.statements[k + 1 :])))
        outside.update(zip(s.targets, s.avals))


def _shorter(s: Statement, known: dict[str, tuple[tuple[int, ...], str]]) -> Iterator[Statement]:
    for i, b in enumerate(s.blocks):
        scope = dict(known)
        for j, inner in enumerate(b.statements):
            names: dict[str, str] = {}
            for target, aval in zip(inner.targets, inner.avals):
                same = [n for n in inner.operands if scope.get(n) == aval] or [n for n, v in scope.items() if v == aval]
                if same:
                    names[target] = same[-1]
            fillers: tuple[Statement, ...] = ()
            if len(names) < len(inner.targets):
                if inner.text.startswith("np.ones(") or len(inner.avals) != len(inner.targets):
                    scope.update(zip(inner.targets, inner.avals))
                    continue
                fillers = tuple(
                    Statement((t,), f"np.ones({a[0]}, {a[1]!r})", (), (a,))
                    for t, a in zip(inner.targets, inner.avals)
                    if t not in names
                )
            statements = (*b.statements[:j], *fillers, *(renamed(t, names) for t in b.statements[j + 1 :]))
            results = tuple(
                names.get(g, g) if isinstance(g, str) else tuple(names.get(n, n) for n in g) for g in b.results
            )
            block = dataclasses.replace(b, statements=statements, results=results)
            yield dataclasses.replace(s, blocks=(*s.blocks[:i], block, *s.blocks[i + 1 :]))
            for nested in _shorter(inner, scope):
                block = dataclasses.replace(b, statements=(*b.statements[:j], nested, *b.statements[j + 1 :]))
                yield dataclasses.replace(s, blocks=(*s.blocks[:i], block, *s.blocks[i + 1 :]))
            scope.update(zip(inner.targets, inner.avals))
        # A loop that carries less.
        yield from _fewer_carried(s, i)


def _fewer_carried(s: Statement, i: int) -> Iterator[Statement]:
    """Loops of one value less, where the text is of the known form."""
    b = s.blocks[i]
    if not s.text.startswith("lax.fori_loop(") or len(b.params) != 2 or isinstance(b.params[1], str):
        return
    head, _ = s.text.split("{f0}, (")
    carried = b.params[1]
    (out,) = b.results
    if len(carried) < 2 or isinstance(out, str):
        return
    read = {n for t in b.statements for n in (*t.operands,)} | set(flat(b.results))
    for j in range(len(carried)):
        rest = out[:j] + out[j + 1 :]
        if carried[j] in read and carried[j] != out[j]:
            continue
        operands = s.operands[:j] + s.operands[j + 1 :]
        names = "".join(f"{{{n}}}, " for n in range(len(operands)))
        block = dataclasses.replace(b, params=(b.params[0], carried[:j] + carried[j + 1 :]), results=(rest,))
        yield dataclasses.replace(
            s,
            text=f"{head}{{f0}}, ({names}))",
            operands=operands,
            targets=s.targets[:j] + s.targets[j + 1 :],
            avals=s.avals[:j] + s.avals[j + 1 :],
            blocks=(block,),
        )


def _plainer_arguments(p: Program) -> Iterator[Program]:
    if any(a.donated for a in p.args):
        yield dataclasses.replace(p, args=tuple(dataclasses.replace(a, donated=False) for a in p.args))
    for i, a in enumerate(p.args):
        if a.donated:
            args = (*p.args[:i], dataclasses.replace(a, donated=False), *p.args[i + 1 :])
            yield dataclasses.replace(p, args=args)
    for k, t in enumerate(p.stack):
        for i, axis in enumerate(t.in_axes):
            if axis is not None and sum(x is not None for x in t.in_axes) > 1:
                plain: Transform = dataclasses.replace(t, in_axes=(*t.in_axes[:i], None, *t.in_axes[i + 1 :]))
                yield dataclasses.replace(p, stack=(*p.stack[:k], plain, *p.stack[k + 1 :]))
        if t.option:
            plain = dataclasses.replace(t, option="")
            yield dataclasses.replace(p, stack=(*p.stack[:k], plain, *p.stack[k + 1 :]))


def _smaller_sizes(p: Program) -> Iterator[Program]:
    """One number of the shapes made smaller wherever it stands."""
    sizes = sorted({n for a in p.args for n in a.aval[0] if n > 2}, reverse=True)
    for n in sizes:
        for m in dict.fromkeys((2, 3, 4, n // 2)):
            if m < n:
                yield _resized(p, n, m)


def _resized(p: Program, n: int, m: int) -> Program:
    pattern = re.compile(rf"(?<![\w.{{'-]){n}(?![\w.'}}])")

    def aval(a: tuple[tuple[int, ...], str]) -> tuple[tuple[int, ...], str]:
        return tuple(m if x == n else x for x in a[0]), a[1]

    def statement(s: Statement) -> Statement:
        return dataclasses.replace(
            s,
            text=pattern.sub(str(m), s.text),
            avals=tuple(aval(a) for a in s.avals),
            blocks=tuple(
                dataclasses.replace(b, statements=tuple(statement(t) for t in b.statements)) for b in s.blocks
            ),
        )

    return dataclasses.replace(
        p,
        args=tuple(dataclasses.replace(a, aval=aval(a.aval)) for a in p.args),
        statements=tuple(statement(s) for s in p.statements),
    )
