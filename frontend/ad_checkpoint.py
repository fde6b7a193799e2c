"""`quire.ad_checkpoint`: checkpoint, its policies and names, under JAX's module name."""

from .rematerialization import Policy, checkpoint, checkpoint_name, checkpoint_policies, remat

__all__ = ["Policy", "checkpoint", "checkpoint_name", "checkpoint_policies", "remat"]
