"""Test the export of a Conformer's run in every format, with chunks and a self-conditioned output."""

import numpy as np
import pytest
from helpers.clips import clip_segments
from helpers.exports import CONFORMER, SELF_CONDITIONED
from helpers.random_run import random_run, trained_recognizer
from helpers.recognize import recognize
from helpers.small_conformer import use_small_conformer
from helpers.transcripts import streamed, tokens_of

from asr.audio.recording import read_audio
from asr.base.config import load_config
from asr.base.decoder_settings import DecoderSettings
from asr.base.vocabulary import Vocabulary
from asr.export import export
from asr.export.runtimes.onnx.recognizer import ExportedModel
from asr.transcription.decoder_choice import DecoderChoice

OVERRIDES = (
    *CONFORMER,
    *SELF_CONDITIONED,
    "model.chunk_s=0.32",
    'features.kind="fbank"',  # sherpa-onnx has streams of such models alone
    "features.normalize=false",
)


@pytest.fixture(scope="module", autouse=True)
def _small_conformer():
    with pytest.MonkeyPatch.context() as monkeypatch:
        use_small_conformer(monkeypatch)
        yield


@pytest.fixture(scope="module")
def conformer_run(separable_config, clips, tmp_path_factory):
    config = load_config(separable_config, overrides=OVERRIDES)
    return random_run(config, Vocabulary.of_utterances(clips), tmp_path_factory.mktemp("conformer") / "run")


@pytest.fixture(scope="module")
def folder(conformer_run, tmp_path_factory):
    """Return the export of the run as `onnx`, which was compared with it."""
    exported = export(conformer_run, tmp_path_factory.mktemp("onnx") / "out")
    assert_same(exported.parity)
    return exported.folder


def assert_same(parity):
    assert parity.num_same_tokens == parity.num_clips == 4
    assert parity.exported == parity.trained
    assert parity.exported.errors
    assert parity.max_logit_difference is None or parity.max_logit_difference < 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("name", ["litert", "saved_model"])
def test_other_formats_have_the_logits_of_the_run(conformer_run, tmp_path, name):
    assert_same(export(conformer_run, tmp_path / "out", name).parity)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["onnx", "litert", "sherpa"])
def test_formats_with_weights_in_8_bits_are_within_their_bounds(conformer_run, tmp_path, name):
    exported = export(conformer_run, tmp_path / "out", name, quantize="int8")
    assert not exported.parity.beyond(exported.bounds)


@pytest.mark.slow
def test_sherpa_recognizes_the_same_on_whole_clips_and_streams(conformer_run, tmp_path):
    parity = export(conformer_run, tmp_path / "out", "sherpa").parity
    assert_same(parity)
    assert parity.streamed[1] == 4


@pytest.mark.slow
def test_exported_folder_recognizes_recordings_and_streams_as_its_run(folder, conformer_run, clips):
    exported = ExportedModel.open(folder).recognizer(DecoderChoice(DecoderSettings(), write_hanzi=False))
    trained = trained_recognizer(conformer_run, write_hanzi=False)
    waveform = np.concatenate([read_audio(clip.audio_path) for clip in clips[4:7]])
    results = []
    for recognizer in (exported, trained):
        assert recognizer.runner.model.receptive_field() is not None
        segments, updates = streamed(recognizer.stream(), waveform, 7000)
        whole = clip_segments(recognizer, [waveform])[0]
        assert tokens_of(segments) == whole.tokens
        results.append((whole.tokens, whole.times_s, [one.tokens[: one.num_final] for one in updates]))
    assert results[0] == results[1]
    assert results[0][0]


@pytest.mark.slow
def test_script_of_the_folder_recognizes_files_and_streams_as_the_run(folder, conformer_run, clips):
    expected = trained_recognizer(conformer_run, write_hanzi=False).transcribe(clips[4].audio_path)
    whole = recognize(folder, "--tokens", clips[4].audio_path)
    assert whole.returncode == 0, whole.stderr.decode()
    waveform = read_audio(clips[4].audio_path)
    stream = recognize(folder, "--stream", "-", "--tokens", data=waveform.tobytes())
    for done in (whole, stream):
        assert done.stdout.decode().splitlines()[-1].endswith(" ".join(expected.tokens))
