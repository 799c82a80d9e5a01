"""Read what `srt`, `webvtt`, players and recognizers write, and what this project writes itself."""

import datetime
import math

import pytest
import srt

from asr.base.text.subtitles import (
    Interval,
    clock_seconds,
    read_lrc,
    read_subtitles,
    spoken_text,
    write_srt,
    write_vtt,
)

LINES = [Interval(0.5, 1.75, "今天天气很好"), Interval(2.0, 3723.25, "3 < 5 & 5 > 3，对吗？")]


@pytest.mark.parametrize("write", [write_srt, write_vtt])
def test_subtitles_read_back_as_they_were_written(write):
    assert read_subtitles(write(LINES)) == LINES


def test_subtitles_of_another_program_are_read():
    times = [datetime.timedelta(seconds=seconds) for seconds in (1, 2.5, 3, 4.25)]
    cues = [
        srt.Subtitle(7, times[0], times[1], "第一句\n换行"),
        srt.Subtitle(8, times[2], times[3], "第二句"),
    ]
    expected = [Interval(1.0, 2.5, "第一句 换行"), Interval(3.0, 4.25, "第二句")]
    assert read_subtitles(srt.compose(cues)) == expected
    assert read_subtitles(srt.compose(cues, eol="\r\n")) == expected


def test_webvtt_with_notes_styles_positions_voices_and_ruby_is_read():
    text = """WEBVTT - a title

STYLE
::cue { color: red }

NOTE 作者的话

intro
00:01.000 --> 00:02.000 align:start position:10%
<v.loud 张三>你好，<c.red><b>世界</b></c>

00:00:02.000 --> 00:00:03.000
<v 李四>&lt;再见&gt;&nbsp;

00:00:03.000 --> 00:00:04.000
<ruby>明日<rt>あした</rt></ruby>
"""
    assert read_subtitles(text) == [
        Interval(1.0, 2.0, "你好，世界", "张三"),
        Interval(2.0, 3.0, "<再见>", "李四"),
        Interval(3.0, 4.0, "明日"),
    ]


def test_number_of_the_next_subtitle_is_no_text_where_the_empty_line_is_missing():
    text = "1\n00:00:01,000 --> 00:00:02,000\n一\n2\n00:00:02,000 --> 00:00:03,000\n二\n"
    assert [line.label for line in read_subtitles(text)] == ["一", "二"]


def test_empty_lines_within_a_text_of_subrip_lose_nothing():
    cues = ["00:00:01,000 --> 00:00:02,000\n一\n\n二", "00:00:02,000 --> 00:00:03,000\n\n三\n\n42"]
    expected = ["一 二", "三 42"]
    numbered = "".join(f"{number}\n{cue}\n\n" for number, cue in enumerate([*cues, cues[0]], start=1))
    for text in (numbered, "\ufeff" + numbered, numbered.replace("\n", "\n\n")):
        assert [line.label for line in read_subtitles(text)] == [*expected, "一 二"]
    without_numbers = "".join(f"{cue}\n\n" for cue in [*cues, cues[0]])
    assert [line.label for line in read_subtitles(without_numbers)] == [*expected, "一 二"]


def test_note_after_a_text_of_webvtt_is_not_read():
    text = "WEBVTT\n\n1\n00:01.000 --> 00:02.000\n一\n\nNOTE 作者的话\n\n2\n00:02.000 --> 00:03.000\n二\n"
    assert [line.label for line in read_subtitles(text)] == ["一", "二"]


def test_rolling_subtitles_with_a_time_for_each_word_are_read_once():
    text = """WEBVTT

00:00:00.000 --> 00:00:02.000
\x20
今天<00:00:00.500><c>天气</c>

00:00:02.000 --> 00:00:02.010
今天天气
\x20

00:00:02.010 --> 00:00:04.000
今天天气
很好<00:00:03.000><c>啊</c>

00:00:04.000 --> 00:00:04.010
很好啊
\x20

00:00:04.010 --> 00:00:05.000
很好啊
是
"""
    assert read_subtitles(text) == [
        Interval(0.0, 2.0, "今天天气"),
        Interval(2.01, 4.0, "很好啊"),
        Interval(4.01, 5.0, "是"),
    ]


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("<i>斜体</i>", "斜体"),
        ('<font color="#fff">颜色</font>', "颜色"),
        (r"{\an8}上方", "上方"),
        ("{y:i}旧式", "旧式"),
        ("- 你来了", "你来了"),
        ("-5度", "-5度"),
        (">> 新闻", "新闻"),
        ("说话人1：你好", "你好"),
        ("Speaker 2: 你好", "你好"),
        ("他说：你好", "他说：你好"),
        ("等一下—好吗", "等一下—好吗"),
        ("[音乐]", ""),
        ("（笑声）好的【掌声】", "好的"),
        ("♪ 歌词 ♪", "♪ 歌词 ♪"),
        ("", ""),
    ],
)
def test_what_is_not_spoken_is_removed_from_a_line(line, text):
    assert spoken_text(line) == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no line with times"),
        ("今天天气很好\n", "no line with times"),
        ("1\n00:00:01,000 --> soon\n一\n", "line 2: expected a time"),
        ("1\n00:00:01,000 -->\n一\n", "line 2: expected a time"),
    ],
)
def test_text_without_times_is_no_subtitles(text, message):
    with pytest.raises(ValueError, match=message):
        read_subtitles(text)


@pytest.mark.parametrize("sign", ["[", "(", "<v ", "<rt>", "<a", "{\\\\", "【", "- "])
def test_long_line_of_opening_signs_is_read(sign):
    line = sign * 100_000
    text = "WEBVTT\n\n00:00.000 --> 00:01.000\n" + line
    assert all(interval.label for interval in read_subtitles(text))


def test_lines_of_lyrics_end_where_the_next_begins():
    text = "[ti:题目]\n[offset:+500]\n[00:01.50]第一句\n[00:03.00][00:09.0]副歌\n"
    text += "[00:05:25]\n[01:02.5]<01:02.5>最后\n"
    assert read_lrc(text) == [
        Interval(1.0, 2.5, "第一句"),
        Interval(2.5, 4.75, "副歌"),
        Interval(8.5, 62.0, "副歌"),
        Interval(62.0, math.inf, "最后"),
    ]
    with pytest.raises(ValueError, match=r"\[00:01\.50\]"):
        read_lrc("[ti:题目]\n没有时间\n")


@pytest.mark.parametrize(
    ("time", "seconds"), [("00:01:02,500", 62.5), ("1:02.5", 62.5), ("100:00:00", 360000.0), (" 0:00 ", 0.0)]
)
def test_clock_times_are_read(time, seconds):
    assert clock_seconds(time) == seconds


@pytest.mark.parametrize("time", ["", "12", "1:2:3:4", "-1:00", "99999999999:00", "一:二"])
def test_other_times_raise(time):
    with pytest.raises(ValueError, match="expected a time"):
        clock_seconds(time)
