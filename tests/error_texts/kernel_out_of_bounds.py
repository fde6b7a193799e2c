"""A kernel reads beyond the end of an array in its last program."""

import quire
import quire.numpy as qnp


@quire.kernel(grid=lambda x: x.shape[0] // 8, out=lambda x: x)
def shifted(k, x, out):
    at = k.span(k.program_id() * 8, 8)
    out[at] = x[at + 1]


shifted(qnp.ones(64))

#| quire.ir.errors.KernelError: kernel shifted: the kernel reads x f32[64] at 64 along dimension 0, which has the places 0 to 63: change the grid or the span, or say what is to happen there (load(..., other=0)) (at kernel_out_of_bounds.py:10, in shifted)
