"""Curves are those of real runs of the demo: an epoch is loss,train_error,dev_error,learning_rate,missed."""

import dataclasses
import math

import pytest

from asr.base.config import TrainConfig
from asr.base.errors import UserError
from asr.base.types import EditCounts, Utterance
from asr.runs.progress import EpochMetrics
from asr.training.monitoring.diagnostics import Diagnostics
from asr.training.optimization.skipped_batches import SkippedBatch

STEPS = 115  # per epoch
LABELS = 10_000

# missed is 0 where the run did not record it
SOUND = """
83.26,1.704,0.971,0.00062,0.000  43.28,0.954,0.856,0.0013,0.000  32.05,0.823,0.607,0.0019,0.000
23.13,0.665,0.454,0.0025,0.000  18.2,0.558,0.389,0.003,0.000  14.59,0.462,0.290,0.003,0.000
12.04,0.393,0.267,0.003,0.000  10.32,0.343,0.185,0.003,0.000  9.044,0.304,0.185,0.0029,0.000
8.322,0.282,0.151,0.0029,0.000  7.423,0.251,0.120,0.0028,0.000  6.863,0.235,0.176,0.0028,0.000
6.436,0.222,0.126,0.0027,0.000  5.521,0.195,0.097,0.0027,0.000  5.359,0.185,0.106,0.0026,0.000
4.868,0.169,0.077,0.0025,0.000  4.558,0.160,0.073,0.0024,0.000  4.349,0.151,0.079,0.0023,0.000
3.96,0.142,0.064,0.0022,0.000  3.708,0.135,0.060,0.0022,0.000  3.356,0.119,0.085,0.0021,0.000
3.132,0.112,0.085,0.0019,0.000  3.006,0.106,0.073,0.0018,0.000  2.823,0.102,0.064,0.0017,0.000
2.625,0.096,0.066,0.0016,0.000  2.435,0.085,0.051,0.0015,0.000  2.391,0.085,0.055,0.0014,0.000
2.089,0.075,0.054,0.0013,0.000  1.962,0.070,0.049,0.0012,0.000  1.843,0.066,0.055,0.0011,0.000
1.88,0.066,0.046,0.00097,0.000  1.634,0.059,0.039,0.00087,0.000  1.506,0.054,0.046,0.00077,0.000
1.553,0.054,0.042,0.00068,0.000  1.321,0.048,0.044,0.00059,0.000  1.295,0.046,0.049,0.0005,0.000
1.199,0.043,0.043,0.00042,0.000  1.147,0.040,0.041,0.00035,0.000  1.133,0.041,0.041,0.00028,0.000
1.145,0.041,0.043,0.00022,0.000  0.9414,0.033,0.037,0.00017,0.000  1.01,0.036,0.038,0.00012,0.000
0.9308,0.033,0.041,8.1e-05,0.000  0.863,0.032,0.033,4.9e-05,0.000  0.9704,0.032,0.039,2.5e-05,0.000
0.9623,0.034,0.038,9e-06,0.000  0.8705,0.031,0.038,9.7e-07,0.000  0.8678,0.032,0.042,0,0.000
"""
BLANK = """
52.82,1.045,1.000,0.3,0.950  48.86,1.000,1.000,0.28,1.000  48.44,1.000,1.000,0.24,1.000
47.96,1.000,1.000,0.17,1.000  47.77,1.000,1.000,0.11,0.999  47.35,1.000,1.000,0.051,1.000
46.96,1.000,1.000,0.012,1.000  46.72,1.000,1.000,0,1.000
"""
SHUFFLED = """
65.03,1.333,0.959,0.003,0.625  44.2,0.962,0.939,0.0029,0.795  42.23,0.946,0.919,0.0026,0.622
41.05,0.934,0.917,0.0022,0.506  40.09,0.929,0.928,0.0017,0.398  39.46,0.923,0.919,0.0012,0.351
38.86,0.926,0.933,0.00072,0.326  38.43,0.924,0.927,0.00033,0.307  38.23,0.922,0.925,7.7e-05,0.312
38.03,0.920,0.923,0,0.309
"""
RISING = """
51.71,1.086,1.026,0.03,0.606  36.08,0.878,0.849,0.06,0.222  31.85,0.832,0.831,0.091,0.150
30.14,0.803,0.757,0.12,0.117  30.76,0.813,0.746,0.15,0.114  31.94,0.819,0.896,0.18,0.125
33.45,0.842,0.805,0.21,0.152  32.78,0.832,0.810,0.24,0.122  36.08,0.866,0.857,0.27,0.148
37.74,0.884,0.809,0.3,0.155
"""
MEMORIZED = """
118.7,2.689,2.483,0.0005,0.002  95.53,2.176,0.961,0.001,0.004  52.36,0.987,1.000,0.0015,0.585
47.14,0.970,1.000,0.002,0.755  43.55,0.947,1.000,0.0025,0.646  40.66,0.938,0.998,0.003,0.683
36.87,0.906,0.971,0.003,0.611  32.83,0.869,0.888,0.003,0.539  27.77,0.771,0.895,0.003,0.419
23.05,0.690,0.855,0.003,0.290  19.02,0.595,0.800,0.0029,0.230  15.99,0.521,0.778,0.0029,0.178
12.51,0.409,0.754,0.0029,0.146  10.12,0.334,0.732,0.0028,0.107  8.169,0.277,0.750,0.0028,0.083
6.336,0.209,0.754,0.0028,0.072  4.89,0.144,0.713,0.0027,0.045  4.285,0.146,0.692,0.0026,0.050
3.733,0.116,0.727,0.0026,0.031  2.788,0.084,0.703,0.0025,0.023  2.642,0.084,0.709,0.0025,0.031
2.543,0.071,0.713,0.0024,0.020  2.239,0.076,0.720,0.0023,0.025  1.891,0.058,0.743,0.0022,0.019
1.596,0.047,0.721,0.0022,0.016  1.822,0.066,0.715,0.0021,0.019  1.565,0.052,0.720,0.002,0.019
1.064,0.031,0.702,0.0019,0.009  1.055,0.035,0.704,0.0018,0.012  1.298,0.037,0.723,0.0018,0.015
0.9717,0.030,0.728,0.0017,0.009  0.9048,0.028,0.712,0.0016,0.012  0.6887,0.019,0.690,0.0015,0.008
0.7046,0.021,0.712,0.0014,0.003  0.5648,0.019,0.722,0.0013,0.006  0.5337,0.015,0.696,0.0012,0.004
"""


