"""Test `asr evaluate`: the files that it writes, and the comparison of two evaluations."""

import contextlib
import csv
import dataclasses
import io
import json
import os
import shutil
from pathlib import Path

import pytest

from asr.base.decoder_settings import DecoderSettings
from asr.base.errors import UserError
from asr.base.vocabulary import Vocabulary
from asr.cli.main import main
from asr.ctc.hot_words import HotWords
from asr.evaluation.labels.review_file import ReviewRow, read_review, write_review
from asr.language.hanzi.converter import GENERAL_MODEL
from asr.report.files import report_files
from asr.runs.run import Run
from asr.transcription.decoder_choice import DecoderChoice
from data_pipeline.manifests.manifest import read_manifest, write_manifest


def evaluate(*arguments):
    return main(["evaluate", *map(str, arguments), "--tokens"])


@pytest.fixture(scope="module")
def manifest(clips, tmp_path_factory):
    path = tmp_path_factory.mktemp("sets") / "set" / "dev.jsonl"
    write_manifest(path, clips[:4])
    return path


@pytest.fixture(scope="module")
def evaluated(trained_run, manifest, tmp_path_factory):
    """Return a run that was evaluated, and the output of the command."""
    directory = shutil.copytree(trained_run, tmp_path_factory.mktemp("runs") / "clips")
    for path in directory.glob("report*"):
        path.unlink()
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        assert evaluate(directory, manifest) == 0
    return directory, printed.getvalue()


@pytest.fixture
def run(evaluated, tmp_path):
    return shutil.copytree(evaluated[0], tmp_path / "clips")


@pytest.fixture
def other(evaluated, tmp_path):
    """Return another run that was evaluated with two decoders, last with the second."""
    directory = shutil.copytree(evaluated[0], tmp_path / "other")
    read = json.loads((directory / "report-set-dev.json").read_text(encoding="utf-8"))
    read["decoder"]["hot_word_boost"] = 3.0
    (directory / "report-set-dev-boost3.json").write_text(json.dumps(read), encoding="utf-8")
    os.utime(directory / "report-set-dev.json", (1e9, 1e9))
    return directory


def one_line_error(capsys):
    lines = capsys.readouterr().err.strip().splitlines()
    assert lines[-1].startswith("error: ")
    return lines[-1]


def titles_in(printed):
    return [line for line in printed.splitlines() if line.startswith(("A  ", "B  "))]


def test_evaluate_writes_a_report_and_its_data(evaluated, manifest):
    run, printed = evaluated
    assert f"Report: {run / 'report-set-dev.html'}\n" in printed
    assert "as data: report-set-dev.json, report-set-dev.csv" in printed
    read = json.loads((run / "report-set-dev.json").read_text(encoding="utf-8"))
    assert read["manifest"] == str(manifest)
    assert read["decoder"]["beam"] == 1
    said = read_manifest(manifest)
    assert [row["id"] for row in read["utterances"]] == [utterance.id for utterance in said]
    rate = read["rates"][0]
    assert rate["reference_length"] == sum(len(utterance.tokens) for utterance in said)
    row = next(line for line in printed.splitlines() if line.strip().startswith("syllable error rate"))
    assert row.split()[3] == f"{rate['rate']:.2%}"
    assert row.split()[4:7] == [f"{rate['low']:.2%}", "to", f"{rate['high']:.2%}"]
    with (run / "report-set-dev.csv").open(encoding="utf-8", newline="") as file:
        assert [row["id"] for row in csv.DictReader(file)] == [utterance.id for utterance in said]


def test_two_runs_are_compared_by_the_evaluation_of_the_same_decoder(run, other, manifest, capsys):
    Run(run).epoch_checkpoint(2).unlink()  # what it was after its first epoch
    assert evaluate(run, manifest, "--compare", other) == 0
    printed = capsys.readouterr().out
    assert titles_in(printed) == [
        f"A  clips ({other / 'report-set-dev.json'})",
        f"B  clips ({run / 'report-set-dev.json'})",
    ]
    page = run / "compare-set-dev-with-clips-set-dev.html"
    assert f"Comparison: {page}\n" in printed
    assert "side by side" in page.read_text(encoding="utf-8")


