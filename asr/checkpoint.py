"""A run's whole state in one file, written so that it is there whole or not at all."""

from __future__ import annotations

import dataclasses
import json
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from asr.files import whole_file
from asr.types import UserError

LAST, BEST = "last.npz", "best.npz"
# what NumPy and zipfile raise on files whose bytes have changed
DAMAGE = (
    *(OSError, ValueError, EOFError, KeyError, TypeError, AttributeError),
    *(RuntimeError, NotImplementedError, zipfile.BadZipFile, zlib.error),
)


@dataclass(frozen=True)
class Progress:
    """How far a run has come.

    Attributes:
        epochs_done: whole epochs.
        best_dev_error: the lowest dev error rate so far; infinite before the first.
        best_epoch: the epoch whose weights are kept as the best, counted from 1.
        train_s: seconds of training so far, over all its sessions.
        data_checksum: of the training set; another set has other batches.
    """

    epochs_done: int = 0
    best_dev_error: float = float("inf")
    best_epoch: int = 0
    train_s: float = 0.0
    data_checksum: int = 0


def save_checkpoint(path: Path, model: Any, optimizer: Any, progress: Progress) -> None:
    """Write model, optimiser, random state and progress.

    Raises:
        UserError: the disk is full or the folder cannot be written; what was there stays.
    """
    arrays = {f"model/{key}": value for key, value in _arrays(model.variables).items()}
    arrays |= {f"optimizer/{key}": value for key, value in _arrays(optimizer.variables).items()}
    arrays["progress"] = np.array(json.dumps(dataclasses.asdict(progress)))
    with whole_file(path, "checkpoint") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]  # its stub takes the names for flags


def restore_checkpoint(path: Path, model: Any, optimizer: Any = None) -> Progress:
    """Read back what `save_checkpoint` wrote; without an optimiser, the model alone.

    Raises:
        UserError: the file is missing or damaged, or belongs to another model.
    """
    try:
        with np.load(path) as arrays:
            _assign(path, "model", model.variables, arrays)
            if optimizer is not None:
                _assign(path, "optimizer", optimizer.variables, arrays)
            return Progress(**json.loads(str(arrays["progress"])))
    except FileNotFoundError:
        raise UserError(
            f"{path}: no checkpoint; train this run first, or name the run directory that holds one"
        ) from None
    except DAMAGE as error:
        raise UserError(
            f"{path}: damaged checkpoint ({error}); use the other file in {path.parent}"
        ) from None


def _arrays(variables: list[Any]) -> dict[str, npt.NDArray[Any]]:
    return {f"{index:04d}:{v.path}": np.asarray(v) for index, v in enumerate(variables)}


def _assign(path: Path, part: str, variables: list[Any], arrays: Any) -> None:
    stored = [key for key in arrays.files if key.startswith(f"{part}/")]
    if len(stored) != len(variables):
        raise UserError(
            f"{path}: holds {len(stored)} {part} variables, expected {len(variables)}; "
            "the model's configuration has changed since"
        )
    for key, variable in zip(sorted(stored), variables, strict=True):
        value = arrays[key]
        if value.shape != tuple(variable.shape):
            raise UserError(
                f"{path}: {key} has shape {value.shape}, expected {tuple(variable.shape)}; "
                "the model's configuration has changed since"
            )
        variable.assign(value)
