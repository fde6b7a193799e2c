"""Dense linear algebra of small matrices: one at a time by vectors along rows, or one in each lane of vectors."""

from .batches import check_worth, linalg_kernel

__all__ = ["check_worth", "linalg_kernel"]
