"""Texts of stages with all names replaced by numbers in order of appearance: equal programs have equal texts.

Replaced are variables of jaxprs, SSA values, aliases of attributes and types, and the symbols that end in a number or
in a hash of their kernel's text. Left out are places in source files and addresses of Python's objects.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

OPTIMIZED, STABLEHLO, KERNELS = "optimized", "stablehlo", "kernels"
STAGES = (OPTIMIZED, STABLEHLO, KERNELS)
"""In the order in which a program travels: what differs first is the cause."""

_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
_BINDER = re.compile(r"(?<![\w.])([a-z]+):(?=[a-z]\w*\[)")
# Not a name of a parameter (axes=), of a parameter's value (kind=loop), nor of a primitive (= sin x).
_VARIABLE = re.compile(r"(?<![\w.=@<'\"-])(?<!= )[a-z]+(?![\w.=\[(<>'\"-])")
_SSA = re.compile(r"%[\w$.-]+")
_ALIAS = re.compile(r"^([#!][A-Za-z_]\w*) = (.*)$")
_ALIAS_USE = re.compile(r"[#!][A-Za-z_]\w*(?![\w.])")
_HASHED = re.compile(r"\b([A-Za-z_]\w*)_[0-9a-f]{12}\b")
_NUMBERED = re.compile(r"^  func\.func private @([A-Za-z_]\w*?)_?\d+\(", re.MULTILINE)
_PLACE = re.compile(r"^(// [\w-]+) at .*?:\d+: ")


def without_addresses(text: str) -> str:
    """The text without where Python's objects lie in memory."""
    return _ADDRESS.sub(" at 0x", text)


class _Numbers:
    """Numbers in order of appearance."""

    def __init__(self) -> None:
        self._found: dict[str, int] = {}

    def __getitem__(self, name: str) -> int:
        return self._found.setdefault(name, len(self._found))


def jaxpr(text: str) -> str:
    """The text of a jaxpr with its variables numbered."""
    bound = set(_BINDER.findall(text))
    numbers = _Numbers()

    def number(match: re.Match[str]) -> str:
        name = match[0]
        return f"v{numbers[name]}" if name in bound else name

    return _VARIABLE.sub(number, without_addresses(text))


def module(text: str) -> tuple[str, str]:
    """The text of a module as two: what the host runs, and the kernels' own text, a kernel under the other."""
    parts = _Parts.of(text)
    resolve = _aliases(parts.aliases)
    symbols = _Symbols(parts.functions)
    functions = [_values(resolve(f)) for f in parts.functions]
    # What is called first is first: private functions and kernels have no order of their own.
    functions = [symbols.rename(f) for f in functions]
    public = [f for f in functions if " private " not in f.partition("\n")[0]]
    private = sorted((f for f in functions if f not in public), key=symbols.position)
    comments = [_PLACE.sub(r"\1: ", symbols.rename(c)) for c in parts.comments]
    kernels = sorted((symbols.rename(_values(resolve(k))) for k in parts.kernels), key=symbols.position)
    host = [*comments, symbols.rename(resolve(parts.header)), *public, *private]
    return without_addresses("\n".join(host)), "\n".join(kernels)


@dataclass(frozen=True)
class _Parts:
    """A module's text, taken apart by its indentation."""

    comments: list[str]
    aliases: dict[str, str]
    header: str
    functions: list[str]
    kernels: list[str]

    @staticmethod
    def of(text: str) -> _Parts:
        comments: list[str] = []
        aliases: dict[str, str] = {}
        header: list[str] = []
        operations: list[list[str]] = []
        for line in text.splitlines():
            alias = _ALIAS.match(line)
            if line.startswith("//"):
                comments.append(line)
            elif alias:
                aliases[alias[1]] = alias[2]
            elif not line.startswith("  "):
                header.append(line)
            elif line[2:3] in (" ", "}", ")") and operations:
                operations[-1].append(line)
            else:
                operations.append([line])
        texts = ["\n".join(lines) for lines in operations]
        kernels = [t for t in texts if re.match(r"  \w+\.executable\b", t)]
        return _Parts(comments, aliases, "\n".join(header), [t for t in texts if t not in kernels], kernels)


def _aliases(definitions: Mapping[str, str]) -> Callable[[str], str]:
    """Puts aliases in place: how they are numbered depends on the whole module, also on other kernels."""
    complete: dict[str, str] = {}

    def put(match: re.Match[str]) -> str:
        return complete.get(match[0], match[0])

    for name, definition in definitions.items():  # an alias is defined before it is used
        complete[name] = _ALIAS_USE.sub(put, definition)
    return lambda text: _ALIAS_USE.sub(put, text) if complete else text


def _values(text: str) -> str:
    """One operation's text with its SSA values numbered."""
    numbers = _Numbers()
    return _SSA.sub(lambda m: f"%{numbers[m[0]]}", text)


class _Symbols:
    """Symbols by their first use in the functions of the host, the public ones before the others."""

    def __init__(self, functions: Iterable[str]) -> None:
        texts = list(functions)
        bases = sorted({re.escape(b) for t in texts for b in _NUMBERED.findall(t)})
        self._numbered = re.compile(rf"(?<=@)({'|'.join(bases)})_?\d+\b") if bases else None
        self._names: dict[str, str] = {}
        for text in sorted(texts, key=lambda t: " private " in t.partition("\n")[0]):
            self.rename(text)

    def rename(self, text: str) -> str:
        def name(match: re.Match[str]) -> str:
            return self._names.setdefault(match[0], f"{match[1]}.{len(self._names)}")

        text = _HASHED.sub(name, text)
        return self._numbered.sub(name, text) if self._numbered else text

    def position(self, text: str) -> tuple[int, str]:
        """Where an operation's symbol is used first."""
        found = re.search(r"@\w+\.(\d+)\b", text.partition("\n")[0])
        return (int(found[1]) if found else len(self._names), text)


def normalised(texts: Mapping[str, str]) -> dict[str, str]:
    """The texts to compare, by stage, of what the compiler prints as "optimized" and "stablehlo"."""
    host, kernels = module(texts[STABLEHLO])
    return {OPTIMIZED: jaxpr(texts[OPTIMIZED]), STABLEHLO: host, KERNELS: kernels}


_NAMES = re.compile(r"%\d+|\bv\d+\b")


def without_names(text: str) -> str:
    """A normalised text with no numbers at all: a line keeps its text where values before it come or go."""
    return _NAMES.sub("_", text)
