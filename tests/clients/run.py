"""Runs a program of `programs/` twice and writes what it gave and how long the second time took, as JSON.

``python tests/clients/run.py PROGRAM RESULT.json`` runs it on the jax that is installed, ``--quire`` before it on quire.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import time
from pathlib import Path
from typing import Any

LONGEST = 64
"""So many numbers of an array are compared, spread evenly."""


def numbers(value: Any) -> dict[str, Any]:
    """The shape of an array and its numbers, complex ones as pairs."""
    import numpy as np

    x = np.asarray(value)
    flat = x.ravel()
    if np.iscomplexobj(flat):
        flat = np.stack([flat.real, flat.imag], axis=-1).ravel()
    step = max(1, -(-flat.size // LONGEST))
    return {"shape": list(x.shape), "values": [float(f"{float(v):.9g}") for v in flat[::step]]}


def load(name: str) -> Any:
    """The module of a program."""
    path = Path(__file__).with_name("programs") / f"{name}.py"
    spec = importlib.util.spec_from_file_location("client_program", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def main(arguments: list[str]) -> None:
    """Run the program that the arguments name."""
    if arguments[0] == "--quire":
        arguments = arguments[1:]
        import quire.as_jax  # noqa: F401
    name, result = arguments
    program = load(name)
    start = time.perf_counter()
    program.main()
    first = time.perf_counter() - start
    start = time.perf_counter()
    given = program.main()
    found = {key: numbers(value) for key, value in given.items()}
    seconds = time.perf_counter() - start
    Path(result).write_text(json.dumps({"first": first, "second": seconds, "numbers": found}))


if __name__ == "__main__":
    main(sys.argv[1:])
