"""Transcribes recordings of any length piece by piece."""

import itertools
import json
import tracemalloc

import numpy as np
import pytest
import soundfile
from helpers.clips import clip_segments

from asr.audio.recording import audio_blocks, read_audio, write_wav
from asr.audio.voice_activity import speech_pieces
from asr.base.config import Config, FeatureConfig, ModelConfig
from asr.base.errors import UserError
from asr.base.vocabulary import Vocabulary
from asr.model.acoustic_model import make_acoustic_model
from asr.model.tensorflow_runner import TensorFlowRunner
from asr.transcription.long_audio import LongAudioRecognizer, without_overlaps
from asr.transcription.recognizer import Recognizer
from asr.transcription.streaming.stream_logits import seam
from asr.transcription.transcript import Transcript

VOCABULARY = Vocabulary(["a", "b", "c", "d", "e", "f", "g"])
SECOND = 16000


@pytest.fixture(scope="module")
def recognizer():
    config = Config(features=FeatureConfig(normalize=False), model=ModelConfig(size="xs"))
    return Recognizer(TensorFlowRunner(make_acoustic_model(config, VOCABULARY)), VOCABULARY)


@pytest.fixture(scope="module")
def long_audio(recognizer):
    return LongAudioRecognizer(recognizer.runner, recognizer.decoder)


@pytest.fixture(scope="module")
def sentences(clips):
    return [read_audio(clip.audio_path) for clip in clips]


def talk(duration_s):
    """Return noise that swells four times a second, as speech does, without a pause."""
    num_samples = round(duration_s * SECOND)
    swell = np.square(np.sin(np.arange(num_samples) / SECOND * 4 * np.pi)) + 0.02
    noise = np.random.default_rng(0).normal(0, 4000, num_samples) * swell
    return noise.clip(-32000, 32000).astype(np.int16)


def logits_of(recognizer, waveform):
    return recognizer.model(waveform[None], np.array([len(waveform)], np.int32)).values.numpy()[0]


@pytest.mark.parametrize("duration_s", [13.0, 31.4])
def test_logits_across_every_seam_equal_those_of_the_whole_recording(recognizer, duration_s):
    waveform = talk(duration_s)
    step = recognizer.model.frame_samples
    pieces = list(speech_pieces([waveform], step, max_piece_s=6.05, overlap_s=4.0))
    assert len(pieces) > 3
    cuts = list(without_overlaps(((piece, logits_of(recognizer, piece.waveform)) for piece in pieces), step))
    assert len(cuts) == len(pieces)
    for cut, following in itertools.pairwise(cuts):
        assert cut.end == following.begin
    whole = logits_of(recognizer, waveform)
    np.testing.assert_allclose(np.concatenate([cut.logits for cut in cuts]), whole, atol=2e-4)


def test_a_seam_is_where_both_pieces_give_a_blank_the_highest_probability():
    log_probs = np.full((40, 3), -3.0, np.float32)
    one, other = log_probs.copy(), log_probs.copy()
    one[24:28, 0] = -0.1
    other[22:27, 0] = -0.1
    assert seam(one, other) == 25
    assert seam(log_probs, log_probs) == 20
    one[1, 0] = other[1, 0] = 0.0  # the field of the edges reaches into padding
    assert seam(one, other) == 25


def test_segments_are_stretches_between_pauses_with_times_in_the_recording(
    recognizer, long_audio, sentences, tmp_path
):
    pause = np.zeros(2 * SECOND, np.int16)
    write_wav(tmp_path / "a.wav", np.concatenate([p for s in sentences[:5] for p in (pause, s)]))
    seconds_read = []
    segments = list(long_audio.segments(tmp_path / "a.wav", seconds_read.append))
    assert len(segments) == 5
    assert seconds_read[-1] == pytest.approx(sum(map(len, sentences[:5])) / SECOND + 10)
    waveform = read_audio(tmp_path / "a.wav")
    begin_s = 0.0
    for segment, sentence in zip(segments, sentences[:5], strict=True):
        begin_s += 2.0
        assert begin_s - 0.2 < segment.start_s < begin_s + 0.1
        begin_s += len(sentence) / SECOND
        assert begin_s - 0.2 < segment.end_s < begin_s + 0.2
        piece = waveform[round(segment.start_s * SECOND) : round(segment.end_s * SECOND)]
        alone = clip_segments(recognizer, [piece])[0]
        assert segment.tokens == alone.tokens
        assert segment.times_s == pytest.approx(
            [time_s + segment.start_s for time_s in alone.times_s], abs=2e-3
        )
    whole = Transcript.of(segments, seconds_read[-1], "words")
    assert whole.tokens == tuple(token for s in segments for token in s.tokens)
    assert list(whole.times_s) == sorted(whole.times_s)
    assert len(whole.times_s) == len(whole.tokens)


def test_a_recording_without_speech_has_no_segments(long_audio, tmp_path):
    write_wav(tmp_path / "a.wav", np.zeros(70 * SECOND, np.int16))
    assert list(long_audio.segments(tmp_path / "a.wav")) == []


def test_a_truncated_recording_is_an_error_with_its_path(long_audio, sentences, tmp_path):
    waveform = np.concatenate([np.tile(np.concatenate([sentences[0], np.zeros(SECOND, np.int16)]), 60)])
    soundfile.write(tmp_path / "a.flac", waveform, SECOND)
    data = (tmp_path / "a.flac").read_bytes()
    (tmp_path / "a.flac").write_bytes(data[: len(data) * 3 // 4])
    with pytest.raises(UserError, match=r"a\.flac"):
        list(long_audio.segments(tmp_path / "a.flac"))


def test_memory_does_not_grow_with_the_recording(sentences, tmp_path):
    unit = np.concatenate([sentences[0], np.zeros(SECOND, np.int16)])
    peaks = []
    for minutes in (3, 9):
        write_wav(tmp_path / "a.wav", np.tile(unit, minutes * 60 * SECOND // len(unit)))
        tracemalloc.start()
        for _ in speech_pieces(audio_blocks(tmp_path / "a.wav", 30.0), 1280):
            pass
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.1 * peaks[0]


def test_score_of_nothing_is_a_number_like_any_other():
    nothing = Transcript.of([], 2.0, "syllables")
    assert json.dumps([nothing.text, nothing.score]) == '["", 0.0]'
