"""Read an ARPA file as blocks of whole lines, whose common forms compiled code parses."""

from __future__ import annotations

import codecs
import contextlib
import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np

from asr.base.compiled import compiled
from asr.base.errors import UserError
from asr.base.work import OnProgress, Work
from asr.language.ngram.model import NO_EXTENSION, UNKNOWN_ID, Float32, Int32, Tables
from asr.language.ngram.word_table import Bytes, word_id

BLOCK_BYTES = 1 << 23
LONGEST_LINE_BYTES = 1 << 20  # a file with longer lines is not ARPA
GZIP = b"\x1f\x8b"
SPACE, TAB, NEWLINE, RETURN = 32, 9, 10, 13
MINUS, PLUS, POINT, ZERO, SMALL_E, BIG_E = 45, 43, 46, 48, 101, 69
MAX_DIGITS = 15  # of an integer that a double represents exactly
MAX_POWER = 22  # of ten, that a double represents exactly
POWERS_OF_TEN = np.array([10.0**power for power in range(MAX_POWER + 1)])


class ArpaText:
    """Reads a file line by line.

    Args:
        path: path of the file, for errors.
        file: the open file.
        num_bytes: size of the text; None if it is compressed.
        on_progress: called with the number of bytes read.
    """

    def __init__(self, path: Path, file: BinaryIO, num_bytes: int | None, on_progress: OnProgress) -> None:
        self.path, self.file, self.num_bytes, self.on_progress = path, file, num_bytes, on_progress
        self.block, self.place, self.lines_before, self.num_read = b"", 0, 0, 0

    @property
    def is_packed(self) -> bool:
        """Return whether the file is gzipped."""
        return self.num_bytes is None

    def line(self) -> bytes | None:
        """Return the next line without its end; None at the end of the file."""
        if self.place == len(self.block) and not self.next_block():
            return None
        end = self.block.index(b"\n", self.place)
        line, self.place = self.block[self.place : end], end + 1
        return line.removesuffix(b"\r")

    def next_block(self) -> bool:
        """Read the next block of lines; return whether there is one."""
        self.lines_before += self.block.count(b"\n")
        try:
            self.block = self.file.read(BLOCK_BYTES) + self.file.readline(LONGEST_LINE_BYTES)
        except (OSError, EOFError, zlib.error) as error:
            reason = getattr(error, "strerror", None) or error
            raise UserError(
                f"{self.path}: cannot read the file to its end ({reason}); copy or make it again"
            ) from None
        if not self.num_read:
            self.block = self.block.removeprefix(codecs.BOM_UTF8)
        self.num_read += len(self.block)
        self.on_progress(Work(f"reading {self.path.name}", self.num_read, self.num_bytes, "bytes"))
        self.place = 0
        if self.block and not self.block.endswith(b"\n"):
            self.block += b"\n"
        return bool(self.block)

    def error(self, expected: str, received: str, remedy: str = "copy or make the file again") -> UserError:
        """Return an error about the line that was read last."""
        number = self.lines_before + self.block.count(b"\n", 0, self.place)
        return UserError(
            f"{self.path}, line {max(number, 1):,}: expected {expected}, received {received}; {remedy}"
        )


@contextlib.contextmanager
def open_arpa(path: Path, on_progress: OnProgress) -> Iterator[ArpaText]:
    """Open a plain or gzipped file for reading.

    Raises:
        UserError: the file cannot be opened.
    """
    try:
        file = path.open("rb")
        beginning = file.read(len(GZIP))
        file.seek(0)
    except OSError as error:
        raise UserError(f"{path}: cannot read this language model ({error.strerror})") from None
    with contextlib.ExitStack() as stack:
        stack.enter_context(file)
        unpacked = cast(BinaryIO, stack.enter_context(gzip.open(file))) if beginning == GZIP else file
        yield ArpaText(path, unpacked, path.stat().st_size if unpacked is file else None, on_progress)


@compiled
def read_plain_lines(
    text: Bytes,
    begin: int,
    words: Tables,
    ids: Int32,
    log10_probs: Float32,
    log10_backoffs: Float32,
    row: int,
    longest: bool,
) -> tuple[int, int]:
    """Read n-grams up to the first line that is not in the common form.

    Args:
        text: whole lines.
        begin: index of the first line.
        words: table of words, see `word_table`, including `<unk>`.
        ids: (N, order) written.
        log10_probs: (N,) written.
        log10_backoffs: (N,) written.
        row: row of the first n-gram.
        longest: whether they are of the highest order, without backoffs.

    Returns:
        the row after the last n-gram, and the index of the line after it.
    """
    while row < len(ids) and begin < len(text):
        prob, place = plain_number(text, begin)
        for column in range(ids.shape[1]):
            if place < 0:
                break
            place, end = next_word(text, place)
            ids[row, column] = word_id(words, text, place, end)
            place = end if ids[row, column] >= UNKNOWN_ID and end > place else -1
        if place < 0 or prob > 0:
            break
        place, end = next_word(text, place)
        backoff = float(NO_EXTENSION)
        if end > place:
            backoff, place = plain_number(text, place)
            if place < 0 or (longest and backoff != 0):
                break
            place, end = next_word(text, place)
        if text[place] == RETURN:
            place += 1
        if text[place] != NEWLINE:
            break
        log10_probs[row], log10_backoffs[row] = prob, backoff
        row += 1
        begin = place + 1
    return row, begin


@compiled
def next_word(text: Bytes, place: int) -> tuple[int, int]:
    """Return where the next word of a line begins and ends; twice the end of the line if there is none."""
    while text[place] in (SPACE, TAB):
        place += 1
    end = place
    while text[end] not in (SPACE, TAB, NEWLINE, RETURN):
        end += 1
    return place, end


@compiled
def plain_number(text: Bytes, place: int) -> tuple[float, int]:
    """Return a number of few digits exactly, and where it ends; -1 if it is not such a number."""
    negative = text[place] == MINUS
    mantissa, place, num_whole = digits(text, place + negative)
    num_decimals = 0
    if text[place] == POINT:
        decimals, place, num_decimals = digits(text, place + 1)
        mantissa = mantissa * 10 ** min(num_decimals, MAX_DIGITS) + decimals
    power, num_power = -num_decimals, 1
    if text[place] in (SMALL_E, BIG_E):
        place += 1
        below_one = text[place] == MINUS
        place += below_one or text[place] == PLUS
        exponent, place, num_power = digits(text, place)
        power += -exponent if below_one else exponent
    few = 0 < num_whole + num_decimals <= MAX_DIGITS and 0 < num_power <= 3 and abs(power) <= MAX_POWER
    is_end = text[place] in (SPACE, TAB, NEWLINE, RETURN)
    if not few or not is_end:
        return 0.0, -1
    value = mantissa * POWERS_OF_TEN[power] if power >= 0 else mantissa / POWERS_OF_TEN[-power]
    return -value if negative else value, place


@compiled
def digits(text: Bytes, place: int) -> tuple[int, int, int]:
    """Return the integer that digits form, where they end, and their number."""
    number, begin = 0, place
    while ZERO <= text[place] < ZERO + 10:
        number = number * 10 + int(text[place]) - ZERO
        place += 1
    return number, place, place - begin
