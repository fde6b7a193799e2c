"""Meshes, specs and shardings against JAX's: forms, equality, parts, errors. JAX's run in a process with 8 devices."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from quire.ir import sharding
from quire.ir.avals import ShapedArray
from quire.ir.errors import DuplicateSpecError, IndivisibleError
from quire.ir.identity import identity
from quire.ir.jaxpr import ClosedJaxpr
from quire.ir.parser import parse
from quire.ir.primitives.sharding import sharding_constraint
from quire.ir.printer import to_text
from quire.ir.sharding import AbstractMesh, AxisType, Mesh, NamedSharding
from quire.ir.sharding import PartitionSpec as P
from quire.ir.tracing import trace_flat


class Device:
    """What shardings need of a device."""

    is_local = True

    def __init__(self, id: int) -> None:
        self.id = id

    def __repr__(self) -> str:
        return f"CpuDevice(id={self.id})"


DEVICES = [Device(i) for i in range(8)]

# Expressions over sharding's names and `devices`, that give the same text in both.
SAME = """\
P()
P('x')
P('x', None)
P(('x', 'y'), None)
P(('x',))
P(())
P(None, 'y', P.UNCONSTRAINED)
P('x', unreduced={'y'}, reduced={'z'})
P('x') == P('x', None), P(('x',)) == P('x'), P('x') == ('x',), hash(P('x')) == hash(P(('x',)))
P('x') + P('y'), P('x') + ('y',), ('y',) + P('x'), len(P('x', None)), tuple(P('x', None)), P('x', 'y')[0:1]
P('x', unreduced={'y'}) + P(None, reduced={'z'}), (P(unreduced={'y'}) + P(unreduced={'z'})).unreduced == {'y', 'z'}
P('x', 'y').index('y'), P('x', 'x').count('x'), P('x').update(partitions=('y',)), P.UNCONSTRAINED
mesh
str(mesh), mesh.axis_names, mesh.axis_sizes, mesh.size, mesh.empty, mesh.is_multi_process, dict(mesh.shape)
mesh.device_ids.tolist(), mesh.auto_axes, mesh.explicit_axes, mesh.manual_axes, mesh.local_mesh == mesh
mesh.update(axis_types=(AxisType.Explicit, AxisType.Auto))
Mesh(devices, 'x'), Mesh(devices[:1], ('x',))
mesh == Mesh(mesh.devices, ('x', 'y')), hash(mesh) == hash(Mesh(mesh.devices, ('x', 'y'))), mesh == Mesh(mesh.devices, ('x', 'z'))
AbstractMesh((4, 2), ('x', 'y')), AbstractMesh((4,), ('x',), AxisType.Explicit), AbstractMesh((), ())
AbstractMesh((4, 2), ('x', 'y')).update(axis_sizes=(2, 2)), AbstractMesh((), ()).empty, AbstractMesh((), ()).size
AbstractMesh((4, 2), ('x', 'y')).update_axis_types({'x': AxisType.Manual}).manual_axes
AxisType.Auto, list(AxisType)
NamedSharding(mesh, P('x'))
str(NamedSharding(mesh, P('x', None)))
[NamedSharding(mesh, s).shard_shape((8, 6)) for s in (P(), P('x'), P('y', None), P(('x', 'y')), P(None, 'y'), P(None, P.UNCONSTRAINED))]
[NamedSharding(mesh, s).devices_indices_map((8, 6)) for s in (P(), P('x'), P('y'), P(('x', 'y')), P(('y', 'x')), P('y', None))]
[NamedSharding(mesh, s).is_fully_replicated for s in (P(), P('x'), P(None))]
[NamedSharding(mesh, a).is_equivalent_to(NamedSharding(mesh, b), 2) for a in (P(), P('x'), P('y')) for b in (P('x', None), P(None))]
NamedSharding(mesh, P('x')) == NamedSharding(mesh, P('x', None)), NamedSharding(mesh, P('x')) == NamedSharding(mesh, P('x'))
sorted(NamedSharding(mesh, P('x')).replicated_axes), NamedSharding(mesh, P('x')).num_devices, NamedSharding(mesh, P()).memory_kind
NamedSharding(mesh, P('x')).update(spec=P('y'))
NamedSharding(AbstractMesh((4, 2), ('x', 'y')), P('x')).num_devices
SingleDeviceSharding(devices[1])
SingleDeviceSharding(devices[0]).devices_indices_map((3, 2)), SingleDeviceSharding(devices[0]).is_fully_replicated
SingleDeviceSharding(devices[0]).is_equivalent_to(NamedSharding(Mesh(devices[:1], ('x',)), P()), 1)
"""
# The same, of errors: the type and the text.
REFUSED = """\
P('x', unreduced={'y'}) + ('z',)
('z',) + P('x', unreduced={'y'})
NamedSharding(mesh, P('x')).shard_shape((7, 3))
NamedSharding(mesh, P('y', 'x')).devices_indices_map((8, 6))
NamedSharding(mesh, P('z'))
NamedSharding(mesh, P('x', 'x'))
Mesh(devices, ('x', 'y'))
Mesh(devices, ('x',), (AxisType.Auto, AxisType.Auto))
AbstractMesh((4, 2), ('x', 'y'), AxisType.Explicit)
NamedSharding(mesh, P('x', 'y')).check_compatible_aval((8,))
"""

JAX = """
import json, sys
import jax
from jax.sharding import *
P, devices = PartitionSpec, jax.devices()
import numpy
mesh = Mesh(numpy.array(devices).reshape(4, 2), ('x', 'y'))
def error(line):
    try:
        eval(line)
    except Exception as e:
        return [type(e).__name__, str(e)]
