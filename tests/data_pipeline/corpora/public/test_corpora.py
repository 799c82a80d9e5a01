from pathlib import Path

import numpy as np
import pytest
import soundfile

from asr.audio.recording import read_audio
from asr.base.errors import UserError
from data_pipeline.corpora import CORPORA
from data_pipeline.corpora.public.digits import TEST_SPEAKER, WORDS
from data_pipeline.corpora.public.hsk_words import split_of
from data_pipeline.manifests.manifest import read_manifest
from data_pipeline.preparation.prepare import prepare_corpus


@pytest.fixture(scope="session")
def demo_manifests(tmp_path_factory):
    return prepare_corpus("mandarin_demo", "", tmp_path_factory.mktemp("demo")).manifests


@pytest.fixture(scope="session")
def demo(demo_manifests):
    return {split: read_manifest(path) for split, path in demo_manifests.items()}


def test_demo_corpus_is_unpacked_to_16_khz_wav_files(demo):
    assert {split: len(utterances) for split, utterances in demo.items()} == {
        "train": 1700,
        "dev": 100,
        "test": 200,
    }
    first = demo["test"][0]
    info = soundfile.info(first.audio_path)
    assert (info.samplerate, info.channels, info.subtype) == (16000, 1, "PCM_16")
    assert info.duration == pytest.approx(first.duration_s, abs=1e-4)
    assert np.abs(read_audio(first.audio_path)).max() > 1000


@pytest.mark.parametrize("attribute", ["speaker", "text"])
def test_demo_splits_share_no_speaker_and_no_text(demo, attribute):
    seen = [{getattr(u, attribute) for u in utterances} for utterances in demo.values()]
    assert not seen[0] & seen[1]
    assert not seen[0] & seen[2]
    assert not seen[1] & seen[2]


def test_prepared_corpus_is_reused(demo_manifests):
    target = demo_manifests["train"].parent
    before = {path: path.stat().st_mtime_ns for path in target.rglob("*")}
    assert len(before) > 2000
    assert prepare_corpus("mandarin_demo", "", target).manifests == demo_manifests
    assert {path: path.stat().st_mtime_ns for path in target.rglob("*")} == before


def test_hsk_words_are_labelled_and_bad_files_are_left_out(tmp_path):
    source = tmp_path / "source" / "audio"
    source.mkdir(parents=True)
    words = ["银行", "长大", "绿色", "妈妈", "苹果", "老师", "学生", "再见"]
    by_split = {
        split: next(w for w in map(chr, range(0x4E00, 0x6000)) if split_of(w) == split)
        for split in ("dev", "test")
    }
    for word in (*words, *by_split.values()):
        wave = np.random.default_rng(0).normal(0, 0.1, 22050)
        soundfile.write(source / f"cmn-{word}.mp3", wave, 22050)
    (source / "cmn-坏.mp3").write_bytes(b"")
    (source / "cmn-OK.mp3").write_bytes((source / "cmn-妈妈.mp3").read_bytes())
    prepared = prepare_corpus("hsk_words", str(source.parent), tmp_path / "out")
    splits = {split: read_manifest(path) for split, path in prepared.manifests.items()}
    assert {u.text for u in splits["dev"]} == {by_split["dev"]} | {w for w in words if split_of(w) == "dev"}
    assert {u.text for utterances in splits.values() for u in utterances} == {*words, *by_split.values()}
    train = {u.text: u for u in splits["train"]}
    assert train["银行"].tokens == ("yin2", "hang2")
    assert soundfile.info(train["银行"].audio_path).samplerate == 16000
    assert (len(prepared.left_out), prepared.num_found) == (2, 12)
    summary = "\n".join(prepared.lines())
    assert "left out: 2 of 12" in summary
    assert "empty file" in summary
    assert "found Latin letters" in summary


def test_hsk_words_in_two_folders_raise(tmp_path):
    for quality in ("18k-abr", "64k"):
        (tmp_path / quality).mkdir()
        (tmp_path / quality / "cmn-一.mp3").touch()
    with pytest.raises(UserError, match=r"in 2 folders .*18k-abr, .*64k"):
        prepare_corpus("hsk_words", str(tmp_path), tmp_path / "out")


