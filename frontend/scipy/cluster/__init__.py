"""quire.scipy.cluster: vector quantisation."""

from . import vq

__all__ = ["vq"]
