"""What `vjp(...)[1].with_refs` is told and tells of each argument; follows `jax.ad`."""

from __future__ import annotations

from .absent_names import module_getattr
from .transforms.pullbacks import DidntWant as DidntWant
from .transforms.pullbacks import DontWant as DontWant
from .transforms.pullbacks import GradRef as GradRef
from .transforms.pullbacks import GradValue as GradValue

__getattr__ = module_getattr("quire.ad", globals())
