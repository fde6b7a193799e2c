"""The plan of a program: where each value lies in memory, and in which order what is done.

`program.py` is what is planned: the host's part of a module, whose values are not places yet. `making.py` makes a
`Plan` (plan.py) of it, `checking.py` proves that each step of a plan finds the values that the program says.
`backends/iree/planned.py` takes the one from IREE's modules and writes the other into them.

Plain Python without imports of the rest, because the compiler's process uses it.
"""
