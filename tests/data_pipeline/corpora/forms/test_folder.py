"""Read folders whose transcripts are subtitles, lyrics, TextGrids, tables, names, or several of these."""

import os
import zipfile
from pathlib import Path

import openpyxl
import pytest
from helpers.corpora.forms import clip, write

from asr.base.errors import UserError
from asr.base.text.subtitles import Interval, write_srt, write_vtt
from asr.base.text.textgrid import write_textgrid
from asr.cli.main import main
from data_pipeline.corpora.forms import folder, table
from data_pipeline.corpora.forms.named_by_text import text_in_name
from data_pipeline.manifests.manifest import read_manifest
from data_pipeline.preparation.prepare import prepare_corpus

LINES = [Interval(0.25, 1.0, "今天天气很好"), Interval(1.25, 1.75, "我们去银行")]
PARTS = [("今天天气很好", 0.25, 1.0), ("我们去银行", 1.25, 1.75)]


def read(source):
    return folder.CORPUS.read(Path(source), Path("unused"))


def rows(reading):
    """Return text, begin and end of each recording."""
    return [(r.text, r.begin_s, r.end_s) for found in reading.splits.values() for r in found]


def texts(reading):
    return {r.id: r.text for found in reading.splits.values() for r in found}


def left_out(reading):
    return {Path(out.what).name: out.reason for out in reading.left_out}


def textgrid(tiers):
    return write_textgrid(tiers, 2.0)


@pytest.mark.parametrize(
    ("suffix", "text", "encoding"),
    [
        (".srt", write_srt(LINES), "utf-8-sig"),
        (".SRT", write_srt(LINES), "gb18030"),
        (".vtt", write_vtt(LINES), "utf-8"),
        (".zh-Hans.vtt", write_vtt(LINES), "utf-8"),
        (".wav.srt", write_srt(LINES), "utf-8"),
        (".lrc", "[00:00.25]今天天气很好\n[00:01.00]\n[00:01.25]我们去银行\n[00:01.75]", "gb18030"),
        (".TextGrid", textgrid({"lines": LINES}), "utf-16"),
        (".textgrid", textgrid({"syllables": [Interval(0, 1, "jin1")], "x": LINES}), "utf-8"),
    ],
)
def test_recording_is_cut_at_the_times_beside_it(suffix, text, encoding, tmp_path):
    clip(tmp_path / "讲座.wav", 2.0)
    write(tmp_path / f"讲座{suffix}", text, encoding, newline="\r\n")
    reading = read(tmp_path)
    assert rows(reading) == PARTS
    assert list(texts(reading)) == ["讲座-0.25", "讲座-1.25"]
    assert not reading.left_out


def test_last_line_of_lyrics_ends_with_the_recording(tmp_path):
    clip(tmp_path / "a.wav", 2.0)
    write(tmp_path / "a.lrc", "[00:00.5]今天天气很好")
    assert rows(read(tmp_path)) == [("今天天气很好", 0.5, None)]


@pytest.mark.parametrize(
    ("tiers", "chosen"),
    [
        ({"pinyin": [Interval(0, 1, "ni3 hao3 shi4 jie4")], "hanzi": LINES}, "hanzi"),
        ({"字": [Interval(0, 1, "今")], "整句": LINES}, "整句"),
        (
            {"words": [Interval(0, 1, "very long words of a text")], "sentences": [Interval(0, 1, "hi")]},
            "sentences",
        ),
        ({"Lines ": [Interval(0, 1, "一")], "text": LINES}, "Lines "),
    ],
)
def test_tier_with_the_text_is_chosen_and_named(tiers, chosen, tmp_path):
    clip(tmp_path / "a.wav", 2.0)
    write(tmp_path / "a.TextGrid", textgrid(tiers))
    reading = read(tmp_path)
    assert [text for text, *_ in rows(reading)] == [interval.label for interval in tiers[chosen]]
    (other,) = set(tiers) - {chosen}
    assert f"tier {chosen!r} of 1 TextGrid was read, such as a.TextGrid; not read: {other}" in reading.notes


