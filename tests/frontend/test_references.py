"""References against JAX: compiled, by the reference backend, op by op, under derivatives and vmap; arguments of jit."""

from __future__ import annotations

import copy
import functools
import threading
from typing import Any

import numpy as np
import pytest

import quire
import quire.numpy as qnp
from quire import lax
from quire.backends.reference import eval_jaxpr
from quire.ir.config import config
from quire.ir.parser import parse
from quire.ir.printer import PrintOptions, to_text
from quire.passes.manager import PassManager
from tests.helpers import Case, as_list, check

from .reference_programs import PROGRAMS

NAMES = list(PROGRAMS)
SMOOTH = [n for n in NAMES if n.startswith("d_") and not n.endswith("_")]
# JAX has no derivative of these: of a cond with references under linearization, of `empty_ref`; of the last nobody has forward ones.
NOT_BY_JAX = ("d_nested", "d_empty", "d_custom")


@pytest.fixture(scope="module")
def jax() -> Any:
    return pytest.importorskip("jax")


def leaves(out: Any) -> list[Any]:
    return [np.asarray(x) for x in quire.tree_util.tree_leaves(out)]


def flat(m: Any, f: Any) -> Any:
    return lambda *args: m.tree_util.tree_leaves(f(m, *args))


def assert_close(got: Any, want: Any) -> None:
    assert len(got) == len(want)
    for a, b in zip(got, want):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=2e-5, atol=1e-6)


def test_compiled_and_reference_and_jax_agree(jax: Any) -> None:
    cases = [
        Case(n, flat(quire, f), args, expect=jax.jit(flat(jax, f)), rtol=1e-5, atol=1e-6)
        for n, (f, args) in PROGRAMS.items()
    ]
    check(cases)


@pytest.mark.parametrize("name", [n for n in NAMES if n != "dynamic"])  # there a known index is out of bounds
def test_outside_a_trace(jax: Any, name: str) -> None:
    f, args = PROGRAMS[name]
    want = jax.jit(functools.partial(f, jax))(*args)
    assert_close(leaves(f(quire, *args)), as_list(jax.tree_util.tree_leaves(want)))


def weighted(m: Any, f: Any) -> Any:
    """A scalar of all results."""

    def g(*args: Any) -> Any:
        out = m.tree_util.tree_leaves(f(m, *args))
        return sum(
            (x * (i + m.numpy.arange(x.size, dtype=x.dtype).reshape(x.shape))).sum() for i, x in enumerate(out, 1)
        )

    return g


def test_gradients_and_jvps(jax: Any) -> None:
    def all_of(m: Any) -> Any:
        def run(given: Any) -> Any:
            out = {}
            for n, args in given.items():
                f = weighted(m, PROGRAMS[n][0])
                g = m.grad(f)(*args)
                tangents = tuple(m.numpy.ones_like(a) for a in args)
                out[n] = [g, *m.tree_util.tree_leaves(m.linearize(f, *args)[1](*tangents))]
                out[n] += m.tree_util.tree_leaves(m.jvp(functools.partial(PROGRAMS[n][0], m), args, tangents))
            return out

        return run

    given = {n: PROGRAMS[n][1] for n in SMOOTH if n not in NOT_BY_JAX}
    want = jax.jit(all_of(jax))(given)
    closed = quire.make_jaxpr(all_of(quire))(given)
    got = eval_jaxpr(closed, *leaves(given))
    assert_close(got, jax.tree_util.tree_leaves(want))


def test_derivatives_that_jax_does_not_have() -> None:
    from quire.test_util import check_grads

    for n in ("d_nested", "d_empty"):
        f, args = PROGRAMS[n]
        check_grads(
            lambda *xs, f=f: sum(y.sum() for y in quire.tree_util.tree_leaves(f(quire, *xs))), args, order=1, rtol=3e-2
        )


