"""fuse: what becomes one equation, what stays apart, and that numbers and order are kept."""

import numpy as np
import pytest
from hypothesis import given, settings

import quire
import quire.nn
import quire.numpy as qnp
from quire.backends.targets import TARGETS
from quire.ir.jaxpr import ClosedJaxpr, Jaxpr, Var, nested_jaxprs
from quire.ir.verifier import verify
from quire.passes.fusion import attention as attention_pass
from quire.passes.fusion import elementwise, graph
from quire.passes.fusion.broadcasts import split
from quire.passes.fusion.forms import forms_of
from quire.passes.manager import PassManager
from tests.programs import inputs, programs

X = np.random.default_rng(0).normal(size=(16, 24)).astype(np.float32)
V = np.linspace(-1, 1, 24, dtype=np.float32)


def fuse(f, *args, least=1, operations=1 << 30, target=None):
    closed = PassManager("inline,simplify,cse,dce").run(quire.make_jaxpr(f)(*args))
    manager = PassManager(
        f"fuse{{least-elements={least},least-attended={least},least-operations={operations}}}",
        target=target, verify_each=True, compare=True, compare_inputs=list(args),
    )  # fmt: skip
    return manager.run(closed).jaxpr


def names(jaxpr: Jaxpr) -> list[str]:
    return [e.primitive.name for e in jaxpr.eqns]


def inside(jaxpr: Jaxpr) -> list[list[str]]:
    return [names(e.params["jaxpr"].jaxpr) for e in jaxpr.eqns if e.primitive.name == "fusion"]


def softmax(x):
    e = qnp.exp(x - qnp.max(x, -1, keepdims=True))
    return e / qnp.sum(e, -1, keepdims=True)


def test_softmax_is_one_equation():
    jaxpr = fuse(softmax, X)
    assert names(jaxpr) == ["fusion"]
    assert sum(n.startswith("reduce") for n in inside(jaxpr)[0]) == 2
    (e,) = jaxpr.eqns
    assert (e.params["kind"], e.params["space"], e.params["axes"]) == ("reduction", (16, 24), (1,))


def test_a_value_that_is_read_elsewhere_is_a_result():
    def f(x):
        y = qnp.tanh(x)
        return qnp.sum(y, 1), y @ x.T

    jaxpr = fuse(f, X)
    assert sorted(names(jaxpr)) == ["dot_general", "fusion", "transpose"]
    (e,) = [e for e in jaxpr.eqns if e.primitive.name == "fusion"]
    assert len(e.outputs) == 2


def test_columns_take_what_feeds_them_only():
    jaxpr = fuse(lambda x: qnp.tanh(qnp.sum(x * 2, 0)) + 1, X)
    assert inside(jaxpr) == [["mul", "reduce_sum"]]
    assert names(jaxpr) == ["fusion", "tanh", "add"]


def test_reductions_over_other_axes_are_other_clusters():
    jaxpr = fuse(lambda x: (qnp.sum(x, 0), qnp.sum(x, 1), qnp.max(x, 1)), X)
    assert sorted(map(sorted, inside(jaxpr))) == [["reduce_max", "reduce_sum"], ["reduce_sum"]]


def test_what_depends_on_a_cluster_and_feeds_it_keeps_it_apart():
    """exp(x) may not join both sums: the second waits for a product with the first."""

    def f(x):
        s = qnp.sum(qnp.exp(x), 1)
        y = x * qnp.cumsum(s)[:, None]
        return qnp.sum(y + qnp.exp(x), 1)

    jaxpr = fuse(f, X)
    assert len(inside(jaxpr)) == 2 and "cumsum" in names(jaxpr)


def test_two_clusters_do_not_wait_for_each_other():
    def f(x, y):
        a, b = qnp.exp(x), qnp.exp(y)
        p, q = qnp.sum(a, 0), qnp.sum(b, 0)
        return qnp.sum(a.T + qnp.cumsum(q), 0), qnp.sum(b.T + qnp.cumsum(p), 0)

    square = X[:, :16]
    jaxpr = fuse(f, square, square * 2)  # the manager verifies the order and compares the numbers
    made = {v for e in jaxpr.eqns if e.primitive.name == "fusion" for v in e.outputs}
    read = [e for e in jaxpr.eqns if e.primitive.name == "cumsum"]
    assert len(read) == 2 and all(set(e.inputs) <= made for e in read)


