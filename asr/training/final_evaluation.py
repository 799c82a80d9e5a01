"""Evaluate the chosen epoch of a run on its test sets, decoded as the section [decode] asks for.

runs/aishell1/lm/            a language model of the training text
runs/aishell1/decoder.toml   its weight, tuned on dev
runs/aishell1/report.html    about the test set, or about dev where there is none
runs/librispeech/report-librispeech-test_other-beam16-lm.html    about a further test set
"""

from __future__ import annotations

import contextlib
import logging
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from asr.base.config import Config
from asr.base.decoder_settings import DecoderSettings
from asr.base.errors import UserError
from asr.base.system.shards import has_manifest, single_file
from asr.base.system.storage.address import path_of, refuse_to_read_address
from asr.base.text.hanzi_text import is_hanzi
from asr.base.text.pieces import UNITS_MODEL
from asr.base.vocabulary import Vocabulary
from asr.base.work import OnProgress, Work
from asr.language.ngram.folder import fusion_model
from asr.runs.run import Run
from asr.transcription.decoder import SEARCH_BEAM
from asr.transcription.decoder_choice import DecoderChoice

if TYPE_CHECKING:
    from asr.evaluation.run_evaluation import EvaluatedRun
    from asr.model.devices import ModelDevices
    from asr.report.files import ReportFiles
    from asr.training.trainer import Trainer
    from data_pipeline.batches.dataset import Dataset

TRAIN = "train"  # value of decode.language_model that asks for a model of the training text
LM = "lm"  # its folder in a run

logger = logging.getLogger(__name__)


class EvaluatedSet(NamedTuple):
    """The evaluation of a run on a set, and the files of its report."""

    evaluation: EvaluatedRun
    files: ReportFiles


def refuse_final_files(config: Config) -> None:
    """Raise a UserError for files of the final evaluation that are wrong, before a corpus is prepared."""
    data, model = config.data, config.decode.language_model
    refuse_to_read_address(model, "decode.language_model")
    if model not in ("", TRAIN) and not Path(model).exists():
        raise UserError(
            f"decode.language_model: expected {TRAIN}, a folder of `asr lm train` or a model's file, "
            f"received {model}, which does not exist"
        )
    found: dict[tuple[str, str], Path] = {}
    for manifest in data.more_test_manifests:
        path = manifest.resolve()
        will_be_made = data.corpus and path.is_relative_to(Path(data.prepared_dir).resolve())
        if not has_manifest(manifest) and not will_be_made:
            raise UserError(f"data.more_tests: expected manifests, received {manifest}, which does not exist")
        other = found.setdefault((path.parent.name, single_file(manifest).stem), manifest)
        if other is not manifest:
            raise UserError(
                f"data.more_tests: the reports of {other} and {manifest} would be one file; expected "
                "manifests that differ in their names or their folders' names; rename one, or leave one out"
            )


def refuse_language_model(config: Config, vocabulary: Vocabulary) -> None:
    """Raise a UserError where a run could not be decoded with its language model, before it is trained."""
    wanted = config.decode.language_model
    if wanted and wanted != TRAIN:
        fusion_model(Path(wanted), vocabulary)
    is_chinese = vocabulary.is_mandarin or any(map(is_hanzi, vocabulary.tokens))
    if wanted == TRAIN and not (vocabulary.pieces or is_chinese):
        raise UserError(
            f"decode.language_model: expected Chinese text or pieces of words for a model of the training "
            f"text, received {vocabulary.unit} such as {', '.join(vocabulary.tokens[1:4])}; set "
            "data.units=bpe:500, or leave decode.language_model empty"
        )


