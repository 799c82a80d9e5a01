"""Test `asr align` on clips and a run of two epochs: its output, and its errors."""

import json
import re

import numpy as np
import pytest
from praatio import textgrid as praat

from asr.audio.recording import SAMPLE_RATE_HZ, read_audio, write_wav
from asr.base.errors import UserError
from asr.base.vocabulary import Vocabulary
from asr.cli.main import main
from asr.transcription.recognizer import Recognizer
from data_pipeline.labels.aligned_text import text_of, written_tokens


@pytest.fixture(scope="module")
def recognizer(trained_run):
    return Recognizer.load(trained_run, write_hanzi=False)


@pytest.fixture
def loaded(recognizer, monkeypatch):
    """Replace the loading of the model, which takes seconds."""
    monkeypatch.setattr(Recognizer, "load", lambda *_, **__: recognizer)


def align(run, *arguments):
    return main(["align", str(run), *map(str, arguments)])


def test_align_writes_the_format_of_the_suffix(trained_run, clips, tmp_path, capsys):
    """Pass the text as a file."""
    clip = clips[0]
    text = tmp_path / "said.txt"
    text.write_text(" ".join(clip.tokens), encoding="utf-8")
    outs = [tmp_path / name for name in ("a.TextGrid", "a.srt", "a.json", "a.tsv")]
    assert align(trained_run, clip.audio_path, text, "--out", *outs) == 0
    assert capsys.readouterr().out == ""
    grid = praat.openTextgrid(str(outs[0]), includeEmptyIntervals=True, reportingMode="error")
    labels = [entry.label for entry in grid.getTier("syllables").entries if entry.label]
    document = json.loads(outs[2].read_text(encoding="utf-8"))
    tokens = [token["token"] for token in document["tokens"]]
    assert tuple(labels) == tuple(tokens) == clip.tokens
    assert grid.maxTimestamp == pytest.approx(clip.duration_s, abs=1e-3) == document["duration_s"]
    assert re.match(r"1\n00:00:0\d,\d{3} --> 00:00:0\d,\d{3}\n", outs[1].read_text(encoding="utf-8"))
    assert len(outs[3].read_text(encoding="utf-8").splitlines()) == 1 + len(clip.tokens)


def test_align_prints_a_table_by_default(trained_run, clips, loaded, capsys):
    clip = clips[0]
    assert align(trained_run, clip.audio_path, " ".join(clip.tokens)) == 0
    rows = [row.split("\t") for row in capsys.readouterr().out.splitlines()]
    assert [row[2] for row in rows[1:]] == list(clip.tokens)
    assert all(0 <= float(row[0]) < float(row[1]) <= clip.duration_s + 0.0005 for row in rows[1:])


def test_aligned_hanzi_keep_their_syllables(trained_run, clips, loaded, recognizer, capsys):
    clip = next(c for c in clips if c.tokens == labelled(c.text, recognizer))
    assert align(trained_run, clip.audio_path, clip.text, "--format", "json") == 0
    tokens = json.loads(capsys.readouterr().out)["tokens"]
    assert tuple(token["token"] for token in tokens) == clip.tokens
    assert "".join(token["text"] for token in tokens) == clip.text


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "gb18030"])
def test_text_file_is_read_in_any_common_encoding(
    encoding, trained_run, clips, loaded, recognizer, tmp_path, capsys
):
    clip = next(c for c in clips if c.tokens == labelled(c.text, recognizer))
    (tmp_path / "text.txt").write_bytes(f"{clip.text}\r\n".encode(encoding))
    outputs = []
    for text in (clip.text, tmp_path / "text.txt"):
        assert align(trained_run, clip.audio_path, text) == 0
        outputs.append(capsys.readouterr().out)
    assert outputs[0] == outputs[1]


def labelled(text, recognizer):
    try:
        return tuple(token.token for token in written_tokens(text, recognizer.vocabulary))
    except UserError:
        return ()


def test_long_recording_is_aligned_with_its_whole_text(trained_run, clips, loaded, tmp_path, capsys):
    """Align a recording that is longer than a window."""
    parts = [read_audio(clip.audio_path) for clip in clips] * 5
    write_wav(tmp_path / "long.wav", np.concatenate(parts))
    tokens = [token for clip in clips for token in clip.tokens] * 5
    assert sum(map(len, parts)) > 45 * SAMPLE_RATE_HZ
    assert align(trained_run, tmp_path / "long.wav", " ".join(tokens)) == 0
    rows = [row.split("\t") for row in capsys.readouterr().out.splitlines()[1:]]
    assert [row[2] for row in rows] == tokens
    starts = [float(row[0]) for row in rows]
    assert starts == sorted(starts)


