"""The page of ``dumpir --html`` in a real browser: it loads in time, draws the graph, and shows lineage in both directions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from quire.compiling.stage_texts import stages_of
from quire.tools.dumpir.inputs import load
from quire.tools.dumpir.report import html_answer
from tests import browser

pytestmark = pytest.mark.skipif(browser.CHROMIUM is None, reason="needs Chromium")


@pytest.fixture(scope="module")
def tab() -> Iterator[browser.Page]:
    with browser.page() as found:
        yield found


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a program of 2,400 equations, with branches and a wide layer."""
    folder = tmp_path_factory.mktemp("page")
    path = folder / "large.py"
    path.write_text(
        "import quire.numpy as np\ndef f(x, w):\n    for i in range(380):\n        h = np.tanh(x) * 0.5\n"
        "        x = x + h / (1 + np.abs(h))\n    ys = [np.sin(x * i) for i in range(60)]\n    return sum(ys) @ w, x\n"
    )
    (program,) = load(f"{path}:f", ["f32[64]", "f32[64,8]"], ())
    assert len(program.closed.eqns) > 2000
    stages = stages_of(program.closed, "cpu", None, program.name, names=program.names, out_tree=program.out_tree)
    html_answer(stages, program, folder / "page.html")
    return folder / "page.html"


def test_a_large_program_loads_in_time(tab: browser.Page, large: Path) -> None:
    assert large.stat().st_size < 10e6
    assert tab.open(f"{large.as_uri()}#program:jaxpr") < 2.0
    rows = tab.js("document.querySelectorAll('#eqns .row').length")
    assert rows > 2000 and tab.js("document.querySelectorAll('#source .row').length") == 7
    assert tab.open(f"{large.as_uri()}#graph:jaxpr") < 2.0  # all of it is drawn
    assert tab.js("document.querySelectorAll('#graph .node').length") == rows
    assert tab.js("document.querySelectorAll('#graph .edge').length") > rows
    # Every edge goes down, and equations of a layer do not lie on each other.
    assert tab.js(
        "(()=>{const b=new Map([...document.querySelectorAll('#graph g[data-i]')].map(g=>{const r=g.querySelector('rect');return"
        "[+g.dataset.i,[+r.getAttribute('x'),+r.getAttribute('y')]]}));const at=new Set([...b.values()].map(String));"
        "const e=D.stages[stage].eqns;return at.size===b.size&&e.every((q,i)=>q.i.every(j=>b.get(j)[1]<b.get(i)[1]))})()"
    )
    assert not tab.errors


def test_lineage_in_both_directions(tab: browser.Page, large: Path) -> None:
    """An equation that is clicked on: what it reads from, what reads from it, and what it became, as the program says."""
    tab.open(f"{large.as_uri()}#graph:jaxpr")
    at = json.loads(
        tab.js(
            "(()=>{const r=document.querySelector('#graph g[data-i=\"6\"] rect').getBoundingClientRect();"
            "return JSON.stringify([r.x+r.width/2,r.y+r.height/2])})()"
        )
    )
    tab.click(*at)
    assert tab.js("pick") == 6
    count = tab.js("D.stages[0].eqns.length")
    up, down = (tab.js(f"document.querySelectorAll('#graph .node.{c}').length") for c in ("up", "down"))
    want = json.loads(
        tab.js(
            "(()=>{const E=D.stages[0].eqns,u=new Set([6]),d=new Set([6]);for(let i=6;i>=0;i--)if(u.has(i))E[i].i.forEach(j=>u.add(j));"
            "E.forEach((e,i)=>{if(e.i.some(j=>d.has(j)))d.add(i)});return JSON.stringify([u.size-1,d.size-1])})()"
        )
    )
    assert [up, down] == want and up > 3 and down > 1500 and up + down < count
    said = tab.js("document.getElementById('said').textContent")
    assert f"reads from {up} (green), {down} read from it (orange)" in said
    lineage = tab.js("document.getElementById('lineage').textContent")
    assert (
        lineage.startswith("jaxpr (chosen)")
        and "fuse" in lineage
        and "fusion[elementwise" in lineage
        and "kernel elementwise_" in lineage
    )
    tab.js("(()=>{const s=document.querySelector('#bar select');s.value='near';s.onchange()})()")
    assert 5 < tab.js("document.querySelectorAll('#graph .node').length") < 60
    for name in ("kernels", "rewrites", "memory", "compile time"):
        tab.js(f"[...document.querySelectorAll('#tabs button')].find(b=>b.textContent==={name!r}).click()")
        assert tab.js("document.querySelectorAll('#wide table tr').length") > 1, name
    assert not tab.errors
