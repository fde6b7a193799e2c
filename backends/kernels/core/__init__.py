"""What every kernel is written with: the builder of its text, typed values, dtypes, targets and the finished kernel.

A template opens a `KernelBuilder` on the operands and results, writes loops, loads, arithmetic and stores, and `build`
gives the `Kernel` that is put into a module and called. Nothing here knows what an operation of the IR is.
"""
