"""simplify: every identity on every dtype and edge value, the other rules by program, and random programs."""

# ruff: noqa: E501  (programs and messages on one line)

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings

import quire
import quire.backends.reference  # noqa: F401
import quire.numpy as qnp
from quire.backends.targets import TARGETS
from quire.ir import dtypes
from quire.ir.avals import ShapedArray
from quire.ir.config import config
from quire.ir.jaxpr import ClosedJaxpr, Literal
from quire.ir.parser import parse
from quire.ir.primitive import PRIMITIVES
from quire.ir.printer import to_text
from quire.ir.tracing import trace_flat
from quire.ir.verifier import verify
from quire.passes.base import PassContext
from quire.passes.compare import Equality, compare, evaluate
from quire.passes.manager import PassManager
from quire.passes.rewriting import count_eqns
from quire.passes.simplify import RULES, Rule, Simplify
from quire.passes.simplify.algebra import DOMAINS, IDENTITIES, constant_of, pattern_to_str
from quire.passes.simplify.values import conversions_join
from tests.programs import inputs, programs


def edges(d: dtypes.DType) -> np.ndarray:
    if dtypes.is_bool(d):
        return np.array([False, True])
    if dtypes.is_integer(d):
        info = np.iinfo(d)
        return np.array([0, 1, 2, 7, info.max, info.max - 1, info.min, info.min + 1, -1 if info.min else 5], d)
    if dtypes.is_complex(d):
        parts = (0.0, -0.0, 1.0, -2.5, np.inf, np.nan)
        return np.array([complex(a, b) for a in parts for b in parts], d)
    tiny = 2.0**-140 if d == dtypes.float32 else 6e-8 if d == dtypes.float16 else 1e-39
    big = 6e4 if d == dtypes.float16 else 3e38
    with np.errstate(all="ignore"):
        return np.array(
            [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 2.0, -2.5, 3.75, tiny, -tiny, big, -big, 1e-3], "f8"
        ).astype(d)


def same_bits(x: np.ndarray, y: np.ndarray) -> bool:
    """Equal bits, but for the payload and sign of a NaN."""
    if dtypes.is_complex(x.dtype):
        return same_bits(x.real.copy(), y.real.copy()) and same_bits(x.imag.copy(), y.imag.copy())
    if dtypes.is_float(x.dtype):
        a, b = x.astype("f8"), y.astype("f8")
        return bool(np.all((a == b) & (np.signbit(a) == np.signbit(b)) | np.isnan(a) & np.isnan(b)))
    return bool(np.array_equal(x, y))


def variables(pattern) -> list[str]:
    if isinstance(pattern, str):
        return [pattern]
    return [v for q in pattern[1:] for v in variables(q)] if isinstance(pattern, tuple) else []


def variable_dtype(name: str, pattern, d: dtypes.DType) -> dtypes.DType:
    """The dtype of a variable of a pattern whose outermost first operand has dtype d."""
    if name == "p":
        return dtypes.bool_
    if pattern[0] == "select_n":
        return dtypes.float32
    if pattern[0] == "not" and pattern[1][0] in ("eq", "ne"):
        return dtypes.float32
    return d


def program_of(pattern, d: dtypes.DType, shape: tuple[int, ...], broadcast: bool) -> ClosedJaxpr:
    names = sorted(set(variables(pattern)))
    avals = [ShapedArray(shape, variable_dtype(n, pattern, d)) for n in names]

    def f(*args):
        env = dict(zip(names, args))

        def build(q):
            if isinstance(q, str):
                return env[q]
            operands = [build(item) if isinstance(item, str | tuple) else None for item in q[1:]]
            like = next(x.aval for x in operands if x is not None)
            for i, item in enumerate(q[1:]):
                if operands[i] is None:
                    operands[i] = Literal(constant_of(item, like.dtype), ShapedArray((), like.dtype))
                    if broadcast and like.shape:
                        operands[i] = PRIMITIVES["broadcast_in_dim"].bind(
                            operands[i], shape=like.shape, broadcast_dimensions=()
                        )
            return PRIMITIVES[q[0]].bind(*operands)

        return [build(pattern)]

    jaxpr, captured, _ = trace_flat(f, avals)
    assert not captured
    return ClosedJaxpr(jaxpr)


