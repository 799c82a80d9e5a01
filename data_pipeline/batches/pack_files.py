"""Write and read the files of a pack: TFRecord, or tar as WebDataset has it.

with open_pack_file(Path("packed/train.jsonl-00000.part"), "tar") as file:
    begin = file.add(utterance, audio)
for entry in pack_entries(Path("packed/train.jsonl-00000.tar")):
    print(entry.fields["id"], entry.begin, entry.num_bytes)
"""

from __future__ import annotations

import dataclasses
import io
import json
import math
import re
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

from asr.base.errors import UserError
from asr.base.types import Utterance
from data_pipeline.corpora.tar_members import members_of

PackFormat: TypeAlias = Literal["tfrecord", "tar"]
FIELDS = ("id", "text", "tokens", "speaker")
BY_MACHINE = "labelled_by"  # only in tar, which `asr prepare` reads
HEADER_BYTES, FOOTER_BYTES = 12, 4  # of a TFRecord around its data: length and checksums
NAME = re.compile(r"[A-Za-z0-9][\w-]*", re.ASCII)  # an id that may name a file; WebDataset cuts it at a dot
SUFFIXES = {b"fLaC": "flac", b"OggS": "ogg", b"RIFF": "wav"}  # by a recording's first bytes


class PackEntry(NamedTuple):
    """A recording in a file of a pack.

    Attributes:
        fields: what `fields_of` returns.
        begin: of the audio in the file, in bytes.
        num_bytes: of the audio.
    """

    fields: Mapping[str, Any]
    begin: int
    num_bytes: int


class PackFile(Protocol):
    """A file of a pack that is being written; errors are an OSError or a TensorFlow error."""

    @property
    def num_bytes(self) -> int:
        """Return how much is written."""

    def add(self, utterance: Utterance, audio: bytes) -> int:
        """Write a recording, and return where its audio begins."""

    def close(self) -> None:
        """Complete the file."""


def open_pack_file(path: Path, kind: PackFormat, number: int) -> PackFile:
    """Return a new file of a pack.

    Args:
        path: of the file.
        kind: its format.
        number: of the recordings in the files before it.
    """
    return _TarFile(path, number) if kind == "tar" else _TFRecordFile(path)


def pack_entries(path: Path) -> Iterator[PackEntry]:
    """Yield the recordings of a complete file of a pack.

    Raises:
        ValueError: the file is damaged, or no file of a pack.
    """
    yield from _tar_entries(path) if path.suffix == ".tar" else _tfrecord_entries(path)


def fields_of(utterance: Utterance, kind: PackFormat) -> dict[str, Any]:
    """Return what the files of a pack keep of an utterance besides its audio."""
    tokens = " ".join(utterance.tokens)
    values = (utterance.id, utterance.text, tokens, utterance.speaker)
    fields = dict(zip(FIELDS, values, strict=True))
    if kind == "tfrecord" or utterance.labelled_by is None:
        return fields
    return {**fields, BY_MACHINE: dataclasses.asdict(utterance.labelled_by)}


class _TFRecordFile:
    def __init__(self, path: Path) -> None:
        import tensorflow as tf

        self._num_bytes = 0
        self._writer = tf.io.TFRecordWriter(str(path))

    @property
    def num_bytes(self) -> int:
        return self._num_bytes

    def add(self, utterance: Utterance, audio: bytes) -> int:
        example = _example(utterance, audio)
        self._writer.write(example)
        begin = self._num_bytes + HEADER_BYTES + example.index(audio)
        self._num_bytes += HEADER_BYTES + len(example) + FOOTER_BYTES
        return begin

    def close(self) -> None:
        self._writer.close()


def _example(utterance: Utterance, audio: bytes) -> bytes:
    import tensorflow as tf

    fields = fields_of(utterance, "tfrecord")
    values = {"audio": audio, **{name: value.encode() for name, value in fields.items()}}
    features = {
        name: tf.train.Feature(bytes_list=tf.train.BytesList(value=[value])) for name, value in values.items()
    }
    serialized: bytes = tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString(
        deterministic=True
    )
    return serialized


def _tfrecord_entries(path: Path) -> Iterator[PackEntry]:
    import tensorflow as tf

    position = 0
    try:
        for record in tf.data.TFRecordDataset(str(path)):
            data = record.numpy()
            values = tf.train.Example.FromString(data).features.feature
            audio, *fields = (values[name].bytes_list.value[0] for name in ("audio", *FIELDS))
            begin = position + HEADER_BYTES + data.index(audio)
            yield PackEntry(
                dict(zip(FIELDS, (field.decode() for field in fields), strict=True)), begin, len(audio)
            )
            position += HEADER_BYTES + len(data) + FOOTER_BYTES
    except (tf.errors.OpError, IndexError) as error:
        raise ValueError(f"{path}: {error}") from None


class _TarFile:
    def __init__(self, path: Path, number: int) -> None:
        self._number = number
        self._tar: Any = tarfile.open(path, "w", format=tarfile.GNU_FORMAT)  # noqa: SIM115 (`close` does)

    @property
    def num_bytes(self) -> int:
        return int(self._tar.offset)

    def add(self, utterance: Utterance, audio: bytes) -> int:
        # an id that cannot name a file is only in the JSON
        name = utterance.id if NAME.fullmatch(utterance.id) else f"_{self._number:08d}"
        self._number += 1
        described = json.dumps(fields_of(utterance, "tar"), ensure_ascii=False)
        self._write(f"{name}.json", described.encode())
        return self._write(f"{name}.{SUFFIXES.get(audio[:4], 'wav')}", audio)

    def _write(self, name: str, content: bytes) -> int:
        member = tarfile.TarInfo(name)  # dated 1970, so that equal corpora are equal files
        member.size = len(content)
        self._tar.addfile(member, io.BytesIO(content))
        padded = -(-len(content) // tarfile.BLOCKSIZE) * tarfile.BLOCKSIZE
        return int(self._tar.offset) - padded

    def close(self) -> None:
        self._tar.close()


def _tar_entries(path: Path) -> Iterator[PackEntry]:
    try:
        members, damaged = members_of(path)
    except UserError as error:
        raise ValueError(str(error)) from None
    if damaged or len(members) % 2:
        raise ValueError(f"{path}: cut off or damaged")
    for described, audio in zip(members[::2], members[1::2], strict=True):
        if PurePosixPath(described.name).stem != PurePosixPath(audio.name).stem:
            raise ValueError(f"{path}: {described.name} is not of {audio.name}")
        try:
            content = dict(json.loads(described.content(max_bytes=math.inf)))
        except (UserError, TypeError) as error:
            raise ValueError(f"{described.where}: {error}") from None
        fields = {name: str(content.get(name, "")) for name in FIELDS}
        label = {BY_MACHINE: content[BY_MACHINE]} if BY_MACHINE in content else {}
        yield PackEntry({**fields, **label}, audio.begin, audio.num_bytes)
