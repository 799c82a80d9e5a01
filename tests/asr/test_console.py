import unicodedata

from asr.console import error_rates, side_by_side
from asr.evaluate import Evaluation
from asr.metrics import align
from asr.types import Hypothesis, Utterance


def columns(line):
    """Where each word of a line begins in a terminal, in which hanzi are two columns wide."""
    starts, column = [], 0
    for before, char in zip(" " + line, line, strict=False):
        if before == " " and char != " ":
            starts.append(column)
        column += 2 if unicodedata.east_asian_width(char) in "WF" else 1
    return starts


def test_what_was_said_stands_above_what_was_heard():
    said, heard, marks = side_by_side(align(["你", "zhong1", "a1"], ["好", "zhong1", "ang1"]))
    _, first, second, third = columns(said)
    assert columns(heard)[1:] == [first, second, third]
    assert columns(marks) == [first, third]
    assert marks.split() == ["^^", "^^^^"]


def test_a_hypothesis_of_nothing_is_all_marks():
    said, heard, marks = side_by_side(align(["ni3", "hao3"], []))
    assert said.split() == ["said", "ni3", "hao3"]
    assert heard == "heard"
    assert marks.count("^") == 7


def evaluation(*pairs):
    utterances = [Utterance(str(i), "", 1.0, "", tuple(said.split())) for i, (said, _) in enumerate(pairs)]
    heard = [Hypothesis(str(i), tuple(h.split()), h, 0.0, ()) for i, (_, h) in enumerate(pairs)]
    return Evaluation(utterances, heard, [0.0] * len(heard))


def test_rates_count_over_the_whole_set():
    rates = dict(error_rates(evaluation(("ma1 ma3", "ma1 ma1"), ("ni3", "ni3 hao3"))))
    assert rates["syllable error rate"].startswith(
        "66.67%  (1 substitutions, 1 insertions, 0 deletions, 3 tokens)"
    )
    assert rates["the same, tones left aside"].strip() == "33.33%"
    assert rates["utterances with an error"].strip() == "100.00%"


def test_rates_of_other_units_say_nothing_of_tones():
    assert [name for name, _ in error_rates(evaluation(("one two", "one")))] == [
        "token error rate",
        "utterances with an error",
    ]
