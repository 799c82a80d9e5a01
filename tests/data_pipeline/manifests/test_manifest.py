import os

import pytest

from asr.base.errors import UserError
from asr.base.types import MachineLabel, Utterance
from data_pipeline.manifests.manifest import read_manifest, scan_manifest, write_manifest


def test_manifest_is_read_as_written_and_can_be_moved(tmp_path):
    folder = tmp_path / "corpus"
    outside = tmp_path / "elsewhere.wav"
    utterances = [
        Utterance("a", str(folder / "audio" / "a.wav"), 1.25, "你好", ("ni3", "hao3"), "x"),
        Utterance("b", str(outside), 2.0, "", ("a", "b")),
    ]
    write_manifest(folder / "train.jsonl", utterances)
    assert read_manifest(folder / "train.jsonl") == utterances
    moved = folder.rename(tmp_path / "moved")
    paths = [u.audio_path for u in read_manifest(moved / "train.jsonl")]
    assert paths == [str(moved / "audio" / "a.wav"), str(outside)]


def test_manifest_keeps_what_made_a_label(tmp_path):
    label = MachineLabel("runs/demo", "epoch-0012", "0.1.0", "2026-11-26", 0.93, "/long/a.mp3", 12.5)
    utterances = [
        Utterance("a", str(tmp_path / "a.wav"), 1.25, "你好", ("ni3", "hao3"), labelled_by=label),
        Utterance("b", str(tmp_path / "b.wav"), 1.0, "", ("a",)),
    ]
    write_manifest(tmp_path / "m.jsonl", utterances)
    assert read_manifest(tmp_path / "m.jsonl") == utterances
    first, second = (tmp_path / "m.jsonl").read_text(encoding="utf-8").splitlines()
    assert '"confidence": 0.93' in first
    assert "labelled_by" not in second


GOOD = '{"id": "a", "audio": "a.wav", "duration_s": 1, "tokens": "x y"}'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no utterances in this manifest"),
        (GOOD + "\n" + GOOD, "duplicate id 'a' in lines 1 and 2"),
        (GOOD + "\nnot json", ":2: not a JSON object"),
        ("[1]", ":1: expected a JSON object"),
        (GOOD.replace("1,", '"1",'), r":1: duration_s: expected seconds above 0, received '1'"),
        (GOOD.replace("1,", "NaN,"), r":1: duration_s: expected seconds above 0, received nan"),
        (GOOD.replace("1,", "0,"), r":1: duration_s: expected seconds above 0, received 0"),
        (GOOD.replace("1,", "true,"), r":1: duration_s: expected seconds above 0, received True"),
        (GOOD.replace('"a.wav"', r'"\ud800.wav"'), r":1: audio: UTF-8 cannot encode"),
        ("[" * 100_000, ":1: not a JSON object"),
        (GOOD.replace("1,", "1" * 5000 + ","), ":1: not a JSON object"),
        (GOOD.replace('"x y"', "3"), r":1: tokens: expected a string, received 3"),
        (
            GOOD.replace("a.wav", "ftp://x.org/a.wav"),
            ":1: audio: .* such as s3://, received ftp://x.org/a.wav",
        ),
        (
            GOOD.replace("a.wav", "https://x.org/a.wav"),
            ":1: audio: .* received https://x.org/a.wav; download",
        ),
        ('{"audio_filepath": "a.wav", "duration": 1, "text": "x"}', ":1: .*NeMo.* `asr prepare json_lines"),
        (GOOD.replace("tokens", "text"), ":1: tokens: expected a string"),
        ('{"id": "a", "audio": "a.wav", "text": "x"}', ":1: .* `asr prepare json_lines`"),
        ('{"key": "a", "wav": "a.wav", "txt": "x"}', ":1: .* `asr prepare json_lines`"),
        (GOOD.replace('"a"', '"a", "labelled_by": "demo"'), ":1: labelled_by: expected a JSON object"),
        (
            GOOD.replace('"a"', '"a", "labelled_by": {"confidence": "high"}'),
            ":1: labelled_by: confidence: expected a number, received 'high'",
        ),
        (GOOD.replace('"a.wav"', "null"), r":1: audio: expected a string, received None"),
    ],
)
def test_invalid_record_raises_with_its_line(tmp_path, text, message):
    path = tmp_path / "m.jsonl"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match=message) as error:
        read_manifest(path)
    assert str(error.value).startswith(str(path))


