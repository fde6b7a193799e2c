"""Reference rules of elementwise primitives."""

from __future__ import annotations

from typing import Any

import numpy as np

from quire.ir.primitives import elementwise as ew

from .rules import reference

_UFUNCS = {
    ew.neg_p: np.negative, ew.abs_p: np.abs, ew.floor_p: np.floor, ew.ceil_p: np.ceil,
    ew.add_p: np.add, ew.sub_p: np.subtract, ew.mul_p: np.multiply,
    ew.exp_p: np.exp, ew.log_p: np.log, ew.sin_p: np.sin, ew.cos_p: np.cos, ew.tanh_p: np.tanh,
    ew.eq_p: np.equal, ew.lt_p: np.less, ew.gt_p: np.greater,
}  # fmt: skip
for _p, _f in _UFUNCS.items():
    reference.add(_p, _f)


@reference(ew.select_n_p)
def select_n(which: Any, *cases: Any) -> Any:
    return np.choose(which.astype(np.intp), cases) if len(cases) > 2 else np.where(which, cases[-1], cases[0])


@reference(ew.convert_element_type_p)
def convert_element_type(x: Any, *, new_dtype: Any, weak_type: bool) -> Any:
    return x.astype(new_dtype)
