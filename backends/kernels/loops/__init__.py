"""Whole loop equations (`scan`, `while`, `bounded_while`) as one kernel.

`whole_loops` tries the ways to cut a loop's arrays into lanes, the best first, and computes the body in registers where
the state is small (`registers`), else in memory (`lazy`).
"""
