"""What a person sees of training: one bar for the whole run, and a line for every epoch."""

from __future__ import annotations

import contextlib
import sys
from typing import TextIO

import numpy as np
from tqdm import tqdm

from asr.base.types import EditCounts
from asr.runs.progress import EpochMetrics
from asr.training.engine import Engine


class ProgressBar:
    """One bar for the whole run, in seconds of audio: its rate is the throughput, its end the run's.

    Where several processes train together, the chief alone shows it. Training goes on where nobody reads it
    any more: the Ctrl-C that lets training save ends a `tee` behind it at once.

    Args:
        total_s: seconds of audio in all epochs.
        done_s: of these, trained on before.
        num_epochs: of the run.
        engine: tells who is the chief, and the number of devices.
    """

    SMOOTHING = 0.95

    def __init__(self, total_s: float, done_s: float, num_epochs: int, engine: Engine) -> None:
        self._num_epochs, self._total_s = num_epochs, total_s
        self._loss = self._error = float("nan")
        self._bar = tqdm(
            total=total_s,
            initial=done_s,
            desc=f"{engine.num_devices} devices" if engine.num_devices > 1 else None,
            disable=not engine.is_chief,
            bar_format="{l_bar}{bar:20}| {elapsed} < {remaining}, {rate_noinv_fmt}{postfix}",
            unit=" s of audio",
        )

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(self, *exception: object) -> None:
        with contextlib.suppress(BrokenPipeError):
            self._bar.close()

    def advance(self, audio_s: float, loss: float, edits: EditCounts) -> None:
        """Show a step."""
        self._loss = self._smooth(self._loss, loss)
        self._error = self._smooth(self._error, edits.rate)
        self._bar.set_postfix_str(f"loss {self._loss:.2f}, errors {self._error:.1%}", refresh=False)
        self.skip(audio_s)

    def skip(self, audio_s: float) -> None:
        """Show a step that changed nothing."""
        with contextlib.suppress(BrokenPipeError):
            self._bar.update(min(audio_s, self._total_s - self._bar.n))

    def tell(self, metrics: EpochMetrics) -> None:
        """Print an epoch's line above the bar."""
        self._write(
            f"epoch {metrics.epoch:>3}/{self._num_epochs}  loss {metrics.loss:7.3f}  "
            f"errors {metrics.train_error:6.1%}  dev loss {metrics.dev_loss:7.3f}  "
            f"dev errors {metrics.dev_error:6.1%}  {metrics.audio_s_per_s:5.0f} s/s"
            + ("  best" if metrics.best else ""),
            sys.stdout,
        )

    def write(self, line: str) -> None:
        """Print a line above the bar, on standard error."""
        self._write(line, sys.stderr)

    def _write(self, line: str, stream: TextIO) -> None:
        if not self._bar.disable:
            with contextlib.suppress(BrokenPipeError):
                self._bar.write(line, file=stream)

    def _smooth(self, old: float, new: float) -> float:
        return new if np.isnan(old) else self.SMOOTHING * old + (1 - self.SMOOTHING) * new