def test_effects_keep_their_order(capsys):
    def f(x):
        s = qnp.sum(x * 2, 1)
        quire.debug.print("a {}", s[0], ordered=True)
        t = qnp.max(x * 2, 1)
        quire.debug.print("b {}", t[0], ordered=True)
        return s + t

    closed = PassManager("inline,simplify,cse,dce").run(quire.make_jaxpr(f)(X))
    after = PassManager("fuse{least-elements=1,least-attended=1}", verify_each=True).run(closed)
    printed = [str(e.params) for e in after.jaxpr.eqns if e.effects]
    assert len(printed) == 2 and "a {}" in printed[0] and "b {}" in printed[1]


def test_small_reductions_and_targets_without_kernels_are_left_alone():
    assert "fusion" not in names(fuse(softmax, X, least=1000))
    assert "fusion" not in names(fuse(softmax, X, target=TARGETS["metal"]))


def bodies(jaxpr: Jaxpr) -> list[list[str]]:
    """The equations within each loop and branch."""
    return [names(b.jaxpr) for e in jaxpr.eqns if e.primitive.name != "fusion" for b in nested_jaxprs(e.params)]


def test_branches_and_bodies_of_loops_are_fused():
    lax = quire.lax

    def step(c, _):
        return lax.fori_loop(0, 2, lambda i, c: softmax(c), c), qnp.sum(c)

    def f(x):
        x = lax.cond(x[0, 0] > 0, softmax, lambda x: x, x)
        x = lax.while_loop(lambda c: qnp.max(c) > 2, softmax, x)
        return lax.scan(step, x, None, length=3)

    jaxpr = fuse(f, X)
    assert bodies(jaxpr) == [[], ["fusion"], ["reduce_max", "gt"], ["fusion"], ["scan", "fusion"]]
    (scan,) = [e for e in jaxpr.eqns if e.primitive.name == "scan"]
    assert bodies(scan.params["jaxpr"].jaxpr) == [["fusion"]]


def test_a_loop_that_is_one_kernel_keeps_its_body():
    """Kernels are planned by what they compute; with a product for all processors the loop is none."""

    def f(x, w):
        small = quire.lax.fori_loop(0, 3, lambda i, c: softmax(c), x)
        large = quire.lax.fori_loop(0, 3, lambda i, c: softmax(c @ w), w)
        return small, large

    w = np.eye(700, dtype=np.float32)
    closed = PassManager("inline,simplify,cse,dce").run(quire.make_jaxpr(f)(X, w))
    jaxpr = (
        PassManager("fuse{least-elements=1,least-attended=1}", target=TARGETS["cpu"], verify_each=True)
        .run(closed)
        .jaxpr
    )
    small, large = bodies(jaxpr)
    assert "fusion" not in small and "reduce_max" in small
    assert large == ["dot_general", "fusion"]


def test_light_equations_in_a_loop_are_a_kernel_where_they_are_dispatches_of_their_own():
    """Nine sums: at the top of a program they are one kernel; in a loop they must not read slices, nor be of few numbers."""

    def sums(x):
        for k in range(9):
            x = x * 0.5 + k
        return x

    def f(x, few):
        x, parts, few = quire.lax.fori_loop(
            0, 3, lambda i, c: (sums(c[0]), qnp.pad(sums(c[1][:, :-1]), ((0, 0), (0, 1))), sums(c[2])), (x, x, few)
        )
        return x, parts, sums(few)

    jaxpr = fuse(f, X, V[:8], least=1 << 30)
    (body,) = bodies(jaxpr)
    assert body.count("fusion") == 1 and body.count("mul") == 18
    assert "fusion" in names(jaxpr)


# -- contractions and their epilogues ---------------------------------------------------------------------------------

W = np.random.default_rng(1).normal(size=(24, 12)).astype(np.float32)
B = np.linspace(0, 1, 12, dtype=np.float32)


def epilogues(f, *args, **options):
    return fuse(f, *args, least=1 << 30, operations=1, **options)


