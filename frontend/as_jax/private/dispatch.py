"""`jax._src.dispatch`: waiting for effects."""

from quire import effects_barrier


def wait_for_tokens() -> None:
    """Wait until the effects of all programs that were called have happened."""
    effects_barrier()
