"""Rules that need values: constant folding, conversions, selections and divisions by constants."""

from __future__ import annotations

import math

import numpy as np

from quire.ir import dtypes
from quire.ir.dtypes import DType
from quire.ir.jaxpr import Atom, ClosedJaxpr, Eqn, Jaxpr, Literal, Var
from quire.ir.primitive import PRIMITIVES
from quire.ir.primitives import control_flow, reductions, structural
from quire.ir.primitives import elementwise as ew
from quire.ir.tracing import hooks

from ..rewriting import copy_eqns
from .rewriter import NUMBER, SCALAR, Rewrite, Rewriter, rule

# -- conversions ------------------------------------------------------------------------------------------------------


def _bits(d: DType) -> int:
    """Bits of an integer's magnitude, or of a float's significand."""
    if dtypes.is_bool(d):
        return 1
    if dtypes.is_integer(d):
        return d.itemsize * 8 - dtypes.is_signed(d)
    return {dtypes.bfloat16: 8, dtypes.float16: 11, dtypes.float32: 24, dtypes.float64: 53}[dtypes.real_dtype(d)]


def holds_all_of(wide: DType, narrow: DType) -> bool:
    """Whether every value of one dtype is a value of another."""
    if wide == narrow or dtypes.is_bool(narrow):
        return True
    if dtypes.is_bool(wide):
        return False
    if dtypes.is_complex(narrow) and not dtypes.is_complex(wide):
        return False
    wide, narrow = dtypes.real_dtype(wide), dtypes.real_dtype(narrow)
    if dtypes.is_integer(narrow):
        if dtypes.is_integer(wide):
            signs_fit = dtypes.is_signed(wide) or dtypes.is_unsigned(narrow)
            return signs_fit and _bits(wide) >= _bits(narrow)
        # f16 holds 11-bit integers up to 65504, which is enough for those of 8 bits.
        return _bits(wide) >= _bits(narrow)
    if dtypes.is_integer(wide):
        return False
    if {wide, narrow} == {dtypes.float16, dtypes.bfloat16}:
        return False
    return _bits(wide) >= _bits(narrow)


def conversions_join(source: DType, middle: DType, last: DType) -> bool:
    """Whether converting source to middle to last is converting source to last."""
    if holds_all_of(middle, source):
        # A float out of an integer's range saturates, an integer wraps.
        through_float = dtypes.is_integer(source) and dtypes.is_inexact(middle)
        return not (through_float and dtypes.is_integer(last) and not holds_all_of(last, source))
    # Integers wrap: the last bits of the last bits.
    integers = all(map(dtypes.is_integer, (source, middle, last)))
    return integers and last.itemsize <= middle.itemsize <= source.itemsize


@rule(ew.convert_element_type_p)
def convert_to_its_own_dtype(r: Rewriter, e: Eqn) -> Rewrite:
    (x,) = e.inputs
    return x if x.aval.dtype == e.params["new_dtype"] else None


@rule(ew.convert_element_type_p, when=(ew.convert_element_type_p,))
def convert_of_convert(r: Rewriter, e: Eqn) -> Rewrite:
    inner = r.producer(e.inputs[0], ew.convert_element_type_p)
    if inner is None:
        return None
    (x,) = inner.inputs
    if not conversions_join(x.aval.dtype, inner.params["new_dtype"], e.params["new_dtype"]):
        return None
    if x.aval is e.outputs[0].aval:
        return x
    return r.emit(ew.convert_element_type_p, [x], **e.params)


# -- powers, quotients, sums with constants ---------------------------------------------------------------------------


@rule(ew.integer_pow_p)
def small_power(r: Rewriter, e: Eqn) -> Rewrite:
    (x,) = e.inputs
    y = e.params["y"]
    if y == 0 and not dtypes.is_complex(x.aval.dtype):
        return r.full(1, e.outputs[0].aval)
    if y == 1:
        return x
    if y == 2:
        return r.emit(ew.mul_p, [x, x]) if dtypes.is_complex(x.aval.dtype) else r.emit(ew.square_p, [x])
    return None


@rule(ew.pow_p, when=(NUMBER,))
def power_of_a_number(r: Rewriter, e: Eqn) -> Rewrite:
    """x^0.5 is sqrt(x); x^3.0 and x^-0.5 are x * x * x and 1 / sqrt(x), as in XLA, rounded once more than a power.

    The root of -0 is 0 here, that of -inf infinity.
    """
    x, y = e.inputs
    number = r.splat(y)
    if number is None or not dtypes.is_float(x.aval.dtype):
        return None
    exponent = float(number.value)
    if exponent == 3.0:
        return r.emit(ew.integer_pow_p, [x], y=3)
    if abs(exponent) != 0.5:
        return None

    def full(value: float) -> Atom:
        return r.full(value, e.outputs[0].aval)

    root = r.emit(ew.sqrt_p, [r.emit(ew.add_p, [x, full(0.0)])])
    is_infinite = r.emit(ew.eq_p, [x, full(-np.inf)])
    if exponent == 0.5:
        return r.emit(ew.select_n_p, [is_infinite, root, full(np.inf)])
    return r.emit(ew.select_n_p, [is_infinite, r.emit(ew.div_p, [full(1.0), root]), full(0.0)])


