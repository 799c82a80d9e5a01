"""Test that ONNX Runtime computes the features of TensorFlow, but for what float32 rounds at the end."""

import numpy as np
import onnxruntime
import pytest
from helpers.exports import NUM_SAMPLES, speech

from asr.audio.recording import INT16_SCALE
from asr.base.config import load_config
from asr.model.features import make_features
from asr.model.onnx.features import add_features
from asr.model.onnx.graph import Graph

# cepstra are sums of bands in float32
TOLERANCES = {"log_mel": 5e-6, "spectrogram": 5e-6, "fbank": 5e-6, "mfcc": 1e-4}
TONE = np.round(30_000 * np.sin(2 * np.pi * 1000 / 16000 * np.arange(8000))).astype(np.int16)


@pytest.mark.parametrize("pitch", ["false", "true"])
@pytest.mark.parametrize("kind", TOLERANCES)
def test_features_are_equal_but_for_the_last_places(kind, pitch):
    settings = [f'features.kind="{kind}"', f"features.pitch={pitch}"]
    layer = make_features(load_config("base", overrides=settings).features)
    graph = Graph()
    audio = graph.input("audio", np.float32, ("batch", "samples"))
    num_samples = graph.input("num_samples", np.int64, ("batch",))
    features, _ = add_features(graph, layer, audio, num_samples)
    graph.output("features", features, np.float32, ("batch", "frames", layer.num_features + layer.num_pitch))
    session = onnxruntime.InferenceSession(graph.model("features").SerializeToString())
    tone = TONE[None], [len(TONE)]
    for clips, lengths in ((speech(), NUM_SAMPLES), tone):
        expected = np.asarray(layer(clips, np.array(lengths, np.int32))[0])
        scaled = clips.astype(np.float32) / np.float32(INT16_SCALE)
        (found,) = session.run(None, {"audio": scaled, "num_samples": np.array(lengths, np.int64)})
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=TOLERANCES[kind])
        if kind != "mfcc":
            assert (found == expected)[..., : layer.num_features].mean() > 0.5