CASES = [(domain, pattern, replacement) for domain, pattern, replacement in IDENTITIES]


@pytest.mark.parametrize(("domain", "pattern", "replacement"), CASES, ids=[pattern_to_str(p) for _, p, _ in CASES])
def test_identities_are_exact(domain, pattern, replacement):
    tried = 0
    names = sorted(set(variables(pattern)))
    with config.override(enable_x64=True):
        for d, broadcast in itertools.product(DOMAINS[domain], (False, True)):
            columns = [edges(variable_dtype(n, pattern, d)) for n in names]
            args = [np.ascontiguousarray(g.reshape(-1)) for g in np.meshgrid(*columns, indexing="ij")]
            try:
                program = program_of(pattern, d, args[0].shape, broadcast)
            except TypeError:  # the primitive does not take the dtype
                continue
            context = PassContext()
            after = Simplify().apply(program, context)
            verify(after)
            assert any(pattern_to_str(replacement) in name or "->" in name for name in context.counters), d
            (x,), (y,) = evaluate(program, args), evaluate(after, args)
            assert same_bits(x, y), f"{pattern_to_str(pattern)} on {d}:\n{program}\n{after}"
            tried += 1
    assert tried


@pytest.mark.parametrize(("exponent", "ulps"), [(0.5, 1), (-0.5, 2), (3.0, 2)])
def test_powers_of_numbers(exponent, ulps):
    """A product and a quotient are rounded once more than a power. Zeros, infinities and NaN are the power's."""
    with config.override(enable_x64=True), np.errstate(all="ignore"):
        for d in (dtypes.float32, dtypes.float64):
            x = np.concatenate([edges(d), np.linspace(0.01, 9, 500, dtype=d)])
            program = program_of(("pow", "x", exponent), d, x.shape, False)
            after = PassManager("simplify,dce", verify_each=True).run(program)
            assert "pow" not in [e.primitive.name for e in after.jaxpr.eqns]
            (got,), want = evaluate(after, [x]), np.power(x, np.full_like(x, exponent))
            near = np.abs(got - want) <= ulps * np.spacing(np.abs(want))
            assert np.all(
                near | (np.isnan(got) & np.isnan(want)) | ((got == want) & (np.signbit(got) == np.signbit(want)))
            )
            zero = want == 0
            assert np.array_equal(np.signbit(got[zero]), np.signbit(want[zero]))


INT_AND_FLOAT = tuple(d for d in dtypes.ALL if d != dtypes.float0)


def test_joined_conversions_are_exact():
    """Every chain of two conversions that is joined gives the same values as the two."""
    joined = 0
    with config.override(enable_x64=True), np.errstate(all="ignore"):
        for source, middle, last in itertools.product(INT_AND_FLOAT, repeat=3):
            if middle in (source, last) or not conversions_join(source, middle, last):
                continue
            text = (
                f"{{ lambda ; a:{dtypes.SHORT[source]}[{edges(source).size}]. let\n"
                f"  b:{dtypes.SHORT[middle]}[{edges(source).size}] = convert_element_type[new_dtype={middle.name} weak_type=False] a\n"
                f"  c:{dtypes.SHORT[last]}[{edges(source).size}] = convert_element_type[new_dtype={last.name} weak_type=False] b\n"
                "in (c,) }"
            )
            program = parse(text)
            after = PassManager("simplify,dce", verify_each=True).run(program)
            assert count_eqns(after) == (1 if source != last else 0), text
            (x,), (y,) = evaluate(program, [edges(source)]), evaluate(after, [edges(source)])
            assert same_bits(x, y), text
            joined += 1
    assert joined > 300


