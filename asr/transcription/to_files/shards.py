"""Divides a transcription among the jobs of an array, and puts their results together.

transcribe_to_file(recognizer, sources, out, "jsonl", shard=Shard.read("3/16"))
...
merge_shards(out)  # once all sixteen are written
"""

from __future__ import annotations

import itertools
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from asr.base.errors import UserError
from asr.base.system.files import whole_file
from asr.base.text.wording import counted, listed
from asr.transcription.formats import CSV_COLUMNS
from asr.transcription.recognizer import file_chunks
from asr.transcription.to_files.journal import SUFFIX

MAX_LISTED = 5


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

    def of(self, sources: Sequence[Path], num_devices: int) -> list[Path]:
        """Return the recordings of this shard: neighbours, and whole chunks where there are enough of them.

        A chunk that is read at once has the same scores to the last digit as without shards.

        Args:
            sources: all recordings, the same for all shards.
            num_devices: that transcribe.
        """
        chunks = file_chunks(sources, num_devices)
        if len(chunks) < self.count:
            chunks = [[source] for source in sources]
        begin, end = ((number * len(chunks)) // self.count for number in (self.number - 1, self.number))
        return list(itertools.chain.from_iterable(chunks[begin:end]))

    def path(self, out: Path) -> Path:
        """Return the file of this shard's results: `all-3-of-16.jsonl` for `all.jsonl`."""
        return out.with_name(f"{out.stem}-{self.number}-of-{self.count}{out.suffix}")


def merge_shards(out: Path) -> int:
    """Write the results of all shards to one file, in order, and return the number of shards.

    Args:
        out: the file that was named for the shards; theirs are beside it, and stay.

    Raises:
        UserError: there are none, one is missing or unfinished, or the file cannot be written.
    """
    shards = _shards_beside(out)
    paths = [shard.path(out) for shard in shards]
    if missing := [path.name for path in paths if not path.exists()]:
        unfinished = [name for name in missing if (out.parent / f"{name}{SUFFIX}").exists()]
        still = f"; {counted(len(unfinished), 'shard')} of them not yet finished" if unfinished else ""
        raise UserError(
            f"{out}: {len(missing):,} of {counted(len(shards), 'shard')} missing "
            f"({listed(missing, MAX_LISTED)}){still}; run these jobs, then merge again"
        )
    header = (",".join(CSV_COLUMNS) + "\n").encode() if out.suffix.lower() == ".csv" else b""
    with whole_file(out, "list of transcripts") as target:
        target.write(header)
        for path in paths:
            with path.open("rb") as source:
                if header and source.readline() != header:
                    raise UserError(f"{path}: expected a shard of `asr transcribe`, found another table")
                shutil.copyfileobj(source, target)
    return len(shards)


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
