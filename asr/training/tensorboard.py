"""What a run shows in TensorBoard: curves, and for a few dev utterances what the model makes of them.

with TensorBoard(run.tensorboard_dir) as board:
    board.configuration(dump_config(config))
    board.step(step, loss, gradient_norm, learning_rate)            # after every batch
    board.epoch(metrics)                                             # after every epoch
    board.utterances(model, vocabulary, dev_data, num=4, epoch=1)    # the same

tensorboard --logdir runs

TensorBoard shows three runs: `epochs` and `steps`, whose points count by epochs and by batches, and
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
from asr.base.types import Logits, Tensor, UserError, Utterance
from asr.base.vocabulary import Vocabulary
from asr.evaluation.evaluator import EvaluationData
from asr.model.acoustic_model import AcousticModel
from asr.model.listener import CLIP_SIGNATURE, Listener
from asr.pages.pictures import spectrogram_picture
from asr.runs.progress import EpochMetrics
from asr.training.alignment_picture import Alignment, alignment_of, alignment_picture
from asr.training.event_file import PREFIX, EventFile, audio, image, scalar, text, write_once

STEPS_APART = 10  # TensorBoard draws a thousand points of a curve, however many there are
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
    """Writes a run's event files; a session that goes on with a run adds to the same directory.

    Args:
        directory: of the run's event files; made when there is something to write.
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
            with contextlib.suppress(UserError):  # what is on its way out says more
                self.close()

    def configuration(self, toml: str) -> None:
        """Show the run's configuration.

        Raises:
            UserError: it cannot be written, as with all that follow.
        """
        # four spaces make a block of code in Markdown
        block = "\n".join(f"    {line}" for line in toml.splitlines())
        write_once(self._constants / f"{PREFIX}.configuration", lambda: [text("configuration", block)])

    def step(self, step: int, loss: float, gradient_norm: float, learning_rate: float) -> None:
        """A batch; every tenth is written.

        Args:
            step: batches trained on so far.
            loss: of the batch.
            gradient_norm: before clipping.
            learning_rate: of the step.
        """
        if step % STEPS_APART:
            self._steps.write(step, [])  # the first of a session tells where it begins
            return
        values = (("loss", loss), ("gradient_norm", gradient_norm), ("learning_rate", learning_rate))
        self._steps.write(step, [scalar(f"batch/{name}", value) for name, value in values])

    def epoch(self, metrics: EpochMetrics) -> None:
        """A whole epoch's numbers."""
        values = [scalar(tag, getattr(metrics, name)) for name, tag in EPOCH_TAGS.items()]
        self._epochs.write(metrics.epoch, values)
        self._flush()

    def utterances(
        self, model: AcousticModel, vocabulary: Vocabulary, data: EvaluationData, num: int, epoch: int
    ) -> None:
        """What the model makes of a few utterances after an epoch; sound and spectrogram once in a run.

        Neither the model nor anything drawn in training changes.

        Args:
            model: audio -> logits.
            vocabulary: of its outputs.
            data: the dev set, of which always the same are shown, from short to long.
            num: of utterances, at most; 0 for none.
            epoch: from 1.
        """
        if num == 0:
            return
        if self._shown is None or self._shown.model is not model:
            self._shown = ShownUtterances(model, vocabulary, spread_over_lengths(data.utterances, num))
        write_once(self._constants / f"{PREFIX}.recordings", self._shown.recordings)
        self._epochs.write(epoch, self._shown.alignments(epoch))
        self._flush()

    def close(self) -> None:
        """End the files."""
        self._steps.close()
        self._epochs.close()

    def _flush(self) -> None:
        self._steps.flush()
        self._epochs.flush()


