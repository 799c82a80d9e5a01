"""A run's directory: what a person reads, and what a program needs to go on or to decode.

runs/demo/config.toml      the resolved configuration
runs/demo/vocabulary.txt   one token a line, the blank first
runs/demo/checkpoints/     last.npz and best.npz
runs/demo/metrics.jsonl    one line an epoch
    runs/demo/left_out.txt     which recordings cannot be trained on, and why; if there are any
runs/demo/tensorboard/     the same for TensorBoard
runs/demo/report.html      curves, error rates, worst utterances
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from asr.checkpoint import BEST
from asr.config import Config, dump_config, load_config
from asr.files import read_lines, whole_file
from asr.types import UserError
from asr.vocabulary import Vocabulary


@dataclass(frozen=True)
class EpochMetrics:
    """One line of metrics.jsonl.

    Attributes:
        epoch: from 1.
        loss: mean CTC loss of a training utterance, as met in training.
        train_error: greedy token error rate met in training, augmentation and dropout on.
        dev_loss: mean CTC loss of a dev utterance.
        dev_error: greedy token error rate on dev.
        learning_rate: at the epoch's end.
        audio_s_per_s: seconds of recordings trained on, per second.
        train_s: seconds of training so far.
        best: whether its weights became those to decode with.
        step: batches trained on so far.
        gradient_norm: median over the epoch's batches, before clipping.
        skipped: batches left out because their loss or gradients were infinite.
        waiting_share: of the training time, what was spent waiting for batches.
        dev_s: seconds of evaluation on dev.
    """

    epoch: int
    loss: float
    train_error: float
    dev_loss: float
    dev_error: float
    learning_rate: float
    audio_s_per_s: float
    train_s: float
    best: bool
    step: int = 0
    gradient_norm: float = 0.0
    skipped: int = 0
    waiting_share: float = 0.0
    dev_s: float = 0.0


@dataclass(frozen=True)
class Run:
    """A run directory, new or old."""

    directory: Path

    @classmethod
    def create(cls, directory: Path, config: Config, vocabulary: Vocabulary) -> Run:
        """Make the directory and write what describes the run.

        Raises:
            UserError: a run is there already, or the directory cannot be written.
        """
        cls.refuse_existing(directory)
        vocabulary.save(directory / "vocabulary.txt")
        with whole_file(directory / "config.toml", "configuration") as file:
            file.write(dump_config(config).encode())
        return cls(directory)

    @staticmethod
    def refuse_existing(directory: Path) -> None:
        """Raise a UserError where a run is there already."""
        if (directory / "config.toml").exists():
            raise UserError(
                f"{directory}: a run is there already; go on with it by --resume, "
                "or start another under --name NAME"
            )

    @classmethod
    def open(cls, directory: Path) -> Run:
        """An existing run.

        Raises:
            UserError: there is none.
        """
        if not (directory / "config.toml").exists():
            raise UserError(f"{directory}: no run here (no config.toml); `asr train` makes one in runs/")
        return cls(directory)

    def config(self) -> Config:
        """The run's configuration."""
        return load_config(self.directory / "config.toml")

    def vocabulary(self) -> Vocabulary:
        """The run's vocabulary."""
        return Vocabulary.load(self.directory / "vocabulary.txt")

    def checkpoint(self, name: str = BEST) -> Path:
        """Path of a checkpoint."""
        return self.directory / "checkpoints" / name

    @property
    def report_path(self) -> Path:
        """Path of the report."""
        return self.directory / "report.html"

    @property
    def tensorboard_dir(self) -> Path:
        """Path of TensorBoard's event files."""
        return self.directory / "tensorboard"

    def append_metrics(self, metrics: EpochMetrics) -> None:
        """Add an epoch's line; a line from a session that went further than its checkpoint is replaced."""
        kept = [old for old in self.metrics() if old.epoch < metrics.epoch]
        lines = [json.dumps(dataclasses.asdict(epoch)) + "\n" for epoch in [*kept, metrics]]
        with whole_file(self.directory / "metrics.jsonl", "list of metrics") as file:
            file.write("".join(lines).encode())

    def metrics(self) -> list[EpochMetrics]:
        """All epochs so far."""
        path = self.directory / "metrics.jsonl"
        if not path.exists():
            return []
        try:
            return [EpochMetrics(**json.loads(line)) for line in read_lines(path, "list of metrics")]
        except (json.JSONDecodeError, TypeError) as error:
            raise UserError(f"{path}: damaged ({error}); mend or remove it") from None

    def write_left_out(self, reasons: Sequence[str]) -> None:
        """Keep the list of recordings that are not trained on; nothing where there are none."""
        if reasons:
            with whole_file(self.directory / "left_out.txt", "list") as file:
                file.write("".join(f"{reason}\n" for reason in reasons).encode(errors="backslashreplace"))
