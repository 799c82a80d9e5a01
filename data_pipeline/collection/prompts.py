"""Prompts: the sentences that people read aloud. A first version, which helper `prompts` replaces."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from asr.base.errors import UserError
from asr.base.system.files import read_lines
from asr.base.text.units import Unit
from data_pipeline.labels.errors import UnlabelledError
from data_pipeline.labels.from_text import label_all

TOKENS_PER_S = {"syllables": 4.0, "characters": 12.0, "words": 2.5}
PAUSES_S = 0.6


@dataclass(frozen=True)
class Prompt:
    """A sentence to read aloud.

    Attributes:
        id: made from the text.
        text: as written.
        tokens: its labels in the corpus's unit.
    """

    id: str
    text: str
    tokens: tuple[str, ...]


def read_prompts(path: Path, units: Unit) -> list[Prompt]:
    """Return the sentences of a file, one a line."""
    texts = list(dict.fromkeys(line.strip() for line in read_lines(path, "list of prompts") if line.strip()))
    return _labelled(texts, units, str(path))


def own_prompts(units: Unit) -> list[Prompt]:
    """Return the project's own sentences."""
    return _labelled(["今天天气很好。", "我想去银行取钱。", "他在图书馆看书。"], units, "own prompts")


def _labelled(texts: list[str], units: Unit, where: str) -> list[Prompt]:
    prompts = [
        Prompt(hashlib.sha256(text.encode()).hexdigest()[:12], text, tokens)
        for text, tokens in zip(texts, label_all(texts, units), strict=True)
        if not isinstance(tokens, UnlabelledError)
    ]
    if not prompts:
        raise UserError(f"{where}: no sentence that can be labelled in {units}; choose other `units`")
    return prompts


def expected_duration_s(prompt: Prompt) -> float:
    """Return the seconds that reading a prompt takes, with a pause."""
    return PAUSES_S + len(prompt.tokens) / 4.0
