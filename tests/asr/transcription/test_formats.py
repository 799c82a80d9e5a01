"""Test TextGrid with praatio, SRT by its definition, WebVTT, JSON, tables, and lists of transcripts."""

import csv
import itertools
import json
import re
from pathlib import Path

import pytest
import webvtt
from helpers.transcripts import transcript_of
from praatio import textgrid as praat

from asr.base.errors import UserError
from asr.transcription.files import write_list
from asr.transcription.formats import format_words, subtitle_lines
from asr.transcription.transcript import Token, Word

SRT_BLOCK = re.compile(
    r"(\d+)\n(\d\d):(\d\d):(\d\d),(\d\d\d) --> (\d\d):(\d\d):(\d\d),(\d\d\d)\n([^\n]+)\n(?:\n|\Z)"
)


def word(token, start_s, end_s, confidence=1.0, text=""):
    """Return a token with the text that is written for it, as an alignment does."""
    bare = text.rstrip()
    return Word(bare, (Token(token, start_s, end_s, confidence),), text[len(bare) :])


GREETING = [
    word("ni3", 0.5, 0.75, 0.9, "“你"),
    word("hao3", 0.75, 1.0, 0.8, "好，”"),
    word("shi4", 1.4, 1.6, 0.7, "世"),
    word("jie4", 1.6, 2.0, 0.6, "界。"),
]


def spoken(text, token_s=0.2, pause_after=()):
    """Return a token for each character; punctuation belongs to the one before it."""
    tokens, now_s = [], 0.0
    for match in re.finditer(r"\w[^\w]*", text):
        tokens.append(word("a1", now_s, now_s + token_s, 1.0, match[0]))
        now_s += token_s + (1.0 if match.start() in pause_after else 0.0)
    return tokens


def lines_of(tokens):
    return ["".join(one.text + one.gap for one in line) for line in subtitle_lines(tokens)]


def read_back(tmp_path, tokens, duration_s, tier="syllables"):
    path = tmp_path / "a.TextGrid"
    path.write_text(format_words(tokens, duration_s, "textgrid", tier), "utf-8")
    return praat.openTextgrid(str(path), includeEmptyIntervals=True, reportingMode="error")


def seconds(hours, minutes, seconds, ms):
    return int(hours) * 3600 + int(minutes) * 60 + int(seconds) + int(ms) / 1000


def test_a_textgrid_reads_back_and_covers_the_recording(tmp_path):
    grid = read_back(tmp_path, GREETING, 2.5)
    assert grid.tierNames == ("syllables", "characters", "lines")
    assert (grid.minTimestamp, grid.maxTimestamp) == (0.0, 2.5)
    for name in grid.tierNames:
        entries = grid.getTier(name).entries
        assert entries[0].start == 0.0
        assert entries[-1].end == 2.5
        assert all(a.end == b.start for a, b in itertools.pairwise(entries))
    syllables = [tuple(entry) for entry in grid.getTier("syllables").entries]
    assert syllables[:3] == [(0.0, 0.5, ""), (0.5, 0.75, "ni3"), (0.75, 1.0, "hao3")]
    assert syllables[3] == (1.0, 1.4, "")
    assert [entry.label for entry in grid.getTier("characters").entries if entry.label] == list("你好世界")
    assert [entry.label for entry in grid.getTier("lines").entries if entry.label] == ["“你好，”世界。"]


def test_words_separated_by_spaces_have_a_tier(tmp_path):
    texts = ["你", "好 ", "世", "界！"]
    tokens = [word("a1", i * 0.2, i * 0.2 + 0.2, 1.0, text) for i, text in enumerate(texts)]
    grid = read_back(tmp_path, tokens, 1.0)
    assert [entry.label for entry in grid.getTier("words").entries] == ["你好", "世界", ""]


def test_a_text_that_equals_its_tokens_has_no_second_tier(tmp_path):
    tokens = [word("ni3", 0.0, 0.4, 1.0, "ni3 "), word("hao3", 0.4, 0.8, 1.0, "hao3")]
    grid = read_back(tmp_path, tokens, 1.0)
    assert grid.tierNames == ("syllables", "lines")
    assert grid.getTier("lines").entries[0].label == "ni3 hao3"


def test_quotation_marks_in_a_label_are_escaped(tmp_path):
    grid = read_back(tmp_path, [word('a"b', 0.1, 0.2, 1.0)], 1.0, tier="words")
    assert grid.getTier("words").entries[1].label == 'a"b'
    assert 'text = "a""b"' in (tmp_path / "a.TextGrid").read_text(encoding="utf-8")


def test_srt_is_numbered_timed_and_in_order():
    tokens = spoken("今天天气很好。我们去公园吧！好的，走吧。" * 300, token_s=1.01)
    contents = format_words(tokens, 1e4, "srt", "syllables")
    blocks = SRT_BLOCK.findall(contents)
    assert SRT_BLOCK.sub("", contents) == ""
    assert [int(block[0]) for block in blocks] == list(range(1, len(blocks) + 1))
    times = [(seconds(*block[1:5]), seconds(*block[5:9])) for block in blocks]
    assert all(start < end for start, end in times)
    assert all(a[1] <= b[0] for a, b in itertools.pairwise(times))
    assert times[-1][1] == pytest.approx(tokens[-1].end_s, abs=1e-3)
    assert times[-1][1] > 3600
    assert "".join(block[9] for block in blocks) == "".join(one.text for one in tokens)


