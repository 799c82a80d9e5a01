"""The folder that `asr lm train` makes, and what of it, or of a single file, fits an acoustic model.

models/news/info.json           what it was made of
models/news/syllables.klm       an n-gram model over each unit that was asked for, as KenLM reads it
models/news/characters.klm
models/news/words.klm
models/news/pronunciations.tsv  how words are read, to write syllables as hanzi
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from asr.base.files import whole_file
from asr.base.types import UserError
from asr.base.units import SPECIAL, UNITS, unit_of
from asr.base.work import OnProgress, ignore_progress

if TYPE_CHECKING:
    from asr.base.vocabulary import Vocabulary
    from asr.language.ngram.model import NGramModel

INFO, PRONUNCIATIONS = "info.json", "pronunciations.tsv"
LEAST_SHARED = 0.3  # of the tokens or of the model's words, if fewer: another spelling has next to none
NUM_SHOWN = 10


@dataclass(frozen=True, slots=True)
class UnitInfo:
    """What a folder's model over one unit was made of.

    Attributes:
        num_tokens: in the texts.
        num_sentences: in the texts.
        counts: number of n-grams of each order, after pruning.
        discounts: of each order, of n-grams seen once, twice, and three times or more.
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
        texts: the files.
        units: what each unit's model was made of.
        num_pronunciations: lines of `pronunciations.tsv`.
    """

    created: str
    texts: tuple[str, ...]
    units: Mapping[str, UnitInfo]
    num_pronunciations: int = 0


def model_path(folder: Path, unit: str) -> Path:
    """Where a folder keeps its model over a unit."""
    return folder / f"{unit}.klm"


def pronunciations_path(folder: Path) -> Path:
    """Where a folder keeps how its words are read."""
    return folder / PRONUNCIATIONS


def units_in(folder: Path) -> tuple[str, ...]:
    """Units that a folder has a model over."""
    return tuple(unit for unit in UNITS if model_path(folder, unit).exists())


def models_in(path: Path) -> list[Path]:
    """Return the models of a folder, or the file itself where a file is named.

    Raises:
        UserError: there is no model in the folder.
    """
    if not path.is_dir():
        return [path]
    paths = [model_path(path, unit) for unit in units_in(path)]
    if not paths:
        raise UserError(f"{path}: no language model in this folder; `asr lm train` makes them")
    return paths


def converts_to_hanzi(path: Path) -> bool:
    """Whether this is a folder that syllables can be written as hanzi with."""
    return model_path(path, "words").exists() and pronunciations_path(path).exists()


def write_info(folder: Path, info: ModelInfo) -> None:
    """Tell in a folder what it was made of.

    Raises:
        UserError: it cannot be written.
    """
    text = json.dumps(dataclasses.asdict(info), ensure_ascii=False, indent=2)
    with whole_file(folder / INFO, "language model's description") as file:
        file.write(f"{text}\n".encode())


def read_info(folder: Path) -> ModelInfo:
    """What `write_info` wrote.

    Raises:
        UserError: it is not there, or something else is.
    """
    path = folder / INFO
    try:
        return _info(json.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise UserError(
            f"{path}: cannot read it ({error.strerror}); expected a folder that `asr lm train` made"
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
    """The language model that an acoustic model's search is joined with.

    Args:
        path: a folder of `asr lm train`, or a single ARPA or KenLM file.
        vocabulary: of the acoustic model.
        on_progress: is called as a file of text is read.

    Raises:
        UserError: it cannot be read, or is over another unit or another spelling of it.
    """
    from asr.language.ngram.model_file import load_model

    unit = vocabulary.unit
    if path.is_dir():
        path = existing_model(path, unit)
    model = load_model(path, on_progress)
    known = sum(token in model.ids for token in vocabulary.tokens[1:])
    num_words = len(own_words(model.words))
    expected = LEAST_SHARED * min(len(vocabulary) - 1, num_words)
    if unit_of(model.words) != unit or not known or known < expected:
        raise UserError(
            f"{path}: a language model of another unit set: it knows {known:,} of the acoustic model's "
            f"{len(vocabulary) - 1:,} {unit}; expected words such as {some_words(vocabulary.tokens[1:])}, "
            f"received such as {some_words(own_words(model.words))}; "
            f"train one on text with `asr lm train`, which labels {unit} as `asr prepare` does"
        )
    return model


def existing_model(folder: Path, unit: str) -> Path:
    """A folder's file over a unit.

    Raises:
        UserError: there is none.
    """
    path = model_path(folder, unit)
    if not path.exists():
        there = ", ".join(units_in(folder)) or "no models at all"
        raise UserError(
            f"{folder}: expected {path.name}, a language model over {unit}; received {there}; "
            "`asr lm train` makes it"
        )
    return path


def own_words(words: Sequence[str]) -> list[str]:
    """Return the words of a model without marks such as `<s>`."""
    return [word for word in words if word not in SPECIAL]


def some_words(words: Sequence[str]) -> str:
    """Return a few words, from the first to the last, as text."""
    shown = words[:: max(1, len(words) // NUM_SHOWN)][:NUM_SHOWN]
    return (", ".join(shown) + (", ..." if len(words) > len(shown) else "")) or "none"
