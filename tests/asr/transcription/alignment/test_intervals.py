"""Converts CTC frames into intervals of time, and checks whether a text fits its recording."""

import numpy as np
import pytest

from asr.audio.recording import SAMPLE_RATE_HZ
from asr.ctc.forced_alignment import TokenAlignment
from asr.transcription.alignment.fit import misfits
from asr.transcription.alignment.intervals import quiet_steps, token_intervals
from asr.transcription.transcript import Token, Word

FRAME_S = 0.08
MIDDLE_S = 0.0125  # of the first frame
NO_QUIET = np.zeros(1000, bool)


def aligned(frames, log_prob=-0.01):
    starts = np.array(frames, np.int64)
    return TokenAlignment(starts, starts + 1, np.full(len(starts), log_prob, np.float32), 0.0)


def quiet_between(*spans_s):
    quiet = NO_QUIET.copy()
    for begin_s, end_s in spans_s:
        quiet[round(begin_s * 100) : round(end_s * 100)] = True
    return quiet


def test_a_boundary_lies_nearer_to_the_later_token():
    starts, ends = token_intervals(aligned([10, 14]), FRAME_S, MIDDLE_S, 10.0, NO_QUIET)
    assert ends[0] == starts[1] == pytest.approx((10 + 0.75 * 4) * FRAME_S + MIDDLE_S)


def test_a_token_ends_where_a_pause_begins_and_the_next_token_begins_where_the_pause_ends():
    quiet = quiet_between((0.5, 0.75), (1.1, 1.4), (1.6, 1.9), (2.3, 4.0))
    starts, ends = token_intervals(aligned([10, 25]), FRAME_S, MIDDLE_S, 10.0, quiet)  # at 0.81 and 2.01 s
    np.testing.assert_allclose(starts, [0.75, 1.9])
    np.testing.assert_allclose(ends, [1.1, 2.3])


def test_quiet_too_short_for_a_pause_does_not_end_a_token():
    loud = token_intervals(aligned([10, 14]), FRAME_S, MIDDLE_S, 10.0, NO_QUIET)
    closure = token_intervals(aligned([10, 14]), FRAME_S, MIDDLE_S, 10.0, quiet_between((0.90, 0.95)))
    np.testing.assert_array_equal(loud, closure)


def test_without_pauses_the_length_of_a_token_is_limited():
    starts, ends = token_intervals(aligned([10, 60]), FRAME_S, MIDDLE_S, 10.0, NO_QUIET)
    assert ends[0] - starts[0] < 0.5
    assert ends[1] - starts[1] < 0.5
    assert starts[1] > 60 * FRAME_S - 0.15


@pytest.mark.parametrize("seed", range(20))
def test_intervals_are_in_order_apart_and_inside_the_recording(seed):
    rng = np.random.default_rng(seed)
    frames = np.sort(rng.choice(125, 40, replace=False))
    quiet = np.repeat(rng.random(250) < 0.4, 4)
    starts, ends = token_intervals(aligned(frames), FRAME_S, MIDDLE_S, 10.0, quiet)
    assert starts[0] >= 0
    assert ends[-1] <= 10.0
    assert (ends > starts).all()
    assert (starts[1:] >= ends[:-1]).all()
    middles = frames * FRAME_S + MIDDLE_S
    assert ((starts <= middles) & (middles <= ends)).all()


def test_an_empty_alignment_has_no_intervals():
    starts, ends = token_intervals(aligned([]), FRAME_S, MIDDLE_S, 10.0, NO_QUIET)
    assert len(starts) == len(ends) == 0


def test_quiet_is_relative_to_nearby_sound_and_not_to_the_loudest_of_the_recording():
    rng = np.random.default_rng(1)
    loud, soft = (rng.normal(size=2 * SAMPLE_RATE_HZ) * level for level in (8000, 300))
    pause = rng.normal(size=SAMPLE_RATE_HZ // 2) * 5
    waveform = np.concatenate([loud, pause, loud, np.tile(soft, 3), pause, soft]).astype(np.int16)
    quiet = quiet_steps(waveform)
    assert quiet[205:245].all()
    assert not quiet[:200].any()
    assert not quiet[650:1050].any()  # soft speech, seconds after the loud one
    assert quiet[1055:1095].all()


def words_of(alignment):
    starts = alignment.starts * FRAME_S
    return [Word("", (Token(f"t{i}", start, start + FRAME_S, 0.5),)) for i, start in enumerate(starts)]


def misfits_of(alignment, blank_log_probs=None, quiet=NO_QUIET):
    if blank_log_probs is None:
        blank_log_probs = np.full(125, -1e-4, np.float32)
    return misfits(words_of(alignment), alignment, blank_log_probs, FRAME_S, quiet)


def test_a_text_that_fits_has_no_misfits():
    assert misfits_of(aligned(range(0, 100, 3))) == []


def test_places_where_the_recording_does_not_match_the_text_are_reported():
    alignment = aligned(range(0, 100, 2))
    alignment.log_probs[20:27] = -8.0
    (message,) = misfits_of(alignment)
    assert message.startswith("3.04 to 4.40 s: ")
    assert ": t19 t20 t21" in message
    assert message.endswith("(9 tokens)")


def test_speech_that_is_not_in_the_text_is_reported():
    blanks = np.full(125, -1e-4, np.float32)
    blanks[[50, 55, 60]] = -5.0  # three tokens between two of the text
    (message,) = misfits_of(aligned([10, 20, 40, 80]), blanks)
    assert message == "3.36 to 6.32 s: speech that is not in the text"


def test_the_text_of_another_recording_is_reported_in_one_line():
    (message,) = misfits_of(aligned(range(0, 100, 2), log_prob=-9.0))
    assert "do not match" in message
    assert "0.00012" in message


def test_a_model_that_aligns_tokens_with_pauses_is_reported():
    (message,) = misfits_of(aligned(range(1, 13)), quiet=quiet_between((0.0, 3.0)))
    assert "100% of the tokens were found in pauses" in message
