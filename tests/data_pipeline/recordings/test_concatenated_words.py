"""Words of a speaker become strings, in which every word occurs once."""

import collections
import dataclasses
from pathlib import Path

import numpy as np
import pytest
import soundfile

from asr.audio.recording import read_audio
from asr.base.errors import UserError
from asr.base.types import Utterance
from data_pipeline.manifests.manifest import read_manifest
from data_pipeline.preparation.combined_corpora import parts_of, prepare_joint
from data_pipeline.recordings.concatenated_words import (
    MAX_PAUSE_S,
    MAX_STRING_S,
    cut_at_silence,
    joined_utterances,
)

SYLLABLES = ("ba1", "ma3", "ti4", "wo3")


@pytest.fixture
def words(tmp_path):
    """Return 80 words of two speakers, each a tone as loud as its syllable's place, amid silence."""
    found = []
    for number in range(80):
        token = number % len(SYLLABLES)
        tone = 2000 * (token + 1) * np.sin(2 * np.pi * 400 * np.arange(4800) / 16000)
        silence = np.zeros(1600)
        path = tmp_path / f"{number}.wav"
        soundfile.write(path, np.concatenate([silence, tone, silence]).astype(np.int16), 16000)
        speaker = "ab"[number // 40]
        found.append(Utterance(f"w{number}", str(path), 0.5, "", (SYLLABLES[token],), speaker, "words"))
    return found


def test_every_word_is_in_one_string_of_its_speaker(words, tmp_path):
    strings = joined_utterances(words, tmp_path / "strings")
    counts = collections.Counter((u.speaker, token) for u in strings for token in u.tokens)
    assert counts == {(speaker, token): 10 for speaker in "ab" for token in SYLLABLES}
    assert {u.corpus for u in strings} == {"words"}
    assert len({u.id for u in strings}) == len(strings) < 40
    assert 3 < max(u.duration_s for u in strings) < MAX_STRING_S + 1
    lengths = [len(u.tokens) for u in strings]
    assert len(set(lengths)) > 4


@pytest.mark.parametrize(
    ("labels", "separated"),
    [(("n i n e", "s i x"), True), (("你 好", "谢 谢"), False), (("a1", "b2"), False)],
)
def test_words_of_letters_are_separated_in_a_string(words, tmp_path, labels, separated):
    labelled = [
        dataclasses.replace(word, tokens=tuple(labels[number % 2].split()))
        for number, word in enumerate(words)
    ]
    for string in joined_utterances(labelled, tmp_path / "strings"):
        boundaries = " ".join(string.tokens).count("▁")
        assert boundaries == (int(string.id.partition("+")[2] or 0) if separated else 0)


def test_strings_contain_the_words_of_their_labels_without_their_silence(words, tmp_path):
    num_read = 0
    for string in joined_utterances(words, tmp_path / "strings"):
        if len(string.tokens) == 1:
            continue
        wave = read_audio(Path(string.audio_path)).astype(float)
        assert len(wave) / 16000 == pytest.approx(string.duration_s)
        num_words = len(string.tokens)
        assert string.duration_s < 0.31 * num_words + MAX_PAUSE_S * (num_words - 1)
        tone = np.convolve(np.abs(wave), np.ones(160) / 160, "same") > 300
        assert np.sum(tone) / 16000 == pytest.approx(0.3 * len(string.tokens), rel=0.06)
        levels = wave[tone].reshape(-1)
        parts = np.array_split(levels, len(string.tokens))
        found = [SYLLABLES[round(part[len(part) // 4 : -len(part) // 4].max() / 2000) - 1] for part in parts]
        assert tuple(found) == string.tokens
        num_read += 1
    assert num_read > 10


def test_strings_are_kept_and_others_removed(words, tmp_path):
    folder = tmp_path / "strings"
    before = joined_utterances(words, folder)
    states = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    (folder / ".0badcafe.wav").write_bytes(b"RIFF")  # as a killed process leaves one
    assert joined_utterances(words, folder) == before
    assert {path: path.stat().st_mtime_ns for path in folder.iterdir()} == states
    fewer = joined_utterances(words[:40], folder)
    assert {u.audio_path for u in fewer if "+" in u.id} == set(map(str, folder.iterdir()))
    assert all(u in before for u in fewer)


def test_silence_is_cut_to_a_random_level():
    steps = np.repeat([10, 100, 1000, 10000, 1000, 100, 10], 1600)
    wave = (steps * np.sin(2 * np.pi * 400 * np.arange(len(steps)) / 16000)).astype(np.int16)
    rng = np.random.default_rng(1)
    lengths = {round(len(cut_at_silence(wave, (10.0, 50.0), rng)) / 1600) for _ in range(30)}
    assert lengths == {1, 2, 3, 4, 5}
    assert len(cut_at_silence(np.zeros(800, np.int16), (10.0, 50.0), rng)) == 800
    assert len(cut_at_silence(np.ones(100, np.int16), (10.0, 50.0), rng)) == 100


def test_strings_of_a_corpus_leave_its_dev_set_and_held_out_speakers_alone(tmp_path):
    rows = ["path,text,speaker,split"]
    rng = np.random.default_rng(1)
    for number in range(30):
        soundfile.write(tmp_path / f"{number}.wav", rng.normal(0, 0.1, 8000), 16000)
        split = ("train", "train", "train", "dev", "test")[number % 5]
        rows.append(f"{number}.wav,今天,{'abc'[number % 3]},{split}")
    (tmp_path / "list.csv").write_text("\n".join(rows), encoding="utf-8")
    parts = parts_of("mine=table", str(tmp_path / "list.csv"))
    words = prepare_joint(parts, tmp_path / "data", held_out_speakers="c")
    joint = prepare_joint(parts, tmp_path / "data", held_out_speakers="c", strings="mine")
    assert joint.folder.name == "mine-without-c-strings-mine"
    for split in ("dev", "test"):
        assert read_manifest(joint.manifests[split]) == read_manifest(words.manifests[split])
    train = read_manifest(joint.manifests["train"])
    assert {u.speaker for u in train} == {"mine-a", "mine-b"}
    single = read_manifest(words.manifests["train"])
    assert sum(len(u.tokens) for u in train) == sum(len(u.tokens) for u in single) > 2 * len(train)
    assert prepare_joint(parts, tmp_path / "data").manifests["train"].parent.name == "mine"


def test_strings_of_an_unknown_corpus_are_refused(tmp_path):
    with pytest.raises(UserError, match=r"data\.strings: min is not among the corpora mine.*mine"):
        prepare_joint(parts_of("mine=table", "list.csv"), tmp_path, strings="min")
