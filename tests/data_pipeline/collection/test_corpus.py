"""Test the corpus that takes make: its splits, its files, and that it grows."""

import json

import pytest
from helpers.takes import noise, prompts_of

from data_pipeline.collection.corpus import write_corpus
from data_pipeline.collection.takes import open_takes
from data_pipeline.manifests.manifest import read_manifest
from data_pipeline.preparation.description import labels_beside

DIGITS = "零一二三四五六七八九"


def prompts(number):
    return prompts_of([f"第{DIGITS[n // 10]}{DIGITS[n % 10]}句话。" for n in range(number)])


def corpus_of(folder, speakers, number):
    with open_takes(folder, "syllables") as takes:
        for speaker in speakers:
            for place, prompt in enumerate(prompts(number)):
                takes.keep(speaker, prompt, noise(place, 0.1), 16_000)
        return write_corpus(takes)


def rows_of(corpus):
    return {split: read_manifest(path) for split, path in corpus.manifests.items()}


@pytest.mark.parametrize("speakers", [["a"], ["a", "b"]])
def test_no_sentence_of_one_or_two_speakers_is_in_two_splits(tmp_path, speakers):
    corpus = corpus_of(tmp_path, speakers, 40)
    rows = rows_of(corpus)
    sentences = {split: {row.text for row in found} for split, found in rows.items()}
    assert set(rows) == {"train", "dev", "test"}
    assert len(set.union(*sentences.values())) == sum(map(len, sentences.values())) == 40
    assert sum(map(len, rows.values())) == 40 * len(speakers)


@pytest.mark.parametrize("number", [3, 4, 12])
def test_no_speaker_of_several_is_in_two_splits(tmp_path, number):
    names = [f"speaker{place}" for place in range(number)]
    rows = rows_of(corpus_of(tmp_path, names, 5))
    speakers = {split: {row.speaker for row in found} for split, found in rows.items()}
    assert set(rows) == {"train", "dev", "test"}
    assert len(set.union(*speakers.values())) == sum(map(len, speakers.values())) == number
    assert len(speakers["train"]) >= number - 4


def test_corpus_is_described_as_one_that_was_prepared(tmp_path):
    corpus = corpus_of(tmp_path, ["a"], 30)
    described = json.loads((tmp_path / "prepared.json").read_text(encoding="utf-8"))
    assert described["finished"]
    assert labels_beside(corpus.manifests["train"]).tones == "citation"
    assert not (tmp_path / "left_out.tsv").exists()
    assert "30" not in corpus.split_note
    assert any("speaker" in line for line in corpus.lines())


def test_corpus_is_written_in_the_units_of_its_takes_after_a_first_try_in_others(tmp_path):
    with open_takes(tmp_path, None) as takes:
        assert not write_corpus(takes).splits
    with open_takes(tmp_path, "characters") as takes:
        for prompt in prompts_of(["go", "up"]):
            takes.keep("a", prompt, noise(0, 0.1), 16_000)
        assert sum(map(len, rows_of(write_corpus(takes)).values())) == 2
    assert json.loads((tmp_path / "prepared.json").read_text("utf-8"))["units"] == "characters"


def test_takes_in_doubt_and_lost_ones_are_left_out_and_listed(tmp_path):
    with open_takes(tmp_path, "syllables") as takes:
        for place, prompt in enumerate(prompts(4)):
            takes.keep("a", prompt, noise(place, 0.1), 16_000)
        takes.decide(takes.find("a", "p1"), [{"kind": "missing"}])
        (tmp_path / takes.find("a", "p2").audio).unlink()
    with open_takes(tmp_path, None) as takes:
        corpus = write_corpus(takes)
    kept = {row.id for rows in rows_of(corpus).values() for row in rows}
    assert kept == {"a-p0", "a-p3"}
    listed = (tmp_path / "left_out.tsv").read_text(encoding="utf-8")
    assert "p1-1.flac" in listed
    assert "p2-1.flac" in listed
    assert (len(corpus.left_out), corpus.num_found) == (2, 4)


def test_corpus_is_written_again_as_it_grows_and_shrinks(tmp_path):
    assert set(corpus_of(tmp_path, ["a"], 1).manifests) == {"train"}
    assert set(corpus_of(tmp_path, ["a"], 30).manifests) == {"train", "dev", "test"}
    with open_takes(tmp_path, None) as takes:
        for take in takes.all():
            takes.drop(take.speaker, take.prompt)
        assert write_corpus(takes).manifests == {}
    assert not list(tmp_path.glob("t*t.jsonl"))