def test_the_gradient_outside_of_a_trace_and_of_custom_rules(jax: Any) -> None:
    for n in ("d_elements", "d_scan", "d_custom", "d_remat"):
        f, args = PROGRAMS[n]
        assert_close([quire.grad(weighted(quire, f))(*args)], [jax.grad(weighted(jax, f))(*args)])
    f, args = PROGRAMS["d_elements"]
    second = quire.hessian(weighted(quire, f))(*args)
    assert_close([second], [quire.jacrev(quire.grad(weighted(quire, f)))(*args)])


def test_vmap_is_one_lane_after_the_other(jax: Any) -> None:
    names = [n for n in NAMES if n not in ("inner_grad", "d_custom")]

    def batched(given: Any) -> Any:
        return {n: quire.vmap(functools.partial(PROGRAMS[n][0], quire))(*args) for n, args in given.items()}

    given = {n: tuple(np.stack([a, a[::-1] if a.ndim else a]) for a in PROGRAMS[n][1]) for n in names}
    got = eval_jaxpr(quire.make_jaxpr(batched)(given), *leaves(given))

    def lanes(given: Any) -> Any:
        return {n: PROGRAMS[n][0](jax, *args) for n, args in given.items()}

    each = jax.jit(lanes)
    first, second = (
        each({n: [a[0] for a in v] for n, v in given.items()}),
        each({n: [a[1] for a in v] for n, v in given.items()}),
    )
    want = jax.tree_util.tree_map(lambda a, b: np.stack([a, b]), first, second)
    assert_close(got, jax.tree_util.tree_leaves(want))


def test_the_text_is_read_back_and_every_pass_may_come_before_discharge() -> None:
    for n, (f, args) in PROGRAMS.items():
        if n == "d_custom":  # the user's rule has no text
            continue
        closed = quire.make_jaxpr(functools.partial(f, quire))(*args)
        assert parse(to_text(closed)) == closed
        text = to_text(closed, PrintOptions(source=True))
        assert to_text(parse(text), PrintOptions(source=True)) == text
    for n in ("d_elements", "d_nested", "loops", "arrays"):
        f, args = PROGRAMS[n]
        closed = quire.make_jaxpr(functools.partial(f, quire))(*args)
        for pipeline in (
            "discharge,inline,simplify,cse,dce",
            "inline,simplify,cse,hoist,dce,discharge,dce",
        ):
            result = PassManager(pipeline, compare=True, verify_each=True).run_recorded(closed)
            assert "Ref{" not in to_text(result.program)


# -- arguments of compiled functions -----------------------------------------------------------------------------------


def test_jit_changes_the_references_that_it_is_given_and_closes_over() -> None:
    total = quire.new_ref(qnp.float32(0))

    @quire.jit
    def add(refs: Any, x: Any) -> Any:
        refs["a"][0] = x
        total[...] += refs["b"][1]
        return refs["b"][...] * 2

    refs = {"a": quire.new_ref(qnp.zeros(3)), "b": quire.new_ref(qnp.arange(3.0))}
    held = refs["b"][...]
    for x in (1.0, 2.0, 3.0):
        out = add(refs, x)
    assert out.tolist() == [0, 2, 4]
    assert refs["a"][...].tolist() == [3, 0, 0] and float(total[...]) == 3
    assert held.tolist() == [0, 1, 2]
    assert len(add.cache_info().variants) == 1 and add.cache_info().variants[0].uses == 3
    add({"a": quire.new_ref(qnp.zeros(3)), "b": quire.new_ref(qnp.ones(3))}, 5.0)
    assert len(add.cache_info().variants) == 1 and float(total[...]) == 4


def test_what_was_read_or_given_is_not_changed() -> None:
    x = qnp.arange(4.0)
    first, second = quire.new_ref(x), quire.new_ref(x)
    write = quire.jit(lambda r, v: r.__setitem__(0, v))
    write(first, 5.0)
    seen = first[...]
    write(first, 6.0)
    write(second, 7.0)
    assert x.tolist() == [0, 1, 2, 3] and seen.tolist() == [5, 1, 2, 3]
    assert first[...].tolist() == [6, 1, 2, 3] and second[...].tolist() == [7, 1, 2, 3]
    y = qnp.ones(4)
    first[...] = y
    write(first, 8.0)
    first[1] = 9.0
    assert y.tolist() == [1, 1, 1, 1] and first[...].tolist() == [8, 9, 1, 1]
    array = np.zeros(4, np.float32)
    first[...] = array
    array[0] = 1
    assert first[...].tolist() == [0, 0, 0, 0]