def test_a_product_and_what_follows_it_are_one_equation():
    jaxpr = epilogues(lambda x, w, b: qnp.tanh(x @ w * 2 + b), X, W, B)
    assert names(jaxpr) == ["fusion"]
    (e,) = jaxpr.eqns
    assert (e.params["kind"], e.params["space"], e.params["axes"]) == ("contraction", (16, 12), ())
    assert sorted(inside(jaxpr)[0]) == ["add", "broadcast_in_dim", "dot_general", "mul", "tanh"]


def test_other_operands_are_computed_inside_if_nothing_else_reads_them():
    y = X[:, :12]
    jaxpr = epilogues(lambda x, w, y: x @ w + y * 2, X, W, y)
    assert sorted(inside(jaxpr)[0]) == ["add", "dot_general", "mul"]
    jaxpr = epilogues(lambda x, w, y: (x @ w + y * 2, y * 2), X, W, y)
    assert names(jaxpr) == ["mul", "fusion"] and sorted(inside(jaxpr)[0]) == ["add", "dot_general"]


def test_what_is_read_elsewhere_is_a_result_too():
    jaxpr = epilogues(lambda x, w: (qnp.maximum(x @ w, 0), qnp.cumsum(x @ w, 0)), X, W)
    (e,) = [e for e in jaxpr.eqns if e.primitive.name == "fusion"]
    assert len(e.outputs) == 2 and "cumsum" in names(jaxpr)


def test_many_arrays_are_streamed_and_not_read_by_tiles():
    def adam(x, w, p, m, v):
        g = x @ w
        m, v = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g * g
        return p - m / (qnp.sqrt(v) + 1e-8), m, v

    y = np.abs(X[:, :12])
    jaxpr = epilogues(adam, X, W, y, y, y)
    assert "dot_general" in names(jaxpr) and "contraction" not in {e.params.get("kind") for e in jaxpr.eqns}


def test_what_waits_for_all_of_a_product_is_no_epilogue():
    jaxpr = epilogues(lambda x, w: x @ w - qnp.max(x @ w, 1, keepdims=True), X, W)
    assert "fusion" not in names(jaxpr)


def test_of_two_products_one_takes_the_sum():
    jaxpr = epilogues(lambda x, w: x @ w + (x * 2) @ w, X, W)
    assert sorted(names(jaxpr)) == ["dot_general", "fusion", "mul"]


def test_broadcasts_that_are_not_along_columns_stay_outside():
    tall = np.ones((5, 24), np.float32)
    part = np.ones((4,), np.float32)
    jaxpr = epilogues(lambda x, w, b: qnp.tensordot(x, w.reshape(24, 3, 4), 1) + b, tall, W, part)
    assert "broadcast_in_dim" in names(jaxpr)


def test_reductions_take_what_epilogues_leave():
    jaxpr = fuse(lambda x, w, b: softmax(x @ w + b), X, W, B, operations=1)
    assert [e.params["kind"] for e in jaxpr.eqns if e.primitive.name == "fusion"] == ["contraction", "reduction"]


def test_broadcasts_are_no_results_of_clusters():
    """Each reader has its own: a mask's constants, or a sum that is read inside and outside."""

    def f(x, w):
        s = qnp.sum(x, 1, keepdims=True)
        y = qnp.where(x > 0, x / s, 0.0) @ w
        return qnp.where(y > 0, y, 0.0), qnp.cumsum(x * s, 0)

    jaxpr = fuse(f, X, W, operations=1)
    for e in jaxpr.eqns:
        if e.primitive.name == "fusion":
            body = e.params["jaxpr"].jaxpr
            made = {v for inner in body.eqns if inner.primitive.name == "broadcast_in_dim" for v in inner.outputs}
            assert not made & set(body.outvars)


def test_convolutions_with_features_last_have_epilogues():
    def f(dims):
        return lambda x, w, b: qnp.maximum(
            quire.lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=dims) + b, 0
        )

    x, w = np.ones((2, 6, 6, 3), np.float32), np.ones((3, 3, 3, 12), np.float32)
    jaxpr = epilogues(f(("NHWC", "HWIO", "NHWC")), x, w, B)
    assert names(jaxpr) == ["fusion"] and "conv_general_dilated" in inside(jaxpr)[0]
    x, w = np.ones((2, 3, 6, 6), np.float32), np.ones((12, 3, 3, 3), np.float32)
    assert "fusion" not in names(epilogues(f(("NCHW", "OIHW", "NCHW")), x, w, np.float32(1)))


