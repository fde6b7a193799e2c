"""What a pass is, the registry of passes, and the text of pipelines.

A pass is a frozen dataclass: its fields are its options, in text, in Python and in ``dumpir --list-passes``::

    @register_pass
    @dataclass(frozen=True)
    class Fuse(Pass):
        '''Cluster equations into fusions.'''

        name = "fuse"
        least_elements: int = 1 << 14

        def apply(self, program, context): ...

The contract: a program that keeps the IR's rules (`quire.ir.verifier`) gives one that keeps them, with the same
inputs and results, every equation with the source of the one it stands for. Transformations (`keeps_results` is False:
jvp, vmap, ...) give another program, with inputs and results that their docstrings tell. A pipeline is text:
``"inline,simplify,cse,dce,fuse{least-elements=4096}"``; an option of several values has ``|`` between them. Other packages
add passes through the entry point group `quire.passes`: the entry's name is the pass's, its value the class.
"""

from __future__ import annotations

import dataclasses
import difflib
import re
import threading
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, TypeVar

from quire.ir.errors import PassError
from quire.ir.extensions import code_fingerprint, load_entry_points, warn_of
from quire.ir.jaxpr import ClosedJaxpr, Eqn
from quire.ir.source import Source

ENTRY_POINTS = "quire.passes"


@dataclasses.dataclass(frozen=True, eq=False)
class Rewrite:
    """A rule that replaced an equation."""

    rule: str
    eqn: Eqn

    @property
    def source(self) -> Source | None:
        """The user's line of the equation."""
        return self.eqn.source


@dataclasses.dataclass
class PassContext:
    """What a pass sees beside the program.

    Attributes:
        target: the target the program is compiled for (`quire.backends.targets.Target`); None if unknown.
        counters: how often each rule fired, by name; passes add to it.
        donated: the numbers of the program's arguments whose memory it may use for its results.
        nested: results for nested jaxprs by (pass, id): one that occurs often is transformed once. Keeps them alive.
        rewrites: what each rule replaced, in order, where that is recorded (a list is given).
        most_rewrites: of a pass whose rewrites are recorded, no more than these are done: the first that changes a
            program's numbers is found so.
    """

    target: Any = None
    donated: tuple[int, ...] = ()
    counters: Counter[str] = dataclasses.field(default_factory=lambda: Counter[str]())
    nested: dict[Any, Any] = dataclasses.field(default_factory=lambda: dict[Any, Any]())
    rewrites: list[Rewrite] | None = None
    most_rewrites: int | None = None

    def may_rewrite(self) -> bool:
        """Whether one more rewrite is allowed; asked before it is counted."""
        return self.most_rewrites is None or self.rewrites is None or len(self.rewrites) < self.most_rewrites

    def rewrote(self, rule: str, eqn: Eqn) -> None:
        """Count a rule that replaced an equation, and note it where somebody wants to know."""
        self.counters[rule] += 1
        if self.rewrites is not None:
            self.rewrites.append(Rewrite(rule, eqn))


@dataclasses.dataclass(frozen=True)
class Pass:
    """Base of passes. Subclasses are frozen dataclasses with a `name`, options as fields, and `apply`."""

    name: ClassVar[str] = ""
    keeps_results: ClassVar[bool] = True

    def apply(self, program: ClosedJaxpr, context: PassContext) -> ClosedJaxpr:
        """The transformed program.

        Raises:
            PassError: an option has no meaning for the program, or the pass is not defined for it.
        """
        raise NotImplementedError

    def __str__(self) -> str:
        return pass_to_str(self)


P = TypeVar("P", bound=type[Pass])
_registry: dict[str, type[Pass]] = {}
_all_loaded = False
_lock = threading.RLock()
_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


