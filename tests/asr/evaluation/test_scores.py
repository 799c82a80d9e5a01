import csv
import dataclasses
import json
import math
import re

import pytest
from helpers.transcripts import segment_of

from asr.base.errors import UserError
from asr.base.types import EditCounts, Utterance
from asr.cli.console import print_comparison
from asr.evaluation.comparison import compare_records
from asr.evaluation.scores import (
    EvaluationRecord,
    decoder_name,
    read_json,
    scores_of,
    tones_of,
    write_csv,
    write_json,
)
from asr.report.evaluation_comparison_page import write_evaluation_comparison
from data_pipeline.preparation.description import LabelsDescription, write_prepared

GREEDY = {"beam": 1, "language_model": "", "lm_weight": 0.5}


def make_record(*rows, run="demo", decoder=GREEDY):
    """Return a record of (text, tokens, hypothesis's text, hypothesis's tokens)."""
    utterances = [
        Utterance(f"u{n}", f"{n}.wav", 1.5 + n, text, tuple(tokens.split()), "anna" if n % 2 else "")
        for n, (text, tokens, _, _) in enumerate(rows)
    ]
    hypotheses = [
        segment_of(
            tokens.split(),
            text,
            score=-1.25,
            acoustic_score=-1.5,
            confidences=(0.5,) * len(tokens.split()),
            end_s=1.5 + n,
        )
        for n, (_, _, text, tokens) in enumerate(rows)
    ]
    return EvaluationRecord(
        run, "/sets/test.jsonl", decoder, utterances, hypotheses, [-2.5] * len(rows), "syllable"
    )


ROWS = (
    ("你好", "ni3 hao3", "你号", "ni3 hao4"),
    ("“再见”,\n妈", "zai4 jian4 ma1", "再见妈妈", "zai4 jian4 ma1 ma1"),
    ("", "", "", ""),
    ("谁", "shei2", "", ""),
)


@pytest.fixture
def record():
    return make_record(*ROWS)


@pytest.fixture
def written(record, tmp_path):
    path = tmp_path / "report.json"
    write_json(path, record, scores_of(record.utterances, record.hypotheses))
    return path


def test_a_record_is_read_back_unchanged(record, written, tmp_path):
    assert read_json(written) == record
    assert record.loss == 2.5
    second = segment_of(("ni3",), "你", end_s=1.5)
    several = dataclasses.replace(record.hypotheses[0], alternatives=(second,))
    record = dataclasses.replace(record, hypotheses=[several, *record.hypotheses[1:]])
    write_json(tmp_path / "n_best.json", record, [])
    assert read_json(tmp_path / "n_best.json") == record


def test_json_has_rates_with_intervals_and_every_utterance(record, written):
    read = json.loads(written.read_text(encoding="utf-8"))
    rates = {rate["name"]: rate for rate in read["rates"]}
    assert rates["syllable"]["rate"] == 3 / 6
    assert (rates["syllable"]["errors"], rates["syllable"]["reference_length"]) == (3, 6)
    assert rates["character"]["insertions"] == 1
    assert all(rate["low"] <= rate["rate"] <= rate["high"] for rate in read["rates"])
    assert read["intervals"]["resampled"] == "utterances"
    first = read["utterances"][0]
    assert first["aligned"] == [["ni3", "ni3"], ["hao3", "hao4"]]
    assert first["edits"]["syllable"] == {
        "errors": 1,
        "substitutions": 1,
        "insertions": 0,
        "deletions": 0,
        "reference_length": 2,
    }
    assert first["heard"]["confidences"] == [0.5, 0.5]
    for rate in read["rates"]:
        edits = [utterance["edits"][rate["name"]]["errors"] for utterance in read["utterances"]]
        assert sum(edits) == rate["errors"]


