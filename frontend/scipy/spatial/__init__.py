"""quire.scipy.spatial: rotations in three dimensions."""

from . import transform

__all__ = ["transform"]
