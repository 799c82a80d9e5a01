"""Recognize speech with an exported folder by ONNX Runtime, without TensorFlow, as with the run it is from.

exported = ExportedModel.open(Path("demo-onnx"))
recognizer = exported.recognizer(DecoderChoice(exported.decoder_settings()))
print(recognizer.transcribe("question.mp3").text)
"""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import log_softmax
from typing_extensions import override

from asr.audio.recording import Waveform
from asr.base.decoder_settings import DecoderSettings
from asr.base.errors import UserError
from asr.base.system.files import read_lines
from asr.base.vocabulary import BLANK, Vocabulary
from asr.base.work import OnProgress, ignore_progress
from asr.ctc.search import LogProbs
from asr.export.folder import TOKENS
from asr.export.format import ABOUT_FILE
from asr.export.runtimes.onnx.format import ONNX
from asr.model.runner import AudioModel, ModelRunner, ReceptiveField, Reduce, RunClip
from asr.transcription.decoder_choice import DecoderChoice
from asr.transcription.recognizer import Recognizer


@dataclass(frozen=True)
class ExportedModel:
    """A folder that `asr export` wrote in the format `onnx`.

    Attributes:
        directory: the folder.
        about: contents of its `model.json`.
    """

    directory: Path
    about: dict[str, Any]

    @classmethod
    def open(cls, directory: Path) -> ExportedModel:
        """Open an exported folder.

        Raises:
            UserError: it was not made by `asr export`, or in another format.
        """
        path = directory / ABOUT_FILE
        try:
            about = json.loads("\n".join(read_lines(path, "description of a model")))
        except json.JSONDecodeError as error:
            raise UserError(f"{path}: expected JSON ({error}); export the model again") from None
        found = about.get("format") if isinstance(about, dict) else None
        if found != "onnx":
            raise UserError(f"{directory}: expected a model exported as onnx, received {found}; export it so")
        return cls(directory, about)

    @staticmethod
    def is_in(directory: Path) -> bool:
        """Return whether a folder holds an exported model."""
        return (directory / ABOUT_FILE).is_file()

    def vocabulary(self) -> Vocabulary:
        """Load the folder's vocabulary.

        Raises:
            UserError: the list of tokens is missing or damaged.
        """
        path = self.directory / TOKENS
        lines = [line for line in read_lines(path, "list of tokens") if line]
        tokens = [line.rpartition(" ")[0] for line in lines]
        if tokens[:1] != [BLANK] or len(tokens) != self.about.get("num_tokens"):
            raise UserError(f"{path}: expected the tokens of {ABOUT_FILE}, {BLANK} first; export it again")
        return Vocabulary(tokens[1:])

    def decoder_settings(self) -> DecoderSettings:
        """Return greedy decoding, since the settings of the run are not exported."""
        return DecoderSettings()

    def recognizer(self, choice: DecoderChoice, on_progress: OnProgress = ignore_progress) -> Recognizer:
        """Load the model with a decoder of your choice.

        Args:
            choice: the decoder.
            on_progress: receives how much of a language model has been read.

        Raises:
            UserError: a file of the folder is damaged, or a package is missing.
        """
        ONNX.require_packages()
        vocabulary = self.vocabulary()
        with ThreadPoolExecutor(1) as pool:  # the hanzi model takes as long as the rest
            decoder = pool.submit(choice.decoder, vocabulary, self.about["frame_s"], on_progress)
            runner = OnnxRunner(self.directory, self.about)
            return Recognizer(runner, vocabulary, decoder.result())


@dataclass(frozen=True)
class OnnxModel(AudioModel):
    """An exported model.

    Attributes:
        about: contents of `model.json`.
    """

    about: dict[str, Any]

    @property
    @override
    def frame_samples(self) -> int:
        return int(self.about["frame_samples"])

    @property
    @override
    def frame_s(self) -> float:
        return float(self.about["frame_s"])

    @property
    @override
    def ignores_silence(self) -> bool:
        return bool(self.about.get("ignores_silence", False))

    @override
    def receptive_field(self) -> ReceptiveField | None:
        field = self.about["receptive_field_samples"]
        return None if field is None else ReceptiveField(**field)


class OnnxRunner(ModelRunner):
    """Runs an exported model by ONNX Runtime.

    Args:
        folder: that holds it.
        about: contents of its `model.json`.

    Raises:
        UserError: ONNX Runtime cannot read the model.
    """

    num_devices = 1

    def __init__(self, folder: Path, about: dict[str, Any]) -> None:
        from asr.export.runtimes.onnx.runtime import FILE, OnnxRuntime

        self._model = OnnxModel(about)
        try:
            self._runtime = OnnxRuntime(folder)
        except Exception as error:  # ONNX Runtime has classes of its own for each kind of damage
            raise UserError(f"{folder / FILE}: ONNX Runtime cannot read it ({error}); export again") from None

    @property
    @override
    def model(self) -> OnnxModel:
        return self._model

    @override
    def compiled(self, reduce: Reduce) -> Callable[..., Any]:
        return lambda audio, num_samples: reduce(self._runtime.run_batch(audio, num_samples))

    @override
    def clip_runner(self) -> RunClip:
        return self._log_probs

    def _log_probs(self, padded: Waveform, num_samples: int) -> LogProbs:
        values, num_frames = self._runtime.run_batch(padded[None], np.array([num_samples], np.int32))
        log_probs: LogProbs = log_softmax(values[0, : num_frames[0]], axis=-1)
        return log_probs
