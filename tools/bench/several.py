"""Workloads on several simulated devices: measured by a bench in a process of its own, as libraries count devices once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

OURS = "QUIRE_NUM_CPU_DEVICES"
THEIRS = "--xla_force_host_platform_device_count"


def are_here(devices: int) -> bool:
    """Whether this process was started with so many devices in every library."""
    return os.environ.get(OURS) == str(devices) and f"{THEIRS}={devices}" in os.environ.get("XLA_FLAGS", "").split()


def measured(
    devices: int, titles: Sequence[str], kind: str, libraries: Sequence[str], seconds: float
) -> list[dict[str, Any]]:
    """The results of these workloads, as JSON holds them. Raises RuntimeError when the process ends without them."""
    env = os.environ | {OURS: str(devices), "XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} {THEIRS}={devices}"}
    against = ",".join(n for n in libraries if n != "quire") or "none"
    options = [f"--{kind.replace(' ', '-')}"] if kind != "time" else []
    with tempfile.TemporaryDirectory(prefix="quire-bench-") as folder:
        path = Path(folder) / "results.json"
        command = [
            sys.executable, "-m", "quire.tools.bench", *titles, "--against", against, "--seconds", str(seconds),
            "--json", str(path), *options,
        ]  # fmt: skip
        out = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
        if not path.exists():
            raise RuntimeError(f"the bench of {devices} devices measured nothing: {out.stderr[-1000:]}")
        return json.loads(path.read_text(encoding="utf-8"))["results"]