def test_a_reference_that_is_only_read_keeps_its_array() -> None:
    ref = quire.new_ref(qnp.arange(3.0))
    array = ref.value
    f = quire.jit(lambda r: r[...] + 1)
    assert f(ref).tolist() == [1, 2, 3] and ref.value is array
    exchanged = quire.jit(lambda r, x: quire.ref.swap(r, ..., x))
    given = qnp.ones(3)
    assert exchanged(ref, given).tolist() == [0, 1, 2]
    assert exchanged(ref, given * 2).tolist() == [1, 1, 1] and given.tolist() == [1, 1, 1]


def test_donated_arguments_beside_references() -> None:
    f = quire.jit(lambda r, x: (r.__setitem__(..., r[...] + x), x * 2)[1], donate_argnums=1)
    ref, x = quire.new_ref(qnp.ones(8)), qnp.arange(8.0)
    assert f(ref, x).tolist() == [0, 2, 4, 6, 8, 10, 12, 14]
    assert x.is_deleted() and ref[3] == 4


def test_ahead_of_time() -> None:
    ref = quire.new_ref(qnp.arange(3.0))
    traced = quire.jit(lambda r, x: (r.__setitem__(0, x), r[1])[1]).trace(ref, 2.0)
    assert "a:Ref{f32[3]}" in str(traced.jaxpr) and "a[0] <- b" in str(traced.jaxpr).replace("c", "b")
    compiled = traced.lower().compile()
    assert float(compiled(ref, 7.0)) == 1 and ref[...].tolist() == [7, 1, 2]
    assert ref[0] == 7.0
    with pytest.raises(TypeError, match=r"was compiled for Ref\{f32\[3\]\}, got f32\[3\]"):
        compiled(qnp.ones(3), 1.0)
    text = quire.jit(lambda x: PROGRAMS["d_scan"][0](quire, x)).lower(qnp.ones(4)).as_text("discharge")
    assert "Ref{" not in text and "scan" in text


def test_make_jaxpr_shows_what_jax_shows(jax: Any) -> None:
    def f(m: Any, ref: Any, i: Any) -> Any:
        ref[0] = ref[i]
        m.ref.addupdate(ref, slice(1, 3), ref[2:])
        old = m.ref.swap(ref, 1, ref[3])
        return old, ref[...]

    got = quire.make_jaxpr(functools.partial(f, quire))(quire.new_ref(qnp.arange(4.0)), 1)
    want = jax.make_jaxpr(functools.partial(f, jax))(jax.new_ref(jax.numpy.arange(4.0)), 1)
    assert str(got).replace("*", "") == str(want).replace("*", "")


def test_threads_with_references_of_their_own() -> None:
    bump = quire.jit(lambda r, n: lax.fori_loop(0, n, lambda i, c: r.__setitem__(i % 4, r[i % 4] + 1), None))
    refs = [quire.new_ref(qnp.zeros(4, int)) for _ in range(4)]

    def work(r: Any) -> None:
        for _ in range(5):
            bump(r, 8)

    threads = [threading.Thread(target=work, args=(r,)) for r in refs]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert all(r[...].tolist() == [10, 10, 10, 10] for r in refs)


# -- derivatives and vmap with references from outside -----------------------------------------------------------------


def test_gradients_are_kept_by_a_rule_that_writes_to_a_reference(jax: Any) -> None:
    def run(m: Any) -> list[Any]:
        @m.custom_vjp
        def stash(ref: Any, x: Any) -> Any:
            return x

        def bwd(ref: Any, g: Any) -> Any:
            ref[...] = g
            return None, g

        stash.defvjp(lambda ref, x: (x, ref), bwd)

        def f(x: Any, ref: Any) -> Any:
            return stash(ref, m.numpy.sin(x)) ** 2

        ref = m.new_ref(0.0)
        out = [f(1.0, ref), m.grad(f)(1.0, ref), ref[...]]
        out += [m.jit(f)(1.5, ref), m.jit(m.grad(f))(2.0, ref), ref[...]]
        return [float(x) for x in out]

    assert_close(run(quire), run(jax))


