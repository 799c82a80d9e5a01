"""Write acoustic models as the ONNX graphs that sherpa-onnx runs, one function for each kind it knows.

sherpa-onnx gives every frame of logits the same time, 40 ms or 20 ms. Logits of longer frames are repeated,
which makes the times of tokens right and leaves the tokens as they are, since greedy decoding merges repeats.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import onnx

from asr.audio.recording import INT16_SCALE, SAMPLE_RATE_HZ
from asr.base.errors import UserError
from asr.base.vocabulary import BLANK_ID
from asr.export.runtimes.sherpa.waveform import restored_waveform
from asr.model.acoustic_model import AcousticModel
from asr.model.features.fbank import Fbank
from asr.model.features.layer import HOP
from asr.model.onnx.features import add_features, add_normalization
from asr.model.onnx.graph import FLOAT32, INT64, Graph, Value
from asr.model.onnx.model import add_network
from asr.model.onnx.networks.layers import padding_mask

ZIPFORMER_FRAME_S = 0.04
OMNILINGUAL_FRAME_S = 0.02
ABOVE_SILENCE = 0.01  # digital silence is louder than its exact value by rounding at most
CERTAIN = 1e4  # as a logit
STREAM_SHIFT = 32  # frames of features, about which a stream's result is updated: 0.32 s


class Window(NamedTuple):
    """What a stream's model sees at once, in frames of features of 10 ms.

    Attributes:
        history: frames before the new ones, which the model keeps.
        shift: new frames whose logits are returned.
        size: new frames and those after them.
    """

    history: int
    shift: int
    size: int

    @property
    def flush_s(self) -> float:
        """Return the seconds of silence after a stream that make sherpa-onnx run the model on all of it."""
        return (self.size + self.shift) * HOP / SAMPLE_RATE_HZ


def zipformer_model(model: AcousticModel, num_outputs: int, metadata: Mapping[str, str]) -> onnx.ModelProto:
    """Return a model over Kaldi's filter banks, which sherpa-onnx loads as `zipformer_ctc`.

    Its inputs are features (B, T, F) and the number of frames of each row, (B,), its outputs logits
    (B, T', V) and their number.

    Args:
        model: with features of the kind fbank.
        num_outputs: V.
        metadata: what sherpa-onnx and viewers read.

    Raises:
        UserError: a layer has no exporter, or the model's frames are no multiple of 40 ms.
    """
    graph = Graph()
    num_features = model.features.num_features
    features = graph.input("features", np.float32, ("batch", "frames", num_features))
    num_frames = graph.input("num_frames", np.int64, ("batch",))
    with graph.scope(model.features.name):
        padded = graph.op("Pad", features, [0, 0, 0, 0, 1, 0])  # a clip of 5 ms or less has no frame
        features, _ = add_normalization(graph, model.features, padded, num_frames)
    logits, num_logits = add_network(graph, model, features, num_frames)
    times = _repeats(model, ZIPFORMER_FRAME_S)
    graph.output(
        "logits", _repeated(graph, logits, times, num_outputs), np.float32, ("batch", "steps", num_outputs)
    )
    graph.output("num_logits", num_logits * times, np.int64, ("batch",))
    return graph.model(model.name, dict(metadata))


def omnilingual_model(
    model: AcousticModel, num_outputs: int, loudness: float, metadata: Mapping[str, str]
) -> onnx.ModelProto:
    """Return a model over one clip's audio, which sherpa-onnx loads as `omnilingual`.

    Its input is the waveform (1, S), divided by its standard deviation, its output the logits (1, T', V).

    Args:
        model: with features of any kind.
        num_outputs: V.
        loudness: standard deviation to give waveforms whose own cannot be known, on the int16 scale.
        metadata: what viewers read.

    Raises:
        UserError: a layer has no exporter, or the model's frames are no multiple of 20 ms.
    """
    graph = Graph()
    audio = restored_waveform(graph, graph.input("audio", np.float32, (1, "samples")), loudness)
    audio *= 1 / INT16_SCALE
    features, num_frames = add_features(graph, model.features, audio, graph.size(audio, 1))
    logits, _ = add_network(graph, model, features, num_frames)
    logits = _repeated(graph, logits, _repeats(model, OMNILINGUAL_FRAME_S), num_outputs)
    graph.output("logits", logits, np.float32, (1, "steps", num_outputs))
    return graph.model(model.name, dict(metadata))


def stream_window(model: AcousticModel) -> Window | None:
    """Return what a stream's model has to see at once; None if the model depends on the whole clip."""
    field = model.network.receptive_field()
    if field is None or model.features.normalize:
        return None
    frame = model.network.SUBSAMPLING
    chunk = field.chunk * frame
    shift = -(-STREAM_SHIFT // chunk) * chunk
    last = shift - frame  # the frame around which the last of the returned logits is
    return Window(max(1, -(-field.before // chunk)) * chunk, shift, max(shift, last + field.after + 1))


def stream_model(
    model: AcousticModel, num_outputs: int, window: Window, metadata: Mapping[str, str]
) -> onnx.ModelProto:
    """Return a model for streams of Kaldi's filter banks, which sherpa-onnx loads as `zipformer2_ctc`.

    It gets `window.size` frames of features at a time, and returns the logits of the first `window.shift`,
    which are those of the whole recording. Its state is the `window.history` frames before, in place of the
    keys of a Zipformer of one layer, and how many have been; the rest of a Zipformer's state is as small as
    can be, and unused.

    Args:
        model: with features of the kind fbank that are not normalised, and a bounded receptive field.
        num_outputs: V.
        window: of `stream_window`.
        metadata: what viewers read; what sherpa-onnx reads is added.

    Raises:
        UserError: a layer has no exporter, or the model's frames are no multiple of 40 ms.
    """
    graph = Graph()
    num_features, frame = model.features.num_features, model.network.SUBSAMPLING
    chunk = graph.input("features", np.float32, ("batch", window.size, num_features))
    shapes = _state_shapes(num_features, window)
    states = [graph.input(name, np.float32, shape) for name, shape in shapes.items()]
    num_before = graph.input("num_before", np.int64, ("batch",))

    # before the stream there is nothing, not silence: frames that do not exist are moved to the end
    history = graph.op("Transpose", states[0], perm=[1, 0, 2])
    features = graph.op("Concat", history, chunk, axis=1)  # (B, history + size, F)
    num_history = graph.op("Min", num_before, window.history)
    missing = graph.op("Sub", window.history, num_history)
    num_frames = num_history + _num_until_silence(graph, chunk, window.size)
    moved = _frames_from(graph, features, missing, window.history + window.size)
    moved *= padding_mask(graph, num_frames, moved, axis=1, rank=3)
    logits, num_logits = add_network(graph, model, moved, num_frames)

    num_steps = window.shift // frame
    silent = _behind_the_end(graph, num_logits - num_history // frame, num_steps, num_outputs)
    logits = _frames_from(graph, logits, num_history // frame, num_steps) + silent
    repeated = _repeated(graph, logits, _repeats(model, ZIPFORMER_FRAME_S), num_outputs)
    graph.output("logits", repeated, np.float32, ("batch", "steps", num_outputs))
    kept = graph.slice(features, 1, window.shift, window.shift + window.history)
    states[0] = graph.op("Transpose", kept, perm=[1, 0, 2])
    for (name, shape), state in zip(shapes.items(), states, strict=True):
        graph.output(f"next_{name}", state, np.float32, shape)
    graph.output("next_num_before", num_before + window.shift, np.int64, ("batch",))
    return graph.model(model.name, {**metadata, **_stream_metadata(num_features, window)})


def _num_until_silence(graph: Graph, chunk: Value, size: int) -> Value:
    """Return the number of frames (B,) of a chunk (B, T, F) without the digital silence at its end.

    A program ends a stream by such silence, after which a clip of the training has nothing. The last frame
    before it, most of which is silence, does not count either: a clip that ends there does not have it.
    """
    with graph.scope("end"):
        loudest = graph.op("ReduceMax", chunk, [2], keepdims=0)  # (B, T)
        sound = graph.op("Greater", loudest, float(np.log(Fbank.FLOOR)) + ABOVE_SILENCE)
        numbers = graph.constant("numbers", np.arange(1, size + 1)[None])
        number = graph.op("ReduceMax", graph.op("Cast", sound, to=INT64) * numbers, [1], keepdims=0)
        ends = graph.op("Cast", graph.op("Less", number, size), to=INT64)
        return graph.op("Max", number - ends, 0)


def _behind_the_end(graph: Graph, num_logits: Value, num_steps: int, num_outputs: int) -> Value:
    """Return (B, num_steps, V) to add to logits, so that those from `num_logits` (B,) on are blanks."""
    with graph.scope("end"):
        steps = graph.constant("steps", np.arange(num_steps)[None, :, None])
        ended = graph.op("GreaterOrEqual", steps, graph.op("Unsqueeze", num_logits, [1, 2]))  # (B, steps, 1)
        blank = np.zeros((1, 1, num_outputs), np.float32)
        blank[..., BLANK_ID] = CERTAIN
        return graph.op("Cast", ended, to=FLOAT32) * graph.constant("blank", blank)


def _state_shapes(num_features: int, window: Window) -> dict[str, tuple[int | str, ...]]:
    """Return the state's tensors in the order of sherpa-onnx, which makes them of zeros."""
    return {
        "history": (window.history, "batch", num_features),
        "unused_attention": (1, "batch", window.history, 1),
        "unused_values1": (window.history, "batch", 1),
        "unused_values2": (window.history, "batch", 1),
        "unused_convolution1": ("batch", 2, 1),
        "unused_convolution2": ("batch", 2, 1),
        "unused_embedding": ("batch", 128, 3, 19),
    }


def _stream_metadata(num_features: int, window: Window) -> dict[str, str]:
    """Return the sizes from which sherpa-onnx computes the state's shapes, and how far it moves on."""
    values = {
        "model_type": "zipformer2",
        "T": window.size,
        "decode_chunk_len": window.shift,
        "num_encoder_layers": 1,
        "left_context_len": window.history,
        "query_head_dims": num_features,
        "num_heads": 1,
        "value_head_dims": 1,
        "encoder_dims": 2,
        "cnn_module_kernels": 2,
    }
    return {key: str(value) for key, value in values.items()}


def _repeats(model: AcousticModel, frame_s: float) -> int:
    times, rest = divmod(model.frame_samples, round(frame_s * SAMPLE_RATE_HZ))
    if rest:
        raise UserError(
            f"{model.network.name}: expected frames of logits of {1000 * frame_s:.0f} ms or a multiple, by "
            f"which sherpa-onnx computes times, received {1000 * model.frame_s:.0f} ms; change SUBSAMPLING"
        )
    return times


def _repeated(graph: Graph, logits: Value, times: int, num_outputs: int) -> Value:
    """Repeat every frame of logits (B, T, V)."""
    with graph.scope("repeats"):
        side_by_side = graph.op("Concat", *[logits] * times, axis=2)  # (B, T, times * V)
        return graph.op("Reshape", side_by_side, [0, -1, num_outputs])


def _frames_from(graph: Graph, values: Value, first: Value, number: int) -> Value:
    """Return a number of frames of values (B, T, C) from `first` (B,) on; the last if there are no more."""
    places = graph.op("Unsqueeze", first, [1]) + graph.constant("places", np.arange(number)[None])
    places = graph.op("Min", places, graph.size(values, 1) - 1)
    return graph.op("GatherND", values, graph.op("Unsqueeze", places, [2]), batch_dims=1)
