"""`jax.experimental.array_serialization.serialization`: the managers of checkpoints that orbax and flax derive from."""

from __future__ import annotations

import abc
import os
from collections.abc import Callable, Sequence
from typing import Any


class GlobalAsyncCheckpointManagerBase(abc.ABC):
    """What a manager of checkpoints in the background has; orbax's is one."""

    @abc.abstractmethod
    def check_for_errors(self) -> None:
        """Raise what went wrong in the background."""

    @abc.abstractmethod
    def wait_until_finished(self) -> None:
        """Wait for what is being written."""

    @abc.abstractmethod
    def serialize(self, arrays: Sequence[Any], tensorstore_specs: Sequence[Any], *,
                  on_commit_callback: Callable[[], None]) -> None:  # fmt: skip
        """Write arrays in the background."""

    @abc.abstractmethod
    def deserialize(self, shardings: Sequence[Any], tensorstore_specs: Sequence[Any],
                    global_shapes: Any = None, dtypes: Any = None) -> Any:  # fmt: skip
        """Read arrays."""


class GlobalAsyncCheckpointManager:
    """JAX's own manager. Making one raises NotImplementedError: orbax, or quire's pytree_serialization, does what it does."""

    def __init__(self, timeout_secs: int = 300) -> None:
        raise NotImplementedError(
            "jax.experimental.array_serialization.serialization.GlobalAsyncCheckpointManager: use orbax.checkpoint, or "
            "jax.experimental.array_serialization.pytree_serialization"
        )


def get_tensorstore_spec(
    ckpt_path: str | os.PathLike[str], *, ocdbt: bool = False, process_idx: int | None = None, arr: Any = None,
    driver: str = "zarr",
) -> dict[str, Any]:  # fmt: skip
    """The description by which tensorstore finds an array in a folder.

    Raises:
        NotImplementedError: a description of anything but a plain file of the driver zarr is asked for.
    """
    if ocdbt or process_idx is not None or arr is not None or driver != "zarr" or "://" in str(ckpt_path):
        raise NotImplementedError("get_tensorstore_spec: quire describes files of the driver zarr alone")
    path = os.path.normpath(str(ckpt_path))
    return {"driver": driver, "kvstore": {"driver": "file", "path": path}}