def test_with_refs(jax: Any) -> None:
    def run(m: Any) -> Any:
        y, pull = m.vjp(lambda p, x: m.numpy.sin(p["a"]) * x + p["b"], {"a": 1.0, "b": 2.0}, 3.0)
        a, x = m.new_ref(10.0), m.new_ref(0.0)
        want = m.ad.DontWant()
        first = pull.with_refs({"a": a, "b": m.ad.GradValue()}, x)(1.0)
        second = m.jit(lambda r: pull.with_refs({"a": r, "b": want}, want)(2.0)[1] is not None)(a)
        return (
            float(y),
            str(first[0]["a"]),
            float(first[0]["b"]),
            str(first[1]),
            bool(second),
            float(a[...]),
            float(x[...]),
        )

    got, want = run(quire), run(jax)
    assert [x for x in got if isinstance(x, str)] == [x for x in want if isinstance(x, str)]
    assert_close([x for x in got if not isinstance(x, str)], [x for x in want if not isinstance(x, str)])
    pull = quire.vjp(lambda x: x, 1.0)[1]
    with pytest.raises(ValueError, match="takes one tree for each of 1 arguments, got 2"):
        pull.with_refs(quire.new_ref(0.0), None)
    with pytest.raises(ValueError, match=r"must be like it, got Ref\{f32\[3\]\}"):
        pull.with_refs(quire.new_ref(qnp.zeros(3)))


def test_references_from_outside_under_derivatives(jax: Any) -> None:
    def run(m: Any) -> list[Any]:
        ref, quiet = m.new_ref(3.0), m.new_ref(0.0, kind="no_grad_no_remat")

        def f(x: Any, r: Any) -> Any:
            ref[...] = m.lax.stop_gradient(x) + ref[...]
            quiet[...] = x
            return ref[...] * x**2 + quiet[...] * r[...]

        other = m.new_ref(2.0)
        out = [m.grad(f)(1.0, other), ref[...], quiet[...], m.jit(m.grad(f))(2.0, other), ref[...]]
        value, tangent = m.new_ref(0.5), m.new_ref(1.0)
        out += m.tree_util.tree_leaves(
            m.jvp(lambda r: (r.__setitem__(..., m.numpy.sin(r[...])), r[...] ** 2)[1], (value,), (tangent,))
        )
        return [float(x) for x in [*out, value[...], tangent[...]]]

    assert_close(run(quire), run(jax))


def test_python_branches_on_what_a_reference_holds_while_differentiating() -> None:
    ref = quire.new_ref(1.0)

    def f(x: Any) -> Any:
        own = quire.new_ref(x)
        own[...] *= 3.0
        ref[...] = ref[...] + 1.0
        if own[...] > 4.0 and ref[...] > 1.5:
            own[...] *= x
        return own[...]

    assert quire.grad(f)(2.0) == 12.0 and ref[...] == 2.0
    assert quire.grad(f)(1.0) == 3.0 and ref[...] == 3.0
    assert quire.grad(quire.grad(f))(2.0) == 6.0 and ref[...] == 4.0


def test_vmap_over_references(jax: Any) -> None:
    def run(m: Any) -> list[Any]:
        a = m.new_ref(m.numpy.arange(6.0, dtype=m.numpy.float32).reshape(2, 3))
        shared = m.new_ref(m.numpy.float32(10))

        def f(r: Any, x: Any) -> Any:
            r[0] = r[1] + x + shared[...]
            return r[...]

        out = m.vmap(f, in_axes=(1, 0))(a, m.numpy.ones(3, m.numpy.float32))
        more = m.jit(m.vmap(lambda r: r.__setitem__(1, r[0])))(a)
        return [out, a[...], *([] if more is None else [more])]

    assert_close(run(quire), run(jax))


