# quire_sample/kernels.py
from typing import Any

import quire
import quire.numpy as qnp


@quire.kernel(grid=lambda x: x.shape[0], reference=lambda x: x - qnp.mean(x, 1, keepdims=True))
def centred(k: Any, x: Any, out: Any) -> None:
    """Each row less its mean."""
    row = x[k.program_id(), :]
    out[k.program_id(), :] = row - k.sum(row) / x.shape[1]
