"""Translates the texts of the references into Chinese, by the table docs/zh/reference/translations.toml.

Each entry of the table has the text as it is in the code (`en`) and its translation (`zh`).
"""

from __future__ import annotations

import functools
import tomllib
from pathlib import Path

import code_reference

TABLE = Path(__file__).resolve().parents[1] / "zh" / "reference" / "translations.toml"


@functools.cache
def translations() -> dict[str, str]:
    """Return the table: English text -> Chinese text."""
    return {entry["en"]: entry["zh"] for entry in tomllib.loads(TABLE.read_text("utf-8"))["text"]}


def translate(text: str) -> str:
    """Return the Chinese of a text of the references.

    Raises:
        KeyError: the table does not have it.
    """
    if text not in translations():
        raise KeyError(f"{TABLE.name}: no entry for {text!r}; add one with its translation")
    return translations()[text]


def texts() -> list[str]:
    """Return every text of the references, in their order."""
    found: dict[str, None] = {}

    def keep(text: str) -> str:
        found.setdefault(text)
        return text

    for make in (code_reference.configuration, code_reference.decoder_settings, code_reference.commands):
        make(keep)
    return list(found)
