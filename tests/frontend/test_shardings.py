# ruff: noqa: E501 - tables
"""Arrays on eight simulated devices against JAX's: their parts and shardings, those of jit's results, and the errors.

Each line is an expression that is evaluated by JAX, in a process with eight devices, and by quire.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import quire
import quire.numpy as jnp
from quire import sharding
from quire.ir.config import config

# What gives the same text in both.
SAME = """\
jax.make_mesh((4, 2), ('x', 'y'))
jax.make_mesh((2,), ('x',), axis_types=(AxisType.Auto,)).devices.tolist()
xs.sharding, xs.devices() == set(devices), xs.committed, x.committed, x.sharding
xs.addressable_shards[2], xs.global_shards[7].replica_id, len(xs.addressable_shards)
ms.addressable_shards[3].index, ms.addressable_shards[3].data.shape, ms.addressable_shards[3].device, ms.addressable_shards[3].data.sharding
[s.replica_id for s in xs.addressable_shards], [s.data.tolist() for s in xs.addressable_shards]
xs.is_fully_replicated, put(x).is_fully_replicated, xs.is_fully_addressable, xs.addressable_data(3), xs.device
xs.addressable_data(3).devices(), xs.addressable_data(3).committed, x.addressable_shards
jax.device_put(x, devices[0]).committed, jax.device_put(x).committed, jax.device_put(xs).sharding
jax.device_put([x, m], [S('x'), S(None, 'y')])[1].sharding, jax.device_put([x, m], S('x'))[1].sharding
in_mesh(lambda: jax.device_put(x, P('x')).sharding)
(xs + 1).sharding, (xs + x).sharding, jnp.sin(ms).sharding, ms.sum().sharding, ms.sum(0).sharding, ms.sum(1).sharding
ms.T.sharding, (ms @ jnp.ones((4, 3))).sharding, ms[0].sharding, ms[:, 0].sharding, ms.reshape(-1).sharding
(xs > 1).sharding, xs.astype('int32').sharding, jnp.where(xs > 1, xs, 0).sharding, jnp.zeros_like(xs).sharding
[r.sharding for r in xs][:1], [r.sharding for r in put(x)][:1], [r.devices() for r in jax.device_put(x, NamedSharding(jax.make_mesh((1,), ('q',), axis_types=(AxisType.Auto,), devices=devices[1:2]), P('q')))][:1], xs.tolist(), np.asarray(xs + xs).tolist(), float(xs.sum()), xs
jax.jit(lambda a: a * 2, in_shardings=S('x'))(x).sharding, jax.jit(lambda a: a * 2, in_shardings=S('x'))(np.arange(8.)).sharding
jax.jit(lambda a: a * 2, in_shardings=None)(xs).sharding, jax.jit(lambda a: a * 2)(xs).sharding
jax.jit(lambda a, b: a * 2, in_shardings=(S('x'), {'q': S('x')}))(x, {'q': x}).sharding
jax.jit(lambda a: a * 2, out_shardings=S('y'))(x).sharding, jax.jit(lambda a: a * 2, out_shardings=S('y'))(xs).sharding
[r.sharding for r in jax.jit(lambda a: (a * 2, a), out_shardings=S('y'))(x)], [r.sharding for r in jax.jit(lambda a: (a * 2, a), out_shardings=(S('y'), None))(xs)]
in_mesh(lambda: jax.jit(lambda a: a * 2, in_shardings=P('x'))(x).sharding), in_mesh(lambda: jax.jit(lambda a: a * 2)(x).sharding)
jax.jit(lambda a: jax.lax.with_sharding_constraint(a, S('x')))(x).sharding
in_block(lambda: jax.jit(lambda a: jax.lax.with_sharding_constraint(a, P('x')))(x).sharding)
jax.jit(lambda a: jax.lax.with_sharding_constraint(a, S('y')) * 2)(jnp.arange(7.)).sharding
jax.lax.with_sharding_constraint(x, S('y')).sharding, jax.vmap(lambda a: jax.lax.with_sharding_constraint(a, S('x')))(m.T).sharding
jax.grad(lambda a: jax.lax.with_sharding_constraint(a * a, S('x')).sum())(xs), jax.jit(jax.grad(lambda a: (a * a).sum()))(xs).sharding
jax.jit(lambda f, a: jax.jit(lambda b: b * 2, out_shardings=S('y'))(a), static_argnums=0)('f', x).sharding
[r.sharding for r in jax.jit(lambda a, b: (a @ b, a.T, a.sum(0), a.reshape(-1), a[0], jnp.zeros(3)))(ms, jnp.ones((4, 6)))]
jax.pmap(lambda a: a * 2, axis_name='i')(x).sharding, len(jax.pmap(lambda a: a + 1, axis_name='i')(x + 1)[2].sharding.device_set)
jax.pmap(lambda a: jax.lax.psum(a, 'i'), axis_name='i', out_axes=None)(x).sharding, jax.pmap(lambda a: {'b': a, 'c': a}, 'i', in_axes=1, out_axes={'b': 1, 'c': 0})(jnp.ones((2, 4)))['b'].sharding
jax.pmap(lambda a, b: a + b, axis_name='i', devices=devices[2:4])(jax.pmap(lambda a: a, axis_name='i', devices=devices[:2])(x[:2]), x[:2]).sharding.device_set == set(devices[2:4])
jax.ShapeDtypeStruct.like(xs).sharding, jax.ShapeDtypeStruct.like(x).sharding, (lambda y: (jax.device_put(y) is y, jax.device_put(y, may_alias=False).devices()))(jax.device_put(x, devices[2]))
jax.jit(lambda a: a + ms)(m).sharding, jax.jit(lambda a: a * 2, donate_argnums=0)(put(x, 'x')).sharding
jax.jit(lambda a: a * 2, device=devices[1])(x).sharding, jnp.zeros(8, device=S('x')).sharding, jnp.arange(8, device=S('x')).sharding
jax.sharding.reshard(xs, NamedSharding(explicit, P('y'))).sharding, in_mesh(lambda: jax.sharding.reshard(x, P('y')).sharding, explicit)
in_mesh(jax.sharding.get_mesh), in_block(jax.sharding.get_mesh), jax.sharding.get_mesh().empty, jax.sharding.get_abstract_mesh()
jax.make_array_from_callback((8,), S('x'), lambda i: np.arange(8., dtype='f')[i]), jax.make_array_from_callback((8, 2), S(('y', 'x')), lambda i: np.ones((1, 2), 'f'), dtype='float32').sharding
jax.make_array_from_single_device_arrays((8,), S('x'), [s.data for s in xs.addressable_shards][::-1]), jax.make_array_from_process_local_data(S('x'), np.arange(8., dtype='f')).sharding
jax.ShapeDtypeStruct((8,), 'float32', sharding=S('x')), jax.ShapeDtypeStruct((8,), 'float32').sharding
compiled(jax.ShapeDtypeStruct((8,), 'float32', sharding=S('x'))).input_shardings, compiled(xs).output_shardings, compiled(xs)(x).sharding
[f(a).sharding for a in (xs, x) for g in (jax.shard_map(lambda a: a - jax.lax.pmean(a, 'x'), mesh=mesh, in_specs=P('x'), out_specs=P('x')),) for f in (g, jax.jit(g))]
[f(a).sharding for a in (xs, jax.device_put(x, devices[2])) for f in (jnp.zeros_like, lambda a: jax.lax.full_like(a, 2), lambda a: jnp.full_like(a, 2, shape=(3,)), lambda a: jax.lax.full_like(a, 2, shape=()))]
[jax.grad(lambda a: g(a).sum())(a).sharding for a in (xs, x) for h in (jax.shard_map(lambda a: jax.lax.all_gather(a, 'x', tiled=True) * 2, mesh=mesh, in_specs=P('x'), out_specs=P('x')),) for g in (h, jax.jit(h))]
pjit(lambda a: a * 2, device=devices[1])(x).devices()
jax.process_index(), jax.process_count(), jax.process_indices(), jax.local_device_count(), jax.device_count(), devices[3].process_index
mesh_utils.create_device_mesh((4, 2)).tolist(), mesh_utils.create_device_mesh((2,), devices[:2]).tolist()
in_block(lambda: pjit(lambda a, b: a + b, in_shardings=(P('x'), None), out_shardings=None)(x, np.arange(8.)).sharding), in_block(lambda: pjit(lambda a: a * 2, in_shardings=None, out_shardings=P('x', None))(m).sharding)
in_block(lambda: pjit(lambda a: a * 2)(xs).sharding), in_block(lambda: pjit(lambda a: (a * 2, a), out_shardings=(P('y'), None))(x)[1].sharding)
pjit(lambda a: a * 2, in_shardings=None, out_shardings=None)(xs).sharding, pjit(lambda a: a * 2, in_shardings=S('y'))(x).sharding, mesh(lambda: pjit(lambda a: a * 2, in_shardings=P('x'))(x).sharding)()
jax.random.normal(jax.random.key(0), (8,)).sharding, jax.device_put(jax.random.split(jax.random.key(0), 8), S('x')).sharding
words(jax.vmap(lambda k: jax.lax.all_gather(k, 'i', axis=-1), axis_name='i')(ks)), words(jax.vmap(lambda k: jax.lax.all_gather(k, 'i', axis=-1), axis_name='i')(ks.reshape(4, 2)))
words(jax.vmap(lambda k: k, out_axes=-1)(ks)), words(jax.vmap(jax.random.split, out_axes=1)(ks)), words(jax.pmap(jax.random.split, out_axes=1)(ks)), words(jax.pmap(lambda k: jax.lax.ppermute(k, 'i', [(0, 1), (1, 0)]), axis_name='i')(ks))
words(jax.device_put(ks, S('x'))), words(jax.jit(lambda k: k, out_shardings=S('x'))(ks)), words(jax.jit(lambda k: k, in_shardings=S('x'))(ks))
words(jax.shard_map(lambda k: jax.lax.all_gather(k, 'x', axis=-1, tiled=True), mesh=mesh, in_specs=P('x'), out_specs=P('x'))(ks))
"""
# The same, of errors: the type, and the text that quire's begins with or ends in where it says more or uses its own names.
REFUSED = """\
jax.device_put(jnp.arange(7.), S('x'))
jax.device_put(x, S('x', 'y'))
jax.jit(lambda a: a * 2, in_shardings=S('y'))(xs)
jax.jit(lambda a: a * 2, in_shardings=S('x'))(jax.device_put(x, devices[1]))
jax.jit(lambda a: a * 2, in_shardings=S('x'))(jnp.arange(7.))
jax.jit(lambda a: a * 2, out_shardings=S('x'))(jnp.arange(7.))
jax.jit(lambda a, b: a + b)(xs, jax.device_put(x, devices[0]))
jax.jit(lambda a, b: a + b)(jax.device_put(x, devices[0]), jax.device_put(x, devices[1]))
jax.jit(lambda a, b: a + b)(xs, jax.device_put(x, NamedSharding(small, P('z'))))
jax.lax.with_sharding_constraint(jnp.arange(7.), S('y'))
jax.lax.with_sharding_constraint(x, S('x', 'y'))
jax.make_array_from_callback((7,), S('x'), lambda i: np.arange(7., dtype='f')[i])
jax.make_array_from_callback((8,), S('x'), lambda i: np.zeros(3, 'f'))
jax.make_array_from_single_device_arrays((8,), S('x'), [s.data for s in xs.addressable_shards][:3])
jax.make_array_from_single_device_arrays((8,), S('x'), [x] * 8)
jax.make_mesh((3, 4), ('x', 'y'))
jax.make_mesh(((4,), 2), ('x', 'y'))
mesh_utils.create_device_mesh((3, 2))
"""
# Errors of the same type, with quire's words.
OTHER_WORDS = {
    "jax.device_put(x, P('x'))": "device_put: P('x',) needs a mesh: put one in force with quire.set_mesh(mesh)",
    "in_block(lambda: jax.device_put(x, P('x')))": "device_put: P('x',) needs a mesh",
    "jax.device_put(x, NamedSharding(mesh.abstract_mesh, P('x')))": "its mesh has no devices, give a quire.sharding.Mesh",
    "xs.addressable_data(99)": "index 99 is out of range, the array lies on 8 devices",
    "xs + jax.device_put(x, devices[1])": "device ids [0, 1, 2, 3, 4, 5, 6, 7] on platform CPU and argument 1 of add",
    "jax.jit(lambda a: a * 2, in_shardings=(S('x'), S('y')))(x)": "they differ at the root: a tuple of length 2 and one of length 1",
    "jax.jit(lambda a, b: a, in_shardings=(S('x'), {'q': S('x')}))(x, {'p': x})": "they differ at [1]: a dict with keys ['q']",
    "jax.jit(lambda a: a * 2, in_shardings=S('x'))(a=x)": "does not support kwargs when in_shardings is specified",
    "jax.jit(lambda a: a * 2, in_shardings=3)(x)": "expected to be shardings, PartitionSpec instances or None, but got 3",
    "jax.jit(lambda a: a * 2, in_shardings=S('x', 'y'))(x)": "One of jit arguments with pytree key path a is incompatible with its sharding",
    "jax.jit(lambda a: {'k': a}, out_shardings={'k': S('x', 'y')})(x)": "One of jit outputs with pytree key path result['k'] is incompatible",
    "jax.jit(lambda a: (a * 2, a), out_shardings=(S('y'),))(x)": "out_shardings: the structure of the shardings is no prefix",
    "jax.jit(lambda a: a * 2, in_shardings=P('x'))(x)": "jit: in_shardings: P('x',) needs a mesh",
    "in_block(lambda: jax.jit(lambda a: a * 2, in_shardings=P('x'))(x))": "jit: in_shardings: P('x',) needs a mesh",
    "pjit(lambda a: a * 2, in_shardings=P('x'))(x)": "pjit: in_shardings: P('x',) needs a mesh",
    "jax.jit(lambda a: a * 2, in_shardings=(S('x'),), out_shardings=NamedSharding(small, P()))(x)": "and explicit output sharding with device ids [0, 1]",
    "jax.jit(lambda a: jax.lax.with_sharding_constraint(a, P('x')))(x)": "with_sharding_constraint: P('x',) needs a mesh",
    "jax.lax.with_sharding_constraint(jax.device_put(x, devices[1]), S('y'))": "with device ids [1] on platform CPU and explicit output sharding",
    "jax.lax.with_sharding_constraint(x, 3)": "got 3",
    "jax.sharding.reshard(xs, S('y'))": "cannot contain axis names that are of type Auto or Manual. Got PartitionSpec: P('y',) with axis name: y",
    "jax.set_mesh(3)": "expected a quire.sharding.Mesh with devices, got <class 'int'>",
    "jax.jit(lambda a: jax.set_mesh(mesh))(x)": "can only be used outside of `quire.jit`",
    "jax.make_array_from_process_local_data(S('x'), np.arange(8., dtype='f'), (16,))": "Got global_shape=(16,) and local_data.shape=(8,)",
    "jax.make_array_from_callback((8, 2), S('x'), lambda i: np.ones((2, 2)), dtype='int32')": "Got dtype=int32 and shard dtype=float32",
    "jax.ShapeDtypeStruct((8,), 'float32', sharding=3)": "Got 3 of type <class 'int'>",
    "repr(jax.ShapeDtypeStruct((8,), 'float32', sharding=P('x')))": "ShapeDtypeStruct: P('x',) needs a mesh",
    "jax.vmap(lambda k: jax.lax.all_gather(k, 'i', axis=1), axis_name='i')(ks)": "axis 1 is out of bounds for a result of rank 1",
    "jax.vmap(lambda k: jax.lax.psum(k, 'i'), axis_name='i')(ks)": "psum does not accept dtype key<fry>, got key<fry>[]",
    "jax.vmap(lambda k: jax.lax.pmean(k, 'i'), axis_name='i')(ks)": "psum does not accept dtype key<fry>",
    "jax.vmap(lambda k: k, out_axes=1)(ks)": "out_axes 1 is out of bounds for a result of rank 1",
    "jax.vmap(jax.random.split, out_axes=2)(ks)": "out_axes 2 is out of bounds for a result of rank 2",
    "jax.device_put(ks, S('x', 'y'))": "has 2 entries, and key<fry>[8] has 1 dimensions: a key's words are not divided",
    "jax.jit(lambda k: k, in_shardings=S('x', 'y'))(ks)": "One of jit arguments is incompatible with its sharding annotation",
    "jax.jit(lambda k: k, out_shardings=S('x', 'y'))(ks)": "One of jit outputs with pytree key path result",
    "jax.jit(lambda k: jax.lax.with_sharding_constraint(k, S('x', 'y')))(ks)": "One of with_sharding_constraint arguments is incompatible",
    "jax.shard_map(lambda k: k, mesh=mesh, in_specs=P('x', 'y'), out_specs=P('x'))(ks)": "which is too long to be compatible",
    "jax.shard_map(lambda k: k, mesh=mesh, in_specs=P('x'), out_specs=P('x', 'y'), check_vma=False)(ks)": "which is too long to be compatible",
    "jax.pmap(lambda a: a)(np.ones((0, 2)))": "the mapped axis has no elements",
    "jax.jit(lambda a: a * 2).lower(x).compile()(xs)": "Required sharding: SingleDeviceSharding(device=CpuDevice(id=0)",
}
# What is printed.
PRINTED = """\
jax.debug.visualize_array_sharding(ms, use_color=False)
jax.debug.visualize_array_sharding(xs, use_color=False)
jax.debug.visualize_array_sharding(x, use_color=False)
jax.debug.visualize_array_sharding(put(m), use_color=False)
jax.debug.visualize_array_sharding(put(m, ('x', 'y')), use_color=False)
jax.debug.visualize_array_sharding(put(m, None, 'x'), use_color=False)
jax.debug.visualize_sharding((16, 4), S('y', 'x'), use_color=False)
jax.debug.inspect_array_sharding(ms, callback=print)
jax.jit(lambda a: [jax.debug.inspect_array_sharding(a.T * 2, callback=print), a][1])(ms)
jax.jit(lambda a: [jax.debug.visualize_array_sharding(a.T * 2, use_color=False), a][1])(put(m, ('x', 'y')))
"""

NAMES = """
devices = jax.devices()
mesh = Mesh(np.array(devices).reshape(4, 2), ('x', 'y'))
explicit = Mesh(np.array(devices).reshape(4, 2), ('x', 'y'), axis_types=(AxisType.Explicit,) * 2)
small = Mesh(np.array(devices[:2]), ('z',))
x, m = jnp.arange(8.), jnp.ones((8, 4))
def S(*spec):
    return NamedSharding(mesh, P(*spec))