def test_voice_of_a_subtitle_is_the_speaker(tmp_path):
    clip(tmp_path / "a.wav", 2.0)
    write(tmp_path / "a.vtt", "WEBVTT\n\n00:00.000 --> 00:01.000\n<v 小明>你好\n")
    assert read(tmp_path).splits["all"][0].speaker == "小明"


def test_one_transcript_of_several_is_used_and_the_others_are_named(tmp_path):
    clip(tmp_path / "a.wav", 2.0)
    write(tmp_path / "a.srt", write_srt(LINES))
    write(tmp_path / "a.en.srt", write_srt([Interval(0, 1, "hello")]))
    write(tmp_path / "a.txt", "今天天气很好我们去银行")
    clip(tmp_path / "b.wav")
    write(tmp_path / "b.lab", "再见")
    write(tmp_path / "b.TextGrid", textgrid({"words": LINES}))
    write(tmp_path / "t.csv", "文件名,文本\na.wav,别的\nb,再见\n")
    reading = read(tmp_path)
    assert [text for text, *_ in rows(reading)] == ["今天天气很好", "我们去银行", "再见"]
    second = "second transcript of the same clip"
    assert left_out(reading) == dict.fromkeys(["a.en.srt", "a.txt", "b.TextGrid", "t.csv"], second)
    details = {Path(out.what).name: out.detail for out in reading.left_out}
    assert details["a.txt"] == "a.srt is used"
    assert details["t.csv"].endswith("b.wav; b.lab is used")


def test_next_transcript_is_used_where_the_first_is_broken(tmp_path):
    clip(tmp_path / "a.wav", 2.0)
    write(tmp_path / "a.srt", "今天天气很好")
    write(tmp_path / "a.txt", "你好")
    clip(tmp_path / "好的.wav")
    write(tmp_path / "好的.TextGrid", "ooTextFile")
    reading = read(tmp_path)
    assert rows(reading) == [("你好", 0.0, None)]
    assert left_out(reading) == {
        "a.srt": "unreadable transcript",
        "好的.TextGrid": "unreadable transcript",
        "好的.wav": "audio without a transcript",  # its name is not taken where there was a transcript
    }
    assert "no line with times" in reading.left_out[0].detail


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("苹果", "苹果"),
        ("苹果2", "苹果"),
        ("苹果 (2)", "苹果"),
        ("苹果（12）", "苹果"),
        ("苹果_02", "苹果"),
        ("苹果 副本", "苹果"),
        ("003 今天天气很好", "今天天气很好"),
        ("12、你好，世界！", "你好，世界！"),
        ("一", "一"),
        ("手机", "手机"),
        ("新年快乐", "新年快乐"),
        ("会议开始了", "会议开始了"),
        ("录音", ""),
        ("新录音1", ""),
        ("新录音 3", ""),
        ("标准录音 12", ""),
        ("语音备忘录", ""),
        ("录音文件_第二段", ""),
        ("微信语音消息", ""),
        ("屏幕录制 2024-03-01 10.11.12", ""),
        ("录音20240301", ""),
        ("2024年3月1日", ""),
        ("20240301_101112", ""),
        ("REC_0001", ""),
        ("VID_20240301", ""),
        ("Recording", ""),
        ("New Recording 3", ""),
        ("第3课", ""),
        ("小明02a", ""),
        ("北京2008", ""),
        ("12", ""),
        ("", ""),
    ],
)
def test_name_is_a_text_if_it_is_hanzi_but_no_recorders_name(name, text):
    assert text_in_name(name) == text


def test_names_are_texts_where_no_other_transcript_is_found_and_it_is_said(tmp_path):
    for name in (
        "词/苹果.mp3",
        "词/香蕉1.mp3",
        "词/新录音1.mp3",
        "词/梨.wav",
        "数/001.wav",
        "数/002.wav",
        "数/试音.wav",
    ):
        clip(tmp_path / name)
    clip(tmp_path / "词" / "采访.wav", 7.0)
    write(tmp_path / "词" / "梨.txt", "两个梨")
    write(tmp_path / "数" / "001.txt", "你好")
    reading = read(tmp_path)
    assert texts(reading) == {"词-苹果": "苹果", "词-香蕉1": "香蕉", "词-梨": "两个梨", "数-001": "你好"}
    assert reading.notes == [
        "texts: 2 in .txt, 2 in names of files",
        "the name is the text of 2 recordings, such as 词/苹果.mp3: 苹果 "
        "(where it is not, write the text into 苹果.txt)",
    ]
    details = {Path(out.what).name: out.detail for out in reading.left_out}
    assert details.keys() == {"新录音1.mp3", "采访.wav", "002.wav", "试音.wav"}
    assert "7 s are too long for 采访; write its text into 采访.txt" in details["采访.wav"]
    assert "most names in its folder are none" in details["试音.wav"]


