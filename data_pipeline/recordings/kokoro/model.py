"""Run Kokoro's network (82 million parameters, Apache-2.0) in ONNX Runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from asr.audio.mixing import INT16_SCALE
from asr.audio.recording import Waveform, resample
from asr.base.errors import UserError
from data_pipeline.recordings.kokoro.voices import STYLE_SIZE, Styles

RATE_HZ = 24000
MAX_SYMBOLS = 510  # the network's context is 512, with a 0 at either end
PEAK = 0.5
AUDIBLE = 0.02  # of the peak
BEFORE_S, AFTER_S = 0.1, 0.15  # of the network's own silence, which has about half a second
FEWEST_S, MOST_S = 0.07, 0.8  # of a syllable

SYMBOL_INPUTS = ("input_ids", "tokens")  # by exporter
FLOATS, INTEGERS = "tensor(float)", "tensor(int64)"
SOURCE = (
    "expected Kokoro 1.0 as ONNX, such as onnx/model.onnx of "
    "huggingface.co/onnx-community/Kokoro-82M-v1.0-ONNX"
)


class UnusableSpeechError(UserError):
    """The reason why what the network said is no speech."""


class KokoroModel:
    """Kokoro's network, which says symbols in a style, on one core.

    Args:
        path: of the ONNX file, with or without quantization.

    Raises:
        UserError: the file cannot be read, or has other inputs and outputs than Kokoro.
    """

    def __init__(self, path: Path) -> None:
        import onnxruntime

        if not path.is_file():
            raise UserError(f"{path}: no such file; {SOURCE}")
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3  # quantized files give warnings
        try:
            self._session: Any = onnxruntime.InferenceSession(
                path, options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:
            raise UserError(
                f"{path}: not a model that ONNX Runtime can load ({_reason(error)}); {SOURCE}"
            ) from None
        self._path = path
        self._symbols = self._expect_inputs()

    def say(self, symbols: list[int], style: Styles, speed: float) -> npt.NDArray[np.float32]:
        """Return (S,) samples at 24 kHz.

        Args:
            symbols: at most `MAX_SYMBOLS` ids.
            style: (1, 256).
            speed: 1 is the voice's own.

        Raises:
            UserError: the network fails.
        """
        inputs = {
            self._symbols: np.array([[0, *symbols, 0]], np.int64),
            "style": style,
            "speed": np.array([speed], np.float32),
        }
        try:
            samples: npt.NDArray[np.float32] = self._session.run(None, inputs)[0].astype(np.float32).ravel()
        except Exception as error:
            raise UserError(f"{self._path}: the network failed ({_reason(error)}); {SOURCE}") from None
        return samples

    def _expect_inputs(self) -> str:
        """Return the name of the input of symbols; raise a UserError for other inputs than Kokoro's."""
        inputs = self._session.get_inputs()
        types = {one.name: one.type for one in inputs}
        shapes = {one.name: one.shape for one in inputs}
        for name in SYMBOL_INPUTS:
            # a size that varies is a name or None
            if types == {name: INTEGERS, "style": FLOATS, "speed": FLOATS} and (
                shapes["style"][-1:] == [STYLE_SIZE] or not isinstance(shapes["style"][-1], int)
            ):
                return name
        received = ", ".join(f"{name} {types[name]} {shapes[name]}" for name in types)
        raise UserError(
            f"{self._path}: expected the inputs input_ids (or tokens) of int64, style of {STYLE_SIZE} floats "
            f"and speed of float; received {received or 'none'}; {SOURCE}"
        )


def as_recording(samples: npt.NDArray[np.float32], num_syllables: int) -> Waveform:
    """Return what the network said as (S,) int16 at 16 kHz, with little silence, at the usual level.

    Raises:
        UnusableSpeechError: it is silent, broken, or too short or long for the syllables.
    """
    if not samples.size or not np.isfinite(samples).all():
        raise UnusableSpeechError("no finite samples")
    peak = float(np.abs(samples).max())
    audible = np.flatnonzero(np.abs(samples) > AUDIBLE * peak)
    if not len(audible):
        raise UnusableSpeechError("silence")
    duration_s = (audible[-1] + 1 - audible[0]) / RATE_HZ
    if not FEWEST_S <= duration_s / num_syllables <= MOST_S:
        raise UnusableSpeechError("too short or too long for its syllables")
    begin = max(0, audible[0] - round(BEFORE_S * RATE_HZ))
    end = audible[-1] + round(AFTER_S * RATE_HZ)
    return resample(samples[begin:end] * (PEAK * INT16_SCALE / peak), RATE_HZ)


def _reason(error: Exception) -> str:
    return str(error).strip().split("\n")[0][:200]
