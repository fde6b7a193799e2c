"""Compiled modules for the runtime's tests."""

import functools

import pytest

from quire.backends.iree import compile_service
from quire.backends.targets import get_target
from quire.runtime.devices import devices


@functools.cache
def _compiled(text, platform):
    return compile_service().compile(text, get_target(platform).flags, name="test").vmfb


@pytest.fixture(scope="session")
def compiled():
    """compiled(text, platform="cpu"): the vmfb, compiled once a session."""
    return lambda text, platform="cpu": _compiled(text, platform)


@pytest.fixture
def cpu():
    return devices("cpu")[0]


@pytest.fixture
def vulkan():
    try:
        return devices("vulkan")[0]
    except RuntimeError as error:
        pytest.skip(str(error))


@pytest.fixture(params=["cpu", pytest.param("vulkan", marks=pytest.mark.vulkan)])
def device(request):
    return request.getfixturevalue(request.param)
