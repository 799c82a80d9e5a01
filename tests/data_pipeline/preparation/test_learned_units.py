"""Labels are pieces of words, learned from the training text alone, of one corpus or of several together."""

import json

import numpy as np
import pytest

from asr.audio.recording import write_wav
from asr.base.config import Config, DataConfig
from asr.base.errors import UserError
from asr.base.text.pieces import UNITS_MODEL, Pieces, text_of_pieces
from asr.base.vocabulary import Vocabulary
from asr.cli.main import main
from asr.training.data import make_vocabulary
from data_pipeline.manifests.manifest import read_manifest
from data_pipeline.preparation.combined_corpora import parts_of, prepare_joint
from data_pipeline.preparation.prepare import prepare_corpus

TRAIN = ["Turn the light on!", "turn the lights off", "Don't turn it on", "it is light", "the night is off"]
OTHERS = {"dev": ["Turn it off", "Jazz on"], "test": ["is the light on?"]}


@pytest.fixture(scope="module")
def lists(tmp_path_factory):
    """Return the tables of two corpora, of which the second has other words."""
    folder = tmp_path_factory.mktemp("source")
    rng = np.random.default_rng(0)
    written = {}
    for name, train in (("home", TRAIN), ("digits", ["one two three", "two one", "three three one"])):
        rows = ["path,text,speaker,split"]
        splits = {"train": train, **(OTHERS if name == "home" else {"dev": ["one three"]})}
        for split, texts in splits.items():
            for number, text in enumerate(texts):
                wav = folder / f"{name}-{split}-{number}.wav"
                write_wav(wav, rng.normal(0, 1000, 16000).astype(np.int16))
                rows.append(f"{wav.name},{text},{name}{number % 2},{split}")
        written[name] = folder / f"{name}.csv"
        written[name].write_text("\n".join(rows), encoding="utf-8")
    return written


def texts_of(manifest):
    return [text_of_pieces(utterance.tokens) for utterance in read_manifest(manifest)]


def test_labels_are_the_normalized_text_and_unknown_characters_are_left_out(lists, tmp_path, capsys):
    out = tmp_path / "home"
    assert main(["prepare", "table", str(lists["home"]), str(out), "--units", "bpe:30"]) == 0
    printed = capsys.readouterr().out
    assert "bpe:30: learned from 5 texts of train; 30 pieces" in printed
    assert "left out: 1 of 8" in printed
    assert "jaz in 'jazz on'" in printed
    assert texts_of(out / "train.jsonl")[:3] == [
        "turn the light on",
        "turn the lights off",
        "don't turn it on",
    ]
    assert texts_of(out / "dev.jsonl") == ["turn it off"]
    assert read_manifest(out / "train.jsonl")[0].text == "Turn the light on!"
    pieces = Pieces.load(out / UNITS_MODEL)
    assert all(pieces.encode(text) for text in texts_of(out / "test.jsonl"))
    assert not {*"jaz"} & {*"".join(pieces.tokens)}  # of dev


def test_the_vocabulary_is_the_model_and_not_the_tokens_of_the_training_set(lists, tmp_path):
    prepared = prepare_corpus("table", str(lists["home"]), tmp_path / "home", "unigram:20")
    config = Config(data=DataConfig(train=str(prepared.manifests["train"])))
    vocabulary = make_vocabulary(config)
    pieces = Pieces.load(tmp_path / "home" / UNITS_MODEL)
    assert vocabulary.tokens[1:] == pieces.tokens
    assert {*vocabulary.tokens[1:]} > {
        t for u in read_manifest(prepared.manifests["train"]) for t in u.tokens
    }
    (tmp_path / "home" / UNITS_MODEL).unlink()
    with pytest.raises(UserError, match=r"its labels are pieces, but units.model is not beside it"):
        make_vocabulary(config)


def test_another_set_is_labelled_by_the_pieces_of_a_run(lists, tmp_path):
    prepare_corpus("table", str(lists["home"]), tmp_path / "home", "bpe:30")
    pieces = Pieces.load(tmp_path / "home" / UNITS_MODEL)
    Vocabulary.of_pieces(pieces).save(tmp_path / "run" / "vocabulary.txt")
    model = str(tmp_path / "run" / UNITS_MODEL)
    again = prepare_corpus("table", str(lists["home"]), tmp_path / "again", model)
    for split, manifest in again.manifests.items():
        assert [u.tokens for u in read_manifest(manifest)] == [
            u.tokens for u in read_manifest(tmp_path / "home" / f"{split}.jsonl")
        ]
    digits = prepare_corpus("table", str(lists["digits"]), tmp_path / "digits", model)
    assert texts_of(digits.manifests["train"]) == ["three three one"]
    assert [row.detail.split()[0] for row in digits.left_out] == ["w", "w"]


def test_other_units_remove_the_model_of_earlier_labels(lists, tmp_path):
    prepare_corpus("table", str(lists["home"]), tmp_path / "home", "bpe:30")
    prepare_corpus("table", str(lists["home"]), tmp_path / "home", "words", again=True)
    assert not (tmp_path / "home" / UNITS_MODEL).exists()
    assert json.loads((tmp_path / "home" / "prepared.json").read_text())["units"] == "words"
    with pytest.raises(UserError, match="prepared with units 'words', expected 'bpe:30'"):
        prepare_corpus("table", str(lists["home"]), tmp_path / "home", "bpe:30")


def test_several_corpora_share_the_pieces_of_their_joint_training_text(lists, tmp_path):
    parts = parts_of("home=table, digits=table", f"home={lists['home']}, digits={lists['digits']}")
    joint = prepare_joint(parts, tmp_path, "bpe:40", strings="digits")
    assert any("bpe:40: learned from 8 texts of train; 40 pieces" in line for line in joint.lines({}))
    pieces = Pieces.load(joint.folder / UNITS_MODEL)
    utterances = read_manifest(joint.manifests["train"])
    assert all(pieces.encode(text_of_pieces(u.tokens)) == u.tokens for u in utterances)
    spoken = " ".join(text_of_pieces(u.tokens) for u in utterances if u.corpus == "digits").split()
    assert sorted(spoken) == sorted(["one", "two", "three", "two", "one", "three", "three", "one"])
    assert [text_of_pieces(u.tokens) for u in read_manifest(joint.manifests["dev"])] == [
        "turn it off",
        "one three",
    ]
    assert "jaz in 'jazz on'" in (joint.folder / "left_out.tsv").read_text("utf-8")