def curve(text, steps=STEPS, **fields):
    """Return the epochs of a curve, and the edits of each."""
    history, all_edits = [], []
    for epoch, row in enumerate(text.split(), start=1):
        loss, train_error, dev_error, learning_rate, missed = map(float, row.split(","))
        history.append(
            EpochMetrics(
                epoch=epoch,
                loss=loss,
                train_error=train_error,
                dev_loss=math.nan,
                dev_error=dev_error,
                learning_rate=learning_rate,
                audio_s_per_s=500.0,
                train_s=6.0 * epoch,
                best=False,
                chosen=False,
                step=steps * epoch,
                gradient_norm=25.0,
                waiting_share=0.01,
            )
        )
        for key, value in fields.items():
            history[-1] = dataclasses.replace(history[-1], **{key: value(epoch)})
        deletions = round(missed * LABELS)
        substitutions = max(0, round(train_error * LABELS) - deletions)
        all_edits.append(EditCounts(substitutions, 0, deletions, LABELS))
    return history, all_edits


def reports(watch, history, edits):
    """Return (epoch, line) of everything that is reported in a run."""
    return [
        (epoch, line)
        for epoch in range(1, len(history) + 1)
        for line in watch.after_epoch(history[:epoch], edits[epoch - 1])
    ]


def test_good_run_has_no_trouble_report():
    history, edits = curve(SOUND)
    assert reports(Diagnostics(TrainConfig(epochs=48, learning_rate=3e-3), 552), history, edits) == []


