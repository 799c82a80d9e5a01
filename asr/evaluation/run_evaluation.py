"""Evaluates a run's chosen epoch on a manifest in one call: `asr evaluate` as a function.

from asr import evaluate

evaluated = evaluate("runs/demo", "data/mandarin_demo/test.jsonl")
for score in evaluated.scores:
    print(score.name, score.total.rate, score.interval)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from asr.base.system.storage.address import path_of
from asr.base.work import OnProgress, ignore_progress
from asr.evaluation.comparison import hypotheses_for
from asr.evaluation.labels.label_review import LabelReview, review_labels
from asr.evaluation.record_files import EarlierEvaluation
from asr.evaluation.scores import EvaluationRecord, Score, scores_of
from asr.model.devices import ONE_DEVICE, Devices, ModelDevices
from asr.runs.run import Run
from asr.transcription.decoder_choice import DecoderChoice

if TYPE_CHECKING:
    from asr.base.system.interrupt import StopRequest
    from asr.evaluation.evaluator import Evaluation
    from asr.transcription.recognizer import Recognizer
    from data_pipeline.batches.dataset import Dataset


@dataclass(frozen=True)
class EvaluatedRun:
    """The evaluation of a run and what follows from it.

    Attributes:
        run: the evaluated run.
        evaluation: hypotheses and losses of the set.
        record: the evaluation as it is saved, with the run, the manifest and the decoder.
        scores: error rates with their intervals.
        review: labels that are probably wrong, or why the model may not doubt any.
        num_left_out: recordings of the set that could not be read.
    """

    run: Run
    evaluation: Evaluation
    record: EvaluationRecord
    scores: Sequence[Score]
    review: LabelReview
    num_left_out: int = 0


def evaluate(
    run: str | Path,
    manifest: str | Path,
    *,
    choice: DecoderChoice | None = None,
    devices: Devices = ONE_DEVICE,
    compared_with: EarlierEvaluation | None = None,
    on_progress: OnProgress = ignore_progress,
) -> EvaluatedRun:
    """Evaluate the chosen epoch of a run on a manifest.

    Recordings that cannot be read are left out, logged, and counted.

    Args:
        run: directory of the run.
        manifest: JSON Lines, such as data/mandarin_demo/test.jsonl.
        choice: the decoder; None for the one that `asr tune-decoder` saved, else greedy decoding.
        devices: on which the model runs.
        compared_with: an earlier evaluation, which must be of the same utterances.
        on_progress: receives the progress of reading a language model and of checking the recordings.

    Raises:
        UserError: there is no trained run, no recording of the manifest can be read, a device does not exist,
            or the earlier evaluation is of other utterances.
    """
    from asr.evaluation.data import evaluation_data
    from asr.evaluation.evaluator import Evaluator
    from asr.transcription.recognizer import Recognizer

    opened, manifest = Run.open(run), path_of(manifest)
    choice = choice or DecoderChoice(opened.decoder_settings())
    recognizer = Recognizer.of_run(opened, choice, devices, on_progress)
    data, num_left_out = evaluation_data(manifest, recognizer.vocabulary, on_progress)
    if compared_with is not None:  # fail before recognition, which may take an hour
        token = recognizer.vocabulary.token_name
        hypotheses_for(data.utterances, compared_with.record, str(compared_with.path), token)
    evaluation = Evaluator(recognizer.runner, recognizer.vocabulary, recognizer.decoder).evaluate(data)
    return _evaluated_run(recognizer, opened, manifest, evaluation, choice, num_left_out)


def evaluate_on_devices(
    devices: ModelDevices,
    run: Run,
    data: Dataset,
    manifest: Path,
    stop: StopRequest | None = None,
) -> EvaluatedRun:
    """Evaluate the chosen epoch of a run on devices that are already started, with the run's own decoder.

    Args:
        devices: on which the model runs.
        run: with a checkpoint.
        data: the set.
        manifest: of the set.
        stop: ends the evaluation after a batch.

    Raises:
        Interrupted: a signal was received.
    """
    from asr.evaluation.evaluator import Evaluator
    from asr.transcription.recognizer import Recognizer

    choice = DecoderChoice(run.decoder_settings())
    chosen = Recognizer.trained(run, choice, devices)
    evaluation = Evaluator(chosen.runner, chosen.vocabulary, chosen.decoder).evaluate(data, stop)
    return _evaluated_run(chosen, run, manifest, evaluation, choice)


def _evaluated_run(
    recognizer: Recognizer,
    run: Run,
    manifest: Path,
    evaluation: Evaluation,
    choice: DecoderChoice,
    num_left_out: int = 0,
) -> EvaluatedRun:
    """Complete an evaluation with its record, its error rates and the labels to review."""
    checkpoint = recognizer.origin.files[0].name if recognizer.origin else ""
    record = EvaluationRecord.of(
        evaluation, run.directory.resolve().name, manifest, choice.as_record(), checkpoint
    )
    scores = scores_of(record.utterances, record.hypotheses, record.token)
    return EvaluatedRun(run, evaluation, record, scores, review_labels(evaluation), num_left_out)
