"""A kernel writes numbers of another dtype than its result has."""

import quire
import quire.numpy as qnp


@quire.kernel(out=lambda x: quire.ShapeDtypeStruct(x.shape, "int32"))
def rounded(k, x, out):
    out[:] = k.floor(x[:] + 0.5)


quire.jit(lambda x: rounded(x * 2))(qnp.ones(64))

#| quire.ir.errors.KernelError: kernel rounded: a tile of float32 is written to out i32[64]: convert it with k.cast(tile, 'int32') (at kernel_dtype.py:9, in rounded)