def test_transcript_of_the_used_recording_is_preferred_to_that_of_another(tmp_path):
    for name in ("a.wav", "a.mp3"):
        clip(tmp_path / name)
    write(tmp_path / "a.wav.txt", "你好")
    write(tmp_path / "a.mp3.txt", "再见")
    write(tmp_path / "a.txt", "谢谢")
    write(tmp_path / "a.mp3.srt", write_srt([Interval(0, 0.2, "不")]))
    reading = read(tmp_path)
    assert [(r.text, Path(r.audio_path).name) for r in reading.splits["all"]] == [("你好", "a.wav")]
    assert {Path(out.what).name: out.detail for out in reading.left_out} == {
        **dict.fromkeys(["a.mp3.txt", "a.txt", "a.mp3.srt"], "a.wav.txt is used"),
        "a.mp3": "a.wav is used",
    }
    (tmp_path / "a.wav.txt").unlink()
    assert [text for text, *_ in rows(read(tmp_path))] == ["谢谢"]


@pytest.mark.parametrize(
    ("in_table", "unused"),
    [
        (["a.mp3"], {"a.wav": "a.mp3 is used"}),
        (["a.wav"], {"a.mp3": "a.wav is used"}),
        (["a.wav", "a.mp3"], {}),
    ],
)
def test_recording_that_a_table_names_is_used_whatever_else_has_its_name(in_table, unused, tmp_path):
    for name in ("a.wav", "a.mp3"):
        clip(tmp_path / name)
    write(tmp_path / "t.csv", "\n".join(["文件名,文本", *(f"{name},你好" for name in in_table)]))
    reading = read(tmp_path)
    assert [Path(r.audio_path).name for r in reading.splits["all"]] == in_table
    assert {Path(out.what).name: out.detail for out in reading.left_out} == unused


def test_recording_whose_table_names_a_missing_file_of_its_name_is_left_out_by_name(tmp_path):
    for name in ("a.wav", "b.wav"):
        clip(tmp_path / name)
    write(tmp_path / "t.csv", "文件名,文本\na.flac,你好\nb.wav,再见\n")
    reading = read(tmp_path)
    assert {Path(r.audio_path).name: bool(r.missing) for r in reading.splits["all"]} == {
        "a.flac": True,
        "b.wav": False,
    }
    assert left_out(reading) == {"a.wav": "audio without a transcript"}
    write(tmp_path / "u.csv", "文件名,文本\na.wav,你好\n")
    assert not read(tmp_path).left_out


def test_each_reading_sees_the_files_that_are_there_now(tmp_path):
    clip(tmp_path / "b.wav")
    write(tmp_path / "b.txt", "再见")
    write(tmp_path / "a.txt", "你好")
    assert read(tmp_path).left_out[0].detail == "no recording of this name is beside it"
    write(tmp_path / "a.pages", "PK")
    assert read(tmp_path).left_out[0].detail == "beside it: a.pages"


def test_phones_recordings_are_paired_whether_they_can_be_read_or_not(tmp_path):
    for suffix in ("m4a", "mp4", "MOV", "amr", "wma", "3gp", "webm", "mkv", "aac"):
        write(tmp_path / f"{suffix}.{suffix}", "no sound")
        write(tmp_path / f"{suffix}.txt", "你好")
    clip(tmp_path / "b.wav")
    write(tmp_path / "b.txt", "再见")
    reading = read(tmp_path)
    assert len(texts(reading)) == 10
    assert not reading.left_out
    prepared = prepare_corpus("folder", str(tmp_path), tmp_path / "out")
    assert {out.reason for out in prepared.left_out} == {"unreadable audio"}
    assert len(prepared.left_out) == 9


