"""What `import jax` shows beside quire's own names."""

from .version import __version__ as __version__
from .version import __version_info__ as __version_info__
