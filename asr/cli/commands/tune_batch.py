"""`asr tune-batch` finds the largest and the fastest batch size that fits the devices."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from asr.base.wording import counted, duration
from asr.cli.commands import EXIT_MISTAKE, add_override_argument
from asr.cli.options.devices import add_device_arguments, add_engine_arguments, chosen_devices

if TYPE_CHECKING:
    from asr.training.batch_search import Trial
    from asr.training.batch_tuning import BatchSizes

HEADER = f"{'train.batch_s':>13}  {'batches':>8}  {'most clips':>10}  {'audio s/s':>9}  {'memory':>8}"


def add_tune_batch_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("config", help="a TOML file, or the name of one in configs/")
    add_override_argument(parser, "model.size=s")
    add_device_arguments(parser)
    add_engine_arguments(parser)


def tune_batch_command(arguments: argparse.Namespace) -> int:
    """Try batch sizes, print each, and return the exit status."""
    from asr.base.config import load_config
    from asr.cli.progress_bars import ProgressBars
    from asr.training.batch_tuning import tune_batch

    config = load_config(arguments.config, arguments.overrides)
    with ProgressBars() as bars:
        sizes = tune_batch(
            config,
            chosen_devices(arguments),
            on_data=_print_head,
            on_trial=lambda trial: print(_row(trial), flush=True),
            on_progress=bars,
        )
    return _print_conclusion(sizes)


def _print_head(manifest: str, num_utterances: int, total_s: float) -> None:
    print(f"{manifest}: {counted(num_utterances, 'utterance')}, {duration(total_s)}")
    print(HEADER, flush=True)


def _row(trial: Trial) -> str:
    if trial.failure:
        return f"{trial.batch_s:13g}  {trial.failure}"
    return (
        f"{trial.batch_s:13g}  {trial.num_batches:8,}  {trial.num_rows:10,}  {trial.audio_s_per_s:9,.0f}  "
        f"{trial.peak_bytes / 1e9:5.2f} GB"
    )


def _print_conclusion(sizes: BatchSizes) -> int:
    if not sizes.fitting:
        longest = sizes.longest
        print(
            f"\nNo batch size fits; the longest clip alone is {longest.duration_s:.1f} s ({longest.id}, "
            f"{longest.audio_path}): leave out clips of this length, or choose a smaller model.size"
        )
        return EXIT_MISTAKE
    largest, fastest, reason = sizes.largest, sizes.fastest, sizes.why_no_larger
    print(f"\nLarger batches were not tried: {reason}." if reason else "")
    print(
        f"The largest batch that {'was tried' if reason else 'fits'} is {largest.batch_s:g} s, the fastest "
        f"{fastest.batch_s:g} s, with {fastest.audio_s_per_s:,.0f} seconds of audio per second:\n\n"
        f"    [train]\n    batch_s = {float(fastest.batch_s)}"
    )
    train = sizes.config.train
    if fastest.batch_s != train.batch_s:
        by_root, in_proportion = sizes.learning_rates
        print(
            f"\nThat is {fastest.batch_s / train.batch_s:.3g} times the current {train.batch_s:g} s, "
            f"{counted(fastest.num_batches, 'step')} per epoch. Scale train.learning_rate with it: from "
            f"{train.learning_rate:g} to {by_root:.2g} by the square root, which suits Adam, or to "
            f"{in_proportion:.2g} linearly, which suits sgd."
        )
    return 0
