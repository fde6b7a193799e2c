"""What `compile(f)`, `.trace`, `.lower` and `.compile` give, under the names of `jax.stages`."""

from .absent_names import module_getattr
from .arrays.shape_struct import ArgInfo
from .compiling.aot import Compiled, Lowered, Traced
from .compiling.compiled_function import CompiledFunction as Wrapped

__all__ = ["ArgInfo", "Compiled", "Lowered", "Traced", "Wrapped"]

__getattr__ = module_getattr("quire.stages", globals())
