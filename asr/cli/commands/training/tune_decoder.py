"""`asr tune-decoder` finds the best weights of a run's decoder on a dev set."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from asr.cli.options.decoder import add_hanzi_argument, add_search_arguments, decoder_choice
from asr.model.devices import start_devices

if TYPE_CHECKING:
    from asr.evaluation.decoder_tuning import TunedDecoder

NUM_SHOWN = 5


def add_tune_decoder_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("run", type=Path, help="a run directory, such as runs/demo")
    parser.add_argument(
        "manifest", type=Path, help="a dev set, such as data/mandarin_demo/dev.jsonl; not the test set"
    )
    add_search_arguments(parser)
    add_hanzi_argument(parser)


def tune_decoder_command(arguments: argparse.Namespace) -> int:
    """Find the best decoder settings, write them into the run, and return the exit status."""
    from asr.cli.progress_bars import ProgressBars
    from asr.runs.run import Run

    run = Run.open(arguments.run)
    choice = decoder_choice(arguments, run)
    choice.require_language_model()
    start_devices()  # before TensorFlow is imported, to silence its start-up messages
    from asr.evaluation.decoder_tuning import tune_decoder

    with ProgressBars(delay_s=0.0) as bars:
        tuned = tune_decoder(run.directory, arguments.manifest, choice, on_progress=bars)
    _print_trials(tuned)
    print(f"\n{tuned.path}: written; `asr evaluate` and `asr transcribe` use these settings from now on")
    return 0


def _print_trials(tuned: TunedDecoder) -> None:
    from asr.base.text.terminal_table import align_columns

    greedy, best = tuned.greedy, tuned.best
    rows: list[tuple[str, ...]] = [
        ("", "lm_weight", "token_bonus", "hanzi_weight", f"{tuned.token} error rate", "errors")
    ]
    rows.append(("greedy", "", "", "", f"{greedy.rate:.2%}", f"{greedy.errors:,}"))
    others = sorted(tuned.trials, key=lambda trial: (trial is not best, trial.edits.errors))
    for trial in others[:NUM_SHOWN]:
        weights = (trial.lm_weight, trial.token_bonus, trial.hanzi_weight)
        rows.append(
            (
                "best" if trial is best else "",
                *(f"{weight:g}" for weight in weights),
                f"{trial.edits.rate:.2%}",
                f"{trial.edits.errors:,}",
            )
        )
    print()
    for line in align_columns(rows):
        print(line)
    if best.edits.errors >= greedy.errors:
        print("\nThe language model does not reduce the errors here: was it trained on text like this set's?")