# -- attention ----------------------------------------------------------------------------------------------------

QUERIES, KEYS, VALUES = (np.random.default_rng(i).normal(size=(2, 6, 8)).astype(np.float32) for i in range(3))


def attention(q, k, v):
    return softmax(q @ qnp.swapaxes(k, 1, 2) * 2) @ v


def test_attention_is_one_equation_with_a_cluster_inside():
    jaxpr = fuse(attention, QUERIES, KEYS, VALUES)
    (e,) = [e for e in jaxpr.eqns if e.primitive.name == "fusion"]
    assert (e.params["kind"], e.params["space"], e.params["axes"]) == ("attention", (2, 6, 6), (2,))
    body = e.params["jaxpr"].jaxpr
    assert names(body) == ["dot_general", "fusion", "dot_general"]
    assert body.eqns[1].params["kind"] == "reduction" and "mul" in inside(body)[0]


def test_attention_is_found_whichever_operand_comes_first():
    """einsum puts keys before queries and values before weights, and transposes the results."""

    def f(q, k, v):
        scores = qnp.einsum("qhd,khd->hqk", q, k)
        return qnp.einsum("hqk,khd->qhd", softmax(scores), v)

    jaxpr = fuse(f, QUERIES, KEYS, VALUES)
    assert names(jaxpr) == ["fusion", "transpose"] and jaxpr.eqns[0].params["kind"] == "attention"


def test_scores_that_are_read_elsewhere_are_no_attention():
    def f(q, k, v):
        s = q @ qnp.swapaxes(k, 1, 2)
        return s, softmax(s) @ v

    kinds = [e.params["kind"] for e in fuse(f, QUERIES, KEYS, VALUES).eqns if e.primitive.name == "fusion"]
    assert kinds and "attention" not in kinds


def attentions(jaxpr: Jaxpr) -> list[tuple[list[str], int]]:
    """What is in each attention equation, and how many results it has."""
    found = [e for e in jaxpr.eqns if e.primitive.name == "fusion" and e.params["kind"] == "attention"]
    return [(names(e.params["jaxpr"].jaxpr), len(e.outputs)) for e in found]


THREE = ["dot_general", "fusion", "dot_general"]


def test_rows_that_are_read_elsewhere_are_results():
    def f(q, k, v):
        p = softmax(q @ qnp.swapaxes(k, 1, 2))
        return p, p @ v

    assert attentions(fuse(f, QUERIES, KEYS, VALUES)) == [(THREE, 2)]


def test_rows_are_not_stored_beside_products_that_are_better_apart(monkeypatch):
    monkeypatch.setattr(attention_pass, "MOST_DEPTH", 7)

    def f(q, k, v):
        p = softmax(q @ qnp.swapaxes(k, 1, 2))
        return p, p @ v

    assert attentions(fuse(f, QUERIES, KEYS, VALUES)) == []
    assert attentions(fuse(attention, QUERIES, KEYS, VALUES)) == [(THREE, 1)]


def test_the_gradient_of_attention_multiplies_rows_that_it_stores():
    """The weights are read by the values' gradient, those of the scores by the keys' and, at once, by the queries'."""
    loss = lambda q, k, v: qnp.sum((quire.nn.softmax(q @ qnp.swapaxes(k, 1, 2) * 2) @ v) ** 2)  # noqa: E731
    jaxpr = fuse(quire.grad(loss, argnums=(0, 1, 2)), QUERIES, KEYS, VALUES)
    assert attentions(jaxpr) == [(THREE, 2), (THREE, 2)]
    assert sum(n == "dot_general" for n in names(jaxpr)) == 2


