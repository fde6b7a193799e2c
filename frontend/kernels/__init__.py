"""Kernels of one's own (docs/user-kernels.md): `quire.kernel`."""

from .definition import UserKernel, kernel

__all__ = ["UserKernel", "kernel"]
