"""Where programs run whose arguments name no device."""

from __future__ import annotations

from quire.ir.config import config
from quire.runtime.devices import Device, devices


def as_device(device: Device | str | None) -> Device:
    """A device from a device, the name of a platform, or None for the default.

    The default is that of ``quire.default_device(...)`` or ``config.default_device``, else the platform's first.
    Raises RuntimeError where the platform has no device, TypeError for anything else.
    """
    if device is None:
        device = config.options.default_device
    if device is None:
        return devices()[0]
    if isinstance(device, str):
        return devices(device)[0]
    if isinstance(device, Device):
        return device
    raise TypeError(f"expected a quire.Device or the name of a platform (cpu, vulkan, cuda), got {device!r}")
