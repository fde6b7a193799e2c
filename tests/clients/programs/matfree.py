"""matfree: Lanczos and Golub-Kahan decompositions, stochastic traces and log-determinants, a least-squares solve, gradients"""

import jax
import jax.numpy as jnp
import numpy as np
