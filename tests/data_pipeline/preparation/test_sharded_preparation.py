"""Test that a large corpus is prepared in shards, which every later command takes."""

import gzip
import json
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile
from helpers import ROOT
from helpers.processes import killed_at_opening

from asr.base.config import load_config
from asr.base.errors import UserError
from asr.cli.main import main
from asr.training.data import with_manifests
from data_pipeline.manifests import sharded
from data_pipeline.manifests.manifest import read_manifest
from data_pipeline.preparation.description import labels_beside, prepared_before, set_beside

LABELLED_BY = {"run": "runs/demo", "model": "epoch-0012", "version": "0.1.0", "date": "2026-11-26"}
NUM = 28

PREPARE = """
import sys
from pathlib import Path
from data_pipeline.manifests import sharded
from data_pipeline.preparation.prepare import prepare_corpus
sharded.UTTERANCES_PER_SHARD = 5
prepare_corpus("json_lines", sys.argv[1], Path(sys.argv[2]))
"""


@pytest.fixture
def source(tmp_path):
    """Return a folder with a compressed list of recordings, every other one labelled by a model."""
    folder = tmp_path / "mine"
    folder.mkdir()
    rng = np.random.default_rng(0)
    with gzip.open(folder / "all.jsonl.gz", "wt", encoding="utf-8") as file:
        for number in range(NUM):
            soundfile.write(folder / f"{number}.wav", rng.normal(0, 0.05, 16000 + number), 16000)
            record = {
                "id": f"a-{number:02d}",
                "audio": f"{number}.wav",
                "text": "我们去",
                "tokens": "wo3 men5 qu4",
            }
            label = {"labelled_by": {**LABELLED_BY, "confidence": 0.9}} if number % 2 else {}
            file.write(json.dumps({**record, **label}, ensure_ascii=False) + "\n")
    return folder


@pytest.fixture
def out(source, tmp_path, monkeypatch):
    monkeypatch.setattr(sharded, "UTTERANCES_PER_SHARD", 5)
    assert main(["prepare", "json_lines", str(source), str(tmp_path / "out")]) == 0
    return tmp_path / "out"


def shards(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("train-*"))


def test_next_command_names_the_shards_and_takes_them(out, capsys, tmp_path, source):
    main(["prepare", "json_lines", str(source), str(out)])
    command = next(line for line in capsys.readouterr().out.splitlines() if " doctor " in line)
    assert f"'{out}/train-*.jsonl.gz'" in command
    capsys.readouterr()
    arguments = shlex.split(command)
    status = main([*arguments[arguments.index("doctor") :], "--html", str(tmp_path / "page.html")])
    output = capsys.readouterr().out
    assert status == 0, output
    for name in shards(out):
        assert f"{name} (train)" in output
    assert main(["inspect", f"{out}/train-*.jsonl.gz", "--html", str(tmp_path / "inspect.html")]) == 0
    assert main(["pack", f"{out}/train-*.jsonl.gz", str(tmp_path / "packed")]) == 0
    assert len(read_manifest(tmp_path / "packed" / "train.jsonl")) == len(
        read_manifest(out / "train-*.jsonl.gz")
    )


def test_clean_shards_keep_how_their_labels_were_made(out, tmp_path):
    described = json.loads((out / "prepared.json").read_text("utf-8"))
    (out / "prepared.json").write_text(json.dumps({**described, "labels": {"tones": "spoken"}}), "utf-8")
    options = ["--write-clean", str(tmp_path / "clean"), "--html", str(tmp_path / "page.html")]
    assert main(["doctor", f"{out}/train-*.jsonl.gz", *options]) == 0
    labels = labels_beside(tmp_path / "clean" / "train-*.jsonl.gz")
    assert labels is not None
    assert labels.tones == "spoken"


def test_corpus_of_a_configuration_is_found_in_its_shards(out, source):
    overrides = [
        "data.corpus=out=json_lines",
        f"data.source=out={source}",
        f"data.prepared_dir={out.parent}",
        "data.units=",
    ]
    before = (out / "prepared.json").read_bytes()
    data = with_manifests(load_config("demo", overrides)).data
    assert data.train == str(out / "train-*.jsonl.gz")
    assert (out / "prepared.json").read_bytes() == before
    assert labels_beside(out / "train-*") == labels_beside(out / "dev.jsonl")
    assert set_beside(out / "train-*.gz") == ("json_lines", "train")


