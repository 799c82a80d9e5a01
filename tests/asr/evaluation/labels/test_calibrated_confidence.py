import dataclasses

import numpy as np
import pytest
from helpers.random_run import random_run

from asr.base.config import load_config
from asr.base.errors import UserError
from asr.base.text.pieces import learn_pieces
from asr.base.text.units import LearnedUnits
from asr.base.vocabulary import Vocabulary
from asr.evaluation.labels.calibrated_confidence import Sample, calibrate, measured, samples_of
from asr.transcription.recognizer import Recognizer


def overconfident(number, rng):
    """Return transcripts whose tokens are right less often than their confidences say."""
    samples = []
    for _ in range(number):
        confidences = rng.beta(4, 1, rng.integers(1, 12)) * rng.uniform(0.5, 1)
        samples.append(Sample(confidences.tolist(), (rng.random(len(confidences)) < confidences**2).tolist()))
    return samples


def test_calibrated_confidence_of_unseen_transcripts_is_near_the_share_of_right_tokens():
    rng = np.random.default_rng(5)
    calibrated, unseen = calibrate(overconfident(600, rng)), overconfident(2000, rng)
    by_mean = measured([float(np.mean(sample.confidences)) for sample in unseen], unseen)
    by_weights = measured([calibrated.confidence(sample.confidences) for sample in unseen], unseen)
    assert by_mean.error > 0.1
    assert by_weights.error < 0.03
    assert abs(by_weights.error - calibrated.measured.error) < 0.03


def test_cross_validation_sees_what_is_only_fitted_to_chance():
    """Confidences that say nothing: the error of the fit itself would be lower than that of the folds."""
    rng = np.random.default_rng(1)
    samples = [Sample(rng.random(3).tolist(), (rng.random(3) < 0.5).tolist()) for _ in range(25)]
    calibrated = calibrate(samples)
    fitted = measured([calibrated.confidence(sample.confidences) for sample in samples], samples)
    assert calibrated.measured.error > fitted.error


def test_missing_tokens_lower_the_confidence():
    rng = np.random.default_rng(2)
    confidences = [rng.uniform(0.9, 1.0, 4).tolist() for _ in range(100)]
    whole = calibrate([Sample(one, [True] * 4) for one in confidences])
    gaps = calibrate([Sample(one, [True] * 4 + [False] * 2) for one in confidences])
    assert whole.confidence(confidences[0]) > 0.97
    assert gaps.confidence(confidences[0]) == pytest.approx(4 / 6, abs=0.02)


def test_few_transcripts_are_not_enough():
    with pytest.raises(UserError, match=r"expected 20 utterances .* received 3; name a larger manifest"):
        calibrate([Sample([0.5], [True])] * 3)


def test_samples_align_what_is_recognized_with_the_text(clips, separable_run):
    recognizer = Recognizer.load(separable_run, write_hanzi=False)
    recognized = [recognizer.transcribe(clip.audio_path).tokens for clip in clips]
    assert min(map(len, recognized)) > 1
    labelled = [dataclasses.replace(c, tokens=own[1:]) for c, own in zip(clips, recognized, strict=True)]
    gone = dataclasses.replace(clips[0], audio_path="gone.wav")
    samples = samples_of(recognizer, [*labelled, gone])
    assert [len(sample.confidences) for sample in samples] == [len(own) for own in recognized]
    assert [sum(sample.correct) for sample in samples] == [len(own) - 1 for own in recognized]


def test_labels_of_another_unit_are_refused(clips, separable_run):
    recognizer = Recognizer.load(separable_run, write_hanzi=False)
    characters = [dataclasses.replace(clip, tokens=tuple(clip.text)) for clip in clips]
    with pytest.raises(UserError, match=r"dev: expected labels as the model's, syllables"):
        samples_of(recognizer, characters)


def test_labels_by_the_pieces_of_another_model_are_refused(clips, clip_config, tmp_path):
    """Their errors would say nothing of the model, and every confidence would be zero."""
    texts = ["turn the light on", "turn on the lights"] * 3
    pieces, others = (learn_pieces(texts, LearnedUnits("bpe", number)) for number in (25, 17))
    random_run(load_config(clip_config), Vocabulary.of_pieces(pieces), tmp_path / "run")
    recognizer = Recognizer.load(tmp_path / "run")
    rows = [dataclasses.replace(clip, tokens=others.encode(texts[0])) for clip in clips]
    with pytest.raises(UserError, match=r"other\.jsonl: expected the pieces of this run"):
        samples_of(recognizer, rows, source="other.jsonl")
