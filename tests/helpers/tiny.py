"""Make `model.family = "tiny"` the network of `tiny_network.py`, without importing TensorFlow."""

from typing import cast

from asr.base.registry import NETWORKS

TINY = "tiny"


def register_tiny() -> None:
    """Add the network to those that a configuration can name, in this process only."""
    cast("dict[str, str]", NETWORKS)[TINY] = "helpers.tiny_network:Tiny"
