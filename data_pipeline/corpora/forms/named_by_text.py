"""Decide whether a recording's name is its text: 词语/苹果.mp3, 003 今天天气很好（2）.wav.

The name is the text only if all of this is true:

- No other transcript of the recording was found, not even one that cannot be used.
- Without a number before it and the number of a take after it (苹果2, 苹果(2), 苹果_02), the name consists of
  hanzi, with punctuation and spaces between them. Names in Latin letters are titles too often.
- It is not made of a recorder's words, such as 新录音, 标准录音, 语音备忘录 or 录音.
- At least half of the recordings in its folder have such names: a single one among numbers is a title.
- The recording lasts at most 4 s and 1 s for each hanzi: 采访.mp3 of ten minutes has a title.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from asr.audio.recording import audio_duration_s
from asr.base.errors import UserError
from asr.base.text.hanzi_text import HANZI, hanzi_in

BEFORE = re.compile(r"[0-9]{1,6}[\s._\-、．]+")
TAKE = re.compile(r"[\s_\-]*(?:[0-9]{1,3}|[(（\[【][0-9]{1,3}[)）\]】])$|[\s_\-]+(?:副本|拷贝)$")
TEXT = re.compile(
    rf"[{HANZI}](?:[{HANZI}\s，。！？、；：,.!?;:~～…—·《》“”‘’\"'\-]*[{HANZI}。！？!?.…”’》])?"
)
RECORDERS_WORD = re.compile("录音|语音|音频|视频|录像|录屏|录制|备忘录|未命名|无标题|副本")
WITH_RECORDERS_WORDS = re.compile(  # atomic groups, longest words first: no backtracking
    "(?>语音备忘录|录音文件|录音机|立体声|备忘录|未命名|无标题|麦克风|新建|新的|我的|全新|标准|普通|高清|通话|电话|手机|微信|现场|课堂"
    "|会议|采访|访谈|屏幕|系统|内录|录音|语音|消息|音频|视频|录像|录屏|录制|文件|项目|轨道|片段|段落|合并|剪辑|裁剪|导出|副本|拷贝|备份"
    r"|上午|下午|新|第|号|段|条|个|年|月|日|时|分|秒|[0-9一二三四五六七八九十\s_\-()（）.:：])++"
)
PAUSES_S, SLOWEST_S = 4.0, 1.0  # around a text, and for each hanzi of it


class NameRead(NamedTuple):
    """The text that a recording's name is, or why it is none; the other is empty."""

    text: str
    why_not: str = ""


def text_in_name(stem: str) -> str:
    """Return the text that a name without its suffix may be; empty if it is none."""
    name = unicodedata.normalize("NFC", stem).strip()
    if RECORDERS_WORD.search(name) and WITH_RECORDERS_WORDS.fullmatch(name):
        return ""
    name = TAKE.sub("", BEFORE.sub("", name, count=1) if BEFORE.match(name) else name).strip()
    return name if TEXT.fullmatch(name) else ""


def read_names(recordings: Mapping[str, Path], without: Iterable[str]) -> dict[str, NameRead]:
    """Return the text that is the name of each recording without a transcript, or why it is none.

    Args:
        recordings: all recordings, by their paths without suffixes.
        without: the keys of those without any transcript.
    """
    texts = {key: text_in_name(path.stem) for key, path in recordings.items()}
    in_folder: dict[str, list[bool]] = {}
    for key, text in texts.items():
        in_folder.setdefault(key.rpartition("/")[0], []).append(bool(text))
    return {
        key: _read_name(recordings[key], texts[key], in_folder[key.rpartition("/")[0]]) for key in without
    }


def _read_name(path: Path, text: str, in_folder: list[bool]) -> NameRead:
    if not text:
        return NameRead("", "its name has other signs than hanzi, or is a recorder's")
    if 2 * sum(in_folder) < len(in_folder):
        return NameRead("", "its name is not taken for its text: most names in its folder are none")
    longest_s = PAUSES_S + SLOWEST_S * len(hanzi_in(text))
    try:
        duration_s = audio_duration_s(path)
    except UserError:  # preparation reports it
        duration_s = 0.0
    if duration_s > longest_s:
        return NameRead("", f"its name is not taken for its text: {duration_s:.0f} s are too long for {text}")
    return NameRead(text)
