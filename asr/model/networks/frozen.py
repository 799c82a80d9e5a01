"""Layers that are not trained, by name: `train.freeze`."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator
from typing import Any

import keras

from asr.base.config import nearest
from asr.base.types import UserError
from asr.model.keras_internals import layers_directly_in


def freeze_layers(network: keras.Model, patterns: str) -> None:
    """Freeze the layers whose names match, and all that is in them.

    A frozen layer keeps its weights, and normalises by its moving statistics, which it keeps. The order of
    the network's variables stays.

    Args:
        network: its weights made.
        patterns: separated by commas, of names such as "stage0", "stage1/block0/*" and "output".

    Raises:
        UserError: a pattern matches no layer that has weights, or nothing is left to train.
    """
    layers = dict(_named_layers(network))
    for pattern in filter(None, map(str.strip, patterns.split(","))):
        matching = [name for name in layers if fnmatch.fnmatchcase(name, pattern)]
        if not matching:
            raise UserError(
                f"train.freeze: {pattern}: no such layer{nearest(pattern, layers)}; there are "
                f"{_overview(list(layers))}"
            )
        for name in matching:
            layers[name].trainable = False
    if not network.trainable_variables:
        raise UserError(
            f"train.freeze: {patterns}: nothing is left to train; leave out one of "
            f"{', '.join(name for name in layers if '/' not in name)}"
        )


def _named_layers(parent: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every layer with weights and its name, those within others behind a slash."""
    for layer in layers_directly_in(parent):
        if layer.weights:
            yield prefix + layer.name, layer
            yield from _named_layers(layer, f"{prefix}{layer.name}/")


def _overview(names: list[str]) -> str:
    outermost = [name for name in names if "/" not in name]
    within = [name for name in names if "/" in name]
    example = f", and layers within them, such as {within[0]} and {within[-1]}" if within else ""
    return ", ".join(outermost) + example
