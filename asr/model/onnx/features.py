"""Write feature layers as ONNX nodes: audio (B, S) from -1 to 1 to features (B, T, F)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from asr.audio.recording import INT16_SCALE
from asr.base.errors import UserError
from asr.model.features.fbank import AFTER, BEFORE, Fbank
from asr.model.features.layer import (
    COUNTED_DB,
    FADE_DB,
    FFT_SIZE,
    HOP,
    LEVEL_FRAMES,
    NORMALIZATION_EPSILON,
    WINDOW,
    FeatureLayer,
)
from asr.model.features.log_mel import LogMel
from asr.model.features.mfcc import EPSILON, Mfcc
from asr.model.features.pitch import (
    NUM_BINS,
    PITCH_WINDOW,
    QUIET,
    pitch_cosines,
    pitch_filters,
)
from asr.model.features.spectrogram import Spectrogram
from asr.model.onnx.graph import FLOAT32, FLOAT64, TO_THE_END, Graph, Value
from asr.model.onnx.networks.layers import padding_mask
from asr.model.onnx.spectrum import add_power_spectrum, add_windows


def add_features(graph: Graph, layer: FeatureLayer, audio: Value, num_samples: Value) -> tuple[Value, Value]:
    """Add the nodes of a feature layer.

    Args:
        graph: to add them to.
        layer: the layer.
        audio: (B, S) float samples from -1 to 1; those after `num_samples` never count.
        num_samples: (B,) int64.

    Returns:
        features (B, T, F), 0 on padding, and num_frames (B,) int64, at least 0.

    Raises:
        UserError: no function writes this kind of features.
    """
    with graph.scope(layer.name):
        if type(layer) not in KINDS:
            raise UserError(
                f"{graph.path}: no ONNX exporter for features of kind {type(layer).__name__}; write one, see "
                "KINDS in asr/model/onnx/features.py"
            )
        with graph.scope("num_frames"):
            num_frames = graph.op("Max", layer.num_frames(num_samples), 0)
        features = KINDS[type(layer)](graph, layer, audio, num_samples, num_frames)
        normalized, weights = add_normalization(graph, layer, features, num_frames)
        if layer.pitch:
            pitch = _add_pitch(graph, layer, audio, num_samples, graph.size(features, 1))
            normalized = graph.op("Concat", normalized, pitch * weights, axis=2)
        return normalized, num_frames


def add_normalization(
    graph: Graph, layer: FeatureLayer, features: Value, num_frames: Value
) -> tuple[Value, Value]:
    """Set padding of computed features (B, T, F) to 0, and normalise the rest if the layer does.

    Returns:
        the features, and the weight of each frame, (B, T, 1), 0 on padding.
    """
    mask = padding_mask(graph, num_frames, features, axis=1, rank=3)
    if not layer.normalize:
        return features * mask, mask
    with graph.scope("normalize"):
        if not layer.over_speech:
            return _normalized(graph, features, mask) * mask, mask
        weights = _speech_weights(graph, layer, features, mask)
        lowest, silence = (graph.constant("floor", floor) for floor in layer.floors())
        return (graph.op("Max", _normalized(graph, features, weights), lowest) - silence) * mask, weights


def _add_pitch(
    graph: Graph, layer: FeatureLayer, audio: Value, num_samples: Value, num_frames: Value
) -> Value:
    """Map audio (B, S) to features of the pitch (B, num_frames, 48), as `FeatureLayer` does."""
    with graph.scope("pitch"):
        audio *= padding_mask(graph, num_samples, audio, axis=1, rank=2)  # windows reach beyond the clip
        before = layer.pitch_before
        after = (num_frames - 1) * HOP + (PITCH_WINDOW - before) - graph.size(audio, 1)
        padded = graph.op("Pad", audio, graph.op("Concat", [0, before, 0], after, axis=0))
        filters = pitch_filters().T[:, None, None] * INT16_SCALE  # (2 * bins, 1, 1, 800)
        parts = graph.op(
            "Conv",
            graph.op("Unsqueeze", padded, [1, 2]),
            graph.constant("filters", filters.astype(np.float32)),
            kernel_shape=[1, PITCH_WINDOW],
            strides=[1, HOP],
        )
        parts = graph.op("Transpose", graph.op("Squeeze", parts, [2]), perm=[0, 2, 1])  # (B, T, 2 * bins)
        squares = parts * parts
        power = graph.slice(squares, 2, 0, NUM_BINS) + graph.slice(squares, 2, NUM_BINS, None)
        amplitudes = graph.op("Sqrt", power)
        total = graph.op("ReduceSum", amplitudes, [2])
        summed = graph.op("MatMul", amplitudes, graph.constant("cosines", pitch_cosines()))
        return summed / (total + QUIET)


def _normalized(graph: Graph, features: Value, weights: Value) -> Value:
    """Give each feature mean 0 and variance 1 over frames, by their weights (B, T, 1), as in float64."""
    features, weights = (graph.op("Cast", each, to=FLOAT64) for each in (features, weights))
    least = graph.constant("epsilon", np.array(NORMALIZATION_EPSILON))
    # a clip without a frame has no weights
    count = graph.op("Max", graph.op("ReduceSum", weights, [1]), least)
    centred = features - graph.op("ReduceSum", features * weights, [1]) / count
    variance = graph.op("ReduceSum", centred * centred * weights, [1]) / count
    return graph.op("Cast", centred / graph.op("Sqrt", variance + least), to=FLOAT32)


def _speech_weights(graph: Graph, layer: FeatureLayer, features: Value, mask: Value) -> Value:
    """Return the weight of each frame in its clip's statistics, as `layer.speech_weights` does."""
    which, unit_db = layer.level_features()
    loudest = graph.op("ReduceMax", graph.slice(features, 2, which.start, which.stop), [2])
    levels_db = loudest * unit_db  # (B, T, 1)
    both = graph.op("Transpose", graph.op("Concat", levels_db * mask, mask, axis=2), perm=[0, 2, 1])
    side = LEVEL_FRAMES // 2
    pooled = graph.op(
        "AveragePool", both, kernel_shape=[LEVEL_FRAMES], pads=[side, side], count_include_pad=1
    )  # (B, 2, T)
    frames = graph.op("Max", graph.slice(pooled, 1, 1, 2), 1 / LEVEL_FRAMES)
    smooth = graph.op("Transpose", graph.slice(pooled, 1, 0, 1) / frames, perm=[0, 2, 1])
    lowest = graph.op("ReduceMin", levels_db, [0, 1, 2])
    smooth = graph.op("Where", graph.op("Greater", mask, 0.0), smooth, lowest)
    clip_db = graph.op("ReduceMax", smooth, [1])  # (B, 1, 1)
    above_db = levels_db - clip_db
    (lowest_db, highest_db), fade_db = COUNTED_DB, FADE_DB
    beyond_db = graph.op("Max", graph.op("Sub", lowest_db, above_db), above_db - highest_db, 0.0)
    return graph.op("Max", graph.op("Sub", 1.0, beyond_db / fade_db), 0.0) * mask


