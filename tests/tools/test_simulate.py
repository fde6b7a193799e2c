"""The simulator: what messages cost, what a step costs, its table, its drawing, and what is wrong said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import quire
import quire.numpy as jnp
from quire.ir.sharding import AbstractMesh, P
from quire.passes.partition import partition, peak
from quire.tools.simulate import plot
from quire.tools.simulate.cli import main
from quire.tools.simulate.machines import Link, Machine, link_of, machines
from quire.tools.simulate.steps import step

SCRIPT = """\
import quire
import quire.numpy as np

def step(w, x):
    return quire.grad(lambda w: (np.tanh(x @ w) ** 2).mean())(w)
"""


def test_collectives_take_latency_and_bytes() -> None:
    slow, wide = Link(1.0, 1e30), Link(0.0, 1.0)
    assert slow.collective("psum", 8, 8) == 3 and slow.collective("psum", 8, 1) == 0
    assert wide.collective("psum", 800, 8) == 2 * 7 * 100
    assert wide.collective("all_gather", 100, 8) == 700 and wide.collective("all_to_all", 800, 8) == 700
    assert Link(1.0, 10.0).collective("ppermute", 20, 8) == 3


def test_links_are_the_nearest_that_reach() -> None:
    near, far = Link(1e-6, 1e11, 8), Link(1e-5, 1e10)
    machine = Machine(1e12, 1e11, (near, far), axes={"z": Link(1, 1)})
    sizes = {"z": 2, "data": 4, "model": 8}
    assert machine.link(["model"], sizes) is near
    assert machine.link(["data"], sizes) is far and machine.link(["data", "model"], sizes) is far
    assert machine.link(["z"], sizes) == Link(1, 1)


def test_a_step_is_computing_and_messages() -> None:
    machine = Machine(1e9, 1e30, (Link(0.5, 1e30),), call=0.25)
    closed = quire.make_jaxpr(lambda x, w: x @ w)(jnp.ones((64, 128)), jnp.ones((128, 32)))
    mesh = AbstractMesh((4,), ("x",))
    found = step(partition(closed, mesh, [P(None, "x"), P("x")], [P()]), machine)
    assert found.communicate == 1.0  # two turns of recursive doubling
    assert found.compute == pytest.approx(2 * 64 * 128 * 32 / 4 / 1e9)
    assert found.seconds == found.compute + 1.25 and found.devices == 4
    assert found.received == 64 * 32 * 4 * 2 * 3 // 4
    crowded = step(partition(closed, mesh, [P(None, "x"), P("x")], [P()]), Machine(1e9, 1e30, (Link(0.5, 1e30),), cores=2))
    assert crowded.compute == 2 * found.compute


def test_loops_count_their_turns() -> None:
    machine = Machine(1e30, 1e30, (Link(1.0, 1e30),))

    def f(x: Any) -> Any:
        return quire.lax.fori_loop(0, 5, lambda _, c: c - c.sum(0), x)

    p = partition(quire.make_jaxpr(f)(jnp.ones((8, 4))), AbstractMesh((2,), ("x",)), [P("x")])
    assert step(p, machine).communicate == 5


def test_the_most_that_is_held() -> None:
    closed = quire.make_jaxpr(lambda x: (jnp.sin(x) + 1).sum())(jnp.ones((100,)))
    found = peak(closed.jaxpr)
    assert (found.bytes, found.arguments) == (1200, 400) and found.eqn is not None and found.eqn.primitive.name == "add"


def run(capsys: Any, folder: Path, *words: str) -> tuple[int, str, str]:
    script = folder / "model.py"
    script.write_text(SCRIPT)
    status = main([f"{script}:step", "--args", "f32[16,8]", "f32[64,16]", "--specs", "P()", "P('data')", *words])
    out = capsys.readouterr()
    return status, out.out, out.err


def test_the_table(tmp_path: Path, capsys: Any) -> None:
    status, out, _ = run(capsys, tmp_path, "--devices", "1,2,4", "--machine", "two-cores", "--plot", str(tmp_path / "a.svg"))
    lines = out.splitlines()
    assert status == 0 and "two-cores" in lines[0] and lines[1].split()[:3] == ["devices", "step", "ms"]
    assert [line.split()[0] for line in lines[2:]] == ["1", "2", "4"]
    assert float(lines[2].split()[3]) == 0 < float(lines[3].split()[3])
    assert (tmp_path / "a.svg").read_text().rstrip().endswith("</svg>")
    status, out, _ = run(capsys, tmp_path, "--devices", "2,8", "--weak", "--mesh", "model=2,data=*")
    first, last = (line.split() for line in out.splitlines()[2:])
    assert status == 0 and first[2] == last[2]  # as much for each device


def test_drawings_without_matplotlib_are_svg(tmp_path: Path) -> None:
    machine = machines()["h100"]
    closed = quire.make_jaxpr(lambda x: x.sum())(jnp.ones((64,)))
    steps = [step(partition(closed, AbstractMesh((k,), ("x",)), [P("x")]), machine) for k in (1, 8)]
    text = plot.svg(steps, "a & b")
    assert text.count("<polyline") == 3 and "a &amp; b" in text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--machine", "abacus"], "expected one of two-cores, h100, ethernet"),
        (["--mesh", "data=4"], "expected one axis of size *"),
        (["--mesh", "data"], "expected axes such as data=*,model=4, got 'data'"),
        (["--mesh", "data=*,model=4", "--devices", "6"], "6 is no multiple of 4"),
        (["--link", "data=fast"], "expected a link such as data=1e-5,2e10"),
        (["--outs", "P('z')"], "Resource axis: z"),
        (["--machines", "/nowhere.toml"], "No such file"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, capsys: Any, words: list[str], message: str) -> None:
    status, _, err = run(capsys, tmp_path, *words)
    assert status == 2 and message in err


def test_machines_that_are_none_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "machines.toml"
    path.write_text("[a]\nflops = 1.0\nlinks = []\n")
    with pytest.raises(ValueError, match="a: expected flops, bytes_per_second, links"):
        machines(path)
    path.write_text("[a]\nflops = 1.0\nbytes_per_second = 1.0\nlinks = []\n")
    with pytest.raises(ValueError, match="expected at least one link"):
        machines(path)
    assert link_of("data=1e-5,2e10") == ("data", Link(1e-5, 2e10))