@settings(max_examples=100, deadline=None)
@given(programs(control_flow=True, max_steps=14))
def test_random_programs_keep_their_numbers(program):
    manager = PassManager("drop-weak-types,inline,canonicalize-literals,simplify,cse,simplify,dce", verify_each=True)
    after = manager.run(program)
    for seed in (0, 1):
        args = inputs(program, seed)
        assert isinstance(compare(program, after, args), Equality), f"{program}\n{after}"
    assert count_eqns(after) <= count_eqns(PassManager("inline").run(program))


def simplified(text: str, passes: str = "simplify,dce") -> str:
    return to_text(PassManager(passes, verify_each=True, compare=True).run(parse(text)))


PROGRAMS = [
    ("a sum of literals is computed", "{ lambda ; a:f32[]. let b:f32[] = add 1.0:f32[] 2.0:f32[] c:f32[] = mul a b in (c,) }",
     "{ lambda ; a:f32[]. let b:f32[] = mul a 3.0:f32[] in (b,) }"),
    ("a broadcast scalar beside an array is a scalar",
     "{ lambda ; a:f32[3]. let b:f32[3] = broadcast_in_dim[broadcast_dimensions=() shape=(3,)] 2.0:f32[]"
     " c:f32[3] = mul a b in (c,) }",
     "{ lambda ; a:f32[3]. let b:f32[3] = mul a 2.0:f32[] in (b,) }"),
    ("two transposes", "{ lambda ; a:f32[2,3,4]. let b:f32[3,4,2] = transpose[permutation=(1, 2, 0)] a"
     " c:f32[2,3,4] = transpose[permutation=(2, 0, 1)] b in (c,) }", "{ lambda ; a:f32[2,3,4]. let in (a,) }"),
    ("two reshapes", "{ lambda ; a:f32[2,3]. let b:f32[6] = reshape[new_sizes=(6,)] a"
     " c:f32[3,2] = reshape[new_sizes=(3, 2)] b in (c,) }",
     "{ lambda ; a:f32[2,3]. let b:f32[3,2] = reshape[new_sizes=(3, 2)] a in (b,) }"),
    ("inserted dimensions join a broadcast", "{ lambda ; a:f32[3]. let b:f32[3,1] = reshape[new_sizes=(3, 1)] a"
     " c:f32[3,4] = broadcast_in_dim[broadcast_dimensions=(0, 1) shape=(3, 4)] b in (c,) }",
     "{ lambda ; a:f32[3]. let b:f32[3,4] = broadcast_in_dim[broadcast_dimensions=(0,) shape=(3, 4)] a in (b,) }"),
    ("slices", "{ lambda ; a:f32[10]. let b:f32[4] = slice[limit_indices=(9,) start_indices=(1,) strides=(2,)] a"
     " c:f32[2] = slice[limit_indices=(4,) start_indices=(1,) strides=(2,)] b in (c,) }",
     "{ lambda ; a:f32[10]. let b:f32[2] = slice[limit_indices=(8,) start_indices=(3,) strides=(4,)] a in (b,) }"),
    ("division by a power of two", "{ lambda ; a:f32[]. let b:f32[] = div a 4.0:f32[] in (b,) }",
     "{ lambda ; a:f32[]. let b:f32[] = mul a 0.25:f32[] in (b,) }"),
    ("not by three", "{ lambda ; a:f32[]. let b:f32[] = div a 3.0:f32[] in (b,) }",
     "{ lambda ; a:f32[]. let b:f32[] = div a 3.0:f32[] in (b,) }"),
    ("not where the inverse is no normal number", "{ lambda ; a:f32[]. let b:f32[] = div a 1.7014118e+38:f32[] in (b,) }",
     "{ lambda ; a:f32[]. let b:f32[] = div a 1.7014118e+38:f32[] in (b,) }"),
    ("x + 0.0 stays: -0.0 + 0.0 is 0.0", "{ lambda ; a:f32[]. let b:f32[] = add a 0.0:f32[] in (b,) }",
     "{ lambda ; a:f32[]. let b:f32[] = add a 0.0:f32[] in (b,) }"),
    ("x * 0.0 stays: it is NaN for infinities", "{ lambda ; a:f32[]. let b:f32[] = mul a 0.0:f32[] in (b,) }",
     "{ lambda ; a:f32[]. let b:f32[] = mul a 0.0:f32[] in (b,) }"),
    ("integer constants join", "{ lambda ; a:i32[2]. let b:i32[2] = add a 3:i32[] c:i32[2] = add b 4:i32[] in (c,) }",
     "{ lambda ; a:i32[2]. let b:i32[2] = add a 7:i32[] in (b,) }"),
    ("float constants do not", "{ lambda ; a:f32[]. let b:f32[] = add a 3.0:f32[] c:f32[] = add b 4.0:f32[] in (c,) }",
     "{ lambda ; a:f32[]. let\n    b:f32[] = add a 3.0:f32[]\n    c:f32[] = add b 4.0:f32[]\n  in (c,) }"),
    ("a narrowing is not undone", "{ lambda ; a:f32[]. let b:bf16[] = convert_element_type[new_dtype=bfloat16 weak_type=False] a"
     " c:f32[] = convert_element_type[new_dtype=float32 weak_type=False] b in (c,) }", None),
    ("select by a constant", "{ lambda ; a:f32[] b:f32[]. let c:f32[] = select_n True:bool[] a b in (c,) }",
     "{ lambda ; a:f32[] b:f32[]. let in (b,) }"),
    ("select of true and false", "{ lambda ; a:bool[]. let b:bool[] = select_n a True:bool[] False:bool[] in (b,) }",
     "{ lambda ; a:bool[]. let b:bool[] = not a in (b,) }"),
    ("powers", "{ lambda ; a:f32[]. let b:f32[] = integer_pow[y=2] a c:f32[] = pow b 1.0:f32[] in (c,) }",
     "{ lambda ; a:f32[]. let b:f32[] = square a in (b,) }"),
    ("a branch by a constant", "{ lambda ; a:f32[]. let b:f32[] = cond[branches=({ lambda ; c:f32[]. let in (c,) },"
     " { lambda ; d:f32[]. let e:f32[] = sin d in (e,) })] 1:i32[] a in (b,) }",
     "{ lambda ; a:f32[]. let b:f32[] = sin a in (b,) }"),
    ("inside a loop", "{ lambda ; a:f32[]. let b:f32[] = while[body_jaxpr={ lambda ; c:f32[]. let d:f32[] = neg c"
     " e:f32[] = neg d f:f32[] = mul e 0.5:f32[] in (f,) } body_nconsts=0 cond_jaxpr={ lambda ; g:f32[]. let"
     " h:bool[] = gt g 1.0:f32[] in (h,) } cond_nconsts=0] a in (b,) }", "mul c 0.5:f32[] in"),
    ("a function of a broadcast scalar is computed once", "{ lambda ; a:f32[]. let"
     " b:f32[3] = broadcast_in_dim[broadcast_dimensions=() shape=(3,)] a c:f32[3] = sin b in (c,) }",
     "{ lambda ; a:f32[]. let\n    b:f32[] = sin a\n    c:f32[3] = broadcast_in_dim[broadcast_dimensions=() shape=(3,)] b\n"
     "  in (c,) }"),
    ("what is repeated is summed once", "{ lambda ; a:f32[3,5]. let"
     " b:f32[4,3,5] = broadcast_in_dim[broadcast_dimensions=(1, 2) shape=(4, 3, 5)] a"
     " c:f32[4,3] = reduce_sum[axes=(2,)] b in (c,) }",
     "{ lambda ; a:f32[3,5]. let\n    b:f32[3] = reduce_sum[axes=(1,)] a\n"
     "    c:f32[4,3] = broadcast_in_dim[broadcast_dimensions=(1,) shape=(4, 3)] b\n  in (c,) }"),
    ("the extreme of what is repeated", "{ lambda ; a:f32[3,1]. let"
     " b:f32[3,4,5] = broadcast_in_dim[broadcast_dimensions=(0, 2) shape=(3, 4, 5)] a"
     " c:f32[5] = reduce_max[axes=(0, 1)] b in (c,) }", "= reduce_max[axes=(0,)] a"),
    ("not of no elements", "{ lambda ; a:f32[3]. let"
     " b:f32[3,0] = broadcast_in_dim[broadcast_dimensions=(0,) shape=(3, 0)] a"
     " c:f32[3] = reduce_max[axes=(1,)] b in (c,) }", None),
    ("not a sum along what is repeated", "{ lambda ; a:f32[3]. let"
     " b:f32[3,4] = broadcast_in_dim[broadcast_dimensions=(0,) shape=(3, 4)] a"
     " c:f32[3] = reduce_sum[axes=(1,)] b in (c,) }", None),
    ("repeated along two dimensions that are merged", "{ lambda ; a:f32[3,5]. let"
     " b:f32[3,2,5] = broadcast_in_dim[broadcast_dimensions=(0, 2) shape=(3, 2, 5)] a c:f32[6,5] = reshape[new_sizes=(6, 5)] b"
     " d:f32[6,5,4] = broadcast_in_dim[broadcast_dimensions=(0, 1) shape=(6, 5, 4)] c in (d,) }",
     "{ lambda ; a:f32[3,5]. let\n    b:f32[3,2,5,4] = broadcast_in_dim[broadcast_dimensions=(0, 2) shape=(3, 2, 5, 4)] a\n"
     "    c:f32[6,5,4] = reshape[new_sizes=(6, 5, 4)] b\n  in (c,) }"),
    ("not where a dimension is divided between", "{ lambda ; a:f32[6,5]. let"
     " b:f32[2,6,5] = broadcast_in_dim[broadcast_dimensions=(1, 2) shape=(2, 6, 5)] a c:f32[2,2,15] = reshape[new_sizes=(2, 2, 15)] b"
     " d:f32[2,2,15,4] = broadcast_in_dim[broadcast_dimensions=(0, 1, 2) shape=(2, 2, 15, 4)] c in (d,) }", None),
    ("rows of one element are in order", "{ lambda ; a:f32[3,1] b:i32[3,1]. let"
     " c:f32[3,1] d:i32[3,1] = sort[dimension=1 is_stable=True num_keys=1] a b in (d, c) }",
     "{ lambda ; a:f32[3,1] b:i32[3,1]. let in (b, a) }"),
    ("empty operands of concatenate go", "{ lambda ; a:f32[2] b:f32[0]. let c:f32[2] = concatenate[dimension=0] a b in (c,) }",
     "{ lambda ; a:f32[2] b:f32[0]. let in (a,) }"),
]  # fmt: skip


