"""What applications import.

from asr.recognizer import Recognizer

recognizer = Recognizer.load("runs/demo")
print(recognizer.transcribe("question.mp3").text)
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import tensorflow as tf

from asr.acoustic import AcousticModel, make_acoustic_model
from asr.audio import SAMPLE_RATE_HZ, AudioSource, Waveform, pad_waveforms, read_audio
from asr.checkpoint import restore_checkpoint
from asr.decoding.greedy import BestPath, best_path, hypotheses_of
from asr.run import Run
from asr.transcripts import STANDARD_INPUT
from asr.types import Hypothesis, Tensor, UserError
from asr.vocabulary import Vocabulary

FILES_AT_ONCE = 256  # read together, so that clips of like length share a batch
BYTES_AT_ONCE = 64 << 20
BATCH_SAMPLES = 120 * SAMPLE_RATE_HZ


class Recognizer:
    """A trained model that turns audio into text.

    Args:
        model: with its weights.
        vocabulary: of its outputs.
    """

    def __init__(self, model: AcousticModel, vocabulary: Vocabulary) -> None:
        self.model, self.vocabulary = model, vocabulary

    @classmethod
    def load(cls, run: str | Path) -> Recognizer:
        """The best model of a run directory.

        Raises:
            UserError: there is no run, or it has no checkpoint yet.
        """
        opened = Run.open(Path(run))
        vocabulary = opened.vocabulary()
        model = make_acoustic_model(opened.config(), vocabulary)
        restore_checkpoint(opened.checkpoint(), model)
        return cls(model, vocabulary)

    def transcribe(self, audio: AudioSource) -> Hypothesis:
        """What is said in one recording.

        Args:
            audio: a path, or a binary file object; any rate, channels and container of libsndfile.

        Raises:
            UserError: it is no sound recording.
        """
        name = str(audio) if isinstance(audio, str | Path) else "-"
        return self.transcribe_waveforms([read_audio(audio)], [name])[0]

    def transcribe_files(self, paths: Sequence[Path]) -> Iterator[Hypothesis | UserError]:
        """What is said in each file, in order; for a file that cannot be read, why."""
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            for chunk in _chunks(paths):
                read = list(pool.map(_read_or_error, chunk))
                sound = [
                    (str(p), w) for p, w in zip(chunk, read, strict=True) if not isinstance(w, UserError)
                ]
                heard = iter(self.transcribe_waveforms([w for _, w in sound], [name for name, _ in sound]))
                for waveform in read:
                    yield waveform if isinstance(waveform, UserError) else next(heard)

    def transcribe_waveforms(self, waveforms: Sequence[Waveform], names: Sequence[str]) -> list[Hypothesis]:
        """What is said in each waveform, in order.

        Args:
            waveforms: (S,) int16 at 16 kHz each, at least 400 samples.
            names: for `Hypothesis.utterance_id`.
        """
        by_length = sorted(range(len(waveforms)), key=lambda place: len(waveforms[place]))
        heard: dict[int, Hypothesis] = {}
        while by_length:
            longest = len(waveforms[by_length[-1]])
            size = max(1, BATCH_SAMPLES // longest)
            places, by_length = by_length[-size:], by_length[:-size]
            audio, num_samples = pad_waveforms([waveforms[place] for place in places])
            path = BestPath(*self._decode(audio, num_samples))
            hypotheses = hypotheses_of(path, [names[p] for p in places], self.vocabulary, self.model.frame_s)
            heard.update(zip(places, hypotheses, strict=True))
        return [heard[place] for place in range(len(waveforms))]

    @functools.cached_property
    def _decode(self) -> Any:
        def decode(audio: Tensor, num_samples: Tensor) -> BestPath:
            return best_path(self.model(audio, num_samples))

        signature = [tf.TensorSpec((None, None), tf.int16), tf.TensorSpec((None,), tf.int32)]
        return tf.function(decode, input_signature=signature)


def _chunks(paths: Sequence[Path]) -> Iterator[list[Path]]:
    """Files to read together: not too many, and not too large."""
    chunk: list[Path] = []
    num_bytes = 0
    for path in paths:
        try:
            size = path.stat().st_size
        except (OSError, ValueError):
            size = 0  # reading it will tell why
        if chunk and (len(chunk) == FILES_AT_ONCE or num_bytes + size > BYTES_AT_ONCE):
            yield chunk
            chunk, num_bytes = [], 0
        chunk.append(path)
        num_bytes += size
    if chunk:
        yield chunk


def _read_or_error(path: Path) -> Waveform | UserError:
    try:
        if str(path) != STANDARD_INPUT:
            return read_audio(path)
        if sys.stdin is None:  # closed by who started us
            raise UserError("-: standard input is closed; pipe a recording into it")
        return read_audio(sys.stdin.buffer)
    except UserError as error:
        return error
