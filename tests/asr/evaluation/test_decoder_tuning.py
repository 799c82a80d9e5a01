"""Tests `asr tune-decoder`, and the options of all commands that decode, on a real run."""

import json
import re
import shutil

import numpy as np
import pytest
from helpers.full_disk import largest_file

from asr.base.decoder_settings import DecoderSettings
from asr.base.types import EditCounts, Utterance
from asr.base.vocabulary import Vocabulary
from asr.cli.main import main
from asr.evaluation.decoder_tuning import (
    DecodedSet,
    DecoderTuner,
    LogProbBatch,
    TunedDecoder,
    WeightTrial,
    counted_units,
    decoded_set,
    gain,
    writes_worse,
)
from asr.language.ngram.model import NGramModel, NGrams
from asr.runs.checkpoint import read_checkpoint, write_checkpoint
from asr.runs.run import Run
from asr.transcription.decoder_choice import DecoderChoice


@pytest.fixture(scope="module")
def manifest(trained_run):
    return trained_run.parents[1] / "dev.jsonl"


@pytest.fixture(scope="module")
def language_model(manifest, tmp_path_factory):
    """Return a model trained on the very sentences to recognize, which must help."""
    folder = tmp_path_factory.mktemp("lm") / "model"
    assert main(["lm", "train", str(manifest), "--out", str(folder)]) == 0
    return folder


@pytest.fixture
def run(trained_run, tmp_path):
    """Return a copy of the run, whose decoder may be tuned."""
    return shutil.copytree(trained_run, tmp_path / "run")


def syllables_wrong(printed):
    return float(re.search(r"syllable error rate +([\d.]+)%", printed)[1])


@pytest.mark.slow
def test_tuned_weights_are_saved_and_used(run, manifest, language_model, capsys, monkeypatch):
    assert main(["evaluate", str(run), str(manifest)]) == 0
    monkeypatch.chdir(language_model.parent)
    assert main(["tune-decoder", str(run), str(manifest), "--lm", "model"]) == 0
    printed = capsys.readouterr().out.split("lm_weight")[1]
    rates = dict(re.findall(r"^(greedy|best) .*?([\d.]+)%", printed, re.MULTILINE))
    settings = Run(run).decoder_settings()
    assert settings.language_model == str(language_model.resolve())  # independent of the working directory
    assert settings.beam > 1
    monkeypatch.chdir(run)
    assert main(["evaluate", str(run), str(manifest)]) == 0
    assert syllables_wrong(capsys.readouterr().out) == float(rates["best"]) < float(rates["greedy"])
    assert main(["evaluate", str(run), str(manifest), "--beam", "1"]) == 0
    assert syllables_wrong(capsys.readouterr().out) == float(rates["greedy"])


def tuner_of(greedy, *trials):
    """Return a tuner that has made trials, each given by its wrong syllables and hanzi in 100 utterances."""

    def counted(errors):
        return [EditCounts(int(index < errors), 0, 0, 10) for index in range(100)]

    vocabulary, decoded = Vocabulary(["a"]), DecodedSet(*map(counted, greedy))
    tuner = DecoderTuner((), vocabulary, DecoderChoice(DecoderSettings()), None, decoded, id)
    for weight, errors in enumerate(trials):
        found = DecodedSet(*map(counted, errors))
        worse = writes_worse(decoded, found)
        tuner.trials[weight, 0.0, 0.0, 0.0] = WeightTrial(
            found.tokens, found.characters, float(weight), 0.0, 0.0, worse
        )
    return tuner


def test_weights_that_write_hanzi_worse_beyond_chance_are_not_chosen():
    tuner = tuner_of((50, 20), (10, 60), (30, 22), (40, 10))
    assert tuner.best.lm_weight == 1.0  # 22 for 20 may be chance, 60 is not


def test_nothing_is_chosen_where_all_weights_write_hanzi_worse(monkeypatch):
    tuner = tuner_of((50, 20), (10, 60), (30, 50))
    monkeypatch.setattr(tuner, "_try", lambda *weights: None)
    assert tuner.tune() is None


