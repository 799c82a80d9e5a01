import argparse
import dataclasses
import itertools
import os
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from helpers import ROOT
from helpers.random_run import random_run

from asr.base.config import Config, load_config
from asr.base.decoder_settings import DecoderSettings
from asr.base.errors import UserError
from asr.base.types import MachineLabel
from asr.base.vocabulary import Vocabulary
from asr.cli.commands.speech.label import add_label_arguments
from asr.cli.commands.speech.label_rounds import Round, rounds
from asr.cli.main import main
from asr.cli.options.decoder import BEAM, ask_for_stored_decoder, decoder_choice, given_search_options
from asr.runs.run import Run
from asr.transcription.recognizer import Recognizer
from data_pipeline.manifests.manifest import read_manifest, write_manifest

LABEL = MachineLabel("runs/a", "epoch-0001", "0.1.0", "2026-11-26", 0.95, "")


def dev_set(clips, run, path):
    """Return a manifest of 24 utterances, the text of which is what a run recognizes."""
    recognizer = Recognizer.load(run)
    rows = [
        dataclasses.replace(
            clip, id=f"{clip.id}-{copy}", tokens=recognizer.transcribe(clip.audio_path).tokens
        )
        for clip in clips
        for copy in range(2)
    ]
    write_manifest(path, rows)
    return path


@pytest.fixture(scope="module")
def dev(clips, separable_run, tmp_path_factory):
    return dev_set(clips, separable_run, tmp_path_factory.mktemp("dev") / "dev.jsonl")


@pytest.fixture(scope="module")
def quick(clips, clip_config, tmp_path_factory):
    """Return a run whose rounds train the tiny network for an epoch, and a dev set for it."""
    folder = tmp_path_factory.mktemp("quick")
    config = load_config(clip_config, ["train.epochs=1"])
    run = random_run(config, Vocabulary.of_utterances(clips), folder / "mine")
    return run, dev_set(clips, run, folder / "dev.jsonl")


def test_label_writes_a_manifest_and_names_the_next_commands(clips, separable_run, dev, tmp_path, capsys):
    for clip in clips[:3]:
        shutil.copy(clip.audio_path, tmp_path)
    (tmp_path / "zz.wav").symlink_to(Path(clips[0].audio_path).name)
    out = tmp_path / "out" / "labelled.jsonl"
    command = ["label", str(separable_run), str(tmp_path), "--dev", str(dev), "--out", str(out)]
    assert main(command) == 0
    assert [len(row.tokens) > 0 for row in read_manifest(out)] == [True] * 3
    printed = capsys.readouterr().out
    assert "1  another path of a recording" in printed
    assert "confidence calibrated on 24 utterances" in printed
    assert "expected calibration error" in printed
    commands = [shlex.split(line) for line in printed.splitlines() if line.startswith("    asr ")]
    assert [words[1] for words in commands] == ["train", "compare", "label"]
    assert f"data.machine_labelled={out}" in commands[0]
    assert not list(out.parent.glob("*.unfinished"))
    assert main(command) == 0  # over what it has written itself


def test_next_command_does_not_list_many_recordings(clips, separable_run, dev, tmp_path, capsys):
    copies = [str(shutil.copy(clips[0].audio_path, tmp_path / f"{number}.wav")) for number in range(9)]
    command = ["label", str(separable_run), *copies, "--dev", str(dev), "--min-confidence", "0"]
    assert main([*command, "--out", str(tmp_path / "labelled.jsonl")]) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("    asr label ")]
    assert "AUDIO..." in line
    assert copies[0] not in line


@pytest.mark.slow
def test_next_command_repeats_the_options_of_decoding(clips, separable_run, dev, tmp_path, capsys):
    words = tmp_path / "my words.txt"
    words.write_text(" ".join(clips[0].tokens[:2]) + "\n")
    given = ["--hot-words", str(words), "--beam", "4", "--decoder", "hot_word_boost=1.5"]
    given += ["--decoder", "beam_width=12.0", "--hanzi", "general"]
    out = tmp_path / "labelled.jsonl"
    command = ["label", str(separable_run), clips[0].audio_path, "--dev", str(dev), "--out", str(out)]
    assert main([*command, *given, "--min-confidence", "0"]) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("    asr label ")]
    first, repeated = (parsed(words) for words in ([*command[1:], *given], shlex.split(line)[2:]))
    assert repeated.min_confidence == 0
    for option in ("language_model", "hot_words", "beam", "decoder", "hanzi_model", "dev", "files"):
        assert getattr(repeated, option) == getattr(first, option), option


