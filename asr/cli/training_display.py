"""Show training in the terminal: one bar for the whole run, and a line for every epoch."""

from __future__ import annotations

import contextlib
import math
import os
import sys
import time
from collections.abc import Sequence
from typing import Any

from asr.base.text.terminal_table import align_columns
from asr.base.text.wording import counted, duration, short_number
from asr.base.types import EditCounts
from asr.base.work import Work
from asr.cli.progress_bars import ProgressBars
from asr.runs.progress import EpochMetrics
from asr.runs.run import Run
from asr.runs.stage_record import StageRecord, stage_rows
from asr.training.monitoring.observer import TrainingObserver, TrainingStart

SMOOTHING = 0.95


class TrainingDisplay(TrainingObserver):
    """One bar in seconds of audio for the whole run.

    The throughput is that of the steps after a session's first one, which compiles the model, without the
    evaluation on dev; until there are such steps, none is shown.

    Training continues when the reader of the output has exited: the Ctrl-C that asks training to save ends a
    `tee` after it at once.

    Args:
        preparing: bars of the work before the first step; the caller closes them where that work fails.
    """

    def __init__(self, preparing: ProgressBars | None = None) -> None:
        self._preparing = preparing or ProgressBars()
        self._bar: Any = None
        self._total_s = 0.0
        self._loss = self._error = math.nan
        self._token = "token"
        self._audio_s = self._steps_s = 0.0
        self._step_begin_s = math.nan

    def on_work(self, work: Work) -> None:
        """Show a progress bar of the preparation."""
        self._preparing(work)

    def on_start(self, start: TrainingStart) -> None:
        """Print which model will be trained, on which data and devices."""
        self._preparing.close()
        self._token = start.token
        config = start.config
        print(
            f"{start.directory}: {config.model.title}, {start.num_parameters / 1e6:.2f} million parameters, "
            f"{counted(start.num_tokens, start.token)}"
        )
        print(
            f"training on {duration(start.train_s)} ({counted(start.num_train, 'utterance')}), "
            f"dev {counted(start.num_dev, 'utterance')}, {counted(config.train.epochs, 'epoch')}"
        )
        print(f"curves, rewritten after every epoch: {Run(start.directory).report_path}")
        if start.num_devices > 1:
            workers = f" of each of {start.num_workers} workers" if start.num_workers > 1 else ""
            print(f"on {', '.join(start.devices)}{workers} ({start.engine}): {_sharing(start)}")
        elif len(start.devices) > 1:
            print(f"on the CPU, whose cores {len(start.devices)} towers share (train.cpu_towers)")

    def on_stages(self, stages: Sequence[StageRecord]) -> None:
        """Print what each device holds of the model."""
        for line in align_columns(stage_rows(stages), right_from=3):
            print(f"  {line}")

    def on_session(self, total_s: float, done_s: float, num_devices: int) -> None:
        """Draw the bar of the whole run."""
        from tqdm import tqdm

        self._total_s = total_s
        self._bar = tqdm(
            total=total_s,
            initial=done_s,
            desc=f"{num_devices} devices" if num_devices > 1 else None,
            bar_format="{l_bar}{bar:20}| {elapsed} < {remaining}{postfix}",
        )
        if done_s < total_s:
            self._bar.set_postfix_str("compiling the model for the first step")  # the step replaces it
        self._audio_s = self._steps_s = 0.0
        self._step_begin_s = math.nan

    def on_step(self, audio_s: float, loss: float, edits: EditCounts) -> None:
        """Advance the bar, and smooth the loss and the error rate that it shows."""
        self._loss = _smooth(self._loss, loss)
        self._error = _smooth(self._error, edits.rate)
        self._advance(audio_s)

    def on_skipped_step(self, audio_s: float) -> None:
        """Advance the bar by the audio of a skipped batch."""
        self._advance(audio_s)

    def _advance(self, audio_s: float) -> None:
        """Draw the bar after a step, with the throughput, the smoothed loss and the smoothed error rate."""
        now_s = time.perf_counter()
        if not math.isnan(self._step_begin_s):
            self._audio_s += audio_s
            self._steps_s += now_s - self._step_begin_s
        self._step_begin_s = now_s
        notes = [f"{short_number(self._audio_s / self._steps_s)} s of audio/s"] if self._steps_s else []
        if not math.isnan(self._loss):
            notes.append(f"loss {self._loss:.2f}, {self._token} errors {self._error:.1%}")
        with contextlib.suppress(BrokenPipeError):
            self._bar.set_postfix_str(", ".join(notes), refresh=False)
            self._bar.update(min(audio_s, self._total_s - self._bar.n))

    def on_epoch(self, metrics: EpochMetrics, num_epochs: int) -> None:
        """Print the epoch's metrics in a line above the bar."""
        self._step_begin_s = time.perf_counter()  # the next epoch begins
        with contextlib.suppress(BrokenPipeError):
            self._bar.write(
                f"epoch {metrics.epoch:>3}/{num_epochs}  loss {metrics.loss:7.3f}  "
                f"{self._token} errors {metrics.train_error:6.1%}  dev loss {metrics.dev_loss:7.3f}  "
                f"dev {self._token} errors {metrics.dev_error:6.1%}  "
                f"{short_number(metrics.audio_s_per_s):>5} s/s" + ("  best" if metrics.best else ""),
                file=sys.stdout,
            )
            if metrics.corpora:
                rates = "  ".join(f"{name} {rate:.1%}" for name, rate in metrics.corpora.items())
                self._bar.write(f"               dev {self._token} errors of {rates}", file=sys.stdout)

    def on_stop_requested(self) -> None:
        """Report that training stops after this step; the same Ctrl-C may have ended the reader."""
        with contextlib.suppress(OSError):
            os.write(2, b"\nstopping after this step; press Ctrl-C again to stop at once\n")

    def on_session_end(self) -> None:
        """Close the bar of the run."""
        with contextlib.suppress(BrokenPipeError):
            self._bar.close()


def _sharing(start: TrainingStart) -> str:
    """Return how a batch is divided among the devices."""
    batch_s, num_shares = start.config.train.batch_s, start.num_devices // start.num_stages
    if num_shares == 1:
        return f"a batch of {batch_s:g} s passes through {start.num_stages} stages"
    each = "device" if start.num_stages == 1 else f"replica of {start.num_stages} stages"
    return f"a batch of {batch_s:g} s is {batch_s / num_shares:.3g} s on each {each}"


def _smooth(old: float, new: float) -> float:
    return new if math.isnan(old) else SMOOTHING * old + (1 - SMOOTHING) * new