def test_csv_has_a_row_for_each_utterance(record, tmp_path):
    scores = scores_of(record.utterances, record.hypotheses)
    write_csv(tmp_path / "report.csv", record, scores)
    with (tmp_path / "report.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["id"] for row in rows] == ["u0", "u1", "u2", "u3"]
    assert rows[1]["text"] == ROWS[1][0]
    assert rows[3]["hypothesis_tokens"] == ""
    for score in scores:
        assert sum(int(row[f"{score.name} deletions"]) for row in rows) == score.total.deletions


def test_infinite_numbers_become_null_in_json(record, tmp_path):
    impossible = dataclasses.replace(record, reference_log_probs=[-math.inf] * 4)
    no_tokens = dataclasses.replace(record.utterances[0], tokens=())
    impossible = dataclasses.replace(
        impossible,
        utterances=[no_tokens],
        hypotheses=impossible.hypotheses[:1],
        reference_log_probs=[-math.inf],
    )
    scores = scores_of(impossible.utterances, impossible.hypotheses)
    assert scores[0].total.rate == math.inf
    write_json(tmp_path / "a.json", impossible, scores)
    read = json.loads((tmp_path / "a.json").read_text(encoding="utf-8"), parse_constant=pytest.fail)
    assert read["loss"] is read["rates"][0]["rate"] is None
    assert read_json(tmp_path / "a.json").reference_log_probs == [-math.inf]


def test_a_lone_surrogate_can_be_written_and_read(tmp_path):
    odd = make_record(("好\ud800", "hao3", "好", "hao3"))
    scores = scores_of(odd.utterances, odd.hypotheses)
    write_json(tmp_path / "a.json", odd, scores)
    write_csv(tmp_path / "a.csv", odd, scores)
    assert read_json(tmp_path / "a.json") == odd


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda text: text[: len(text) // 2], "not JSON"),
        (lambda text: "[" * 100_000, "not JSON"),
        (lambda text: "", "not JSON"),
        (lambda text: "[]", "not an evaluation; expected the JSON file"),
        (lambda text: '{"utterances": []}', "not an evaluation"),
        (lambda text: text.replace('"schema": 1', '"schema": 2'), "expected schema 1, received 2"),
        (lambda text: text.replace('"times_s"', '"other"'), "damaged (KeyError: 'times_s')"),
        (lambda text: text.replace('["ni3", "hao3"]', '"ni3 hao3"'), "damaged (TypeError: expected a list"),
        (lambda text: text.replace('["ni3", "hao3"]', "[1, 2]"), "damaged (TypeError: expected text"),
        (lambda text: text.replace('"duration_s": 1.5', '"duration_s": "long"'), "damaged (ValueError"),
        (lambda text: text.replace('"u1"', '"u0"'), "appears twice"),
    ],
)
def test_files_that_are_not_evaluations_are_refused(written, spoil, reason):
    written.write_text(spoil(written.read_text(encoding="utf-8")), encoding="utf-8")
    with pytest.raises(UserError) as refused:
        read_json(written)
    assert str(refused.value).startswith(f"{written}: ")
    assert reason in str(refused.value)


def test_a_missing_evaluation_is_an_error(tmp_path):
    with pytest.raises(UserError, match="cannot read this evaluation"):
        read_json(tmp_path / "none.json")


@pytest.mark.parametrize(
    ("decoder", "name"),
    [
        (GREEDY, ""),
        (GREEDY | {"beam": 8}, "beam8"),
        (GREEDY | {"beam": 16, "language_model": "/lm"}, "beam16-lm"),
        (GREEDY | {"beam": 16, "language_model": "/lm", "hot_words": "w.txt"}, "beam16-lm-hot-words"),
    ],
)
def test_a_decoder_has_a_short_name(decoder, name):
    assert decoder_name(decoder) == name


@pytest.fixture
def better():
    """Return a record by beam search of the same set in another order, with fixed and broken utterances."""
    rows = (ROWS[0], ROWS[1], ROWS[2], ROWS[3])
    other = make_record(
        (*rows[0][:2], "你好", "ni3 hao3"),
        (*rows[1][:2], "再见妈", "zai4 jian4 ma1"),
        (*rows[2][:2], "啊", "a5"),
        rows[3],
        decoder=GREEDY | {"beam": 16},
    )
    order = [2, 0, 3, 1]
    return dataclasses.replace(
        other,
        utterances=[other.utterances[place] for place in order],
        hypotheses=[other.hypotheses[place] for place in order],
    )


