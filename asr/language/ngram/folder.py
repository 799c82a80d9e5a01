"""Read and write the folder that `asr lm train` makes, and pick the language model for an acoustic model.

models/news/info.json           describes what it was made of
models/news/syllables.klm       an n-gram model over each requested unit, in KenLM's format
models/news/characters.klm
models/news/words.klm
models/news/pronunciations.tsv  readings of words, to convert syllables to hanzi
"""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from asr.base.errors import UserError
from asr.base.system.files import whole_file
from asr.base.system.storage.address import refuse_to_read_address
from asr.base.text.mixed import begins_word, is_toned
from asr.base.text.units import SPECIAL, UNITS, UNITS_IN_PIECES, WORD_BOUNDARY, unit_of
from asr.base.work import OnProgress, ignore_progress

if TYPE_CHECKING:
    from asr.base.vocabulary import Vocabulary
    from asr.language.ngram.model import NGramModel

INFO, PRONUNCIATIONS = "info.json", "pronunciations.tsv"
MIN_SHARED = 0.3  # of the tokens, or of the model's words if fewer: another spelling shares almost none
NUM_SHOWN = 10


@dataclass(frozen=True, slots=True)
class UnitInfo:
    """What a folder's model over one unit was made of.

    Attributes:
        num_tokens: number of tokens in the texts.
        num_sentences: number of sentences in the texts.
        counts: number of n-grams of each order, after pruning.
        discounts: for each order, of n-grams seen once, twice, and three times or more.
    """

    num_tokens: int
    num_sentences: int
    counts: tuple[int, ...]
    discounts: tuple[tuple[float, ...], ...]


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """What a folder was made of.

    Attributes:
        created: date and time, ISO 8601.
        texts: paths of the files.
        units: description of the model over each unit.
        num_pronunciations: number of lines of `pronunciations.tsv`.
    """

    created: str
    texts: tuple[str, ...]
    units: Mapping[str, UnitInfo]
    num_pronunciations: int = 0


def model_path(folder: Path, unit: str) -> Path:
    """Return the path of a folder's model over a unit."""
    return folder / f"{unit}.klm"


def pronunciations_path(folder: Path) -> Path:
    """Return the path of a folder's pronunciations."""
    return folder / PRONUNCIATIONS


def units_in(folder: Path) -> tuple[str, ...]:
    """Return the units over which a folder has a model."""
    return tuple(unit for unit in UNITS if model_path(folder, unit).exists())


def models_in(path: Path) -> list[Path]:
    """Return the models of a folder, or the path itself if it is a file.

    Raises:
        UserError: there is no model in the folder.
    """
    refuse_to_read_address(path, "`language_model`")
    if not path.is_dir():
        return [path]
    paths = [model_path(path, unit) for unit in units_in(path)]
    if not paths:
        raise UserError(f"{path}: no language model in this folder; `asr lm train` makes one")
    return paths


def converts_to_hanzi(path: Path) -> bool:
    """Return whether a path is a folder with what converting syllables to hanzi takes."""
    return model_path(path, "words").exists() and pronunciations_path(path).exists()


def num_words(folder: Path, model: NGramModel) -> int:
    """Return the number of words that a folder's model of words was trained on.

    Without the folder's description, this is the number of its n-grams, which is smaller.

    Raises:
        UserError: the description cannot be read.
    """
    units = read_info(folder).units if (folder / INFO).exists() else {}
    return units["words"].num_tokens if "words" in units else max(model.counts)


def write_info(folder: Path, info: ModelInfo) -> None:
    """Write the description of a folder.

    Raises:
        UserError: the file cannot be written.
    """
    text = json.dumps(dataclasses.asdict(info), ensure_ascii=False, indent=2)
    with whole_file(folder / INFO, "language model's description") as file:
        file.write(f"{text}\n".encode())


