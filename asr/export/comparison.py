"""Run an exported model and the trained model on the same clips, and measure how they differ."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from asr.base.types import EditCounts, Utterance
from asr.base.vocabulary import Vocabulary
from asr.base.work import OnProgress, Work, ignore_progress
from asr.ctc.greedy import collapse
from asr.evaluation.errors.metrics import count_edits
from asr.evaluation.written_text import characters_of
from asr.export.format import Bounds, Outputs, Waveform, Written
from asr.export.parity import Parity
from asr.export.worker import RuntimeProcess
from asr.language.hanzi.converter import Converter
from asr.model.logit_difference import allowed_difference, largest_difference
from asr.transcription.text_writer import TextWriter

if TYPE_CHECKING:
    from asr.evaluation.evaluator import EvaluationData
    from asr.model.acoustic_model import AcousticModel
    from asr.transcription.recognizer import Recognizer

Logits2D: TypeAlias = npt.NDArray[np.float32]  # (T, V)


class ExportedFolder(NamedTuple):
    """A folder that a format wrote.

    Attributes:
        path: of the folder.
        runtime: "module:class" of the `Runtime` that runs the exported model.
        written: what the format says about it.
    """

    path: Path
    runtime: str
    written: Written


def measure(
    recognizer: Recognizer,
    data: EvaluationData,
    manifest: Path,
    exported: ExportedFolder,
    bounds: Bounds,
    on_progress: OnProgress = ignore_progress,
) -> Parity:
    """Run both models on all clips of a set: the exported one clip by clip, and in padded batches if it can.

    Args:
        recognizer: the trained model, with greedy decoding.
        data: the set.
        manifest: path of the set.
        exported: the exported model.
        bounds: of the differences.
        on_progress: receives how many clips are done.

    Raises:
        UserError: the runtime cannot load the model.
    """
    comparison = _Comparison(recognizer.vocabulary, recognizer.model, bounds)
    num_clips, num_done = len(data.utterances), 0
    folder, runtime, written = exported
    with contextlib.ExitStack() as stack:
        # two processes: the memory of one clip at a time is measured
        alone = stack.enter_context(RuntimeProcess(runtime, folder))
        together = stack.enter_context(RuntimeProcess(runtime, folder)) if alone.takes_batches else None
        streaming = written.stream_runtime
        streams = stack.enter_context(RuntimeProcess(streaming, folder)) if streaming else None
        for indices, waveforms, logits in _trained_logits(recognizer, data):
            batch = together.run(waveforms)[0] if together else None
            for row, index in enumerate(indices):
                (output,), run_s = alone.run([waveforms[row]])
                outputs = [output, *([batch[row]] if batch else [])]
                streamed = streams.run([waveforms[row]])[0][0] if streams else None
                clip = Clip(data.utterances[index], waveforms[row], logits[row])
                comparison.add(clip, outputs, streamed)
                comparison.run_s += run_s
            num_done += len(indices)
            on_progress(Work("comparing the exported model", num_done, num_clips, "clips"))
        difference, allowed = comparison.worst_difference()
        return Parity(
            manifest=str(manifest),
            num_clips=num_clips,
            audio_s=sum(utterance.duration_s for utterance in data.utterances),
            token=recognizer.vocabulary.token_name,
            max_logit_difference=difference,
            allowed_logit_difference=allowed,
            num_same_tokens=comparison.num_same_tokens,
            changed=comparison.changed,
            trained=comparison.trained,
            exported=comparison.exported,
            size_bytes=sum((folder / name).stat().st_size for name in written.model_files),
            load_s=alone.load_s,
            run_s=comparison.run_s,
            peak_memory_bytes=alone.peak_memory_bytes(),
            written=comparison.written(),
            streamed=(comparison.streamed, comparison.num_same_streamed) if streams else None,
            max_time_difference_s=comparison.max_time_difference_s,
        )


class Clip(NamedTuple):
    """A clip on which both models run: the utterance, its samples, and the trained model's logits."""

    utterance: Utterance
    waveform: Waveform
    logits: Logits2D


