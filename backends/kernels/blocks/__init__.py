"""Kernels that users write: a function over blocks and index arithmetic, on the builder that all kernels use (docs/user-kernels.md).

`indices` are places of which the bounds are known, `tiles` arrays that are expressions of their elements, `language` what a
kernel's function is given.
"""
