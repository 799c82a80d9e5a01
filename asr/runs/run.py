"""Read and write a run's directory: what a person reads, and what is needed to resume or to decode.

runs/demo/config.toml      the resolved configuration
runs/demo/vocabulary.txt   one token a line, the blank first
runs/demo/units.model      how words are split, where tokens are pieces of words
runs/demo/token_counts.tsv how often each token occurs in the training set
runs/demo/checkpoints/     the latest, the best and the chosen, see asr/runs/checkpoint.py
runs/demo/inference/       the graph by which a CPU recognizes, see asr/runs/inference_graph.py
runs/demo/metrics.jsonl    one line an epoch
runs/demo/start.json       with train.init_from: the dev error of the weights that training began from
runs/demo/state.json       which process trains it, or how the last session ended
runs/demo/stages.json      what each device held, if it was trained in stages on several
runs/demo/left_out.txt     recordings that cannot be trained on, with reasons, if there are any
runs/demo/tensorboard/     curves, sound and pictures for TensorBoard
runs/demo/decoder.toml     decoder settings, if `asr tune-decoder` was run
runs/demo/report.html      curves after every epoch; at the end error rates and worst utterances
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from asr.base.config import BEFORE_THEIR_KEYS, Config, dump_config, load_config
from asr.base.decoder_settings import GENERAL, DecoderSettings, load_settings, save_settings
from asr.base.errors import UserError
from asr.base.model_files.model_file import ABOUT
from asr.base.model_files.named import default_run, meant_by, named_folder
from asr.base.system.files import read_lines, whole_file
from asr.base.types import Utterance
from asr.base.vocabulary import Vocabulary
from asr.runs.progress import EpochMetrics, Progress, history_of

CHECKPOINT_NAME = re.compile(r"epoch-(\d+)(?:-batch-(\d+))?\.npz")


@dataclass(frozen=True)
class Run:
    """A run directory and its files.

    Attributes:
        directory: the directory; of a model file, and of a run at an address, it is in the cache.
        reports: folder of the reports of `asr evaluate`; None for the directory.
    """

    directory: Path
    reports: Path | None = None

    @classmethod
    def create(cls, directory: Path, config: Config, vocabulary: Vocabulary) -> Run:
        """Create the directory, and write the configuration and the vocabulary.

        Raises:
            UserError: the directory already contains a run, or cannot be written.
        """
        cls.refuse_existing(directory)
        vocabulary.save(directory / "vocabulary.txt")
        run = cls(directory)
        run.write_config(config)
        return run

    @staticmethod
    def refuse_existing(directory: Path) -> None:
        """Raise a UserError if the directory already contains a run."""
        if Run(directory).exists:
            raise UserError(
                f"{directory}: already contains a run; resume it (`resume`), or start another run under "
                f"another `name`; train.init_from={directory} starts it from these weights"
            )

    @classmethod
    def open(cls, named: str | Path | None = None) -> Run:
        """Open an existing run, or a model file in place of one.

        Args:
            named: a directory, a model file, its address, or `general`; None for `general`, if it recognizes.
                See `asr.base.model_files.named`.

        Raises:
            UserError: the directory contains no run, or the model cannot be used.
        """
        named = default_run() if named is None else named
        directory = named_folder(named)
        if not Run(directory).exists:
            if (directory / ABOUT).is_file():
                raise UserError(
                    f"{directory}: expected a run, received a folder of `asr export`; its README.md shows "
                    "how to recognize with it, or name the run that it was made of"
                )
            meant = meant_by(directory)
            raise UserError(
                f"{directory}: no run here (no config.toml); "
                + (f"did you mean {meant}?" if meant else "`asr train` creates runs in runs/")
            )
        is_folder = directory == Path(named)
        return cls(directory, None if is_folder else Path(f"{directory.name}-reports"))

    @property
    def is_copy(self) -> bool:
        """Return whether the directory is in the cache, and is not to be changed."""
        return self.reports is not None

    @property
    def is_model_file(self) -> bool:
        """Return whether the run is a model file, which has no data sets."""
        return self.is_copy and (self.directory / ABOUT).exists()

    def stated(self) -> dict[str, Any]:
        """Return what a model file states about itself; nothing of a run that was trained here."""
        if not self.is_model_file:
            return {}
        stated: dict[str, Any] = json.loads((self.directory / ABOUT).read_text(encoding="utf-8"))
        return stated

    @property
    def exists(self) -> bool:
        """Return whether the directory contains a run."""
        return (self.directory / "config.toml").exists()

    def config(self, overrides: Sequence[str] = ()) -> Config:
        """Load the run's configuration, with some of its settings replaced; see `load_config`."""
        return load_config(self.directory / "config.toml", overrides, BEFORE_THEIR_KEYS)

    def write_config(self, config: Config) -> None:
        """Write the run's configuration."""
        with whole_file(self.directory / "config.toml", "configuration") as file:
            file.write(dump_config(config).encode())

    def vocabulary(self) -> Vocabulary:
        """Load the run's vocabulary."""
        return Vocabulary.load(self.directory / "vocabulary.txt")

    def token_name(self) -> str:
        """Return what the run's errors are of, such as "syllable"; "token" without a readable vocabulary."""
        try:
            return self.vocabulary().token_name
        except UserError:
            return "token"

    @property
    def decoder_path(self) -> Path:
        """Return the path of the decoder's settings, which may not exist."""
        return self.directory / "decoder.toml"

    def decoder_settings(self, language_model: str = "") -> DecoderSettings:
        """Return the settings that `asr tune-decoder` found, or greedy decoding.

        Args:
            language_model: used in place of the run's own; with it, decoding is greedy if nothing was tuned.
        """
        if not self.decoder_path.exists():
            return DecoderSettings()
        settings = load_settings(self.decoder_path, language_model)
        if language_model or settings.language_model in ("", GENERAL):
            return settings
        model = self.directory.resolve() / settings.language_model  # an absolute path stays as it is
        return dataclasses.replace(settings, language_model=str(model))

    def refuse_moved_language_model(self, language_model: str) -> None:
        """Raise a UserError if a decoder's language model is missing, and only decoder.toml named it."""
        if not language_model or Path(language_model).exists() or not self.decoder_path.exists():
            return
        if language_model == self.decoder_settings().language_model:
            raise UserError(
                f"{self.decoder_path}: expected the language model that it names, {language_model}, found "
                "none; name it where it is now, `language_model=PATH`, or decode without one, `beam=1`"
            )

    def save_decoder_settings(self, settings: DecoderSettings) -> None:
        """Write the decoder's settings; a language model in the run is found wherever the run is moved."""
        model, directory = Path(settings.language_model), self.directory.resolve()
        if model.is_relative_to(directory):
            settings = dataclasses.replace(settings, language_model=str(model.relative_to(directory)))
        save_settings(self.decoder_path, settings)

    def require(self) -> None:
        """Raise a UserError if the directory no longer exists, as after a disk was unmounted."""
        if not self.exists:
            raise UserError(
                f"{self.directory}: the run's directory no longer exists; mount its disk again, then resume "
                "(`resume`)"
            )

    def checkpoints(self) -> list[Path]:
        """Return the paths of all checkpoints, the latest last."""
        found = []
        for path in self.directory.glob("checkpoints/epoch-*.npz"):
            if match := CHECKPOINT_NAME.fullmatch(path.name):
                epoch, batch = match.groups()
                found.append((int(epoch), float(batch or "inf"), path))
        return [path for *_, path in sorted(found)]

    def epoch_checkpoint(self, epoch: int) -> Path:
        """Return the path of the checkpoint after an epoch, counted from 1; 0 is the start."""
        return self.directory / "checkpoints" / f"epoch-{epoch:04d}.npz"

    def checkpoint_at(self, progress: Progress) -> Path:
        """Return the path of the checkpoint at this point of the run."""
        if not progress.epoch.batches:
            return self.epoch_checkpoint(progress.epochs_done)
        name = f"epoch-{progress.epochs_done + 1:04d}-batch-{progress.epoch.batches:05d}.npz"
        return self.directory / "checkpoints" / name

    def chosen_checkpoint(self) -> Path:
        """Return the path of the checkpoint to decode with: the chosen epoch's, or the latest so far.

        With `train.init_from`, it is the start, epoch 0, until an epoch is chosen.

        Raises:
            UserError: there is no checkpoint yet.
        """
        chosen = [0, *(metrics.epoch for metrics in self.metrics() if metrics.chosen)]
        candidates = [*self.checkpoints(), *filter(Path.exists, map(self.epoch_checkpoint, chosen))]
        if not candidates:
            raise UserError(
                f"{self.directory}: no checkpoint yet; train this run first, or name the directory of a "
                "trained one"
            )
        return candidates[-1]

    @property
    def report_path(self) -> Path:
        """Return the path of the report."""
        return self.directory / "report.html"

    @property
    def tensorboard_dir(self) -> Path:
        """Return the folder of TensorBoard's event files."""
        return self.directory / "tensorboard"

    def write_metrics(self, history: Sequence[EpochMetrics]) -> None:
        """Write the metrics of all epochs so far."""
        lines = [json.dumps(dataclasses.asdict(metrics)) + "\n" for metrics in history]
        with whole_file(self.directory / "metrics.jsonl", "list of metrics") as file:
            file.write("".join(lines).encode())

    def metrics(self) -> list[EpochMetrics]:
        """Read the metrics of all epochs so far."""
        path = self.directory / "metrics.jsonl"
        if not path.exists():
            return []
        try:
            lines = read_lines(path, "list of metrics")
            return list(history_of(json.loads(line) for line in lines if line))
        except (json.JSONDecodeError, TypeError, KeyError) as error:
            raise UserError(f"{path}: damaged ({error}); repair or remove it") from None

    def write_start_error(self, dev_error: float) -> None:
        """Write the dev error of the weights of another run, from which training begins."""
        with whole_file(self.directory / "start.json", "dev error") as file:
            file.write(f"{json.dumps({'dev_error': dev_error})}\n".encode())

    def start_error(self) -> float | None:
        """Read the dev error before training; None for a run that starts from nothing, and for an old one.

        Raises:
            UserError: the file is damaged.
        """
        path = self.directory / "start.json"
        if not path.exists():
            return None
        try:
            return float(json.loads("\n".join(read_lines(path, "dev error")))["dev_error"])
        except (ValueError, TypeError, KeyError) as error:
            raise UserError(f"{path}: damaged ({error!r}); remove it") from None

    def write_left_out(self, reasons: Sequence[str]) -> None:
        """Write the list of recordings that are not trained on; nothing if there are none."""
        if reasons:
            with whole_file(self.directory / "left_out.txt", "list") as file:
                file.write("".join(f"{reason}\n" for reason in reasons).encode(errors="backslashreplace"))

    def write_token_counts(self, utterances: Iterable[Utterance]) -> None:
        """Write how often each token occurs in the training set, for the report."""
        counts = Counter(token for utterance in utterances for token in utterance.tokens)
        lines = [f"{token}\t{count}\n" for token, count in counts.most_common()]
        with whole_file(self.directory / "token_counts.tsv", "list of tokens") as file:
            file.write("".join(lines).encode(errors="backslashreplace"))

    def token_counts(self) -> Mapping[str, int]:
        """Read how often each token occurs in the training set; empty for an old run without the file.

        Raises:
            UserError: the file is damaged.
        """
        path = self.directory / "token_counts.tsv"
        if not path.exists():
            return {}
        try:
            rows = [line.rsplit("\t", 1) for line in read_lines(path, "list of tokens") if line]
            return {token: int(count) for token, count in rows}
        except ValueError as error:
            raise UserError(f"{path}: damaged ({error}); remove it") from None