def test_results_are_printed_even_if_no_report_can_be_written(run, other, manifest, capsys, monkeypatch):
    def full_disk(*_):
        raise UserError("report.html: cannot write this report (No space left on device)")

    monkeypatch.setattr("asr.report.files.write_report_files", full_disk)
    assert evaluate(run, manifest, "--compare", other) == 2
    captured = capsys.readouterr()
    assert "No space left" in captured.err
    assert "syllable error rate" in captured.out
    assert len(titles_in(captured.out)) == 2  # of the comparison


def test_unreadable_evaluations_are_ignored_if_another_exists(run, other, manifest, capsys):
    (other / "report-set-damaged.json").write_text("{", encoding="utf-8")
    text = (other / "report-set-dev.json").read_text(encoding="utf-8")
    (other / "report-set-old.json").write_text(text.replace('"schema": 1', '"schema": 0'), encoding="utf-8")
    assert evaluate(run, manifest, "--compare", other) == 0
    assert (run / "compare-set-dev-with-clips-set-dev.html").exists()
    for name in ("dev", "dev-boost3"):
        (other / f"report-set-{name}.json").unlink()
    assert evaluate(run, manifest, "--compare", other) == 2
    error = one_line_error(capsys)
    for expected in (
        "dev.jsonl, found none",
        "report-set-damaged.json: not JSON",
        "report-set-old.json: expected schema 1, received 0",
    ):
        assert expected in error


def test_decision_about_a_recording_that_cannot_be_read_at_the_moment_is_kept(run, clips, tmp_path):
    copies = [
        dataclasses.replace(clip, audio_path=shutil.copy(clip.audio_path, tmp_path)) for clip in clips[:4]
    ]
    manifest = tmp_path / "moved" / "dev.jsonl"
    write_manifest(manifest, copies)
    assert evaluate(run, manifest) == 0
    review = report_files(run / "report-moved-dev.html").review
    decided = ReviewRow("a", copies[0].id, copies[0].audio_path, "", copies[0].tokens, ("a1",), "", "1.0")
    write_review(review, [decided])
    Path(copies[0].audio_path).rename(tmp_path / "unmounted")
    assert evaluate(run, manifest) == 2  # one is left out
    assert decided.id in [row.id for row in read_review(review) if row.decision == "a"]


def test_same_decoder_is_recognized_by_other_paths_of_its_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def described(lm, hot_words="", **hanzi):
        words = HotWords({(1,): 1.0}, path=Path(hot_words)) if hot_words else None
        return DecoderChoice(DecoderSettings(beam=16, language_model=lm), words, **hanzi).as_record()

    far = tmp_path / "else" / ".."
    near = described("lm", "words", hanzi_model=Path("zi"))
    assert near == described("./lm/", f"{far}/words", hanzi_model=far / "zi")
    assert described("lm") != described("lm2")
    bare = described("", hanzi_model=GENERAL_MODEL)
    assert (bare["language_model"], bare["hot_words"]) == ("", "")
    # as earlier evaluations hold it
    assert [bare["hanzi"], described("")["hanzi"], described("", write_hanzi=False)["hanzi"]] == [
        "general",
        True,
        False,
    ]


def test_run_is_compared_with_its_earlier_evaluation_file(run, manifest, capsys):
    assert evaluate(run, manifest, "--compare", run / "report-set-dev.json") == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines() if "syllable error rate" in line]
    assert rows[-1][-2:] == ["1.0000", "50.0%"]


def test_what_is_compared_twice_has_two_names(run, manifest, capsys):
    for _ in range(2):
        assert evaluate(run, manifest, "--compare", run / "report-set-dev.json") == 0
        a, b = titles_in(capsys.readouterr().out)
        assert a.removeprefix("A") != b.removeprefix("B")
        page = (run / "compare-set-dev-with-clips-set-dev.html").read_text(encoding="utf-8")
        assert a.removeprefix("A  ") in page
        assert b.removeprefix("B  ") in page


def test_run_is_compared_with_its_own_evaluation_by_another_decoder(run, manifest, capsys):
    for number in range(2):
        boost = ("--decoder", "hot_word_boost=3.0", "--name", f"boost{number}")
        assert evaluate(run, manifest, *boost, "--compare", run) == 0
        a, b = titles_in(capsys.readouterr().out)
        assert "hot_word_boost 3.0" not in a
        assert b == "B  clips (hot_word_boost 3.0)"


def test_weight_without_a_language_model_is_refused(run, manifest, capsys):
    assert evaluate(run, manifest, "--decoder", "beam=4", "--decoder", "lm_weight=0.7") == 2
    assert "--decoder lm_weight: changes nothing without a language model" in one_line_error(capsys)