def put(a, *spec):
    return jax.device_put(a, S(*spec))
xs, ms = put(x, 'x'), put(m, 'x', 'y')
ks = jax.random.split(jax.random.key(0), 8)
def words(keys):
    return jax.random.key_data(keys).tolist()
def in_block(f):
    with mesh:
        return f()
def in_mesh(f, on=None):
    with jax.set_mesh(on or mesh):
        return f()
def compiled(a):
    return jax.jit(lambda a: a * 2).lower(a).compile()
def error(line):
    try:
        eval(line)
    except Exception as e:
        return [type(e).__name__, str(e)]
def printed(line):
    with contextlib.redirect_stdout(io.StringIO()) as out:
        eval(line)
    return out.getvalue()
"""

JAX = f"""
import contextlib, io, json, sys
import numpy as np
import jax, jax.numpy as jnp
from jax.sharding import *
from jax.experimental import mesh_utils
from jax.experimental.pjit import pjit
P = PartitionSpec
{NAMES}
same, refused, shown = json.loads(sys.stdin.read())
answer = [[error(line) or repr(eval(line)) for line in same], [error(line) for line in refused], [printed(line) for line in shown]]
print(json.dumps(answer))
"""


@pytest.fixture(scope="module")
def by_jax() -> Any:
    pytest.importorskip("jax")
    asked = json.dumps([SAME.splitlines(), [*REFUSED.splitlines(), *OTHER_WORDS], PRINTED.splitlines()])
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=8"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", JAX], input=asked, env={**os.environ, "XLA_FLAGS": flags}, text=True, check=True,
        stdout=subprocess.PIPE,
    )  # fmt: skip
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def names() -> Any:
    """The names of the expressions, with eight devices as long as this module's tests run."""
    from quire.experimental import mesh_utils
    from quire.experimental.pjit import pjit

    with config.override(num_cpu_devices=8):
        found: dict[str, Any] = {
            **vars(sharding), "jax": quire, "jnp": jnp, "np": np, "mesh_utils": mesh_utils, "io": io,
            "contextlib": contextlib, "pjit": pjit,
        }  # fmt: skip
        exec(NAMES, found)
        yield found


