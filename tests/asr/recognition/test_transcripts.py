import csv
import json
from pathlib import Path

import pytest

from asr.base.types import Hypothesis, UserError
from asr.recognition.transcripts import audio_files, write_transcripts

HEARD = Hypothesis("a.wav", ("ni3", "hao3"), "ni3 hao3", -1.5, (0.1, 0.4))
FAILED = UserError("b.wav: empty file")


def written(tmp_path, format_name, results):
    out = tmp_path / "out"
    write_transcripts(
        out, format_name, [Path(name) for name, _ in results], [result for _, result in results]
    )
    return out.read_text(encoding="utf-8")


def test_folders_give_the_audio_below_them_in_order_and_count_the_rest(tmp_path, capsys):
    (tmp_path / "deep").mkdir()
    for name in ("b.WAV", "a.mp3", "deep/c.flac", "notes.txt", "d.m4a"):
        (tmp_path / name).touch()
    found = audio_files([str(tmp_path), "x.wav", "-"])
    assert [p.name for p in found] == ["a.mp3", "b.WAV", "c.flac", "x.wav", "-"]
    assert "2 files are no audio by their names: .m4a, .txt" in capsys.readouterr().err


def test_a_name_that_is_no_utf_8_is_written_all_the_same(tmp_path):
    name = b"bad\xff.wav".decode(errors="surrogateescape")
    assert r"bad\udcff.wav" in written(tmp_path, "jsonl", [(name, HEARD)])


def test_a_folder_without_audio_is_named(tmp_path):
    with pytest.raises(UserError, match="no audio file below this folder"):
        audio_files([str(tmp_path)])


def test_text_of_one_file_is_the_text_alone(tmp_path):
    assert written(tmp_path, "text", [("a.wav", HEARD)]) == "ni3 hao3\n"


def test_text_of_several_files_names_them(tmp_path):
    assert written(tmp_path, "text", [("a.wav", HEARD), ("b.wav", FAILED)]) == "a.wav\tni3 hao3\n"


def test_json_lines_hold_times_and_errors(tmp_path):
    lines = written(tmp_path, "jsonl", [("a.wav", HEARD), ("b.wav", FAILED)]).splitlines()
    heard, failed = map(json.loads, lines)
    assert heard["tokens"] == ["ni3", "hao3"]
    assert heard["times_s"] == [0.1, 0.4]
    assert failed == {"file": "b.wav", "error": "b.wav: empty file"}


def test_csv_survives_names_with_commas(tmp_path):
    rows = list(
        csv.DictReader(written(tmp_path, "csv", [("a,b.wav", HEARD), ("b.wav", FAILED)]).splitlines())
    )
    assert [row["file"] for row in rows] == ["a,b.wav", "b.wav"]
    assert rows[0]["text"] == "ni3 hao3"
    assert rows[1]["error"] == "b.wav: empty file"


def test_an_output_that_cannot_be_written_is_named(tmp_path):
    with pytest.raises(UserError, match="cannot write this list"):
        write_transcripts(tmp_path, "text", [Path("a.wav")], [HEARD])
