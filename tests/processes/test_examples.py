"""The examples on several devices, each process having one."""

from __future__ import annotations

import pytest

from .test_programs import ROOT, launch


@pytest.mark.parametrize(
    ("name", "count", "said"),
    [("heat_halo", 4, "plate on 2x2 devices"), ("digits_data_parallel", 2, "2 devices, loss of one device")],
)
def test_examples_under_mpi(name, count, said):
    run = launch(count, str(ROOT / "examples" / f"{name}.py"))
    assert run.returncode == 0, run.stderr
    assert run.stdout.count(said) == 1, run.stdout
