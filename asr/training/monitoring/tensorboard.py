"""Show a run in TensorBoard: its curves, and the model's output for a few dev utterances.

with TensorBoard(run.tensorboard_dir) as board:
    board.configuration(dump_config(config))
    board.step(step, loss, gradient_norm, learning_rate)            # after every batch
    board.epoch(metrics)                                             # after every epoch
    board.utterances(model, vocabulary, dev_data, num=4, epoch=1)    # after every epoch

tensorboard --logdir runs

TensorBoard shows three runs: `epochs` and `steps`, whose points are numbered by epoch and by batch, and
`constants`, which hold for the whole run.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from asr.audio.recording import Waveform, read_audio
from asr.base.errors import UserError
from asr.base.types import Logits, Tensor, Utterance
from asr.base.vocabulary import Vocabulary
from asr.evaluation.evaluator import EvaluationData
from asr.model.tensorflow_runner import CLIP_SIGNATURE, TensorFlowRunner
from asr.pages.pictures import spectrogram_picture
from asr.runs.progress import EpochMetrics
from asr.training.monitoring.alignment_picture import Alignment, alignment_of, alignment_picture
from asr.training.monitoring.event_file import PREFIX, EventFile, audio, image, scalar, text, write_once

LOG_EVERY_STEPS = 10  # TensorBoard draws at most a thousand points of a curve
EPOCH_TAGS = {
    "loss": "loss/train",
    "dev_loss": "loss/dev",
    "train_error": "error/train",
    "dev_error": "error/dev",
    "learning_rate": "optimizer/learning_rate",
    "gradient_norm": "optimizer/gradient_norm",
    "skipped": "optimizer/skipped_batches",
    "audio_s_per_s": "speed/audio_s_per_s",
    "waiting_share": "speed/waiting_share",
    "train_s": "time/train_s",
    "dev_s": "time/dev_s",
    "step": "time/batches",
}
EDIT_LETTERS = {"equal": "", "substitution": "S", "deletion": "D", "insertion": "I"}
TABLE_COLUMNS = 12


class TensorBoard:
    """A run's event files; a session that resumes a run adds to the same directory.

    Args:
        directory: of the run's event files; it is created with the first point.
    """

    def __init__(self, directory: Path) -> None:
        self._epochs, self._steps = EventFile(directory / "epochs"), EventFile(directory / "steps")
        self._constants = directory / "constants"
        self._shown: ShownUtterances | None = None

    def __enter__(self) -> TensorBoard:
        return self

    def __exit__(self, kind: type[BaseException] | None, *exception: object) -> None:
        if kind is None:
            self.close()
        else:
            with contextlib.suppress(UserError):  # the exception that is being raised says more
                self.close()

    def configuration(self, toml: str) -> None:
        """Show the run's configuration.

        Raises:
            UserError: it cannot be written; all other methods raise this too.
        """
        # four spaces make a code block in Markdown
        block = "\n".join(f"    {line}" for line in toml.splitlines())
        write_once(self._constants / f"{PREFIX}.configuration", lambda: [text("configuration", block)])

    def step(self, step: int, loss: float, gradient_norm: float, learning_rate: float) -> None:
        """Write the metrics of every tenth batch.

        Args:
            step: number of batches trained on so far.
            loss: of the batch.
            gradient_norm: before clipping.
            learning_rate: of the step.
        """
        if step % LOG_EVERY_STEPS:
            self._steps.write(step, [])  # the first call records where the session begins
            return
        values = (("loss", loss), ("gradient_norm", gradient_norm), ("learning_rate", learning_rate))
        self._steps.write(step, [scalar(f"batch/{name}", value) for name, value in values])

    def epoch(self, metrics: EpochMetrics) -> None:
        """Write the metrics of an epoch."""
        values = [scalar(tag, getattr(metrics, name)) for name, tag in EPOCH_TAGS.items()]
        values += [scalar(f"error/dev_{name}", rate) for name, rate in metrics.corpora.items()]
        self._epochs.write(metrics.epoch, values)
        self._flush()

    def utterances(
        self, runner: TensorFlowRunner, vocabulary: Vocabulary, data: EvaluationData, num: int, epoch: int
    ) -> None:
        """Write the model's output for a few utterances after an epoch; their audio is written once per run.

        Changes neither the model nor the state of any random generator.

        Args:
            runner: the model.
            vocabulary: of its outputs.
            data: the dev set; the same utterances, from short to long, are shown after every epoch.
            num: maximum number of utterances; 0 for none.
            epoch: counted from 1.
        """
        if num == 0:
            return
        if self._shown is None or self._shown.runner is not runner:
            self._shown = ShownUtterances(runner, vocabulary, spread_over_lengths(data.utterances, num))
        write_once(self._constants / f"{PREFIX}.recordings", self._shown.recordings)
        self._epochs.write(epoch, self._shown.alignments(epoch))
        self._flush()

    def close(self) -> None:
        """Write the remaining points and close the files."""
        self._steps.close()
        self._epochs.close()

    def _flush(self) -> None:
        self._steps.flush()
        self._epochs.flush()


class ShownUtterances:
    """A few utterances, and their points in TensorBoard.

    Args:
        runner: the model.
        vocabulary: of its outputs.
        utterances: to show; their recordings are kept in memory.
    """

    def __init__(
        self, runner: TensorFlowRunner, vocabulary: Vocabulary, utterances: Sequence[Utterance]
    ) -> None:
        self.runner, self.vocabulary, self.utterances = runner, vocabulary, utterances
        self.waveforms: list[Waveform] = [read_audio(utterance.audio_path) for utterance in utterances]
        self._probabilities = runner.compiled(_probabilities_of, CLIP_SIGNATURE)

    def recordings(self) -> list[Any]:
        """Return the points of each utterance's sound and spectrogram."""
        values = []
        for number, (utterance, waveform) in enumerate(self._pairs(), start=1):
            about = _about(utterance)
            values.append(audio(f"utterance {number}/sound", waveform, about))
            values.append(image(f"utterance {number}/spectrogram", spectrogram_picture(waveform), about))
        return values

    def alignments(self, epoch: int) -> list[Any]:
        """Return the points of each utterance's alignment, and of its reference and hypothesis."""
        values = []
        for number, (utterance, waveform) in enumerate(self._pairs(), start=1):
            alignment = self.alignment(utterance, waveform)
            about = _about(utterance)
            picture = alignment_picture(waveform, alignment, f"epoch {epoch}")
            values.append(image(f"utterance {number}/alignment", picture, about))
            values.append(
                text(f"utterance {number}/reference and hypothesis", f"{about}\n\n{_table(alignment)}")
            )
        return values

    def alignment(self, utterance: Utterance, waveform: Waveform) -> Alignment:
        """Return the alignment of an utterance by the model's current weights."""
        probabilities = self._probabilities(waveform[None], np.array([len(waveform)], np.int32))
        frame_s = self.runner.model.frame_s
        return alignment_of(np.asarray(probabilities), utterance.tokens, self.vocabulary, frame_s)

    def _pairs(self) -> list[tuple[Utterance, Waveform]]:
        return list(zip(self.utterances, self.waveforms, strict=True))


