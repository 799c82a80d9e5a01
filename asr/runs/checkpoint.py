"""Store a run's whole state in one file, which is written completely or not at all.

checkpoints/epoch-0012.npz              after an epoch
checkpoints/epoch-0013-batch-00345.npz  within one

Each is an archive of NumPy arrays, each with a checksum:

    model/PATH        weights and batch statistics, by the path of the variable
    ema/PATH          their moving average, if one is kept
    seed/NNNN         states of the random generators of dropout and masks
    optimizer/NNNN    moments, step and loss scale
    about             the run's progress and the names of the arrays, as JSON
"""

from __future__ import annotations

import errno
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from asr.base.errors import UserError
from asr.base.system.files import whole_file
from asr.runs.progress import Progress

Arrays = dict[str, npt.NDArray[Any]]


class DamagedCheckpointError(UserError):
    """Raised for a file whose bytes have changed, or of which a part is missing."""


@dataclass(frozen=True)
class Checkpoint:
    """The contents of a checkpoint file.

    Attributes:
        path: path of the file.
        arrays: arrays by name, see the module's docstring.
        progress: progress of the run.
    """

    path: Path
    arrays: Arrays
    progress: Progress

    def part(self, name: str) -> Arrays:
        """Return the arrays of "model", "ema", "seed" or "optimizer", without that prefix in their names."""
        prefix = f"{name}/"
        return {
            key.removeprefix(prefix): value for key, value in self.arrays.items() if key.startswith(prefix)
        }

    @property
    def decoding_weights(self) -> Arrays:
        """Return the weights to decode with by variable path: the moving average if there is one."""
        return self.part("ema") or self.part("model")


def state_of(model: Any, optimizer: Any, average: Sequence[Any] | None = None) -> Arrays:
    """Copy everything that a training step changes.

    Args:
        model: a built model.
        optimizer: a built optimizer.
        average: moving averages of `model.weights`, in their order; None if none is kept.
    """
    arrays = {f"model/{variable.path}": _copy(variable) for variable in model.weights}
    assert len(arrays) == len(model.weights), "two variables have the same path"
    if average is not None:
        arrays |= {f"ema/{v.path}": _copy(a) for v, a in zip(model.weights, average, strict=True)}
    arrays |= {f"seed/{index:04d}": _copy(v) for index, v in enumerate(seeds_of(model))}
    return arrays | {f"optimizer/{index:04d}": _copy(v) for index, v in enumerate(optimizer.variables)}


def restore_state(
    checkpoint: Checkpoint, model: Any, optimizer: Any, average: Sequence[Any] | None = None
) -> None:
    """Restore everything that `state_of` copied.

    Raises:
        UserError: the checkpoint is of another model or optimizer.
    """
    weights = model.weights
    paths = [weight.path for weight in weights]
    _assign(checkpoint, "model", paths, weights)
    if average is not None:
        _assign(checkpoint, "ema", paths, average)
    for part, variables in (("seed", seeds_of(model)), ("optimizer", optimizer.variables)):
        _assign(checkpoint, part, [f"{index:04d}" for index in range(len(variables))], variables)


def load_decoding_weights(path: Path, model: Any) -> None:
    """Load the weights to decode with from a checkpoint into a model.

    Raises:
        UserError: the file is missing or damaged, or belongs to another model.
    """
    checkpoint = read_checkpoint(path, ("model", "ema"))
    part = "ema" if checkpoint.part("ema") else "model"
    weights = model.weights
    _assign(checkpoint, part, [weight.path for weight in weights], weights)


def write_checkpoint(path: Path, arrays: Mapping[str, npt.NDArray[Any]], progress: Progress) -> None:
    """Write what `state_of` copied, completely or not at all.

    Raises:
        UserError: the disk is full or the folder cannot be written; an existing file remains.
    """
    about = {"progress": progress.to_json(), "arrays": list(arrays)}
    encoded = np.frombuffer(json.dumps(about).encode(), np.uint8)
    with whole_file(path, "checkpoint") as file:
        np.savez(file, about=encoded, **arrays)  # type: ignore[arg-type]  # its stub mistakes the names for options


def write_weights(path: Path, weights: Mapping[str, npt.NDArray[Any]], progress: Progress) -> None:
    """Write only the weights of a model, to decode with.

    Args:
        path: of the file.
        weights: weights by the paths of variables.
        progress: progress of the run that they are from.

    Raises:
        UserError: the disk is full or the folder cannot be written.
    """
    write_checkpoint(path, {f"model/{name}": value for name, value in weights.items()}, progress)


def read_checkpoint(path: Path, parts: Sequence[str] = ("model", "ema", "seed", "optimizer")) -> Checkpoint:
    """Read and check a checkpoint.

    Args:
        path: of the file.
        parts: groups of arrays to read.

    Raises:
        DamagedCheckpointError: the file's bytes have changed, or a part is missing.
        UserError: there is no such file, or it cannot be read.
    """
    try:
        with np.load(path) as stored:
            about = json.loads(stored["about"].tobytes())
            names = [name for name in about["arrays"] if name.split("/")[0] in parts]
            arrays = {name: _widened(stored[name]) for name in names}
            progress = _progress_of(path, about["progress"])
    except UserError:
        raise
    except FileNotFoundError:
        raise UserError(
            f"{path}: no checkpoint; train this run first, or name the run directory that holds one"
        ) from None
    except MemoryError:
        raise UserError(f"{path}: cannot read this checkpoint: out of memory") from None
    except Exception as error:  # NumPy, zipfile and json raise many kinds of errors for damaged files
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
            raise UserError(
                f"{path}: cannot read this checkpoint ({error.strerror}); correct that and try again"
            ) from None
        raise DamagedCheckpointError(f"{path}: damaged checkpoint ({error})") from None
    return Checkpoint(path, arrays, progress)


def seeds_of(model: Any) -> list[Any]:
    """Return the states of a model's random generators: its variables that are not weights."""
    weights = {id(weight) for weight in model.weights}
    return [variable for variable in model.variables if id(variable) not in weights]


def _progress_of(path: Path, record: Any) -> Progress:
    try:
        return Progress.from_json(record)
    except TypeError as error:  # the file is intact
        raise UserError(
            f"{path}: written by another version of Polyphone ({error}); resume with that version, or start "
            f"a new run from these weights by train.init_from={path.parent.parent}"
        ) from None


def _widened(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the weights of a smaller model file (`--quantize float16`) as those of a run are."""
    return array.astype(np.float32) if array.dtype == np.float16 else array


def _copy(variable: Any) -> npt.NDArray[Any]:
    array = np.asarray(variable)
    return array if array.flags.owndata else array.copy()  # the array may share the variable's memory


def _assign(checkpoint: Checkpoint, part: str, names: Sequence[str], variables: Sequence[Any]) -> None:
    """Assign the arrays of these names to variables, if all fit."""
    stored = checkpoint.part(part)
    changed = "the model's configuration has changed since it was written"
    if len(stored) != len(variables):
        raise UserError(
            f"{checkpoint.path}: holds {len(stored)} {part} variables, expected {len(variables)}; {changed}"
        )
    for name, variable in zip(names, variables, strict=True):
        if name not in stored:
            raise UserError(f"{checkpoint.path}: holds no {part}/{name}; {changed}")
        if stored[name].shape != tuple(variable.shape):
            raise UserError(
                f"{checkpoint.path}: {part}/{name} has shape {stored[name].shape}, "
                f"expected {tuple(variable.shape)}; {changed}"
            )
    for name, variable in zip(names, variables, strict=True):
        variable.assign(stored[name])
