"""Read the HDF5 files that Keras 2 wrote weights to, without building the model that they are from.

The root has the attribute `layer_names`, in the order of the model, and a group for each layer, with the
attribute `weight_names` and an array for each of these. A list that is too long for one attribute is divided
into `layer_names0`, `layer_names1`, ... A file of a whole model has all that in the group `model_weights`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from asr.base.errors import UserError

MAX_VALUES = 100_000_000  # of an array: no network of ASRT has a hundredth of it
WHOLE_MODEL = "model_weights"
MAX_LISTED = 4


class StoredArray(NamedTuple):
    """An array of a file, and the names that Keras gave it."""

    layer: str
    name: str  # such as "kernel"
    values: npt.NDArray[np.float32]


def read_arrays(path: Path) -> list[StoredArray]:
    """Return the arrays of all layers, in the order of the model.

    Raises:
        UserError: the file cannot be read, is damaged, or has another layout.
    """
    import h5py

    try:
        with path.open("rb") as stream, h5py.File(stream, "r") as file:
            return list(_arrays(file.get(WHOLE_MODEL, file), path))
    except UserError:
        raise
    except MemoryError:
        raise UserError(f"{path}: cannot read these weights: out of memory") from None
    except Exception as error:  # h5py raises many kinds of errors for damaged files
        if isinstance(error, OSError) and error.filename is not None:
            raise UserError(f"{path}: cannot read these weights ({error.strerror})") from None
        reason = " ".join(str(error).split())
        raise UserError(
            f"{path}: damaged, or not an HDF5 file ({reason}); download it again, and unpack its archive"
        ) from None


def _arrays(root: Any, path: Path) -> Iterator[StoredArray]:
    layers = _names(root, "layer_names")
    if layers is None:
        found = ", ".join(list(root)[:MAX_LISTED]) or "nothing"
        raise UserError(
            f"{path}: expected weights as Keras 2 saves them, with the attribute layer_names, found {found}; "
            "name a file of ASRT that ends in .model.h5 or .model.base.h5"
        )
    for layer in layers:
        for name in _names(root[layer], "weight_names") or ():
            values = _values(root[layer][name], f"{path}: layer {layer}: {name}")
            yield StoredArray(layer, name.split("/")[-1].split(":")[0], values)


def _values(dataset: Any, where: str) -> npt.NDArray[np.float32]:
    if dataset.size > MAX_VALUES or dataset.dtype.kind != "f":
        raise UserError(
            f"{where}: expected weights, received {dataset.size:,} values of type {dataset.dtype}; no "
            "network of ASRT has these"
        )
    values = np.asarray(dataset, np.float32)
    if not np.isfinite(values).all():
        raise UserError(
            f"{where}: expected finite values, received infinite ones or NaN: training had diverged when "
            "they were saved; import the weights of an earlier epoch"
        )
    return values


def _names(group: Any, name: str) -> list[str] | None:
    """Return a list of names, whether it is one attribute or several; None if there is none."""
    parts = [group.attrs[name]] if name in group.attrs else []
    while name not in group.attrs and f"{name}{len(parts)}" in group.attrs:
        parts.append(group.attrs[f"{name}{len(parts)}"])
    if not parts:
        return None
    return [text.decode() if isinstance(text, bytes) else str(text) for part in parts for text in part]