def test_initial_blanks_of_every_model_are_not_reported():
    blank = "48,1.0,1.0,3e-3,1.0 " * 8
    history, edits = curve(blank)
    assert reports(Diagnostics(TrainConfig(epochs=48), warmup_steps=552), history, edits) == []
    history, edits = curve(blank, steps=3)
    assert reports(Diagnostics(TrainConfig(epochs=48), warmup_steps=0), history, edits) == []


def test_model_that_outputs_only_blanks_is_reported():
    history, edits = curve(BLANK)
    [(epoch, line)] = reports(Diagnostics(TrainConfig(epochs=8, learning_rate=0.3), 93), history, edits)
    assert epoch == 7
    assert "for 6 epochs the model has output almost only blanks" in line
    assert "train.learning_rate is 0.3: set it to 0.01" in line
    assert "asr doctor" in line


def test_collapse_to_blanks_is_reported_at_once():
    history, edits = curve(" ".join(SOUND.split()[:9]) + " 50,1.0,1.0,3e-3,0.999" * 2)
    [(epoch, line)] = reports(Diagnostics(TrainConfig(epochs=48, learning_rate=3e-3), 552), history, edits)
    assert epoch == len(history) - 1
    assert "collapsed" in line
    assert "set it to 0.001" in line


def test_shuffled_labels_are_reported():
    history, edits = curve(SHUFFLED)
    [(epoch, line)] = reports(Diagnostics(TrainConfig(epochs=10, learning_rate=3e-3), 116), history, edits)
    assert epoch == 10
    assert "training error is still 92.0% and hardly falls" in line
    assert "do the labels match the audio? See `asr inspect` and `asr doctor`" in line


def test_learning_rate_that_is_too_high_is_reported():
    history, edits = curve(RISING)
    config = TrainConfig(epochs=20, learning_rate=0.6)  # the warm-up lasts the whole run
    [(epoch, line)] = reports(Diagnostics(config, warmup_steps=2300), history, edits)
    assert epoch == 9
    assert "the loss has been above its lowest, 30.14 in epoch 4, for 5 epochs, now 36.08" in line
    assert "train.learning_rate is 0.6: set it to 0.01" in line


def test_burst_of_skipped_batches_is_reported():
    history, edits = curve(SOUND, skipped=lambda epoch: 7 if epoch == 5 else 1)
    [(epoch, line)] = reports(Diagnostics(TrainConfig(epochs=48, learning_rate=3e-3), 552), history, edits)
    assert epoch == 5
    assert "7 batches with infinite loss or gradients" in line


def test_exploding_gradients_are_reported_while_the_loss_rises():
    norms = {"gradient_norm": lambda epoch: 900.0 if epoch == 13 else 25.0}
    history, edits = curve(SOUND, **norms)
    assert reports(Diagnostics(TrainConfig(epochs=48, learning_rate=3e-3), 552), history, edits) == []
    history[12] = dataclasses.replace(history[12], loss=8.0)
    [(epoch, line)] = reports(Diagnostics(TrainConfig(epochs=48, learning_rate=3e-3), 552), history, edits)
    assert epoch == 13
    assert "norm has grown to 900" in line


def test_overfitting_is_reported():
    history, edits = curve(MEMORIZED, steps=11)
    [(epoch, line)] = reports(Diagnostics(TrainConfig(epochs=60, learning_rate=3e-3), 66), history, edits)
    assert epoch == 32
    assert "dev error has hardly fallen for 15 epochs, from 71.3% (epoch 17)" in line
    assert "training error fell from 14.4% to 2.8%" in line
    assert "[augment]" in line


def test_stalled_dev_error_is_not_reported_with_early_stopping():
    history, edits = curve(MEMORIZED, steps=11)
    config = TrainConfig(epochs=60, learning_rate=3e-3, early_stopping_epochs=20)
    assert reports(Diagnostics(config, 66), history, edits) == []