def test_byte_order_mark_and_blank_lines_are_skipped(tmp_path):
    path = tmp_path / "m.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + GOOD.encode() + b"\r\n\r\n")
    assert read_manifest(path)[0].tokens == ("x", "y")


def test_manifest_in_another_encoding_raises(tmp_path):
    path = tmp_path / "m.jsonl"
    path.write_bytes('{"id": "你"}'.encode("gbk"))
    with pytest.raises(UserError, match="expected UTF-8"):
        read_manifest(path)


def test_scan_reports_every_broken_line_and_keeps_the_others(tmp_path):
    path = tmp_path / "m.jsonl"
    lines = [b"\xef\xbb\xbf" + GOOD.encode(), b"not json", b"", b"[]", '{"id": "你"}'.encode("gbk"), b"\xff"]
    path.write_bytes(b"\r\n".join([*lines, GOOD.replace('"a"', '"b"').encode()]))
    scan = scan_manifest(path)
    assert [utterance.id for utterance in scan.utterances] == ["a", "b"]
    assert list(scan.numbers) == [1, 7]
    assert list(scan.broken) == [2, 4, 5, 6]
    assert "GB 18030" in scan.broken[5]
    assert scan.broken[6].startswith("not UTF-8")
    assert scan.has_byte_order_mark
    with pytest.raises(UserError) as error:
        read_manifest(path)
    lines = str(error.value).split("\n")
    assert [line.removeprefix(f"{path}:").split(":")[0] for line in lines] == ["2", "4", "5", "6"]


def test_many_broken_lines_are_counted(tmp_path):
    path = tmp_path / "m.jsonl"
    path.write_text("x\n" * 50)
    with pytest.raises(UserError, match=r":20: not a JSON object .*\nand 30 more$"):
        read_manifest(path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_pipe_without_a_writer_is_refused(tmp_path):
    os.mkfifo(tmp_path / "m.jsonl")
    with pytest.raises(UserError, match="expected a manifest, received a pipe"):
        read_manifest(tmp_path / "m.jsonl")


def test_utf_16_manifest_is_reported_once(tmp_path):
    path = tmp_path / "m.jsonl"
    path.write_text(GOOD + "\n" + GOOD, encoding="utf-16")
    scan = scan_manifest(path)
    assert list(scan.broken) == [1]
    assert "UTF-16" in scan.broken[1]
    assert not scan.utterances


def test_missing_manifest_raises_with_its_path(tmp_path):
    with pytest.raises(
        UserError, match=r"none\.jsonl: cannot read this manifest \(No such file.*`asr prepare`"
    ):
        read_manifest(tmp_path / "none.jsonl")


def test_folder_in_place_of_a_manifest_is_named_with_the_remedy(tmp_path):
    with pytest.raises(UserError, match=r"Is a directory.*train\.jsonl; `asr prepare folder`"):
        read_manifest(tmp_path)


def test_line_breaks_of_other_scripts_do_not_end_a_line(tmp_path):
    path = tmp_path / "m.jsonl"
    utterance = Utterance("a", str(tmp_path / "a.wav"), 1.0, "one\u2028two\x85three", ("x",))
    write_manifest(path, [utterance])
    assert read_manifest(path) == [utterance]


def test_null_text_and_speaker_are_read_as_empty(tmp_path):
    path = tmp_path / "m.jsonl"
    path.write_text(GOOD.replace("}", ', "text": null, "speaker": null}'))
    assert (read_manifest(path)[0].text, read_manifest(path)[0].speaker) == ("", "")