def parsed(words):
    parser = argparse.ArgumentParser()
    add_label_arguments(parser)
    return parser.parse_args(words)


def test_options_of_decoding_that_were_not_given_are_not_repeated():
    assert given_search_options(parsed(["runs/a", "a.wav", "--out", "l.jsonl"])) == []
    with_lm = parsed(["runs/a", "a.wav", "--out", "l.jsonl", "--lm", "my lm"])
    assert given_search_options(with_lm) == ["--lm", "my lm"]


def test_tuned_decoder_of_a_run_is_asked_of_the_runs_after_it(separable_run, tmp_path):
    run = Run(shutil.copytree(separable_run, tmp_path / "run"))
    arguments = parsed(["runs/a", "a.wav", "--out", "l.jsonl", "--hanzi", "general"])
    ask_for_stored_decoder(arguments, run)
    assert given_search_options(arguments) == ["--hanzi", "general"]
    tuned = DecoderSettings(beam=4, language_model="/lm", lm_weight=0.7, token_bonus=-1.5)
    run.save_decoder_settings(tuned)
    ask_for_stored_decoder(arguments, run)
    options = ["--lm", "/lm", "--beam", "4", "--hanzi", "general"]
    assert given_search_options(arguments) == [
        *options,
        *("--decoder", "lm_weight=0.7", "--decoder", "token_bonus=-1.5"),
    ]
    assert decoder_choice(arguments, Run(separable_run)).settings == tuned
    by_setting = parsed(["runs/a", "a.wav", "--out", "l.jsonl", "--decoder", 'language_model="/lm"'])
    assert decoder_choice(by_setting, Run(separable_run)).settings.beam == BEAM
    by_setting = parsed(["runs/a", "a.wav", "--out", "l.jsonl", "--lm", "/lm", "--decoder", "beam=1"])
    with pytest.raises(UserError, match="`beam=1`"):
        decoder_choice(by_setting, Run(separable_run))
    given = parsed(["runs/a", "a.wav", "--out", "l.jsonl", "--beam", "2"])
    ask_for_stored_decoder(given, run)
    assert given_search_options(given) == ["--beam", "2"]


def test_weights_of_a_language_model_that_was_removed_by_hand_are_not_asked_of_the_runs_after_it(
    separable_run, tmp_path
):
    run = Run(shutil.copytree(separable_run, tmp_path / "run"))
    run.save_decoder_settings(DecoderSettings(beam=4, lm_weight=0.7, token_bonus=-1.5, unknown_word=-5.0))
    arguments = parsed(["runs/a", "a.wav", "--out", "l.jsonl"])
    ask_for_stored_decoder(arguments, run)
    assert given_search_options(arguments) == ["--beam", "4"]
    assert decoder_choice(arguments, Run(separable_run)).settings == DecoderSettings(beam=4)


def test_commands_of_the_next_round_count_on(clips, separable_run, dev, tmp_path, capsys):
    run = shutil.copytree(separable_run, tmp_path / "mine-labelled")
    Run(run).save_decoder_settings(DecoderSettings(hot_word_boost=1.5))
    out = tmp_path / "labelled-2.jsonl"
    assert main(["label", str(run), clips[0].audio_path, "--dev", str(dev), "--out", str(out)]) == 0
    lines = capsys.readouterr().out.splitlines()
    train, compare, label = [shlex.split(line) for line in lines if line.startswith("    asr ")]
    assert train[train.index("--name") + 1] == "mine-labelled-2"
    assert compare[2:] == [str(run), str(tmp_path / "mine-labelled-2")]
    assert label[2] == compare[3]
    assert label[label.index("--out") + 1] == str(tmp_path / "labelled-3.jsonl")
    assert label[-4:] == ["--dev", str(dev), "--decoder", "hot_word_boost=1.5"]