def test_two_systems_are_compared_utterance_by_utterance(record, better):
    comparison = compare_records(record, better)
    syllables = comparison.rates[0]
    assert (syllables.edits_a, syllables.edits_b) == (EditCounts(1, 1, 1, 6), EditCounts(0, 1, 1, 6))
    assert syllables.test.difference == pytest.approx(-1 / 6)
    assert syllables.test.p_value == pytest.approx(1)  # two better, one worse: every swap is as far
    assert [rate.name for rate in comparison.rates] == [
        score.name for score in scores_of(record.utterances, record.hypotheses)
    ]
    assert [change.utterance.id for change in comparison.fixed] == ["u0", "u1"]
    assert [(change.utterance.id, change.errors_a, change.errors_b) for change in comparison.broken] == [
        ("u2", 0, 1)
    ]
    assert (comparison.title_a, comparison.title_b) == ("demo", "demo, beam16")


def test_a_record_from_a_file_gives_the_same_comparison(record, better, written):
    assert compare_records(read_json(written), better) == compare_records(record, better)


def test_changes_are_counted_in_characters_if_only_hanzi_differ(record):
    hypotheses = [segment_of(record.hypotheses[0].tokens, "你好"), *record.hypotheses[1:]]
    comparison = compare_records(record, dataclasses.replace(record, hypotheses=hypotheses))
    assert comparison.counted_in == "character"
    assert [(change.utterance.id, change.errors_a) for change in comparison.fixed] == [("u0", 1)]
    assert not comparison.broken


def test_rates_of_text_that_only_one_system_has_are_not_compared(record, better):
    bare = [segment_of(hypothesis.tokens, " ".join(hypothesis.tokens)) for hypothesis in record.hypotheses]
    comparison = compare_records(dataclasses.replace(record, hypotheses=bare), better)
    assert [rate.name for rate in comparison.rates] == ["syllable", "tone-free syllable", "sentence"]
    assert any(note.startswith("only B has text: character, word") for note in comparison.notes)


def test_evaluations_of_different_sets_cannot_be_compared(record, better):
    fewer = dataclasses.replace(record, utterances=record.utterances[:3], hypotheses=record.hypotheses[:3])
    with pytest.raises(UserError, match=r"^a\.json: .* same utterances; missing: 1 of 4.* 0 .*\(u3\)"):
        compare_records(fewer, better, "a.json")
    with pytest.raises(UserError, match=r"^a\.json: .*; missing: 0 of 3, others in it: 1 .*\(u3\)"):
        compare_records(record, fewer, "a.json")
    relabelled = [dataclasses.replace(record.utterances[0], tokens=("ni2", "hao3")), *record.utterances[1:]]
    with pytest.raises(UserError, match=r"u0: expected .*'你好' \(ni3 hao3\), received '你好' \(ni2 hao3\)"):
        compare_records(dataclasses.replace(record, utterances=relabelled), better)


def test_a_comparison_is_printed_and_written_as_a_page(record, better, tmp_path, capsys):
    comparison = compare_records(record, better)
    print_comparison(comparison)
    printed = capsys.readouterr().out
    assert "better by B in syllables: 2 utterances" in printed
    assert "worse by B in syllables: 1 utterance\n" in printed
    assert re.search(r"^ +B +zai4 jian4 ma1\n +再见妈$", printed, re.MULTILINE)
    row = next(line for line in printed.splitlines() if line.strip().startswith("syllable error rate"))
    assert row.split()[3:6] == ["50.00%", "33.33%", "-16.67%"]
    write_evaluation_comparison(tmp_path / "compare.html", comparison)
    page = (tmp_path / "compare.html").read_text(encoding="utf-8")
    assert "B makes 1 fewer syllable errors than A: -16.67% in the rate" in page
    assert "it may be due to chance (p 1.0000)" in page
    assert '<span class="substitution">hao4</span>' in page
    assert '<span class="deletion">(shei2)</span>' not in page  # u3 is the same by both
    assert '<span class="insertion">a5</span>' in page


def test_evaluation_says_which_tones_its_labels_have(tmp_path):
    manifest = tmp_path / "test.jsonl"
    record = EvaluationRecord("demo", str(manifest), {}, [], [], [])
    assert tones_of(record) == ""
    write_prepared(tmp_path, {}, {"test": manifest}, LabelsDescription(tones="spoken"), finished=True)
    assert tones_of(record) == "spoken"
    assert tones_of(EvaluationRecord("demo", str(tmp_path / "other.jsonl"), {}, [], [], [])) == ""
