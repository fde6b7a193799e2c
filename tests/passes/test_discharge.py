"""The pass discharge against the reference rules of references, which share nothing with it, and against NumPy."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import quire
from quire.backends.reference import eval_jaxpr
from quire.ir.parser import parse
from quire.ir.primitives.refs import Slice
from quire.ir.printer import to_text
from quire.ir.verifier import verify
from quire.passes.base import PassContext
from quire.passes.discharge import Discharge, live_refs, uses_refs, written_refs


def random_index(rng: random.Random, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """An index of an array of a shape."""
    batch = rng.choice([(), (), (2,), (3,), (2, 1)])
    entries: list[Any] = []
    for n in shape:
        kind = rng.choice(["slice", "slice", "step", "number", "array"])
        if kind == "slice":
            start = rng.randint(-n, n)
            entries.append(slice(rng.choice([None, start]), rng.choice([None, rng.randint(-n, n)])))
        elif kind == "step":
            entries.append(slice(rng.choice([None, rng.randint(0, n)]), None, rng.randint(2, 3)))
        elif kind == "number":
            entries.append(rng.randint(-n, n - 1))
        else:
            size = int(np.prod(batch, dtype=int))
            values = [rng.randint(-n, n - 1) for _ in range(size)]
            entries.append(np.array(values, np.int32).reshape(batch))
    return tuple(entries)


@pytest.mark.parametrize("seed", range(4))
def test_indices_mean_what_numpy_means(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(25):
        shape = tuple(rng.randint(1, 4) for _ in range(rng.randint(1, 3)))
        index = random_index(rng, shape)
        x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
        value = -1 - np.arange(x[index].size, dtype=np.float32).reshape(x[index].shape)

        def f(x: Any, value: Any, index: Any = index) -> Any:
            ref = quire.new_ref(x)
            old = quire.ref.swap(ref, index, value)
            quire.ref.addupdate(ref, index, value)
            return old, ref[index], ref[...]

        want = x.copy()
        old = want[index].copy()
        want[index] = value  # of equal positions the last
        np.add.at(want, index, value)
        closed = quire.make_jaxpr(f)(x, value)
        assert parse(to_text(closed)) == closed
        out = Discharge().apply(closed, PassContext())
        verify(out)
        assert not uses_refs(out) and "Ref{" not in to_text(out)
        for results in (eval_jaxpr(closed, x, value), eval_jaxpr(out, x, value)):
            for got, right in zip(results, (old, want[index], want), strict=True):
                np.testing.assert_array_equal(got, right, err_msg=f"{shape} {index}")


def test_what_is_written_and_what_is_left_to_rules() -> None:
    text = """
    { lambda ; a:Ref{f32[3]} b:Ref{f32[]} c:f32[] d:i32[]. let
        () = jit[
          donated_invars=(False, False)
          inline=False
          jaxpr={ lambda ; e:Ref{f32[]} f:Ref{f32[3]}. let g:f32[] <- f[0] e[...] <- g in () }
          name=f
        ] b a
        h:f32[] <- a[d]
      in (h,) }"""
    closed = parse(text)
    assert written_refs(closed) == (1,) and live_refs(closed) == () and uses_refs(closed)
    with pytest.raises(quire.errors.PassError, match=r"the program takes a reference Ref\{f32\[3\]\}"):
        Discharge().apply(closed, PassContext())


def test_programs_without_references_are_left_as_they_are() -> None:
    closed = quire.make_jaxpr(lambda x: quire.numpy.sin(x))(1.0)
    assert Discharge().apply(closed, PassContext()) is closed


def test_slices_are_written_as_python_has_them() -> None:
    for n in range(5):
        for start in range(n + 1):
            for stop in range(start, n + 1):
                for step in (1, 2, 3):
                    s = Slice(start, len(range(start, stop, step)), step)
                    parts = [int(p) if p else None for p in s.text(n).split(":")]
                    first, last, stride = [*parts, None][:3]
                    again = Slice.written(first, last, stride, n)
                    assert list(range(n))[first or 0 : n if last is None else last : stride or 1] == [
                        start + i * step for i in range(s.size)
                    ]
                    assert again == s, (n, s, s.text(n))
