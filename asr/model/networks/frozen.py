"""Freeze layers by name: `train.freeze`."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator
from typing import Any

import keras

from asr.base.errors import UserError
from asr.base.text.wording import did_you_mean
from asr.model.keras_internals import layers_directly_in


def freeze_layers(network: keras.Model, patterns: str) -> None:
    """Freeze the layers whose names match, and all layers within them.

    A frozen layer keeps its weights and its moving statistics, by which it normalises. The order of the
    network's variables does not change.

    Args:
        network: network whose weights are created.
        patterns: patterns of names, separated by commas, such as "stage0", "stage1/block0/*" and "output".

    Raises:
        UserError: a pattern matches no layer with weights, or nothing is left to train.
    """
    layers = dict(_named_layers(network))
    for pattern in filter(None, map(str.strip, patterns.split(","))):
        matching = [name for name in layers if fnmatch.fnmatchcase(name, pattern)]
        if not matching:
            raise UserError(
                f"train.freeze: {pattern}: no such layer{did_you_mean(pattern, layers)}; the layers are "
                f"{_overview(list(layers))}"
            )
        for name in matching:
            layers[name].trainable = False
    if not network.trainable_variables:
        raise UserError(
            f"train.freeze: {patterns}: nothing is left to train; do not freeze one of "
            f"{', '.join(name for name in layers if '/' not in name)}"
        )


def _named_layers(parent: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every layer with weights and its name, with the names of outer layers before slashes."""
    for layer in layers_directly_in(parent):
        if layer.weights:
            yield prefix + layer.name, layer
            yield from _named_layers(layer, f"{prefix}{layer.name}/")


def _overview(names: list[str]) -> str:
    outermost = [name for name in names if "/" not in name]
    within = [name for name in names if "/" in name]
    example = f", and layers within them, such as {within[0]} and {within[-1]}" if within else ""
    return ", ".join(outermost) + example
