"""`asr tune-decoder`: find the weights of a run's decoder on a dev set."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from asr.base.types import EditCounts, UserError
from asr.cli.options.decoder import add_hanzi_argument, add_search_arguments, decoder_of
from asr.model.devices import start_devices

if TYPE_CHECKING:
    from asr.evaluation.decoder_tuning import Trial
    from data_pipeline.dataset import Dataset

LONGEST_SET_S = 3600.0  # an hour tells the weights well enough, and its log probabilities fit into memory
NUM_SHOWN = 5


def add_tune_decoder_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    parser.add_argument("run", type=Path, help="a run directory, such as runs/demo")
    parser.add_argument(
        "manifest", type=Path, help="a dev set, such as data/mandarin_demo/dev.jsonl; not the test set"
    )
    add_search_arguments(parser)
    add_hanzi_argument(parser)


def tune_decoder_command(arguments: argparse.Namespace) -> int:
    """Write the best settings into the run; returns the exit status."""
    from asr.runs.run import Run

    run = Run.open(arguments.run)
    choice = decoder_of(arguments, run)
    if not choice.settings.language_model:
        raise UserError("--lm: there is nothing to weigh without a language model; `asr lm train` makes one")

    start_devices()
    from tqdm import tqdm

    from asr.base.decoder_settings import DecoderSettings, save_settings
    from asr.cli.commands.evaluate import evaluation_data
    from asr.evaluation.decoder_tuning import DecoderTuner, greedy_edits, listen
    from asr.language.ngram.folder import fusion_model
    from asr.recognition.recognizer import Recognizer

    # the settings may stand in the run's folder, but the paths in them are found from anywhere
    lm_path = Path(choice.settings.language_model).resolve()
    settings = dataclasses.replace(choice.settings, language_model=str(lm_path))
    language_model = fusion_model(lm_path, run.vocabulary())
    recognizer = Recognizer.load(arguments.run, settings=DecoderSettings(), write_hanzi=False)
    data = _some(evaluation_data(arguments.manifest, recognizer.vocabulary)[0])
    with tqdm(total=len(data.utterances), desc="listening", unit=" utterances") as bar:
        heard = []
        for batch in listen(recognizer.listener, data):
            heard.append(batch)
            bar.update(len(batch.references))
    choice = dataclasses.replace(choice, settings=settings)
    converter = choice.converter() if recognizer.vocabulary.is_mandarin else None
    with tqdm(desc="decoding", unit=" trials") as bar:
        tuner = DecoderTuner(
            heard,
            recognizer.vocabulary,
            settings,
            language_model,
            choice.hot_words,
            converter,
            lambda _: bar.update(),
        )
        best = tuner.tune()
    _tell(greedy_edits(heard, recognizer.vocabulary), tuner.best, list(tuner.trials.values()))
    save_settings(run.decoder_path, best)
    print(f"\n{run.decoder_path}: written; evaluate and transcribe decode by it from now on")
    return 0


def _some(data: Dataset) -> Dataset:
    """A set, or as much of it as is listened to, evenly drawn."""
    from data_pipeline.dataset import Dataset

    total_s = sum(utterance.duration_s for utterance in data.utterances)
    if total_s <= LONGEST_SET_S:
        return data
    every = int(-(-total_s // LONGEST_SET_S))
    some = data.utterances[::every]
    print(f"one of {every} utterances of the set is used, {len(some):,} in all")
    return Dataset(some, data.vocabulary, data.batch_s)


def _tell(greedy: EditCounts, best: Trial, trials: Sequence[Trial]) -> None:
    from asr.base.columns import in_columns

    rows = [("", "lm_weight", "token_bonus", "hanzi_weight", "error rate", "errors")]
    rows.append(("greedy", "", "", "", f"{greedy.rate:.2%}", f"{greedy.errors:,}"))
    others = sorted(trials, key=lambda trial: (trial is not best, trial.edits.errors))
    for trial in others[:NUM_SHOWN]:
        name = "best" if trial is best else ""
        rows.append(
            (
                name,
                f"{trial.lm_weight:g}",
                f"{trial.token_bonus:g}",
                f"{trial.hanzi_weight:g}",
                f"{trial.edits.rate:.2%}",
                f"{trial.edits.errors:,}",
            )
        )
    print()
    for line in in_columns(rows):
        print(line)
    if best.edits.errors >= greedy.errors:
        print(
            "\nThe language model helps no further here: is it trained on text like what is said in the set?"
        )
