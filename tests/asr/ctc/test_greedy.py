import numpy as np
import pytest

from asr.base.types import Logits
from asr.base.vocabulary import Vocabulary
from asr.ctc.greedy import best_path, collapse, hypotheses_of, labels_of


@pytest.mark.parametrize(
    ("frames", "labels", "starts"),
    [
        ([0, 1, 1, 0, 1, 2], [1, 1, 2], [1, 4, 5]),
        ([3, 3, 3], [3], [0]),
        ([0, 0], [], []),
        ([], [], []),
        ([1, 2, 1], [1, 2, 1], [0, 1, 2]),
    ],
)
def test_repeats_are_merged_and_blanks_removed(frames, labels, starts):
    ids, begun = collapse(np.array(frames, np.int32))
    assert ids.tolist() == labels
    assert begun.tolist() == starts


def test_padding_frames_are_ignored():
    best = np.array([[1, 0, 2, 2, 1], [2, 1, 2, 1, 2]])
    values = 5.0 * np.eye(3, dtype=np.float32)[best]
    path = best_path(Logits(values, np.array([5, 2], np.int32)))
    assert labels_of(path) == [[1, 2, 1], [2, 1]]
    per_frame = 5 - np.log(np.exp(5) + 2)
    first, second = hypotheses_of(path, Vocabulary(["x1", "y1"]), frame_s=0.08)
    assert (first.tokens, first.times_s) == (("x1", "y1", "x1"), (0.0, 0.16, 0.32))
    np.testing.assert_allclose([first.score, second.score], [5 * per_frame, 2 * per_frame], rtol=1e-5)
    assert second.tokens == ("y1", "x1")


def test_the_confidence_of_a_label_is_the_geometric_mean_of_its_frames():
    probabilities = np.array([[0.1, 0.6, 0.3], [0.1, 0.8, 0.1], [0.9, 0.05, 0.05], [0.2, 0.3, 0.5]])
    path = best_path(Logits(np.log(probabilities)[None].astype(np.float32), np.array([4], np.int32)))
    (hypothesis,) = hypotheses_of(path, Vocabulary(["x1", "y1"]), frame_s=0.08)
    assert hypothesis.confidences == pytest.approx((np.sqrt(0.6 * 0.8), 0.5))