def test_parts_and_shardings_are_those_of_jax(by_jax, names):
    for line, expected in zip(SAME.splitlines(), by_jax[0], strict=True):
        assert repr(eval(line, names)) == expected, line


def test_errors_are_those_of_jax(by_jax, names):
    for line, (kind, text) in zip(REFUSED.splitlines(), by_jax[1]):
        got = names["error"](line)
        assert got is not None and got[0] == kind and got[1].startswith(text), (line, got, text)


def test_errors_in_other_words_have_the_same_type(by_jax, names):
    for (line, words), (kind, _) in zip(
        OTHER_WORDS.items(), [e or ("none", "") for e in by_jax[1][len(REFUSED.splitlines()) :]], strict=True
    ):
        got = names["error"](line)
        assert got is not None and got[0] == kind and words in got[1], (line, got, kind)


def test_what_is_printed_is_what_jax_prints(by_jax, names):
    for line, expected in zip(PRINTED.splitlines(), by_jax[2], strict=True):
        assert names["printed"](line).rstrip() == expected.rstrip(), line


def test_a_program_is_compiled_once_however_its_arguments_lie(names):
    x, put, devices = names["x"], names["put"], names["devices"]
    f = quire.compile(lambda a: a * 3)
    results = [f(a) for a in (x, put(x), put(x, "x"), put(x, "y"), quire.device_put(x, devices[5]))]
    assert len(f.variants()) == 5 and len({id(v.program) for v in f.variants()}) == 1
    assert [r.sharding for r in results[1:]] == [
        r.sharding for r in (put(x), put(x, "x"), put(x, "y"), quire.device_put(x, devices[5]))
    ]
    for r in results:
        np.testing.assert_array_equal(r, np.arange(8.0, dtype=np.float32) * 3)


