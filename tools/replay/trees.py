"""The source of quire under a commit: put into a temporary folder, identified by its content, imported from there.

A commit is a git revision, a folder, or the working tree. What is identified are the packages only: a commit that
changes a page of the documentation or a test has what the commit before it has.
"""

from __future__ import annotations

import hashlib
import io
import shutil
import subprocess
import tarfile
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WORKING_TREE = "working tree"
# The programs come from the tool's own folder, and no part of the compiler imports it.
_NOT_COMPARED = "quire.tools"


class TreeError(ValueError):
    """There is no such commit, or it holds no quire."""


@dataclass(frozen=True)
class Tree:
    """A commit's source.

    Attributes:
        name: what the user called it.
        packages: from the names of packages to the folders that hold them.
        digest: of the paths and contents of all files of the packages.
    """

    name: str
    root: Path
    packages: Mapping[str, str]
    digest: str


def snapshot(name: str | None, folder: Path) -> Tree:
    """The source of a commit (None: the working tree), in a folder which is made.

    Raises:
        TreeError: there is none.
    """
    if name is not None and not Path(name, "pyproject.toml").is_file():
        _export(name, folder)
        return _tree(name, folder)
    source = ROOT if name is None else Path(name).resolve()
    folder.mkdir(parents=True)
    shutil.copy2(source / "pyproject.toml", folder)
    # With its bytecode, which keeps valid: a snapshot need not compile some seven hundred modules.
    for path in _packages(folder).values():
        if (source / path).is_dir() and not (folder / path).exists():
            shutil.copytree(source / path, folder / path)
    return _tree(name or WORKING_TREE, folder)


def _export(revision: str, folder: Path) -> None:
    done = subprocess.run(
        ["git", "-C", str(ROOT), "archive", "--format=tar", "--end-of-options", revision], capture_output=True
    )
    if done.returncode:
        message = done.stderr.decode(errors="replace").strip()
        raise TreeError(f"{revision} is no folder and no revision of {ROOT}: {message}")
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        archive.extractall(folder, filter="data")


def _packages(root: Path) -> dict[str, str]:
    """The table of the packages' folders of a commit's pyproject.toml."""
    try:
        settings = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
        packages: dict[str, str] = settings["tool"]["setuptools"]["package-dir"]
    except (OSError, KeyError, tomllib.TOMLDecodeError) as error:
        raise TreeError(f"{root} holds no quire: {type(error).__name__}: {error}") from None
    return {name: path for name, path in packages.items() if name != _NOT_COMPARED}


def _tree(name: str, root: Path) -> Tree:
    packages = _packages(root)
    return Tree(name, root, packages, digest_of([root / path for path in packages.values()], root))


def digest_of(paths: list[Path], root: Path) -> str:
    """A hash of the files at and below some paths, by their names below the root and their contents."""
    found = {file for path in paths for file in (path.rglob("*") if path.is_dir() else [path]) if file.is_file()}
    digest = hashlib.sha256()
    for file in sorted(found):
        if "__pycache__" not in file.parts:
            content = hashlib.sha256(file.read_bytes()).hexdigest()
            digest.update(f"{file.relative_to(root).as_posix()}\0{content}\n".encode())
    return digest.hexdigest()
