"""Processes that work together, and how they communicate: under MPI, or as threads of one process."""