def test_rounds_label_and_train_again_and_what_is_done_is_not_repeated(clips, quick, tmp_path, capsys):
    trained, dev = quick
    run = shutil.copytree(trained, tmp_path / "mine")
    recordings = tmp_path / "recordings"
    recordings.mkdir()
    for clip in clips[:3]:
        shutil.copy(clip.audio_path, recordings)
    out = tmp_path / "labelled.jsonl"
    command = ["label", str(run), str(recordings), "--dev", str(dev), "--out", str(out)]
    assert main([*command, "--min-confidence", "0", "--rounds", "1"]) == 0
    first = Run(tmp_path / "mine-labelled")
    assert first.config().data.machine_labelled == str(out)
    before = {path: path.read_bytes() for path in (out, first.directory / "metrics.jsonl")}
    assert "learned from a model's labels" not in capsys.readouterr().out

    assert main([*command, "--min-confidence", "0", "--rounds", "2"]) == 0
    printed = capsys.readouterr().out
    assert {path: path.read_bytes() for path in before} == before
    assert f"{out}: labelled already" in printed
    assert f"{first.directory}: trained already" in printed
    num_kept = len(read_manifest(out))
    assert f"{first.directory}: learned from a model's labels of {num_kept} of these recordings" in printed
    second = Run(tmp_path / "mine-labelled-2")
    labels = read_manifest(tmp_path / "labelled-2.jsonl")
    assert second.config().data.machine_labelled == str(tmp_path / "labelled-2.jsonl")
    assert {row.labelled_by.run for row in labels} == {str(first.directory)}
    assert [line[3:] for line in printed.splitlines() if line[:3] in ("A  ", "B  ", "C  ")] == [
        str(one) for one in (run, first.directory, second.directory)
    ]


# a command that is killed when it calls a function of the training that follows the labels
KILLED = """
import importlib, os, signal, sys

module, owner, name = sys.argv[1].split(":")
owner = getattr(importlib.import_module(module), owner)
setattr(owner, name, lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL))
from asr.cli.main import main
from helpers.tiny import register_tiny

register_tiny()
main(sys.argv[2:])
"""


@pytest.mark.parametrize(
    "dies_in",
    ["asr.runs.run:Run:create", pytest.param("asr.training.trainer:Trainer:train", marks=pytest.mark.slow)],
)
def test_labels_of_a_round_whose_training_was_killed_are_used(dies_in, clips, quick, tmp_path, capsys):
    trained, dev = quick
    run = shutil.copytree(trained, tmp_path / "mine")
    recording = shutil.copy(clips[0].audio_path, tmp_path)
    out = tmp_path / "labelled.jsonl"
    command = ["label", str(run), recording, "--dev", str(dev), "--out", str(out), "--rounds", "1"]
    command += ["--min-confidence", "0"]
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, dies_in, *command],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL
    assert not Run(tmp_path / "mine-labelled").checkpoints()
    before = out.stat().st_ino
    assert main(command) == 0
    assert f"{out}: labelled already" in capsys.readouterr().out
    assert out.stat().st_ino == before  # it is not written again
    assert Run(tmp_path / "mine-labelled").checkpoints()


def test_labels_of_other_settings_or_recordings_are_not_used(
    clips, separable_run, dev, tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr(Round, "train", interrupted)
    run = shutil.copytree(separable_run, tmp_path / "mine")
    recording = Path(shutil.copy(clips[0].audio_path, tmp_path))
    out = tmp_path / "labelled.jsonl"
    command = ["label", str(run), str(recording), "--dev", str(dev), "--out", str(out), "--rounds", "1"]
    command += ["--min-confidence"]

    def labels(limit):
        assert main([*command, limit]) == 130
        return f"{out}: labelled already" not in capsys.readouterr().out

    assert labels("0")
    assert not labels("0")
    assert labels("0.01")
    os.utime(recording, (0, 0))
    assert labels("0.01")
    with out.open("a") as file:
        file.write(out.read_text().splitlines()[0].replace(recording.stem, "other") + "\n")
    assert labels("0.01")
    with np.load(Run(run).chosen_checkpoint()) as arrays:
        changed = {
            name: array * 1.01 if array.dtype == np.float32 else array for name, array in arrays.items()
        }
    np.savez(Run(run).chosen_checkpoint(), **changed)
    assert labels("0.01")
    assert not labels("0.01")


def interrupted(*_, **__):
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("run", "name", "manifests", "trained"),
    [
        ("mine", "labelled", ["labelled", "labelled-2"], ["mine-labelled", "mine-labelled-2"]),
        (
            "mine-labelled-2",
            "labelled-3",
            ["labelled-3", "labelled-4"],
            ["mine-labelled-3", "mine-labelled-4"],
        ),
        # a day or a part that the user has numbered is not counted on
        ("demo-2", "day-26", ["day-26", "day-26-2"], ["demo-2-labelled", "demo-2-labelled-2"]),
    ],
)
def test_names_of_rounds_count_on(run, name, manifests, trained):
    some = list(itertools.islice(rounds(Path("runs") / run, Path(f"{name}.jsonl")), 2))
    assert [one.manifest for one in some] == [Path(f"{stem}.jsonl") for stem in manifests]
    assert [one.trained for one in some] == [Path("runs") / one for one in trained]
    assert some[1].run == some[0].trained


