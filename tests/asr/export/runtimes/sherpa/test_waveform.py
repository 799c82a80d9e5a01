import numpy as np
import onnxruntime
import pytest

from asr.audio.recording import read_audio
from asr.export.runtimes.sherpa.waveform import restored_waveform
from asr.model.onnx.graph import Graph

USUAL = 1234.5


@pytest.fixture(scope="module")
def session():
    graph = Graph()
    audio = graph.input("audio", np.float32, (1, "samples"))
    graph.output("scaled", restored_waveform(graph, audio, USUAL), np.float32, (1, "samples"))
    model = graph.model("loudness").SerializeToString()
    return onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])


def scaled(session, samples):
    """Return what the graph makes of samples from -1 to 1 that were normalised as sherpa-onnx does."""
    samples = np.asarray(samples, np.float32)
    normalized = (samples - samples.mean()) / np.sqrt(samples.var() + np.float32(1e-5))
    return session.run(None, {"audio": normalized[None].astype(np.float32)})[0][0]


@pytest.mark.parametrize("gain", [1, 0.05, 2.7])
def test_16_bit_samples_are_restored_but_for_their_mean(session, clips, gain):
    waveform = np.clip(np.round(read_audio(clips[0].audio_path) * gain), -32768, 32767)
    found = scaled(session, waveform / 32768)
    assert waveform.std() > 50
    mean = np.round((waveform - found).mean())
    assert abs(mean) < 2 * max(1, gain)
    np.testing.assert_allclose(found, waveform - mean, rtol=1e-5, atol=0.02)


def test_mean_of_the_quietest_part_becomes_0(session):
    waveform = np.round(np.random.default_rng(0).normal(scale=900, size=9_000))
    waveform[4_000:6_000] = np.round(waveform[4_000:6_000] / 1000)
    waveform[7_000:] += 200
    found = scaled(session, (waveform + 77) / 32768)
    np.testing.assert_allclose(found, waveform, rtol=1e-5, atol=0.02)


def test_mean_of_noise_stays_0(session):
    waveform = np.round(np.random.default_rng(0).normal(scale=900, size=9_000))
    found = scaled(session, (waveform + 77) / 32768)
    np.testing.assert_allclose(found, waveform - np.round(waveform.mean()), rtol=1e-5, atol=1.02)


def test_other_samples_get_the_usual_loudness(session):
    samples = np.random.default_rng(0).normal(scale=0.05, size=20_000)
    assert scaled(session, samples).std() == pytest.approx(USUAL, rel=0.01)


def test_samples_of_few_levels_get_the_usual_loudness(session):
    samples = np.round(np.random.default_rng(0).normal(scale=5, size=20_000)) * 1000
    assert scaled(session, samples / 32768).std() == pytest.approx(USUAL, rel=0.01)


@pytest.mark.parametrize("num_samples", [1, 2, 400])
def test_digital_silence_stays_silence(session, num_samples):
    assert (scaled(session, np.zeros(num_samples)) == 0).all()