def register_pass(cls: P) -> P:
    """Class decorator: make a pass known by its name. PassError when the name is taken or is no plain name."""
    name = cls.name
    if not _NAME.fullmatch(name):
        raise PassError(f"pass {cls.__name__}: its name {name!r} must be lower-case words joined by '-'")
    if not dataclasses.is_dataclass(cls):
        raise PassError(f"pass {name}: {cls.__name__} must be a frozen dataclass")
    with _lock:
        other = _registry.setdefault(name, cls)
    if other is not cls:
        classes = " and ".join(f"{c.__module__}.{c.__qualname__}" for c in (other, cls))
        raise PassError(f"two passes are named {name!r}: {classes}")
    return cls


def _load_all() -> None:
    """Register the passes of this folder and those of other packages, once."""
    global _all_loaded
    with _lock:
        if _all_loaded:
            return
        _all_loaded = True
        # Tools and tests know this module alone; the others of this folder register their passes as they are imported.
        import pkgutil
        from importlib import import_module

        folder = import_module(__package__ or "")
        for found in pkgutil.walk_packages(folder.__path__, f"{folder.__name__}."):
            import_module(found.name)
        for entry, cls in load_entry_points(ENTRY_POINTS):
            try:
                _register_entry(entry.name, cls)
            except PassError as error:
                warn_of(entry, ENTRY_POINTS, str(error))


def _register_entry(name: str, cls: Any) -> None:
    if not (isinstance(cls, type) and issubclass(cls, Pass)):
        raise PassError(f"it holds {cls!r}, which is not a Pass class")
    if cls.name != name:
        raise PassError(f"it holds the pass {cls.name!r}: an entry is named as its pass")
    register_pass(cls)


def registered_passes() -> dict[str, type[Pass]]:
    """All passes by name, also those of other packages."""
    _load_all()
    return dict(sorted(_registry.items()))


def find_pass(name: str) -> type[Pass]:
    """The pass of that name; PassError with the nearest name otherwise."""
    found = _registry.get(name)
    if found is None:
        known = registered_passes()
        found = known.get(name)
        if found is None:
            near = difflib.get_close_matches(name, list(known), n=1)
            hint = f"; did you mean {near[0]!r}?" if near else f"; the passes are {', '.join(known)}"
            raise PassError(f"no pass is named {name!r}{hint}")
    return found


# -- the text of pipelines --------------------------------------------------------------------------------------------


def options_of(cls: type[Pass]) -> dict[str, dataclasses.Field[Any]]:
    """The options of a pass by their names in text (``least-elements`` for the field ``least_elements``)."""
    return {f.name.replace("_", "-"): f for f in dataclasses.fields(cls)}


DEFAULT = re.compile(r"(?<![\w-])default(?![\w-])(?![^{]*\})")
"""In a pipeline's text: where the target's own passes are to be."""


def with_default(pipeline: str, default: str) -> str:
    """A pipeline's text with ``default`` replaced by the target's own passes."""
    return DEFAULT.sub(lambda _: default, pipeline)


def passes_key(passes: Iterable[Pass]) -> str:
    """Text that tells pipelines apart: classes, all options, and the code of other packages' classes."""
    each = list(passes)
    texts = [f"{type(p).__module__}.{type(p).__qualname__}{p!r}" for p in each]
    return "\n".join([*texts, code_fingerprint(type(p).__module__ for p in each)])


def pass_to_str(p: Pass) -> str:
    """``fuse{least-elements=4096}``; options at their defaults are left out."""
    options: list[str] = []
    for name, f in options_of(type(p)).items():
        value = getattr(p, f.name)
        default: Any = f.default if f.default_factory is dataclasses.MISSING else f.default_factory()
        if value != default:
            options.append(f"{name}={option_to_str(value)}")
    return p.name + (f"{{{','.join(options)}}}" if options else "")


