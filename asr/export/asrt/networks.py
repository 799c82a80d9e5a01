"""Recognize the networks of ASRT by the shapes of their weights, and map these to the dcnn family.

The names of layers differ between the versions of ASRT (`Conv0`, `conv2d_17`); their order does not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from asr.base.errors import UserError
from asr.export.asrt.keras2_file import StoredArray
from asr.model.features.spectrogram import Spectrogram
from asr.model.networks.dcnn import DCNN_FAMILY, DENSE_UNITS, NUM_POOLED_PAIRS

FAMILY_PREFIX = "dcnn"  # before ASRT's name of a network
NORM_WEIGHTS = ("gamma", "beta", "moving_mean", "moving_variance")
MAX_LISTED = 3

Shape = tuple[int, ...]


class AsrtNetwork(NamedTuple):
    """A network of ASRT.

    Attributes:
        family: its name in the dcnn family, such as "dcnn251bn".
        num_outputs: V, the blank included.
        weights: its arrays by the layer and the weight of the dcnn family, such as "conv0/kernel".
    """

    family: str
    num_outputs: int
    weights: dict[str, npt.NDArray[np.float32]]

    @property
    def name(self) -> str:
        """Return ASRT's name of the network, such as "251bn"."""
        return self.family.removeprefix(FAMILY_PREFIX)


class _Expected(NamedTuple):
    weight: str  # layer and weight, such as "conv0/kernel"
    shape: Shape


def recognize_network(arrays: Sequence[StoredArray], path: Path) -> AsrtNetwork:
    """Return the network whose weights these are.

    Args:
        arrays: of a file, in the order of the model.
        path: of the file, for errors.

    Raises:
        UserError: no network of ASRT has such weights.
    """
    num_outputs = arrays[-1].values.shape[-1] if arrays and arrays[-1].values.ndim else 0
    layouts = {family: list(_layout(family, num_outputs)) for family in DCNN_FAMILY}
    for family, layout in layouts.items():
        if len(layout) == len(arrays) and all(map(_fits, arrays, layout)):
            weights = {expected.weight: array.values for expected, array in zip(layout, arrays, strict=True)}
            return AsrtNetwork(family, num_outputs, weights)
    names = ", ".join(family.removeprefix(FAMILY_PREFIX) for family in layouts)
    raise UserError(
        f"{path}: expected the weights of one of ASRT's networks {names}, received "
        f"{_difference(arrays, layouts)}; other networks cannot be imported"
    )


def _layout(family: str, num_outputs: int) -> Iterator[_Expected]:
    """Yield the weights of a network in the order of its layers."""
    recipe = DCNN_FAMILY[family]
    channels = [width for width in recipe.pair_channels for _ in range(2)]
    for index, (before, width) in enumerate(zip([1, *channels], channels, strict=False)):
        yield _Expected(f"conv{index}/kernel", (3, 3, before, width))
        if recipe.batch_norm or index > 0:
            yield _Expected(f"conv{index}/bias", (width,))
        if recipe.batch_norm:
            yield from (_Expected(f"norm{index}/{weight}", (width,)) for weight in NORM_WEIGHTS)
    num_inputs = Spectrogram().num_features // 2**NUM_POOLED_PAIRS * channels[-1]
    yield _Expected("dense/kernel", (num_inputs, DENSE_UNITS))
    yield _Expected("dense/bias", (DENSE_UNITS,))
    yield _Expected("output/kernel", (DENSE_UNITS, num_outputs))
    yield _Expected("output/bias", (num_outputs,))


def _fits(array: StoredArray, expected: _Expected) -> bool:
    return array.values.shape == expected.shape and array.name == expected.weight.split("/")[1]


def _difference(arrays: Sequence[StoredArray], layouts: dict[str, list[_Expected]]) -> str:
    """Describe the arrays of a file that fit no network, by the first that differs or the first few."""
    if not arrays:
        return "a file without weights"
    for family, layout in layouts.items():
        if len(layout) == len(arrays):
            array, expected = next(pair for pair in zip(arrays, layout, strict=True) if not _fits(*pair))
            return (
                f"{len(arrays)} arrays, as {family.removeprefix(FAMILY_PREFIX)} has, but in layer "
                f"{array.layer} {_text(array.name, array.values.shape)} instead of "
                f"{_text(expected.weight.split('/')[1], expected.shape)}"
            )
    first = ", ".join(f"{a.layer} {_text(a.name, a.values.shape)}" for a in arrays[:MAX_LISTED])
    numbers = " or ".join(str(len(layout)) for layout in layouts.values())
    return f"{len(arrays)} arrays instead of {numbers}, the first of them {first}"


def _text(name: str, shape: Shape) -> str:
    return f"{name} ({'x'.join(map(str, shape))})"
