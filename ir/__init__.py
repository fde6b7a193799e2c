"""quire.ir: the jaxpr-like intermediate representation, its primitives, and the tracing core.

Imports nothing else of quire. Evaluation and pass rules reach this package by registration only.
"""
