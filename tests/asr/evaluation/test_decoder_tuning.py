"""`asr tune-decoder`, and the options of all commands that decode, on a real run."""

import json
import re
import shutil

import numpy as np
import pytest

from asr.base.decoder_settings import DecoderSettings
from asr.cli.main import main
from asr.runs.checkpoint import read_checkpoint, write_checkpoint
from asr.runs.run import Run


@pytest.fixture(scope="module")
def manifest(trained_run):
    return trained_run.parents[1] / "dev.jsonl"


@pytest.fixture(scope="module")
def language_model(manifest, tmp_path_factory):
    """Of the very sentences to be heard: it cannot but help."""
    folder = tmp_path_factory.mktemp("lm") / "model"
    assert main(["lm", "train", str(manifest), "--out", str(folder)]) == 0
    return folder


@pytest.fixture
def run(trained_run, tmp_path):
    """A copy, whose decoder may be tuned."""
    return shutil.copytree(trained_run, tmp_path / "run")


def syllables_wrong(printed):
    return float(re.search(r"syllable error rate +([\d.]+)%", printed)[1])


def test_tuned_weights_are_kept_and_used(run, manifest, language_model, capsys, monkeypatch):
    assert main(["evaluate", str(run), str(manifest)]) == 0
    monkeypatch.chdir(language_model.parent)
    assert main(["tune-decoder", str(run), str(manifest), "--lm", "model"]) == 0
    printed = capsys.readouterr().out.split("lm_weight")[1]
    rates = dict(re.findall(r"^(greedy|best) .*?([\d.]+)%", printed, re.MULTILINE))
    settings = Run(run).decoder_settings()
    assert settings.language_model == str(language_model.resolve())  # found from anywhere
    assert settings.beam > 1
    monkeypatch.chdir(run)
    assert main(["evaluate", str(run), str(manifest)]) == 0
    assert syllables_wrong(capsys.readouterr().out) == float(rates["best"]) < float(rates["greedy"])
    assert main(["evaluate", str(run), str(manifest), "--beam", "1"]) == 0
    assert syllables_wrong(capsys.readouterr().out) == float(rates["greedy"])


def test_without_a_language_model_there_is_nothing_to_weigh(run, manifest, capsys):
    assert main(["tune-decoder", str(run), str(manifest)]) == 2
    assert "--lm" in capsys.readouterr().err
    assert Run(run).decoder_settings() == DecoderSettings()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (
            ["--beam", "1", "--n-best", "2", "--format", "jsonl"],
            "greedy decoding",
        ),
        (["--beam", "4", "--n-best", "5", "--format", "jsonl"], "the search keeps 4 hypotheses"),
        (["--decoder", "min_token_log_prob=0.0"], "min_token_log_prob: expected -1e+09 to -0.1"),
        (["--beam", "0"], "beam: expected 1 to 4096, received 0"),
        (["--decoder", "lm_wait=1"], "lm_wait: no such key (did you mean lm_weight?)"),
        (["--decoder", "lm_weight"], "expected KEY=VALUE"),
        (["--lm", "nowhere"], "nowhere"),
        (["--hot-words", "nowhere.txt"], "nowhere.txt"),
    ],
)
def test_options_that_cannot_be_are_told(trained_run, clips, options, told, capsys):
    assert main(["transcribe", str(trained_run), clips[0].audio_path, *options]) == 2
    assert told in capsys.readouterr().err


def test_json_tells_tokens_times_confidences_and_alternatives(trained_run, clips, capsys):
    options = ["--n-best", "3", "--format", "jsonl"]
    assert main(["transcribe", str(trained_run), clips[0].audio_path, *options]) == 0
    record = json.loads(capsys.readouterr().out)
    assert len(record["tokens"]) == len(record["times_s"]) == len(record["confidences"])
    assert len(record["alternatives"]) == 2
    tokens = [tuple(other["tokens"]) for other in [record, *record["alternatives"]]]
    assert len(set(tokens)) == 3
    assert main(["transcribe", str(trained_run), clips[0].audio_path, "--tokens"]) == 0
    printed = capsys.readouterr().out.split()
    assert all(re.fullmatch(r"[a-z]+[1-5]", token) for token in printed)


def test_a_hot_word_is_found_by_its_sound(trained_run, clips, tmp_path, capsys):
    """Of a barely trained model anything can be had, if only it is boosted enough."""
    words = tmp_path / "words.txt"
    words.write_text("{}\t100\n".format("".join(clips[0].text)), encoding="utf-8")
    options = ["--hot-words", str(words), "--tokens", "--decoder", "min_token_log_prob=-1e9"]
    options += ["--decoder", "beam_width=1e9", "--decoder", "hot_word_boost=10.0"]
    assert main(["transcribe", str(trained_run), clips[0].audio_path, *options]) == 0
    assert " ".join(clips[0].tokens) in capsys.readouterr().out


def test_weights_that_are_no_numbers_are_not_decoded_with(run, clips, capsys):
    checkpoint = Run(run).best_checkpoint()
    read = read_checkpoint(checkpoint)
    for array in read.arrays.values():
        if array.dtype == np.float32:
            array.fill(np.nan)
    write_checkpoint(checkpoint, read.arrays, read.progress)
    assert main(["transcribe", str(run), clips[0].audio_path]) == 2
    assert f"{checkpoint}: its weights have diverged" in capsys.readouterr().err
