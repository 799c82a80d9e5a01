"""Measures how well language models predict a text.

for fit in measure_perplexity(Path("lm"), ["news.txt"]).fits:
    print(fit.unit, fit.fit.perplexity)
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np

from asr.base.errors import UserError
from asr.base.text.pieces import UNITS_MODEL, Pieces
from asr.base.text.pinyin import known_syllables
from asr.base.text.units import UNITS_IN_PIECES, Unit, unit_of
from asr.base.work import OnProgress, Work, ignore_progress
from asr.language.ngram.folder import models_in, ordinary_words, sample_words
from asr.language.ngram.model import SENTENCE_BEGIN, SENTENCE_END, Int32, NGramModel
from asr.language.ngram.model_file import load_model
from asr.language.ngram.text_score import TextScore, score_text
from data_pipeline.text.piece_text import PieceText
from data_pipeline.text.spoken_text import SpokenText
from data_pipeline.text.text_files import find_text_files, read_blocks


class ModelFit(NamedTuple):
    """How well a model predicts a text, in the model's unit."""

    path: Path
    unit: Unit
    fit: TextScore


@dataclass(frozen=True)
class TextFits:
    """How well each model predicts a text.

    Attributes:
        fits: of the models.
        left_out: number of characters that were left out, by reason, the most frequent first.
    """

    fits: Sequence[ModelFit]
    left_out: Mapping[str, int] = field(default_factory=dict)


def measure_perplexity(
    model: Path, texts: Sequence[str], *, tokenized: bool = False, on_progress: OnProgress = ignore_progress
) -> TextFits:
    """Measure a model, or every model of a folder, on text.

    Args:
        model: a folder of language models, an ARPA or a KenLM file.
        texts: text files, plain or gzipped, manifests, folders of them, or - for standard input.
        tokenized: whether each line is a sentence of the model's words, separated by spaces, in any language;
            else text is split into sentences and words as for training, which is Chinese unless the model is
            over pieces.
        on_progress: receives the progress of reading and measuring the text.

    Raises:
        UserError: a model or a text cannot be read, or they have no word in common.
    """
    models = {path: load_model(path, on_progress) for path in models_in(model)}
    if tokenized:
        found = TextFits(_on_tokens(models, texts, on_progress))
    elif (pieces := _pieces_beside(models)) is not None:
        found = _on_pieces(models, pieces, texts, on_progress)
    else:
        found = _on_chinese(models, texts, on_progress)
    if any(not fit.num_words for _, _, fit in found.fits):
        raise UserError(f"{sample_words(texts)}: expected words, received none; choose another text")
    return found


def _on_chinese(models: Mapping[Path, NGramModel], texts: Sequence[str], on_progress: OnProgress) -> TextFits:
    with tempfile.TemporaryDirectory() as folder:
        spoken = SpokenText(texts, Path(folder), on_progress)
        fits = [
            _on_spoken(path, model, unit_of(model.words), spoken, on_progress)
            for path, model in models.items()
        ]
        return TextFits(fits, dict(spoken.left_out.most_common()))


def _pieces_beside(models: Mapping[Path, NGramModel]) -> Pieces | None:
    """Return the model that splits the words of models; None if none is beside models that need none."""
    path = next(iter(models)).with_name(UNITS_MODEL)
    needs_it = any(unit_of(model.words) in UNITS_IN_PIECES for model in models.values())
    return Pieces.load(path) if needs_it or path.exists() else None


def _on_pieces(
    models: Mapping[Path, NGramModel], pieces: Pieces, texts: Sequence[str], on_progress: OnProgress
) -> TextFits:
    found = {path: unit_of(model.words) for path, model in models.items()}
    units: dict[Path, Unit] = {
        path: unit if unit in UNITS_IN_PIECES else "words" for path, unit in found.items()
    }
    # a model over the words of mixed labels has all syllables, in its text or not
    is_mixed = any(known_syllables() <= model.ids.keys() for model in models.values())
    with tempfile.TemporaryDirectory() as folder:
        unit: Unit = "mixed" if is_mixed else "pieces"
        text = PieceText(texts, pieces, Path(folder), on_progress, unit=unit, words=True)
        fits = [_on_spoken(path, models[path], units[path], text, on_progress) for path in models]
        return TextFits(fits, dict(text.left_out.most_common()))


def _on_spoken(
    path: Path, model: NGramModel, unit: Unit, spoken: SpokenText | PieceText, on_progress: OnProgress
) -> ModelFit:
    ids = model.ids_of([SENTENCE_END, *spoken.vocabulary(unit)])
    if len(ids) > 1 and not ids[1:].any():
        raise UserError(
            f"{path}: none of the {len(ids) - 1:,} different {unit} of this text are in the model, which has "
            f"words such as {sample_words(ordinary_words(model.words))}; "
            "choose a model of Chinese, or a text in the model's words with `tokenized=True`"
        )

    def blocks() -> Iterator[Int32]:
        done = 0
        for tokens, num_words in spoken.blocks(unit, 1, 0):
            yield np.take(ids, tokens)
            done += num_words
            on_progress(Work(path.name, done, spoken.num_words, "words"))

    return ModelFit(path, unit, score_text(model, blocks()))


def _on_tokens(
    models: Mapping[Path, NGramModel], texts: Sequence[str], on_progress: OnProgress
) -> list[ModelFit]:
    fits = dict.fromkeys(models, TextScore())
    num_bytes = 0
    for source in find_text_files(texts):
        for block in read_blocks(source):
            lines = [words for line in block.text.split("\n") if (words := line.split())]
            for path, model in models.items():
                fits[path] += score_text(model, [_ids(model, lines)])
            num_bytes += block.num_bytes
            on_progress(Work("reading", num_bytes, unit="bytes"))
    return [ModelFit(path, unit_of(models[path].words), fit) for path, fit in fits.items()]


def _ids(model: NGramModel, lines: Sequence[Sequence[str]]) -> Int32:
    marks = (SENTENCE_BEGIN, SENTENCE_END)
    return model.ids_of(
        word for line in lines for word in (*(w for w in line if w not in marks), SENTENCE_END)
    )
