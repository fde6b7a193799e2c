"""Whether a device computes what it should: `python -m quire.tools.check_device vulkan`, and the functions it tries."""
