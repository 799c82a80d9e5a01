"""Build small trees of six Chinese corpora in their real layouts, with the irregularities of the originals.

Each builder writes one below a folder and returns the folder that a user would name. `EXPECTED` holds what
reading finds there: ids by split, and how many are left out for each reason.

The tones are fine to train on: half a second and longer, another pitch for every file.
"""

import collections
import gzip
import io
import json
import os
import tarfile
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import soundfile

RATE_HZ = 16000
BYTE_ORDER_MARK = "\ufeff"
FULL_WIDTH_SPACE = "\u3000"
CRLF = "\r\n"


def build_thchs30(folder: Path) -> Path:
    """Write four usable recordings, both kinds of link files, and ü, a missing tone, a merged er."""
    root = folder / "data_thchs30"
    transcripts = {
        "A11_0": ("绿 是 阳春 烟 景", "lv4 shi4 yang2 chun1 yan1 jing3", "l v4 sh ix4 ii iang2"),
        "A11_1": ("他 去 旅 行 l = 了", "ta1 qu4 lü3 xing2 le", "t a1 q v4 l v3 x ing2 l e5"),
        "B22_7": ("一 块 儿 吃 侵略", "yi2 kuair4 chi1 qin1 lue4", "ii i2 k uai4"),
        "C4_250": ("二 哥", "er4 ge1", "ee er4 g e1"),
        "C4_251": ("没 有 链接", "mei2 you3 lian4 jie1", "m ei2"),
        "C4_252": ("不 是 拼音", "bu2 shi4 pxn1", "b u2"),
        "D4_752": ("哪 里 都 没有", "na3 li3 dou1 mei2 you3", "n a3"),
        "D4_753": ("", "kong1", "k ong1"),
    }
    for name, lines in transcripts.items():
        sound(root / "data" / f"{name}.wav")
        mark = BYTE_ORDER_MARK if name == "A11_1" else ""
        end = CRLF if name == "B22_7" else "\n"
        write(root / "data" / f"{name}.wav.trn", mark + end.join(lines) + end)
    (root / "data" / "C4_251.wav.trn").unlink()
    sound(root / "data" / "D4_999.wav")

    in_split = {
        "train": ("A11_0", "A11_1", "C4_251"),
        "dev": ("B22_7", "C4_252"),
        "test": ("C4_250", "D4_753"),
    }
    for split, names in in_split.items():
        for name in names:
            sound(root / split / f"{name}.wav")
            write(root / split / f"{name}.wav.trn", f"../data/{name}.wav.trn\n")
    link = root / "train" / "A11_0.wav.trn"  # where the archive was unpacked with real links
    link.unlink()
    link.symlink_to("../data/A11_0.wav.trn")
    for place in ("data", "test"):
        (root / place / "C4_250.wav").rename(root / place / "C4_250.WAV")
    write(root / "dev" / "B22_7.wav", "../data/B22_7.wav")  # a link, where a system has none
    sound(root / "test" / "D4_800.wav")
    write(root / "test" / "D4_801.wav.trn", "../data/D4_801.wav.trn\n")
    litter(root / "train", "._A11_0.wav")
    write(root / "lm_word" / "lexicon.txt", "绿 l v4\n")
    write(root / "README.TXT", "THCHS-30\n")
    return root