def test_files_that_only_have_a_recordings_suffix_are_named(tmp_path, capsys):
    write(tmp_path / "main.ts", "export const greeting: string = '你好';\n" * 20)
    write(tmp_path / "main.txt", "你好")
    write(tmp_path / "go.mod", "module example.com/a\n\ngo 1.22\n")
    write(tmp_path / "问候.ts", "export {};\n")
    clip(tmp_path / "b.wav")
    write(tmp_path / "b.txt", "再见")
    assert main(["prepare", "folder", str(tmp_path), str(tmp_path / "out")]) == 0
    reasons = {Path(what).name: reason for reason, what, _ in _left_out_rows(tmp_path / "out")}
    assert reasons == {
        **{"main.ts": "unreadable audio", "问候.ts": "audio without a transcript"},
        "go.mod": "audio without a transcript",
    }


def test_recording_in_two_containers_is_used_once(tmp_path):
    write(tmp_path / "a.m4a", "no sound")
    clip(tmp_path / "a.wav")
    write(tmp_path / "a.txt", "你好")
    reading = read(tmp_path)
    assert [Path(r.audio_path).name for r in reading.splits["all"]] == ["a.wav"]
    assert [(out.reason, out.detail) for out in reading.left_out] == [
        ("another clip has the same name", "a.wav is used")
    ]


CHINESE_ROWS = [
    ["录音登记表", "", "", "", ""],
    ["文件名", "内容", "说话人", "开始时间(秒)", "结束时间（秒）"],
    ["长.wav", "今天天气很好", "小明", 0.25, "00:00:01"],
    ["长.wav", "我们去银行", "小红", 1.25, 1.75],
    [1, "再见", "小明", None, None],
]


def test_excel_table_in_a_folder_is_read_with_chinese_columns(tmp_path):
    clip(tmp_path / "音频" / "长.wav", 2.0)
    clip(tmp_path / "音频" / "1.wav")
    workbook = openpyxl.Workbook()
    workbook.active.title = "登记"
    for row in CHINESE_ROWS:
        workbook.active.append(row)
    workbook.create_sheet("说明").append(["与录音无关"])
    workbook.save(tmp_path / "表.xlsx")
    for reading in (read(tmp_path), read(tmp_path / "表.xlsx"), table.read(tmp_path, tmp_path)):
        assert rows(reading) == [*PARTS, ("再见", 0.0, None)]
        assert [r.speaker for r in reading.splits["all"]] == ["小明", "小红", "小明"]
        assert f"表.xlsx: 2 files found by name below {tmp_path}, such as 音频/长.wav" in reading.notes


def test_workbook_whose_program_states_wrong_dimensions_is_read(tmp_path):
    clip(tmp_path / "a.wav")
    workbook = openpyxl.Workbook()
    for row in (["文件名", "文本"], ["a.wav", "你好"]):
        workbook.active.append(row)
    workbook.save(tmp_path / "right.xlsx")
    with (
        zipfile.ZipFile(tmp_path / "right.xlsx") as right,
        zipfile.ZipFile(tmp_path / "t.xlsx", "w") as wrong,
    ):
        for name in right.namelist():
            wrong.writestr(name, right.read(name).replace(b'"A1:B2"', b'"A1"'))
    assert rows(read(tmp_path / "t.xlsx")) == [("你好", 0.0, None)]


def test_stray_cell_far_away_costs_nothing(tmp_path):
    clip(tmp_path / "a.wav")
    workbook = openpyxl.Workbook()
    for row in (["文件名", "文本"], ["a.wav", "你好"]):
        workbook.active.append(row)
    workbook.active.cell(row=100_000, column=16_384, value="x")  # 1.6 billion cells, if all were made
    workbook.save(tmp_path / "表.xlsx")
    reading = read(tmp_path / "表.xlsx")
    assert rows(reading) == [("你好", 0.0, None)]
    assert [out.reason for out in reading.left_out] == ["more fields than columns"]


