"""Keep the graph of a run's model, which a CPU runs faster than TensorFlow, and starts sooner.

runs/demo/inference/0f2c….onnx      the graph of the weights with that digest
runs/demo/inference/0f2c….txt       or why TensorFlow runs these weights

The end of training makes it, or the first recognition with the run.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import json
import logging
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from asr.audio.recording import SAMPLE_RATE_HZ, pad_waveforms
from asr.base.errors import UserError
from asr.base.system.files import whole_file
from asr.base.types import Logits
from asr.base.vocabulary import Vocabulary
from asr.model.logit_difference import allowed_difference, largest_difference
from asr.runs.run import Run

if TYPE_CHECKING:
    from asr.audio.recording import Waveform
    from asr.model.acoustic_model import AcousticModel
    from asr.model.onnx_runner import OnnxRunner, OnnxSession

logger = logging.getLogger(__name__)

ABOUT = "polyphone"  # key of the graph's metadata
FALLBACK = "TensorFlow runs this model, since its graph for ONNX Runtime fails: %s"


@dataclass(frozen=True)
class InferenceGraph:
    """The graph of one checkpoint of a run, which may not have been made yet.

    Attributes:
        path: of the graph.
    """

    path: Path

    @classmethod
    def of(cls, run: Run, checkpoint: Path) -> InferenceGraph | None:
        """Return the graph of a checkpoint; None if the checkpoint cannot be read."""
        config = run.config()
        settings = dataclasses.asdict(config.features), dataclasses.asdict(config.model)
        try:
            with zipfile.ZipFile(checkpoint) as file:  # its directory has a checksum of each array
                arrays = [(part.filename, part.CRC) for part in file.infolist()]
        except (OSError, zipfile.BadZipFile):
            return None
        made_of = _code_digest(), settings, arrays
        digest = hashlib.blake2b(json.dumps(made_of).encode(), digest_size=12).hexdigest()
        return cls(run.directory / "inference" / f"{digest}.onnx")

    def runner(self) -> OnnxRunner | None:
        """Return what runs the graph; None if it has not been made, or cannot be read."""
        from asr.model.onnx_runner import OnnxModel, OnnxRunner, OnnxSession

        try:
            graph = self.path.read_bytes()
        except OSError:
            return None
        try:
            session = OnnxSession(graph)
            return OnnxRunner(session, OnnxModel.from_json(json.loads(session.metadata()[ABOUT])))
        except Exception as error:  # ONNX Runtime has classes of its own for each kind of damage
            logger.warning("%s: ONNX Runtime cannot read it (%s); it is made again", self.path, error)
            with contextlib.suppress(OSError):
                self.path.unlink()
            return None

    def make(self, model: AcousticModel, vocabulary: Vocabulary) -> OnnxRunner | None:
        """Make the graph, compare it with the model, and keep it.

        Args:
            model: with the checkpoint's weights.
            vocabulary: of its outputs.

        Returns:
            What runs the graph; None if it differs from the model or a layer has no graph, which is kept as
            well and logged.
        """
        if self._reason.exists():
            logger.warning(FALLBACK, self._reason.read_text("utf-8", errors="replace").strip())
            return None
        from asr.model.onnx.model import onnx_model
        from asr.model.onnx_runner import OnnxModel, OnnxRunner, OnnxSession

        about = OnnxModel.of(model)
        try:
            metadata = {ABOUT: json.dumps(about.as_json())}
            graph = onnx_model(model, len(vocabulary), metadata).SerializeToString()
            session = OnnxSession(graph)
            _compare(model, session)
        except Exception as error:  # such as too little memory, or a model beyond the 2 GB of ONNX
            logger.warning(FALLBACK, error)
            if isinstance(error, UserError):  # a layer without a writer, or a difference, stays
                self._keep(self._reason, f"{error}\n".encode())
            return None
        self._keep(self.path, graph)
        return OnnxRunner(session, about)

    @property
    def _reason(self) -> Path:
        return self.path.with_suffix(".txt")

    def _keep(self, path: Path, content: bytes) -> None:
        """Write a file in place of those of earlier checkpoints; without it, it is made again next time."""
        if path.exists():  # another process has made it meanwhile
            return
        try:
            with whole_file(path, "graph for inference") as file:
                file.write(content)
        except UserError as error:
            logger.info("%s; the graph is made again next time", error)
            return
        for other in path.parent.glob("*"):
            if other != path and other.suffix in (".onnx", ".txt"):
                with contextlib.suppress(OSError):
                    other.unlink()


@functools.cache
def _code_digest() -> str:
    """Return a digest of the code of features and networks, which decides what weights compute."""
    code = hashlib.blake2b(digest_size=12)
    for path in sorted((Path(__file__).parents[1] / "model").rglob("*.py")):
        code.update(path.read_bytes())
    return code.hexdigest()


def _compare(model: AcousticModel, session: OnnxSession) -> None:
    """Raise a UserError if a graph has other logits than the model, for clips alone or in a batch."""
    clips = _clips()
    audio, num_samples = pad_waveforms(clips)
    expected = _rows(model(audio, num_samples))
    alone = [_rows(session.run(clip[None], np.array([len(clip)], np.int32)))[0] for clip in clips]
    for found in (alone, _rows(session.run(audio, num_samples))):
        for clip, *logits in zip(clips, expected, found, strict=True):
            difference = largest_difference(*logits)
            allowed = allowed_difference(difference, model, clip)
            if not difference <= allowed:  # NaN is not
                raise UserError(f"its logits differ by {difference:.3g}, expected at most {allowed:.3g}")


def _rows(logits: Logits) -> list[npt.NDArray[np.float32]]:
    """Return the logits of each clip, (T, V)."""
    values, num_frames = np.asarray(logits.values), np.asarray(logits.num_frames)
    return [row[:length] for row, length in zip(values, num_frames, strict=True)]


def _clips() -> list[Waveform]:
    """Return clips with what recordings have: speech-like bursts, hum, clipping, silence, a short one."""
    rng = np.random.default_rng(0)
    clips = []
    for duration_s, loudness in ((0.1, 2_000), (1.3, 300), (3.0, 8_000), (4.1, 40_000)):
        seconds = np.arange(round(duration_s * SAMPLE_RATE_HZ)) / SAMPLE_RATE_HZ
        syllables = np.sin(2 * np.pi * 4 * seconds).clip(0) ** 2
        voice = sum(np.sin(2 * np.pi * 140 * harmonic * seconds) / harmonic for harmonic in range(1, 20))
        sound = loudness * syllables * (voice + rng.normal(0, 0.3, len(seconds)))
        sound[: len(sound) // 4] = 0
        clips.append(np.clip(sound, -32768, 32767).astype(np.int16))
    return clips
