"""Refuse names that change from model to model: a checkpoint has weights under the names of their layers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import keras

from asr.base.errors import UserError
from asr.model.keras_internals import layers_of


def refuse_unfixed_names(model: keras.Model, make: Callable[[], keras.Model]) -> None:
    """Raise an error if another model of the same kind could not read this one's checkpoints.

    Args:
        model: with its weights.
        make: makes such a model again, with its weights; called only if a layer's name may be automatic.

    Raises:
        UserError: a layer or a weight has a name that Keras counts up, or two layers have the same name.
    """
    paths = [weight.path for weight in model.weights]
    doubled = [path for path, times in Counter(paths).items() if times > 1]
    if doubled:
        name = doubled[0].split("/")[-2]
        raise UserError(
            f"{doubled[0]}: two layers have the name {name!r}, so a checkpoint would keep only one of their "
            "weights; give each a name of its own where it is made"
        )
    in_paths = {name for path in paths for name in path.split("/")[:-1]}
    inner = [layer for layer in layers_of(model) if layer is not model and layer.name in in_paths]
    unnamed = [path for path in paths if re.search(r"/variable(?:_[0-9]+)?$", path)]  # as Keras names them
    if not unnamed and not any(map(_may_be_automatic, inner)):
        return
    for path, other in zip(paths, (weight.path for weight in make().weights), strict=True):
        changed = [
            pair for pair in zip(path.split("/"), other.split("/"), strict=False) if pair[0] != pair[1]
        ]
        if changed:
            first, second = changed[0]
            kind, maker = "weight", "add_weight"
            if not path.endswith("/" + first):
                classes = (type(layer).__name__ for layer in layers_of(model) if layer.name == first)
                kind, maker = "layer", next(classes, "Layer")
            raise UserError(
                f"{path}: the {kind} {first!r} has no fixed name (it is {second!r} in the next model), so it "
                f"could not be read from a checkpoint; give it one where it is made, such as "
                f'{maker}(..., name="{re.sub(r"_[0-9]+$", "", first)}_a")'
            )


def _may_be_automatic(layer: Any) -> bool:
    """Return whether a layer's name ends with its class's, as Keras writes it, with or without a number.

    Bidirectional puts "forward_" in front; Keras leaves out the underscore of a private class.
    """
    written = re.sub(r"_[0-9]+$", "", layer.name).replace("_", "")
    return bool(written.endswith(type(layer).__name__.replace("_", "").lower()))
