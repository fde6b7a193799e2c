"""python -m quire.tools.simulate: see `cli`."""

import sys

from .cli import main

sys.exit(main())