def test_a_linear_loss_makes_one_cluster_of_both_products():
    loss = lambda q, k, v, g: qnp.sum(attention(q, k, v) * g)  # noqa: E731
    jaxpr = fuse(quire.grad(loss, argnums=(0, 1, 2)), QUERIES, KEYS, VALUES, VALUES[::-1])
    assert attentions(jaxpr) == [(["dot_general", "dot_general", "fusion", "dot_general"], 3)]
    jaxpr = fuse(quire.grad(loss), QUERIES, KEYS, VALUES, VALUES[::-1])
    assert attentions(jaxpr) == [(["dot_general", "dot_general", "fusion", "dot_general"], 1)]


def test_sums_over_another_dimension_are_no_attention():
    jaxpr = fuse(lambda q, k: softmax(q @ qnp.swapaxes(k, 1, 2)).swapaxes(1, 2) @ k, QUERIES, KEYS)
    assert all(e.params["kind"] != "attention" for e in jaxpr.eqns if e.primitive.name == "fusion")


def test_a_product_between_two_reductions_is_in_one_cluster():
    """It would end one attention and begin the next: its result was then computed nowhere."""
    x = X[:, :16]

    def f(x, w):
        for _ in range(4):
            x = softmax(x @ w)
        return x

    assert "fusion" in names(fuse(f, x, x * 2))  # the manager verifies and compares


@pytest.mark.parametrize("axes", [(0,), (1,), (0, 1), (0, 2), (1, 2)])
def test_a_cluster_goes_over_neighbouring_axes(axes):
    """Over others there are two, one after the other."""
    x = np.ones((4, 5, 6), np.float32)
    jaxpr = fuse(lambda x: qnp.sum(x * 2, axes), x)
    clusters = [e.params["axes"] for e in jaxpr.eqns if e.primitive.name == "fusion"]
    assert clusters == ([(2,), (0,)] if axes == (0, 2) else [axes])


@settings(max_examples=60, deadline=None)
@given(programs())
def test_random_programs(program):
    verify(program)
    pipeline = "fuse{least-elements=1,least-attended=1,least-operations=1}"
    PassManager(pipeline, verify_each=True, compare=True, compare_inputs=inputs(program)).run(program)


# -- elementwise clusters -----------------------------------------------------------------------------------------------


def kinds(jaxpr: Jaxpr) -> list[str]:
    return [e.params["kind"] for e in jaxpr.eqns if e.primitive.name == "fusion"]


def long_chain(x, *others):
    for k in range(6):
        for y in others or (x,):
            x = qnp.maximum(x * (1 + k), x + y) * 0.5
    return x


def test_many_equations_of_small_arrays_are_one_and_few_are_left():
    assert names(fuse(long_chain, X)) == ["fusion"] and kinds(fuse(long_chain, X)) == ["elementwise"]
    assert names(fuse(lambda x: x * 2 + 1, X)) == ["mul", "add"]
    assert "fusion" not in names(fuse(long_chain, np.zeros((600, 400), np.float32)))


def test_what_reads_nothing_is_no_cluster():
    """IREE computes a kernel without operands ahead of time, and mixed up its results (those of a percentile)."""
    closed = PassManager("inline,cse,dce").run(quire.make_jaxpr(lambda: long_chain(quire.lax.iota(np.float32, 8)))())
    assert not kinds(PassManager("fuse").run(closed).jaxpr)


def test_heavy_functions_are_a_cluster_of_any_size():
    assert kinds(fuse(lambda x: qnp.sin(x) + qnp.cos(x), np.zeros((600, 400), np.float32))) == ["elementwise"]


def test_light_equations_of_large_arrays_are_a_cluster_where_they_are_a_dispatch():
    """IREE divides two dimensions of odd lengths badly. What it computes in one dispatch with other things stays with it."""
    x, v = np.ones((600, 400), np.float32), np.linspace(-1, 1, 400, dtype=np.float32)
    narrow = np.ones((48000, 5), np.float32)
    cpu = TARGETS["cpu"]
    for f, args in (
        (lambda x: x * 2 + 1, (x,)),
        (lambda x: x + 1, (x,)),
        (lambda x, v: qnp.maximum(x + v, 0), (x, v)),
        (lambda x, v: (x - v) / qnp.sqrt(v + 2), (x, v)),
        (lambda x: qnp.sort(x * 2, 1), (x,)),
        (lambda x, v: x + v[:5], (narrow, v)),
        (lambda x, v: x * v[:, None], (narrow, narrow[:, 0])),
    ):
        assert kinds(fuse(f, *args, least=1 << 30, target=cpu))[:1] == ["elementwise"]
        assert not kinds(fuse(f, *args, least=1 << 30))  # no target: nothing says that its dispatches are worse
    for f, args in (
        (lambda x: x * 2 + 1, (x[:8],)),
        (lambda x: (x * 2)[::7], (x,)),
        (lambda x: x.T * 2, (x[:16],)),
        (lambda x: qnp.max(x * 2, 0), (x,)),
        (lambda x, v: x + v[:, None, :], (narrow.reshape(-1, 3, 5), narrow[:16000])),
        (lambda x: qnp.concatenate([x + 1, x]), (x,)),
    ):
        assert not kinds(fuse(f, *args, least=1 << 30, target=cpu))


