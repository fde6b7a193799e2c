"""Constants."""

from __future__ import annotations

import math

pi: float = math.pi
e: float = math.e
inf: float = math.inf
nan: float = math.nan
euler_gamma: float = 0.5772156649015329
newaxis: None = None

__all__ = ["e", "euler_gamma", "inf", "nan", "newaxis", "pi"]