def test_labels_of_a_model_keep_their_origin(out):
    utterances = read_manifest(out / "train-*")
    by_machine = {one.id for one in utterances if one.labelled_by and one.labelled_by.run == "runs/demo"}
    assert by_machine == {one.id for one in utterances if int(one.id[2:]) % 2}
    assert by_machine


def test_label_that_describes_no_model_is_left_out(tmp_path, source):
    record = {"id": "b", "audio": "0.wav", "text": "我们去", "labelled_by": {"confidence": "much"}}
    good = {"id": "c", "audio": "1.wav", "text": "我们去"}
    (source / "more.jsonl").write_text(f"{json.dumps(record)}\n{json.dumps(good)}\n", encoding="utf-8")
    assert main(["prepare", "json_lines", str(source / "more.jsonl"), str(tmp_path / "out")]) == 0
    assert "labelled_by" in (tmp_path / "out" / "left_out.tsv").read_text(encoding="utf-8")


def test_cut_off_list_is_refused(tmp_path, source, capsys):
    path = source / "all.jsonl.gz"
    path.write_bytes(path.read_bytes()[:-20])
    assert main(["prepare", "json_lines", str(source), str(tmp_path / "out")]) == 2
    assert "expected a whole gzip file" in capsys.readouterr().err


def test_killed_preparation_leaves_nothing_that_looks_complete(source, out):
    count = len(shards(out))
    assert count > 2
    end = f"train-00002-of-{count:05d}.jsonl.gz.part"
    program = killed_at_opening(end, PREPARE.replace("Path(sys.argv[2])", "Path(sys.argv[2]), again=True"))
    command = [sys.executable, "-c", program, str(source), str(out)]
    assert subprocess.run(command, cwd=ROOT, check=False).returncode == -signal.SIGKILL
    assert shards(out) == [f"train-0000{number}-of-{count:05d}.jsonl.gz" for number in range(2)]
    with pytest.raises(UserError, match=rf"{count - 2} of {count} shards missing"):
        read_manifest(out / "train-*.jsonl.gz")
    assert not prepared_before(out, {}, other_units=True).is_complete
    assert main(["prepare", "json_lines", str(source), str(out)]) == 0
    assert len(shards(out)) == count


def test_corpus_that_has_grown_has_no_manifest_in_one_file_any_more(source, tmp_path, monkeypatch):
    out = tmp_path / "out"
    main(["prepare", "json_lines", str(source), str(out)])
    small = (out / "train.jsonl").read_bytes()
    monkeypatch.setattr(sharded, "UTTERANCES_PER_SHARD", 5)
    main(["prepare", "json_lines", str(source), str(out)])
    assert not (out / "train.jsonl").exists()
    joined = b"".join(gzip.decompress((out / name).read_bytes()) for name in shards(out))
    assert joined == small
    monkeypatch.undo()
    main(["prepare", "json_lines", str(source), str(out)])
    assert not shards(out)
    assert (out / "train.jsonl").read_bytes() == small


def test_manifest_in_one_file_goes_even_if_the_first_sharded_preparation_was_killed(source, tmp_path):
    out = tmp_path / "out"
    main(["prepare", "json_lines", str(source), str(out)])
    small = (out / "train.jsonl").read_bytes()
    again = PREPARE.replace("Path(sys.argv[2])", "Path(sys.argv[2]), again=True")
    killed = killed_at_opening("train-00001-of-00005.jsonl.gz.part", again)
    for program, status in ((killed, -signal.SIGKILL), (again, 0)):
        command = [sys.executable, "-c", program, str(source), str(out)]
        assert subprocess.run(command, cwd=ROOT, check=False).returncode == status
    assert len(shards(out)) == 5
    assert not (out / "train.jsonl").exists()
    main(["prepare", "json_lines", str(source), str(out)])
    assert (out / "train.jsonl").read_bytes() == small
