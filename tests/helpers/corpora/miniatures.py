"""Make the archives of public corpora in miniature: names and layouts of the originals, a few real clips."""

import dataclasses
import hashlib
import io
import json
import tarfile
import urllib.parse
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import soundfile

from asr.audio.recording import SAMPLE_RATE_HZ, read_audio
from asr.base.text.pinyin import without_tone
from asr.base.types import Utterance
from data_pipeline.corpora import find_corpus
from data_pipeline.types import Archive, Corpus

NUM_TRAIN, NUM_DEV = 8, 2

Members = list[tuple[str, bytes]]


def tar_gz(members: Iterable[tuple[str, bytes]]) -> bytes:
    """Return a tar.gz file of these files."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz", compresslevel=1) as tar:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return stream.getvalue()


def miniature(name: str, clips: Sequence[Utterance]) -> tuple[Corpus, dict[str, bytes]]:
    """Return a public corpus whose archives hold the clips, and each archive by its path on a server."""
    corpus = find_corpus(name)
    train = clips[:NUM_TRAIN]  # the others are of these, as tokens that nothing trained would be refused
    splits = {"train": train, "dev": train[:NUM_DEV], "test": train[NUM_DEV:][:NUM_DEV]}
    archives = ARCHIVES[name](splits)
    published = [urllib.parse.urlsplit(archive.url).path for archive in corpus.archives]
    contents = dict(zip(published, archives, strict=True))
    of_here = [
        Archive(archive.url, hashlib.md5(content).hexdigest() if archive.md5 else "")
        for archive, content in zip(corpus.archives, archives, strict=True)
    ]
    size_gb = sum(map(len, archives)) / 1e9
    small = dataclasses.replace(corpus, archives=tuple(of_here), size_gb=size_gb, hours=0)
    return small, contents


def _audio(clip: Utterance) -> bytes:
    return Path(clip.audio_path).read_bytes()


def _flac(clip: Utterance) -> bytes:
    stream = io.BytesIO()
    soundfile.write(stream, read_audio(clip.audio_path), SAMPLE_RATE_HZ, format="FLAC")
    return stream.getvalue()


def _thchs30(splits: Mapping[str, Sequence[Utterance]]) -> list[bytes]:
    members: Members = []
    for split, clips in splits.items():
        for number, clip in enumerate(clips):
            name = f"{split[0].upper()}{len(clips)}_{number}.wav"
            trn = f"{' '.join(clip.text)}\n{' '.join(clip.tokens)}\nx x x\n"
            members += [(f"data/{name}", _audio(clip)), (f"data/{name}.trn", trn.encode())]
            members += [
                (f"{split}/{name}", _audio(clip)),
                (f"{split}/{name}.trn", f"../data/{name}.trn\n".encode()),
            ]
    return [tar_gz((f"data_thchs30/{name}", content) for name, content in members)]


def _aishell1(splits: Mapping[str, Sequence[Utterance]]) -> list[bytes]:
    members: Members = []
    lines: list[str] = []
    for speaker, (split, clips) in zip(("S0002", "S0724", "S0764"), splits.items(), strict=True):
        names = [f"BAC009{speaker}W{number:04}" for number in range(len(clips))]
        lines += [f"{name} {clip.text}" for name, clip in zip(names, clips, strict=True)]
        packed = [
            (f"{split}/{speaker}/{name}.wav", _audio(clip)) for name, clip in zip(names, clips, strict=True)
        ]
        members.append((f"wav/{speaker}.tar.gz", tar_gz(packed)))
    members.append(("transcript/aishell_transcript_v0.8.txt", "\n".join(lines).encode()))
    return [tar_gz((f"data_aishell/{name}", content) for name, content in members)]


def _st_cmds(splits: Mapping[str, Sequence[Utterance]]) -> list[bytes]:
    members: Members = []
    for number, clip in enumerate(splits["train"]):
        name = f"20170001P{number:05}A0001"
        members += [(f"{name}.wav", _audio(clip)), (f"{name}.txt", clip.text.encode())]
    return [tar_gz((f"ST-CMDS-20170001_1-OS/{name}", content) for name, content in members)]


def _primewords(splits: Mapping[str, Sequence[Utterance]]) -> list[bytes]:
    members: Members = []
    records = []
    for number, clip in enumerate(splits["train"]):
        file = f"{number:08x}-c450-4ec6-ae77-d1e8a6a57897.wav"
        records.append({"id": str(number), "file": file, "user_id": str(number), "text": clip.text})
        members.append((f"audio_files/{file[0]}/{file[:2]}/{file}", _audio(clip)))
    members.append(("set1_transcript.json", json.dumps(records).encode()))
    return [tar_gz((f"primewords_md_2018_set1/{name}", content) for name, content in members)]


def _magicdata(splits: Mapping[str, Sequence[Utterance]]) -> list[bytes]:
    archives = []
    for split, clips in splits.items():
        rows, members = ["UtteranceID\tSpeakerID\tTranscription"], []
        for number, clip in enumerate(clips):
            speaker = f"{len(archives)}_{number}"
            rows.append(f"{speaker}_2017.wav\t{speaker}\t{clip.text}")
            members.append((f"{split}/{speaker}/{speaker}_2017.wav", _audio(clip)))
        archives.append(tar_gz([(f"{split}/TRANS.txt", "\n".join(rows).encode()), *members]))
    return archives


def _librispeech(splits: Mapping[str, Sequence[Utterance]]) -> list[bytes]:
    """Return the seven parts; the words are the syllables of the clips, so that the text is what is said."""
    of_part = {
        "train-clean-100": splits["train"][:4],
        "train-clean-360": splits["train"][4:6],
        "train-other-500": splits["train"][6:],
        "dev-clean": splits["dev"][:1],
        "dev-other": splits["dev"][1:],
        "test-clean": splits["test"][:1],
        "test-other": splits["test"][1:],
    }
    archives = []
    for speaker, (part, clips) in enumerate(of_part.items(), start=10):
        folder, chapter = f"LibriSpeech/{part}/{speaker}/7", f"{speaker}-7"
        lines = [
            f"{chapter}-{number:04} {' '.join(map(without_tone, clip.tokens)).upper()}"
            for number, clip in enumerate(clips)
        ]
        members = [(f"{folder}/{chapter}-{number:04}.flac", _flac(clip)) for number, clip in enumerate(clips)]
        archives.append(tar_gz([*members, (f"{folder}/{chapter}.trans.txt", "\n".join(lines).encode())]))
    return archives


ARCHIVES = {
    "thchs30": _thchs30,
    "aishell1": _aishell1,
    "st_cmds": _st_cmds,
    "primewords": _primewords,
    "magicdata": _magicdata,
    "librispeech": _librispeech,
}
