"""What `compile(passes=..., target=...)` asks for: what a program is compiled for, and by which passes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from quire.backends.targets import Target, get_target
from quire.passes.base import Pass, parse_pipeline, passes_key, with_default
from quire.runtime.devices import PLATFORMS, Device, default_platform, device_of


@dataclass(frozen=True, eq=False)
class Wishes:
    """The target and the passes that a compiled function is given; None: those of the device.

    Attributes:
        target: what programs are compiled for.
        passes: a pipeline's text, in which ``default`` stands for the target's own passes, or the passes themselves.
    """

    target: Target | None = None
    passes: str | tuple[Pass, ...] | None = None

    @property
    def key(self) -> Any:
        """What tells apart what functions with other wishes are compiled to."""
        passes = self.passes if self.passes is None or isinstance(self.passes, str) else passes_key(self.passes)
        return (None if self.target is None else self.target.fingerprint(), passes)

    def target_for(self, device: Device) -> Target:
        """What a program that runs on a device is compiled for."""
        return device.target if self.target is None else self.target

    def passes_for(self, target: Target) -> tuple[Pass, ...] | None:
        """The passes instead of a target's own; None: its own. Raises PassError for an unknown pass or option."""
        if isinstance(self.passes, str):
            return parse_pipeline(with_default(self.passes, target.pipeline))
        return self.passes

    def device(self) -> Device | None:
        """The device that the target asks for, where the default platform is another."""
        if self.target is None or self.target.runs_on not in PLATFORMS or self.target.runs_on == default_platform():
            return None
        try:
            return device_of(self.target)
        except RuntimeError:  # there is none here: the program may still be lowered
            return None


NONE = Wishes()


def wishes(target: Any, passes: Any) -> Wishes:
    """What `compile` was given.

    Raises:
        TypeError: the target is neither a `Target` nor a name, the passes neither a text nor passes nor a `PassManager`.
        ValueError: there is no target of that name.
        PassError: the text names an unknown pass or option.
    """
    if target is None and passes is None:
        return NONE
    if isinstance(target, str):
        target = get_target(target)
    if target is not None and not isinstance(target, Target):
        raise TypeError(f"quire.compile: target={target!r} is neither a quire.plugins.Target nor the name of one")
    if passes is not None and not isinstance(passes, str):
        given = getattr(passes, "passes", passes)  # of a PassManager
        wrong = (
            given if not isinstance(given, list | tuple) else next((p for p in given if not isinstance(p, Pass)), None)
        )
        if wrong is not None:
            raise TypeError(
                f"quire.compile: passes={passes!r}: {wrong!r} is no pass; expected a text such as 'default,my-pass', a "
                "PassManager, or passes"
            )
        passes = tuple(given)
    found = Wishes(target, passes)
    if isinstance(passes, str):
        found.passes_for(get_target("cpu") if target is None else target)
    return found


__all__ = ["NONE", "Wishes", "wishes"]
