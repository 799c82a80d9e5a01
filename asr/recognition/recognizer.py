"""What applications import.

from asr.recognition.recognizer import Recognizer

recognizer = Recognizer.load("runs/demo")
print(recognizer.transcribe("question.mp3").text)
"""

from __future__ import annotations

import functools
import itertools
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import tensorflow as tf

from asr.audio.recording import (
    SAMPLE_RATE_HZ,
    AudioSource,
    Waveform,
    audio_header,
    pad_waveforms,
    read_audio,
)
from asr.audio.voice_activity import speech_pieces
from asr.base.decoder_settings import GENERAL, DecoderSettings
from asr.base.types import Hypothesis, Tensor, UserError
from asr.base.vocabulary import Vocabulary
from asr.model.acoustic_model import AcousticModel, make_acoustic_model
from asr.model.spread import Spread, on_one_device
from asr.recognition.decoding.decoder import Decoder, GreedyDecoder, Reduced, make_decoder
from asr.recognition.long_audio import BATCH_SAMPLES, LongAudioRecognizer, joined
from asr.recognition.transcripts import STANDARD_INPUT, Result
from asr.runs.checkpoint import DamagedCheckpointError, load_decoding_weights
from asr.runs.run import Run

if TYPE_CHECKING:
    from asr.language.hanzi.converter import Converter
    from asr.recognition.decoding.hot_words import HotWords

LONG_S = 60.0  # of longer ones memory holds a few pieces at a time
# models are trained on sentences: what is longer, or has long pauses, is cut at those
WHOLE_S, SURELY_WHOLE_S, PAUSE_S = 20.0, 4.0, 0.8
# for each device
FILES_AT_ONCE = 256  # read together, so that clips of like length share a batch
BYTES_AT_ONCE = 64 << 20


OnProgress = Callable[[str, float], None]


class LongRecording(NamedTuple):
    """One to hear piece by piece."""

    source: AudioSource | Waveform


Opened = Waveform | LongRecording