def test_devices_are_one_memory_and_nothing_is_copied(names):
    x, put = quire.device_put(np.arange(1024.0, dtype=np.float32)), names["put"]
    assert put(x, "x").unsafe_buffer_pointer() == x.unsafe_buffer_pointer()
    devices = names["devices"]
    assert devices[3].hal() is devices[0].hal() and devices[3].memory is devices[0].memory
    assert [repr(d) for d in quire.devices()] == [f"CpuDevice(id={i})" for i in range(8)]


def test_a_donated_array_is_gone_and_others_keep_theirs(names):
    x, put = names["x"], names["put"]
    xs = put(x, "x")
    f = quire.compile(lambda a: a + 1, donate_argnums=0)
    y = f(xs)
    assert xs.is_deleted() and not x.is_deleted() and y.sharding == put(x, "x").sharding
    np.testing.assert_array_equal(x, np.arange(8.0))


def test_options_put_meshes_in_force(names):
    mesh = names["mesh"]
    assert quire.sharding.get_mesh().empty
    with quire.set_mesh(mesh) as inside:
        assert inside is mesh and quire.sharding.get_mesh() is mesh
        with quire.sharding.use_abstract_mesh(names["small"].abstract_mesh):
            assert quire.sharding.get_abstract_mesh() == names["small"].abstract_mesh
        assert quire.sharding.get_abstract_mesh() == mesh.abstract_mesh
    assert quire.sharding.get_mesh().empty
    with mesh, names["small"], mesh:
        pass
    assert config.options.block_mesh is None