def test_keys_are_held_by_references(jax: Any) -> None:
    def run(m: Any) -> list[Any]:
        ref = m.new_ref(m.random.key(1))

        def draw(r: Any) -> Any:
            r[...], key = m.random.split(r[...])
            return m.random.uniform(key)

        out = [draw(ref), m.jit(draw)(ref), m.random.key_data(ref[...])]
        keys = m.new_ref(m.random.split(m.random.key(2), 3))
        keys[1] = m.random.key(5)
        return [*out, m.random.key_data(m.freeze(keys))]

    assert_close(run(quire), run(jax))
    ref = quire.new_ref(quire.random.key(0))
    assert isinstance(ref, quire.Ref) and str(ref.dtype) == "key<fry>" and ref.shape == ()
    with pytest.raises(TypeError, match="the reference holds keys"):
        ref[...] = qnp.zeros(2, "uint32")


def test_what_a_reference_says_of_itself(jax: Any) -> None:
    for x in (
        np.arange(3.0, dtype=np.float32),
        np.arange(6, dtype=np.int32).reshape(2, 3),
        1.5,
        True,
        np.complex64(1j),
    ):
        got, want = quire.new_ref(x), jax.new_ref(x)
        assert repr(got) == repr(want) and got.shape == want.shape and got.dtype == want.dtype and got.size == want.size
    ref = quire.new_ref(qnp.zeros((2, 3)))
    assert isinstance(ref, quire.Ref) and not isinstance(ref, quire.Array)
    assert str(quire.typeof(ref)) == "Ref{f32[2,3]}" and len(ref) == 2 and len(list(ref)) == 2
    assert quire.tree_util.tree_leaves({"a": ref}) == [ref] and hash(ref) == hash(ref)
    assert ref.at[1:].shape == (1, 3) and ref.at[0].dtype == np.float32
    assert copy.copy(ref) is not ref and ref.block_until_ready() is ref and ref.sharding is not None

    @quire.jit
    def inside(r: Any) -> Any:
        assert isinstance(r, quire.Ref) and not isinstance(r, quire.Array) and r.shape == (2, 3)
        return r[...]

    inside(ref)
    assert quire.eval_shape(lambda r: r[0], ref).shape == (3,)
    array = qnp.ones(2)
    assert quire.freeze(array) is array


def test_views() -> None:
    def f(x: Any) -> Any:
        ref = quire.new_ref(x)
        ref.at[1].at[1:3][...] = x[0, :2]
        ref.at[:, 1:].at[0][0] = x[2, 3]
        part = ref.at[qnp.array([2, 0])]
        part[:, 1] += part[:, 2]
        quire.ref.addupdate(ref.at[0], 3, x[1, 1])
        old = ref.at[2].swap(x[0])
        ref.at[::2, ::3].set(ref.at[:2][..., :2])
        assert part.shape == (2, 4) and part.ndim == 2 and part.size == 8 and "view f32[2,4]" in repr(part)
        return ref.get(), old, ref.at[1, 1][...]

    x = PROGRAMS["d_slices"][1][0]
    want = x.copy()
    want[1][1:3] = x[0, :2]
    want[:, 1:][0][0] = x[2, 3]
    want[[2, 0], 1] += want[[2, 0], 2]
    want[0][3] += x[1, 1]
    old, want[2] = want[2].copy(), x[0]
    want[::2, ::3] = want[:2, :2].copy()
    check([Case("views", f, [x], expect=lambda _: [want, old, want[1, 1]])])
    assert_close(leaves(f(qnp.asarray(x))), [want, old, want[1, 1]])


def test_disable_jit() -> None:
    f, args = PROGRAMS["d_nested"]
    want = leaves(quire.jit(functools.partial(f, quire))(*args))
    with quire.disable_jit():
        assert_close(leaves(f(quire, *args)), want)


