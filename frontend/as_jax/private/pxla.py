"""`jax._src.interpreters.pxla`: tables of XLA's runtime, which are empty."""

from typing import Any

#: Type of array to what makes arrays of XLA's results: quire's arrays are made otherwise.
global_result_handlers: dict[type, Any] = {}
