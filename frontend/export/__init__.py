"""Programs without Python: folders for C and JavaScript, and JAX's `jax.export`.

    quire.export.c(f, x, to="folder")                     # model.h, model.c, kernels, weights: docs/export.md
    quire.export.javascript(f, x, to="folder")
"""

from .folders import Folder as Folder
from .folders import c as c
from .folders import javascript as javascript
