"""Defines the error for devices that cannot be used; imports nothing, so that a command line can name it."""


class DeviceError(ValueError):
    """A requested device is not available; the message lists those that are, and the remedy."""
