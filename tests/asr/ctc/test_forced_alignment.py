"""Compares forced alignment with an exhaustive search and a textbook Viterbi, and its sums with the loss."""

import itertools

import numpy as np
import pytest

from asr.base.errors import UserError
from asr.base.types import Logits
from asr.ctc.forced_alignment import BLOCK_FRAMES, align_tokens, label_losses
from asr.ctc.loss import ctc_loss

VOCABULARY_SIZE = 4
NUM_OUTPUTS = 12


def random_log_probs(num_frames, seed):
    logits = np.random.default_rng(seed).normal(size=(num_frames, VOCABULARY_SIZE)) * 2
    return (logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))).astype(np.float32)


def spelled(path):
    return [label for label, _ in itertools.groupby(path) if label]


def best_of_all_paths(log_probs, ids):
    """Return the best score of all V^T paths that spell these tokens; minus infinity if none does."""
    frames = range(len(log_probs))
    paths = itertools.product(range(VOCABULARY_SIZE), repeat=len(log_probs))
    fitting = (path for path in paths if spelled(path) == list(ids))
    return max((float(log_probs[frames, path].sum()) for path in fitting), default=-np.inf)


def textbook_score(log_probs, ids):
    """Return the score of Viterbi over the blank-interleaved states, all scores at once."""
    labels = np.zeros(2 * len(ids) + 1, int)
    labels[1::2] = ids
    skips = (labels != 0) & (labels != np.roll(labels, 2))
    skips[:2] = False
    scores = np.full(len(labels), -np.inf)
    scores[:2] = log_probs[0, labels[:2]]
    for row in log_probs[1:].astype(np.float64):
        one = np.concatenate([[-np.inf], scores[:-1]])
        two = np.where(skips, np.concatenate([[-np.inf] * 2, scores])[: len(scores)], -np.inf)
        scores = np.maximum(np.maximum(scores, one), two) + row[labels]
    return scores[-2:].max()


def path_of(alignment, ids, num_frames):
    path = np.zeros(num_frames, int)
    for start, end, token in zip(alignment.starts, alignment.ends, ids, strict=True):
        path[start:end] = token
    return path


def check(log_probs, ids, alignment):
    """Assert that the alignment is a path through the tokens, and that its figures are those of the path."""
    assert (alignment.ends > alignment.starts).all()
    assert (alignment.starts[1:] >= alignment.ends[:-1]).all()
    path = path_of(alignment, ids, len(log_probs))
    assert spelled(path) == list(ids)
    on_path = log_probs[np.arange(len(path)), path]
    assert alignment.score == pytest.approx(on_path.sum(dtype=np.float64))
    means = [on_path[a:b].mean() for a, b in zip(alignment.starts, alignment.ends, strict=True)]
    np.testing.assert_allclose(alignment.log_probs, means, rtol=1e-5)


@pytest.mark.parametrize("seed", range(3))
def test_the_alignment_is_the_best_of_all_paths(seed):
    for num_frames in (1, 2, 3, 6):
        log_probs = random_log_probs(num_frames, seed)
        for length in range(1, 5):
            for ids in itertools.product((1, 2), repeat=length):
                best = best_of_all_paths(log_probs, ids)
                if best == -np.inf:
                    with pytest.raises(UserError, match="frames"):
                        align_tokens(log_probs, ids)
                    continue
                alignment = align_tokens(log_probs, ids)
                check(log_probs, ids, alignment)
                assert alignment.score == pytest.approx(best, abs=1e-4)


@pytest.mark.parametrize(
    ("num_frames", "num_tokens"),
    [(BLOCK_FRAMES + 1, 700), (3 * BLOCK_FRAMES - 5, 3000), (5000, 3), (2 * BLOCK_FRAMES, 2500)],
)
def test_long_recordings_are_aligned_as_exactly_as_short_ones(num_frames, num_tokens):
    """The clips have repeated tokens, and more frames than are held at a time."""
    log_probs = random_log_probs(num_frames, seed=num_frames)
    ids = np.random.default_rng(1).integers(1, VOCABULARY_SIZE, num_tokens)
    alignment = align_tokens(log_probs, ids)
    check(log_probs, ids.tolist(), alignment)
    assert alignment.score == pytest.approx(textbook_score(log_probs, ids), abs=1e-6)


def test_tokens_are_aligned_with_their_spikes():
    log_probs = np.full((12, VOCABULARY_SIZE), np.log(0.01), np.float32)
    log_probs[:, 0] = np.log(0.97)
    for frame, token in ((2, 1), (3, 1), (5, 1), (9, 3)):
        log_probs[frame, token], log_probs[frame, 0] = np.log(0.9), np.log(0.05)
    alignment = align_tokens(log_probs, [1, 1, 3])
    assert alignment.starts.tolist() == [2, 5, 9]
    assert alignment.ends.tolist() == [4, 6, 10]
    np.testing.assert_allclose(np.exp(alignment.log_probs), [0.9, 0.9, 0.9], rtol=1e-5)


def test_an_empty_text_is_aligned_with_blanks():
    log_probs = random_log_probs(5, seed=1)
    alignment = align_tokens(log_probs, [])
    assert len(alignment.starts) == len(alignment.ends) == len(alignment.log_probs) == 0
    assert alignment.score == pytest.approx(log_probs[:, 0].sum(), abs=1e-5)


def test_tokens_of_probability_0_are_aligned_all_the_same():
    """If all posteriors are 0, every path has the same score."""
    log_probs = np.full((6, VOCABULARY_SIZE), -np.inf, np.float32)
    log_probs[:, 0] = 0.0
    alignment = align_tokens(log_probs, [1, 2, 2])
    assert spelled(path_of(alignment, [1, 2, 2], 6)) == [1, 2, 2]
    assert alignment.score == -np.inf


def test_too_few_frames_are_an_error_with_both_numbers():
    log_probs = random_log_probs(3, seed=1)
    assert align_tokens(log_probs, [1, 2, 1]).starts.tolist() == [0, 1, 2]
    with pytest.raises(UserError, match=r"expected at least 4 frames for 3 tokens .* received 3"):
        align_tokens(log_probs, [1, 2, 2])
    with pytest.raises(UserError, match="received 0"):
        align_tokens(log_probs[:0], [1])


def test_sums_over_all_paths_are_the_losses_of_training():
    rng = np.random.default_rng(1)
    values = rng.normal(scale=4, size=(40, 30, NUM_OUTPUTS)).astype(np.float32)
    num_frames = rng.integers(16, 31, 40).astype(np.int32)
    labels = rng.integers(1, NUM_OUTPUTS, (40, 8)).astype(np.int32)
    labels[:10] = np.repeat(labels[:10, :4], 2, axis=1)  # each label twice, with a blank between them
    num_labels = rng.integers(0, 9, 40).astype(np.int32)
    batch = Logits(values, num_frames), labels, num_labels
    np.testing.assert_allclose(label_losses(*batch), ctc_loss(*batch), rtol=1e-5)


@pytest.mark.parametrize(("labels", "num_frames"), [([1, 2, 3], 2), ([4, 4], 2), ([1], 0)])
def test_labels_without_enough_frames_have_no_alignment(labels, num_frames):
    logits = Logits(np.zeros((1, 5, NUM_OUTPUTS), np.float32), np.array([num_frames], np.int32))
    row = np.array([labels], np.int32), np.array([len(labels)], np.int32)
    assert label_losses(logits, *row).tolist() == [np.inf]
    enough = Logits(logits.values, np.array([3], np.int32))
    assert np.isfinite(label_losses(enough, *row)).all()