def test_a_nan_is_followed_through_a_reference_to_the_line_that_made_it() -> None:
    ref = quire.new_ref(qnp.arange(3.0))

    @quire.jit
    def f(r: Any) -> None:
        r[0] = qnp.log(r[0] - 1)
        r[...] *= 2.0

    with quire.debug_nans(True), pytest.raises(FloatingPointError, match=r"encountered in log"):
        f(ref)


def test_rules_of_derivatives_may_use_references_and_gather_in_loops(jax: Any) -> None:
    def run(m: Any) -> list[Any]:
        @m.custom_vjp
        def stash(ref: Any, i: Any, x: Any) -> Any:
            return x

        def bwd(res: Any, g: Any) -> Any:
            ref, i = res
            ref[i] = g
            own = m.new_ref(g)
            own[0] *= 2.0
            return None, None, own[...]

        stash.defvjp(lambda ref, i, x: (x, (ref, i)), bwd)

        @m.custom_jvp
        def double(x: Any) -> Any:
            return 2 * x

        @double.defjvp
        def _(primals: Any, tangents: Any) -> Any:
            out, tangent = m.new_ref(primals[0]), m.new_ref(tangents[0])
            out[...] *= 2.0
            tangent[...] *= 3.0
            return out[...], tangent[...]

        def f(x: Any, ref: Any) -> Any:
            def layer(c: Any, i: Any) -> Any:
                return stash(ref, i, m.numpy.sin(double(c))), None

            return m.lax.scan(layer, x, m.numpy.arange(3))[0].sum()

        ref = m.new_ref(m.numpy.zeros((3, 2), m.numpy.float32))
        x = m.numpy.arange(2, dtype=m.numpy.float32)
        out = [m.grad(f)(x, ref), ref[...]]
        ref[...] = 0 * ref[...]
        return [*out, m.jit(m.grad(f))(x, ref), ref[...]]

    assert_close(run(quire), run(jax))


@pytest.fixture
def two_devices() -> Any:
    with config.override(num_cpu_devices=2):
        yield


def test_references_on_several_devices(two_devices: None) -> None:
    mesh = quire.make_mesh((2,), ("x",))
    halves = quire.NamedSharding(mesh, quire.P("x"))
    ref = quire.new_ref(quire.device_put(qnp.arange(8.0), halves))
    double = quire.jit(lambda r: r.__setitem__(..., r[...] * 2))
    double(ref)
    double(ref)
    ref[0] = 5.0
    assert ref[...].tolist() == [5, 4, 8, 12, 16, 20, 24, 28] and ref.sharding == halves

    @quire.jit
    @quire.shard_map(mesh=mesh, in_specs=quire.P("x"), out_specs=quire.P("x"))
    def mapped(x: Any) -> Any:
        own = quire.new_ref(x)
        own[0] = lax.psum(x[1], "x") + seen[2]
        return own[...]

    seen = quire.new_ref(qnp.arange(3.0))
    assert mapped(qnp.arange(4.0)).tolist() == [6, 1, 6, 3]

    @quire.shard_map(mesh=mesh, in_specs=quire.P("x"), out_specs=quire.P("x"))
    def writing(x: Any) -> Any:
        seen[0] = 1.0
        return x

    writing(qnp.arange(4.0))
    assert seen[...].tolist() == [1, 1, 2]

    @quire.shard_map(mesh=mesh, in_specs=quire.P("x"), out_specs=quire.P("x"))
    def differing(x: Any) -> Any:
        seen[0] = x[0]
        return x

    with pytest.raises(
        TypeError, match=r"swap: the reference Ref\{f32\[3\]\} is the same along the mesh axes x.*test_refer.*psum"
    ):
        differing(qnp.arange(4.0))