@pytest.mark.parametrize(
    ("f", "shapes", "why"),
    [
        (lambda x: (x * 2 + 1).T + 1, [(600, 400)], "one dispatch with transpose, which reads their result"),
        (lambda x: x[::2] * 2 + 1, [(600, 400)], "one dispatch with slice, whose result they read"),
        (lambda x, v: (x + v[:, None]) * 2, [(16000, 3, 5), (16000, 5)], "rows of fewer than 16 elements"),
    ],
)
def test_the_reason_why_light_equations_are_no_kernel(f, shapes, why):
    jaxpr = (
        PassManager("inline,simplify,cse,dce").run(quire.make_jaxpr(f)(*(np.ones(s, np.float32) for s in shapes))).jaxpr
    )
    readers = {
        a: [i for i, r in enumerate(jaxpr.eqns) if a in r.inputs]
        for e in jaxpr.eqns
        for a in e.inputs
        if isinstance(a, Var)
    }
    i = next(i for i in range(len(jaxpr.eqns)) if set(names(jaxpr)[i : i + 2]) == {"mul", "add"})
    reason = elementwise.reason_against(jaxpr, readers, i, i + 1, forms_of(TARGETS["cpu"]), 1024, 32768)
    assert reason is not None and why in reason


def test_broadcasts_that_several_clusters_read_are_in_each():
    """The bias is spread in both kernels and never as an array of its own."""

    def f(x, b):
        spread = qnp.broadcast_to(b, x.shape)
        y = long_chain(x, spread)
        return long_chain(y @ y.T @ x, spread)

    jaxpr = fuse(f, X, V)
    assert [e.primitive.name for e in jaxpr.eqns if e.primitive.name not in ("transpose", "dot_general")] == [
        "fusion"
    ] * 2
    assert all("broadcast_in_dim" in body for body in inside(jaxpr))


def test_what_only_a_later_cluster_reads_waits_for_it():
    def f(x):
        early = qnp.exp(x) * 3  # read after the product only
        y = long_chain(x[:, :16] @ x[:16], early)
        return y

    jaxpr = fuse(f, X)
    assert "exp" in inside(jaxpr)[-1] and "exp" not in names(jaxpr)


def test_clusters_around_a_product_do_not_wait_for_each_other():
    def f(x):
        a = long_chain(x)
        return long_chain(a @ x.T @ x, a), long_chain(x, a)

    jaxpr = fuse(f, X)  # the manager verifies the order and compares the numbers
    assert len(kinds(jaxpr)) >= 2


def test_a_cluster_is_cut_where_it_has_too_many_operations_or_arrays():
    def many(x):
        for k in range(1200):
            x = qnp.maximum(x * (1 + k / 7), x - 0.5) * 0.5
        return x

    jaxpr = fuse(many, X)
    assert set(names(jaxpr)) == {"fusion"} and 2 <= len(jaxpr.eqns) <= 8
    jaxpr = fuse(lambda x: [qnp.tanh(x * (1 + k)) for k in range(60)], X)
    assert all(len(e.inputs) + len(e.outputs) <= 28 for e in jaxpr.eqns)