@pytest.mark.parametrize(("before", "after"), [c[1:] for c in PROGRAMS], ids=[c[0] for c in PROGRAMS])
def test_programs(before, after):
    out = simplified(before)
    if after is None:
        assert count_eqns(parse(out)) == count_eqns(parse(before))
    elif after.startswith("{"):
        assert out == to_text(parse(after))
    else:
        assert after in out


@pytest.mark.parametrize(("mode", "gathers"), [("clip", 0), ("fill", 1)])
def test_what_is_taken_of_equal_elements(mode, gathers):
    jaxpr = quire.make_jaxpr(lambda i: qnp.take(qnp.full((3, 4), 2.5), i, 0, mode=mode))(np.int32([0, 7]))
    text = to_text(PassManager("inline,simplify,dce", verify_each=True, compare=True).run(jaxpr))
    assert text.count("gather") == gathers, text


def _moved(rng: np.random.Generator, x: qnp.ndarray) -> qnp.ndarray:
    """A step that moves, repeats or computes elements, or takes some of them."""
    n = x.ndim
    way = rng.integers(9)
    if way == 0:
        axis = int(rng.integers(n + 1))
        return (
            qnp.broadcast_to(qnp.expand_dims(x, axis), (*x.shape[:axis], int(rng.integers(1, 5)), *x.shape[axis:]))
            if n < 3
            else x
        )
    if way == 1:
        return qnp.transpose(x, rng.permutation(n).tolist())
    if way == 2:
        config = [
            (
                int(rng.integers(-1, 3)) if k > 1 else 1,
                int(rng.integers(0, 3)),
                int(rng.integers(0, 2) * (rng.random() < 0.3)),
            )
            for k in x.shape
        ]
        y = quire.lax.pad(x, np.asarray(rng.integers(0, 2), x.dtype)[()], config)
        return qnp.sum(y, int(rng.integers(n))) if n > 1 and rng.random() < 0.3 else y
    if way == 3:
        axis = int(rng.integers(n))
        return qnp.concatenate([x, x * 2, qnp.flip(x, axis)][: rng.integers(1, 4)], axis)
    if way == 4:
        return qnp.where(quire.lax.broadcasted_iota(qnp.int32, x.shape, int(rng.integers(n))) % 3 == 1, x, -x)
    if way == 5:
        return (qnp.arange(x.shape[-1], dtype=x.dtype) + x * x)[..., :: int(rng.integers(1, 3))]
    if way == 6:
        return (
            qnp.tile(x, [int(k) for k in rng.integers(1, 3, n)])
            if n > 2 or rng.random() < 0.5
            else qnp.tile(x[None], (2, *(1,) * n))
        )
    if way == 7:
        axis = int(rng.integers(n))
        return qnp.sum(x, axis) if n > 1 else x
    y = abs(x) + 1 if rng.random() < 0.5 else x
    for axis, k in enumerate(x.shape):
        if k > 1 and rng.random() < 0.7:
            start = int(rng.integers(k))
            y = quire.lax.slice_in_dim(y, start, int(rng.integers(start + 1, k + 1)), int(rng.integers(1, 4)), axis)
    return y