same, refused = json.loads(sys.stdin.read())
print(json.dumps([[error(line) or repr(eval(line)) for line in same], [error(line) for line in refused]]))
"""


@pytest.fixture(scope="module")
def by_jax() -> Any:
    pytest.importorskip("jax")
    flags = "--xla_force_host_platform_device_count=8"
    asked = json.dumps([SAME.splitlines(), REFUSED.splitlines()])
    done = subprocess.run(
        [sys.executable, "-c", JAX], input=asked, env={**os.environ, "XLA_FLAGS": flags}, text=True, check=True,
        stdout=subprocess.PIPE,
    )  # fmt: skip
    return json.loads(done.stdout)


def names() -> dict[str, Any]:
    mesh = Mesh(np.array(DEVICES, object).reshape(4, 2), ("x", "y"))
    return {**vars(sharding), "P": P, "devices": DEVICES, "mesh": mesh}


def test_forms_equality_and_parts_are_those_of_jax(by_jax):
    for line, expected in zip(SAME.splitlines(), by_jax[0], strict=True):
        assert repr(eval(line, names())) == expected, line


def test_errors_are_those_of_jax(by_jax):
    for line, (kind, text) in zip(REFUSED.splitlines(), by_jax[1], strict=True):
        with pytest.raises((ValueError, TypeError)) as found:
            eval(line, names())
        assert (type(found.value).__name__, str(found.value)) == (kind, text)


def test_errors_of_our_own():
    mesh = Mesh(np.array(DEVICES, object).reshape(4, 2), ("x", "y"))
    for make, kind, text in (
        (lambda: NamedSharding(mesh, "x"), TypeError, "expected a PartitionSpec such as P('x'), got 'x'"),
        (lambda: NamedSharding("m", P("x")), TypeError, "expected a Mesh, got 'm'"),
        (lambda: Mesh(DEVICES, ("x",), ("auto",)), TypeError, "expected quire.sharding.AxisType"),
        (lambda: Mesh(np.array(DEVICES).reshape(4, 2), ("x", "x")), ValueError, "need different names, got ('x', 'x')"),
        (lambda: AbstractMesh((4,), ("x", "y")), ValueError, "expected a name for each axis"),
        (
            lambda: NamedSharding(mesh, P("x")).with_memory_kind("pinned_host"),
            ValueError,
            "got memory kind 'pinned_host'",
        ),
        (lambda: NamedSharding(mesh.abstract_mesh, P()).device_set, ValueError, "has no devices"),
        (lambda: NamedSharding(mesh, P("x", unreduced={"y"})), ValueError, "axes of type Explicit"),
        (lambda: setattr(P("x"), "partitions", ()), AttributeError, "immutable"),
    ):
        with pytest.raises(kind) as found:
            make()
        assert text in str(found.value)
    assert issubclass(DuplicateSpecError, ValueError) and issubclass(IndivisibleError, ValueError)


def test_they_are_pickled():
    for x in (P("x", P.UNCONSTRAINED), P(unreduced={"x"}), AbstractMesh((2,), ("x",), AxisType.Explicit)):
        assert pickle.loads(pickle.dumps(x)) == x


def test_a_parameter_is_printed_without_devices_and_read_back():
    def program(mesh: Any, *spec: Any) -> ClosedJaxpr:
        s = NamedSharding(mesh, P(*spec))
        jaxpr, _, _ = trace_flat(lambda x: [sharding_constraint(x, s)], [ShapedArray((8, 4), np.dtype(np.float32))])
        return ClosedJaxpr(jaxpr)

    one, other = (Mesh(np.array(d, object).reshape(4, 2), ("x", "y z")) for d in (DEVICES, DEVICES[::-1]))
    for spec in (("x",), (("x", "y z"), None), (None, P.UNCONSTRAINED), ()):
        read = parse(to_text(program(one, *spec)))
        assert read == program(one.abstract_mesh, *spec)
        assert identity(program(one, *spec).jaxpr) == identity(program(other, *spec).jaxpr) == identity(read.jaxpr)
    assert identity(program(one, "x").jaxpr) != identity(program(one).jaxpr)
    with pytest.raises(
        ValueError, match=r"sharding_constraint: P\(None, None, 'x'\) divides 3 dimensions, got f32\[8,4\]"
    ):
        program(one, None, None, "x")