def train_run_language_model(
    run: Run, config: Config, vocabulary: Vocabulary, on_progress: OnProgress
) -> None:
    """Train the language model that a run asks for on its training text, unless the run has one.

    This comes before the run is created: one that cannot have its model could be neither resumed nor started
    again.

    Raises:
        UserError: the text makes no such model; no new directory is left behind.
    """
    folder = run.directory / LM
    if config.decode.language_model != TRAIN or (run.exists and folder.exists()):
        return
    is_new = not folder.exists()
    try:
        _train_language_model(folder, config, vocabulary, on_progress)
        fusion_model(folder, vocabulary)
    except BaseException:
        if is_new:
            shutil.rmtree(folder, ignore_errors=True)
            with contextlib.suppress(OSError):  # it has other files, or was not made
                run.directory.rmdir()
        raise


def _train_language_model(
    folder: Path, config: Config, vocabulary: Vocabulary, on_progress: OnProgress
) -> None:
    from asr.training.language_model import NGramSettings, train_language_models

    # words convert syllables to hanzi
    units = ["syllables", "words"] if vocabulary.unit == "syllables" else [vocabulary.unit]
    with tempfile.TemporaryDirectory() as temporary:
        pieces = None
        if vocabulary.pieces is not None:
            pieces = Path(temporary) / UNITS_MODEL
            vocabulary.pieces.save(pieces)
        trained = train_language_models(
            [config.data.train],
            folder,
            units,
            pieces=pieces,
            settings=NGramSettings(config.decode.order),
            on_progress=on_progress,
        )
    logger.info("%s: a language model of the %s training sentences", folder, f"{trained.num_sentences:,}")


def evaluate_test_sets(
    trainer: Trainer, devices: ModelDevices, test: Dataset, more: Sequence[Dataset], on_progress: OnProgress
) -> list[EvaluatedSet]:
    """Evaluate the chosen epoch of a run that is trained on each of its test sets, and write the reports.

    Args:
        trainer: of the run.
        devices: on which the model runs.
        test: of the report.
        more: of `data.more_tests`.
        on_progress: receives the progress of tuning the decoder.

    Raises:
        Interrupted: a signal was received.
    """
    from asr.evaluation.record_files import report_path
    from asr.evaluation.run_evaluation import evaluate_on_devices
    from asr.report.files import write_report_files

    run, data = trainer.run, trainer.config.data
    if trainer.config.decode.language_model:
        _tune(trainer, devices, on_progress)
    manifests = [path_of(data.test or data.dev), *data.more_test_manifests]
    tested: list[EvaluatedSet] = []
    for manifest, dataset in zip(manifests, [test, *more], strict=True):
        evaluated = evaluate_on_devices(devices, run, dataset, manifest, trainer.stop)
        trainer.stop.raise_if_requested()
        page = report_path(run, manifest, evaluated.record.decoder) if tested else run.report_path
        tested.append(EvaluatedSet(evaluated, write_report_files(evaluated, page)))
    return tested


def _tune(trainer: Trainer, devices: ModelDevices, on_progress: OnProgress) -> None:
    """Write the run's decoder with its language model, whose weight is tuned on dev."""
    from asr.evaluation.decoder_tuning import tune_decoder

    def progress(work: Work) -> None:
        trainer.stop.raise_if_requested()
        on_progress(work)

    run, wanted = trainer.run, trainer.config.decode.language_model
    model = str(run.directory / LM) if wanted == TRAIN else wanted
    choice = DecoderChoice(DecoderSettings(beam=SEARCH_BEAM, language_model=model))
    tuned = tune_decoder(run.directory, trainer.config.data.dev, choice, progress, devices)
    best, greedy = tuned.best.edits.rate, tuned.greedy.edits.rate
    rates = f"dev {tuned.unit} error rate {best:.2%}, greedy {greedy:.2%}"
    if tuned.settings is None:
        run.decoder_path.unlink(missing_ok=True)  # that of an earlier session
        logger.warning("%s: worse hanzi than greedy decoding, which is kept (%s)", model, rates)
    else:
        run.save_decoder_settings(tuned.settings)
        logger.info("%s: lm_weight %g, %s", tuned.path, tuned.best.lm_weight, rates)