def test_slices_of_what_is_moved_repeated_and_computed():
    """Whole numbers are exact in any order: the numbers of random chains stay to the bit, and no rule gives up half way."""
    fired: Counter[str] = Counter()
    for seed in range(300):
        rng = np.random.default_rng(seed)
        shape = tuple(int(k) for k in rng.integers(1, 5, rng.integers(1, 4)))
        x = rng.integers(-3, 4, shape).astype(rng.choice(["float32", "int32", "int8"]))

        def chain(x, seed=seed):
            steps, values = np.random.default_rng(seed), [x]
            for _ in range(9):
                values.append(_moved(steps, values[-1 if steps.random() < 0.8 else int(steps.integers(len(values)))]))
                if values[-1].size > 2000 or not values[-1].size:
                    values.pop()
            return [values[-1], values[len(values) // 2]]

        closed = quire.make_jaxpr(chain)(x)
        context = PassContext()
        after = Simplify(slices=True).apply(closed, context)
        fired.update(context.counters)
        for got, want in zip(evaluate(after, [x]), evaluate(closed, [x]), strict=True):
            assert np.array_equal(got, want) and got.dtype == want.dtype, seed
    for rule in ("broadcast", "transpose", "concatenate", "pad", "iota", "elementwise"):
        assert fired[f"slice of {rule}"] > 3, (rule, fired)
    assert fired["sum of pad"] and fired["tile of single elements"]


@pytest.mark.parametrize(
    "f, largest",
    [
        (lambda x: qnp.broadcast_to(x[None], (4096, 64))[:, 3:5].max(0), 2),
        (lambda x: (x[None].T * x[None])[:, 7:9].max(0), 128),
        (lambda x: qnp.pad(x[:, None], ((0, 0), (0, 900)))[:, :2], 128),
        (lambda x: quire.grad(lambda x: qnp.sin(qnp.broadcast_to(x[:, None], (64, 4096))[-3:]).sum())(x), 3 * 4096),
    ],
)
def test_nothing_is_made_whole_of_which_a_part_is_read(f, largest):
    closed = PassManager("inline,simplify,cse,dce,simplify{slices=true},dce").run(
        quire.make_jaxpr(f)(np.ones(64, np.float32))
    )
    assert max(v.aval.size for e in closed.jaxpr.eqns for v in e.outputs) <= max(largest, 64), to_text(closed)


def test_every_equation_keeps_the_users_line():
    text = (
        "{ lambda ; a:f32[3] b:f32[3]. let\n"
        "  c:f32[3] = neg b  # m.py:1 (f)\n"
        "  d:f32[3] = add a c  # m.py:2 (f)\n"
        "  e:f32[] = div 3.0:f32[] 2.0:f32[]  # m.py:3 (f)\n"
        "  f:f32[3] = broadcast_in_dim[broadcast_dimensions=() shape=(3,)] e  # m.py:4 (f)\n"
        "  g:f32[3] = mul d f  # m.py:5 (f)\n"
        "in (g,) }"
    )
    out = PassManager("simplify,dce").run(parse(text))
    assert [(e.primitive.name, e.source.line) for e in out.eqns] == [("sub", 2), ("mul", 5)]


@settings(max_examples=40, deadline=None)
@given(programs(control_flow=True))
def test_no_pipeline_loses_a_line(program):
    from quire.ir.jaxpr import all_eqns

    out = PassManager(TARGETS["cpu"].pipeline).run(program)
    assert all(e.source is not None for e in all_eqns(out.jaxpr))


def test_rules_are_counted():
    context = PassContext()
    Simplify().apply(parse("{ lambda ; a:f32[]. let b:f32[] = neg a c:f32[] = neg b in (c,) }"), context)
    assert context.counters == Counter({"neg(neg(x)) -> x": 1})


def test_rules_are_tried_on_the_equations_they_may_match_only():
    """A hundred layers of plain arithmetic: of the tables' rules for it, few look at each equation, however many."""

    def f(x, y):
        for _ in range(100):
            x, y = qnp.tanh(x * y) + qnp.sin(x), x - qnp.exp(y)
        return x * y

    program = quire.make_jaxpr(f)(np.ones(3, np.float32), np.ones(3, np.float32))
    tried: Counter[str] = Counter()

    def counted(r: Rule) -> Rule:
        def apply(rewriter, eqn):
            tried[r.name] += 1
            return r.apply(rewriter, eqn)

        return Rule(r.name, apply, r.when)

    with pytest.MonkeyPatch.context() as patch:
        for p, rules in RULES.items():
            patch.setitem(RULES, p, [counted(r) for r in rules])
        PassManager("simplify").run(program)
    assert sum(tried.values()) <= 0.2 * len(program.eqns)


def test_a_rule_without_traits_sees_every_equation_of_its_primitives():
    seen = []
    with pytest.MonkeyPatch.context() as patch:
        for p in (PRIMITIVES["sin"], PRIMITIVES["add"]):
            patch.setitem(RULES, p, [Rule("see", lambda r, e: seen.append(e.primitive.name))])
        PassManager("simplify").run(quire.make_jaxpr(lambda x: qnp.sin(x) + x)(np.float32(1)))
    assert seen == ["sin", "add"]


def test_what_is_computed_with_nan_is_nan():
    """Compilers of machine code know such a NaN, and take what depends on its integer for undefined."""
    nan = np.float32(np.nan)
    functions = {
        "cbrt": lambda x: qnp.cbrt(x * nan), "sigmoid": lambda x: quire.nn.sigmoid(x * nan),
        "softmax": lambda x: quire.nn.softmax(x * nan), "exp": lambda x: qnp.exp(nan + x), "exp2": lambda x: qnp.exp2(x / nan),
        "constants": lambda x: qnp.exp(qnp.linspace(0, 1, 300) * nan), "geomspace": lambda x: qnp.geomspace(1, -1, 4),
        "complex": lambda x: abs(qnp.exp(x * nan * 1j)), "remainder": lambda x: qnp.exp(qnp.remainder(x, nan)),
        "largest": lambda x: qnp.expm1(qnp.maximum(x, nan)),
        "in a loop": lambda x: quire.lax.fori_loop(0, 3, lambda i, c: qnp.exp(c * nan), x),
    }  # fmt: skip
    x = np.arange(1, 5, dtype=np.float32)
    for name, found in quire.jit(lambda x: {k: f(x) for k, f in functions.items()})(x).items():
        last = found[1:] if name == "geomspace" else found
        assert np.isnan(last).all(), name