@pytest.mark.parametrize("check_vma", [True, False])
def test_references_as_arguments_of_shard_map(two_devices: None, check_vma: bool) -> None:
    mesh = quire.make_mesh((2,), ("x",))

    def mapped(x: Any, spec: Any, body: Any) -> Any:
        ref = quire.new_ref(x)
        out = quire.shard_map(body, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=check_vma)(ref)
        return ref[...], out

    def add(ref: Any) -> Any:
        ref[...] += 1.0
        return ref[...] * 2

    def parts(ref: Any) -> Any:
        ref[...] = 3 * ref[...] ** 2 + lax.axis_index("x").astype("float32")
        return ref[:1]

    x = np.arange(4, dtype=np.float32)
    for wrap in (lambda f: f, quire.jit):
        whole = wrap(lambda x: mapped(x, quire.P(), add))(x)
        np.testing.assert_array_equal(whole[0], x + 1)
        np.testing.assert_array_equal(whole[1], 2 * x + 2)
        divided = wrap(lambda x: mapped(x, quire.P("x"), parts))(x)
        np.testing.assert_array_equal(divided[0], 3 * x**2 + [0, 0, 1, 1])
        np.testing.assert_array_equal(divided[1], [0, 13])

        def loss(x: Any) -> Any:
            a, b = mapped(x, quire.P("x"), parts)
            return a.sum() * 2 + b.sum()

        np.testing.assert_array_equal(wrap(quire.grad(loss))(x), 12 * x + 6 * x * [1, 0, 1, 0])
    kept = quire.new_ref(x)
    quire.shard_map(add, mesh=mesh, in_specs=quire.P("x"), out_specs=quire.P("x"), check_vma=check_vma)(kept.at[...])
    np.testing.assert_array_equal(kept[...], x + 1)


def through(m: Any, transform: Any, x: Any) -> Any:
    """A reference that is read and written by a function, of which the argument is a view of it."""
    ref = m.new_ref(x)

    def body(view: Any) -> Any:
        view[...] += 2.0
        view[1] = 7.0
        return view[...]

    out = transform(body)(ref.at[1:6])
    return ref[...], out


TRANSFORMS: dict[str, Any] = {
    "jit": lambda m: m.jit,
    "checkpoint": lambda m: m.checkpoint,
    "cond": lambda m: lambda f: lambda v: m.lax.cond(m.numpy.array(True), f, lambda v: v[...] * 2, v),
    "scan": lambda m: (
        lambda f: lambda v: m.lax.scan(lambda c, _: (c + f(v), None), m.numpy.zeros(5), None, length=2)[0]
    ),
    "a view of a view": lambda m: lambda f: lambda v: m.jit(f)(v.at[1:4]),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_views_as_arguments(jax: Any, name: str) -> None:
    def by(m: Any) -> Any:
        return m.jit(lambda x: through(m, TRANSFORMS[name](m), x))(np.arange(8, dtype=np.float32))

    outs = leaves(by(quire))
    for got, want in zip(outs, by(jax), strict=True):
        np.testing.assert_array_equal(got, want)
    # What JAX does not have: outside of compiled functions, and derivatives.
    x = np.arange(8, dtype=np.float32)
    for got, want in zip(leaves(through(quire, TRANSFORMS[name](quire), x)), outs, strict=True):
        np.testing.assert_array_equal(got, want)
    written = through(quire, TRANSFORMS[name](quire), x * 0)[0] == through(quire, TRANSFORMS[name](quire), x * 0 + 1)[0]
    gradient = quire.grad(lambda x: through(quire, TRANSFORMS[name](quire), x)[0].sum())(x)
    np.testing.assert_array_equal(gradient, 1.0 - np.asarray(written))


def test_views_at_places_that_are_not_known() -> None:
    def write(x: Any, i: Any) -> Any:
        ref = quire.new_ref(x)
        quire.jit(lambda view: view.set(3.0))(ref.at[i])
        return ref[...]

    for f in (write, quire.jit(write)):
        assert f(qnp.zeros(4), 2).tolist() == [0, 0, 3, 0]
    assert quire.vmap(write)(qnp.zeros((2, 3)), qnp.array([1, 2])).tolist() == [[0, 3, 0], [0, 0, 3]]
    ref = quire.new_ref(qnp.zeros(2))
    with pytest.raises(ValueError, match=r"given twice, as v\[0\] and as w\[0\] \(at .*test_references.*only one name"):
        quire.jit(lambda v, w: v.addupdate(w[...]))(ref.at[0], ref.at[1])
