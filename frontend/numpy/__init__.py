"""quire.numpy: NumPy's functions on quire's arrays, with the signatures, dtype rules and strictness of jax.numpy."""

from __future__ import annotations

from numpy.exceptions import ComplexWarning

from ..absent_names import module_getattr
from ..arrays.array_type import Array as ndarray
from ..transforms.key_functions import take_keys
from . import (
    arithmetic,
    constants,
    conversion,
    creation,
    diagonals,
    dtype_info,
    elementwise,
    from_buffers,
    from_values,
    grids,
    gufunc,
    histograms,
    index_tricks,
    joining,
    linear,
    nan_functions,
    padding,
    parts,
    polynomials,
    positions,
    predicates,
    ranges,
    rearranging,
    reductions,
    selection,
    sets,
    shapes,
    signals,
    sorting,
    statistics,
    taking,
    ufuncs,
    windows,
)
from ._programs import make_programs as _make_programs
from .arithmetic import *
from .array_api import __array_namespace_info__ as __array_namespace_info__
from .constants import *
from .conversion import *
from .creation import *
from .diagonals import *
from .dtype_info import *
from .elementwise import *
from .from_buffers import *
from .from_values import *
from .grids import *
from .gufunc import *
from .histograms import *
from .index_tricks import *
from .joining import *
from .linear import *
from .nan_functions import *
from .padding import *
from .parts import *
from .polynomials import *
from .positions import *
from .predicates import *
from .ranges import *
from .rearranging import *
from .reductions import *
from .selection import *
from .sets import *
from .shapes import *
from .signals import *
from .sorting import *
from .statistics import *
from .taking import *
from .ufuncs import *
from .windows import *

__array_api_version__ = "2024.12"


# Each module lists its public names.
__all__ = ["ComplexWarning", "ndarray"]
__all__ += arithmetic.__all__
__all__ += constants.__all__
__all__ += conversion.__all__
__all__ += creation.__all__
__all__ += dtype_info.__all__
__all__ += elementwise.__all__
__all__ += from_buffers.__all__
__all__ += from_values.__all__
__all__ += grids.__all__
__all__ += gufunc.__all__
__all__ += histograms.__all__
__all__ += index_tricks.__all__
__all__ += joining.__all__
__all__ += linear.__all__
__all__ += nan_functions.__all__
__all__ += padding.__all__
__all__ += parts.__all__
__all__ += polynomials.__all__
__all__ += predicates.__all__
__all__ += ranges.__all__
__all__ += rearranging.__all__
__all__ += reductions.__all__
__all__ += selection.__all__
__all__ += taking.__all__
__all__ += positions.__all__
__all__ += diagonals.__all__
__all__ += sets.__all__
__all__ += shapes.__all__
__all__ += signals.__all__
__all__ += sorting.__all__
__all__ += statistics.__all__
__all__ += ufuncs.__all__
__all__ += windows.__all__

_make_programs(globals())

# Functions that only move elements take typed keys too; the numbers are the arguments whose elements are moved.
take_keys(
    globals(),
    (0,), "append", "array", "asarray", "atleast_1d", "atleast_2d", "atleast_3d", "broadcast_arrays", "broadcast_to",
    "concat", "concatenate", "copy", "delete", "dstack", "expand_dims", "flip", "fliplr", "flipud", "hstack", "insert",
    "moveaxis", "permute_dims", "ravel", "repeat", "reshape", "resize", "roll", "rollaxis", "rot90", "split", "squeeze",
    "stack", "swapaxes", "take", "take_along_axis", "tile", "transpose", "unstack", "vstack",
)  # fmt: skip
take_keys(globals(), (1,), "full")
take_keys(globals(), (1, 2), "where")

#: Submodules that are imported when first used.
_LAZY = ("fft", "linalg")
__getattr__ = module_getattr("quire.numpy", globals(), _LAZY)
