"""References, arrays that are written to; follows `jax.ref`."""

from __future__ import annotations

from quire.ir.references import AbstractRef as AbstractRef
from quire.ir.references import Ref as Ref

from .absent_names import module_getattr
from .arrays.references import addupdate as addupdate
from .arrays.references import empty_ref as empty_ref
from .arrays.references import free_ref as free_ref
from .arrays.references import freeze as freeze
from .arrays.references import get as get
from .arrays.references import new_ref as new_ref
from .arrays.references import set as set
from .arrays.references import swap as swap

__getattr__ = module_getattr("quire.ref", globals())
