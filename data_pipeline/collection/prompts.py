"""Sentences to read aloud. A first version, which helper `prompts` replaces."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Prompt:
    """A sentence to read aloud."""

    id: str
    text: str
    tokens: tuple[str, ...]


def expected_duration_s(prompt: Prompt) -> float:
    """Return the seconds that a person needs to read a prompt aloud, with silence around it."""
    num_wide = sum(ord(char) > 0x2E7F and char.isalnum() for char in prompt.text)
    num_letters = sum(char.isalnum() for char in prompt.text) - num_wide
    return num_wide / 3.4 + num_letters / 13.0 + 0.5