@rule(ew.div_p, when=(NUMBER,))
def divide_by_a_power_of_two(r: Rewriter, e: Eqn) -> Rewrite:
    """x / 2^k is x * 2^-k exactly, where both are normal numbers."""
    x, y = e.inputs
    divisor = r.splat(y)
    if divisor is None or not dtypes.is_float(y.aval.dtype):
        return None
    value = float(divisor.value)
    if value == 0 or not math.isfinite(value) or abs(math.frexp(value)[0]) != 0.5:
        return None
    with np.errstate(all="ignore"):
        inverse = np.asarray(1 / value).astype(y.aval.dtype)
    info = _finfo(y.aval.dtype)
    if not info[0] <= abs(float(inverse)) <= info[1] or not info[0] <= abs(value):
        return None
    return r.emit(ew.mul_p, [x, Literal(inverse, divisor.aval)])


@rule(ew.add_p, ew.sub_p, ew.mul_p, ew.div_p, ew.rem_p, ew.max_p, ew.min_p, ew.atan2_p, when=(NUMBER,))
def not_a_number_stays(r: Rewriter, e: Eqn) -> Rewrite:
    """What is computed with a constant NaN is NaN.

    Compilers of machine code know it too. Functions that take the exponent of their argument (exp, cbrt) make an integer of it
    there, and as the integer of a NaN is undefined, all that depends on it would be left out.
    """
    if not dtypes.is_float(e.outputs[0].aval.dtype):
        return None
    numbers = [r.splat(x) for x in e.inputs]
    if any(n is not None and np.isnan(np.float64(n.value)) for n in numbers):
        return r.full(np.nan, e.outputs[0].aval)
    return None


def _finfo(d: DType) -> tuple[float, float]:
    """The least normal and the largest number."""
    if d == dtypes.bfloat16:
        return 2.0**-126, float(np.finfo(np.float32).max)
    info = np.finfo(d)
    return float(info.tiny), float(info.max)


@rule(ew.add_p, ew.mul_p, ew.and_p, ew.or_p, ew.xor_p, when=(NUMBER,))
def two_integer_constants(r: Rewriter, e: Eqn) -> Rewrite:
    """(x + c) + d is x + (c + d) for integers, which wrap."""
    if not dtypes.is_integer(e.outputs[0].aval.dtype):
        return None
    for a, b in (e.inputs, e.inputs[::-1]):
        d = r.splat(b)
        inner = r.producer(a, e.primitive)
        if d is None or inner is None or not r.single_use(a):
            continue
        for x, y in (inner.inputs, inner.inputs[::-1]):
            c = r.splat(y)
            if c is not None and r.splat(x) is None:
                out = r.emit(e.primitive, [x, r.emit(e.primitive, [c, d])])
                return r.broadcast(out, e.outputs[0].aval)
    return None


# -- selection --------------------------------------------------------------------------------------------------------


@rule(ew.select_n_p, when=(NUMBER,))
def select_by_a_constant(r: Rewriter, e: Eqn) -> Rewrite:
    which = r.splat(e.inputs[0])
    if which is None:
        return None
    index = int(which.value)
    return e.inputs[1 + index] if 0 <= index < len(e.inputs) - 1 else None


@rule(ew.select_n_p, when=(NUMBER,))
def select_of_true_and_false(r: Rewriter, e: Eqn) -> Rewrite:
    which, *cases = e.inputs
    if len(cases) != 2 or not dtypes.is_bool(which.aval.dtype) or not dtypes.is_bool(cases[0].aval.dtype):
        return None
    values = [r.splat(c) for c in cases]
    if values[0] is None or values[1] is None or which.aval.shape != cases[0].aval.shape:
        return None
    first, second = (bool(v.value) for v in values if v is not None)
    if (first, second) == (False, True):
        return which
    return r.emit(ew.not_p, [which]) if (first, second) == (True, False) else None