def test_documents_that_are_not_read_are_named_beside_a_recording(tmp_path):
    clip(tmp_path / "a.wav")
    write(tmp_path / "a.docx", "PK")
    clip(tmp_path / "b.wav")
    write(tmp_path / "b.ass", "[Script Info]")
    write(tmp_path / "b.txt", "你好")
    write(tmp_path / "说明.pdf", "%PDF")
    write(tmp_path / "旧表.xls", "")
    reading = read(tmp_path)
    assert texts(reading) == {"b": "你好"}
    assert left_out(reading) == {
        "a.docx": "unreadable transcript",
        "a.wav": "audio without a transcript",
        "b.ass": "second transcript of the same clip",
        "旧表.xls": "unreadable table",
    }


def test_broken_workbook_is_named(tmp_path):
    path = tmp_path / "表.xlsx"
    path.write_bytes(b"PK\x03\x04 broken")
    with pytest.raises(UserError, match=r"cannot read this workbook.*as CSV"):
        table.read(path, tmp_path)
    clip(tmp_path / "a.wav")
    write(tmp_path / "a.txt", "你好")
    assert left_out(read(tmp_path)) == {"表.xlsx": "unreadable table"}


@pytest.mark.parametrize(
    "header",
    [
        "文件名,文本,说话人,开始,结束",
        "路径,标注,发音人,起始时间,结束时间",
        "音频,内容,说话人,开始（秒）,结束（秒）",
        "音频文件, 转写文本 ,朗读人,开始时间(s),终止时间(s)",
        "audio,sentence,spk,start,end",
    ],
)
def test_columns_are_known_by_their_usual_names(header, tmp_path):
    clip(tmp_path / "a.wav", 2.0)
    path = write(tmp_path / "t.csv", f"{header}\na.wav,你好,甲,0.5,1.5\n", "gb18030")
    (recording,) = table.read(path, tmp_path).splits["all"]
    assert (recording.text, recording.speaker) == ("你好", "甲")
    assert (recording.begin_s, recording.end_s) == (0.5, 1.5)


@pytest.mark.parametrize(
    ("header", "times"),
    [
        ("开始（毫秒）,结束(ms)", "500,1500"),
        ("开始,时长", "0.5,1"),
        ("start,duration", "0:00.5,1.0"),
        ("start_ms,end_ms", "500,1500"),
        ("start_sec,end_sec", "0.5,1.5"),
        ("Start_s,End Seconds", "0.5,1.5"),
        ("begin_ms,duration_s", "500,1"),
        ("duration,offset", "1,0.5"),
    ],
)
def test_times_in_other_units_are_read(header, times, tmp_path):
    clip(tmp_path / "a.wav", 2.0)
    path = write(tmp_path / "t.csv", f"文件,文字,{header}\na.wav,你好,{times}\n")
    (recording,) = table.read(path, tmp_path).splits["all"]
    assert (recording.begin_s, recording.end_s) == (0.5, 1.5)


def test_rows_with_different_texts_of_one_whole_file_and_repeated_ones_are_left_out(tmp_path):
    clip(tmp_path / "长.wav", 2.0)
    clip(tmp_path / "b.wav")
    lines = ["文件,文本,在", "长.wav,今天天气很好,0", "长.wav,我们去银行,1", "b.wav,你好,0", "b.wav,　你好,0"]
    path = write(tmp_path / "t.csv", "\n".join(lines))
    reading = read(tmp_path)
    assert [text for text, *_ in rows(reading)] == ["你好"]
    several = "several texts of one recording"
    left_out = {(Path(out.what).name, out.reason, out.detail.split(":")[0]) for out in reading.left_out}
    assert left_out == {
        ("长.wav", several, "今天天气很好"),
        ("长.wav", several, "我们去银行"),
        ("b.wav", "repeated row", "你好"),
    }
    assert sum("add columns start and end" in out.detail for out in reading.left_out) == 2
    write(path, "file,text,offset\n长.wav,今天天气很好,0.25\n长.wav,我们去银行,1.25\n")
    with pytest.raises(UserError, match="several texts of one recording"):
        prepare_corpus("table", str(path), tmp_path / "out")


