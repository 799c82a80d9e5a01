"""How logits are decoded: `runs/<name>/decoder.toml` holds what `asr tune-decoder` found."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from asr.base.config import Range, read_toml, replaced, toml_lines
from asr.base.files import whole_file

GENERAL = "general"  # stands for the hanzi model that comes along, where a folder may be named

Weight = Annotated[float, Range(0.0, 10.0)]


@dataclass(frozen=True)
class DecoderSettings:
    """What a decoder does; the defaults are greedy decoding."""

    # Hypotheses kept from frame to frame; 1 for greedy decoding.
    beam: Annotated[int, Range(1, 4096)] = 1
    # Hypotheses told, the best one counted.
    n_best: Annotated[int, Range(1, 4096)] = 1
    # A folder that `asr lm train` made, or an ARPA or KenLM file; "" for none.
    language_model: str = ""
    # A token's log probability by the language model counts so many times as much as by the acoustic one.
    lm_weight: Weight = 0.5
    # Where syllables become hanzi, the language model of words picks among the hypotheses of the search, too:
    # its log probability counts so many times as much as a hypothesis' score. 0 leaves the order as it is.
    hanzi_weight: Weight = 0.5
    # Added for every token, against the language model's liking for short sentences.
    token_bonus: Annotated[float, Range(-20.0, 20.0)] = 0.0
    # Added for every token of a hot word.
    hot_word_boost: Weight = 2.0
    # Tokens less probable in a frame are not tried there (natural logarithm).
    min_token_log_prob: Annotated[float, Range(-1e9, -0.1)] = -9.0
    # Hypotheses that fall so far behind the best one are dropped (natural logarithm).
    beam_width: Annotated[float, Range(0.1, 1e9)] = 18.0


def load_settings(path: Path) -> DecoderSettings:
    """Read what `save_settings` wrote.

    Raises:
        UserError: there is no such file, or a key or a value is not one of `DecoderSettings`'.
    """
    return replaced(DecoderSettings(), read_toml(path, "decoder settings"), f"{path}: ")


def save_settings(path: Path, settings: DecoderSettings) -> None:
    """Write every setting as TOML."""
    with whole_file(path, "decoder settings") as file:
        file.write("".join(f"{line}\n" for line in toml_lines(settings)).encode())