def _add_log_mel(graph: Graph, layer: LogMel, audio: Value, num_samples: Value, num_frames: Value) -> Value:
    power = add_power_spectrum(graph, _add_windows(graph, audio, layer.window * INT16_SCALE))
    return graph.op("Log", _add_filters(graph, power, layer.mel) + 1.0)


def _add_spectrogram(
    graph: Graph, layer: Spectrogram, audio: Value, num_samples: Value, num_frames: Value
) -> Value:
    power = add_power_spectrum(graph, _add_windows(graph, audio, layer.window * INT16_SCALE), WINDOW)
    logs = graph.op("Log", graph.op("Sqrt", graph.slice(power, 1, 0, layer.num_features)) + 1.0)
    return graph.op("Transpose", logs, perm=[0, 2, 1])


def _add_windows(graph: Graph, audio: Value, window: npt.NDArray[np.float32]) -> Value:
    return add_windows(graph, audio) * graph.constant("window", window[:, None])


def _add_filters(graph: Graph, power: Value, filters: npt.NDArray[np.float32]) -> Value:
    """Map a power spectrum (B, 257, T) to the energies (B, T, M) of filters (257, M)."""
    energies = graph.op("MatMul", graph.constant("filters", filters.T), power)
    return graph.op("Transpose", energies, perm=[0, 2, 1])


