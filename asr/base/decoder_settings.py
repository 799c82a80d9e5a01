"""Define how logits are decoded; `asr tune-decoder` writes its result to `runs/<name>/decoder.toml`."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from asr.base.config import Range, read_toml, replaced, toml_lines
from asr.base.system.files import whole_file

GENERAL = "general"  # names the built-in hanzi model, where a folder may be given
NOT_EXPORTED = "not exported"  # in place of a language model that is on another machine

Weight = Annotated[float, Range(0.0, 10.0)]


@dataclass(frozen=True)
class DecoderSettings:
    """The settings of a decoder; the defaults are greedy decoding."""

    # Beam width: number of hypotheses kept per frame; 1 for greedy decoding.
    beam: Annotated[int, Range(1, 4096)] = 1
    # Number of hypotheses returned, including the best.
    n_best: Annotated[int, Range(1, 4096)] = 1
    # A folder made by `asr lm train`, or an ARPA or KenLM file; "" for none.
    language_model: str = ""
    # Weight of the language model's log probability of a token, or of a word, relative to the acoustic one.
    lm_weight: Weight = 0.5
    # Where syllables are converted to hanzi, the language model of words chooses among the syllables that
    # each place of the best hypothesis may be, or among the hypotheses: weight of its log probability,
    # relative to their scores. 0 keeps the order.
    hanzi_weight: Weight = 0.5
    # Score added for every token, against the language model's preference for short sentences; for every word
    # where the language model of pieces is over words.
    token_bonus: Annotated[float, Range(-20.0, 20.0)] = 0.0
    # Where the language model of pieces is over words: added to the log probability of a word that it does
    # not know (natural logarithm).
    unknown_word: Annotated[float, Range(-1000.0, 0.0)] = -10.0
    # Score added for every token of a hot word.
    hot_word_boost: Weight = 2.0
    # Tokens with a lower log probability in a frame are not tried there (natural logarithm); in flat frames,
    # only the 64 most probable ones are, or four times the beam if that is more, and those of hot words.
    min_token_log_prob: Annotated[float, Range(-1e9, -0.1)] = -9.0
    # Hypotheses whose score without hot words is lower than the best by more than this are dropped (natural
    # logarithm).
    beam_width: Annotated[float, Range(0.1, 1e9)] = 18.0


def load_settings(path: Path, language_model: str = "") -> DecoderSettings:
    """Read settings that `save_settings` wrote.

    Where their language model was not exported, they are of use only with one in its place: without,
    decoding is greedy.

    Args:
        path: of the file.
        language_model: used in place of the one that the settings name.

    Raises:
        UserError: the file cannot be read, or a key or a value is not valid.
    """
    settings = stored_settings(path)
    if language_model:
        return dataclasses.replace(settings, language_model=language_model)
    return DecoderSettings() if settings.language_model == NOT_EXPORTED else settings


def stored_settings(path: Path) -> DecoderSettings:
    """Return settings as `save_settings` wrote them, whether their language model is there or not.

    Raises:
        UserError: the file cannot be read, or a key or a value is not valid.
    """
    found = read_toml(path, "decoder settings")
    found.pop("algorithm", None)  # of files that were written when it could be chosen
    return replaced(DecoderSettings(), found, f"{path}: ")


def save_settings(path: Path, settings: DecoderSettings) -> None:
    """Write every setting as TOML."""
    with whole_file(path, "decoder settings") as file:
        file.write("".join(f"{line}\n" for line in toml_lines(settings)).encode())
