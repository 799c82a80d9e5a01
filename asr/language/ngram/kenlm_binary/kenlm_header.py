"""Read and check the headers of KenLM's binary files, and make the errors for unsuitable files.

This is format version 5 of github.com/kpu/kenlm (lm/binary_format.cc): numbers that show the byte order and
the number formats of the machine, then order, kind and counts.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

from asr.base.errors import UserError
from asr.language.ngram.model import MAX_ORDER

ANY_VERSION = b"mmap lm http://kheafield.com/code"
VERSION = ANY_VERSION + b" format version 5\n"
# bytes that would differ in another byte order or floating point format
SANITY = VERSION.ljust(56, b"\0") + struct.pack("<3f2IIQ", 0, 1, -0.5, 1, 0xFFFFFFFF, 0, 1)
FIXED = struct.Struct("<B3xfIB3xI")  # order, multiplier, kind, whether it has the words, version of the kind
PROBING = 0
KINDS = ("probing", "rest probing", "trie", "quantised trie", "array trie", "quantised array trie")
KIND_VERSIONS = (0, None, 1, 1, 1, 1)  # supported version of each kind
QUANTISED, ARRAYS = (3, 5), (4, 5)
MAX_BUCKETS_PER_ENTRY = 1000.0
REBUILD = "build it again from the ARPA file with KenLM's `build_binary probing`"
COPY = "copy or make the file again"


@dataclass(frozen=True, slots=True)
class KenlmHeader:
    """The header of a KenLM file.

    Attributes:
        kind: index in `KINDS`.
        buckets_per_entry: ratio of buckets to n-grams in its hash tables.
        counts: number of n-grams of each order.
        size_bytes: size of the header.
    """

    kind: int
    buckets_per_entry: float
    counts: tuple[int, ...]
    size_bytes: int


def is_kenlm(beginning: bytes) -> bool:
    """Return whether a file that begins with these bytes was made by any version of KenLM."""
    return beginning.startswith(ANY_VERSION)


def read_header(path: Path) -> KenlmHeader:
    """Read and check the header of a file.

    Raises:
        UserError: the file cannot be read, or its kind is not supported.
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
        raise format_error(path, "a probing or trie file of a current KenLM", f"{name}, version {version}")
    if not 2 <= order <= MAX_ORDER:
        raise format_error(
            path, f"an order from 2 to {MAX_ORDER}", str(order), "train or prune to such an order"
        )
    if not 1.0 <= multiplier <= MAX_BUCKETS_PER_ENTRY:
        raise format_error(path, "a plausible size of hash tables", f"{multiplier} times their entries", COPY)
    if not has_words:
        raise format_error(
            path, "the words at the end of the file", "none", f"{REBUILD}, including the words"
        )
    end = len(SANITY) + FIXED.size + 8 * order
    if len(beginning) < end:
        raise truncated_error(path, end, len(beginning))
    counts = struct.unpack_from(f"<{order}Q", beginning, len(SANITY) + FIXED.size)
    return KenlmHeader(kind, multiplier, counts, aligned(end))


def _check_version(path: Path, beginning: bytes) -> None:
    if not beginning.startswith(VERSION):
        version = beginning.partition(b"\n")[0].removeprefix(ANY_VERSION).decode(errors="replace").strip()
        raise format_error(path, "a KenLM file of format version 5, built to its end", repr(version))
    if len(beginning) < len(SANITY) + FIXED.size:
        raise truncated_error(path, len(SANITY) + FIXED.size, len(beginning))
    if not beginning.startswith(SANITY):
        raise format_error(path, "a file of a 64-bit little-endian machine", "one of another machine")


def header_of(counts: tuple[int, ...], buckets_per_entry: float) -> bytes:
    """Return the header of a probing file."""
    fixed = FIXED.pack(len(counts), buckets_per_entry, PROBING, True, KIND_VERSIONS[PROBING])
    header = SANITY + fixed + struct.pack(f"<{len(counts)}Q", *counts)
    return header.ljust(aligned(len(header)), b"\0")


def aligned(size_bytes: int) -> int:
    """Round a size up to a multiple of eight."""
    return (size_bytes + 7) // 8 * 8


def truncated_error(path: Path, expected_bytes: int, received_bytes: int) -> UserError:
    """Return the error for a file that ends too early."""
    return format_error(
        path, f"at least {expected_bytes:,} bytes", f"{received_bytes:,}: it is truncated", COPY
    )


def format_error(path: Path, expected: str, received: str, remedy: str = REBUILD) -> UserError:
    """Return the error for a file of an unexpected format."""
    return UserError(f"{path}: expected {expected}, received {received}; {remedy}")
