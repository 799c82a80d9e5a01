"""Wraps what the engines use of `tf.distribute`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from multigpu.replication.towers import Structure


def mirrored_strategy(devices: Sequence[str]) -> tf.distribute.Strategy:
    """Return a `MirroredStrategy` over several devices of this process."""
    logical, cards = tf.config.list_logical_devices("GPU"), tf.config.get_visible_devices("GPU")
    # NCCL supports only one device per GPU, and the collectives for CPUs only one strategy per process
    by_nccl = devices[0].startswith("/GPU") and len(logical) == len(cards)
    return tf.distribute.MirroredStrategy(
        list(devices), None if by_nccl else tf.distribute.ReductionToOneDevice()
    )


def local_id(context: Any, num_local: int) -> int:
    """Return the index of a replica among those of its process."""
    return int(tf.get_static_value(context.replica_id_in_sync_group)) % num_local


def local_results(strategy: Any, per_replica: Structure) -> list[Structure]:
    """Return a structure of results for each replica of this process."""
    flat = [strategy.experimental_local_results(value) for value in tf.nest.flatten(per_replica)]
    return [tf.nest.pack_sequence_as(per_replica, list(column)) for column in zip(*flat, strict=True)]