class _Comparison:
    """The differences of clips, added up; only its methods and `measure` change it.

    Args:
        vocabulary: of the logits.
        model: the trained model.
        bounds: of the differences.
    """

    def __init__(self, vocabulary: Vocabulary, model: AcousticModel, bounds: Bounds) -> None:
        self._vocabulary, self._model, self._bounds = vocabulary, model, bounds
        self._differences: list[tuple[float, float | None]] = []  # of logits, and what is allowed
        self._is_beyond = False  # whether one is larger than what is allowed
        self.max_time_difference_s: float | None = None
        self.num_same_tokens, self.trained = 0, EditCounts()
        self._changed, self._exported = [EditCounts()] * 2, [EditCounts()] * 2  # alone, in a batch
        self.writes = False
        self.trained_written, self.exported_written = EditCounts(), EditCounts()
        self.num_same_streamed, self.streamed = 0, EditCounts()
        self.run_s = 0.0

    def add(self, clip: Clip, outputs: Sequence[Outputs], streamed: Outputs | None) -> None:
        """Compare the outputs for a clip.

        Args:
            clip: the clip, with the logits of the trained model.
            outputs: of the exported model, alone and in a batch.
            streamed: of the exported model on the clip as a stream; None if it has none.
        """
        utterance = clip.utterance
        reference = utterance.tokens
        ids, frames = collapse(np.argmax(clip.logits, axis=-1))
        tokens = self._vocabulary.decode(ids.tolist())
        found = []
        for output in outputs:
            if output.logits is not None:
                self._add_difference(clip, largest_difference(clip.logits, output.logits))
            found.append(self._tokens_of(output))
            if output.times_s is not None and found[-1] == tokens:
                differences = np.abs(frames * self._model.frame_s - np.asarray(output.times_s))
                largest = float(np.max(differences, initial=0.0))
                self.max_time_difference_s = max(self.max_time_difference_s or 0.0, largest)
        self.num_same_tokens += all(other == tokens for other in found)
        self.trained += count_edits(reference, tokens)
        for place, other in enumerate(found):
            self._changed[place] += count_edits(tokens, other)
            self._exported[place] += count_edits(reference, other)
        if outputs[0].text is not None and utterance.text:
            self.writes = True
            characters = characters_of(utterance.text)
            self.trained_written += count_edits(characters, characters_of(self._written(tokens)))
            self.exported_written += count_edits(characters, characters_of(outputs[0].text))
        if streamed is not None:
            found_in_stream = self._tokens_of(streamed)
            self.num_same_streamed += found_in_stream == tokens
            self.streamed += count_edits(reference, found_in_stream)

    @property
    def changed(self) -> EditCounts:
        """Return the edits from the trained model's tokens, alone or in batches, whichever are more."""
        return max(self._changed, key=lambda edits: edits.errors)

    @property
    def exported(self) -> EditCounts:
        """Return the exported model's errors, alone or in batches, whichever are more."""
        return max(self._exported, key=lambda edits: edits.errors)

    def _add_difference(self, clip: Clip, difference: float) -> None:
        allowed = None
        if self._bounds.same_logits:
            # asking the model takes long, and is in vain once another clip was beyond what is allowed
            is_asked = not self._is_beyond
            allowed = allowed_difference(difference, self._model if is_asked else None, clip.waveform)
            self._is_beyond |= not difference <= allowed
        self._differences.append((difference, allowed))

    def worst_difference(self) -> tuple[float | None, float | None]:
        """Return the largest difference of logits and what is allowed; None for what there is not.

        It is the largest part of what is allowed, or NaN.
        """
        if not self._differences:
            return None, None
        parts = [difference / (allowed or 1.0) for difference, allowed in self._differences]
        return self._differences[int(np.argmax(parts))]  # the first NaN, if there is one

    def written(self) -> tuple[EditCounts, EditCounts] | None:
        """Return the errors of the written texts, trained and exported; None if none were written."""
        return (self.trained_written, self.exported_written) if self.writes else None

    def _tokens_of(self, output: Outputs) -> tuple[str, ...]:
        if output.tokens is not None:
            return output.tokens
        assert output.logits is not None, "a runtime gives logits, tokens or both"
        return self._vocabulary.decode(collapse(np.argmax(output.logits, axis=-1))[0].tolist())

    def _written(self, tokens: Sequence[str]) -> str:
        """Return the text of the trained model's tokens, as `asr transcribe --hanzi general` writes it."""
        if self._vocabulary.is_mandarin:
            return TextWriter(self._vocabulary, self._converter).text(tokens)
        return self._vocabulary.join(tokens)

    @functools.cached_property
    def _converter(self) -> Converter:
        return Converter.load()


def _trained_logits(
    recognizer: Recognizer, data: EvaluationData
) -> Iterator[tuple[list[int], list[Waveform], list[Logits2D]]]:
    """Yield, batch by batch, the indices of utterances, their waveforms and the trained model's logits."""
    logits_of = recognizer.runner.compiled(lambda logits: logits)
    plan, batches = data.in_order()
    for indices, batch in zip(plan, batches, strict=True):
        logits = logits_of(batch.audio, batch.num_samples)
        audio, num_samples = np.asarray(batch.audio), np.asarray(batch.num_samples)
        values, num_frames = np.asarray(logits.values), np.asarray(logits.num_frames)
        rows = range(len(indices))
        yield (
            indices,
            [audio[row, : num_samples[row]] for row in rows],
            [values[row, : num_frames[row]] for row in rows],
        )
