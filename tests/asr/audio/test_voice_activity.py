"""Speech is detected, and recordings are cut at its pauses."""

import itertools

import numpy as np
import pytest
import scipy.signal

from asr.audio import voice_activity
from asr.audio.recording import FRAME_SAMPLES, read_audio
from asr.audio.voice_activity import Cutter, SpeechDetector, speech_pieces

GRID = 1280
SECOND = 16000


@pytest.fixture(scope="module")
def sentences(clips):
    return [read_audio(clip.audio_path) for clip in clips[:6]]


def with_pauses(sentences, pause_s):
    """Return sentences with pauses before, between and after them, and where each begins."""
    pause = np.zeros(round(pause_s * SECOND), np.int16)
    waveform = np.concatenate([pause, *(part for sentence in sentences for part in (sentence, pause))])
    begins = len(pause) + np.cumsum([0, *(len(sentence) + len(pause) for sentence in sentences[:-1])])
    return waveform, begins


def add_noise(waveform, colour, snr_db):
    noise = np.random.default_rng(3).normal(size=len(waveform))
    if colour == "brown":
        noise = scipy.signal.lfilter([1], [1, -0.99], noise)
    power = np.square(waveform[waveform != 0].astype(np.float64)).mean()
    noise *= np.sqrt(power / np.square(noise).mean()) * 10 ** (-snr_db / 20)
    return np.clip(waveform + noise, -32768, 32767).astype(np.int16)


def talk(duration_s, seed=0):
    """Return noise whose level rises four times a second, as in speech, without a pause."""
    num_samples = round(duration_s * SECOND)
    swell = np.square(np.sin(np.arange(num_samples) / SECOND * 4 * np.pi)) + 0.02
    return (
        (np.random.default_rng(seed).normal(0, 4000, num_samples) * swell)
        .clip(-32000, 32000)
        .astype(np.int16)
    )


def blocks_of(waveform, num_samples=30 * SECOND):
    return [waveform[begin : begin + num_samples] for begin in range(0, len(waveform), num_samples)]


@pytest.mark.parametrize(
    ("colour", "snr_db"), [("none", 0), ("white", 20), ("white", 10), ("white", 5), ("brown", 5)]
)
def test_every_sentence_becomes_a_piece_in_silence_and_in_noise(sentences, colour, snr_db):
    waveform, begins = with_pauses(sentences, 0.8)
    if colour != "none":
        waveform = add_noise(waveform, colour, snr_db)
    pieces = list(speech_pieces(blocks_of(waveform), GRID))
    assert len(pieces) == len(sentences)
    for piece, begin, sentence in zip(pieces, begins, sentences, strict=True):
        np.testing.assert_array_equal(piece.waveform, waveform[piece.begin :][: len(piece.waveform)])
        # the faint ends of a sentence are masked by noise
        assert begin - 0.2 * SECOND < piece.begin < begin + 0.15 * SECOND
        end = piece.begin + len(piece.waveform)
        assert -0.25 * SECOND < end - begin - len(sentence) < 0.2 * SECOND


@pytest.mark.parametrize("num_samples", [5120, 48000, 10**6])
def test_the_block_size_hardly_changes_the_pieces(sentences, num_samples):
    waveform, _ = with_pauses(sentences, 0.8)
    pieces = list(speech_pieces(blocks_of(waveform, num_samples), GRID))
    assert len(pieces) == len(sentences)


@pytest.mark.parametrize("kind", ["silence", "white", "brown", "nothing"])
def test_no_speech_is_detected_in_silence_or_noise(kind):
    quiet = np.zeros(0 if kind == "nothing" else 40 * SECOND, np.int16)
    if kind in ("white", "brown"):
        quiet = add_noise(np.full(40 * SECOND, 500, np.int16), kind, 0)
    assert list(speech_pieces(blocks_of(quiet), GRID)) == []


def test_short_silence_around_a_sentence_belongs_to_its_piece(sentences):
    silence = np.zeros(3200, np.int16)
    waveform = np.concatenate([silence, sentences[0], silence])
    (piece,) = speech_pieces([waveform], GRID)
    assert piece.begin == 0
    np.testing.assert_array_equal(piece.waveform, waveform)


@pytest.mark.parametrize("duration_s", [6.5, 30.0, 47.77])
def test_speech_without_pauses_becomes_overlapping_pieces_on_the_grid(duration_s):
    waveform = talk(duration_s)
    pieces = list(speech_pieces(blocks_of(waveform, 8 * SECOND), GRID, max_piece_s=6.05, overlap_s=2.0))
    assert pieces[0].begin == pieces[0].overlap == pieces[-1].shared_behind == 0
    assert pieces[-1].begin + len(pieces[-1].waveform) == len(waveform)
    for piece, following in itertools.pairwise(pieces):
        assert len(piece.waveform) <= 6.05 * SECOND
        assert piece.shared_behind == following.overlap
        assert piece.begin + len(piece.waveform) - following.overlap == following.begin
        assert (following.begin - piece.begin) % GRID == 0
        assert 2 * SECOND <= following.overlap < 2 * SECOND + GRID


def test_speech_without_pauses_is_cut_around_its_longest_gap():
    waveform = talk(9.0)
    waveform[4 * SECOND : int(4.2 * SECOND)] = 0  # too short for a pause
    one, _ = speech_pieces([waveform], GRID, max_piece_s=6.0, overlap_s=2.0)
    middle = one.begin + len(one.waveform) - SECOND
    assert 3.9 * SECOND < middle < 4.25 * SECOND


def test_a_detector_finds_sentences_in_a_stream(sentences):
    waveform, _ = with_pauses(sentences, 0.8)
    waveform = add_noise(waveform, "white", 15)
    detector, cutter = SpeechDetector(), Cutter(GRID)
    pieces = []
    for block in blocks_of(waveform, 32 * FRAME_SAMPLES):
        pieces += cutter.feed(block, detector.feed(block))
    pieces += cutter.finish()
    assert len(pieces) == len(sentences)


class ForgetfulDetector(SpeechDetector):
    """Computes all levels again for each block."""

    every_power = np.zeros((0, voice_activity.NUM_BANDS), np.float32)

    def _updated_levels(self, powers):
        self.every_power = np.concatenate([self.every_power, powers])
        return voice_activity._levels_db(self.every_power)


def test_a_detector_decides_as_one_that_computes_everything_again(sentences):
    waveform = add_noise(with_pauses(sentences * 2, 0.5)[0][: 29 * SECOND + 77], "white", 15)
    detector, other = SpeechDetector(), ForgetfulDetector()
    sizes, begin = itertools.cycle([32, 1, 3, 200, 5, 64]), 0
    while begin < len(waveform):
        end = begin + FRAME_SAMPLES * next(sizes)
        np.testing.assert_array_equal(*(one.feed(waveform[begin:end]) for one in (detector, other)))
        begin = end


def test_a_detector_keeps_no_more_than_half_a_minute(sentences):
    detector = SpeechDetector()
    for block in blocks_of(with_pauses(sentences * 5, 0.5)[0], SECOND):
        detector.feed(block)
    assert len(detector._levels) <= 100 * voice_activity.BLOCK_S
