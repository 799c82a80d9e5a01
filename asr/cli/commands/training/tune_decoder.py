"""`asr tune-decoder` finds the best weights of a run's decoder on a dev set."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from asr.base.errors import UserError
from asr.cli.options.decoder import (
    add_hanzi_argument,
    add_search_arguments,
    decoder_choice,
    given_decoder_keys,
)

if TYPE_CHECKING:
    from asr.evaluation.decoder_tuning import TunedDecoder

NUM_SHOWN = 5
TUNED = ("lm_weight", "token_bonus", "hanzi_weight", "unknown_word")


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

    if idle := sorted(given_decoder_keys(arguments) & {*TUNED}):
        raise UserError(f"--decoder {idle[0]}: tuning chooses {', '.join(TUNED)} itself; leave them out")
    run = Run.open(arguments.run)
    choice = decoder_choice(arguments, run)
    choice.require_language_model()
    from asr.evaluation.decoder_tuning import tune_decoder

    with ProgressBars(delay_s=0.0) as bars:
        tuned = tune_decoder(arguments.run, arguments.manifest, choice, on_progress=bars)
    _print_trials(tuned)
    if tuned.settings is None:
        print(
            "\nWith every weight, more hanzi are wrong than in greedy decoding with the general model, "
            f"beyond chance: nothing is chosen, {tuned.path} is left as it was"
        )
        return 0
    run.save_decoder_settings(tuned.settings)  # after the results are printed, which a full disk would lose
    print(f"\n{tuned.path}: written; `asr evaluate` and `asr transcribe` use these settings from now on")
    return 0


def _print_trials(tuned: TunedDecoder) -> None:
    from asr.base.text.terminal_table import align_columns
    from asr.evaluation.decoder_tuning import gain
    from asr.evaluation.tables import format_interval, format_rate

    greedy, best = tuned.greedy, tuned.best
    units = [tuned.unit, "character"] if greedy.characters else [tuned.unit]
    names = ["lm_weight", "token_bonus", "hanzi_weight"]
    if len({trial.unknown_word for trial in tuned.trials}) > 1:
        names.append("unknown_word")
    head: list[tuple[str, ...]] = [("", *names), ("greedy", *("" for _ in names))]
    others = sorted(tuned.trials, key=lambda trial: (trial is not best, trial.edits.errors))[:NUM_SHOWN]
    for trial in others:
        name = "best" if trial is best and tuned.settings else ""
        head.append((name, *(f"{getattr(trial, weight):g}" for weight in names)))
    columns = [[f"{unit} error rate" for unit in units]]
    for each in (greedy, *others):
        columns.append(
            [format_rate(edits.rate) for edits in (each.edits, each.character_edits)][: len(units)]
        )
    print()
    for line in align_columns([(*first, *rates) for first, rates in zip(head, columns, strict=True)]):
        print(line)
    print()
    for unit, before, after in zip(
        units, (greedy.tokens, greedy.characters), (best.tokens, best.characters), strict=False
    ):
        test = gain(before, after)
        if test is not None:
            interval = format_interval(test.low, test.high, "+")
            chance = "; 0 is within it, so this may be chance" if test.low <= 0 <= test.high else ""
            print(f"{unit} errors, best minus greedy: {test.difference:+.2%}, interval {interval}{chance}")
    if best.edits.errors >= greedy.edits.errors:
        print("The language model does not reduce the errors here: was it trained on text like this set's?")