class Recognizer:
    """A trained model that turns audio into text.

    Args:
        model: with its weights.
        vocabulary: of its outputs.
        spread: puts a function of a batch on several devices.
        num_devices: on how many; a batch holds so many times what one device takes.
        decoder: of its logits; greedy where none is given.
    """

    def __init__(
        self,
        model: AcousticModel,
        vocabulary: Vocabulary,
        spread: Spread = on_one_device,
        num_devices: int = 1,
        decoder: Decoder | None = None,
    ) -> None:
        self.model, self.vocabulary = model, vocabulary
        self.spread, self.num_devices = spread, num_devices
        self.decoder = decoder or GreedyDecoder(vocabulary, model.frame_s)

    @classmethod
    def load(
        cls,
        run: str | Path,
        spread: Spread = on_one_device,
        num_devices: int = 1,
        *,
        settings: DecoderSettings | None = None,
        hot_words: HotWords | None = None,
        hanzi: bool | str | Path = True,
    ) -> Recognizer:
        """The best model of a run directory.

        Args:
            run: its path.
            spread: see `Recognizer`.
            num_devices: see `Recognizer`.
            settings: of the decoder; what `asr tune-decoder` found, or greedy decoding, where none are given.
            hot_words: which the decoder favours.
            hanzi: whether to convert a Mandarin model's syllables to hanzi; or the folder of `asr lm train`
                to do it by, or `general` for the model that comes with this package. By default that is the
                language model of the settings if it can, else the general one.

        Raises:
            UserError: there is no run, it has no checkpoint yet, or a language model cannot be used.
        """
        opened = Run.open(Path(run))
        vocabulary = opened.vocabulary()
        settings = settings or opened.decoder_settings()
        if isinstance(hanzi, str | Path) and not vocabulary.is_mandarin:
            raise UserError(f"{run}: its tokens are no syllables to convert; leave {hanzi} out")
        needs_words = hanzi or (settings.beam > 1 and settings.hanzi_weight)
        converter = converter_of(settings, hanzi) if needs_words and vocabulary.is_mandarin else None
        model = make_acoustic_model(opened.config(), vocabulary)
        path = opened.best_checkpoint()
        try:
            load_decoding_weights(path, model)
        except DamagedCheckpointError as error:
            raise UserError(f"{error}; remove it, and the next best one is used") from None
        except UserError:
            if path.exists():
                raise
            # training has found a better one meanwhile
            load_decoding_weights(opened.best_checkpoint(), model)
        if not all(np.isfinite(weight).all() for weight in model.get_weights()):
            raise UserError(
                f"{path}: its weights have diverged, they are no numbers; decode with an earlier checkpoint, "
                "or train again with a lower train.learning_rate"
            )
        decoder = make_decoder(
            vocabulary, model.frame_s, settings, hot_words, converter, writes_hanzi=bool(hanzi)
        )
        return cls(model, vocabulary, spread, num_devices, decoder)

    def transcribe(self, audio: AudioSource) -> Hypothesis:
        """What is said in one recording of any length.

        Args:
            audio: a path, or a binary file object; any rate, channels and container of libsndfile.

        Raises:
            UserError: it is no sound recording.
        """
        name = str(audio) if isinstance(audio, str | Path) else STANDARD_INPUT
        (result,) = self._hear([name], [_opened(audio)], lambda *_: None)
        if isinstance(result, UserError):
            raise result
        return result

    def transcribe_files(self, paths: Sequence[Path]) -> Iterator[Result]:
        """What is said in each file, in order; for a file that cannot be read, why."""
        return itertools.chain.from_iterable(self.transcribe_chunks(self.chunks(paths)))

    def chunks(self, paths: Sequence[Path]) -> list[list[Path]]:
        """Files cut into those to read together: not too many, and not too large."""
        max_files, max_bytes = FILES_AT_ONCE * self.num_devices, BYTES_AT_ONCE * self.num_devices
        chunks: list[list[Path]] = []
        num_bytes = 0
        for path in paths:
            size = _size_bytes(path)
            if not chunks or len(chunks[-1]) == max_files or num_bytes + size > max_bytes:
                chunks.append([])
                num_bytes = 0
            chunks[-1].append(path)
            num_bytes += size
        return chunks

    def transcribe_chunks(
        self, chunks: Sequence[Sequence[Path]], on_progress: OnProgress = lambda *_: None
    ) -> Iterator[list[Result]]:
        """What is said in the files of each chunk.

        Scores depend on what shares a batch, in their last digits: the same chunk gives the same results.

        Args:
            chunks: of paths, see `chunks`.
            on_progress: is told the name of a long recording, and how many seconds of it have been read.
        """
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            opening: Iterator[Opened | UserError] = iter(())
            for chunk, following in itertools.pairwise([[], *chunks, []]):
                opened = list(opening)
                opening = pool.map(_opened_or_error, following)  # while this chunk is being heard
                if chunk:
                    yield self._hear([str(path) for path in chunk], opened, on_progress)

    def _hear(
        self, names: Sequence[str], opened: Sequence[Opened | UserError], on_progress: OnProgress
    ) -> list[Result]:
        short = [(n, o) for n, o in zip(names, opened, strict=True) if isinstance(o, np.ndarray)]
        heard = iter(self.transcribe_waveforms([waveform for _, waveform in short], [n for n, _ in short]))
        results: list[Result] = []
        for name, recording in zip(names, opened, strict=True):
            if isinstance(recording, LongRecording):
                results.append(self._hear_long(name, recording, on_progress))
            else:
                results.append(recording if isinstance(recording, UserError) else next(heard))
        return results

    def _hear_long(self, name: str, recording: LongRecording, on_progress: OnProgress) -> Result:
        told = functools.partial(on_progress, name)
        try:
            return joined(list(self._long_audio.segments(recording.source, name, told)), name)
        except UserError as error:
            return error

    def transcribe_waveforms(self, waveforms: Sequence[Waveform], names: Sequence[str]) -> list[Hypothesis]:
        """What is said in each waveform, in order.

        Args:
            waveforms: (S,) int16 at 16 kHz each, at least 400 samples and at most some minutes.
            names: for `Hypothesis.utterance_id`.
        """
        by_length = sorted(range(len(waveforms)), key=lambda place: len(waveforms[place]))
        heard: dict[int, Hypothesis] = {}
        while by_length:
            longest = len(waveforms[by_length[-1]])
            size = self.num_devices * max(1, BATCH_SAMPLES // longest)
            places, by_length = by_length[-size:], by_length[:-size]
            audio, num_samples = pad_waveforms([waveforms[place] for place in places])
            reduced = self._compiled_step(audio, num_samples)
            hypotheses = self.decoder.hypotheses(reduced, [names[place] for place in places])
            heard.update(zip(places, hypotheses, strict=True))
        return [heard[place] for place in range(len(waveforms))]

    @functools.cached_property
    def _long_audio(self) -> LongAudioRecognizer:
        return LongAudioRecognizer(self)

    @functools.cached_property
    def _compiled_step(self) -> Any:
        def step(audio: Tensor, num_samples: Tensor) -> Reduced:
            return self.decoder.reduce(self.model(audio, num_samples))

        signature = [tf.TensorSpec((None, None), tf.int16), tf.TensorSpec((None,), tf.int32)]
        return tf.function(self.spread(step), input_signature=signature)


def converter_of(settings: DecoderSettings, hanzi: bool | str | Path = True) -> Converter:
    """The converter that decoding with some settings uses; see `Recognizer.load`."""
    from asr.language.hanzi.converter import Converter
    from asr.language.ngram.folder import converts_to_hanzi

    if hanzi == GENERAL:
        return Converter.load()
    if not isinstance(hanzi, bool):
        return Converter.load(Path(hanzi))
    own = Path(settings.language_model) if settings.language_model else None
    return Converter.load(own if own and converts_to_hanzi(own) else None)


def _size_bytes(path: Path) -> int:
    try:
        return path.stat().st_size
    except (OSError, ValueError):
        return 0  # reading it will tell why


def _opened_or_error(path: Path) -> Opened | UserError:
    try:
        if str(path) != STANDARD_INPUT:
            return _opened(path)
        if sys.stdin is None:  # closed by who started us
            raise UserError("-: standard input is closed; pipe a recording into it")
        return _opened(sys.stdin.buffer)
    except UserError as error:
        return error


def _opened(source: AudioSource) -> Opened:
    """A recording, read unless it is long."""
    # a pipe can be read but once
    if isinstance(source, str | Path) and Path(source).is_file() and audio_header(source).duration_s > LONG_S:
        return LongRecording(source)
    waveform = read_audio(source)
    duration_s = len(waveform) / SAMPLE_RATE_HZ
    in_pieces = duration_s > WHOLE_S or (duration_s > SURELY_WHOLE_S and _longest_pause_s(waveform) > PAUSE_S)
    return LongRecording(waveform) if in_pieces else waveform


def _longest_pause_s(waveform: Waveform) -> float:
    pieces = list(speech_pieces([waveform], grid=1))
    begins = [piece.begin for piece in pieces]
    ends = [piece.begin + len(piece.waveform) for piece in pieces]
    return float(np.max(np.subtract([*begins, len(waveform)], [0, *ends]))) / SAMPLE_RATE_HZ
