"""Devices in the shape of a mesh; follows `jax.experimental.mesh_utils`."""

from __future__ import annotations

from ..absent_names import module_getattr
from ..arrays.meshes import create_device_mesh as create_device_mesh

__getattr__ = module_getattr("quire.experimental.mesh_utils", globals())
