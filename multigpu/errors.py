"""What goes wrong by the user's choice of devices; imports nothing, so that a command line can name it."""


class DeviceError(ValueError):
    """A device that is asked for cannot be had; the message lists what can, and the remedy."""
