from collections import Counter

import pytest

from data_pipeline.collection.prompt_order import CandidateText, letters_and_pairs, teaching_order, use_of


def candidates(*rows):
    return [CandidateText(Counter(features.split()), duration_s) for features, duration_s in rows]


def test_the_next_text_adds_most_per_second():
    rows = candidates(("a", 1.0), ("a b", 1.0), ("c", 1.0), ("a b c", 10.0))
    assert teaching_order(rows, {"a": 1.0, "b": 1.0, "c": 1.0}) == [1, 2, 0, 3]


def test_a_repeated_feature_is_worth_less_than_a_new_one():
    rows = candidates(("a a a a", 1.0), ("b", 1.0), ("a b", 1.0))
    assert teaching_order(rows, {"a": 1.0, "b": 0.9}) == [2, 0, 1]


def test_equal_texts_stay_in_their_order():
    assert teaching_order(candidates(*[("a b", 2.0)] * 5), {"a": 1.0, "b": 1.0}) == [0, 1, 2, 3, 4]


def test_texts_without_known_features_are_last():
    assert teaching_order(candidates(("x", 1.0), ("a", 1.0)), {"a": 1.0}) == [1, 0]


def test_order_is_that_of_trying_every_text_at_each_step():
    rows = candidates(
        *((" ".join(chr(97 + (i * j) % 13) for j in range(1, 6)), 1.0 + i % 3) for i in range(40))
    )
    weights = {chr(97 + i): 1.0 / (1 + i) for i in range(13)}
    worth, left, expected = dict(weights), list(range(40)), []
    while left:

        def gain(index):
            value = 0.0
            for feature, count in rows[index].features.items():
                value += sum(worth[feature] * 0.3**time for time in range(count))
            return value / rows[index].duration_s

        best = max(left, key=lambda index: (round(gain(index), 12), -index))
        left.remove(best)
        expected.append(best)
        for feature, count in rows[best].features.items():
            worth[feature] *= 0.3**count
    assert teaching_order(rows, weights) == expected


def test_features_of_other_languages_are_characters_and_pairs_within_words():
    assert letters_and_pairs("Ab, b") == Counter({"a": 1, "b": 2, "ab": 1})
    assert use_of([Counter("ab"), Counter("a")]) == pytest.approx({"a": 2 / 3, "b": 1 / 3})
