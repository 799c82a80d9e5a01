"""What a binary file of KenLM says of itself, and what is said where it is not as it should be.

Format version 5 of github.com/kpu/kenlm (lm/binary_format.cc): numbers that prove the machine's ways of
writing them, then order, kind and counts.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

from asr.base.types import UserError
from asr.language.ngram.model import MAX_ORDER

ANY_VERSION = b"mmap lm http://kheafield.com/code"
VERSION = ANY_VERSION + b" format version 5\n"
# what another byte order or another floating point format would spell otherwise
SANITY = VERSION.ljust(56, b"\0") + struct.pack("<3f2IIQ", 0, 1, -0.5, 1, 0xFFFFFFFF, 0, 1)
FIXED = struct.Struct("<B3xfIB3xI")  # order, multiplier, kind, whether the words are there, kind's version
PROBING = 0
KINDS = ("probing", "rest probing", "trie", "quantised trie", "array trie", "quantised array trie")
KIND_VERSIONS = (0, None, 1, 1, 1, 1)  # that are read here
QUANTISED, ARRAYS = (3, 5), (4, 5)
MOST_BUCKETS_PER_ENTRY = 1000.0
REBUILD = "make it again from the ARPA file with KenLM's `build_binary probing`"
COPY = "copy or make the file again"


@dataclass(frozen=True, slots=True)
class Header:
    """What a KenLM file says of itself.

    Attributes:
        kind: place in `KINDS`.
        buckets_per_entry: room in its hash tables.
        counts: number of n-grams of each order.
        size_bytes: of the header.
    """

    kind: int
    buckets_per_entry: float
    counts: tuple[int, ...]
    size_bytes: int


def is_kenlm(beginning: bytes) -> bool:
    """Whether a file that begins so was made by KenLM, of whatever version."""
    return beginning.startswith(ANY_VERSION)


def read_header(path: Path) -> Header:
    """What a file says of itself.

    Raises:
        UserError: it cannot be read, or is of a kind that is not read here.
    """
    try:
        with path.open("rb") as file:
            beginning = file.read(len(SANITY) + FIXED.size + 8 * MAX_ORDER)
    except OSError as error:
        raise UserError(f"{path}: cannot read this language model ({error.strerror})") from None
    _check_version(path, beginning)
    order, multiplier, kind, has_words, version = FIXED.unpack_from(beginning, len(SANITY))
    if kind >= len(KINDS) or version != KIND_VERSIONS[kind]:
        name = KINDS[kind] if kind < len(KINDS) else f"kind {kind}"
        raise unfit(path, "a probing or trie file of KenLM as it is today", f"{name}, version {version}")
    if not 2 <= order <= MAX_ORDER:
        raise unfit(path, f"an order from 2 to {MAX_ORDER}", str(order), "train or prune to such an order")
    if not 1.0 <= multiplier <= MOST_BUCKETS_PER_ENTRY:
        raise unfit(path, "a sensible size of hash tables", f"{multiplier} times their entries", COPY)
    if not has_words:
        raise unfit(path, "the words at the end of the file", "none", f"{REBUILD}, with the words in it")
    end = len(SANITY) + FIXED.size + 8 * order
    if len(beginning) < end:
        raise truncated(path, end, len(beginning))
    counts = struct.unpack_from(f"<{order}Q", beginning, len(SANITY) + FIXED.size)
    return Header(kind, multiplier, counts, aligned(end))


def _check_version(path: Path, beginning: bytes) -> None:
    if not beginning.startswith(VERSION):
        said = beginning.partition(b"\n")[0].removeprefix(ANY_VERSION).decode(errors="replace").strip()
        raise unfit(path, "a KenLM file of format version 5, built to its end", repr(said))
    if len(beginning) < len(SANITY) + FIXED.size:
        raise truncated(path, len(SANITY) + FIXED.size, len(beginning))
    if not beginning.startswith(SANITY):
        raise unfit(path, "numbers as a 64-bit little-endian machine writes them", "those of another one")


def header_of(counts: tuple[int, ...], buckets_per_entry: float) -> bytes:
    """The header of a probing file."""
    fixed = FIXED.pack(len(counts), buckets_per_entry, PROBING, True, KIND_VERSIONS[PROBING])
    header = SANITY + fixed + struct.pack(f"<{len(counts)}Q", *counts)
    return header.ljust(aligned(len(header)), b"\0")


def aligned(size_bytes: int) -> int:
    """A size, rounded up to a multiple of eight."""
    return (size_bytes + 7) // 8 * 8


def truncated(path: Path, expected_bytes: int, received_bytes: int) -> UserError:
    """The error of a file that ends too early."""
    return unfit(path, f"at least {expected_bytes:,} bytes", f"{received_bytes:,}: it is truncated", COPY)


def unfit(path: Path, expected: str, received: str, remedy: str = REBUILD) -> UserError:
    """The error of a file that is not as it should be."""
    return UserError(f"{path}: expected {expected}, received {received}; {remedy}")