def test_rounds_refuse_a_run_that_is_trained_on_other_labels(clips, separable_run, dev, tmp_path, capsys):
    run = shutil.copytree(separable_run, tmp_path / "mine")
    other = shutil.copytree(separable_run, tmp_path / "mine-labelled")
    out = tmp_path / "labelled.jsonl"
    command = ["label", str(run), clips[0].audio_path, "--dev", str(dev), "--out", str(out), "--rounds"]
    assert main([*command, "2"]) == 2
    assert f"{other}: expected a run that is trained on {out}" in capsys.readouterr().err
    assert main([*command, "0"]) == 2
    assert "--rounds: expected 1 or more, received 0" in capsys.readouterr().err
    assert not out.exists()


def test_a_few_transcripts_cannot_calibrate_the_confidence(clips, separable_run, tmp_path, capsys):
    """The dev set of this run has four utterances."""
    audio = clips[0].audio_path
    assert main(["label", str(separable_run), audio, "--out", str(tmp_path / "l.jsonl")]) == 2
    assert "name a larger manifest with --dev" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--min-confidence", "90"], "--min-confidence: expected 0 to 1, received 90"),
        (["--dev", "gone.jsonl"], "gone.jsonl: no such manifest"),
        (["--out", "labelled.txt"], "--out labelled.txt: expected the name of a new manifest"),
        (["--out", "a, b.jsonl"], "choose a path without commas"),
        (["--out", " here/labelled.jsonl"], "choose a path without commas"),
    ],
)
def test_wrong_options_are_refused_before_a_model_is_loaded(
    options, message, clips, separable_run, tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Recognizer, "of_run", None)
    command = ["label", str(separable_run), clips[0].audio_path, "--out", "labelled.jsonl", *options]
    assert main(command) == 2
    assert message in capsys.readouterr().err


def test_recording_that_does_not_exist_is_refused_before_a_model_is_loaded(
    clips, separable_run, dev, tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr(Recognizer, "of_run", None)
    command = [
        "label",
        str(separable_run),
        clips[0].audio_path,
        str(tmp_path / "gone.wav"),
        "--dev",
        str(dev),
    ]
    assert main([*command, "--out", str(tmp_path / "labelled.jsonl")]) == 2
    assert "gone.wav: no such recording" in capsys.readouterr().err


def test_the_dev_set_itself_is_not_overwritten(clips, separable_run, dev, capsys):
    before = dev.read_bytes()
    command = ["label", str(separable_run), clips[0].audio_path, "--dev", str(dev), "--out", str(dev)]
    assert main(command) == 2
    assert dev.read_bytes() == before


@pytest.mark.parametrize("by_model", [0, 1])
def test_labels_of_people_are_not_overwritten(by_model, clips, tmp_path, capsys):
    out, run = tmp_path / "train.jsonl", tmp_path / "run"
    run.mkdir()
    Run.create(run, Config(), Vocabulary.of_utterances(clips))
    rows = [dataclasses.replace(clip, labelled_by=LABEL) for clip in clips[:by_model]]
    write_manifest(out, [*rows, *clips[by_model:3]])
    before = out.read_bytes()
    assert main(["label", str(run), clips[0].audio_path, "--out", str(out)]) == 2
    assert "train.jsonl: expected a new manifest or one of `asr label`" in capsys.readouterr().err
    assert out.read_bytes() == before
