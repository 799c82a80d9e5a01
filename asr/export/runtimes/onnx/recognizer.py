"""Recognize speech with an exported folder by ONNX Runtime, without TensorFlow, as with the run it is from.

exported = ExportedModel.open(Path("demo-onnx"))
recognizer = exported.recognizer(DecoderChoice(exported.decoder_settings()))
print(recognizer.transcribe("question.mp3").text)
"""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from asr.base.decoder_settings import DecoderSettings, load_settings
from asr.base.errors import UserError
from asr.base.model_files.model_file import DECODER
from asr.base.system.files import read_lines
from asr.base.text.pieces import UNITS_MODEL, Pieces
from asr.base.vocabulary import BLANK, Vocabulary
from asr.base.work import OnProgress, ignore_progress
from asr.export.folder import TOKENS
from asr.export.format import ABOUT_FILE
from asr.transcription.decoder_choice import DecoderChoice
from asr.transcription.recognizer import Recognizer

if TYPE_CHECKING:
    from asr.model.onnx_runner import OnnxModel, OnnxRunner


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
            UserError: the list of tokens is missing or damaged, or the model of pieces is.
        """
        path = self.directory / TOKENS
        lines = [line for line in read_lines(path, "list of tokens") if line]
        tokens = [line.rpartition(" ")[0] for line in lines]
        if tokens[:1] != [BLANK] or len(tokens) != self.about.get("num_tokens"):
            raise UserError(f"{path}: expected the tokens of {ABOUT_FILE}, {BLANK} first; export it again")
        model = self.directory / UNITS_MODEL
        return Vocabulary(tokens[1:], Pieces.load(model) if model.exists() else None)

    def decoder_settings(self, language_model: str = "") -> DecoderSettings:
        """Return the settings of the run, or greedy decoding; see `asr.runs.run.Run.decoder_settings`."""
        path = self.directory / DECODER
        return load_settings(path, language_model) if path.exists() else DecoderSettings()

    def recognizer(self, choice: DecoderChoice, on_progress: OnProgress = ignore_progress) -> Recognizer:
        """Load the model with a decoder of your choice.

        Args:
            choice: the decoder.
            on_progress: receives how much of a language model has been read.

        Raises:
            UserError: a file of the folder is damaged.
        """
        vocabulary, model = self.vocabulary(), self._model()
        with ThreadPoolExecutor(1) as pool:  # the hanzi model takes as long as the rest
            decoder = pool.submit(choice.decoder, vocabulary, model.frame_s, on_progress)
            return Recognizer(self._runner(model), vocabulary, decoder.result())

    def _model(self) -> OnnxModel:
        from asr.model.onnx_runner import OnnxModel

        try:
            return OnnxModel.from_json(self.about)
        except (KeyError, TypeError, ValueError) as error:
            path = self.directory / ABOUT_FILE
            raise UserError(f"{path}: missing or wrong ({error}); export the model again") from None

    def _runner(self, model: OnnxModel) -> OnnxRunner:
        from asr.export.runtimes.onnx.runtime import FILE
        from asr.model.onnx_runner import OnnxRunner, OnnxSession

        path = self.directory / FILE
        try:
            session = OnnxSession(path.read_bytes())
        except Exception as error:  # ONNX Runtime has classes of its own for each kind of damage
            raise UserError(f"{path}: ONNX Runtime cannot read it ({error}); export again") from None
        return OnnxRunner(session, model)
