"""Reductions of windows, and the gradients of maxima and minima of windows.

`window_loops` knows where windows are and goes over their elements; `pooling` and `pooling_grad` say what is done there.
"""
