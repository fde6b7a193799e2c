"""Libraries that import jax run on quire with JAX's numbers: a few of them here, all by ./tools/test-clients."""

from __future__ import annotations

import importlib.util
import json

import pytest

from quire.tools import clients

_MODULES = {"dm-haiku": "haiku"}


@pytest.mark.parametrize("name", clients.IN_CI)
def test_a_library_gives_the_numbers_of_jax(name: str) -> None:
    if importlib.util.find_spec(_MODULES.get(name, name)) is None:
        pytest.skip(f"{name} is not installed here: ./tools/test-clients runs it")
    outcome = clients.check(name)
    assert outcome.equal, "\n".join((*outcome.differences, outcome.error))


def test_every_program_is_recorded_and_says_what_it_does() -> None:
    recorded = json.loads(clients.RECORDED.read_text())["programs"]
    assert sorted(recorded) == clients.names() and len(recorded) >= 30
    pinned = clients.versions()
    for name in clients.names():
        assert clients.describe(name)
        assert clients.PACKAGES.get(name, name) in pinned


def test_numbers_that_differ_are_told() -> None:
    recorded = {"numbers": {"x": {"shape": [2], "values": [1.0, 2.0]}, "~mean": {"shape": [1], "values": [1.0]}}}

    def compared(x: list[float], mean: float) -> clients.Outcome:
        numbers = {"x": {"shape": [len(x)], "values": x}, "~mean": {"shape": [1], "values": [mean]}}
        return clients.compare("optax", {"numbers": numbers, "first": 1.0, "second": 0.5}, recorded)

    assert compared([1.0, 2.00001], 1.2).equal
    assert compared([1.0, 2.1], 1.0).differences[0].startswith("x: differs by 0.05")
    assert compared([1.0, float("nan")], 1.0).differences[0].startswith("x: differs by inf")
    assert compared([1.0], 1.0).differences == ("x: shape [1], expected [2]",)
    assert not compared([1.0, 2.0], 3.0).equal
