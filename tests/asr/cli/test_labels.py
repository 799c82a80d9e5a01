import csv
import dataclasses
import json
import subprocess
import sys

import pytest
from helpers import ROOT

from asr.base.text.pieces import learn_pieces
from asr.base.text.units import LearnedUnits
from asr.base.types import Utterance
from asr.cli.main import main
from asr.evaluation.labels.review_file import ReviewRow, write_review
from data_pipeline.manifests.manifest import read_manifest, write_manifest
from data_pipeline.preparation.description import LabelsDescription, labels_beside


@pytest.fixture
def manifest(tmp_path):
    tokens = {"u0": "yin2 xing2", "u1": "ni3 hao3", "0012": "hai2"}
    utterances = [
        Utterance(name, str(tmp_path / f"{name}.wav"), 1.0, "文", tuple(said.split()), "")
        for name, said in tokens.items()
    ]
    write_manifest(tmp_path / "test.jsonl", utterances)
    return tmp_path / "test.jsonl"


def review_of(manifest, **decisions):
    """Write a review that suggests `hang2` as the last token of every utterance."""
    rows = []
    for utterance in read_manifest(manifest):
        decision = decisions.get(utterance.id, "")
        suggested = (*utterance.tokens[:-1], "hang2")
        rows.append(
            ReviewRow(
                decision, utterance.id, utterance.audio_path, "文", utterance.tokens, suggested, "", "9"
            )
        )
    write_review(manifest.with_name("review.csv"), rows)
    return manifest.with_name("review.csv")


def test_accepted_corrections_are_written_and_printed(manifest, capsys):
    spoken = LabelsDescription(tones="spoken")
    labels = {manifest.name: spoken.as_json()}
    (manifest.parent / "labels.json").write_text(json.dumps(labels), encoding="utf-8")
    review = review_of(manifest, u0="a", u1="n", **{"0012": "Y"})
    out = manifest.parent / "below" / "new.jsonl"
    assert main(["labels", "apply", str(review), str(manifest), "--out", str(out)]) == 0
    output = capsys.readouterr().out
    assert "u0  文  xing2 > hang2\n" in output
    assert "2 accepted, 1 refused, 0 undecided" in output
    assert "new.jsonl: 3 utterances, 2 with new tokens" in output
    assert [" ".join(u.tokens) for u in read_manifest(out)] == ["yin2 hang2", "ni3 hao3", "hang2"]
    assert labels_beside(out) == spoken


def test_suggested_pieces_may_be_any_of_the_model_beside_the_manifest(manifest, capsys):
    pieces = learn_pieces(["iphone", "ok wifi"], LearnedUnits("mixed", 40))
    said = ("da3", "kai1", *pieces.encode("ok"))
    utterances = read_manifest(manifest)[:1]
    write_manifest(manifest, [dataclasses.replace(utterance, tokens=said) for utterance in utterances])
    suggested = ("guan1", "A", *pieces.encode("wifi"), "hang2")
    review = review_of(manifest, u0="a")
    text = review.read_text(encoding="utf-8-sig")
    review.write_text(text.replace(" ".join((*said[:-1], "hang2")), " ".join(suggested)), encoding="utf-8")
    out = manifest.with_name("new.jsonl")
    arguments = ["labels", "apply", str(review), str(manifest), "--out", str(out)]
    assert main(arguments) == 2
    assert "units.model beside it" in capsys.readouterr().err
    assert not out.exists()
    pieces.save(manifest.with_name("units.model"))
    assert main(arguments) == 0
    assert read_manifest(out)[0].tokens == suggested


def test_labels_apply_reads_a_review_that_a_spreadsheet_saved(manifest):
    review = review_of(manifest, u0="a")
    with review.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.reader(file))
    rows[1][rows[0].index("suggested")] = "yin2 hang4"  # edited by hand
    with review.open("w", encoding="gb18030", newline="") as file:
        csv.writer(file, delimiter=";", lineterminator="\r\n").writerows(rows)
    arguments = ["labels", "apply", str(review), str(manifest), "--out", str(manifest.with_name("new.jsonl"))]
    done = subprocess.run(
        [sys.executable, "-m", "asr", *arguments], cwd=ROOT, capture_output=True, text=True, encoding="utf-8"
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "u0  文  xing2 > hang4" in done.stdout
    assert read_manifest(manifest.with_name("new.jsonl"))[0].tokens == ("yin2", "hang4")


@pytest.mark.parametrize("decisions", [{}, {"u0": "n"}])
def test_review_without_accepted_corrections_is_refused(manifest, capsys, decisions):
    review = review_of(manifest, **decisions)
    out = manifest.with_name("new.jsonl")
    assert main(["labels", "apply", str(review), str(manifest), "--out", str(out)]) == 2
    assert "received none of 3 lines" in capsys.readouterr().err
    assert not out.exists()


def test_changed_manifest_is_refused_and_nothing_is_written(manifest, capsys):
    review = review_of(manifest, u0="a", u1="a")
    lines = [json.loads(line) for line in manifest.read_text(encoding="utf-8").splitlines()]
    lines[1]["tokens"] = "ni2 hao3"
    manifest.write_text("".join(f"{json.dumps(line)}\n" for line in lines[1:]), encoding="utf-8")
    out = manifest.with_name("new.jsonl")
    assert main(["labels", "apply", str(review), str(manifest), "--out", str(out)]) == 2
    error = capsys.readouterr().err
    assert "review.csv:2: u0: no such id" in error
    assert "review.csv:3: u1: reviewed as 'ni3 hao3', but the manifest has 'ni2 hao3'" in error
    assert not out.exists()


def test_accepted_suggestions_that_equal_the_label_are_reported(manifest, capsys):
    review = review_of(manifest, u0="a", u1="a")
    text = review.read_text(encoding="utf-8-sig").replace("yin2 hang2", "yin2 xing2")
    review.write_text(text, encoding="utf-8")
    out = manifest.with_name("new.jsonl")
    assert main(["labels", "apply", str(review), str(manifest), "--out", str(out)]) == 0
    assert "1 of the accepted suggestions equal the label" in capsys.readouterr().out
