"""Transcribes recordings of any length with a trained model.

from asr import Recognizer

recognizer = Recognizer.load("runs/demo")
print(recognizer.transcribe("question.mp3").text)
"""

from __future__ import annotations

import functools
import itertools
import logging
import os
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from asr.audio.opening import LongRecording, Opened, open_recording
from asr.audio.recording import AudioSource
from asr.base.decoder_settings import DecoderSettings
from asr.base.errors import UserError
from asr.base.model_files.named import default_run
from asr.base.system.storage.refusals import StorageError
from asr.base.text.wording import duration
from asr.base.vocabulary import Vocabulary
from asr.base.work import OnProgress, Work, ignore_progress
from asr.ctc.hot_words import HotWords
from asr.model.devices import (
    ONE_DEVICE,
    Devices,
    ModelDevices,
    runs_on_the_cpu,
    start_model_devices,
)
from asr.model.runner import ModelRunner
from asr.runs.chosen_model import chosen_model, cpu_runner
from asr.runs.run import Run
from asr.transcription.clips import ClipRecognizer
from asr.transcription.decoder import Decoder
from asr.transcription.decoder_choice import GREEDY_TOKENS, DecoderChoice
from asr.transcription.file_recognizer import LoadedFrom, file_chunks
from asr.transcription.files import STANDARD_INPUT
from asr.transcription.long_audio import LongAudioRecognizer
from asr.transcription.streaming.stream import Stream
from asr.transcription.streaming.stream_logits import StreamingRunner
from asr.transcription.transcript import Transcript

if TYPE_CHECKING:
    from asr.model.acoustic_model import AcousticModel

logger = logging.getLogger(__name__)


