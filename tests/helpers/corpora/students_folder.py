"""Makes a student's folder: a phone's recordings and the texts as they come to hand, in one folder."""

import io
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soundfile

from asr.audio.recording import SAMPLE_RATE_HZ, read_audio
from asr.base.text.subtitles import Interval, write_srt
from asr.base.text.textgrid import write_textgrid
from helpers.corpora.forms import write

PAUSE_S = 0.5


@dataclass(frozen=True)
class Spoken:
    """A recording and its text."""

    path: Path
    text: str


@dataclass(frozen=True)
class StudentsFolder:
    """What was put into a folder.

    Attributes:
        path: of the folder.
        texts: of all recordings that can be used, some of them parts of a file.
        unusable: names of recordings that cannot be used, and of texts without a recording.
    """

    path: Path
    texts: list[str]
    unusable: set[str]


def build(path: Path, words: Sequence[Spoken], sentences: Sequence[Spoken], num_media: int) -> StudentsFolder:
    """Write a student's folder.

    Args:
        path: of the folder.
        words: recordings that get their text as their name.
        sentences: one is in a TextGrid and subtitles as often as others are in a table; at least 20.
        num_media: how many sentences are m4a files, and whether the film is one (PyAV); 0 for none.
    """
    tabled, others = sentences[: -10 - num_media], list(sentences[-10 - num_media :])
    for word in words:
        _mp3(word.path, path / "词语" / f"{word.text}.mp3")
    rows = ["序号,文件名,内容,说话人"]
    for number, sentence in enumerate(tabled, start=1):
        _mp3(sentence.path, path / "录音 2024-03-01 (final) copy" / f"新录音 {number}.mp3")
        rows.append(f'{number},新录音 {number}.mp3,"{sentence.text}",小明')
    write(path / "录音表.csv", "\n".join(rows) + "\n", encoding="gb18030", newline="\r\n")

    waveform, intervals = _joined(others[:5])
    (path / "标注").mkdir()
    soundfile.write(path / "标注" / "朗读.wav", waveform, SAMPLE_RATE_HZ)
    tiers = {"syllables": _halves(intervals), "句子": intervals}
    textgrid = write_textgrid(tiers, len(waveform) / SAMPLE_RATE_HZ)
    write(path / "标注" / "朗读.TextGrid", textgrid, encoding="utf-16")

    waveform, intervals = _joined(others[5:10])
    (path / "视频").mkdir()
    film = path / "视频" / ("VID_20240301_101112.mp4" if num_media else "VID_20240301_101112.wav")
    write_media(film, waveform)
    subtitles = write_srt(Interval(i.start_s, i.end_s, f"<i>{i.label}</i>") for i in intervals)
    write(film.with_suffix(".srt"), "\ufeff" + subtitles, newline="\r\n")
    (path / "手机").mkdir()
    for number, sentence in enumerate(others[10:], start=1):
        write_media(path / "手机" / f"新录音{number}.m4a", read_audio(sentence.path))
        write(
            path / "手机" / f"新录音{number}.txt",
            sentence.text,
            encoding="gb18030" if number % 2 else "utf-8",
        )

    _mp3(words[0].path, path / "词语" / "新录音 3.mp3")  # without a text
    _mp3(words[0].path, path / "REC_0001.mp3")
    (path / "词语" / "坏.mp3").write_bytes(b"this is no sound at all" * 100)
    write(path / "说明.txt", "这些是我的录音")
    used = [*words, *sentences]
    return StudentsFolder(
        path,
        [one.text for one in used],
        {"新录音 3.mp3", "REC_0001.mp3", "坏.mp3", "说明.txt"},
    )


def write_media(path: Path, waveform: np.ndarray) -> None:
    """Write (S,) int16 at 16 kHz as WAV, or as AAC in MP4 by PyAV."""
    if path.suffix == ".wav":
        soundfile.write(path, waveform, SAMPLE_RATE_HZ)
        return
    import av

    with av.open(str(path), "w", format="mp4") as container:
        stream = container.add_stream("aac", rate=SAMPLE_RATE_HZ, layout="mono")
        frame = av.AudioFrame.from_ndarray(waveform[None], format="s16", layout="mono")
        frame.sample_rate = SAMPLE_RATE_HZ
        for packet in [*stream.encode(frame), *stream.encode(None)]:
            container.mux(packet)


def _mp3(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.suffix == ".mp3":
        shutil.copyfile(source, target)
        return
    data = io.BytesIO()
    soundfile.write(data, read_audio(source), SAMPLE_RATE_HZ, format="MP3")
    target.write_bytes(data.getvalue())


def _joined(sentences: Sequence[Spoken]) -> tuple[np.ndarray, list[Interval]]:
    """Return recordings one after the other with pauses between them, (S,) int16, and where each is."""
    pieces, intervals, now_s = [], [], 0.0
    for sentence in sentences:
        waveform = read_audio(sentence.path)
        end_s = now_s + len(waveform) / SAMPLE_RATE_HZ
        intervals.append(Interval(now_s, end_s, sentence.text))
        pieces += [waveform, np.zeros(int(PAUSE_S * SAMPLE_RATE_HZ), np.int16)]
        now_s = end_s + PAUSE_S
    return np.concatenate(pieces), intervals


def _halves(intervals: Sequence[Interval]) -> list[Interval]:
    """Return two syllables for each interval."""
    middles = [(interval.start_s + interval.end_s) / 2 for interval in intervals]
    return [
        half
        for interval, middle in zip(intervals, middles, strict=True)
        for half in (Interval(interval.start_s, middle, "ni3"), Interval(middle, interval.end_s, "hao3"))
    ]