def test_split_column_may_be_chinese(tmp_path):
    clip(tmp_path / "a.wav")
    path = write(
        tmp_path / "t.csv", "文件,文本,集合\na.wav,你好,训练集\na.wav,你好,验证集\na.wav,你好,测试集\n"
    )
    assert list(table.read(path, tmp_path).splits) == ["train", "dev", "test"]
    path.write_text(path.read_text("utf-8").replace("集\n", "\n").replace("集合", "划分"), encoding="utf-8")
    assert list(table.read(path, tmp_path).splits) == ["train", "dev", "test"]
    path.write_text(path.read_text("utf-8").replace("训练", "一组").replace("验证", "二组"), encoding="utf-8")
    assert list(table.read(path, tmp_path).splits) == ["一组", "二组", "测试"]


def test_trials_are_test_beside_another_split_only(tmp_path):
    for name in ("训练/甲/1", "验证/乙/1", "测试/丙/1"):
        clip(tmp_path / "分" / f"{name}.wav")
        write(tmp_path / "分" / f"{name}.txt", "你好")
    reading = read(tmp_path / "分")
    found = {split: [r.speaker for r in rs] for split, rs in reading.splits.items()}
    assert found == {"train": ["甲"], "dev": ["乙"], "test": ["丙"]}
    (tmp_path / "分" / "训练").rename(tmp_path / "分" / "一班")
    (tmp_path / "分" / "验证").rename(tmp_path / "分" / "二班")
    assert list(read(tmp_path / "分").splits) == ["all"]


def test_files_of_a_table_are_found_by_name_or_it_is_said_where_they_were_looked_for(tmp_path, capsys):
    for name in ("甲/1.mp3", "甲/2.mp3", "甲/3.mp3", "乙/3.mp3", "乙/4.mp3", "丙/4.mp3"):
        clip(tmp_path / "录音" / name)
    texts_of = {"1.mp3": "一", "2": "二", "3.mp3": "三", "4.mp3": "四", "5.mp3": "五"}
    lines = ["文件名,文本", *(f"{name},{text}" for name, text in texts_of.items())]
    write(tmp_path / "录音" / "表.csv", "\n".join(lines))
    out = tmp_path / "out"
    assert main(["prepare", "table", str(tmp_path / "录音" / "表.csv"), str(out)]) == 0
    used = {
        u.text: Path(u.audio_path).parent.name for path in out.glob("*.jsonl") for u in read_manifest(path)
    }
    assert used == {"一": "甲", "二": "甲", "三": "甲"}  # the folder of most decides between two
    assert "表.csv: 3 files found by name below" in capsys.readouterr().out
    details = {Path(row[1]).name: row[2] for row in _left_out_rows(out)}
    assert "2 files of this name: " in details["4.mp3"]
    assert "丙/4.mp3" in details["4.mp3"]
    assert f"tried {tmp_path / '录音'}, the folders above it" in details["5.mp3"]
    assert "no file of this name below" in details["5.mp3"]


def test_files_of_other_rows_or_folders_are_not_taken_for_missing_ones(tmp_path):
    for number in (1, 2):
        clip(tmp_path / "spk1" / f"00{number}.wav")
    clip(tmp_path / "other" / "005.wav")
    clip(tmp_path / "wavs" / "007.wav")
    rows = [f"spk{speaker}/00{number}.wav,{speaker}{number}" for speaker in "12" for number in (1, 2)]
    rows += ["spk1/005.wav,5", "a/wavs/007.wav,7", "b/wavs/007.wav,8", "002.wav,2", "005,5"]
    rows = [f"{row},{'test' if number < 2 else 'train'}" for number, row in enumerate(rows)]
    path = write(tmp_path / "list.csv", "\n".join(["path,text,split", *rows]))
    reading = table.read(path, tmp_path)
    every = [r for found in reading.splits.values() for r in found]
    used = {r.text: os.path.relpath(r.audio_path, tmp_path) for r in every if not r.missing}
    assert used == {"11": "spk1/001.wav", "12": "spk1/002.wav", "5": "other/005.wav"}
    missing = {os.path.relpath(r.audio_path, tmp_path): r.missing for r in every if r.missing}
    assert missing.keys() == {
        *("spk2/001.wav", "spk2/002.wav", "spk1/005.wav", "a/wavs/007.wav", "b/wavs/007.wav", "002.wav")
    }
    assert "none in a folder spk2; 1 file of this name" in missing["spk2/001.wav"]
    assert f"another row's, too: {tmp_path / 'wavs' / '007.wav'}" in missing["a/wavs/007.wav"]
    assert f"another row's, too: {tmp_path / 'spk1' / '002.wav'}" in missing["002.wav"]
    assert all("copy the recordings there" in why for why in missing.values())


