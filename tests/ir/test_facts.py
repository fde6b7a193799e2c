"""What the primitives' declarations say is true."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from quire.backends.reference import evaluate
from quire.ir import dtypes
from quire.ir.avals import ShapedArray
from quire.ir.jaxpr import Eqn, Var
from quire.ir.primitive import PRIMITIVES, Primitive
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import indexing as ix
from quire.ir.primitives import reductions as rd
from quire.ir.primitives import structural as st
from quire.ir.primitives import windows as wd
from quire.ir.weights import weight

X, Y = np.array([3, -2, 7, 0, 5], np.int32), np.array([-4, 6, 2, 9, 1], np.int32)


def computed(p: Primitive, *operands: np.ndarray, **params: object) -> np.ndarray:
    avals = p.infer([ShapedArray(x.shape, x.dtype) for x in operands], params)
    return evaluate(p, operands, params, avals)[0]


def test_elementwise_primitives_say_how_they_are_rounded() -> None:
    for p in PRIMITIVES.values():
        assert (p.rounding is not None) == (p.family == "elementwise"), p.name


def test_what_is_approximated_is_dear() -> None:
    for p in PRIMITIVES.values():
        assert p.rounding != "approximate" or p.weight >= 4, p.name


def test_numpy_computes_the_same() -> None:
    named = [p for p in PRIMITIVES.values() if p.numpy]
    assert len(named) > 40
    x, y = np.array([0.5, 1.5, -0.25, 2.0]), np.array([0.5, -1.0, 3.0, 2.0])
    for p in named:
        results = 0
        for operands in ((x,), (x, y), (X,), (X, Y), (x + 1j * y,)):
            try:
                got = computed(p, *operands)
            except TypeError:  # it takes others
                continue
            results += 1
            with np.errstate(all="ignore"):
                np.testing.assert_allclose(got, getattr(np, p.numpy)(*operands), 1e-12, err_msg=p.name)
        assert results, p.name


def test_the_order_of_operands_does_not_matter_where_that_is_said() -> None:
    for p in PRIMITIVES.values():
        if p.commutative:
            np.testing.assert_array_equal(computed(p, X, Y), computed(p, Y, X), err_msg=p.name)
    assert not ew.sub_p.commutative and not ew.lt_p.commutative


@pytest.mark.parametrize("p", [p for p in PRIMITIVES.values() if p.combine is not None], ids=str)
def test_elements_are_combined_as_declared(p: Primitive) -> None:
    assert p.combine is not None
    want = computed(p.combine, X, Y)
    both = np.stack([X, Y])
    if p.name.startswith("reduce_window"):
        window = {"window_dimensions": (2, 1), "window_strides": (1, 1), "padding": ((0, 0), (0, 0))}
        got = computed(p, both, **window, base_dilation=(1, 1), window_dilation=(1, 1))[0]
    elif p.name.startswith("reduce"):
        got = computed(p, both, axes=(0,))
    elif p.name.startswith("cum"):
        got = computed(p, both, axis=0, reverse=False)[1]
    elif p is wd.select_and_scatter_add_p:  # both windows choose the 7
        window = {"window_dimensions": (3,), "window_strides": (2,), "padding": ((0, 0),)}
        got = computed(p, np.array([10, 4], np.int32), X, select_prim="ge", **window)
        want = np.array([0, 0, computed(p.combine, np.int32(10), np.int32(4)), 0, 0])
    else:
        numbers = ix.ScatterDimensionNumbers((), (0,), (0,))
        at = {"indices_are_sorted": True, "unique_indices": True, "mode": ix.GatherScatterMode.CLIP}
        got = computed(p, X, np.arange(5, dtype=np.int32)[:, None], Y, dimension_numbers=numbers, **at)
    np.testing.assert_array_equal(got, want)


def test_monoids_are_those_of_the_reductions() -> None:
    assert list(rd.MONOIDS) == "add mul max min and or xor".split()
    for p in PRIMITIVES.values():
        assert p.combine is None or p.combine is ew.sub_p or rd.monoid_by(p) in rd.MONOIDS, p.name
    with pytest.raises(ValueError, match="cumlogsumexp combines no elements"):
        rd.monoid_by(rd.cumlogsumexp_p)


def test_weights() -> None:
    def of(p: Primitive, dtype: dtypes.DType) -> int:
        return weight(Eqn([Var(ShapedArray((3,), dtype))] * 2, [Var(ShapedArray((3,), dtype))], p, {}))

    for p, dtype in product((ew.add_p, ew.mul_p, ew.div_p), (dtypes.float32, dtypes.complex64)):
        assert of(p, dtype) == (p.complex_weight if dtypes.is_complex(dtype) else p.weight)
    assert ew.mul_p.complex_weight > ew.mul_p.weight
    assert ew.pow_p.complex_weight == 3 * ew.pow_p.weight
    assert st.reshape_p.weight == 0
