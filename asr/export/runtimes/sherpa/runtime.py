"""Run an exported model by sherpa-onnx itself, on whole clips or as streams."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import sherpa_onnx
from sherpa_onnx.lib import _sherpa_onnx
from typing_extensions import override

from asr.base.text.mixed import begins_word
from asr.base.text.units import UNITS_IN_PIECES
from asr.base.vocabulary import WORD_BOUNDARY
from asr.export.format import ABOUT_FILE, Outputs, Runtime, Waveform

MODEL, STREAM, TOKENS, HANZI = "model.onnx", "stream.onnx", "tokens.txt", "hanzi.fst"
STREAM_RUNTIME = "asr.export.runtimes.sherpa.runtime:SherpaStreamRuntime"
RATE_HZ = 16000
BLOCK = 3200  # samples; a stream gets 0.2 s at a time


class SherpaRuntime(Runtime):
    """sherpa-onnx with `model.onnx`, on whole clips.

    Args:
        folder: that holds it.
    """

    takes_batches = False

    def __init__(self, folder: Path) -> None:
        about, files, self._unit = _read(folder)
        if about["model"] == "zipformer_ctc":
            self._recognizer = sherpa_onnx.OfflineRecognizer.from_zipformer_ctc(
                str(folder / MODEL), feature_dim=about["feature_dim"], **files
            )
            return
        # the method for this kind of model does not take `rule_fsts`
        model = _sherpa_onnx.OfflineOmnilingualAsrCtcModelConfig(str(folder / MODEL))
        config = _sherpa_onnx.OfflineRecognizerConfig(
            feat_config=_sherpa_onnx.FeatureExtractorConfig(),
            model_config=_sherpa_onnx.OfflineModelConfig(omnilingual=model, tokens=files["tokens"]),
            rule_fsts=files["rule_fsts"],
        )
        self._recognizer = _sherpa_onnx.OfflineRecognizer(config)

    @override
    def run(self, waveforms: Sequence[Waveform]) -> list[Outputs]:
        (waveform,) = waveforms
        stream = self._recognizer.create_stream()
        stream.accept_waveform(RATE_HZ, waveform / np.float32(32768))
        self._recognizer.decode_stream(stream)
        return [_outputs(stream.result, unit=self._unit)]


class SherpaStreamRuntime(Runtime):
    """sherpa-onnx with `stream.onnx`, on clips that arrive in blocks, followed by silence.

    Args:
        folder: that holds it.
    """

    takes_batches = False

    def __init__(self, folder: Path) -> None:
        about, files, self._unit = _read(folder)
        self._silence = np.zeros(round(about["stream"]["flush_s"] * RATE_HZ), np.float32)
        self._recognizer = sherpa_onnx.OnlineRecognizer.from_zipformer2_ctc(
            model=str(folder / STREAM), feature_dim=about["feature_dim"], num_threads=1, **files
        )

    @override
    def run(self, waveforms: Sequence[Waveform]) -> list[Outputs]:
        (waveform,) = waveforms
        samples = np.concatenate([waveform / np.float32(32768), self._silence])
        stream = self._recognizer.create_stream()
        for begin in range(0, len(samples), BLOCK):
            stream.accept_waveform(RATE_HZ, samples[begin : begin + BLOCK])
            while self._recognizer.is_ready(stream):
                self._recognizer.decode_stream(stream)
        return [_outputs(self._recognizer.get_result_all(stream), unit=self._unit)]


def _read(folder: Path) -> tuple[dict[str, Any], dict[str, str], str]:
    """Return what `model.json` says on the files, arguments of all recognizers, and the tokens' unit."""
    about: dict[str, Any] = json.loads((folder / ABOUT_FILE).read_text("utf-8"))
    hanzi = folder / HANZI
    files = {"tokens": str(folder / TOKENS), "rule_fsts": str(hanzi) if hanzi.exists() else ""}
    return about["sherpa"], files, about["unit"]


def _outputs(result: Any, *, unit: str) -> Outputs:
    """Return a result; sherpa-onnx has a space where the tokens that `write_tokens` wrote have a mark."""
    if unit in UNITS_IN_PIECES:
        tokens = tuple(token.replace(" ", WORD_BOUNDARY) for token in result.tokens)
        if unit == "mixed":  # pieces have a mark of their own
            tokens = tuple(
                bare if begins_word(bare := token.removeprefix(WORD_BOUNDARY)) else token for token in tokens
            )
    else:
        tokens = tuple(token.strip() or WORD_BOUNDARY for token in result.tokens)
    return Outputs(None, tokens, result.text.strip(), tuple(result.timestamps))
