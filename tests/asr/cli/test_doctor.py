import argparse
import json
import os
import subprocess
import sys

import pytest
from helpers.corpora.defects import DEFECTS, SmallCorpus

from asr.base.config import load_config
from asr.base.errors import UserError
from asr.cli.commands.data.doctor import add_doctor_arguments, doctor_command
from asr.cli.main import main
from data_pipeline.manifests.manifest import read_manifest, write_manifest
from multigpu.start import LOG_LEVEL


@pytest.fixture
def corpus(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "corpus").mkdir()
    return SmallCorpus(tmp_path / "corpus")


def doctor(*arguments) -> int:
    parser = argparse.ArgumentParser()
    add_doctor_arguments(parser)
    return doctor_command(parser.parse_args([str(argument) for argument in arguments]))


def test_doctor_of_a_sound_corpus_exits_with_0(corpus, capsys):
    assert doctor(*corpus.paths) == 0
    output = capsys.readouterr().out
    assert "sound: 0 errors, 0 warnings, 0 notes" in output
    assert "train.jsonl (train): 24 utterances, 34 s, 3 speakers" in output
    size = load_config("demo").model.size
    named = f"the separable {size} model of the configuration 'demo'; choose yours with --config"
    assert named in output
    assert (corpus.folder.parent / "pages" / "doctor.html").is_file()


def test_doctor_writes_over_its_own_page_and_over_no_other(corpus, capsys):
    page = corpus.folder.parent / "pages" / "doctor.html"
    for _ in range(2):
        assert doctor(*corpus.paths) == 0
        assert "Page: pages/doctor.html" in capsys.readouterr().out
    assert {path.name for path in page.parent.iterdir()} == {".gitignore", "doctor.html"}
    assert {path.name for path in page.parent.parent.iterdir()} == {"corpus", "pages"}
    assert main(["inspect", *map(str, corpus.paths), "--html", str(page)]) == 0
    pages = page.read_text(encoding="utf-8")
    for other in ("of somebody", pages):
        page.write_text(other, encoding="utf-8")
        with pytest.raises(UserError, match=r"pages/doctor\.html: is a file of another kind; .* --html"):
            doctor(*corpus.paths)
        assert page.read_text(encoding="utf-8") == other


def test_copies_are_left_out_of_a_corpus_that_is_sound(corpus, capsys):
    DEFECTS["repeated-audio"][0](corpus)
    assert doctor(*corpus.save()) == 0
    output = capsys.readouterr().out
    assert "1 line to leave out" in output
    assert "sound: 0 errors, 1 warning" in output


def test_doctor_counts_problems_with_example_and_remedy_and_exits_with_1(corpus, capsys):
    for number in (2, 4):
        corpus.audio(number).unlink()
    corpus.test()["speaker"] = ""
    assert doctor(*corpus.save()) == 1
    output = capsys.readouterr().out
    assert "       2  audio file missing or unreadable: correct the path" in output
    assert f"e.g. {corpus.folder}/train.jsonl:3 train-2: cannot read this file" in output
    assert "problems found: 2 errors, 0 warnings, 1 note\n" in output
    assert output.index("missing") < output.index("no speaker given")


def test_doctor_exits_with_0_if_there_are_only_warnings(corpus):
    corpus.test()["speaker"] = corpus.train()["speaker"]
    assert doctor(*corpus.save()) == 0


def test_broken_manifests_are_findings_and_the_others_are_examined(corpus, capsys):
    (corpus.folder / "dev.jsonl").write_bytes('{"id": "你"}\n'.encode("gbk") + b"not json\n")
    (corpus.folder / "none.jsonl").mkdir()
    assert doctor(*corpus.paths, corpus.folder / "dev.jsonl", corpus.folder / "none.jsonl") == 1
    output = capsys.readouterr().out
    assert "2  line that is not an utterance" in output
    assert "1  manifest cannot be read" in output
    assert "24 utterances" in output


def test_doctor_writes_json_to_standard_output_or_to_a_file(corpus, capsys, tmp_path):
    corpus.audio().unlink()
    assert doctor(*corpus.save(), "--json", "-") == 1
    printed = capsys.readouterr()
    report = json.loads(printed.out)
    assert [finding["code"] for finding in report["findings"]] == ["missing-audio"]
    assert "problems found" in printed.err
    doctor(*corpus.paths, "--json", tmp_path / "out" / "doctor.json")
    assert json.loads((tmp_path / "out" / "doctor.json").read_text(encoding="utf-8")) == report


def test_clean_manifests_are_examined_as_sound(corpus, capsys):
    corpus.audio(1).write_bytes(b"")
    corpus.train(2)["tokens"] = ""
    assert doctor(*corpus.save(), "--write-clean", "clean") == 1
    assert "clean/train.jsonl: 22 utterances" in capsys.readouterr().out
    assert len(read_manifest(corpus.folder.parent / "clean" / "train.jsonl")) == 22
    assert doctor("clean/train.jsonl", "clean/test.jsonl") == 0


