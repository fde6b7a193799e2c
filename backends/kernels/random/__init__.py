"""Random bits: Threefry 2x32 of counters under each of some keys (`bits`)."""
