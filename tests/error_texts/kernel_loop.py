"""A kernel uses a value of a loop after it."""

import quire
import quire.numpy as qnp


@quire.kernel(out=lambda x: x)
def last_sum(k, x, out):
    for i in k.loop(0, x.shape[0]):
        total = k.sum(x[:]) * x[i]
    out[:] = x[:] + total


last_sum(qnp.ones(8))

#| quire.ir.errors.KernelError: kernel last_sum: a value that was made within a loop or k.when (at kernel_loop.py:10, in last_sum) is used after it (at kernel_loop.py:11, in last_sum): write it to k.scratch there