def test_the_penalty_of_unknown_words_is_tuned_for_a_language_model_over_words():
    """An unknown word is right in the first clip; in the second, the model has to correct a rare one."""
    vocabulary = Vocabulary(["▁a", "▁ab", "▁b"])
    words = ("<unk>", "<s>", "</s>", "a", "b")
    ids = np.arange(len(words), dtype=np.int32)[:, None]
    log10_probs = np.array([-1.0, -9.0, -0.5, -0.5, -3.0], np.float32)
    zeros = np.zeros(len(words), np.float32)
    pair = NGrams(np.array([[1, 2]], np.int32), np.full(1, -9.0, np.float32), zeros[:1])
    model = NGramModel.of_ngrams(words, [NGrams(ids, log10_probs, zeros), pair])
    log_probs = np.log(np.array([[[1e-9, 0.3, 0.7, 1e-9]], [[1e-9, 0.3, 1e-9, 0.7]]], np.float32))
    said = [Utterance(str(index), "", 1.0, "", (token,)) for index, token in enumerate(("▁ab", "▁a"))]
    batch = LogProbBatch(log_probs, np.array([1, 1], np.int32), said)
    choice = DecoderChoice(DecoderSettings(beam=16))

    def tuned(language_model):
        tuner = DecoderTuner([batch], vocabulary, choice, language_model, DecodedSet((), ()), id)
        return tuner.tune(), tuner

    settings, tuner = tuned(model)
    assert tuner.best.edits.errors == 0
    assert settings.unknown_word > DecoderSettings.unknown_word
    over_pieces = NGramModel.of_ngrams((*words[:3], "▁a", "▁b"), [NGrams(ids, log10_probs, zeros), pair])
    assert {trial.unknown_word for trial in tuned(over_pieces)[1].trials.values()} == {-10.0}


def test_words_count_where_pieces_spell_them():
    def errors(vocabulary, said, recognized):
        utterances = [Utterance("0", "", 1.0, "", said)]
        batch = LogProbBatch(np.zeros((1, 0, len(vocabulary))), np.zeros(1, np.int32), utterances)
        found = decoded_set([batch], [recognized], vocabulary, None).edits
        return counted_units(vocabulary, utterances).name, found.errors, found.reference_length

    pieces, mixed = Vocabulary(["▁a", "▁ab", "b", "▁b"]), Vocabulary(["ma1", "A", "▁ab", "▁a", "b"])
    assert errors(pieces, ("▁ab", "▁b"), ("▁a", "b", "▁b")) == ("word", 0, 2)
    assert errors(pieces, ("▁ab", "▁b"), ("▁a", "▁b")) == ("word", 1, 2)
    assert errors(pieces, ("▁a", "b"), ("▁a",)) == ("piece", 1, 2)  # a text without spaces, as in Chinese
    assert errors(mixed, ("ma1", "▁ab"), ("ma1", "▁a", "b")) == ("mixed", 0, 2)
    assert errors(Vocabulary(["ma1", "ma2"]), ("ma1", "ma2"), ("ma1",)) == ("syllable", 1, 2)


def test_a_gain_has_an_interval_that_says_whether_it_may_be_chance():
    before, after, little = ([EditCounts(int(i < n), 0, 0, 10) for i in range(100)] for n in (50, 10, 49))
    assert gain(before, after).high < 0
    assert gain(before, little).high >= 0
    assert gain([], []) is None


def test_weights_are_printed_even_if_they_cannot_be_saved(run, manifest, capsys, monkeypatch):
    tuner = tuner_of((50, 0), (10, 0))
    trials, path = list(tuner.trials.values()), run / "decoder.toml"
    tuned = TunedDecoder(DecoderSettings(beam=4), path, tuner.greedy, tuner.best, trials, "syllable")
    monkeypatch.setattr("asr.evaluation.decoder_tuning.tune_decoder", lambda *_, **__: tuned)
    with largest_file(10):
        assert main(["tune-decoder", str(run), str(manifest), "--lm", "lm"]) == 2
    captured = capsys.readouterr()
    assert "decoder.toml: cannot write" in captured.err
    assert "syllable errors, best minus greedy" in captured.out
    assert "written;" not in captured.out


