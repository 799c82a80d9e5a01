"""Compare an exported model with the trained model, clip by clip, by running both."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from asr.base.types import EditCounts, Utterance
from asr.base.vocabulary import Vocabulary
from asr.base.wording import counted, file_size
from asr.base.work import OnProgress, Work, ignore_progress
from asr.evaluation.metrics import count_edits, token_name
from asr.evaluation.written_text import characters_of
from asr.export.format import Bounds, Outputs, Waveform
from asr.export.worker import RuntimeProcess
from asr.language.hanzi.converter import Converter
from asr.recognition.decoding.greedy import collapse

if TYPE_CHECKING:
    from asr.evaluation.evaluator import EvaluationData
    from asr.recognition.recognizer import Recognizer

Logits2D: TypeAlias = npt.NDArray[np.float32]  # (T, V)

FEW_ERRORS = 3  # more than the trained model's are always allowed where errors may increase


@dataclass(frozen=True)
class Parity:
    """Holds what a comparison measured.

    Attributes:
        manifest: path of the clips' manifest.
        num_clips: number of clips.
        audio_s: seconds of all clips.
        token: what one token is called, such as "syllable".
        max_logit_difference: largest difference of a logit, alone and in batches; None without logits.
        num_same_tokens: clips whose tokens are the same, alone and in batches.
        trained: errors of the trained model, greedy.
        exported: errors of the exported model.
        size_bytes: size of the model file.
        load_s: seconds in which a new process imports the runtime and loads the model.
        run_s: seconds in which it ran all clips, one by one.
        peak_memory_bytes: largest size of that process in memory.
        written: errors in the characters of texts, where the runtime writes them: of the trained model's
            tokens, converted by the general model of hanzi if they are syllables, and of the runtime's texts.
        streamed: errors of the exported model on clips as streams, and the clips whose tokens are the same.
    """

    manifest: str
    num_clips: int
    audio_s: float
    token: str
    max_logit_difference: float | None
    num_same_tokens: int
    trained: EditCounts
    exported: EditCounts
    size_bytes: int
    load_s: float
    run_s: float
    peak_memory_bytes: int
    written: tuple[EditCounts, EditCounts] | None = None
    streamed: tuple[EditCounts, int] | None = None

    @property
    def real_time_factor(self) -> float:
        """Return the seconds of computing for a second of audio."""
        return self.run_s / self.audio_s

    def as_json(self) -> dict[str, Any]:
        """Return what `model.json` says about it."""
        found: dict[str, Any] = {
            "manifest": self.manifest,
            "clips": self.num_clips,
            "audio_s": round(self.audio_s, 3),
            "token": self.token,
            "largest_logit_difference": self.max_logit_difference,
            "clips_with_same_tokens": self.num_same_tokens,
            "error_rate_trained": self.trained.rate,
            "error_rate_exported": self.exported.rate,
            "errors_trained": dataclasses.asdict(self.trained),
            "errors_exported": dataclasses.asdict(self.exported),
            "size_bytes": self.size_bytes,
            "load_s": round(self.load_s, 4),
            "real_time_factor": round(self.real_time_factor, 6),
            "peak_memory_bytes": self.peak_memory_bytes,
        }
        if self.written:
            found["character_error_rate_trained"], found["character_error_rate_exported"] = (
                edits.rate for edits in self.written
            )
        if self.streamed:
            found["error_rate_streamed"] = self.streamed[0].rate
            found["clips_with_same_tokens_streamed"] = self.streamed[1]
        return found

    def beyond(self, bounds: Bounds) -> list[str]:
        """Return a sentence about each bound that is exceeded."""
        found = []
        difference, most = self.max_logit_difference, bounds.logit_difference
        if difference is not None and most is not None and not difference <= most:
            found.append(f"logits differ by up to {difference:.3g}, at most {most:g} is allowed")
        if bounds.same_tokens and self.num_same_tokens < self.num_clips:
            different = counted(self.num_clips - self.num_same_tokens, "clip")
            found.append(f"the tokens of {different} differ, none may")
        rates = [(f"{self.token} error rate", self.trained, self.exported, bounds.extra_errors)]
        if self.written:
            rates.append(("character error rate", *self.written, bounds.extra_written_errors))
        for name, trained, exported, extra in rates:
            more = exported.errors - trained.errors
            if extra is not None and more > max(FEW_ERRORS, extra * trained.reference_length):
                found.append(
                    f"the {name} is {exported.rate:.2%}, at most {extra:.1%} above the trained model's "
                    f"{trained.rate:.2%} is allowed"
                )
        return found


def measure(
    recognizer: Recognizer,
    data: EvaluationData,
    runtime: str,
    folder: Path,
    *,
    manifest: Path,
    size_bytes: int,
    stream_runtime: str = "",
    on_progress: OnProgress = ignore_progress,
) -> Parity:
    """Run both models on all clips of a set: the exported one clip by clip, and in padded batches if it can.

    Args:
        recognizer: the trained model, with greedy decoding.
        data: the set.
        runtime: "module:class" of the `Runtime` that runs the exported model.
        folder: the exported model.
        manifest: path of the set.
        size_bytes: size of the model file.
        stream_runtime: the same of one that runs clips as streams; empty if there is none.
        on_progress: receives how many clips are done.

    Raises:
        UserError: the runtime cannot load the model.
    """
    comparison = _Comparison(recognizer.vocabulary)
    num_clips, num_done = len(data.utterances), 0
    with contextlib.ExitStack() as stack:
        # two processes: the memory of one clip at a time is measured
        alone = stack.enter_context(RuntimeProcess(runtime, folder))
        together = stack.enter_context(RuntimeProcess(runtime, folder)) if alone.takes_batches else None
        streams = stack.enter_context(RuntimeProcess(stream_runtime, folder)) if stream_runtime else None
        for places, waveforms, logits in _trained_logits(recognizer, data):
            batch = together.run(waveforms)[0] if together else None
            for row, place in enumerate(places):
                (output,), run_s = alone.run([waveforms[row]])
                outputs = [output, *([batch[row]] if batch else [])]
                streamed = streams.run([waveforms[row]])[0][0] if streams else None
                comparison.add(data.utterances[place], logits[row], outputs, streamed)
                comparison.run_s += run_s
            num_done += len(places)
            on_progress(Work("comparing the exported model", num_done, num_clips, "clips"))
        return Parity(
            str(manifest),
            num_clips,
            sum(utterance.duration_s for utterance in data.utterances),
            token_name(data.utterances),
            comparison.max_logit_difference,
            comparison.num_same_tokens,
            comparison.trained,
            comparison.exported,
            size_bytes,
            alone.load_s,
            comparison.run_s,
            alone.peak_memory_bytes(),
            (comparison.trained_written, comparison.exported_written) if comparison.writes else None,
            (comparison.streamed, comparison.num_same_streamed) if streams else None,
        )


class _Comparison:
    """Adds up the differences of clips; only its methods and `measure` change it.

    Args:
        vocabulary: of the logits.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self.max_logit_difference: float | None = None
        self.num_same_tokens = 0
        self.trained, self.exported = EditCounts(), EditCounts()
        self.writes = False
        self.trained_written, self.exported_written = EditCounts(), EditCounts()
        self.num_same_streamed, self.streamed = 0, EditCounts()
        self.run_s = 0.0

    def add(
        self, utterance: Utterance, logits: Logits2D, outputs: Sequence[Outputs], streamed: Outputs | None
    ) -> None:
        """Compare the outputs for a clip, the first of which counts for the error rate.

        Args:
            utterance: the clip.
            logits: of the trained model.
            outputs: of the exported model, alone and in a batch.
            streamed: of the exported model on the clip as a stream; None if it has none.
        """
        reference = utterance.tokens
        tokens = self._greedy_tokens(logits)
        found = []
        for output in outputs:
            if output.logits is not None:
                difference = largest_difference(logits, output.logits)
                # NaN stays
                self.max_logit_difference = float(np.maximum(self.max_logit_difference or 0.0, difference))
            found.append(self._tokens_of(output))
        self.num_same_tokens += all(other == tokens for other in found)
        self.trained += count_edits(reference, tokens)
        self.exported += count_edits(reference, found[0])
        if outputs[0].text is not None and utterance.text:
            self.writes = True
            characters = characters_of(utterance.text)
            self.trained_written += count_edits(characters, characters_of(self._written(tokens)))
            self.exported_written += count_edits(characters, characters_of(outputs[0].text))
        if streamed is not None:
            found_in_stream = self._tokens_of(streamed)
            self.num_same_streamed += found_in_stream == tokens
            self.streamed += count_edits(reference, found_in_stream)

    def _tokens_of(self, output: Outputs) -> tuple[str, ...]:
        return output.tokens if output.tokens is not None else self._greedy_tokens(output.logits)

    def _written(self, tokens: Sequence[str]) -> str:
        """Return the text of the trained model's tokens, as `asr transcribe --hanzi general` writes it."""
        if self._vocabulary.is_mandarin:
            return self._converter.convert(tokens).text
        return self._vocabulary.join(tokens)

    @functools.cached_property
    def _converter(self) -> Converter:
        return Converter.load()

    def _greedy_tokens(self, logits: Logits2D | None) -> tuple[str, ...]:
        assert logits is not None, "a runtime gives logits, tokens or both"
        return self._vocabulary.decode(collapse(np.argmax(logits, axis=-1))[0].tolist())