def test_stalled_run_is_reported_unless_its_schedule_is_plateau():
    history, edits = curve("20,0.5,0.45,2e-3,0.1 " * 20)
    config = TrainConfig(epochs=40, schedule="constant")
    [(epoch, line)] = reports(Diagnostics(config, 10), history, edits)
    assert epoch == 11
    assert "train.schedule = plateau" in line
    adapted = dataclasses.replace(config, schedule="plateau")
    assert reports(Diagnostics(adapted, 10), history, edits) == []


def test_waiting_for_batches_is_reported_except_at_the_start_of_a_session():
    config = TrainConfig(epochs=48, learning_rate=3e-3)
    history, edits = curve(SOUND, waiting_share=lambda epoch: 0.6 if epoch in (1, 9) else 0.02)
    assert reports(Diagnostics(config, 552), history, edits) == []
    history, edits = curve(SOUND, waiting_share=lambda epoch: 0.6 if epoch == 1 else 0.25)
    [(epoch, line)] = reports(Diagnostics(config, 552), history, edits)
    assert epoch == 2
    assert "25% of the time was spent waiting for batches" in line
    assert "asr pack" in line


def test_waiting_for_batches_in_one_long_epoch_is_reported():
    history, edits = curve(SOUND, waiting_share=lambda epoch: 0.3, train_s=lambda epoch: 3600.0 * epoch)
    assert reports(Diagnostics(TrainConfig(epochs=48, learning_rate=3e-3), 552), history, edits)[0][0] == 1


def test_resumed_run_reports_the_same_trouble_as_an_uninterrupted_one():
    history, edits = curve(BLANK)
    config = TrainConfig(epochs=8, learning_rate=0.3)
    whole = reports(Diagnostics(config, 93), history, edits)
    watch, resumed = Diagnostics(config, 93), []
    for epoch in range(1, len(history) + 1):
        watch = Diagnostics(config, 93, watch.reported)
        resumed += [(epoch, line) for line in watch.after_epoch(history[:epoch], edits[epoch - 1])]
    assert resumed == whole


CLIPS = [Utterance(f"clip{n}", f"audio/clip{n}.wav", 1.0, "", ("a",)) for n in range(40)]


def skip(watch, number, clips=None, loss=math.inf, norm=math.nan):
    return watch.after_skipped(SkippedBatch(loss, norm, clips or CLIPS[:5], 3, number, 0.0123))


def test_skipped_batch_names_its_utterances():
    [line] = skip(Diagnostics(TrainConfig(), 10), 1)
    assert line == (
        "epoch 3: the loss is inf at a learning rate of 0.0123; the batch is skipped (1 of at most 20): "
        "clip0 (audio/clip0.wav), clip1 (audio/clip1.wav), clip2 (audio/clip2.wav) and 2 more"
    )
    [line] = skip(Diagnostics(TrainConfig(), 10), 1, CLIPS[:1], loss=3.5, norm=math.inf)
    assert "the loss is 3.50, but the norm of its gradients is inf" in line
    assert line.endswith("clip0 (audio/clip0.wav)")


def test_only_some_of_many_skipped_batches_are_reported():
    watch = Diagnostics(TrainConfig(max_skipped=100), 10)
    numbers = [number for number in range(1, 101) if skip(watch, number)]
    assert numbers == [1, 2, 3, 10, 20, 40, 80]


def test_run_ends_when_more_than_max_skipped_batches_are_skipped():
    watch = Diagnostics(TrainConfig(max_skipped=2, learning_rate=0.3), 10)
    skip(watch, 1, CLIPS[:5])
    skip(watch, 2, CLIPS[5:10])
    with pytest.raises(UserError, match=r"skipped: 3 batches, .*is 2.*learning_rate=0.01 instead of 0.3"):
        skip(watch, 3, CLIPS[10:15])


def test_repeatedly_skipped_utterances_are_named_even_after_a_resume():
    config = TrainConfig(max_skipped=1)
    watch = Diagnostics(config, 10)
    skip(watch, 1, CLIPS[:5])
    resumed = Diagnostics(config, 10, watch.reported)
    with pytest.raises(UserError, match=r"damaged: clip4 \(audio/clip4.wav\); otherwise start another run"):
        skip(resumed, 2, CLIPS[4:9])