class Recognizer:
    """A trained model on its devices, with a decoder; a `FileRecognizer`.

    Args:
        runner: the model on its devices.
        vocabulary: of its outputs.
        decoder: of its logits; None for greedy decoding.
        origin: what all three were loaded from; None if unknown.
    """

    def __init__(
        self,
        runner: ModelRunner,
        vocabulary: Vocabulary,
        decoder: Decoder | None = None,
        origin: LoadedFrom | None = None,
    ) -> None:
        self.runner, self.vocabulary, self.origin = runner, vocabulary, origin
        self.decoder = decoder or Decoder.greedy(vocabulary, runner.model.frame_s)

    @classmethod
    def load(
        cls,
        run: str | Path | None = None,
        devices: Devices = ONE_DEVICE,
        *,
        settings: DecoderSettings | None = None,
        hot_words: HotWords | None = None,
        write_hanzi: bool = True,
        hanzi_model: str | Path | None = None,
        itn: bool = False,
    ) -> Recognizer:
        """Load the chosen epoch of a run, or a model file.

        Args:
            run: a run's directory, a model file that `asr export --format polyphone` wrote, or its address;
                None for the model `general`, if the installation carries one that recognizes.
            devices: on which the model runs: the whole model on each, or, with the engine "stages", layers of
                a model that does not fit on one.
            settings: of the decoder; None for those that `asr tune-decoder` saved, else greedy decoding.
            hot_words: words that the decoder favours.
            write_hanzi: whether the text of a Mandarin model is hanzi; else it is the syllables.
            hanzi_model: a folder of `asr lm train` whose words are used, besides those of the general model,
                to convert syllables to hanzi; None for the language model of the settings if it has words.
                `asr.language.hanzi.converter.GENERAL_MODEL` is the general model alone.
            itn: whether numbers are written in digits (inverse text normalisation).

        Raises:
            UserError: there is no run, it has no checkpoint yet, a device does not exist, or a language
                model cannot be used.
        """
        opened = Run.open(run)
        settings = settings or opened.decoder_settings()
        hanzi_model = Path(hanzi_model) if hanzi_model is not None else None
        choice = DecoderChoice(settings, hot_words, write_hanzi, hanzi_model, itn)
        return cls.of_run(opened, choice, devices)

    @classmethod
    def of_known_text(cls, run: str | Path | None = None) -> Recognizer:
        """Load a model that compares recordings with their text, as `align_recording` and `differences` do.

        Nothing is decoded, so a model that does not recognize well enough as it is may be good enough.

        Args:
            run: as for `load`; None for the model `general`, even if it does not recognize well enough.

        Raises:
            UserError: as for `load`, or the installation carries no model.
        """
        return cls.of_run(Run.open(default_run(recognizes=False) if run is None else run), known_text=True)

    @classmethod
    def of_run(
        cls,
        run: Run,
        choice: DecoderChoice = GREEDY_TOKENS,
        devices: Devices = ONE_DEVICE,
        on_progress: OnProgress = ignore_progress,
        known_text: bool = False,
    ) -> Recognizer:
        """Load the chosen epoch of a run with a decoder and on devices of your choice.

        A CPU runs the run's graph for inference by ONNX Runtime, without TensorFlow.

        Args:
            run: the opened run.
            choice: the decoder.
            devices: on which the model runs.
            on_progress: receives how much of a language model has been read.
            known_text: whether recordings are compared with their text, and nothing is decoded.
        """
        if devices != ONE_DEVICE or not runs_on_the_cpu():
            return cls.trained(run, choice, start_model_devices(devices), on_progress, known_text)
        run.refuse_moved_language_model(choice.settings.language_model)
        vocabulary = run.vocabulary()
        with ThreadPoolExecutor(1) as pool:  # loading the hanzi model takes as long as the rest
            converter = pool.submit(choice.converter_for, vocabulary)
            runner, checkpoint = cpu_runner(run, vocabulary)
            converter.result()
        return cls._of_runner(runner, vocabulary, choice, run, checkpoint, on_progress, known_text)

    @classmethod
    def trained(
        cls,
        run: Run,
        choice: DecoderChoice = GREEDY_TOKENS,
        devices: ModelDevices | None = None,
        on_progress: OnProgress = ignore_progress,
        known_text: bool = False,
    ) -> Recognizer:
        """Load the model of a run into TensorFlow.

        Args:
            run: the opened run.
            choice: the decoder.
            devices: on which the model runs; None for one.
            on_progress: receives how much of a language model has been read.
            known_text: as for `of_run`.
        """
        run.refuse_moved_language_model(choice.settings.language_model)
        devices = devices or start_model_devices()
        vocabulary = run.vocabulary()
        choice.converter_for(vocabulary)
        from asr.model.tensorflow_runner import TensorFlowRunner

        with devices.scope():
            model, checkpoint = chosen_model(run, vocabulary)
        runner = TensorFlowRunner(model, devices.spread, len(devices.names), devices.place(model))
        return cls._of_runner(runner, vocabulary, choice, run, checkpoint, on_progress, known_text)

    @classmethod
    def _of_runner(
        cls,
        runner: ModelRunner,
        vocabulary: Vocabulary,
        choice: DecoderChoice,
        run: Run,
        checkpoint: Path,
        on_progress: OnProgress,
        known_text: bool,
    ) -> Recognizer:
        if not known_text and not run.stated().get("recognizes", True):
            logger.warning("%s: does not recognize well enough as it is; fine-tune it", run.directory.name)
        decoder = choice.decoder(vocabulary, runner.model.frame_s, on_progress)
        return cls(runner, vocabulary, decoder, LoadedFrom.of(run, checkpoint, choice))

    @property
    def num_devices(self) -> int:
        """Return the number of devices that share the files of a chunk."""
        return self.runner.num_devices

    @property
    def model(self) -> AcousticModel:
        """Return the acoustic model of `trained`, on one device or several; none of a graph."""
        from asr.model.tensorflow_runner import TensorFlowRunner

        assert isinstance(self.runner, TensorFlowRunner), "a graph can only be recognized with"
        return self.runner.model

    def transcribe(self, audio: AudioSource) -> Transcript:
        """Transcribe one recording of any length.

        Args:
            audio: a path, or a binary file object; any rate, channels and container, see
                `asr.audio.recording.read_audio`.

        Raises:
            UserError: it is not an audio recording.
        """
        name = str(audio) if isinstance(audio, str | Path) else STANDARD_INPUT
        (result,) = self._transcribe_opened([name], [self._open(audio)], _Report(1, ignore_progress))
        if isinstance(result, UserError):
            raise result
        return result

    def transcribe_files(
        self,
        paths: Sequence[Path],
        on_progress: OnProgress = ignore_progress,
        chunk_sizes: Sequence[int] | None = None,
    ) -> Iterator[Transcript | UserError]:
        """Yield the transcript of each file, in order, or the error of a file that cannot be read.

        Args:
            paths: of the files; `-` for standard input.
            on_progress: see `FileRecognizer.transcribe_files`.
            chunk_sizes: see `FileRecognizer.transcribe_files`.
        """
        report = _Report(len(paths), on_progress)
        chunks = file_chunks(paths, self.num_devices, chunk_sizes)
        if chunks:
            report.done(0)
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            opening: Iterator[Opened | UserError] = iter(())
            for chunk, following in itertools.pairwise([[], *chunks, []]):
                opened = list(opening)
                opening = pool.map(self._opened_or_error, following)  # while this chunk is transcribed
                if chunk:
                    yield from self._transcribe_opened([str(path) for path in chunk], opened, report)
                    report.done(len(chunk))

    def stream(self) -> Stream:
        """Start to transcribe a stream."""
        return Stream(self._streaming_runner, self.decoder)

    def _open(self, audio: AudioSource) -> Opened:
        return open_recording(audio, pauses_matter=not self.runner.model.ignores_silence)

    def _opened_or_error(self, path: Path) -> Opened | UserError:
        try:
            if str(path) != STANDARD_INPUT:
                return self._open(path)
            if sys.stdin is None:  # closed by the parent process
                raise UserError("-: standard input is closed; pipe a recording into it")
            return self._open(sys.stdin.buffer)
        except StorageError:
            raise
        except UserError as error:
            return error

    def _transcribe_opened(
        self, names: Sequence[str], opened: Sequence[Opened | UserError], report: _Report
    ) -> list[Transcript | UserError]:
        short = iter(self._clips.segments([one for one in opened if isinstance(one, np.ndarray)]))
        results: list[Transcript | UserError] = []
        for name, recording in zip(names, opened, strict=True):
            if isinstance(recording, LongRecording):
                results.append(self._transcribe_long(name, recording, report))
            elif isinstance(recording, UserError):
                results.append(recording)
            else:
                segment = next(short)
                results.append(Transcript.of([segment], segment.end_s, self.vocabulary.unit))
        return results

    def _transcribe_long(
        self, name: str, recording: LongRecording, report: _Report
    ) -> Transcript | UserError:
        duration_s = 0.0

        def read(seconds: float) -> None:
            nonlocal duration_s
            duration_s = seconds
            report.read(name, seconds)

        try:
            segments = list(self._long_audio.segments(recording.source, read))
        except StorageError:
            raise
        except UserError as error:
            return error
        return Transcript.of(segments, duration_s, self.vocabulary.unit)

    # each is compiled once, and not before it is used

    @functools.cached_property
    def _clips(self) -> ClipRecognizer:
        return ClipRecognizer(self.runner, self.decoder)

    @functools.cached_property
    def _long_audio(self) -> LongAudioRecognizer:
        return LongAudioRecognizer(self.runner, self.decoder)

    @functools.cached_property
    def _streaming_runner(self) -> StreamingRunner:
        return StreamingRunner(self.runner, len(self.vocabulary))


class _Report:
    """The progress of a transcription; only its methods change its state."""

    def __init__(self, num_recordings: int, on_progress: OnProgress) -> None:
        self._num_recordings, self._on_progress, self._num_done = num_recordings, on_progress, 0

    def done(self, num_recordings: int) -> None:
        """Report that further recordings are done."""
        self._num_done += num_recordings
        self._report("")

    def read(self, name: str, seconds: float) -> None:
        """Report how much of a long recording has been read."""
        self._report(f"{duration(seconds)} of {Path(name).name}")

    def _report(self, note: str) -> None:
        work = Work("transcribing", self._num_done, self._num_recordings, "recordings", note)
        self._on_progress(work)