def largest_difference(expected: Logits2D, received: Logits2D) -> float:
    """Return the largest difference of logits (T, V); infinity if their shapes differ, NaN where one is."""
    if expected.shape != received.shape:
        return math.inf
    return float(np.max(np.abs(expected - received), initial=0.0))


def _trained_logits(
    recognizer: Recognizer, data: EvaluationData
) -> Iterator[tuple[list[int], list[Waveform], list[Logits2D]]]:
    """Yield, batch by batch, the indices of utterances, their waveforms and the trained model's logits."""
    logits_of = recognizer.listener.compiled(lambda logits: logits)
    plan, batches = data.in_order()
    for places, batch in zip(plan, batches, strict=True):
        logits = logits_of(batch.audio, batch.num_samples)
        audio, num_samples = np.asarray(batch.audio), np.asarray(batch.num_samples)
        values, num_frames = np.asarray(logits.values), np.asarray(logits.num_frames)
        rows = range(len(places))
        yield (
            places,
            [audio[row, : num_samples[row]] for row in rows],
            [values[row, : num_frames[row]] for row in rows],
        )


def parity_rows(parity: Parity, bounds: Bounds) -> list[tuple[str, str, str]]:
    """Return a table of a comparison, headings first."""
    difference, allowed = parity.max_logit_difference, bounds.logit_difference
    most = "" if allowed is None else f" (at most {allowed:g})"

    def same(number: int) -> str:
        return f"{number:,} of {parity.num_clips:,}"

    rows = [
        ("", "trained", "exported"),
        (f"{parity.token} error rate, greedy", f"{parity.trained.rate:.2%}", f"{parity.exported.rate:.2%}"),
    ]
    if parity.written:
        trained, exported = parity.written
        rows.append(("character error rate, as written", f"{trained.rate:.2%}", f"{exported.rate:.2%}"))
    if parity.max_logit_difference is not None:
        rows.append((f"largest logit difference{most}", "", f"{difference:.2g}"))
    rows.append(("clips with the same tokens", "", same(parity.num_same_tokens)))
    if parity.streamed:
        edits, num_same = parity.streamed
        rows.append((f"{parity.token} error rate of streams", "", f"{edits.rate:.2%}"))
        rows.append(("streams with the same tokens", "", same(num_same)))
    return [
        *rows,
        ("size of the model", "", file_size(parity.size_bytes)),
        ("time to load it", "", f"{parity.load_s:.2f} s"),
        ("time for a second of audio", "", f"{1000 * parity.real_time_factor:.2f} ms"),
        ("peak memory", "", file_size(parity.peak_memory_bytes)),
    ]
