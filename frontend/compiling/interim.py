"""`compile(tiered=True)`: the first calls are answered by the reference backend while the program is compiled."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from quire.ir.jaxpr import ClosedJaxpr
from quire.runtime.array import Array, from_numpy, host_value

from ..arrays.results import own
from .donation import needed
from .variants import VariantInfo


class InterimVariant:
    """A variant whose program is being compiled in a thread: it evaluates the jaxpr with NumPy until that is done.

    Its results are those of the reference backend: equal to the program's within rounding. An error of the compiler
    is raised by the next call.
    """

    __slots__ = ("info", "_closed", "_consts", "_out_tree", "_donated", "_device", "_thread", "_error")

    def __init__(
        self, closed: ClosedJaxpr, out_tree: Any, donated: Sequence[int], device: Any, info: VariantInfo
    ) -> None:
        self.info = info
        self._closed = closed
        self._consts = [host_value(c) if type(c) is Array else c for c in closed.consts]
        self._out_tree = out_tree
        self._donated = tuple(needed(closed.jaxpr, donated))
        self._device = device
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None

    def start(self, compiled: Callable[[], Any], done: Callable[[Any], None]) -> None:
        """Compile in a thread, under the options of this context; then call `done` with the variant, or with None."""

        def work() -> None:
            try:
                variant = compiled()
            except BaseException as error:  # raised by the next call, in the user's thread
                self._error = error
                done(None)
            else:
                done(variant)

        context = contextvars.copy_context()
        self._thread = threading.Thread(target=context.run, args=(work,), name="quire-tiered", daemon=True)
        self._thread.start()

    def wait(self) -> None:
        """Until the program is compiled, or compiling has failed."""
        if self._thread is not None:
            self._thread.join()

    def call(self, leaves: Sequence[Any]) -> Any:
        """Evaluate on the flat arguments, as a compiled variant's call does."""
        from quire.backends.reference import eval_jaxpr

        if self._error is not None:
            raise self._error
        self.info.uses += 1
        operands = [host_value(x) if type(x) is Array else np.asarray(x) for x in leaves]
        jaxpr = self._closed.jaxpr
        results = eval_jaxpr(ClosedJaxpr(jaxpr, self._consts), *operands)
        out = [own(r, v.aval, operands) for r, v in zip(results, jaxpr.outvars)]
        if self._device is not None:
            out = [from_numpy(host_value(x), x.aval, self._device) for x in out]
        for i in self._donated:
            if type(leaves[i]) is Array:
                leaves[i].delete()
        return self._out_tree.unflatten(out)
