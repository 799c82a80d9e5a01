import csv
import json
from pathlib import Path

import pytest
from asr.transcription.transcripts import audio_files, write_transcripts

from asr.base.errors import UserError
from asr.base.types import Hypothesis

HYPOTHESIS = Hypothesis("a.wav", ("ni3", "hao3"), "ni3 hao3", -1.5, (0.1, 0.4))
FAILED = UserError("b.wav: empty file")


def written(tmp_path, format_name, results):
    out = tmp_path / "out"
    write_transcripts(
        out, format_name, [Path(name) for name, _ in results], [result for _, result in results]
    )
    return out.read_text(encoding="utf-8")


def test_folders_are_replaced_by_their_audio_files_in_order_and_other_files_are_counted(tmp_path, caplog):
    caplog.set_level("INFO")
    (tmp_path / "deep").mkdir()
    for name in ("b.WAV", "a.mp3", "deep/c.flac", "notes.txt", "d.m4a"):
        (tmp_path / name).touch()
    found = audio_files([str(tmp_path), "x.wav", "-"])
    assert [p.name for p in found] == ["a.mp3", "b.WAV", "c.flac", "x.wav", "-"]
    assert "2 files" in caplog.text
    assert ".m4a, .txt" in caplog.text


def test_a_file_name_that_is_not_utf_8_is_escaped(tmp_path):
    name = b"bad\xff.wav".decode(errors="surrogateescape")
    assert r"bad\udcff.wav" in written(tmp_path, "jsonl", [(name, HYPOTHESIS)])


def test_a_folder_without_audio_is_an_error(tmp_path):
    with pytest.raises(UserError, match="no audio file"):
        audio_files([str(tmp_path)])


def test_text_of_one_file_has_no_file_name(tmp_path):
    assert written(tmp_path, "text", [("a.wav", HYPOTHESIS)]) == "ni3 hao3\n"


def test_text_of_several_files_begins_with_their_names(tmp_path):
    assert written(tmp_path, "text", [("a.wav", HYPOTHESIS), ("b.wav", FAILED)]) == "a.wav\tni3 hao3\n"


def test_json_lines_have_times_and_errors(tmp_path):
    lines = written(tmp_path, "jsonl", [("a.wav", HYPOTHESIS), ("b.wav", FAILED)]).splitlines()
    transcribed, failed = map(json.loads, lines)
    assert transcribed["tokens"] == ["ni3", "hao3"]
    assert transcribed["times_s"] == [0.1, 0.4]
    assert failed == {"file": "b.wav", "error": "b.wav: empty file"}


def test_csv_quotes_names_with_commas(tmp_path):
    rows = list(
        csv.DictReader(written(tmp_path, "csv", [("a,b.wav", HYPOTHESIS), ("b.wav", FAILED)]).splitlines())
    )
    assert [row["file"] for row in rows] == ["a,b.wav", "b.wav"]
    assert rows[0]["text"] == "ni3 hao3"
    assert rows[1]["error"] == "b.wav: empty file"


def test_an_output_that_cannot_be_written_is_an_error(tmp_path):
    with pytest.raises(UserError, match="cannot write"):
        write_transcripts(tmp_path, "text", [Path("a.wav")], [HYPOTHESIS])
