"""`asr lm convert`: pinyin -> Chinese characters."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from asr.base.types import UserError

if TYPE_CHECKING:
    from asr.language.hanzi.converter import Converter

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
    cost = arguments.soft_tones
    if cost is not None and not 0 <= cost < math.inf:
        raise UserError(f"--soft-tones: expected 0 or more, received {cost}; 4 is a good value")
    from asr.language.hanzi.converter import Converter

    converter = Converter.load(arguments.model, cost)
    for line in _lines(arguments.pinyin):
        print(_converted(converter, line), flush=True)
    return 0


def _converted(converter: Converter, line: str) -> str:
    from asr.base.pinyin import syllables_in

    return converter.convert(syllables_in(line)).text


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
