import itertools
import math

import numpy as np
import pytest

from asr.evaluation.errors.significance import blocks_of, paired_test, rate_interval, swap_p_value


def bernoulli_set(rng, num_utterances, rate):
    """Return errors and lengths of utterances of 5 to 20 tokens with independent errors."""
    lengths = rng.integers(5, 21, num_utterances)
    return rng.binomial(lengths, rate), lengths


def test_intervals_contain_the_true_rate_at_their_level():
    rng = np.random.default_rng(1)
    hits = 0
    for _ in range(200):
        low, high = rate_interval(*map(np.ndarray.tolist, bernoulli_set(rng, 80, 0.15)))
        hits += low <= 0.15 <= high
    assert 180 <= hits <= 199  # 190 expected, give or take 3


def test_intervals_of_rare_errors_contain_the_true_rate_at_their_level():
    rng = np.random.default_rng(1)
    hits = 0
    for _ in range(200):
        low, high = rate_interval(rng.binomial(10, 0.004, 100).tolist(), [10] * 100)
        hits += low <= 0.004 <= high
    assert hits >= 188  # the bootstrap alone gives 184


def test_the_interval_equals_that_of_all_bootstrap_draws():
    errors, lengths = np.array([0, 0, 1, 3, 4, 6]), np.array([4, 9, 3, 10, 9, 5])
    drawn = np.array(list(itertools.product(range(6), repeat=6)))  # all draws, equally likely
    rates = np.sort(errors[drawn].sum(axis=1) / lengths[drawn].sum(axis=1))
    low, high = rate_interval(errors.tolist(), lengths.tolist())
    assert low == pytest.approx(rates[round(0.025 * len(rates)) - 1], abs=0.01)
    assert high == pytest.approx(rates[-round(0.025 * len(rates))], abs=0.03)
    assert {round(low, 12), round(high, 12)} <= set(rates.round(12).tolist())


def test_drawing_counts_and_drawing_indices_give_the_same_interval():
    # counts are drawn if there are few kinds of utterances, else indices
    errors = [0] * 180 + [1000] * 90 + [4000] * 30
    of_three_kinds = rate_interval(errors, [9000] * 300)
    all_different = rate_interval(errors, [9000 + place % 100 for place in range(300)])
    assert of_three_kinds == pytest.approx(all_different, abs=0.003)


def test_the_same_set_gives_the_same_interval():
    errors, lengths = bernoulli_set(np.random.default_rng(2), 50, 0.3)
    assert rate_interval(errors.tolist(), lengths.tolist()) == rate_interval(
        errors.tolist(), lengths.tolist()
    )


def test_the_upper_end_without_errors_depends_on_the_number_of_utterances():
    # if 31 % were wrong, 10 sentences without an error would happen once in 40 times
    low, high = rate_interval([0] * 10, [1] * 10)
    assert low == 0
    assert (1 - high) ** 10 == pytest.approx(0.025)
    assert rate_interval([0] * 1000, [1] * 1000)[1] < 0.004
    assert rate_interval([0] * 100, [10] * 100) == (0, pytest.approx(0.00362, abs=1e-5))


@pytest.mark.parametrize("num_wrong", [0, 1, 2, 10, 28, 29, 30])
def test_the_interval_of_sentences_nearly_equals_that_of_clopper_and_pearson(num_wrong):
    from scipy.stats import binomtest

    exact = binomtest(num_wrong, 30).proportion_ci()
    found = rate_interval([1] * num_wrong + [0] * (30 - num_wrong), [1] * 30)
    assert found == pytest.approx((exact.low, exact.high), abs=0.025)


@pytest.mark.parametrize("first", [0, 1, 10])
@pytest.mark.parametrize("others", [1, 4])
def test_more_errors_never_lower_the_upper_end(first, others):
    highs = []
    for num_wrong in range(50):
        errors = [first] + [others] * num_wrong + [0] * (49 - num_wrong)
        low, high = rate_interval(errors, [10] * 50)
        assert low <= sum(errors) / 500 <= high
        highs.append(high)
    assert highs == sorted(highs)


def test_a_single_block_has_a_wide_interval():
    assert rate_interval([7], [10]) == pytest.approx((0.7 / 40, 0.7))
    assert rate_interval([0], [10]) == pytest.approx((0, 0.0975))


