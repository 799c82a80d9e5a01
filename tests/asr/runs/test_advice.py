"""Advice from the curves of real runs, in percent of the syllables."""

import dataclasses

import pytest

from asr.base.types import EditCounts
from asr.runs.advice import advice
from asr.runs.progress import EpochMetrics

# training and dev errors of each epoch
EIGHTEEN_MINUTES_FROM_THE_DEMO = [(21, 64)] * 4  # the last epochs of a newcomer's run
A_PRIVATE_VOICE_FINE_TUNED = [(2.7, 21.5)] * 4  # the last of 60 epochs
EIGHTEEN_MINUTES_FROM_NOTHING = [
    *[(340.9, 114.4), (106.0, 100.0), (100.0, 100.0), (100.0, 99.8), (100.0, 100.0), (100.0, 100.0)],
    *[(100.0, 100.0), (100.0, 100.0), (99.6, 99.4), (99.6, 99.0), (98.9, 99.4), (98.1, 98.7), (98.5, 97.9)],
    *[(97.9, 97.1), (96.7, 96.3), (95.3, 94.6), (94.0, 93.7), (92.8, 93.1), (92.0, 92.3), (90.6, 90.2)],
    *[(89.3, 90.0), (89.2, 89.8), (88.1, 88.5), (87.5, 87.5), (86.7, 87.3), (85.8, 88.8), (85.6, 87.1)],
    *[(86.1, 86.9), (85.4, 86.5), (85.7, 86.9)],
]
THREE_MINUTES_FROM_THE_DEMO = [
    *[(113.3, 103.1), (97.4, 93.1), (84.9, 91.0), (74.3, 88.5), (63.7, 86.0), (60.8, 88.1), (55.2, 84.0)],
    *[(49.8, 82.7), (40.6, 84.0), (31.7, 83.8), (26.1, 85.8), (22.7, 85.6), (20.7, 86.0), (13.5, 84.2)],
    *[(15.1, 84.4), (11.4, 85.2), (10.6, 85.0), (8.6, 85.4), (7.8, 84.4), (9.6, 82.3), (8.4, 82.5)],
    *[(9.0, 82.7), (4.8, 82.3), (5.2, 82.7), (4.2, 83.1), (4.4, 83.7), (6.2, 83.7), (3.8, 83.1), (3.8, 83.3)],
    (3.2, 82.9),
]
DEMO_BEGINS = [(127, 92.6), (90, 73.4), (76, 53.0), (67, 49.8)]
DEMO_WITH_A_TENTH_OF_ITS_LABELS_WRONG = [
    *[
        (153, 97.7),
        (95, 88.3),
        (84, 72.8),
        (70, 53.2),
        (59, 47.4),
        (50, 36.4),
        (43, 27.9),
        (37, 22.1),
        (32, 17.2),
    ],
    *[(28, 14.1), (25, 13.2), (21, 11.2), (18, 8.6), (15, 7.4), (13, 6.6), (11, 6.6), (10, 6.2), (10, 6.3)],
]
SEVERAL_CORPORA_AT_A_CONSTANT_RATE = [
    *[(156, 98.8), (90, 80.7), (81, 74.6), (76, 69.2), (73, 71.1), (71, 72.8), (68, 64.7), (67, 63.6)],
    *[(65, 58.8), (64, 61.2), (62, 59.5), (62, 65.5), (60, 54.2), (60, 55.4)],
]


def history(rates):
    return [
        EpochMetrics(
            epoch, 1.0, train / 100, 1.0, dev / 100, 1e-3, 100.0, 60.0 * epoch, best=True, chosen=True
        )
        for epoch, (train, dev) in enumerate(rates, 1)
    ]


@pytest.mark.parametrize(
    ("rates", "rule"),
    [
        (THREE_MINUTES_FROM_THE_DEMO, "More recordings, not more epochs: training 3.2%, dev 82.3%"),
        (EIGHTEEN_MINUTES_FROM_THE_DEMO, "More recordings, not more epochs: training 21.0%, dev 64.0%"),
        (DEMO_BEGINS, "More epochs: the dev error fell from 73.4% to 49.8%"),
        (DEMO_WITH_A_TENTH_OF_ITS_LABELS_WRONG, "More epochs: the dev error fell from 7.4% to 6.2%"),
        (
            SEVERAL_CORPORA_AT_A_CONSTANT_RATE,
            "A trained model to start from, or a larger one: training 60.0%",
        ),
        (EIGHTEEN_MINUTES_FROM_NOTHING, "A trained model to start from, or a larger one: training 85.7%"),
        (A_PRIVATE_VOICE_FINE_TUNED, "More recordings, not more epochs: training 2.7%, dev 21.5%"),
        ([*DEMO_WITH_A_TENTH_OF_ITS_LABELS_WRONG, *[(10, 6.2)] * 6], "Training has done its part"),
    ],
)
def test_advice_follows_the_curves(rates, rule):
    [line] = advice(history(rates), "syllable")
    assert line.startswith(rule)


def test_a_test_set_far_above_dev_is_named_and_one_near_it_is_not():
    curves = history(DEMO_WITH_A_TENTH_OF_ITS_LABELS_WRONG)
    for errors, num_lines in ((160, 2), (70, 1)):
        lines = advice(curves, "syllable", test=EditCounts(substitutions=errors, reference_length=1000))
        assert len(lines) == num_lines
    few = EditCounts(substitutions=2, reference_length=12)  # 16.7 %, give or take 10.8
    assert len(advice(curves, "syllable", test=few)) == 1


def test_more_epochs_are_advised_with_the_command_that_trains_them():
    [line] = advice(history(DEMO_BEGINS), "syllable", resume="asr train runs/x --resume")
    assert line.endswith("Train on:\nasr train runs/x --resume --set train.epochs=8")


def test_a_trained_model_to_start_from_is_advised_once():
    rates = EIGHTEEN_MINUTES_FROM_THE_DEMO
    assert "train.init_from" in advice(history(rates), "syllable")[0]
    assert "train.init_from" not in advice(history(rates), "syllable", starts_from_trained=True)[0]


def test_a_fine_tuning_that_did_not_help_is_named_before_anything_else():
    spoiled = [dataclasses.replace(m, chosen=False) for m in history(EIGHTEEN_MINUTES_FROM_THE_DEMO)]
    [line] = advice(spoiled, "syllable", starts_from_trained=True, start_error=0.6)
    assert "60.0% of the syllables of dev wrong, 64.0% after training" in line
    helped = advice(history(EIGHTEEN_MINUTES_FROM_THE_DEMO), "syllable", start_error=0.7)
    assert helped[0].startswith("More recordings")


def test_there_is_no_advice_before_the_fourth_epoch():
    assert advice(history(DEMO_BEGINS[:3]), "syllable") == []
    assert advice([], "syllable") == []