def test_text_that_does_not_match_the_recording_is_reported(trained_run, clips, loaded, capsys):
    clip, other = clips[0], clips[5]
    assert align(trained_run, clip.audio_path, " ".join(other.tokens[::-1])) == 0
    assert f"warning: {clip.audio_path}: " in capsys.readouterr().err


def test_align_errors_are_one_line(trained_run, clips, loaded, tmp_path, capsys):
    audio, tokens = clips[0].audio_path, " ".join(clips[0].tokens)
    silence = tmp_path / "silence.wav"
    write_wav(silence, np.zeros(SAMPLE_RATE_HZ, np.int16))
    empty = tmp_path / "empty.txt"
    empty.write_text("\n \n")
    missing = tmp_path / "missing.wav"
    said = tmp_path / "said.txt"
    said.write_text(tokens, encoding="utf-8")
    for arguments, expected in (
        ((missing, tokens), "missing.wav: cannot read"),
        ((silence, tokens), "silence.wav: the recording is silent"),
        ((audio, ""), "TEXT: empty"),
        ((audio, empty), "empty.txt: empty"),
        ((audio, "。。！"), "no spoken text"),
        ((audio, tmp_path / "missing.txt"), "missing.txt: no such file"),
        ((audio, "文本.txt"), "文本.txt: no such file"),
        ((audio, "字幕.SRT"), "字幕.SRT: no such file"),
        ((audio, tmp_path / "文本.json"), "文本.json: no such file"),
        ((audio, tmp_path), f"{tmp_path}: is a folder; give the text itself"),
        ((audio, "龘龘"), "龘"),
        ((audio, "2019"), "digits"),
        ((audio, "zhuang4 cuo4bie2"), "cuo4bie2"),
        ((audio, " ".join([tokens] * 50)), "frames"),
        ((audio, tokens, "--out", tmp_path / "a.docx"), ".TextGrid, .srt, .vtt, .json"),
        ((audio, tokens, "--out", audio, "--format", "srt"), "the recording itself"),
        ((audio, said, "--out", said, "--format", "srt"), "the text itself"),
        ((audio, tokens, "--out", tmp_path, "--format", "srt"), "expected a file"),
    ):
        assert align(trained_run, *arguments) == 2, arguments
        error = capsys.readouterr().err.strip()
        assert error.splitlines()[-1].startswith("error: "), arguments
        assert expected in error
        assert "Traceback" not in error


def test_format_option_applies_to_files_with_other_suffixes(trained_run, clips, loaded, tmp_path):
    clip = clips[0]
    tokens = " ".join(clip.tokens)
    assert align(trained_run, clip.audio_path, tokens, "--out", tmp_path / "a.sub", "--format", "srt") == 0
    assert " --> " in (tmp_path / "a.sub").read_text(encoding="utf-8")


CHARACTERS = Vocabulary("helowrd▁你好")
WORDS = Vocabulary(["hello", "world", "don't"])
SYLLABLES = Vocabulary(["ta1", "shuo1", "ni3", "hao3", "qu4", "yin2", "hang2", "wo3"])


@pytest.mark.parametrize(
    ("text", "vocabulary", "tokens", "texts"),
    [
        ("他说：“你好！”\n我去《银行》", SYLLABLES, "ta1 shuo1 ni3 hao3 wo3 qu4 yin2 hang2",
         ["他", "说：", "“你", "好！", "我", "去", "《银", "行》"]),
        ("ni3 hao3\nwo3", SYLLABLES, "ni3 hao3 wo3", ["ni3 ", "hao3\n", "wo3"]),
        ("Hello. World 你好", CHARACTERS, "h e l l o ▁ w o r l d 你 好",
         [*"Hell", "o", ". ", *"Worl", "d ", "你", "好"]),
        ("Hello, ＤＯＮ’Ｔ (world)!", WORDS, "hello don't world", ["Hello, ", "ＤＯＮ’Ｔ ", "(world)!"]),
    ],
)  # fmt: skip
def test_each_token_keeps_its_written_form(text, vocabulary, tokens, texts):
    written = written_tokens(text, vocabulary)
    assert [token.token for token in written] == tokens.split()
    assert [token.text for token in written] == texts


def test_slash_between_words_is_text():
    assert text_of("he/she said 1/2") == "he/she said 1/2"


def test_error_quotes_only_the_beginning_of_a_long_text(tmp_path):
    path = tmp_path / "book.txt"
    path.write_text("你好" * 20000 + "B" + "你好" * 20000, encoding="utf-8")
    with pytest.raises(UserError, match="Latin letters") as raised:
        written_tokens(text_of(str(path)), SYLLABLES)
    assert len(str(raised.value)) < 400
