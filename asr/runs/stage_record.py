"""Record what each device held of a model in the run's last session in stages: `runs/demo/stages.json`."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from asr.base.errors import UserError
from asr.base.system.files import whole_file
from asr.base.text.wording import file_size

FILE = "stages.json"


@dataclass(frozen=True)
class StageRecord:
    """A stage of a model: some of its layers, on a device of their own.

    Attributes:
        devices: names; several where the stage is replicated, each with its share of every batch.
        layers: names, in the order of their calls.
        num_parameters: number of the weights' elements.
        weight_bytes: of all variables of the layers.
        optimizer_bytes: of the optimiser's variables.
        activation_bytes: estimate of the most that each device holds for the backward pass of a typical
            batch; None if it was not measured.
        time_share: share of the time that both passes take through all stages; None if it was not measured.
    """

    devices: tuple[str, ...]
    layers: Sequence[str]
    num_parameters: int
    weight_bytes: int
    optimizer_bytes: int
    activation_bytes: int | None
    time_share: float | None


def stage_rows(stages: Sequence[StageRecord]) -> list[list[str]]:
    """Return the rows of a table of stages, with its head."""
    head = ["stage", "device", "layers", "parameters", "weights", "optimizer", "activations", "time"]
    return [head, *(_row(number, stage) for number, stage in enumerate(stages))]


def write_stages(directory: Path, stages: Sequence[StageRecord]) -> None:
    """Write the stages into a run's directory.

    Raises:
        UserError: the file cannot be written.
    """
    with whole_file(directory / FILE, "list of stages") as file:
        records = [dataclasses.asdict(stage) for stage in stages]
        file.write((json.dumps(records, indent=2) + "\n").encode())


def read_stages(directory: Path) -> list[StageRecord]:
    """Read the stages of a run's last session in stages; empty if there was none.

    Raises:
        UserError: the file is damaged.
    """
    path = directory / FILE
    if not path.exists():
        return []
    try:
        records = json.loads(path.read_text(encoding="utf-8"))
        return [StageRecord(**{**record, "devices": tuple(record["devices"])}) for record in records]
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise UserError(
            f"{path}: expected the list of stages that training wrote ({error}); remove it, and the layers "
            "are measured again"
        ) from None


def _row(number: int, stage: StageRecord) -> list[str]:
    sizes = (stage.weight_bytes, stage.optimizer_bytes, stage.activation_bytes)
    return [
        str(number),
        ", ".join(stage.devices),
        _layers(stage.layers),
        f"{stage.num_parameters:,}",
        *("-" if size is None else file_size(size) for size in sizes),
        "-" if stage.time_share is None else f"{stage.time_share:.0%}",
    ]


def _layers(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) < 3 else f"{names[0]} to {names[-1]} ({len(names)})"