def build_st_cmds(folder: Path) -> Path:
    """Write six usable recordings of two speakers who share a number; the texts end without a line break."""
    root = folder / "ST-CMDS-20170001_1-OS"
    transcripts = {
        "20170001P00001A0001": "二毛你今天没课嘛",
        "20170001P00001A0002": f"{BYTE_ORDER_MARK}还喝{FULL_WIDTH_SPACE}里下聊天{CRLF}",
        "20170001P00001I0001": "你好，世界。",
        "20170001P00001I0002": "今天天气怎么样",
        "20170001P00255A0120": "打开K歌软件",
        "20170001P00255A0119": "有三个人",
        "20170001P00255A0118": f" {FULL_WIDTH_SPACE}\n",
    }
    for name, text in transcripts.items():
        sound(root / f"{name}.wav")
        write(root / f"{name}.metadata", "SEX\tMale\n")
        write(root / f"{name}.txt", text)
    (root / "20170001P00001I0002.wav").rename(root / "20170001P00001I0002.WAV")
    (root / "20170001P00255A0119.txt").write_bytes("有三个人".encode("gb18030"))
    sound(root / "20170001P00300A0001.wav")
    write(root / "20170001P00300A0002.txt", "没有声音")
    sound(root / "silence.wav")
    write(root / "README.txt", "ST-CMDS")
    litter(root, "._20170001P00001A0001.wav", "._20170001P00001A0001.txt")
    return folder


def build_aishell1(folder: Path, *, packed: bool = True) -> Path:
    """Write five usable recordings of three speakers, as downloaded or unpacked in place."""
    root = folder / "data_aishell"
    audio = {
        "train/S0002": ("BAC009S0002W0122", "BAC009S0002W0123", "BAC009S0002W0124"),
        "dev/S0724": ("BAC009S0724W0121", "BAC009S0724W0122"),
        "test/S0764": ("BAC009S0764W0121", "BAC009S0764W0122"),
    }
    lines = [
        f"{BYTE_ORDER_MARK}BAC009S0002W0122 而 对 楼市 成交 抑制 作用 最 大 的 限 购",
        "BAC009S0002W0123 也 成为 地方 政府 的 眼中 钉",
        "BAC009S0724W0121 广州市 房地产 中介 协会 分析",
        f"BAC009S0724W0122  ｔ 恤{FULL_WIDTH_SPACE}很 好 ",
        "BAC009S0764W0121 甚至 出现 交易 几乎 停滞 的 情况",
        "BAC009S0764W0122",
        "BAC009S0916W0495 没有 声音",
    ]
    write(root / "transcript" / "aishell_transcript_v0.8.txt", CRLF.join(lines) + CRLF)
    for place, names in audio.items():
        _speaker(root / "wav", Path(place), names, archive=root / "wav", packed=packed)
    litter(root / "wav", "._S0002.tar.gz")
    return folder


def build_aidatatang_200zh(folder: Path, *, packed: bool = True) -> Path:
    """Write four usable recordings of three speakers, as downloaded or unpacked in place."""
    root = folder / "aidatatang_200zh"
    audio = {
        "train/G0013": ("T0055G0013S0001", "T0055G0013S0002"),
        "dev/G0002": ("T0055G0002S0001",),
        "test/G0080": ("T0055G0080S0001", "T0055G0080S0002"),
    }
    lines = [
        "T0055G0013S0001 以后 你 是 男孩子",
        "T0055G0013S0002 Ａ 股 怎么样",
        "T0055G0002S0001 我 想 听 歌",
        "T0055G0080S0001 今天 几号",
        "T0055G0080S0001 今天 几号",
        "T0055G9999S0001 没有 声音",
    ]
    write(root / "transcript" / "aidatatang_200_zh_transcript.txt", "\n".join(lines) + "\n")
    for place, names in audio.items():
        split, speaker = place.split("/")
        inner = root / "corpus" / split
        _speaker(
            inner, Path(speaker), names, archive=inner, packed=packed, endings=(".txt", ".trn", ".metadata")
        )
    return root


