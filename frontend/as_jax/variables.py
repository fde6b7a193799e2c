"""JAX's environment variables: what a program that was written for JAX finds set when it runs on quire."""

from __future__ import annotations

from quire.ir import config, environment


def take() -> None:
    """Options get the values of JAX's variables (`JAX_ENABLE_X64=1`) where quire's own are not set.

    Raises:
        ValueError: a variable's value is none of the option's.
    """
    own = {v.option: v for v in environment.VARIABLES.values() if v.option}
    for name in config.option_names():
        text = environment.of_jax(name)
        if text is None or (name in own and own[name].text() is not None):
            continue
        before = getattr(config.config, name)
        config.config.update(name, environment.says_on(text) if isinstance(before, bool) else text)
