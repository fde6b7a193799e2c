"""Errors show the user's frames only."""

from __future__ import annotations

import traceback

import pytest

import quire
from quire.ir import errors


def wrong(x):
    if x > 0:
        return x
    return -x


def test_only_user_frames_are_shown():
    with pytest.raises(errors.TracerBoolConversionError) as caught:
        quire.compile(lambda x: wrong(x) + 1)(1.0)
    files = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert files[-1] == "wrong"
    assert len(files) <= 4  # this test, the boundary, the lambda, wrong


def test_all_frames_on_request():
    with quire.config.override(traceback_filtering=False), pytest.raises(errors.TracerBoolConversionError) as caught:
        quire.compile(wrong)(1.0)
    names = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert "trace_flat" in names
