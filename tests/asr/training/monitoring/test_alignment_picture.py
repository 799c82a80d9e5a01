import numpy as np
import pytest

from asr.base.vocabulary import Vocabulary
from asr.pages.pictures import apply_colours, spectrogram_picture
from asr.training.monitoring.alignment_picture import (
    HYPOTHESIS_INK,
    MARK,
    REFERENCE_INK,
    ROW_PX,
    SPECTROGRAM_PX,
    alignment_of,
    alignment_picture,
    labels_of_tokens,
)

VOCABULARY = Vocabulary(["hao3", "hao4", "ma5", "ni3"])
FRAME_S = 0.08
# blank, ni3 twice, blank, hao4 (hao3 comes near), blank
BEST = [0, 4, 4, 0, 2, 0]
WAVEFORM = (np.random.default_rng(0).normal(size=int(6 * FRAME_S * 16000)) * 1000).astype(np.int16)


def probabilities():
    values = np.full((6, 5), 0.01, np.float32)
    values[np.arange(6), BEST] = 0.96
    values[4, [1, 2]] = 0.3, 0.67
    return values


def bright(picture):
    """Return which pixels show a probability above a half."""
    weights = np.array([0.299, 0.587, 0.114])
    threshold = apply_colours(np.array([[0.5]]))[0, 0] @ weights
    return picture @ weights > threshold


def test_rows_follow_the_alignment_of_reference_and_hypothesis():
    alignment = alignment_of(probabilities(), ["ni3", "hao3", "ma5"], VOCABULARY, FRAME_S)
    rows = [(row.sign, row.token, row.frame) for row in alignment.rows]
    assert rows == [("", "ni3", 1), ("-", "hao3", -1), ("+", "hao4", 4), ("-", "ma5", -1)] or rows == [
        ("", "ni3", 1),
        ("-", "hao3", -1),
        ("-", "ma5", -1),
        ("+", "hao4", 4),
    ]
    assert alignment.num_errors == 2
    assert alignment.blank_share == 0.5
    np.testing.assert_array_equal(alignment.rows[1].probabilities, probabilities()[:, 1])


def test_row_is_bright_in_the_frames_of_its_token_and_marked_where_it_is_recognized():
    alignment = alignment_of(probabilities(), ["ni3", "hao3"], VOCABULARY, FRAME_S)
    picture = alignment_picture(WAVEFORM, alignment)
    frame_px = round(200 * FRAME_S)
    mark = np.array(MARK)
    left = int(np.flatnonzero((picture[SPECTROGRAM_PX:-40] == mark).all(axis=2).any(axis=0))[0]) - frame_px
    grid = picture[SPECTROGRAM_PX + 4 :, left : left + 6 * frame_px]
    cells = [
        [
            bright(grid[row * ROW_PX : (row + 1) * ROW_PX, frame * frame_px : (frame + 1) * frame_px])[
                ROW_PX // 2, frame_px // 2
            ]
            for frame in range(6)
        ]
        for row in range(3)
    ]
    assert cells == [
        [False, True, True, False, False, False],  # ni3
        [False] * 6,  # hao3, only in the reference
        [False, False, False, False, True, False],  # hao4
    ]
    for row, frame in ((0, 1), (2, 4)):
        assert tuple(grid[row * ROW_PX, frame * frame_px]) == MARK
    spectrogram = spectrogram_picture(WAVEFORM, SPECTROGRAM_PX)
    np.testing.assert_array_equal(picture[: SPECTROGRAM_PX - 10, left], spectrogram[: SPECTROGRAM_PX - 10, 0])


def test_tokens_that_differ_are_coloured():
    wrong = alignment_picture(WAVEFORM, alignment_of(probabilities(), ["ni3", "hao3"], VOCABULARY, FRAME_S))
    right = alignment_picture(WAVEFORM, alignment_of(probabilities(), ["ni3", "hao4"], VOCABULARY, FRAME_S))
    for ink in (REFERENCE_INK, HYPOTHESIS_INK):  # the legend at the bottom has them in both
        assert (wrong[:-40] == ink).all(axis=2).any()
        assert not (right[:-40] == ink).all(axis=2).any()


@pytest.mark.parametrize("num_frames", [1, 2, 300, 5000])
def test_alignment_pictures_of_any_length_have_a_bounded_width(num_frames):
    values = np.full((num_frames, 5), 0.2, np.float32)
    waveform = np.resize(WAVEFORM, int(num_frames * FRAME_S * 16000))
    picture = alignment_picture(waveform, alignment_of(values, ["ni3"], VOCABULARY, FRAME_S), "epoch 1")
    assert picture.dtype == np.uint8
    assert 400 <= picture.shape[1] <= 5200


def test_alignment_picture_of_silence_or_nan_is_drawn():
    for values in (np.full((6, 5), np.nan, np.float32), np.eye(5, dtype=np.float32)[[0] * 6]):
        alignment = alignment_of(values, [], VOCABULARY, FRAME_S)
        assert not alignment.rows
        assert alignment.blank_share == 1.0
        assert alignment_picture(np.zeros(7680, np.int16), alignment).shape[2] == 3


def test_token_outside_the_vocabulary_has_an_empty_row():
    alignment = alignment_of(probabilities(), ["ni3", "er2"], VOCABULARY, FRAME_S)
    (row,) = [row for row in alignment.rows if row.token == "er2"]
    assert not row.probabilities.any()


def test_tokens_that_the_font_lacks_are_labelled_by_pinyin_or_number():
    assert labels_of_tokens(["ni3", "你", "女", "Й", "<unk>", "▁"]) == [
        "ni3",
        "ni3",
        "nv3",
        "#4",
        "<unk>",
        "#6",
    ]
