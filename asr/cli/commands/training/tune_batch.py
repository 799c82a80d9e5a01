"""`asr tune-batch` finds the largest and the fastest batch size that fits the devices."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from asr.base.text.wording import counted
from asr.cli.commands import add_override_argument
from asr.cli.options.devices import add_device_arguments, add_engine_arguments, chosen_devices

if TYPE_CHECKING:
    from asr.base.config import TrainConfig
    from asr.training.batch_tuning import Trial

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
    print(HEADER, flush=True)
    with ProgressBars() as bars:
        trials = tune_batch(
            config, chosen_devices(arguments), lambda trial: print(_row(trial), flush=True), bars
        )
    _print_conclusion(trials, config.train)
    return 0


def _row(trial: Trial) -> str:
    if trial.failure:
        return f"{trial.batch_s:13g}  {trial.failure}"
    return (
        f"{trial.batch_s:13g}  {trial.num_batches:8,}  {trial.num_rows:10,}  {trial.audio_s_per_s:9,.0f}  "
        f"{trial.peak_bytes / 1e9:5.2f} GB"
    )


def _print_conclusion(trials: Sequence[Trial], train: TrainConfig) -> None:
    fitting = [trial for trial in trials if not trial.failure]
    largest = max(fitting, key=lambda trial: trial.batch_s)
    fastest = max(fitting, key=lambda trial: trial.audio_s_per_s)
    all_fit = len(fitting) == len(trials)
    if all_fit:
        num_batches = counted(largest.num_batches, "batch", "batches")
        print(f"\nLarger batches were not tried: an epoch has only {num_batches}.")
    print(
        f"\nThe largest batch that {'was tried' if all_fit else 'fits'} is {largest.batch_s:g} s, the "
        f"fastest {fastest.batch_s:g} s, with {fastest.audio_s_per_s:,.0f} seconds of audio per second:\n\n"
        f"    [train]\n    batch_s = {float(fastest.batch_s)}"
    )
    if fastest.batch_s != train.batch_s:
        times, rate = fastest.batch_s / train.batch_s, train.learning_rate
        print(
            f"\nThat is {times:.3g} times the current {train.batch_s:g} s, "
            f"{counted(fastest.num_batches, 'step')} per epoch. Scale train.learning_rate with it: "
            # the square root suits Adam (Malladi et al., 2022), linear scaling SGD (Goyal et al., 2017)
            + (
                f"from {rate:g} to {rate * math.sqrt(times):.2g} by the square root, which suits Adam, or to "
                f"{rate * times:.2g} linearly, which suits sgd."
                if rate
                else f"{math.sqrt(times):.2g} times what training chooses for the weights of another run, by "
                f"the square root, which suits Adam, or {times:.2g} times linearly, which suits sgd."
            )
        )
