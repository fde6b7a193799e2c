"""An argument is used after its memory was given away."""

import quire
import quire.numpy as qnp

step = quire.compile(lambda x: x + 1, donate_argnums=0)
x = qnp.ones(3)
step(x)
print(x)

#| RuntimeError: this array, f32[3], has no memory any more: it was donated to a compiled function (donate_argnums) or deleted; use the function's result, or do not donate it