def test_table_of_folders_that_were_not_copied_keeps_the_rows_of_those_that_were(tmp_path, capsys):
    numbers = dict(enumerate("一二三四", start=1))
    rows = [f"spk{speaker}/00{number}.wav,{text}" for speaker in "123" for number, text in numbers.items()]
    for number in numbers:
        clip(tmp_path / "spk1" / f"00{number}.wav")
    write(tmp_path / "list.csv", "\n".join(["path,text", *rows]))
    assert main(["prepare", "table", str(tmp_path / "list.csv"), str(tmp_path / "out")]) == 0
    found = [u for p in (tmp_path / "out").glob("*.jsonl") for u in read_manifest(p)]
    assert sorted(Path(u.audio_path).parent.name for u in found) == ["spk1"] * 4
    assert {Path(row[1]).parent.name for row in _left_out_rows(tmp_path / "out")} == {"spk2", "spk3"}


def test_tables_in_several_folders_may_name_the_same_files(tmp_path):
    for folder_name in "甲乙丙丁":
        clip(tmp_path / folder_name / "1.wav")
        clip(tmp_path / folder_name / "2.wav", 2.0)
        rows_of = ["文件名,文本,开始", f"1.wav,{folder_name}一,", f"2.wav,{folder_name}二,1"]
        write(tmp_path / folder_name / "名单.csv", "\n".join(rows_of))
    reading = read(tmp_path)
    expected = {f"{name}-1": f"{name}一" for name in "甲乙丙丁"}
    assert texts(reading) == expected | {f"{name}-2-1.00": f"{name}二" for name in "甲乙丙丁"}
    assert {r.id: r.speaker for r in reading.splits["all"]}["甲-1"] == "甲"
    prepared = prepare_corpus("folder", str(tmp_path), tmp_path / "out")
    assert not [out for out in prepared.left_out if "duplicate" in out.reason]


def test_row_of_a_file_elsewhere_or_with_a_split_leaves_the_splits_of_folders(tmp_path):
    source = tmp_path / "corpus"
    elsewhere = clip(tmp_path / "others" / "far.wav")
    for name in ("train集/甲/1", "dev集/乙/2", "test集/丙/3"):
        clip(source / f"{name}.wav")
        write(source / f"{name}.txt", "你好")
    clip(source / "更多" / "4.wav")
    write(source / "表.csv", f"路径,文本,集合\n{elsewhere},再见,测试集\n更多/4.wav,好,dev数据\n")
    found = {split: {r.text for r in rs} for split, rs in read(source).splits.items()}
    assert found == {"train": {"你好"}, "dev": {"你好", "好"}, "test": {"你好", "再见"}}
    write(source / "表.csv", f"路径,文本\n{elsewhere},再见\n")
    (source / "更多" / "4.wav").unlink()
    reading = read(source)
    assert {split: {r.text for r in rs} for split, rs in reading.splits.items()} == {
        **{split: {"你好"} for split in ("train", "dev", "test")},
        "all": {"再见"},
    }
    assert [r.speaker for r in reading.splits["train"]] == ["甲"]