@rule(control_flow.cond_p)
def cond_with_a_constant_index(r: Rewriter, e: Eqn) -> Rewrite:
    """The branch's equations stand for the cond."""
    index = e.inputs[0]
    branches = e.params["branches"]
    if len(branches) > 1:
        if not isinstance(index, Literal):
            return None
        i = min(max(int(index.value), 0), len(branches) - 1)
    else:
        i = 0
    body = branches[i].jaxpr
    if any(a.aval is not v.aval for a, v in zip(e.inputs[1:], body.invars)):
        return None
    if any(a.aval is not v.aval for a, v in zip(body.outvars, e.outputs)):
        return None
    eqns: list[Eqn] = []
    results = copy_eqns(body, e.inputs[1:], {}, eqns.append, e)
    for eqn in eqns:
        r.eqns.append(eqn)
        for v in eqn.outputs:
            r.producers[v] = eqn
    return results


@rule(control_flow.cond_p)
def cond_whose_branches_agree(r: Rewriter, e: Eqn) -> Rewrite:
    """A result that all branches take from one operand is that operand."""
    branches: tuple[ClosedJaxpr, ...] = e.params["branches"]
    agreed: list[Atom | None] = []
    for k, out in enumerate(e.outputs):
        given = {
            e.inputs[1 + b.jaxpr.invars.index(v)] if isinstance(v, Var) and v in b.jaxpr.invars else None
            for b in branches
            for v in (b.jaxpr.outvars[k],)
        }
        (same,) = given if len(given) == 1 else (None,)
        agreed.append(same if same is not None and same.aval is out.aval else None)
    if all(a is None for a in agreed) or (e.effects and None not in agreed):
        return None
    if None not in agreed:
        return [a for a in agreed if a is not None]
    left = [k for k, a in enumerate(agreed) if a is None]
    narrow = tuple(
        ClosedJaxpr(Jaxpr(j.constvars, j.invars, [j.outvars[k] for k in left], j.eqns), b.consts)
        for b in branches
        for j in (b.jaxpr,)
    )
    rest = iter(r.emit_all(e.primitive, e.inputs, {**e.params, "branches": narrow}))
    return [next(rest) if a is None else a for a in agreed]


# -- sums and extremes of counting numbers ----------------------------------------------------------------------------


def _counting(r: Rewriter, e: Eqn) -> int | None:
    """How many numbers 0, 1, ... each reduction goes through, if it reduces an iota along its own dimension only."""
    inner = r.producer(e.inputs[0], structural.iota_p)
    if inner is None or tuple(e.params["axes"]) != (inner.params["dimension"],):
        return None
    n: int = e.inputs[0].aval.shape[inner.params["dimension"]]  # pyright: ignore
    exact = 2 ** min(_bits(e.outputs[0].aval.dtype), 53)
    return n if 0 < n <= exact else None  # pyright: ignore


@rule(reductions.reduce_sum_p, when=(structural.iota_p,))
def sum_of_counting_numbers(r: Rewriter, e: Eqn) -> Rewrite:
    """0 + 1 + ... + (n - 1) is n (n - 1) / 2; integers wrap, floats are rounded once."""
    n = _counting(r, e)
    if n is None:
        return None
    total: int | float = n * (n - 1) // 2
    d = e.outputs[0].aval.dtype
    if dtypes.is_integer(d):
        bits = 8 * d.itemsize
        total &= 2**bits - 1
        total -= 2**bits if dtypes.is_signed(d) and total >= 2 ** (bits - 1) else 0
    elif dtypes.is_bool(d) or dtypes.is_complex(d) or total > _finfo(d)[1]:
        return None
    return r.full(total, e.outputs[0].aval)


@rule(reductions.reduce_max_p, when=(structural.iota_p,))
def largest_counting_number(r: Rewriter, e: Eqn) -> Rewrite:
    n = _counting(r, e)
    return None if n is None else r.full(n - 1, e.outputs[0].aval)


@rule(reductions.reduce_min_p, when=(structural.iota_p,))
def least_counting_number(r: Rewriter, e: Eqn) -> Rewrite:
    return None if _counting(r, e) is None else r.full(0, e.outputs[0].aval)


# -- constant folding -------------------------------------------------------------------------------------------------

_FOLDED_FAMILIES = ("elementwise", "reductions", "structural", "contraction", "indexing")
_NOT_FOLDED = ("copy", "optimization_barrier", "iota", "broadcast_in_dim")


def fold_constants(r: Rewriter, e: Eqn) -> Rewrite:
    """A scalar result of constants only is computed now."""
    if hooks.reference is None or e.effects or any(v.aval.shape for v in e.outputs):
        return None
    values = [r.value(a) for a in e.inputs]
    if not values or any(v is None for v in values):
        return None
    try:
        out = hooks.reference(e.primitive, values, e.params, [v.aval for v in e.outputs])
    except NotImplementedError:
        return None
    return [Literal(x, v.aval) for x, v in zip(out, e.outputs)]


for _p in list(PRIMITIVES.values()):
    if _p.family in _FOLDED_FAMILIES and _p.name not in _NOT_FOLDED:
        rule(_p, when=(SCALAR,))(fold_constants)