def option_to_str(value: Any) -> str:
    """An option's value as a pipeline's text has it: ``true``, ``none``, ``0|2``."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "none"
    if isinstance(value, tuple):
        return "|".join(map(option_to_str, value))  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    return str(value)


def pipeline_to_str(passes: Iterable[Pass]) -> str:
    """The text of a pipeline, as `parse_pipeline` reads it."""
    return ",".join(pass_to_str(p) for p in passes)


_BOOLS = {"true": True, "1": True, "yes": True, "on": True, "false": False, "0": False, "no": False, "off": False}


_INT = re.compile(r"[-+]?\d+")
_IN_WORDS = {
    "None": "none",
    "tuple[str, ...]": "words separated by '|'",
    "tuple[int, ...]": "integers separated by '|'",
    "tuple[int | None, ...]": "integers or none, separated by '|'",
}


def _option_value(p: str, name: str, annotation: str, text: str) -> Any:
    # Not at a "|" within brackets.
    kinds = [kind.strip() for kind in re.split(r"\|(?![^\[]*\])", str(annotation))]
    if "None" in kinds and text.lower() == "none":
        return None
    for kind in kinds:
        if kind == "bool" and text.lower() in _BOOLS:
            return _BOOLS[text.lower()]
        if kind == "int" and _INT.fullmatch(text):
            return int(text)
        if kind == "float":
            try:
                return float(text)
            except ValueError:
                continue
        if kind == "str":
            return text
        if kind == "tuple[str, ...]":
            return tuple(text.split("|")) if text else ()
        if kind in ("tuple[int, ...]", "tuple[int | None, ...]"):
            items = [item.strip().lower() for item in text.split("|")] if text else []
            if all(_INT.fullmatch(item) or (item == "none" and "None" in kind) for item in items):
                return tuple(None if item == "none" else int(item) for item in items)
    expected = " or ".join(_IN_WORDS.get(kind, kind) for kind in kinds)
    raise PassError(f"option {name} of pass {p}: got {text!r}, expected {expected}")


def annotation_of(f: dataclasses.Field[Any]) -> str:
    """The type of an option as it is written, also where a module's annotations are not kept as text."""
    return f.type.__name__ if isinstance(f.type, type) and not hasattr(f.type, "__args__") else str(f.type)


def make_pass(name: str, options: Sequence[tuple[str, str]]) -> Pass:
    """A pass by its name and the texts of its options.

    Raises PassError for an unknown pass or option (with the nearest name), one given twice, or a value of the wrong type.
    """
    cls = find_pass(name)
    known = options_of(cls)
    values: dict[str, Any] = {}
    for option, text in options:
        f = known.get(option.replace("_", "-"))
        if f is None:
            near = difflib.get_close_matches(option, list(known), n=1)
            if near:
                hint = f"; did you mean {near[0]!r}?"
            else:
                hint = f"; it has {', '.join(known)}" if known else "; it has no options"
            raise PassError(f"pass {name} has no option {option!r}{hint}")
        if f.name in values:
            raise PassError(f"option {option} of pass {name} is given twice")
        values[f.name] = _option_value(name, option, annotation_of(f), text)
    return cls(**values)


_ITEM = re.compile(r"\s*(?P<name>[\w-]+)\s*(?:\{(?P<options>[^{}]*)\})?\s*(?P<end>,|$)")


def parse_pipeline(text: str) -> tuple[Pass, ...]:
    """The passes of a pipeline's text; none for an empty one.

    Raises PassError for an unknown pass (with the nearest name), an unknown option or a value of the wrong type.
    """
    passes: list[Pass] = []
    at = 0
    text = text.strip()
    while at < len(text):
        m = _ITEM.match(text, at)
        if m is None:
            raise PassError(
                f"pipeline {text!r}: expected pass or pass{{option=value,...}} separated by ',' at {text[at:][:20]!r}"
            )
        options: list[tuple[str, str]] = []
        for item in filter(None, (part.strip() for part in (m["options"] or "").split(","))):
            name, equals, value = item.partition("=")
            # An option that is only named is a bool that is set.
            options.append((name.strip(), value.strip() if equals else "true"))
        passes.append(make_pass(m["name"], options))
        at = m.end()
        if m["end"] == "," and at == len(text):
            raise PassError(f"pipeline {text!r}: a pass is expected after the last ','")
    return tuple(passes)