def test_doctor_uses_model_vocabulary_and_batches_of_the_configuration(corpus, tmp_path, capsys):
    corpus.train().update(tokens="si4 er4 " * 7 + "san1", text="")  # 15 tokens; 1.2 s are 14 or 15 frames
    corpus.save()
    (tmp_path / "tokens.txt").write_text("<blank>\nyi1\ner4\nsan1\nsi4\n", encoding="utf-8")
    config = tmp_path / "mine.toml"
    config.write_text(
        f'[data]\ntrain = "{corpus.paths[0]}"\nvocabulary = "{tmp_path}/tokens.txt"\n'
        "[train]\nbatch_s = 1.65\n"
    )

    def codes(*options):
        doctor("--config", config, "--json", "doctor.json", *options)
        report = json.loads((tmp_path / "doctor.json").read_text(encoding="utf-8"))
        assert report["manifests"][0]["path"] == str(corpus.paths[0])
        return {finding["code"] for finding in report["findings"]}

    assert {"unknown-token", "longer-than-batch"} <= codes()
    assert "too-many-tokens" not in codes()
    # 118 windows: three halvings that keep an odd last frame leave 15 frames, those that drop it 14
    assert "too-many-tokens" in codes("--set", "model.family=dcnn24")
    assert "dcnn24 model of the configuration 'mine'" in capsys.readouterr().out


def test_doctor_examines_every_test_set_of_a_configuration(corpus, tmp_path):
    train, test = corpus.paths
    other = tmp_path / "other.jsonl"
    rows = [json.loads(line) for line in test.read_text(encoding="utf-8").splitlines()]
    rows = [{**row, "id": f"other-{row['id']}", "audio": f"corpus/{row['audio']}"} for row in rows]
    other.write_text("".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows), encoding="utf-8")
    config = tmp_path / "mine.toml"
    config.write_text(f'[data]\ntrain = "{train}"\ntest = "{test}"\nmore_tests = "{other}"\n')
    doctor("--config", config, "--json", "doctor.json")
    report = json.loads((tmp_path / "doctor.json").read_text(encoding="utf-8"))
    assert [(manifest["path"], manifest["role"]) for manifest in report["manifests"]] == [
        (str(train), "train"),
        (str(test), "test"),
        (str(other), "test"),
    ]
    assert {finding["code"] for finding in report["findings"]} >= {"repeated-audio"}


def test_vocabulary_with_a_duplicate_token_is_a_finding(corpus, tmp_path, capsys):
    (tmp_path / "tokens.txt").write_text("<blank>\nyi1\ner4\nyi1\n", encoding="utf-8")
    options = ["--config", "demo", "--set", f"data.vocabulary={tmp_path}/tokens.txt"]
    assert doctor(*corpus.paths, *options) == 1
    assert "'yi1' appears twice" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["doctor", "inspect"])
def test_nothing_is_written_for_a_manifest_that_does_not_exist(corpus, command, capsys):
    before = sorted(corpus.folder.parent.rglob("*"))
    assert main([command, str(corpus.paths[0]), "corpus/none.jsonl"]) == 2
    assert "corpus/none.jsonl: " in capsys.readouterr().err
    assert sorted(corpus.folder.parent.rglob("*")) == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--config", "none"], "none: no such configuration"),
        (["--config", "demo", "--set", "data.corpus=", "--set", "data.train="], "no manifest to examine"),
        (["a.jsonl", "./a.jsonl"], "given twice"),
        (["corpus/t*.jsonl", "corpus/train.jsonl"], "corpus/train.jsonl: given twice"),
        (["corpus/train.jsonl", "--write-clean", "corpus"], "would overwrite this one"),
        (["corpus/train.jsonl", "--set", "model.size=huge"], "expected one of xs"),
    ],
)
def test_doctor_reports_wrong_arguments_before_reading_recordings(corpus, arguments, message, capsys):
    with pytest.raises(UserError, match=message):
        doctor(*arguments)
    assert "decoding" not in capsys.readouterr().err


def test_control_characters_of_a_manifest_are_not_printed(corpus, capsys):
    corpus.train().update(id="\x1b[31mred", tokens="")
    doctor(*corpus.save())
    assert "\x1b[31m" not in capsys.readouterr().out


@pytest.mark.slow
def test_doctor_examines_real_clips_in_a_separate_process(clips, tmp_path):
    write_manifest(tmp_path / "train.jsonl", clips)
    ran = subprocess.run(
        [sys.executable, "-m", "asr", "doctor", "train.jsonl"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={name: value for name, value in os.environ.items() if name != LOG_LEVEL},
    )
    assert ran.returncode == 0, ran.stderr
    assert "12 utterances" in ran.stdout
    assert ran.stderr == ""
