"""Place a model on an engine's devices: cut it into stages where an engine does that, and describe them.

placed = place_model(engine, model, data.utterances, config.train.batch_clips_s, run)
for stage in stages_of(placed, optimizer, num_rows):
    print(stage.devices, stage.layers, stage.weight_bytes)
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from asr.base.errors import UserError
from asr.base.types import Utterance
from asr.model.acoustic_model import AcousticModel
from asr.model.devices import STAGES, device_errors_as_user_errors
from asr.runs.run import Run
from asr.runs.stage_record import StageRecord, read_stages
from asr.training.optimization.out_of_memory import is_out_of_memory
from data_pipeline.manifests.columns import added_in_order
from data_pipeline.manifests.utterances import durations_of
from multigpu.engine import Engine


def place_model(
    engine: Engine, model: AcousticModel, utterances: Sequence[Utterance], batch_s: float, run: Run
) -> Any:
    """Move a model's weights to the devices of an engine, and return what is trained in its place.

    A run that was trained in as many stages before is cut in the same places again.

    Args:
        engine: on which the model was made.
        model: with its weights.
        utterances: of the training set; layers are measured with noise of their mean length.
        batch_s: seconds of clips in a batch.
        run: whose directory may have a record of stages.

    Raises:
        UserError: the model has too few layers, the record of the stages is damaged, or a device is out of
            memory with one layer and one utterance.
    """
    if engine.name != STAGES:
        return engine.place(model)
    num_rows, duration_s = typical_batch(utterances, batch_s)
    stages = _known_stages(engine, model, run)
    with device_errors_as_user_errors(STAGES):
        # in its first stage, a device holds about half of a batch
        return _place_measured(engine, model, max(1, num_rows // 2), duration_s, stages)


def stages_of(placed: Any, optimizer: Any, num_rows: int) -> list[StageRecord]:
    """Return what each device holds of a placed model; empty if it is not in stages.

    Args:
        placed: what `place_model` returned.
        optimizer: built for the model.
        num_rows: number of utterances in a batch.
    """
    from multigpu import StagedModel

    if not isinstance(placed, StagedModel):
        return []
    return [StageRecord(**stage._asdict()) for stage in placed.placement(optimizer, num_rows)]


def typical_batch(utterances: Sequence[Utterance], batch_s: float) -> tuple[int, float]:
    """Return the number of utterances in a typical batch, at least 1, and their length in seconds."""
    mean_s = added_in_order(durations_of(utterances)) / len(utterances)
    return max(1, int(batch_s / mean_s)), mean_s


def _known_stages(engine: Engine, model: AcousticModel, run: Run) -> list[Sequence[str]] | None:
    """Return the layers of each stage as they were in the run's last session, if they fit this one."""
    known = [stage.layers for stage in read_stages(run.directory)]
    names = [layer.name for layer in model.stages()]
    fits = len(known) == engine.num_stages and list(itertools.chain(*known)) == names
    return known if fits else None


def _place_measured(
    engine: Engine,
    model: AcousticModel,
    num_rows: int,
    duration_s: float,
    stages: Sequence[Sequence[str]] | None,
) -> Any:
    """Place a model whose layers are measured with a number of rows, fewer where a device has no memory."""
    try:
        return engine.place(model, model.sample(num_rows, duration_s), stages)
    except Exception as error:
        if not is_out_of_memory(error):
            raise
    if num_rows == 1:
        raise UserError(
            f"{engine.devices[0]}: out of memory with one layer and an utterance of {duration_s:.1f} s, the "
            "mean of the training set; split long recordings, or choose a smaller model.size"
        )
    return _place_measured(engine, model, num_rows // 2, duration_s, stages)