def test_tuning_without_a_language_model_is_an_error(run, manifest, capsys):
    assert main(["tune-decoder", str(run), str(manifest)]) == 2
    assert "--lm" in capsys.readouterr().err
    assert Run(run).decoder_settings() == DecoderSettings()


@pytest.mark.parametrize("key", ["lm_weight", "token_bonus", "hanzi_weight", "unknown_word"])
def test_weights_that_tuning_chooses_cannot_be_given(run, manifest, key, capsys):
    given = ["--lm", "lm", "--decoder", "beam_width=20", "--decoder", f"{key}=-1.0"]
    assert main(["tune-decoder", str(run), str(manifest), *given]) == 2
    assert f"--decoder {key}: tuning chooses lm_weight, token_bonus" in capsys.readouterr().err


def test_language_model_that_was_moved_is_named_with_the_file_that_names_it(run, clips, manifest, capsys):
    Run(run).save_decoder_settings(DecoderSettings(beam=4, language_model="/nowhere/lm"))
    transcribe = ["transcribe", str(run), clips[0].audio_path]
    for command in (
        transcribe,
        ["evaluate", str(run), str(manifest)],
        ["tune-decoder", str(run), str(manifest)],
    ):
        assert main(command) == 2
        error = capsys.readouterr().err
        assert f"{run / 'decoder.toml'}: expected the language model that it names, /nowhere/lm" in error
        assert "--lm PATH" in error
        assert "--beam 1" in error
    assert main([*transcribe, "--beam", "1"]) == 0
    capsys.readouterr()
    assert main([*transcribe, "--lm", "elsewhere"]) == 2
    assert "decoder.toml" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["--beam", "1", "--n-best", "2", "--format", "jsonl"],
            "greedy decoding",
        ),
        (["--beam", "4", "--n-best", "5", "--format", "jsonl"], "expected at most 4"),
        (["--decoder", "min_token_log_prob=0.0"], "min_token_log_prob: expected -1e+09 to -0.1"),
        (["--n-best", "0", "--format", "jsonl"], "--n-best: expected 1 to 4096, received 0"),
        (["--beam", "1", "--decoder", "lm_weight=1.0"], "changes nothing with --beam 1"),
        (["--decoder", "lm_weight=1.0"], "name one by --lm"),
        (["--beam", "0"], "beam: expected 1 to 4096, received 0"),
        (["--decoder", "lm_wait=1"], "lm_wait: no such key (did you mean lm_weight?)"),
        (["--decoder", "lm_weight"], "expected KEY=VALUE"),
        (["--lm", "nowhere"], "nowhere"),
        (["--hot-words", "nowhere.txt"], "nowhere.txt"),
    ],
)
def test_invalid_decoder_options_are_errors(trained_run, clips, options, message, capsys):
    assert main(["transcribe", str(trained_run), clips[0].audio_path, *options]) == 2
    assert message in capsys.readouterr().err


def test_json_has_tokens_times_confidences_and_alternatives(trained_run, clips, capsys):
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


def test_a_hot_word_is_matched_by_its_pinyin(trained_run, clips, tmp_path, capsys):
    """Even a barely trained model recognizes any word that is boosted enough."""
    words = tmp_path / "words.txt"
    words.write_text("{}\t100\n".format("".join(clips[0].text)), encoding="utf-8")
    options = ["--hot-words", str(words), "--tokens", "--decoder", "min_token_log_prob=-1e9"]
    options += ["--decoder", "beam_width=1e9", "--decoder", "hot_word_boost=10.0"]
    assert main(["transcribe", str(trained_run), clips[0].audio_path, *options]) == 0
    assert " ".join(clips[0].tokens) in capsys.readouterr().out


def test_a_checkpoint_with_nan_weights_is_refused(run, clips, capsys):
    checkpoint = Run(run).chosen_checkpoint()
    read = read_checkpoint(checkpoint)
    for array in read.arrays.values():
        if array.dtype == np.float32:
            array.fill(np.nan)
    write_checkpoint(checkpoint, read.arrays, read.progress)
    assert main(["transcribe", str(run), clips[0].audio_path]) == 2
    assert f"{checkpoint}: its weights have diverged" in capsys.readouterr().err
