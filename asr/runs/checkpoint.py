"""A run's whole state in one file, written so that it is there whole or not at all.

checkpoints/epoch-0012.npz              after an epoch
checkpoints/epoch-0013-batch-00345.npz  within one

Each is an archive of NumPy arrays, every one with its checksum:

    model/PATH        weights and batch statistics, by the path of the variable
    ema/PATH          their moving average, where one is kept
    seed/NNNN         states of the generators that dropout and masks draw from
    optimizer/NNNN    momenta, step and loss scale
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

from asr.base.files import whole_file
from asr.base.types import UserError
from asr.runs.progress import Progress

Arrays = dict[str, npt.NDArray[Any]]


class DamagedCheckpointError(UserError):
    """A file whose bytes have changed, or of which a part is missing."""


@dataclass(frozen=True)
class Checkpoint:
    """What a file holds.

    Attributes:
        path: of the file.
        arrays: by name, see above.
        progress: of the run.
    """

    path: Path
    arrays: Arrays
    progress: Progress

    def part(self, name: str) -> Arrays:
        """The arrays of "model", "ema", "seed" or "optimizer", without that in their names."""
        prefix = f"{name}/"
        return {
            key.removeprefix(prefix): value for key, value in self.arrays.items() if key.startswith(prefix)
        }

    @property
    def decoding_weights(self) -> Arrays:
        """What to decode with, by the paths of variables: the moving average where there is one."""
        return self.part("ema") or self.part("model")


def state_of(model: Any, optimizer: Any, average: Sequence[Any] | None = None) -> Arrays:
    """A copy of all that a step changes.

    Args:
        model: with its weights.
        optimizer: built.
        average: of `model.weights`, in their order; None where none is kept.
    """
    arrays = {f"model/{variable.path}": _copy(variable) for variable in model.weights}
    assert len(arrays) == len(model.weights), "variables of one path"
    if average is not None:
        arrays |= {f"ema/{v.path}": _copy(a) for v, a in zip(model.weights, average, strict=True)}
    arrays |= {f"seed/{index:04d}": _copy(v) for index, v in enumerate(seeds_of(model))}
    return arrays | {f"optimizer/{index:04d}": _copy(v) for index, v in enumerate(optimizer.variables)}


def restore_state(
    checkpoint: Checkpoint, model: Any, optimizer: Any, average: Sequence[Any] | None = None
) -> None:
    """Give everything that `state_of` copied back.

    Raises:
        UserError: the checkpoint is another model's or another optimiser's.
    """
    weights = model.weights
    paths = [weight.path for weight in weights]
    _assign(checkpoint, "model", paths, weights)
    if average is not None:
        _assign(checkpoint, "ema", paths, average)
    for part, variables in (("seed", seeds_of(model)), ("optimizer", optimizer.variables)):
        _assign(checkpoint, part, [f"{index:04d}" for index in range(len(variables))], variables)


def load_decoding_weights(path: Path, model: Any) -> None:
    """Give a model the weights of a checkpoint to decode with.

    Raises:
        UserError: the file is missing or damaged, or belongs to another model.
    """
    checkpoint = read_checkpoint(path, ("model", "ema"))
    part = "ema" if checkpoint.part("ema") else "model"
    weights = model.weights
    _assign(checkpoint, part, [weight.path for weight in weights], weights)


def write_checkpoint(path: Path, arrays: Mapping[str, npt.NDArray[Any]], progress: Progress) -> None:
    """Write what `state_of` copied, whole or not at all.

    Raises:
        UserError: the disk is full or the folder cannot be written; what was there stays.
    """
    about = {"progress": progress.to_json(), "arrays": list(arrays)}
    told = np.frombuffer(json.dumps(about).encode(), np.uint8)
    with whole_file(path, "checkpoint") as file:
        np.savez(file, about=told, **arrays)  # type: ignore[arg-type]  # its stub takes the names for flags


def write_weights(path: Path, weights: Mapping[str, npt.NDArray[Any]], progress: Progress) -> None:
    """Write a model alone, to decode with.

    Args:
        path: of the file.
        weights: by the paths of variables.
        progress: of the run that they are from.

    Raises:
        UserError: the disk is full or the folder cannot be written.
    """
    write_checkpoint(path, {f"model/{name}": value for name, value in weights.items()}, progress)


def read_checkpoint(path: Path, parts: Sequence[str] = ("model", "ema", "seed", "optimizer")) -> Checkpoint:
    """Read and check a file.

    Args:
        path: of the file.
        parts: the arrays to read.

    Raises:
        DamagedCheckpointError: its bytes have changed, or a part is missing.
        UserError: there is none, or it cannot be read.
    """
    try:
        with np.load(path) as stored:
            about = json.loads(stored["about"].tobytes())
            names = [name for name in about["arrays"] if name.split("/")[0] in parts]
            arrays = {name: stored[name] for name in names}
            progress = _progress_of(path, about["progress"])
    except UserError:
        raise
    except FileNotFoundError:
        raise UserError(
            f"{path}: no checkpoint; train this run first, or name the run directory that holds one"
        ) from None
    except MemoryError:
        raise UserError(f"{path}: cannot read this checkpoint, memory does not suffice") from None
    except Exception as error:  # NumPy, zipfile and json raise a dozen kinds where bytes have changed
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
            raise UserError(
                f"{path}: cannot read this checkpoint ({error.strerror}); mend that and try again"
            ) from None
        raise DamagedCheckpointError(f"{path}: damaged checkpoint ({error})") from None
    return Checkpoint(path, arrays, progress)


def seeds_of(model: Any) -> list[Any]:
    """The states of a model's random generators: variables that are no weights."""
    weights = {id(weight) for weight in model.weights}
    return [variable for variable in model.variables if id(variable) not in weights]


def _progress_of(path: Path, record: Any) -> Progress:
    try:
        return Progress.from_json(record)
    except TypeError as error:  # its bytes are right
        raise UserError(
            f"{path}: written by another version of Polyphone ({error}); continue with that one, or begin a "
            f"new run with these weights by train.init_from={path.parent.parent}"
        ) from None


def _copy(variable: Any) -> npt.NDArray[Any]:
    array = np.asarray(variable)
    return array if array.flags.owndata else array.copy()  # it may be the variable's own memory


def _assign(checkpoint: Checkpoint, part: str, names: Sequence[str], variables: Sequence[Any]) -> None:
    """Give variables the arrays of these names, if all fit."""
    stored = checkpoint.part(part)
    changed = "the model's configuration has changed since"
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
