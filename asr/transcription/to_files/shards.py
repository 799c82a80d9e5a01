"""Divides a transcription among the jobs of an array, and puts their results together.

transcribe_to_file(recognizer, sources, out, "jsonl", shard=Shard.read("3/16"))
...
merge_shards(out)  # once all sixteen are written

Beside the results of a shard, `all-3-of-16.jsonl`, is what they were made of, `all-3-of-16.jsonl.shard`, so
that no shard of other recordings, of another model or of an earlier time is merged.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import re
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from asr.base.errors import UserError
from asr.base.system.files import read_lines, sha256_of, whole_file
from asr.base.text.wording import counted, listed
from asr.transcription.file_recognizer import file_chunks
from asr.transcription.formats import CSV_COLUMNS, ListFormat
from asr.transcription.to_files.journal import SUFFIX, journal_path

INFO = ".shard"  # appended to the name of a shard
MIN_CHUNKS = 8  # of a shard, or some would get twice as much as others
MAX_LISTED = 5
CSV_HEADER = (",".join(CSV_COLUMNS) + "\n").encode()


@dataclass(frozen=True)
class Shard:
    """One of several jobs that share a transcription.

    Attributes:
        number: counted from 1.
        count: of all shards.
    """

    number: int
    count: int

    @classmethod
    def read(cls, text: str) -> Shard:
        """Return the shard of a text such as `3/16`.

        Raises:
            UserError: it is another text.
        """
        match = re.fullmatch(r"(\d{1,6})/(\d{1,6})", text)
        shard = cls(*map(int, match.groups())) if match else cls(0, 0)
        if not 1 <= shard.number <= shard.count:
            raise UserError(f"`shard={text}`: expected a number and how many there are, such as 3/16")
        return shard

    def of(self, sources: Sequence[Path]) -> list[Path]:
        """Return the recordings of this shard: neighbours, and whole chunks where there are enough of them.

        A chunk that is read at once by one device has the same scores, to the last digit, as without shards.

        Args:
            sources: all recordings, the same for all shards.
        """
        chunks = file_chunks(sources, 1)  # whatever devices a job has, or shards would not fit together
        if len(chunks) < MIN_CHUNKS * self.count:
            chunks = [[source] for source in sources]
        begin, end = ((number * len(chunks)) // self.count for number in (self.number - 1, self.number))
        return list(itertools.chain.from_iterable(chunks[begin:end]))

    def path(self, out: Path) -> Path:
        """Return the file of this shard's results: `all-3-of-16.jsonl` for `all.jsonl`."""
        return out.with_name(f"{out.stem}-{self.number}-of-{self.count}{out.suffix}")


@dataclass(frozen=True)
class ShardInfo:
    """What the results of a shard were made of.

    Attributes:
        recordings: digest of the names and sizes of all recordings, those of other shards too.
        model: digest of the model and its decoder.
        format_name: of the results.
        results: digest of the file of the results.
    """

    recordings: str
    model: str
    format_name: ListFormat
    results: str

    @classmethod
    def of(cls, path: Path, sources: Sequence[Path], model: str, format_name: ListFormat) -> ShardInfo:
        """Return what a shard's results, just written to a path, were made of."""
        recordings = hashlib.sha256()
        for source in sources:
            size = source.stat().st_size if source.is_file() else 0
            recordings.update(f"{source}\0{size}\0".encode(errors="backslashreplace"))
        return cls(recordings.hexdigest(), model, format_name, sha256_of(path).hex())

    @classmethod
    def read(cls, path: Path) -> ShardInfo:
        """Return what the results at a path were made of.

        Raises:
            UserError: nothing says so, or it is of other results.
        """
        about = path.with_name(path.name + INFO)
        try:
            info = cls(**json.loads("\n".join(read_lines(about, "description of a shard"))))
        except (ValueError, TypeError):
            raise UserError(f"{about}: damaged; run this job again") from None
        if info.results != sha256_of(path).hex():
            raise UserError(f"{path}: changed since it was written; run this job again")
        return info

    def write(self, path: Path) -> None:
        """Write the description of the results at a path beside them."""
        with whole_file(path.with_name(path.name + INFO), "description of a shard") as file:
            file.write(json.dumps(asdict(self), indent=1).encode())


def merge_shards(out: Path) -> int:
    """Write the results of all shards to one file, in order, and return the number of shards.

    Args:
        out: the file that was named for the shards; theirs are beside it, and stay.

    Raises:
        UserError: there are none, one is missing, unfinished, or of other recordings or another model than
            the first, or the file cannot be written.
    """
    shards = _shards_beside(out)
    paths = [shard.path(out) for shard in shards]
    _refuse_missing(out, paths)
    first, *others = (ShardInfo.read(path) for path in paths)
    for path, info in zip(paths[1:], others, strict=True):
        for what, its, expected in (
            ("other recordings", info.recordings, first.recordings),
            ("another model or decoder", info.model, first.model),
            ("another format", info.format_name, first.format_name),
        ):
            if its != expected:
                raise UserError(f"{path}: of {what} than {paths[0].name}; run these jobs again alike")
    header = CSV_HEADER if first.format_name == "csv" else b""
    with whole_file(out, "list of transcripts") as target:
        target.write(header)
        for path in paths:
            with path.open("rb") as source:
                source.seek(len(header))
                shutil.copyfileobj(source, target)
    return len(shards)


def _refuse_missing(out: Path, paths: Sequence[Path]) -> None:
    unfinished = [path.name for path in paths if journal_path(path).exists()]
    missing = [path.name for path in paths if not path.exists() or path.name in unfinished]
    if missing:
        raise UserError(
            f"{out}: {len(missing):,} of {counted(len(paths), 'shard')} missing or not finished "
            f"({listed(missing, MAX_LISTED)}); run these jobs, then merge again"
        )


def _shards_beside(out: Path) -> list[Shard]:
    """Return the shards, those that are missing among them, by the files beside a path."""
    name = re.compile(rf"{re.escape(out.stem)}-(\d+)-of-(\d+){re.escape(out.suffix)}(?:{re.escape(SUFFIX)})?")
    folder = out.parent
    names = (path.name for path in folder.iterdir()) if folder.is_dir() else ()
    counts = sorted({int(match[2]) for one in names if (match := name.fullmatch(one))})
    if len(counts) != 1:
        example = Shard(1, 16).path(out).name
        others = f"some of {' and of '.join(map(str, counts))}; remove those of one division"
        raise UserError(
            f"{out}: expected shards beside it, such as {example}, found {others if counts else 'none'}"
        )
    return [Shard(number, counts[0]) for number in range(1, counts[0] + 1)]
