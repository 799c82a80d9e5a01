"""Write out digits and signs as they are spoken, by WeTextProcessing's rules: 2019年 becomes 二零一九年.

The rules are those of the package `wetext` (Apache-2.0), which runs them without a compiler of grammars.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from asr.base.files import whole_file
from asr.base.types import UserError

REMEDY = "pip install 'polyphone[normalize]'"


class NormalizedText(NamedTuple):
    """Holds a text that was changed.

    Attributes:
        what: path of the recording.
        written: before.
        spoken: after.
    """

    what: str
    written: str
    spoken: str


class Normalizer:
    """Writes out Mandarin text as it is spoken.

    Raises:
        UserError: the package that does it is not installed.
    """

    def __init__(self) -> None:
        try:
            from wetext import Normalizer as Rules
        except ImportError:
            raise UserError(f"`normalize` needs the package wetext; {REMEDY}") from None
        self._rules = Rules(lang="zh", operator="tn")

    def __call__(self, text: str) -> str:
        """Return the text as it is spoken; what the rules do not know stays as it is."""
        return str(self._rules.normalize(text))


def write_normalized(path: Path, changed: Sequence[NormalizedText]) -> None:
    """Write a list with a line for each text: recording, as written, as spoken; no file if there is none."""
    path.unlink(missing_ok=True)
    if changed:
        with whole_file(path, "list") as file:
            for row in changed:
                line = "\t".join(" ".join(cell.split()) for cell in row)
                file.write(f"{line}\n".encode(errors="backslashreplace"))
