"""`asr lm convert`: pinyin -> Chinese characters."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from asr.base.types import UserError

STANDARD_INPUT = "-"


def add_lm_convert_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    parser.add_argument(
        "pinyin",
        nargs="+",
        metavar="PINYIN",
        help="a sentence, its syllables with spaces between them: ni3 hao3, nǐ hǎo, or ni hao where "
        "the tones are not known; lü4, lv4 and lu:4 are the same. A single - reads sentences from standard "
        "input, one a line",
    )
    parser.add_argument(
        "--model",
        type=Path,
        metavar="DIR",
        help="a folder of `asr lm train` with a model of words (default: the built-in model)",
    )
    parser.add_argument(
        "--soft-tones",
        type=float,
        metavar="COST",
        help="let words with other tones take part; each wrong tone costs so much, as a natural logarithm: 4 "
        "is a good value",
    )


def lm_convert_command(arguments: argparse.Namespace) -> int:
    """Print a line of characters for each sentence; returns the exit status.

    What nothing is known to be read as stands in 〔〕.
    """
    from asr.language.hanzi.converter import Converter

    converter = Converter.load(arguments.model, arguments.soft_tones)
    for line in _lines(arguments.pinyin):
        print(converter.convert_pinyin(line).text, flush=True)
    return 0


def _lines(pinyin: Sequence[str]) -> Iterator[str]:
    if list(pinyin) != [STANDARD_INPUT]:
        yield " ".join(pinyin)
        return
    for number, line in enumerate(sys.stdin.buffer, start=1):
        try:
            yield line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError:
            raise UserError(
                f"standard input: line {number} is not UTF-8; save the text again as UTF-8"
            ) from None