def test_more_devices_than_there_are_is_an_error_that_says_how_to_get_them():
    with config.override(num_cpu_devices=1), pytest.raises(ValueError, match="set QUIRE_NUM_CPU_DEVICES=2"):
        quire.make_mesh((2,), ("x",))


def test_shard_map_over_another_mesh_than_the_arguments_lie_on():
    with config.override(num_cpu_devices=8):
        devices = np.array(quire.devices()[:4])
        on = sharding.NamedSharding(sharding.Mesh(devices, ("i",)), sharding.PartitionSpec("i"))
        other, spec = sharding.Mesh(devices, ("j",)), sharding.PartitionSpec("j")
        f = quire.jit(lambda x: quire.shard_map(lambda x: x * 2, mesh=other, in_specs=spec, out_specs=spec)(x) + x)
        assert f(quire.device_put(jnp.arange(4.0), on)).tolist() == [0, 3, 6, 9]


def test_each_device_s_callbacks_are_in_order(names):
    """Ordered within shard_map: no order among devices, and the program's within each."""
    from quire.experimental import io_callback

    seen: dict[int, list[Any]] = {}

    def note(i: Any, x: Any) -> None:
        seen.setdefault(int(i.item()), []).append(np.asarray(x).tolist())

    def f(i: Any, x: Any) -> Any:
        io_callback(note, None, i, x, ordered=True)
        total = io_callback(lambda a: np.float32(a.sum()), quire.ShapeDtypeStruct((), np.float32), x, ordered=True)
        io_callback(note, None, i, x + total, ordered=True)
        return total[None]

    spec = sharding.PartitionSpec(("x", "y"))
    mapped = quire.shard_map(f, mesh=names["mesh"], in_specs=spec, out_specs=spec)
    for g in (mapped, quire.jit(mapped)):
        seen.clear()
        np.testing.assert_array_equal(g(jnp.arange(8), jnp.arange(16.0)), np.arange(16.0).reshape(8, 2).sum(1))
        quire.effects_barrier()
        assert seen == {k: [[2.0 * k, 2.0 * k + 1], [6.0 * k + 1, 6.0 * k + 2]] for k in range(8)}
