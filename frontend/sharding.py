"""Meshes of devices, and how arrays are divided over them; follows `jax.sharding`.

A mesh gives names to the axes of a grid of devices, a `PartitionSpec` says along which of them each dimension of an array is
divided, and a `NamedSharding` is both. `QUIRE_NUM_CPU_DEVICES=8`, or ``config.update("num_cpu_devices", 8)``, makes eight devices of
the CPU: programs compute on them what they would on eight real ones.

    mesh = quire.make_mesh((4, 2), ("data", "model"))
    x = quire.device_put(x, NamedSharding(mesh, P("data", "model")))
"""

from __future__ import annotations

from quire.ir.sharding import AbstractMesh as AbstractMesh
from quire.ir.sharding import AxisType as AxisType
from quire.ir.sharding import Mesh as Mesh
from quire.ir.sharding import NamedSharding as NamedSharding
from quire.ir.sharding import PartitionSpec as PartitionSpec
from quire.ir.sharding import Sharding as Sharding
from quire.ir.sharding import SingleDeviceSharding as SingleDeviceSharding

from .absent_names import module_getattr
from .arrays.meshes import get_abstract_mesh as get_abstract_mesh
from .arrays.meshes import get_mesh as get_mesh
from .arrays.meshes import set_mesh as set_mesh
from .arrays.meshes import use_abstract_mesh as use_abstract_mesh
from .lax.sharding import auto_axes as auto_axes
from .lax.sharding import explicit_axes as explicit_axes
from .lax.sharding import reshard as reshard

P = PartitionSpec

__getattr__ = module_getattr("quire.sharding", globals())
