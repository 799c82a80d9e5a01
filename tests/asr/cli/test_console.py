import dataclasses
import itertools
import unicodedata

from helpers.transcripts import segment_of

from asr.base.types import Utterance
from asr.cli.console import print_evaluation, side_by_side
from asr.evaluation.errors.metrics import align
from asr.evaluation.scores import EvaluationRecord, scores_of


def columns(line):
    """Return the column in which each word of a line begins; hanzi are two columns wide."""
    starts, column = [], 0
    for before, char in zip(" " + line, line, strict=False):
        if before == " " and char != " ":
            starts.append(column)
        column += 2 if unicodedata.east_asian_width(char) in "WF" else 1
    return starts


def test_tokens_of_reference_and_hypothesis_are_in_the_same_columns():
    reference, hypothesis, marks = side_by_side(align(["你", "zhong1", "a1"], ["好", "zhong1", "ang1"]))
    _, first, second, third = columns(reference)
    assert columns(hypothesis)[1:] == [first, second, third]
    assert columns(marks) == [first, third]
    assert marks.split() == ["^^", "^^^^"]


def test_every_token_is_marked_where_the_hypothesis_is_empty():
    reference, hypothesis, marks = side_by_side(align(["ni3", "hao3"], []))
    assert reference.split() == ["reference", "ni3", "hao3"]
    assert hypothesis == "hypothesis"
    assert marks.count("^") == 7


def record(*pairs):
    utterances = [Utterance(str(i), "", 1.0, "", tuple(text.split())) for i, (text, _) in enumerate(pairs)]
    hypotheses = [segment_of(h.split(), h) for _, h in pairs]
    losses = [0.0] * len(pairs)
    return EvaluationRecord("demo", "test.jsonl", {"beam": 1}, utterances, hypotheses, losses)


def printed(capsys, evaluated):
    print_evaluation(evaluated, scores_of(evaluated.utterances, evaluated.hypotheses))
    return capsys.readouterr().out


def test_error_rates_are_of_the_whole_set(capsys):
    lines = printed(capsys, record(("ma1 ma3", "ma1 ma1"), ("ni3", "ni3 hao3"))).splitlines()
    rows = {line[:31].strip(): line[31:].split() for line in lines if "error rate" in line}
    assert rows["syllable error rate"][0] == "66.67%"
    assert rows["syllable error rate"][-5:] == ["2", "3", "1", "1", "0"]
    assert rows["tone-free syllable error rate"][0] == "33.33%"
    assert rows["sentence error rate"][0] == "100.00%"


def test_long_alignments_are_wrapped(capsys):
    reference, hypothesis = [f"ma{i % 4 + 1}" for i in range(60)], [f"shuang{i % 5}" for i in range(80)]
    lines = printed(capsys, record((" ".join(reference), " ".join(hypothesis)))).splitlines()
    assert max(map(len, lines)) < 130
    for name, tokens in (("reference", reference), ("hypothesis", hypothesis)):
        parts = [line.split()[1:] for line in lines if line.strip().startswith(name)]
        assert len(parts) > 1
        assert list(itertools.chain(*parts)) == tokens


def test_numbers_of_a_table_are_right_aligned(capsys):
    text = printed(capsys, record(*[("ma1 ma3", "ma1 ma1")] * 700))
    lines = [line for line in text.splitlines() if "error rate" in line]
    assert len({len(line.split("%")[0]) for line in lines[1:]}) == 1
    assert "1,400" in lines[0]


def test_confidence_interval_of_zero_errors_has_a_width(capsys):
    text = printed(capsys, record(("ma1 ma3", "ma1 ma3"), ("ni3", "ni3")))
    assert "0.00% to 84.19%" in text
    assert "correct" in text


def test_rates_of_tokens_other_than_syllables_have_no_tone_free_rate(capsys):
    text = printed(capsys, record(("one two", "one")))
    assert "token error rate" in text
    assert "tone-free" not in text


def test_hanzi_hypotheses_without_reference_texts_are_reported(capsys):
    evaluated = record(("ma1 ma3", "ma1 ma1"), ("ni3", "ni3 hao3"))
    assert "no character error rate" not in printed(capsys, evaluated)
    in_hanzi = [segment_of(hypothesis.tokens, "妈妈") for hypothesis in evaluated.hypotheses]
    text = printed(capsys, dataclasses.replace(evaluated, hypotheses=in_hanzi))
    assert "no character error rate: no text in 2 of 2 utterances, such as 0" in text