def _add_mfcc(graph: Graph, layer: Mfcc, audio: Value, num_samples: Value, num_frames: Value) -> Value:
    first, rest = graph.slice(audio, 1, 0, 1), graph.slice(audio, 1, 1, None)
    before = graph.slice(audio, 1, 0, -1)
    emphasised = graph.op("Concat", first, rest - before * layer.PREEMPHASIS, axis=1)
    # the first sample of the padding would keep an echo of the clip's last one
    emphasised *= padding_mask(graph, num_samples, audio, axis=1, rank=2)
    behind = graph.op("Pad", emphasised, [0, 0, 0, HOP - 1])
    power = add_power_spectrum(graph, add_windows(graph, behind) * INT16_SCALE)
    # the first column is the energy of all bins
    every_bin = np.ones_like(layer.mel[:, :1])
    filters = (np.concatenate([every_bin, layer.mel], axis=1) / FFT_SIZE).astype(np.float32)
    energies = _add_filters(graph, power, filters)  # (B, T, 1 + 26)
    floor = graph.op("Where", graph.op("Equal", energies, 0.0), EPSILON, energies)
    logs = graph.op("Log", floor)
    matrix = np.zeros((1 + layer.NUM_MELS, layer.NUM_CEPSTRA), np.float32)
    matrix[0, 0], matrix[1:, 1:] = 1.0, layer.dct[:, 1:]
    cepstra = graph.op("MatMul", logs, graph.constant("dct", matrix))  # (B, T, 13)
    slopes = _differences(graph, cepstra, num_frames)
    return graph.op("Concat", cepstra, slopes, _differences(graph, slopes, num_frames), axis=2)


def _add_fbank(graph: Graph, layer: Fbank, audio: Value, num_samples: Value, num_frames: Value) -> Value:
    audio = _mirrored(graph, audio, num_samples)
    before = graph.op("Pad", graph.slice(audio, 1, 0, -1), [0, 1, 0, 0])
    rest = 1 - layer.PREEMPHASIS
    # audio - 0.97 * before; written as this, it is precise in spite of an offset
    emphasised = audio - before + before * rest
    channel = graph.op("Unsqueeze", audio, [1, 2])
    means = graph.op("AveragePool", channel, kernel_shape=[1, WINDOW], strides=[1, HOP])
    offset = graph.op("Squeeze", means, [1]) * rest  # (B, 1, T)
    windows = (add_windows(graph, emphasised) - offset) * graph.constant("window", layer.window[:, None])
    power = add_power_spectrum(graph, windows)
    energies = _add_filters(graph, power, layer.mel)
    return graph.op("Log", graph.op("Max", energies, layer.FLOOR))


def _mirrored(graph: Graph, audio: Value, num_samples: Value) -> Value:
    """Extend clips at both ends by their own samples in reverse order, as `fbank.mirrored` does."""
    with graph.scope("mirrored"):
        missing = graph.op("Max", graph.op("Sub", WINDOW, graph.size(audio, 1)), 0)
        audio = graph.op("Pad", audio, graph.op("Concat", [0, 0, 0], missing, axis=0))
        start = graph.op("Slice", audio, [BEFORE - 1], [-TO_THE_END], [1], [-1])
        distance = graph.op("Unsqueeze", graph.op("Range", 0, AFTER, 1), [0])  # (1, 200)
        ends = graph.op("Unsqueeze", num_samples, [1])  # (B, 1)
        end = graph.op("GatherElements", audio, graph.op("Max", ends - 1 - distance, 0), axis=1)  # (B, 200)
        extended = graph.op("Concat", start, graph.op("Pad", audio, [0, 0, 0, AFTER]), axis=1)
        return graph.op("ScatterElements", extended, ends + distance + BEFORE, end, axis=1)


def _differences(graph: Graph, features: Value, num_frames: Value) -> Value:
    """Return slopes over two frames to each side, the first and last frame repeated beyond the ends."""
    with graph.scope("differences"):
        size = graph.op("Squeeze", graph.size(features, 1), [0])
        indices = graph.op("Unsqueeze", graph.op("Range", 0, size, 1), [0])  # (1, T)
        last = graph.op("Unsqueeze", graph.op("Max", num_frames - 1, 0), [1])  # (B, 1)
        total = None
        for offset in (-2, -1, 1, 2):
            neighbours = graph.op("Min", graph.op("Max", indices + offset, 0), last)  # (B, T)
            neighbour = graph.op("GatherND", features, graph.op("Unsqueeze", neighbours, [2]), batch_dims=1)
            part = neighbour * (offset / 10.0)
            total = part if total is None else total + part
        assert total is not None
        return total


KINDS: dict[type, Callable[..., Value]] = {
    LogMel: _add_log_mel,
    Spectrogram: _add_spectrogram,
    Mfcc: _add_mfcc,
    Fbank: _add_fbank,
}
"""By the class of a feature layer, the function that adds what its `compute` does."""
