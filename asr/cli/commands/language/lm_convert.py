"""`asr lm convert` converts pinyin to Chinese characters."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from asr.base.errors import UserError

STANDARD_INPUT = "-"


def add_lm_convert_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "pinyin",
        nargs="+",
        metavar="PINYIN",
        help="a sentence, its syllables separated by spaces: ni3 hao3, nǐ hǎo, or ni hao where the tones are "
        "not known; lü4, lv4 and lu:4 are the same. A single - reads sentences from standard input, one per "
        "line",
    )
    parser.add_argument(
        "--model",
        type=Path,
        metavar="DIR",
        help="a folder that `asr lm train` made, whose words are used besides those of the built-in model",
    )
    parser.add_argument(
        "--soft-tones",
        type=float,
        metavar="COST",
        help="also consider words with other tones, at this cost per wrong tone, a natural logarithm: 4 is a "
        "good value",
    )


def lm_convert_command(arguments: argparse.Namespace) -> int:
    """Print a line of characters for each sentence, and return the exit status.

    Syllables that no known word is read as are printed in 〔〕.
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
            raise UserError(f"standard input: line {number} is not UTF-8; save the text as UTF-8") from None
