"""`python -m quire.tools.check_device`."""

from .cli import main

raise SystemExit(main())
