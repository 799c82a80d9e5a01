"""Labels are pieces of words, learned from the training text alone, of one corpus or of several together."""

import dataclasses
import json

import numpy as np
import pytest
from helpers.noise_table import noise_table

from asr.audio.recording import write_wav
from asr.base.config import Config, DataConfig
from asr.base.errors import UserError
from asr.base.text.mixed import LETTERS
from asr.base.text.pieces import UNITS_MODEL, Pieces, text_of_pieces
from asr.base.vocabulary import Vocabulary
from asr.cli.main import main
from asr.evaluation.data import evaluation_data
from asr.runs.run import Run
from asr.training.check_before_training import examine
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


MIXED = {
    "train": ["我需要看CCTV5", "打开iPhone的设置", "这个APP很好用", "用WiFi上网", "你好", "Привет"],
    "dev": ["打开jazz", "iPhone和WiFi"],
}


def labels_of(manifest):
    return [" ".join(utterance.tokens) for utterance in read_manifest(manifest)]


def test_mixed_labels_are_syllables_letters_and_pieces_of_spoken_latin_words(tmp_path, capsys):
    table, out = noise_table(tmp_path / "source", MIXED), tmp_path / "mixed"
    assert main(["prepare", "table", str(table), str(out), "--units", "mixed"]) == 0
    printed = capsys.readouterr().out
    assert "mixed: learned from 2 texts with spoken Latin words of train" in printed
    assert "П in 'Привет'" in printed
    assert labels_of(out / "train.jsonl")[:3] == [
        "wo3 xu1 yao4 kan4 C C T V wu3",
        "da3 kai1 ▁iphone de5 she4 zhi4",
        "zhe4 ge5 A P P hen3 hao3 yong4",
    ]
    assert read_manifest(out / "train.jsonl")[0].text == "我需要看CCTV五"  # as it is said
    assert "我需要看CCTV5\t我需要看CCTV五" in (out / "normalized.tsv").read_text("utf-8")
    assert labels_of(out / "dev.jsonl")[0].replace(" ", "") == "da3kai1▁jazz"  # letters that train lacks
    assert json.loads((out / "prepared.json").read_text())["labels"]["tones"] == "citation"


def test_a_mixed_vocabulary_is_that_of_the_text_and_the_model(tmp_path):
    prepared = prepare_corpus(
        "table", str(noise_table(tmp_path / "source", MIXED)), tmp_path / "out", "mixed:40"
    )
    pieces = Pieces.load(tmp_path / "out" / UNITS_MODEL)
    assert len(pieces.tokens) == 40
    config = Config(data=DataConfig(train=str(prepared.manifests["train"])))
    vocabulary = make_vocabulary(config)
    syllables = {t for u in read_manifest(prepared.manifests["train"]) for t in u.tokens if t[-1].isdigit()}
    assert vocabulary.tokens[1:] == (*sorted(syllables), *LETTERS, *pieces.tokens)
    assert vocabulary.unit == "mixed"


def test_a_mixed_vocabulary_keeps_the_syllables_of_the_run_that_training_starts_from(tmp_path):
    prepared = prepare_corpus(
        "table", str(noise_table(tmp_path / "source", MIXED)), tmp_path / "out", "mixed"
    )
    config = Config(data=DataConfig(train=str(prepared.manifests["train"])))
    (tmp_path / "run").mkdir()
    Run.create(tmp_path / "run", config, Vocabulary(["zun1", "hao3", "x"]))
    config = dataclasses.replace(
        config, train=dataclasses.replace(config.train, init_from=str(tmp_path / "run"))
    )
    tokens = {*make_vocabulary(config).tokens}
    assert {"zun1", "hao3", "kan4", "A"} <= tokens
    assert tokens - {*Vocabulary.of_pieces(Pieces.load(tmp_path / "out" / UNITS_MODEL)).tokens} >= {"zun1"}


def test_a_corpus_without_latin_words_is_refused_with_what_to_do(tmp_path):
    table = noise_table(tmp_path / "source", {"train": ["你好", "看电视"], "dev": ["看CCTV5"]})
    reason = "expected Latin words in 2 texts of train, such as CCTV or iPhone, found none; .*units=syllables"
    with pytest.raises(UserError, match=reason):
        prepare_corpus("table", str(table), tmp_path / "out", "mixed")


LETTERS_ALONE = {"train": ["看CCTV5", "看电视", "这个APP很好用"], "dev": ["打开APP", "打开iPhone"]}