def build_primewords(folder: Path) -> Path:
    """Write three usable recordings, and records that repeat or contradict others."""
    root = folder / "primewords_md_2018_set1"
    names = [f"{number:08x}-c450-4ec6-ae77-d1e8a6a57897" for number in (0x17E3, 0x2B3C, 0xF00D, 0xABC, 0xAB)]
    texts = ["这 是 一句 话", f"第二{FULL_WIDTH_SPACE}句", "第三句", "这样说", "  "]
    records = [
        {
            "id": f"{number}",
            "file": f"{name}.wav",
            "user_id": f"{70 + number % 2}",
            "length": "0.5",
            "text": text,
        }
        for number, (name, text) in enumerate(zip(names, texts, strict=True))
    ]
    records += [records[0] | {"id": "90"}, records[3] | {"id": "91", "text": "那样说"}]
    records += [{"id": "92", "user_id": "70"}, records[0] | {"id": "93", "file": "ffffffff-0.wav"}]
    for name in names:
        sound(root / "audio_files" / name[0] / name[:2] / f"{name}.wav")
    sound(root / "audio_files" / "1" / "10" / "10000000-1.wav")
    litter(root / "audio_files", ".DS_Store")
    write(root / "set1_transcript.json", BYTE_ORDER_MARK + json.dumps(records, ensure_ascii=False))
    return folder


def build_magicdata(folder: Path) -> Path:
    """Write five usable recordings, with noise marks, punctuation and a speaker without a transcript."""
    transcripts = {
        "train": [
            ("38_5716_20170914202211.wav", "38_5716", "请帮我打开灯。"),
            ("38_5716_20170914202212.wav", "38_5716", "[FIL]那个 [SPK] 你 好，FIL 世界"),
            ("38_5716_20170914202213.wav", "38_5716", "[SPK]。"),
            ("16_4013_20170819121429.wav", "16_4013", "坏 了"),
        ],
        "dev": [("5_541_20170614135230.wav", "5_541", f"播放{FULL_WIDTH_SPACE}音乐")],
        "test": [
            ("38_5837_20170714135230.wav", "38_5837", "几点了？"),
            ("38_5837_20170714135231.wav", "38_5837", "ＫＴＶ 在 哪 儿"),
            ("38_5837_20170714135232.wav", "38_5837", "没有 声音"),
        ],
    }
    for split, lines in transcripts.items():
        rows = ["\t".join(line) for line in [("UtteranceID", "SpeakerID", "Transcription"), *lines]]
        end = CRLF if split == "dev" else "\n"
        write(folder / split / "TRANS.txt", end.join(rows) + end)
        for file, speaker, text in lines:
            if text != "没有 声音":
                sound(folder / split / speaker / file)
    old = folder / "test" / "38_5837" / "38_5837_20170714135230.wav"
    old.rename(old.with_suffix(".WAV"))
    sound(folder / "dev" / "5_999" / "5_999_20170614135231.wav")
    litter(folder / "train" / "38_5716", "._38_5716_20170914202211.wav")
    return folder


BUILDERS: dict[str, Callable[[Path], Path]] = {
    "thchs30": build_thchs30,
    "st_cmds": build_st_cmds,
    "aishell1": build_aishell1,
    "aidatatang_200zh": build_aidatatang_200zh,
    "primewords": build_primewords,
    "magicdata": build_magicdata,
}

