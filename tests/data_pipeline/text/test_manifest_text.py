"""Tests that the words of a manifest's texts get the readings of its labels."""

import pytest

from asr.base.errors import UserError
from asr.base.types import Utterance
from asr.cli.main import main
from asr.language.ngram.model_file import load_model
from data_pipeline.labels.readings.rules import SENTENCE_END
from data_pipeline.manifests.manifest import write_manifest
from data_pipeline.text import manifest_text
from data_pipeline.text.manifest_text import segment_manifest
from data_pipeline.text.spoken_text import SpokenText


def manifest(tmp_path, *rows):
    """Write a manifest of texts and their labels."""
    path = tmp_path / "train.jsonl"
    utterances = (
        Utterance(str(i), "a.wav", 1.0, text, tuple(labels.split())) for i, (text, labels) in enumerate(rows)
    )
    write_manifest(path, utterances)
    return path


def spoken(tmp_path, *rows):
    return SpokenText([str(manifest(tmp_path, *rows))], tmp_path)


def sentences(text, unit):
    """Return the sentences of a text as strings of tokens."""
    names = ["\n", *text.vocabulary(unit)]
    tokens = [names[token] for block, _ in text.blocks(unit, 1, 0) for token in block]
    return [one.strip() for one in " ".join(tokens).split("\n")][:-1]


def readings(text):
    return {(one.word, " ".join(one.reading)) for one in text.pronunciations()}


def test_tone_sandhi_of_labels_is_in_the_language_model_and_the_pronunciations(tmp_path):
    path = manifest(tmp_path, ("一点也不会", "yi4 dian3 ye3 bu2 hui4"))
    assert main(["lm", "train", str(path), "--out", str(tmp_path / "lm")]) == 0
    assert {"yi4", "bu2"} <= set(load_model(tmp_path / "lm" / "syllables.klm").words)
    lines = (tmp_path / "lm" / "pronunciations.tsv").read_text(encoding="utf-8").splitlines()
    assert "一点\tyi4 dian3" in {line.rpartition("\t")[0] for line in lines}


def test_word_may_have_different_readings_in_different_utterances(tmp_path):
    text = spoken(tmp_path, ("一点", "yi4 dian3"), ("一点", "yi1 dian3"))
    assert {("一点", "yi4 dian3"), ("一点", "yi1 dian3")} == readings(text)
    assert sentences(text, "syllables") == ["yi4 dian3", "yi1 dian3"]


@pytest.mark.parametrize(
    "labels", ["yi4 dian3 le5 le5", "yi4", "", "一 点", "yi dian", "y i"], ids=lambda labels: labels or "none"
)
def test_labels_of_another_length_or_unit_are_ignored(labels, tmp_path):
    assert sentences(spoken(tmp_path, ("一点", labels)), "syllables") == ["yi1 dian3"]


def test_labels_are_ignored_if_a_part_of_the_text_is_left_out(tmp_path):
    # there are as many labels as hanzi, but the first label belongs to the digit
    text = spoken(tmp_path, ("3朵花儿", "san1 duo3 huar1"))
    assert sentences(text, "syllables") == ["duo3 hua1 er5"]
    assert text.left_out == {"digits": 1}


def test_labels_continue_across_the_sentences_of_an_utterance(tmp_path):
    text = spoken(
        tmp_path,
        ("你好，“一起”去吧！\n他不要。", "ni2 hao3 yi4 qi3 qu4 ba5 ta1 bu2 yao4"),
        ("", "ni3"),
        ("也好", "ye2 hao3"),
    )
    assert sentences(text, "syllables") == ["ni2 hao3", "yi4 qi3 qu4 ba5", "ta1 bu2 yao4", "ye2 hao3"]
    assert text.num_sentences == 4


def test_words_of_the_dictionary_are_separated_at_white_space(tmp_path):
    labels = "zhong1 guo2 ren2 min2 yin2 hang2 xuan1 bu4"
    assert sentences(spoken(tmp_path, ("中国人民银行宣布", labels)), "words") == ["中国人民银行 宣布"]
    assert sentences(spoken(tmp_path, ("中国 人民 银行宣布", labels)), "words") == ["中国 人民 银行 宣布"]


def test_texts_and_manifests_are_read_together(tmp_path):
    other = tmp_path / "other.txt"
    other.write_text("一点", encoding="utf-8")
    text = SpokenText([str(manifest(tmp_path, ("一点", "yi4 dian3"))), str(other)], tmp_path)
    assert sorted(sentences(text, "syllables")) == ["yi1 dian3", "yi4 dian3"]


def test_long_manifest_is_read_in_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr(manifest_text, "UTTERANCES_PER_BLOCK", 2)
    path = manifest(tmp_path, *[("一点", "yi4 dian3")] * 5)
    blocks = list(segment_manifest(path))
    assert len(blocks) == 3
    words = [block.spoken[token].word for block in blocks for token in block.tokens]
    assert words == ["一点", SENTENCE_END] * 5
    assert 0 <= path.stat().st_size - sum(block.num_bytes for block in blocks) < 5


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", r"train\.jsonl: no utterances in this manifest"),
        ('{"text": "你好"}\n', r"train\.jsonl:1: duration_s: expected seconds"),
        ("你好\n", r"train\.jsonl:1: not a JSON object"),
    ],
)
def test_invalid_manifest_raises_the_error_of_read_manifest(content, message, tmp_path):
    path = tmp_path / "train.jsonl"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(UserError, match=message):
        SpokenText([str(path)], tmp_path)


def test_manifest_without_texts_raises(tmp_path):
    with pytest.raises(UserError, match=r"train\.jsonl: expected Chinese text, found no hanzi"):
        spoken(tmp_path, ("", "ni3 hao3"))