def read_info(folder: Path) -> ModelInfo:
    """Read a description that `write_info` wrote.

    Raises:
        UserError: the file cannot be read, or has other contents.
    """
    path = folder / INFO
    try:
        return _info(json.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise UserError(
            f"{path}: cannot read this file ({error.strerror}); expected a folder that `asr lm train` made"
        ) from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(
            f"{path}: expected what `asr lm train` writes, received something else "
            f"({type(error).__name__}: {error}); make the folder again"
        ) from None


def _info(values: dict[str, Any]) -> ModelInfo:
    units = {
        str(unit): UnitInfo(
            int(made["num_tokens"]),
            int(made["num_sentences"]),
            tuple(map(int, made["counts"])),
            tuple(tuple(map(float, discounts)) for discounts in made["discounts"]),
        )
        for unit, made in values["units"].items()
    }
    texts = tuple(map(str, values["texts"]))
    return ModelInfo(str(values["created"]), texts, units, int(values["num_pronunciations"]))


def fusion_model(path: Path, vocabulary: Vocabulary, on_progress: OnProgress = ignore_progress) -> NGramModel:
    """Load the language model for the decoder of an acoustic model.

    Args:
        path: a folder made by `asr lm train`, or a single ARPA or KenLM file. For a vocabulary of pieces, or
            mixed, the words of a folder are taken rather than the pieces.
        vocabulary: vocabulary of the acoustic model.
        on_progress: called while an ARPA file is read.

    Raises:
        UserError: the model cannot be read, or is over another unit or another spelling.
    """
    from asr.language.ngram.model_file import load_model

    refuse_to_read_address(path, "`language_model`")
    if path.is_dir():
        path = _model_in(path, vocabulary)
    model = load_model(path, on_progress)
    if is_over_words(model, vocabulary):
        _expect_spelled(path, model, vocabulary)
    else:
        _expect_shared(path, model, vocabulary)
    return model


def is_over_words(model: NGramModel, vocabulary: Vocabulary) -> bool:
    """Return whether a model is over the words that pieces, or mixed tokens, spell, not over these tokens."""
    return vocabulary.is_in_pieces and not _has_marks(model)


@functools.lru_cache(maxsize=1)
def _has_marks(model: NGramModel) -> bool:
    return any(word.startswith(WORD_BOUNDARY) for word in model.words)


def _model_in(folder: Path, vocabulary: Vocabulary) -> Path:
    words = model_path(folder, "words")
    if vocabulary.is_in_pieces and words.exists() and not converts_to_hanzi(folder):
        return words
    return existing_model(folder, vocabulary.unit)


def _expect_shared(path: Path, model: NGramModel, vocabulary: Vocabulary) -> None:
    """Raise a UserError if a model over tokens is not over those of a vocabulary."""
    unit = vocabulary.unit
    known = sum(token in model.ids for token in vocabulary.tokens[1:])
    expected = MIN_SHARED * min(len(vocabulary) - 1, len(ordinary_words(model.words)))
    if unit_of(model.words) != unit or not known or known < expected:
        option = f" --units {unit}" if vocabulary.is_in_pieces else ""
        raise UserError(
            f"{path}: a language model of another unit set: it contains {known:,} of the acoustic model's "
            f"{len(vocabulary) - 1:,} {unit}; expected words such as {sample_words(vocabulary.tokens[1:])}, "
            f"received such as {sample_words(ordinary_words(model.words))}; "
            f"train one on text with `asr lm train{option}`, which labels {unit} as `asr prepare` does"
        )


def _expect_spelled(path: Path, model: NGramModel, vocabulary: Vocabulary) -> None:
    """Raise a UserError if tokens of a vocabulary spell too few words of a model over words."""
    words, unit = ordinary_words(model.words), vocabulary.unit
    letters = {*"".join(token for token in vocabulary.tokens[1:] if not begins_word(token))}
    known = [
        word
        for word in words
        if word in vocabulary or letters.issuperset(word) or letters.issuperset(word.lower())
    ]
    num_spelled, expected = len(known), MIN_SHARED * len(words)
    if unit == "mixed":  # a model may have many more syllables
        expected = MIN_SHARED * sum(not is_toned(word) for word in words)
    lacks_one = unit == "mixed" and len({*map(is_toned, known)}) < 2  # syllables, or Latin words
    if not num_spelled or num_spelled < expected or lacks_one:
        raise UserError(
            f"{path}: a language model of another unit set: the acoustic model's {unit} spell "
            f"{num_spelled:,} of its {len(words):,} words; expected words that tokens such as "
            f"{sample_words(vocabulary.tokens[1:])} spell, received such as {sample_words(words)}; train one "
            f"on text with `asr lm train --units {unit},words`, or `--units {unit}` for one over {unit}"
        )


def existing_model(folder: Path, unit: str) -> Path:
    """Return the path of a folder's model over a unit.

    Raises:
        UserError: there is no such model.
    """
    path = model_path(folder, unit)
    if not path.exists():
        there = ", ".join(units_in(folder)) or "no models at all"
        raise UserError(
            f"{folder}: expected {path.name}, a language model over {unit}; received {there}; "
            f"`asr lm train{f' --units {unit}' if unit in UNITS_IN_PIECES else ''}` makes it"
        )
    return path


def ordinary_words(words: Sequence[str]) -> list[str]:
    """Return the words of a model without markers such as `<s>`."""
    return [word for word in words if word not in SPECIAL]


def sample_words(words: Sequence[str]) -> str:
    """Return a few words, from the first to the last, as text."""
    shown = words[:: max(1, len(words) // NUM_SHOWN)][:NUM_SHOWN]
    return (", ".join(shown) + (", ..." if len(words) > len(shown) else "")) or "none"
