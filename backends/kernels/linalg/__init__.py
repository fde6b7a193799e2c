"""Dense linear algebra of small matrices: one at a time by vectors along rows, or one in each lane of vectors."""

from .batches import linalg_kernel

__all__ = ["linalg_kernel"]
