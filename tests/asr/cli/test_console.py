import dataclasses
import unicodedata

from asr.base.types import Hypothesis, Utterance
from asr.cli.console import print_evaluation, side_by_side
from asr.evaluation.metrics import align
from asr.evaluation.scores import EvaluationRecord, scores_of


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


def record(*pairs):
    utterances = [Utterance(str(i), "", 1.0, "", tuple(said.split())) for i, (said, _) in enumerate(pairs)]
    heard = [Hypothesis(str(i), tuple(h.split()), h, 0.0, ()) for i, (_, h) in enumerate(pairs)]
    return EvaluationRecord("demo", "test.jsonl", {"beam": 1}, utterances, heard, [0.0] * len(heard))


def tell(capsys, heard):
    scores = scores_of(heard.utterances, heard.hypotheses)
    print_evaluation(heard, scores)
    return capsys.readouterr().out


def test_rates_count_over_the_whole_set(capsys):
    told = tell(capsys, record(("ma1 ma3", "ma1 ma1"), ("ni3", "ni3 hao3"))).splitlines()
    rows = {line[:31].strip(): line[31:].split() for line in told if "error rate" in line}
    assert rows["syllable error rate"][0] == "66.67%"
    assert rows["syllable error rate"][-5:] == ["2", "3", "1", "1", "0"]
    assert rows["tone-free syllable error rate"][0] == "33.33%"
    assert rows["sentence error rate"][0] == "100.00%"


def test_numbers_of_a_table_end_in_one_column(capsys):
    told = tell(capsys, record(*[("ma1 ma3", "ma1 ma1")] * 700))
    lines = [line for line in told.splitlines() if "error rate" in line]
    assert len({len(line.split("%")[0]) for line in lines[1:]}) == 1
    assert "1,400" in lines[0]


def test_where_all_is_right_the_interval_does_not_end_at_zero(capsys):
    told = tell(capsys, record(("ma1 ma3", "ma1 ma3"), ("ni3", "ni3")))
    assert "0.00% to 84.19%" in told
    assert "all right" in told


def test_rates_of_other_units_say_nothing_of_tones(capsys):
    told = tell(capsys, record(("one two", "one")))
    assert "token error rate" in told
    assert "tone-free" not in told


def test_missing_text_is_told_where_hanzi_were_heard(capsys):
    heard = record(("ma1 ma3", "ma1 ma1"), ("ni3", "ni3 hao3"))
    assert "no error rate of characters" not in tell(capsys, heard)
    in_hanzi = [dataclasses.replace(hypothesis, text="妈妈") for hypothesis in heard.hypotheses]
    told = tell(capsys, dataclasses.replace(heard, hypotheses=in_hanzi))
    assert "no error rate of characters: 2 of 2 utterances have no text, such as 0" in told