def test_rates_above_one_and_empty_references_have_intervals():
    low, high = rate_interval([5, 7, 6], [2, 3, 2])
    assert 0.7 < low < 18 / 7 < high < 3.5
    assert rate_interval([1, 2], [0, 0]) == (math.inf, math.inf)
    assert rate_interval([0, 0], [0, 0]) == (0, math.inf)
    low, high = rate_interval([1, 0, 0, 0], [0, 5, 5, 5])  # a draw of only the first has no rate
    assert 0 <= low < 0.07 < high


def brute_force_p_value(differences):
    sums = [
        abs(sum(sign * d for sign, d in zip(signs, differences, strict=True)))
        for signs in itertools.product((1, -1), repeat=len(differences))
    ]
    return np.mean([total >= abs(sum(differences)) for total in sums])


def test_p_values_count_every_way_to_swap_the_systems():
    rng = np.random.default_rng(3)
    for _ in range(50):
        differences = rng.integers(-4, 5, rng.integers(1, 11))
        assert swap_p_value(differences) == pytest.approx(brute_force_p_value(differences.tolist()))


def test_p_values_of_large_sets_are_those_of_the_sign_test():
    from scipy.stats import binomtest

    # differences of one error each are a sign test, which has a formula
    for better, worse in ((520, 480), (5200, 4800), (700, 300)):
        differences = np.array([-1] * better + [1] * worse + [0] * 5000)
        assert swap_p_value(differences) == pytest.approx(
            binomtest(better, better + worse).pvalue, rel=1e-6, abs=1e-13
        )


def test_p_values_are_above_zero():
    assert swap_p_value(np.full(3, -2)) == 0.25
    assert 0 < swap_p_value(np.full(400, -2)) < 1e-100


def test_equal_systems_have_a_p_value_of_1():
    errors, lengths = bernoulli_set(np.random.default_rng(4), 100, 0.2)
    test = paired_test(errors.tolist(), errors.tolist(), lengths.tolist())
    assert (test.difference, test.low, test.high, test.p_value, test.better) == (0, 0, 0, 1, 0.5)


def test_a_clear_difference_is_significant_in_both_directions():
    rng = np.random.default_rng(5)
    errors_a, lengths = bernoulli_set(rng, 300, 0.3)
    errors_b = rng.binomial(lengths, 0.2)
    test = paired_test(errors_a.tolist(), errors_b.tolist(), lengths.tolist())
    assert test.difference == pytest.approx((errors_b.sum() - errors_a.sum()) / lengths.sum())
    assert test.low <= test.difference <= test.high < 0
    assert test.p_value < 1e-4
    assert test.better > 0.999
    mirrored = paired_test(errors_b.tolist(), errors_a.tolist(), lengths.tolist())
    assert mirrored.difference == -test.difference
    assert mirrored.p_value == pytest.approx(test.p_value)
    assert mirrored.better < 0.001


def test_equal_systems_are_rarely_called_different():
    rng = np.random.default_rng(6)
    p_values = []
    for _ in range(400):
        errors_a, lengths = bernoulli_set(rng, 60, 0.2)
        p_values.append(swap_p_value(rng.binomial(lengths, 0.2) - errors_a))
    assert 6 <= sum(p < 0.05 for p in p_values) <= 34  # 20 expected, give or take 4.4


def test_speakers_are_resampled_if_there_are_enough():
    many = [f"s{place % 25:02}" for place in range(100)]
    blocks = blocks_of(many)
    assert blocks.kind == "speakers"
    assert blocks.summed([1] * 100) == [4] * 25
    assert blocks.summed(range(100))[0] == 0 + 25 + 50 + 75
    for speakers in (["a", "b"] * 50, ["", *many], [f"s{place}" for place in range(100)]):
        blocks = blocks_of(speakers)
        assert blocks.kind == "utterances"
        assert blocks.summed(range(len(speakers))) == list(range(len(speakers)))


def test_correlated_utterances_of_a_speaker_widen_the_interval():
    rng = np.random.default_rng(7)
    speakers = np.repeat(np.arange(40), 25)
    errors = rng.binomial(10, rng.beta(1, 6, 40)[speakers])  # some speakers are hard to understand
    blocks = blocks_of([f"s{speaker}" for speaker in speakers])
    by_speaker = rate_interval(blocks.summed(errors.tolist()), blocks.summed([10] * 1000))
    by_utterance = rate_interval(errors.tolist(), [10] * 1000)
    assert by_speaker[1] - by_speaker[0] > 2 * (by_utterance[1] - by_utterance[0])