def test_evaluate_does_not_silently_overwrite_another_evaluation(run, manifest, clips, tmp_path, capsys):
    kept = (run / "report-set-dev.json").read_bytes()
    decoder = ("--decoder", "hot_word_boost=3.0")
    assert evaluate(run, manifest, *decoder) == 2
    error = one_line_error(capsys)
    assert "with another decoder (hot_word_boost) exists already; set --name NAME" in error
    namesake = tmp_path / "elsewhere" / "set" / "dev.jsonl"
    write_manifest(namesake, clips[4:6])
    assert evaluate(run, namesake) == 2
    assert f"an evaluation of {manifest} exists already" in one_line_error(capsys)
    assert evaluate(run, manifest, *decoder, "--name", "boost3", "--compare", run) == 0
    assert (run / "report-set-dev.json").read_bytes() == kept
    assert (run / "report-set-dev-boost3.html").exists()
    assert (run / "compare-set-dev-boost3-with-clips-set-dev.html").exists()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--compare", "{bare}"], "dev.jsonl, found none; `asr evaluate"),
        (["--compare", "{run}/none.json"], "none.json: cannot read this evaluation"),
        (["--compare", "{run}/vocabulary.txt"], "vocabulary.txt: not JSON"),
        (["--compare", "{run}/checkpoints"], "no run here"),
        (["--name", "../up"], "received '../up'"),
        (["--name", ""], "--name: expected letters, digits"),
    ],
)
def test_evaluate_reports_wrong_arguments_before_loading_a_model(run, manifest, arguments, expected, capsys):
    bare = shutil.copytree(run, run.with_name("bare"), ignore=shutil.ignore_patterns("report*"))
    for checkpoint in Run(run).checkpoints():
        checkpoint.unlink()  # loading it would raise another error
    given = [argument.format(run=run, bare=bare) for argument in arguments]
    assert evaluate(run, manifest, *given) == 2
    assert expected in one_line_error(capsys)


def test_comparison_with_other_utterances_is_refused_before_decoding(run, clips, tmp_path, capsys):
    write_manifest(tmp_path / "other.jsonl", clips[2:6])
    assert evaluate(run, tmp_path / "other.jsonl", "--compare", run / "report-set-dev.json") == 2
    error = one_line_error(capsys)
    assert (
        "report-set-dev.json: expected an evaluation of the same utterances; missing: 2 of 4, others in it: 2"
        in error
    )
    assert not list(run.glob("*other*"))


def test_rate_of_tokens_has_one_name_whatever_the_labels_of_a_set_look_like(run, clips, tmp_path, capsys):
    """Labels of single letters do not make the errors of a model of syllables those of characters."""
    syllables = Run(run).vocabulary().tokens[1:]
    letters = [*"abcdefghijklmnopqrstuvwxyz"[: len(syllables) // 20], *syllables]
    Vocabulary(letters[: len(syllables)]).save(run / "vocabulary.txt")
    spelled = [dataclasses.replace(clip, tokens=("a", "b")) for clip in clips[:2]]
    write_manifest(tmp_path / "letters" / "dev.jsonl", spelled)
    assert evaluate(run, tmp_path / "letters" / "dev.jsonl") == 0
    printed = capsys.readouterr().out
    assert "syllable error rate" in printed
    assert "character error rate" not in printed
    page = (run / "report-letters-dev.html").read_text(encoding="utf-8")
    assert "syllable error rate" in page
    assert "character error rate" not in page
    for command in (["runs", run], ["compare", run, shutil.copytree(run, tmp_path / "copy")]):
        assert main([*map(str, command)]) == 0
        assert "syllables" in capsys.readouterr().out
    assert json.loads((run / "report-letters-dev.json").read_text(encoding="utf-8"))["unit"] == "syllable"


def test_evaluation_of_a_model_of_another_unit_is_not_compared(run, other, manifest, capsys):
    path = other / "report-set-dev.json"
    read = json.loads(path.read_text(encoding="utf-8"))
    read["unit"] = "character"
    path.write_text(json.dumps(read), encoding="utf-8")
    before = (run / "report-set-dev.json").read_bytes()
    assert evaluate(run, manifest, "--compare", path) == 2
    error = one_line_error(capsys)
    assert "expected the evaluation of a model of syllables, received that of one of characters" in error
    assert (run / "report-set-dev.json").read_bytes() == before
