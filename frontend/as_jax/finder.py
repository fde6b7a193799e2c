"""The import hook: a finder for `jax`, `jax.*` and `jaxlib*` that answers with quire's modules.

A module of JAX with one source (`modules.sources`) *is* that module of quire. One with several is a facade: an object that
looks a name up in each of them in turn and keeps what it found.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.metadata
import sys
import types
from collections.abc import Iterable, Iterator, Sequence
from email.message import Message
from pathlib import Path
from typing import Any

from .modules import DISTRIBUTIONS, sources, submodules
from .report import absent
from .variables import take

_ROOTS = ("jax", "jaxlib")


class FacadeModule(types.ModuleType):
    """A module of JAX that shows the names of several modules of quire; submodules are imported when first used."""

    def __init__(self, name: str, shown: Sequence[types.ModuleType]) -> None:
        super().__init__(name, shown[0].__doc__ if shown else f"{name}, as quire answers it.")
        self._shown = tuple(shown)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name not in ("__version__", "__version_info__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        reason = ""
        for module in self._shown:
            try:
                value = getattr(module, name)
            except AttributeError as error:
                reason = reason or str(error).partition(": ")[2]
                continue
            if not isinstance(value, types.ModuleType) or value.__name__.partition(".")[0] not in ("quire",):
                setattr(self, name, value)
                return value
        full = f"{self.__name__}.{name}"
        if sources(full) is not None:
            return importlib.import_module(full)
        for module in self._shown:  # a module of quire that JAX has as an attribute only
            if hasattr(module, name):
                return getattr(module, name)
        absent.add(full)
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}" + (f": {reason}" if reason else ""))

    def __dir__(self) -> list[str]:
        names = {n for module in self._shown for n in dir(module)}
        return sorted({*names, *submodules(self.__name__), *super().__dir__()})


class _Loader(importlib.abc.Loader):
    """Loads a module of JAX: the module of quire that it is, or a facade."""

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType | None:
        found = _modules_of(spec.name)
        return FacadeModule(spec.name, found) if len(found) != 1 or submodules(spec.name) else None

    def exec_module(self, module: types.ModuleType) -> None:
        if not isinstance(module, FacadeModule):
            # The import system takes what stands in sys.modules afterwards, and leaves that module's own spec alone.
            sys.modules[module.__name__] = _modules_of(module.__name__)[0]


def _modules_of(name: str) -> list[types.ModuleType]:
    found = sources(name)
    assert found is not None, "find_spec answered for it"
    return [importlib.import_module(source) for source in found]


class Finder(importlib.abc.MetaPathFinder):
    """Answers imports of `jax`, `jax.*` and `jaxlib*`, and questions for their versions."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """A spec for a module of JAX that quire answers; None leaves a name to the other finders.

        Raises:
            ModuleNotFoundError: a module of JAX that quire does not have; the real JAX must not be asked for it.
        """
        if fullname.partition(".")[0] not in _ROOTS:
            return None
        if sources(fullname) is None:
            absent.add(fullname)
            raise ModuleNotFoundError(
                f"No module named {fullname!r}: quire.as_jax answers for jax, and quire has no such module",
                name=fullname,
            )
        spec = importlib.machinery.ModuleSpec(fullname, _Loader(), origin="quire.as_jax", is_package=True)
        spec.submodule_search_locations = []
        return spec

    def find_distributions(
        self, context: importlib.metadata.DistributionFinder.Context | None = None
    ) -> Iterator[importlib.metadata.Distribution]:
        """The distributions jax and jaxlib, for `importlib.metadata.version("jax")`."""
        name = None if context is None else context.name
        for package, version in DISTRIBUTIONS.items():
            if name is None or name.lower().replace("_", "-") == package:
                yield _Distribution(package, version)


class _Distribution(importlib.metadata.Distribution):
    """What `importlib.metadata` knows of a package that is not installed: its name and version."""

    def __init__(self, package: str, version: str) -> None:
        self._package = package
        self._version = version

    @property
    def metadata(self) -> Any:
        """Name and version, as a package's METADATA file holds them."""
        message = Message()
        message["Metadata-Version"] = "2.1"
        message["Name"] = self._package
        message["Version"] = self._version
        message["Summary"] = "answered by quire.as_jax"
        return message

    def read_text(self, filename: str) -> str | None:
        """The text of a metadata file; None where the distribution has none of that name."""
        return str(self.metadata) if filename in ("METADATA", "PKG-INFO") else None

    def locate_file(self, path: Any) -> Path:
        """Where a file of the distribution would be: in this folder, since quire answers for it."""
        return Path(__file__).parent / str(path)


def installed() -> bool:
    """Whether `import jax` is answered by quire in this process."""
    return any(isinstance(f, Finder) for f in sys.meta_path)


def install() -> None:
    """Let quire answer `import jax`; once, and before anything has imported the real JAX.

    Options are set as JAX's environment variables say (`variables`).

    Raises:
        ImportError: the real jax is imported already.
    """
    if installed():
        return
    real = [m for m in _loaded(_ROOTS) if not isinstance(m, FacadeModule)]
    if real:
        raise ImportError(
            f"quire.as_jax: the real {real[0].__name__} is imported already, from {getattr(real[0], '__file__', '?')}. "
            "Import quire.as_jax before anything that imports jax, or run the program with python -m quire.as_jax"
        )
    sys.meta_path.insert(0, Finder())
    importlib.invalidate_caches()
    absent.print_at_exit()
    take()


def _loaded(names: Iterable[str]) -> list[types.ModuleType]:
    return [sys.modules[n] for n in names if n in sys.modules]
