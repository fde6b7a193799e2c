"""What the site of docs/ is made of besides its pages: the reference from docstrings, notebooks, links out of docs/ (mkdocs.yml).

Nothing is fetched: pages are made of what is imported, and of the files of the checkout.
"""

from __future__ import annotations

import importlib
import inspect
import json
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
#: The modules of the reference, each a page.
MODULES = (
    "quire", "quire.numpy", "quire.lax", "quire.random", "quire.nn", "quire.tree_util", "quire.debug", "quire.plugins",
    "quire.stages", "quire.errors", "quire.sharding", "quire.profiler", "quire.extend.core", "quire.interpreters.mlir",
)  # fmt: skip
#: Methods of what kernels are given, beside the modules.
CLASSES = (("quire.kernels.language", "quire.backends.kernels.blocks.language", "Block"),)


def public_names(module: Any) -> list[str]:
    """What a module shows: its `__all__`, or what its package's own modules define, without modules."""
    listed = getattr(module, "__all__", None)
    names = listed if listed is not None else [n for n in vars(module) if not n.startswith("_")]
    if module.__name__ == "quire":
        names = [*names, "kernel", "from_jax", "from_stablehlo"]
    found = ((n, getattr(module, n)) for n in dict.fromkeys(names))
    return sorted(n for n, value in found if callable(value) and not inspect.ismodule(value))


def entry(name: str, value: Any) -> list[str]:
    """The lines of one function or class."""
    try:
        signature = str(inspect.signature(value))
    except (TypeError, ValueError):
        signature = ""
    signature = re.sub(r"'([\w.\[\], |*()]+)'", r"\1", re.sub(r" at 0x[0-9a-f]+", "", signature))
    doc = inspect.getdoc(value) or ""
    lines = [f"## {name}", "", "```python", f"{name}{signature}", "```", ""]
    return [*lines, *_body(doc), ""]


def _body(doc: str) -> list[str]:
    """A docstring as Markdown: sections of Google's style become bold lines and lists, examples become code."""
    lines: list[str] = []
    section, code = "", False
    for line in doc.splitlines():
        head = re.fullmatch(r"(Args|Arguments|Returns|Raises|Attributes|Example|Examples|Yields):\s*", line)
        text = line.strip()
        if head:
            section, code = head[1], False
            lines += ["", f"**{head[1]}**", ""]
        elif section in ("Args", "Arguments", "Raises", "Attributes") and re.match(r"    \S", line):
            name, colon, rest = text.partition(":")
            lines.append(f"- `{name}`:{rest}" if colon else f"- {text}")
        elif section in ("Example", "Examples") or text.startswith((">>>", "...")):
            if text.startswith(">>>") and not code:
                lines += ["", "```python"]
                code = True
            if code and not text:
                lines.append("```")
                code = False
            lines.append(re.sub(r"^    ", "", line) if section else line)
        elif code:
            lines.append(line)
            if not text:
                lines[-1:] = ["```", ""]
                code = False
        elif not line.startswith(" ") and text:
            section = ""
            lines.append(line)
        else:
            lines.append(f"  {text}" if section in ("Args", "Arguments", "Raises", "Attributes") and text else text)
    if code:
        lines.append("```")
    return [re.sub(r"``([^`]+)``", r"`\1`", line).replace("<", "&lt;") if not line.startswith(("```", ">>>", "...")) else line
            for line in lines]  # fmt: skip


def reference_page(name: str) -> str:
    """The page of a module."""
    module = importlib.import_module(name)
    lines = [f"# {name}", "", *_body(inspect.getdoc(module) or ""), ""]
    for member in public_names(module):
        lines += entry(member, getattr(module, member))
    return "\n".join(lines)


def class_page(title: str, module: str, name: str) -> str:
    """The page of a class: its methods that docs/user-kernels.md names; the others are the compiler's."""
    shown = set(re.findall(r"\w+", (ROOT / "docs" / "user-kernels.md").read_text(encoding="utf-8")))
    cls = getattr(importlib.import_module(module), name)
    lines = [f"# {title}", "", *_body(inspect.getdoc(cls) or ""), ""]
    for member, value in sorted(vars(cls).items()):
        if member in shown - {"store", "each", "error", "memory"} and inspect.isfunction(value):
            lines += entry(f"k.{member}", value)
    return "\n".join(lines)


def notebook_page(text: str) -> str:
    """A notebook's cells as Markdown."""
    parts: list[str] = []
    for cell in json.loads(text)["cells"]:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
    return "\n\n".join(parts) + "\n"


# -- what mkdocs calls ------------------------------------------------------------------------------------------------


def on_config(config: Any) -> Any:
    """Put the pages of the reference into the navigation."""
    pages = [f"api/{name}.md" for name in (*MODULES, *(title for title, _, _ in CLASSES))]
    config["nav"] = [{"Reference": pages} if entry == {"Reference": "api/"} else entry for entry in config["nav"]]
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the generated pages."""
    from mkdocs.structure.files import File

    for name in MODULES:
        files.append(File.generated(config, f"api/{name}.md", content=reference_page(name)))
    for title, module, name in CLASSES:
        files.append(File.generated(config, f"api/{title}.md", content=class_page(title, module, name)))
    for notebook in sorted((ROOT / "docs" / "cookbook").glob("*.ipynb")):
        page = notebook_page(notebook.read_text(encoding="utf-8"))
        files.append(File.generated(config, f"cookbook/{notebook.stem}.md", content=page))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Links to files of the checkout outside of docs/ become their names, which the site lacks; those to notebooks name pages."""
    depth = page.file.src_uri.count("/")
    up = r"\.\./" * (depth + 1)
    outside = re.compile(rf"\]\({up}([^)#\s]+)(#[^)\s]*)?\)")
    return outside.sub(lambda m: f"] (`{m[1]}`)", markdown).replace(".ipynb)", ".md)")
