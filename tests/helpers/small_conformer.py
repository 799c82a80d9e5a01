"""Make the Conformer of size xs small: it is traced quickly, and seconds of sound exceed its field."""

import pytest

from asr.model.networks.conformers import chunks
from asr.model.networks.conformers.conformer import SIZES, ConformerSize

NUM_BLOCKS = 2


def use_small_conformer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the size xs, and let frames attend to 0.32 s before their chunk in place of 1.28 s."""
    monkeypatch.setitem(SIZES, "xs", ConformerSize(16, NUM_BLOCKS, 2, 4))
    monkeypatch.setattr(chunks, "ATTENDED_S", 0.32)