def test_hsk_word_splits_have_their_shares():
    words = [chr(code) for code in range(0x4E00, 0x4E00 + 5000)]
    shares = {split: sum(split_of(w) == split for w in words) / 5000 for split in ("train", "dev", "test")}
    assert shares["test"] == pytest.approx(0.06, abs=0.015)
    assert shares["dev"] == pytest.approx(0.03, abs=0.01)


NUM_STRINGS = {"train": 400, "dev": 200, "test": 30}  # fewer than the corpus has, to be quick


@pytest.fixture(scope="session")
def digits(tmp_path_factory):
    root = tmp_path_factory.mktemp("digits")
    (root / "source").mkdir()
    lengths = {}
    for speaker in ("anna", "bert", TEST_SPEAKER):
        for digit in range(10):
            for index in (0, 7):
                level = 0.02 * (digit + 1)
                wave = level * np.sin(2 * np.pi * 300 * np.arange(2000) / 8000)
                wave[:480] /= 10 ** (30 / 20)  # a quiet consonant of 60 ms
                soundfile.write(root / "source" / f"{digit}_{speaker}_{index}.wav", wave, 8000)
                lengths[speaker] = 4000  # at 16 kHz
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("data_pipeline.corpora.public.digits.NUM_STRINGS", NUM_STRINGS)
        manifests = prepare_corpus("digits", str(root / "source"), root / "out").manifests
        assert prepare_corpus("digits", str(root / "source"), root / "out").manifests == manifests
    return {split: read_manifest(path) for split, path in manifests.items()}


def test_digit_strings_contain_the_digits_of_their_labels(digits):
    num_read = 0
    for utterance in digits["dev"]:
        wave = np.abs(read_audio(utterance.audio_path).astype(float))
        loud = np.convolve(wave, np.ones(400) / 400, "same") > 100
        pieces = np.flatnonzero(np.diff(np.concatenate([[0], loud.astype(int), [0]]))).reshape(-1, 2)
        if len(pieces) != len(utterance.tokens):
            continue  # a gap was too short to be detected
        # in this corpus a digit is as loud as it is large
        levels = [wave[begin + 600 : end - 600].max() / 32768 / 0.02 for begin, end in pieces]
        assert tuple(WORDS[round(level) - 1] for level in levels) == utterance.tokens
        num_read += 1
    assert num_read > 50


def test_digits_of_train_alone_are_cut_at_random_levels(digits):
    whole_s, without_consonant_s = 0.25, 0.19
    for split in ("train", "dev", "test"):
        lengths_s = []
        for utterance in digits[split]:
            if len(utterance.tokens) == 1 and WORDS.index(utterance.tokens[0]) >= 5:  # louder than the gaps
                wave = np.abs(read_audio(utterance.audio_path).astype(float))
                audible = np.flatnonzero(np.convolve(wave, np.ones(160) / 160, "same") > 20)
                lengths_s.append((audible[-1] - audible[0]) / 16000)
        kinds = {min(whole_s, without_consonant_s, key=lambda kind: abs(kind - s)) for s in lengths_s}
        assert kinds == ({whole_s, without_consonant_s} if split == "train" else {whole_s})
        assert all(min(abs(whole_s - s), abs(without_consonant_s - s)) < 0.03 for s in lengths_s)


def test_preparing_another_source_into_the_same_target_raises(digits, tmp_path):
    target = Path(digits["dev"][0].audio_path).parent.parent
    with pytest.raises(UserError, match=r"prepared with source .*; remove this folder"):
        prepare_corpus("digits", str(tmp_path), target)


def test_digits_test_speaker_is_not_in_train_or_dev(digits):
    assert {u.speaker for u in digits["test"]} == {TEST_SPEAKER}
    assert {u.speaker for u in digits["train"]} == {u.speaker for u in digits["dev"]} == {"anna", "bert"}
    assert {split: len(utterances) for split, utterances in digits.items()} == NUM_STRINGS
    assert {len(u.tokens) for u in digits["train"]} == set(range(1, 8))


@pytest.mark.parametrize("name", [name for name, corpus in CORPORA.items() if corpus.needs_source])
def test_preparing_a_missing_or_empty_folder_raises(name, tmp_path):
    with pytest.raises(UserError, match="no folder"):
        prepare_corpus(name, str(tmp_path / "none"), tmp_path / "out")
    with pytest.raises(UserError, match=r"below this folder"):
        prepare_corpus(name, str(tmp_path), tmp_path / "out")
