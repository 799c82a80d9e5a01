"""Write what the folders of several formats contain besides the model."""

from __future__ import annotations

from pathlib import Path

from asr.base.vocabulary import Vocabulary

TEMPLATES = Path(__file__).parent / "templates"


def write_tokens(path: Path, vocabulary: Vocabulary) -> None:
    """Write a token and its id in each line."""
    lines = [f"{token} {index}\n" for index, token in enumerate(vocabulary.tokens)]
    path.write_text("".join(lines), encoding="utf-8")