EXPECTED: dict[str, tuple[dict[str, set[str]], dict[str, int]]] = {
    "thchs30": (
        {"train": {"A11_0", "A11_1"}, "dev": {"B22_7"}, "test": {"C4_250"}},
        {
            "broken link file": 1,
            "invalid pinyin": 1,
            "empty transcript": 1,
            "audio without a transcript": 1,
            "transcript without audio": 1,
            "in none of the splits": 2,
        },
    ),
    "st_cmds": (
        {
            "all": {f"20170001P00001{letter}000{number}" for letter in "AI" for number in (1, 2)}
            | {"20170001P00255A0120", "20170001P00255A0119"}
        },
        {
            "empty transcript": 1,
            "audio without a transcript": 1,
            "transcript without audio": 1,
            "file name not of this corpus": 1,
        },
    ),
    "aishell1": (
        {
            "train": {"BAC009S0002W0122", "BAC009S0002W0123"},
            "dev": {"BAC009S0724W0121", "BAC009S0724W0122"},
            "test": {"BAC009S0764W0121"},
        },
        {"empty transcript": 1, "audio without a transcript": 1, "transcript without audio": 1},
    ),
    "aidatatang_200zh": (
        {
            "train": {"T0055G0013S0001", "T0055G0013S0002"},
            "dev": {"T0055G0002S0001"},
            "test": {"T0055G0080S0001"},
        },
        {
            "duplicate transcript": 1,
            "audio without a transcript": 1,
            "transcript without audio": 1,
        },
    ),
    "primewords": (
        {"all": {f"{number:08x}-c450-4ec6-ae77-d1e8a6a57897" for number in (0x17E3, 0x2B3C, 0xF00D)}},
        {
            "duplicate transcript": 1,
            "conflicting transcripts": 2,
            "empty transcript": 1,
            "record without file or text": 1,
            "transcript without audio": 1,
            "audio without a transcript": 1,
        },
    ),
    "magicdata": (
        {
            "train": {"38_5716_20170914202211", "38_5716_20170914202212"},
            "dev": {"5_541_20170614135230"},
            "test": {"38_5837_20170714135230", "38_5837_20170714135231"},
        },
        {
            "empty transcript": 1,
            "known to be damaged": 1,
            "audio without a transcript": 1,
            "transcript without audio": 1,
        },
    ),
}


def found(reading) -> tuple[dict[str, set[str]], dict[str, int]]:
    """Return a reading in the form of EXPECTED; a duplicate id within a split is an error."""
    for recordings in reading.splits.values():
        assert len({recording.id for recording in recordings}) == len(recordings)
    ids = {split: {recording.id for recording in rows} for split, rows in reading.splits.items()}
    return ids, dict(collections.Counter(item.reason for item in reading.left_out))


def sound(path: Path) -> None:
    """Write a WAV file of a tone whose pitch and length depend on its name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    checksum = zlib.crc32(path.stem.encode())
    num_samples = RATE_HZ // 2 + checksum % RATE_HZ
    wave = 0.1 * np.sin(2 * np.pi * (200 + checksum % 500) * np.arange(num_samples) / RATE_HZ)
    soundfile.write(path, wave, RATE_HZ, subtype="PCM_16")


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())


def litter(folder: Path, *names: str) -> None:
    """Write hidden files as macOS leaves them: named like audio or text, but with other contents."""
    for name in names:
        write(folder / name, "\0\5\x16\7\0\2\0\0Mac OS X")


def without_audio(folder: Path) -> None:
    """Replace each audio file by a pipe without a writer: opening one blocks forever."""
    for path in [path for path in folder.rglob("*") if path.suffix.lower() == ".wav"]:
        path.unlink()
        os.mkfifo(path)


def pack(archive: Path, files: Iterable[tuple[str, bytes]]) -> None:
    """Write a .tar.gz file of the given members, reproducible byte for byte."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    with (
        archive.open("wb") as raw,
        gzip.GzipFile(fileobj=raw, mode="wb", mtime=0) as stream,
        tarfile.open(fileobj=stream, mode="w") as tar,
    ):
        for name, data in files:
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))


def _speaker(
    base: Path, place: Path, names: Iterable[str], *, archive: Path, packed: bool, endings: Iterable[str] = ()
) -> None:
    """Write one speaker's files into `base / place` or, packed, into `archive / <speaker>.tar.gz`."""
    folder = base / place
    for name in names:
        sound(folder / f"{name}.wav")
        for ending in endings:
            write(folder / f"{name}{ending}", "也 是 文字\n")
    if packed:
        files = sorted(folder.iterdir())
        members = [(f"{place.as_posix()}/{path.name}", path.read_bytes()) for path in files]
        pack(archive / f"{place.name}.tar.gz", [*members, (f"{place.as_posix()}/._{files[0].name}", b"\0\5")])
        for path in files:
            path.unlink()
        while folder != base and not any(folder.iterdir()):
            folder.rmdir()
            folder = folder.parent
