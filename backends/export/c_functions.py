"""A model's functions in C: arguments and results brought to where kernels take them, the steps, and the checked form."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from . import c_host
from .c_header import checked_declaration, declaration
from .host import ALIGNMENT, Function, Leaf, Model


def aligned(size: int) -> int:
    """A size, up to the next place where an array may begin."""
    return -(-size // ALIGNMENT) * ALIGNMENT


def function(model: Model, f: Function, offsets: Sequence[int], first_kernel: int) -> list[str]:
    """A function and its checked form."""
    upper = model.name.upper()
    printer = c_host.CPrinter(f, offsets, first_kernel=first_kernel, failed=f"{upper}_FAILED")
    printer.steps(f.host["steps"])
    used_names = set(re.findall(r"\w+", re.sub(r"/\*.*?\*/", "", "\n".join(printer.lines))))
    own = f.own_results()
    lines = [
        declaration(model, f),
        "{",
        f"    if (!context) return {upper}_NULL;",
        f"    {model.name}_context *c = context;",
    ]
    lines.append("    c->detail[0] = 0;")
    leaves = [*f.arguments, *(f.results[i] for i in own)]
    for leaf in leaves:
        if leaf.nbytes:
            lines.append(f'    if (!{leaf.name}) return q_refuse(c, {upper}_NULL, "{leaf.name}", 0, 0);')
    start = 0
    back: list[str] = []
    last: list[str] = []
    names: dict[int, str] = {}
    """The pointer of each result of the user's."""
    argument_names = [f"u{i}" for i in range(len(f.arguments))]
    used = {x: k for k, x in enumerate(f.kept)}
    for number, leaf in enumerate(f.arguments):
        local = f"a{used[number]}" if number in used else f"u{number}"
        argument_names[number] = local
        lines.append(f"    unsigned char *{local} = (unsigned char *)(uintptr_t){leaf.name};")
        if number in used and leaf.nbytes:
            lines += _aligned_copy(local, start, f"memcpy({local}, {leaf.name}, {leaf.nbytes});", upper)
            if leaf.donated:
                back.append(
                    f"    if ({local} != (unsigned char *){leaf.name}) memcpy({leaf.name}, {local}, {leaf.nbytes});"
                )
        else:
            lines.append(f"    (void){local};")
        start += aligned(leaf.nbytes)
    for i in range(len(f.results)):
        if (a := f.left_in(i)) is not None:
            names[i] = argument_names[a]
            continue
        if (a := f.in_place(i)) is not None:
            local = names[i] = f.pointer(i)
            lines.append(f"    unsigned char *{local} = c->arena + {f.pair_places()[i]};")
            last.append(f"    memcpy({f.arguments[a].name}, {local}, {f.results[i].nbytes});")
            continue
        leaf = f.results[i]
        local = names[i] = f.pointer(i)
        lines.append(f"    unsigned char *{local} = (unsigned char *){leaf.name};")
        if f.computed(i) and leaf.nbytes:
            lines += _aligned_copy(local, start, "", upper)
            back.append(
                f"    if ({local} != (unsigned char *){leaf.name}) memcpy({leaf.name}, {local}, {leaf.nbytes});"
            )
        else:
            lines.append(f"    (void){local};")
        start += aligned(leaf.nbytes)
    before, after = f.copies()
    for i, a in before:
        lines.append(f"    memmove({names[i]}, {argument_names[a]}, {f.results[i].nbytes});")
    for word, text in (("weights", "weights"), ("arena", "arena")):
        if word in used_names:
            lines.append(f"    unsigned char *{word} = c->{text};")
    for i, kind in enumerate(f.host["variables"]):
        if f"v{i}" in used_names:
            lines.append(f"    {c_host.c_type(kind)} v{i} = 0;")
    lines += printer.lines
    lines += [f"    memcpy({names[i]}, {names[of]}, {f.results[i].nbytes});" for i, of in after]
    lines += [*back, *last, f"    return {upper}_OK;", "}", ""]
    return [*lines, *_checked(model, f)]


def _aligned_copy(local: str, start: int, bring: str, upper: str) -> list[str]:
    """Put another place in the place of an array that is not aligned."""
    return [
        f"    if ((uintptr_t){local} % {ALIGNMENT}) {{",
        f"        if (q_move(c)) return {upper}_MEMORY;",
        f"        {local} = c->moved + {start};",
        *([f"        {bring}"] if bring else []),
        "    }",
    ]


def _checked(model: Model, f: Function) -> list[str]:
    """The form of a function that is told sizes."""
    upper = model.name.upper()
    arguments, results = list(f.arguments), [f.results[i] for i in f.own_results()]
    leaves = [*arguments, *results]
    given = [f"arguments[{i}]" for i in range(len(arguments))] + [f"results[{i}]" for i in range(len(results))]
    n, m = len(arguments), len(results)
    return [
        checked_declaration(model, f),
        "{",
        f"    if (!context) return {upper}_NULL;",
        "    context->detail[0] = 0;",
        "    if ((argument_count && !(arguments && argument_sizes)) ||",
        f"        (result_count && !(results && result_sizes))) return {upper}_NULL;",
        f"    if (argument_count != {n} || result_count != {m}) {{",
        '        snprintf(context->detail, sizeof context->detail, "%zu arguments and %zu results given, '
        f'{n} and {m} expected", argument_count, result_count);',
        f"        return {upper}_COUNT;",
        "    }",
        *(_each_checked(leaves, n, upper) if leaves else []),
        f"    return {f.symbol}(context{''.join(', ' + x for x in given)});",
        "}",
        "",
    ]  # fmt: skip


def _each_checked(leaves: Sequence[Leaf], n: int, upper: str) -> list[str]:
    """The checks of each of the arrays, of which the first `n` are arguments: its size, and what it overlaps.

    Donated arguments are written to, as results are, whether a result is left there or not.
    """

    def table(kind: str, what: str, items: Iterable[object]) -> str:
        return f"    static const {kind} {what}[] = {{{', '.join(map(str, items))}}};"

    def of(number: str, suffix: str = "s") -> str:
        arguments, results = f"argument{suffix}[{number}]", f"result{suffix}[{number} - {n}]"
        return (
            arguments
            if n == len(leaves)
            else f"{number} < {n} ? {arguments} : {results}"
            if n
            else f"result{suffix}[{number}]"
        )

    return [
        table("size_t", "sizes", (x.nbytes for x in leaves)),
        table("char *const", "names", (f'"{x.name}"' for x in leaves)),
        table("unsigned char", "written", (int(i >= n or x.donated) for i, x in enumerate(leaves))),
        f"    for (size_t i = 0; i < {len(leaves)}; i++) {{",
        f"        const void *place = {of('i')};",
        f"        size_t size = {of('i', '_sizes')};",
        f"        if (size != sizes[i]) return q_refuse(context, {upper}_SIZE, names[i], size, sizes[i]);",
        f"        if (!place && size) return q_refuse(context, {upper}_NULL, names[i], 0, 0);",
        "        for (size_t k = 0; k < i; k++)",
        f"            if ((written[i] || written[k]) && q_overlap(place, size, {of('k')}, sizes[k]))",
        f"                return q_refuse(context, {upper}_OVERLAP, names[i], 0, 0);",
        "    }",
    ]
