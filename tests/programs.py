"""Random well-typed programs, made by binding primitives: for comparing the ways to run and to transform a program.

    @given(programs())
    def test_something(program):
        args = inputs(program)
        ...

Values stay moderate (sums, products of few factors, sin, tanh, max), so that results of compiled programs, the
reference and JAX can be compared with tolerances.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

from quire.ir import dtypes
from quire.ir.avals import ShapedArray
from quire.ir.jaxpr import ClosedJaxpr, Jaxpr
from quire.ir.primitives import calls, control_flow
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import reductions as rd
from quire.ir.primitives import structural as sl
from quire.ir.tracing import close_captured, trace_flat
from quire.passes.compare import random_inputs

DTYPES = (dtypes.float32, dtypes.int32, dtypes.bool_)

_FLOAT_UNARY = (ew.neg, ew.abs, ew.sin, ew.tanh, ew.floor, ew.square, ew.sign)
_INT_UNARY = (ew.neg, ew.abs, ew.sign)
_BINARY = (ew.add, ew.sub, ew.mul, ew.max, ew.min)
_COMPARE = (ew.lt, ew.ge, ew.eq, ew.ne)
_BITS = (ew.bitwise_and, ew.bitwise_or, ew.bitwise_xor)
_SHAPES = ((), (1,), (3,), (2, 3), (3, 1), (2, 1, 3))


class _Builder:
    """One function under construction: the values that later operations can use."""

    def __init__(self, draw: Callable[[Any], Any], values: Sequence[Any], control_flow: bool) -> None:
        self.draw = draw
        self.values = list(values)
        self.control_flow = control_flow

    def pick(self, accept: Callable[[Any], bool] = lambda x: True) -> Any | None:
        found = [x for x in self.values if accept(x)]
        return self.draw(st.sampled_from(found)) if found else None

    def scalar(self, dtype: dtypes.DType) -> Any:
        if dtypes.is_bool(dtype):
            return np.bool_(self.draw(st.booleans()))
        if dtypes.is_integer(dtype):
            return dtype.type(self.draw(st.integers(0 if dtypes.is_unsigned(dtype) else -3, 5)))
        return dtype.type(self.draw(st.sampled_from((-2.0, -1.0, -0.0, 0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0))))

    def step(self) -> None:
        kinds = ["unary", "binary", "scalar", "compare", "select", "shape", "reduce", "convert", "constant"]
        if self.control_flow:
            kinds += ["cond", "while", "scan", "jit"]
        out = getattr(self, "make_" + self.draw(st.sampled_from(kinds)))()
        for x in out if isinstance(out, list) else [out]:
            if x is not None and x.aval.size <= 4096:
                self.values.append(x)

    def make_unary(self) -> Any:
        x = self.pick()
        if dtypes.is_bool(x.dtype):
            return ew.bitwise_not(x)
        return self.draw(st.sampled_from(_FLOAT_UNARY if dtypes.is_inexact(x.dtype) else _INT_UNARY))(x)

    def make_binary(self) -> Any:
        x = self.pick()
        y = self.pick(lambda v: v.dtype == x.dtype and (v.shape == x.shape or not v.shape or not x.shape))
        return self.draw(st.sampled_from(_BITS if dtypes.is_bool(x.dtype) else _BINARY))(x, y)

    def make_scalar(self) -> Any:
        x = self.pick()
        f = self.draw(st.sampled_from(_BITS if dtypes.is_bool(x.dtype) else (*_BINARY, ew.add, ew.mul)))
        operands = [x, self.scalar(x.dtype)]
        return f(*(operands if self.draw(st.booleans()) else operands[::-1]))

    def make_compare(self) -> Any:
        x = self.pick(lambda v: not dtypes.is_bool(v.dtype))
        if x is None:
            return None
        y = self.pick(lambda v: v.dtype == x.dtype and v.shape == x.shape)
        return self.draw(st.sampled_from(_COMPARE))(x, y)

    def make_select(self) -> Any:
        which = self.pick(lambda v: dtypes.is_bool(v.dtype))
        if which is None:
            return None
        x = self.pick(lambda v: v.shape == which.shape)
        y = self.pick(lambda v: v.shape == which.shape and v.dtype == x.dtype)
        return ew.select_n_p.bind(which, x, y)

    def make_shape(self) -> Any:
        x = self.pick()
        kind = self.draw(st.sampled_from(("broadcast", "reshape", "transpose", "rev", "slice", "concatenate")))
        if kind == "broadcast" or not x.shape:
            shape = self.draw(st.sampled_from(((2,), (3,)))) if x.ndim < 4 else ()
            return sl.broadcast_in_dim(x, (*shape, *x.shape), tuple(range(len(shape), len(shape) + x.ndim)))
        if kind == "reshape":
            sizes = self.draw(st.sampled_from(((x.size,), (1, x.size), (x.size, 1), x.shape[::-1])))
            return sl.reshape(x, sizes)
        if kind == "transpose":
            return sl.transpose(x, self.draw(st.permutations(range(x.ndim))))
        if kind == "rev":
            return sl.rev_p.bind(x, dimensions=(self.draw(st.integers(0, x.ndim - 1)),))
        if kind == "slice":
            start = tuple(self.draw(st.integers(0, n - 1)) if n else 0 for n in x.shape)
            limit = tuple(self.draw(st.integers(a, n)) for a, n in zip(start, x.shape))
            strides = self.draw(st.sampled_from((None, (2,) * x.ndim)))
            return sl.slice_p.bind(x, start_indices=start, limit_indices=limit, strides=strides)
        return sl.concatenate_p.bind(x, x, dimension=self.draw(st.integers(0, x.ndim - 1)))

    def make_reduce(self) -> Any:
        x = self.pick(lambda v: bool(v.shape) and v.size > 0)
        if x is None:
            return None
        axes = tuple(sorted(self.draw(st.sets(st.integers(0, x.ndim - 1), min_size=1))))
        if dtypes.is_bool(x.dtype):
            return rd.reduce_or_p.bind(x, axes=axes)
        return self.draw(st.sampled_from((rd.reduce_sum_p, rd.reduce_max_p, rd.reduce_min_p))).bind(x, axes=axes)

    def make_convert(self) -> Any:
        x = self.pick()
        return ew.convert_element_type(x, self.draw(st.sampled_from(DTYPES)))

    def make_constant(self) -> Any:
        x = self.pick()
        if dtypes.is_bool(x.dtype) or not x.shape:
            return None
        constant = np.arange(x.size).reshape(x.shape) % 3
        if self.draw(st.booleans()):
            constant = np.ones(x.shape)
        return ew.add(x, constant.astype(x.dtype))

    # -- nested jaxprs

    def nested(self, avals: Sequence[ShapedArray], results: Sequence[ShapedArray]) -> ClosedJaxpr:
        """A function of these arguments that uses nothing else and returns the given types."""

        def f(*args: Any) -> list[Any]:
            inner = _Builder(self.draw, args, False)
            for _ in range(self.draw(st.integers(0, 3))):
                inner.step()
            out: list[Any] = []
            for i, aval in enumerate(results):
                same = [x for x in inner.values if x.aval.strong() is aval.strong()]
                x = self.draw(st.sampled_from(same)) if same else args[i]
                out.append(ew.tanh(x) if dtypes.is_float(aval.dtype) else x)
            return out

        jaxpr, captured, _ = trace_flat(f, avals, name="nested")
        if captured:  # constants: made anew without them
            return self.identity(avals, results)
        return ClosedJaxpr(jaxpr)

    def identity(self, avals: Sequence[ShapedArray], results: Sequence[ShapedArray]) -> ClosedJaxpr:
        jaxpr, _, _ = trace_flat(lambda *args: list(args[: len(results)]), avals, name="nested")
        return ClosedJaxpr(jaxpr)

    def operands(self, least: int = 1) -> list[Any]:
        return [self.pick() for _ in range(self.draw(st.integers(least, 3)))]

    def make_jit(self) -> list[Any]:
        xs = self.operands()
        avals = [x.aval for x in xs]
        body = self.nested(avals, avals)
        out: list[Any] = []
        for _ in range(self.draw(st.integers(1, 2))):
            out += calls.jit_p.bind(*xs, name="g", jaxpr=body, inline=False, donated_invars=(False,) * len(xs))
        return out

    def make_cond(self) -> list[Any] | None:
        pred = self.pick(lambda v: dtypes.is_bool(v.dtype) and not v.shape)
        index: Any = np.int32(self.draw(st.integers(0, 1)))
        if pred is not None:
            index = ew.convert_element_type(pred, np.int32)
        xs = self.operands()
        avals = [x.aval for x in xs]
        return control_flow.cond(index, xs, [self.nested(avals, avals), self.nested(avals, avals)])

    def make_while(self) -> list[Any]:
        xs = self.operands()
        avals = [x.aval for x in xs]
        count = ShapedArray((), dtypes.int32)
        body = self.nested(avals, avals)
        n = self.draw(st.integers(0, 3))

        def step(i: Any, *args: Any) -> list[Any]:
            from quire.ir.tracing import eval_jaxpr

            return [ew.add(i, np.int32(1)), *eval_jaxpr(body.jaxpr, (), args)]

        cond_jaxpr, _, _ = trace_flat(lambda i, *_: [ew.lt(i, np.int32(n))], [count, *avals], name="condition")
        body_jaxpr, _, _ = trace_flat(step, [count, *body.in_avals], name="body")
        return control_flow.while_p.bind(
            np.int32(0), *xs, cond_jaxpr=ClosedJaxpr(cond_jaxpr), body_jaxpr=ClosedJaxpr(body_jaxpr),
            cond_nconsts=0, body_nconsts=0,
        )[1:]  # fmt: skip

    def make_scan(self) -> list[Any] | None:
        xs = self.pick(lambda v: bool(v.shape) and v.shape[0] > 0)
        if xs is None:
            return None
        init = self.operands()
        x = xs.aval.update(shape=xs.shape[1:])
        avals = [v.aval for v in init]
        body = self.nested([*avals, x], [*avals, *([x] if len(avals) else [])])
        return control_flow.scan(
            (), init, [xs], body, length=xs.shape[0], reverse=self.draw(st.booleans()),
        )  # fmt: skip


@st.composite
def programs(
    draw: Callable[[Any], Any], *, max_steps: int = 10, dtypes: Sequence[Any] = DTYPES, control_flow: bool = False
) -> ClosedJaxpr:
    """A random program: a few inputs of small shapes, up to `max_steps` operations, a few results."""
    avals = [
        ShapedArray(draw(st.sampled_from(_SHAPES)), draw(st.sampled_from(tuple(dtypes))), draw(st.integers(0, 5)) == 0)
        for _ in range(draw(st.integers(1, 3)))
    ]
    avals = [a.strong() if a.dtype == np.bool_ else a for a in avals]

    def f(*args: Any) -> list[Any]:
        builder = _Builder(draw, args, control_flow)
        for _ in range(draw(st.integers(1, max_steps))):
            builder.step()
        results = draw(st.lists(st.sampled_from(builder.values), min_size=1, max_size=3))
        return [*results, builder.values[-1]]

    jaxpr, captured, _ = trace_flat(f, avals, name="random program")
    return close_captured(jaxpr, captured)


def inputs(program: ClosedJaxpr | Jaxpr, seed: int = 0) -> list[np.ndarray[Any, Any]]:
    """Arguments for a program: moderate numbers of both signs."""
    return random_inputs(program.in_avals, seed)
