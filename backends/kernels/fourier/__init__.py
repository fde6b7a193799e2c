"""Fourier transforms of one dimension, of any length.

`plan` splits a length into stages, `butterflies` are small transforms of values, `passes` the stages over memory
(`memory`), and `fft` the kernels for rows and for columns on CPUs. `fft_by_threads` makes those for GPUs, of the same plans
and butterflies. `problem` says what is transformed.
"""