def test_error_says_where_the_files_of_a_table_were_looked_for(tmp_path, capsys):
    write(tmp_path / "表.csv", "文件名,文本\n1.mp3,一\n")
    assert main(["prepare", "table", str(tmp_path / "表.csv"), str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert "no such audio file" in error
    assert f"tried {tmp_path}, the folders above it" in error


def _left_out_rows(out):
    return [line.split("\t") for line in (out / "left_out.tsv").read_text("utf-8").splitlines()]


def test_several_sources_make_one_corpus(tmp_path, capsys):
    for name in ("甲/1.wav", "甲/2.wav", "甲/3.wav", "甲/好.wav", "乙/1.wav", "乙/2.wav", "丙/7.wav"):
        clip(tmp_path / name)
    for name, text in {"甲/1": "一", "甲/2": "二", "乙/1": "三", "乙/2": "四"}.items():
        write(tmp_path / f"{name}.txt", text)
    write(tmp_path / "丙.csv", "文件,文本\n丙/7.wav,七\n甲/1.wav,别的\n甲/3.wav,三个\n")
    sources = [str(tmp_path / name) for name in ("甲", "乙", "丙.csv")]
    out = tmp_path / "out"
    assert main(["prepare", "folder", *sources, str(out)]) == 0
    used = {u.id: u.text for path in out.glob("*.jsonl") for u in read_manifest(path)}
    assert used == {"丙-7": "七", "甲-1": "别的", "甲-3": "三个", "2": "二", "1": "三", "乙-2": "四"}
    rows_of = {Path(row[1]).name: row for row in _left_out_rows(out)}
    assert rows_of["1.wav"][0] == "recording of two sources"
    assert rows_of["1.wav"][2].endswith(f"{tmp_path / '丙.csv'} is used")
    assert rows_of.keys() == {"1.wav", "好.wav"}  # the table has the text of 3.wav
    assert main(["prepare", "folder", *sources, str(out)]) == 0  # the same command again
    capsys.readouterr()
    assert main(["prepare", "folder", *sources[:2], str(out)]) == 2
    assert "prepared with source" in capsys.readouterr().err


def test_part_of_a_recording_that_another_source_has_whole_is_used_once(tmp_path):
    for name in "12":
        clip(tmp_path / "甲" / f"{name}.wav", seconds=4)
        write(tmp_path / "甲" / f"{name}.txt", "一二")
    write(tmp_path / "前.csv", "文件,文本,开始,结束\n甲/1.wav,一,0,2\n甲/2.wav,四,2,4\n")
    write(tmp_path / "后.csv", "文件,文本,开始,结束\n甲/1.wav,二,2,4\n甲/1.wav,三,1.5,3\n甲/2.wav,五,0,2\n")
    out = tmp_path / "out"
    sources = [str(tmp_path / name) for name in ("前.csv", "后.csv", "甲")]
    assert main(["prepare", "folder", *sources, str(out)]) == 0
    used = [u.text for path in out.glob("*.jsonl") for u in read_manifest(path)]
    assert sorted(used) == ["一", "二", "五", "四"]  # what only touches is another sentence
    left_out = {(Path(row[1]).name, row[2].rpartition("; ")[2]) for row in _left_out_rows(out)}
    assert left_out == {
        ("1.wav (1.5 to 3 s)", f"{tmp_path / '前.csv'} is used"),
        ("1.wav", f"{tmp_path / '前.csv'} is used"),
        ("2.wav", f"{tmp_path / '前.csv'} is used"),
    }


def test_recording_as_a_source_is_an_error_with_the_remedy(tmp_path):
    with pytest.raises(UserError, match="received a recording; give its folder"):
        read(clip(tmp_path / "a.wav"))


def test_last_of_several_folders_is_not_one_more_source(tmp_path, capsys):
    for name in ("甲/1", "乙/1", "丙/1"):
        clip(tmp_path / f"{name}.wav")
        write(tmp_path / f"{name}.txt", "你好")
    assert main(["prepare", "folder", *(str(tmp_path / name) for name in "甲乙丙")]) == 2
    assert "丙: this folder holds recordings" in capsys.readouterr().err
    assert main(["prepare", "thchs30", "a", "b", "c"]) == 2
    assert "expected DIR OUT" in capsys.readouterr().err


def test_unusable_line_of_subtitles_is_named_with_its_times(tmp_path):
    clip(tmp_path / "a.wav", 2.0)
    write(tmp_path / "a.srt", write_srt([LINES[0], Interval(1.25, 1.75, "OK 2024")]))
    prepared = prepare_corpus("folder", str(tmp_path), tmp_path / "out")
    (out,) = prepared.left_out
    assert out.what == f"{tmp_path}/a.wav (1.25 to 1.75 s)"
