"""Record where the weights of a run come from that was not trained in its directory, and write such a run.

runs/demo-average5/average.json   an average of the epochs of another run
runs/asrt/import.json             weights of another program
general/model.json                weights of a model file

Such a run decodes like any other, and cannot be resumed: it has no optimizer.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

import numpy.typing as npt

from asr.base.config import Config
from asr.base.errors import UserError
from asr.base.model_files.model_file import ABOUT
from asr.base.system.files import whole_file, whole_folder
from asr.base.vocabulary import Vocabulary
from asr.runs.checkpoint import write_weights
from asr.runs.progress import Progress
from asr.runs.run import Run


@dataclass(frozen=True)
class AverageOrigin:
    """What the average in a run directory is made of.

    Attributes:
        run: directory of the original run.
        epochs: the averaged epochs.
        dev_error: dev error rate of the average; None if it was not evaluated.
    """

    FILE: ClassVar = "average.json"
    STATE: ClassVar = "average"
    REMEDY: ClassVar = "average again"

    run: str
    epochs: tuple[int, ...]
    dev_error: float | None = None

    @classmethod
    def from_json(cls, record: Any) -> AverageOrigin:
        """Return the origin of a parsed file.

        Raises:
            ValueError, TypeError, KeyError: the file was not written by `write_origin`.
        """
        dev_error = record["dev_error"]
        return cls(
            run=str(record["run"]),
            epochs=tuple(int(epoch) for epoch in record["epochs"]),
            dev_error=None if dev_error is None else float(dev_error),
        )

    def summary(self) -> str:
        """Return what the run is, such as "average of 2"."""
        return f"average of {len(self.epochs)}"

    def describe(self) -> str:
        """Return a description such as "of epochs 3, 5 of runs/demo"."""
        return f"of epochs {', '.join(map(str, sorted(self.epochs)))} of {self.run}"


@dataclass(frozen=True)
class ImportOrigin:
    """Which file of another program the weights in a run directory are from.

    Attributes:
        program: its name, such as "ASRT".
        network: that program's name of the network, such as "251bn".
        weights: path of the file.
    """

    FILE: ClassVar = "import.json"
    STATE: ClassVar = "imported"
    REMEDY: ClassVar = "import again"

    program: str
    network: str
    weights: str
    dev_error: ClassVar = None

    @classmethod
    def from_json(cls, record: Any) -> ImportOrigin:
        """Return the origin of a parsed file.

        Raises:
            TypeError, KeyError: the file was not written by `write_origin`.
        """
        return cls(str(record["program"]), str(record["network"]), str(record["weights"]))

    def summary(self) -> str:
        """Return what the run is."""
        return "imported"

    def describe(self) -> str:
        """Return a description such as "from the 251bn of ASRT in a.model.h5"."""
        return f"from the {self.network} of {self.program} in {self.weights}"


@dataclass(frozen=True)
class ModelFileOrigin:
    """Which run the weights of a model file are from.

    Attributes:
        run: its name.
        dev_error: its dev error rate; None if it is not known.
    """

    FILE: ClassVar = ABOUT
    STATE: ClassVar = "model file"
    REMEDY: ClassVar = "unpack it again"

    run: str
    dev_error: float | None = None

    @classmethod
    def from_json(cls, record: Any) -> ModelFileOrigin:
        """Return the origin of a parsed file.

        Raises:
            ValueError, TypeError, KeyError: the file was not written by `asr export`.
        """
        dev_error = record["dev_error_rate"]
        return cls(str(record["run"]), None if dev_error is None else float(dev_error))

    def summary(self) -> str:
        """Return what the run is."""
        return "model file"

    def describe(self) -> str:
        """Return a description such as "of the run demo"."""
        return f"of the run {self.run}"


Origin: TypeAlias = AverageOrigin | ImportOrigin | ModelFileOrigin
ORIGINS: tuple[type[AverageOrigin] | type[ImportOrigin] | type[ModelFileOrigin], ...] = (
    *(AverageOrigin, ImportOrigin),
    ModelFileOrigin,
)


def write_run(
    target: Path,
    config: Config,
    vocabulary: Vocabulary,
    weights: Mapping[str, npt.NDArray[Any]],
    origin: Origin,
    progress: Progress | None = None,
) -> Run:
    """Write a run directory with weights to decode with, completely or not at all.

    Args:
        target: the new directory.
        config: configuration of the run.
        vocabulary: vocabulary of the outputs.
        weights: weights by the paths of variables.
        origin: where the weights are from.
        progress: progress of the run that they are from; None for none.

    Raises:
        UserError: the target exists, or cannot be written.
    """
    progress = progress or Progress()
    with whole_folder(target, "run directory") as folder:
        made = Run.create(folder, config, vocabulary)
        write_weights(made.checkpoint_at(progress), weights, progress)
        write_origin(made.directory, origin)
    return Run(target)


def write_origin(directory: Path, origin: Origin) -> None:
    """Write where the weights of a run are from."""
    with whole_file(directory / origin.FILE, "origin of the weights") as file:
        file.write(json.dumps(dataclasses.asdict(origin), indent=2).encode() + b"\n")


def read_origin(directory: Path) -> Origin | None:
    """Read where the weights of a run are from; return None for a run that was trained in its directory.

    Raises:
        UserError: the file cannot be read.
    """
    for kind in ORIGINS:
        path = directory / kind.FILE
        try:
            return kind.from_json(json.loads(path.read_bytes()))
        except FileNotFoundError:
            continue
        except OSError as error:
            raise UserError(f"{path}: cannot read this ({error.strerror}); correct its permissions") from None
        except (ValueError, TypeError, KeyError, RecursionError):
            raise UserError(f"{path}: damaged; remove {directory}, and {kind.REMEDY}") from None
    return None
