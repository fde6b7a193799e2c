"""Cumulative sums, products, maxima, minima and logsumexps along one dimension (`cumulative`)."""