@pytest.mark.parametrize("units", ["mixed", "mixed:500"])
def test_a_corpus_with_spelt_letters_alone_has_letters_as_pieces(units, tmp_path, capsys):
    table, out = noise_table(tmp_path / "source", LETTERS_ALONE), tmp_path / "out"
    assert main(["prepare", "table", str(table), str(out), "--units", units]) == 0
    assert "2 texts with letters that are spelt of train, none with a spoken Latin word" in (
        capsys.readouterr().out
    )
    assert labels_of(out / "train.jsonl") == [
        "kan4 C C T V wu3",
        "kan4 dian4 shi4",
        "zhe4 ge5 A P P hen3 hao3 yong4",
    ]
    assert labels_of(out / "dev.jsonl") == ["da3 kai1 A P P", "da3 kai1 ▁ i p h o n e"]
    vocabulary = make_vocabulary(Config(data=DataConfig(train=str(out / "train.jsonl"))))
    pieces = Pieces.load(out / UNITS_MODEL)
    assert pieces.tokens[:3] == ("▁a", "a", "▁")
    assert len(pieces.tokens) == 29  # the alphabet, the apostrophe, the mark, and one that begins a word
    syllables = {
        token for label in labels_of(out / "train.jsonl") for token in label.split() if token[-1:] < "A"
    }
    assert vocabulary.tokens[1:] == (*sorted(syllables), *LETTERS, *pieces.tokens)
    assert vocabulary.unit == "mixed"
    assert vocabulary.join(["da3", "kai1", "A", "P", "P"]) == "da3 kai1 APP"


def test_letters_are_no_odd_labels_of_a_corpus_with_letters_alone(tmp_path):
    out = tmp_path / "out"
    long = {"train": [*LETTERS_ALONE["train"], "今天天气很好我们去公园走一走吧" * 2], "dev": ["打开APP"]}
    prepare_corpus("table", str(noise_table(tmp_path / "source", long)), out, "mixed")
    config = Config(data=DataConfig(train=str(out / "train.jsonl"), dev=str(out / "dev.jsonl")))
    kinds = {finding.code for finding in examine(config).findings}
    assert not kinds & {"odd-token", "unknown-token", "broken-vocabulary"}, kinds


def test_hanzi_labelled_for_a_mixed_run_are_trained_with_its_vocabulary(tmp_path):
    first, later = tmp_path / "first", tmp_path / "later"
    prepare_corpus("table", str(noise_table(tmp_path / "a", MIXED)), first, "mixed")
    hanzi = noise_table(tmp_path / "b", {"train": ["你好", "看电视"], "dev": ["你好"]})
    prepare_corpus("table", str(hanzi), later, f"mixed:{first / UNITS_MODEL}")
    vocabulary = make_vocabulary(Config(data=DataConfig(train=str(later / "train.jsonl"))))
    pieces = Pieces.load(first / UNITS_MODEL)
    assert vocabulary.tokens[1:] == ("dian4", "hao3", "kan4", "ni3", "shi4", *LETTERS, *pieces.tokens)


def test_more_pieces_of_latin_words_than_the_text_has_are_refused_and_the_default_takes_what_there_is(
    tmp_path,
):
    table = noise_table(tmp_path / "source", MIXED)
    with pytest.raises(
        UserError, match=r"too few different words for 500 pieces; ask for at most \d+, `mixed:"
    ):
        prepare_corpus("table", str(table), tmp_path / "out", "mixed:500")
    prepare_corpus("table", str(table), tmp_path / "out", "mixed")
    assert 30 < len(Pieces.load(tmp_path / "out" / UNITS_MODEL).tokens) < 200


def test_another_mixed_set_gets_the_pieces_of_a_run_and_labels_of_another_model_are_refused(tmp_path):
    table = noise_table(tmp_path / "source", MIXED)
    first = prepare_corpus("table", str(table), tmp_path / "first", "mixed")
    model = tmp_path / "first" / UNITS_MODEL
    vocabulary = make_vocabulary(Config(data=DataConfig(train=str(first.manifests["train"]))))
    again = prepare_corpus("table", str(table), tmp_path / "again", f"mixed:{model}")
    assert labels_of(again.manifests["dev"]) == labels_of(first.manifests["dev"])
    assert evaluation_data(again.manifests["dev"], vocabulary)[1] == 0
    jazz = noise_table(tmp_path / "jazz", {"train": ["听jazz", "看movie"], "dev": MIXED["dev"]})
    other = prepare_corpus("table", str(jazz), tmp_path / "other", "mixed")
    with pytest.raises(UserError, match=r"expected the pieces of this run.*--units mixed:FOLDER/units.model"):
        evaluation_data(other.manifests["dev"], vocabulary)


def test_several_corpora_share_the_pieces_of_their_latin_words(tmp_path):
    one = noise_table(tmp_path / "one", MIXED)
    two = noise_table(tmp_path / "two", {"train": ["打开Google地图", "你好"], "dev": ["看CCTV"]})
    none = noise_table(tmp_path / "none", {"train": ["天气很好"], "dev": ["很好"]})  # of one language
    parts = parts_of("one=table, two=table, none=table", f"one={one}, two={two}, none={none}")
    joint = prepare_joint(parts, tmp_path / "prepared", "mixed:50")
    pieces = Pieces.load(joint.folder / UNITS_MODEL)
    assert any("mixed:50: learned from 3 texts with spoken Latin words" in line for line in joint.lines({}))
    labels = labels_of(joint.manifests["train"])
    assert f"da3 kai1 {' '.join(pieces.encode('google'))} di4 tu2" in labels
    assert {"ni3 hao3", "tian1 qi4 hen3 hao3"} <= {*labels}