def test_markup_in_webvtt_is_escaped():
    tokens = [word("a", 0.0, 0.4, 1.0, "<b>AT&T-->")]
    (caption,) = webvtt.from_string(format_words(tokens, 1.0, "vtt", "words"))
    assert caption.raw_text == "&lt;b&gt;AT&amp;T--&gt;"
    assert "<b>AT&T-->" in format_words(tokens, 1.0, "srt", "words")


def test_a_subtitle_ends_with_a_sentence_or_a_pause():
    assert lines_of(spoken("今天很好。我们走吧！")) == ["今天很好。", "我们走吧！"]
    assert lines_of(spoken("今天很好我们走吧", pause_after=(3,))) == ["今天很好", "我们走吧"]
    assert lines_of(spoken("第一行\n第二行")) == ["第一行\n", "第二行"]
    assert lines_of(spoken("今天很好，我们走吧。")) == ["今天很好，我们走吧。"]


def test_subtitles_are_limited_in_width_and_duration():
    lines = lines_of(spoken("一" * 50))
    assert list(map(len, lines)) == [20, 20, 10]
    assert list(map(len, lines_of(spoken("一" * 20, token_s=1.0)))) == [7, 7, 6]
    assert lines_of(spoken("一二三四五六七八九十，一二三四五六七八九十。")) == [
        "一二三四五六七八九十，",
        "一二三四五六七八九十。",
    ]


def test_a_subtitle_never_breaks_inside_a_word_of_letters():
    words = "the quick brown fox jumps over the lazy dogs and keeps running"
    tokens = [word(m[0].strip(), i * 0.05, i * 0.05 + 0.05, 1.0, m[0]) for i, m in
              enumerate(re.finditer(r"\w\s*", words))]  # fmt: skip
    lines = lines_of(tokens)
    assert len(lines) == 2
    assert all(word in words.split() for line in lines for word in line.split())
    assert "".join(lines) == words


def test_json_has_every_field_of_a_token():
    document = json.loads(format_words(GREETING, 2.5, "json", "syllables"))
    assert document["duration_s"] == 2.5
    assert document["unit"] == "syllables"
    expected = {"token": "ni3", "text": "“你", "start_s": 0.5, "end_s": 0.75, "confidence": 0.9}
    assert document["tokens"][0] == expected
    assert len(document["tokens"]) == 4


def test_the_table_has_a_row_for_each_token():
    rows = [row.split("\t") for row in format_words(GREETING, 2.5, "table", "syllables").splitlines()]
    assert rows[0] == ["start_s", "end_s", "token", "text", "confidence"]
    assert rows[2] == ["0.750", "1.000", "hao3", "好", "0.800"]


TRANSCRIPT = transcript_of(("ni3", "hao3"), "ni3 hao3", score=-1.5, times_s=(0.1, 0.4))
FAILED = UserError("b.wav: empty file")


def written(tmp_path, format_name, results):
    """Return the contents of a list of (name, transcript or error)."""
    out = tmp_path / "out"
    rows = [(Path(name), result) for name, result in results]
    write_list(out, format_name, rows, with_names=len(rows) > 1)
    return out.read_text(encoding="utf-8")


def test_a_file_name_that_is_not_utf_8_is_escaped(tmp_path):
    name = b"bad\xff.wav".decode(errors="surrogateescape")
    assert r"bad\udcff.wav" in written(tmp_path, "jsonl", [(name, TRANSCRIPT)])


def test_text_of_one_file_has_no_file_name(tmp_path):
    assert written(tmp_path, "text", [("a.wav", TRANSCRIPT)]) == "ni3 hao3\n"


def test_text_of_several_files_begins_with_their_names(tmp_path):
    assert written(tmp_path, "text", [("a.wav", TRANSCRIPT), ("b.wav", FAILED)]) == "a.wav\tni3 hao3\n"


def test_json_lines_have_times_and_errors(tmp_path):
    lines = written(tmp_path, "jsonl", [("a.wav", TRANSCRIPT), ("b.wav", FAILED)]).splitlines()
    transcribed, failed = map(json.loads, lines)
    assert transcribed["tokens"] == ["ni3", "hao3"]
    assert transcribed["times_s"] == [0.1, 0.4]
    assert failed == {"file": "b.wav", "error": "b.wav: empty file"}


def test_csv_quotes_names_with_commas(tmp_path):
    rows = list(
        csv.DictReader(written(tmp_path, "csv", [("a,b.wav", TRANSCRIPT), ("b.wav", FAILED)]).splitlines())
    )
    assert [row["file"] for row in rows] == ["a,b.wav", "b.wav"]
    assert rows[0]["text"] == "ni3 hao3"
    assert rows[1]["error"] == "b.wav: empty file"


def test_an_output_that_cannot_be_written_is_an_error(tmp_path):
    with pytest.raises(UserError, match="cannot write"):
        write_list(tmp_path, "text", [(Path("a.wav"), TRANSCRIPT)], with_names=False)
