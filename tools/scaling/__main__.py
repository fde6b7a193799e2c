"""python -m quire.tools.scaling [--print]: count again what devices receive, and write the table into docs/scaling.md."""

from __future__ import annotations

import argparse

from . import hlo
from .table import PAGE, rows, written


def main() -> None:
    """Run JAX in a process of its own, partition the models, and write the table."""
    parser = argparse.ArgumentParser(description="What devices receive in ten models, against JAX's partitioner.")
    parser.add_argument("--print", action="store_true", help="print the table and leave docs/scaling.md as it is")
    options = parser.parse_args()
    lines = rows(hlo.measured())
    if options.print:
        print("\n".join(lines))
    else:
        PAGE.write_text(written(PAGE.read_text(), lines))


if __name__ == "__main__":
    main()
