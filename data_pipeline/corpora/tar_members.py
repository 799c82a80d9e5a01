"""Find the files in tar archives that are not compressed, so that each can be read where it lies."""

from __future__ import annotations

import tarfile
from dataclasses import dataclass
from pathlib import Path

from asr.audio.recording import piece_of_file
from asr.base.errors import UserError
from data_pipeline.types import LeftOut

DAMAGED = "the archive is cut off or damaged"
COMPRESSED = (".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar.zst")
NOT_IN_PLACE = "compressed archive; unpack it to .tar, since nothing in it can be read in place"
MAX_TEXT_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Member:
    """One file of an archive.

    Attributes:
        name: with the folders in the archive.
        archive: its path.
        begin: of its content, in bytes.
        num_bytes: of its content.
    """

    name: str
    archive: Path
    begin: int
    num_bytes: int

    @property
    def path(self) -> str:
        """Return the path by which `read_audio` reads it."""
        return piece_of_file(self.archive, self.begin, self.num_bytes)

    @property
    def where(self) -> str:
        """Return the archive and the name, for display."""
        return f"{self.archive}:{self.name}"

    def content(self, max_bytes: float = MAX_TEXT_BYTES) -> bytes:
        """Return a transcript's bytes.

        Raises:
            UserError: it is larger than a transcript, or cannot be read.
        """
        if self.num_bytes > max_bytes:
            raise UserError(f"{self.where}: {self.num_bytes:,} bytes, which is no transcript")
        try:
            with self.archive.open("rb") as file:
                file.seek(self.begin)
                return file.read(self.num_bytes)
        except OSError as error:
            raise UserError(f"{self.where}: cannot read this file ({error.strerror})") from None


def members_of(archive: Path) -> tuple[list[Member], list[LeftOut]]:
    """Return the files of an archive, without hidden ones, and why the rest of it cannot be used.

    Raises:
        UserError: it cannot be opened, or is not a tar archive.
    """
    found: list[Member] = []
    left_out: list[LeftOut] = []
    try:
        size = archive.stat().st_size
        with tarfile.open(archive, "r:") as tar:
            for member in tar:
                if not member.isreg() or member.issparse() or Path(member.name).name.startswith("."):
                    continue
                if member.offset_data + member.size > size:
                    left_out.append(LeftOut(f"{archive}:{member.name}", DAMAGED))
                else:
                    found.append(Member(member.name, archive, member.offset_data, member.size))
            # tarfile ends without an error at a header that is damaged or cut off; an archive ends in zeros
            if not left_out and _block_at(archive, tar.offset) != bytes(tarfile.BLOCKSIZE):
                left_out.append(LeftOut(str(archive), DAMAGED, f"after {found[-1].name}" if found else ""))
    except OSError as error:
        raise UserError(f"{archive}: cannot read this archive ({error.strerror})") from None
    except (tarfile.TarError, ValueError) as error:
        if not found:
            raise UserError(
                f"{archive}: not a tar archive, or a damaged one ({error}); copy it again"
            ) from None
        left_out.append(LeftOut(str(archive), DAMAGED, f"after {found[-1].name}: {error}"))
    return found, left_out


def _block_at(archive: Path, begin: int) -> bytes:
    with archive.open("rb") as file:
        file.seek(begin)
        return file.read(tarfile.BLOCKSIZE)