def test_elementwise_clusters_keep_effects_in_order():
    def f(x):
        y = long_chain(x)
        quire.debug.print("a {}", y[0, 0], ordered=True)
        z = long_chain(y, x)
        quire.debug.print("b {}", z[0, 0], ordered=True)
        return long_chain(z, y)

    closed = PassManager("inline,simplify,cse,dce").run(quire.make_jaxpr(f)(X))
    after = PassManager("fuse", verify_each=True).run(closed)
    printed = [str(e.params) for e in after.jaxpr.eqns if e.effects]
    assert len(printed) == 2 and "a {}" in printed[0] and "b {}" in printed[1]
    assert kinds(after.jaxpr) == ["elementwise"]


def test_an_effect_between_a_product_and_its_sum_keeps_them_apart():
    """The first print waits for the product, the callback comes after it, and the sum waits for the callback."""

    def f(x, w):
        y = x @ w
        quire.debug.print("{}", y[0, 0], ordered=True)
        z = quire.io_callback(lambda v: v, quire.ShapeDtypeStruct((24,), np.float32), V, ordered=True)
        return y + z

    closed = PassManager("inline,simplify,cse,dce").run(quire.make_jaxpr(f)(X, X.T @ X))
    after = PassManager("fuse{least-elements=1,least-attended=1,least-operations=1}", verify_each=True).run(closed)
    assert not inside(after.jaxpr)
    assert sum(bool(e.effects) for e in after.jaxpr.eqns) == 2


def network(layers: int):
    """Products, softmaxes and normalised rows, one after the other; the first layer is read again at the end."""

    def f(x, w, v):
        first = None
        for _ in range(layers):
            h = qnp.tanh(x @ w + v)
            first = h if first is None else first
            h = softmax(h)
            centred = h - qnp.mean(h, -1, keepdims=True)
            x = x + centred / qnp.sqrt(qnp.mean(centred * centred, -1, keepdims=True) + 1e-5) * v
        return x * first

    return quire.make_jaxpr(f)(X, X.T @ X, V)


def work_of_fuse(layers: int) -> tuple[int, int, int]:
    """Equations, how often one was asked whether it may join, and how many were looked at to order clusters."""
    closed = PassManager("inline,simplify,cse,dce").run(network(layers))
    asked, orders = [], []
    with pytest.MonkeyPatch.context() as patch:
        may_take, start = graph.Group.may_take, graph.Order.__init__
        patch.setattr(graph.Group, "may_take", lambda self, i: asked.append(i) or may_take(self, i))
        patch.setattr(graph.Order, "__init__", lambda self, g: orders.append(self) or start(self, g))
        after = PassManager("fuse{least-elements=1,least-attended=1,least-operations=1}", verify_each=True).run(closed)
    assert sum(e.primitive.name == "fusion" for e in after.jaxpr.eqns) >= layers
    return len(closed.eqns), len(asked), sum(o.moved for o in orders)


def test_the_work_of_finding_clusters_is_linear_in_the_program():
    n, asked, moved = work_of_fuse(10)
    many, asked_of_many, moved_of_many = work_of_fuse(40)
    assert asked_of_many / many < 1.1 * asked / n and asked < 8 * n
    assert moved_of_many / many < 1.1 * moved / n and moved < 8 * n


@settings(max_examples=60, deadline=None)
@given(programs())
def test_programs_with_clusters_of_all_kinds_keep_their_numbers(program):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(elementwise, "LEAST_EQNS", 2)
        patch.setattr(elementwise, "LEAST_WEIGHT", 4)
        manager = PassManager("fuse", verify_each=True, compare=True, compare_inputs=inputs(program))
        manager.run(program)


def test_what_is_computed_again_stays_few_equations():
    """Copies of copies are bounded; what nothing reads is left as it is."""

    def chain(x):
        d = x[:, None] - x[None]
        for _ in range(5):
            d = (d + 1) * (d - 3)
        return [(d * k).sum(0) for k in range(4)]

    def unread(x):
        d = x[:, None] - x[None]
        _ = d + 1, d * 2
        return d.sum(0)

    x = np.ones(300, np.float32)
    for f, most in ((chain, 2), (unread, 3)):
        jaxpr = quire.make_jaxpr(f)(x).jaxpr
        copied = split(jaxpr)
        verify(ClosedJaxpr(copied))
        assert len(jaxpr.eqns) < len(copied.eqns) <= most * len(jaxpr.eqns)