def _probabilities_of(logits: Logits) -> Tensor:
    """Return the posteriors of the only clip in a batch, (T, V)."""
    values, num_frames = logits
    return tf.nn.softmax(tf.cast(values[0, : num_frames[0]], tf.float32))


def spread_over_lengths(utterances: Sequence[Utterance], num: int) -> list[Utterance]:
    """Return `num` utterances from short to long, always the same of a set; all if the set has fewer."""
    by_length = sorted(utterances, key=lambda utterance: (utterance.duration_s, utterance.id))
    num = min(num, len(by_length))
    return [by_length[(2 * index + 1) * len(by_length) // (2 * num)] for index in range(num)]


def _about(utterance: Utterance) -> str:
    """Return an utterance's text, id, speaker and duration, as Markdown."""
    parts = (utterance.text, utterance.id, utterance.speaker, f"{utterance.duration_s:.1f} s")
    return " · ".join(markdown_escaped(part) for part in parts if part)


def _table(alignment: Alignment) -> str:
    """Return reference above hypothesis as Markdown; tokens that differ are bold, with a letter below."""
    lines = []
    for begin in range(0, len(alignment.pairs), TABLE_COLUMNS):
        pairs = alignment.pairs[begin : begin + TABLE_COLUMNS]
        reference = [_cell(pair.reference, pair.edit != "equal") for pair in pairs]
        hypothesis = [_cell(pair.hypothesis, pair.edit != "equal") for pair in pairs]
        edits = [EDIT_LETTERS[pair.edit] for pair in pairs]
        rows = [["reference", *reference], ["---"] * (len(pairs) + 1), ["hypothesis", *hypothesis]]
        rows += [["", *edits]] if any(edits) else []
        lines += [f"| {' | '.join(row)} |" for row in rows] + [""]
    return "\n".join(lines) or "reference and hypothesis are empty"


def _cell(token: str, differs: bool) -> str:
    if not token:
        return "–"
    return f"**{markdown_escaped(token)}**" if differs else markdown_escaped(token)


def markdown_escaped(words: str) -> str:
    """Return words with the special characters of Markdown and HTML escaped."""
    return "".join(c if c.isalnum() or c.isspace() or ord(c) > 127 else f"&#{ord(c)};" for c in words)