class ShownUtterances:
    """A few utterances, and what a model makes of them.

    Args:
        model: audio -> logits.
        vocabulary: of its outputs.
        utterances: their recordings are kept in memory.
    """

    def __init__(self, model: AcousticModel, vocabulary: Vocabulary, utterances: Sequence[Utterance]) -> None:
        self.model, self.vocabulary, self.utterances = model, vocabulary, utterances
        self.waveforms: list[Waveform] = [read_audio(utterance.audio_path) for utterance in utterances]
        self._probabilities = Listener(model).compiled(_probabilities_of, CLIP_SIGNATURE)

    def recordings(self) -> list[Any]:
        """Sound and spectrogram of each."""
        values = []
        for number, (utterance, waveform) in enumerate(self._pairs(), start=1):
            about = _about(utterance)
            values.append(audio(f"utterance {number}/sound", waveform, about))
            values.append(image(f"utterance {number}/spectrogram", spectrogram_picture(waveform), about))
        return values

    def alignments(self, epoch: int) -> list[Any]:
        """Alignment and text of each."""
        values = []
        for number, (utterance, waveform) in enumerate(self._pairs(), start=1):
            alignment = self.alignment(utterance, waveform)
            about = _about(utterance)
            picture = alignment_picture(waveform, alignment, f"epoch {epoch}")
            values.append(image(f"utterance {number}/alignment", picture, about))
            values.append(text(f"utterance {number}/said and heard", f"{about}\n\n{_table(alignment)}"))
        return values

    def alignment(self, utterance: Utterance, waveform: Waveform) -> Alignment:
        """What the model makes of an utterance now."""
        probabilities = self._probabilities(waveform[None], np.array([len(waveform)], np.int32))
        return alignment_of(np.asarray(probabilities), utterance.tokens, self.vocabulary, self.model.frame_s)

    def _pairs(self) -> list[tuple[Utterance, Waveform]]:
        return list(zip(self.utterances, self.waveforms, strict=True))


def _probabilities_of(logits: Logits) -> Tensor:
    """Return the posteriors of the only clip in a batch, (T, V)."""
    values, num_frames = logits
    return tf.nn.softmax(tf.cast(values[0, : num_frames[0]], tf.float32))


def spread_over_lengths(utterances: Sequence[Utterance], num: int) -> list[Utterance]:
    """Some utterances from short to long, the same ones for the same set; all where there are no more."""
    by_length = sorted(utterances, key=lambda utterance: (utterance.duration_s, utterance.id))
    num = min(num, len(by_length))
    return [by_length[(2 * index + 1) * len(by_length) // (2 * num)] for index in range(num)]


def _about(utterance: Utterance) -> str:
    """An utterance's text and identity, as Markdown."""
    parts = (utterance.text, utterance.id, utterance.speaker, f"{utterance.duration_s:.1f} s")
    return " · ".join(markdown_escaped(part) for part in parts if part)


def _table(alignment: Alignment) -> str:
    """What was said above what was heard, as Markdown; what differs is bold, and has a letter below it."""
    lines = []
    for begin in range(0, len(alignment.pairs), TABLE_COLUMNS):
        pairs = alignment.pairs[begin : begin + TABLE_COLUMNS]
        said = [_cell(pair.reference, pair.edit != "equal") for pair in pairs]
        heard = [_cell(pair.hypothesis, pair.edit != "equal") for pair in pairs]
        edits = [EDIT_LETTERS[pair.edit] for pair in pairs]
        rows = [["said", *said], ["---"] * (len(pairs) + 1), ["heard", *heard]]
        rows += [["", *edits]] if any(edits) else []
        lines += [f"| {' | '.join(row)} |" for row in rows] + [""]
    return "\n".join(lines) or "nothing said, nothing heard"


def _cell(token: str, differs: bool) -> str:
    if not token:
        return "–"
    return f"**{markdown_escaped(token)}**" if differs else markdown_escaped(token)


def markdown_escaped(words: str) -> str:
    """Words that Markdown and HTML take as they are."""
    return "".join(c if c.isalnum() or c.isspace() or ord(c) > 127 else f"&#{ord(c)};" for c in words)
