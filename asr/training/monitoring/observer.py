"""Report what happens in training while it runs, to an observer that may show it.

class Printer(TrainingObserver):
    def on_epoch(self, metrics: EpochMetrics, num_epochs: int) -> None:
        print(metrics)

train(load_config("demo"), name="x", observer=Printer())
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from asr.base.config import Config
from asr.base.types import EditCounts
from asr.base.work import Work
from asr.runs.progress import EpochMetrics
from asr.runs.stage_record import StageRecord


@dataclass(frozen=True)
class TrainingStart:
    """The model, the data and the devices of a run that is about to start.

    Attributes:
        directory: of the run.
        config: of the run.
        num_parameters: of the network.
        num_tokens: number of its output tokens, without the blank.
        token: what one of them is called, see `Vocabulary.token_name`.
        train_s: seconds of audio in the training set.
        num_train: utterances in the training set.
        num_dev: utterances in the dev set.
        engine: name of the engine.
        devices: names of this process's devices; that of a CPU once for each tower that shares it.
        num_devices: number of devices of all processes.
        num_workers: number of processes that train together.
        num_stages: number of stages into which the model is cut, 1 where each device has all of it.
    """

    directory: Path
    config: Config
    num_parameters: int
    num_tokens: int
    train_s: float
    num_train: int
    num_dev: int
    engine: str
    devices: tuple[str, ...]
    num_devices: int
    num_workers: int
    num_stages: int = 1
    token: str = "token"


class TrainingObserver:
    """A receiver of reports that ignores all of them: override the methods of interest.

    If several processes train together, only the chief's observer is called, except for `on_work` and
    `on_stop_requested`.
    """

    def on_work(self, work: Work) -> None:
        """Receive the progress of the preparation: of a corpus, or of the check of its recordings."""

    def on_start(self, start: TrainingStart) -> None:
        """Receive what will be trained, before the first step."""

    def on_stages(self, stages: Sequence[StageRecord]) -> None:
        """Receive what each device holds of a model that is trained in stages, before the first step."""

    def on_session(self, total_s: float, done_s: float, num_devices: int) -> None:
        """Receive the length of the run when its steps begin.

        Args:
            total_s: seconds of audio in all epochs.
            done_s: seconds of them that earlier sessions have trained on.
            num_devices: number of devices of all processes.
        """

    def on_step(self, audio_s: float, loss: float, edits: EditCounts) -> None:
        """Receive the seconds of audio, mean loss and greedy errors of a step."""

    def on_skipped_step(self, audio_s: float) -> None:
        """Receive the seconds of audio of a step that was skipped."""

    def on_epoch(self, metrics: EpochMetrics, num_epochs: int) -> None:
        """Receive the metrics of an epoch and its evaluation on dev."""

    def on_stop_requested(self) -> None:
        """Learn that a signal has asked to stop after the current step.

        It is called in the signal handler and must not print: the code it interrupts may be printing.
        """

    def on_session_end(self) -> None:
        """Learn that the session has no further step, whatever the reason."""
