"""Eager mode: an operation on concrete arrays outside any trace is evaluated at once by the reference rules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from quire.backends.reference import evaluate
from quire.ir.avals import aval_of
from quire.ir.jaxpr import Params
from quire.ir.primitive import Primitive
from quire.ir.tracing import hooks
from quire.runtime.array import from_numpy


def _evaluate(p: Primitive, args: Sequence[Any], params: Params) -> list[Any]:
    avals = [aval_of(a) for a in args]
    out_avals = p.infer(avals, params)
    operands = [np.asarray(a, dtype=v.dtype) for a, v in zip(args, avals)]
    results = evaluate(p, operands, params, out_avals)
    return [from_numpy(r, a) for r, a in zip(results, out_avals)]


hooks.evaluate = _evaluate
