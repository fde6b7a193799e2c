"""`quire.ad_checkpoint`: checkpoint, its policies and names, under JAX's module name."""

from .transforms.differentiation import print_saved_residuals
from .transforms.rematerialization import Policy, checkpoint, checkpoint_name, checkpoint_policies, remat

__all__ = ["Policy", "checkpoint", "checkpoint_name", "checkpoint_policies", "print_saved_residuals", "remat"]
