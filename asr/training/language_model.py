"""Train n-gram language models on raw text, and write them with its pronunciations as a folder.

settings = NGramSettings(order=4, max_size_mb=20)
train_language_models(["news.txt.gz", "books"], Path("lm"), settings=settings)
"""

from __future__ import annotations

import contextlib
import datetime
import os
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from asr.base.errors import UserError
from asr.base.system.files import cannot_write, whole_file
from asr.base.system.lock import exclusive_lock
from asr.base.system.storage.address import path_of
from asr.base.text.pieces import UNITS_MODEL, Pieces
from asr.base.text.units import TEXT_UNITS, UNITS, UNITS_IN_PIECES, Unit
from asr.base.work import OnProgress, Work, ignore_progress
from asr.language.ngram.counting import END_ID
from asr.language.ngram.folder import (
    INFO,
    PRONUNCIATIONS,
    ModelInfo,
    UnitInfo,
    model_path,
    pronunciations_path,
    read_info,
    write_info,
)
from asr.language.ngram.model import Int32
from asr.language.ngram.model_file import save_model
from asr.language.ngram.training import MB, SPECIAL_WORDS, TrainingOptions, train_ngrams
from data_pipeline.text.piece_text import PieceText
from data_pipeline.text.spoken_text import SpokenText

MIN_MEMORY_MB = 20
MAX_MB = 1e9  # a petabyte
DEFAULT_MEMORY_SHARE, MAX_DEFAULT_MEMORY_MB = 1 / 8, 2000


@dataclass(frozen=True)
class NGramSettings:
    """The settings of n-gram models, in the units of a person.

    Attributes:
        order: length of the longest n-grams.
        prune: see `TrainingOptions`.
        max_size_mb: of each model; None for any size.
        memory_mb: memory for counting; None for an eighth of the machine's memory, 2000 at most.
    """

    order: int = TrainingOptions.order
    prune: Sequence[int] = TrainingOptions.prune
    max_size_mb: float | None = None
    memory_mb: float | None = None

    def options(self) -> TrainingOptions:
        """Return the settings in bytes.

        Raises:
            UserError: a setting is out of range.
        """
        if self.max_size_mb is not None and not 0 < self.max_size_mb < MAX_MB:
            raise UserError(
                f"`max_size_mb`: expected megabytes, such as 20, received {self.max_size_mb:g}; "
                "leave it out for models of any size"
            )
        memory_mb = _default_memory_mb() if self.memory_mb is None else self.memory_mb
        if not MIN_MEMORY_MB <= memory_mb < MAX_MB:
            raise UserError(
                f"`memory_mb`: expected at least {MIN_MEMORY_MB} megabytes and fewer than {MAX_MB:g}, "
                f"received {memory_mb:g}; leave it out for the default"
            )
        return TrainingOptions(
            self.order, tuple(self.prune), int((self.max_size_mb or 0) * MB), int(memory_mb * MB)
        )


DEFAULT_SETTINGS = NGramSettings()


@dataclass(frozen=True)
class UnitModel:
    """The trained model over one unit.

    Attributes:
        num_tokens: in the text.
        num_different: different tokens.
        num_unpruned: n-grams of each order before the size was limited.
        counts: n-grams of each order.
        discounts: see `asr.language.ngram.training.Trained`.
        fallback_orders: see `asr.language.ngram.training.Trained`.
        num_bytes: of the file.
    """

    num_tokens: int
    num_different: int
    num_unpruned: tuple[int, ...]
    counts: tuple[int, ...]
    discounts: tuple[tuple[float, ...], ...]
    fallback_orders: tuple[int, ...]
    num_bytes: int


@dataclass(frozen=True)
class TrainedModels:
    """A folder of language models, and the text they were trained on.

    Attributes:
        folder: as the caller named it.
        units: the model over each unit.
        num_sentences: of the text.
        num_words: of the text.
        num_bytes: of the text in UTF-8.
        left_out: number of characters by reason, most frequent first; they split their sentences.
        taken_s: seconds from reading the text to writing the folder.
    """

    folder: Path
    units: Mapping[Unit, UnitModel]
    num_sentences: int
    num_words: int
    num_bytes: int
    left_out: Mapping[str, int]
    taken_s: float


def train_language_models(
    texts: Sequence[str],
    out: Path,
    units: Sequence[str] = TEXT_UNITS,
    *,
    pieces: Path | None = None,
    settings: NGramSettings = DEFAULT_SETTINGS,
    on_progress: OnProgress = ignore_progress,
) -> TrainedModels:
    """Train n-gram models on text and write them as a folder.

    Args:
        texts: text files, plain or gzipped, manifests, folders of them, or - for standard input.
        out: the folder; one that this function wrote before is replaced when the new one is complete.
        units: units to train a model each over; converting syllables to hanzi needs words. For "pieces", the
            text may be of any language; "mixed" is for models of mixed labels. These two are combined with
            "words" alone, which then are those that pieces spell, and of mixed labels syllables, letters and
            Latin words.
        pieces: the model that splits words into pieces, such as `units.model` in a run; by default that
            beside the first text. With "words" alone, these are the words that its pieces spell.
        settings: of each model.
        on_progress: receives how much of the text is read and counted.

    Raises:
        UserError: a text cannot be read or contains no hanzi; the folder cannot be written, or contains other
            files; a parameter is out of range; there is no model of pieces.
    """
    started = time.monotonic()
    checked_units = _checked_units(units)
    options = settings.options()
    in_pieces = [unit for unit in checked_units if unit in UNITS_IN_PIECES]
    are_spelled = in_pieces or (checked_units == ["words"] and pieces is not None)
    if pieces is not None and not are_spelled:
        raise UserError(
            f"`pieces`: {', '.join(checked_units)} have none; use it with units pieces, mixed or words alone"
        )
    model = _pieces_for(texts, pieces) if are_spelled else None
    unit: Unit = in_pieces[0] if in_pieces else "pieces"
    with _whole_folder(out) as folder:
        text = (
            PieceText(texts, model, folder, on_progress, unit=unit, words="words" in checked_units)
            if model
            else SpokenText(texts, folder, on_progress)
        )
        trained = {one: _train_unit(text, one, folder, options, on_progress) for one in checked_units}
        readings = text.pronunciations() if isinstance(text, SpokenText) else []
        if model:
            model.save(folder / UNITS_MODEL)
        else:
            with whole_file(pronunciations_path(folder), "list of pronunciations") as file:
                for word, reading, log_prob in readings:
                    file.write(f"{word}\t{' '.join(reading)}\t{log_prob:.6f}\n".encode())
        _write_info(folder, text, trained, len(readings))
    return TrainedModels(
        out,
        trained,
        text.num_sentences,
        text.num_words,
        text.num_bytes,
        dict(text.left_out.most_common()),
        time.monotonic() - started,
    )


def _checked_units(units: Sequence[str]) -> list[Unit]:
    unknown = [unit for unit in units if unit not in UNITS]
    if unknown or not units:
        received = repr(unknown[0]) if unknown else "none"
        raise UserError(f"`units`: expected some of {', '.join(UNITS)}, received {received}")
    in_pieces = {*UNITS_IN_PIECES} & {*units}
    if len(in_pieces) > 1 or (in_pieces and not {*units} <= {*in_pieces, "words"}):
        raise UserError(
            "`units`: expected pieces or mixed alone or with words, in a folder of their own, received "
            f"{', '.join(units)}"
        )
    return [unit for unit in UNITS if unit in units]


def _pieces_for(texts: Sequence[str], pieces: Path | None) -> Pieces:
    path = pieces or path_of(texts[0]).parent / UNITS_MODEL
    if pieces is None and not path.exists():
        raise UserError(
            f"`pieces`: no {UNITS_MODEL} beside {texts[0]}; name that of the run to decode with this model"
        )
    return Pieces.load(path)


def _default_memory_mb() -> float:
    try:
        machine_mb = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / MB
    except (AttributeError, ValueError, OSError):  # not every system reports its memory
        return MIN_MEMORY_MB * 10
    return max(MIN_MEMORY_MB, min(MAX_DEFAULT_MEMORY_MB, machine_mb * DEFAULT_MEMORY_SHARE))


@contextlib.contextmanager
def _whole_folder(out: Path) -> Iterator[Path]:
    """Yield a temporary folder that replaces `out`, an older folder of models, once it is complete."""
    out = Path(os.path.realpath(out))  # a link is kept, its target is replaced
    _refuse_other_folders(out)
    hidden = out.with_name(f".{out.name}.part")
    part, old = hidden / "new", hidden / "old"

    def restore() -> None:
        if old.exists() and not out.exists():
            old.rename(out)

    with exclusive_lock(hidden, "asr lm train"):
        try:
            restore()  # of a process that was killed
            for left in (part, old):
                shutil.rmtree(left, ignore_errors=True)
            part.mkdir()
            yield part
            try:
                if out.exists():
                    out.rename(old)
                part.rename(out)
            except OSError as error:
                raise cannot_write(out, "folder", error) from None
        finally:
            restore()
            shutil.rmtree(hidden, ignore_errors=True)


def _refuse_other_folders(out: Path) -> None:
    if not os.path.lexists(out):
        return
    if not out.is_dir():
        raise UserError(f"`out={out}`: expected a folder for the models, found a file; name another")
    if Path.cwd().is_relative_to(out) or out.is_mount():
        raise UserError(
            f"`out={out}`: expected a folder that can be replaced, received the current directory, one above "
            "it, or a mount point; name a new folder in it"
        )
    ours = {INFO, PRONUNCIATIONS, UNITS_MODEL, *(model_path(out, unit).name for unit in UNITS)}
    names = {path.name for path in out.iterdir()}
    if names and (INFO not in names or names - ours):
        found = min(names - ours, default="no " + INFO)
        raise UserError(
            f"`out={out}`: expected a new folder, an empty one, or one of language models to replace; "
            f"found {found} in it; name another folder"
        )
    if names:
        read_info(out)


def _train_unit(
    text: SpokenText | PieceText, unit: Unit, folder: Path, options: TrainingOptions, on_progress: OnProgress
) -> UnitModel:
    words = [*SPECIAL_WORDS, *text.vocabulary(unit)]
    num_tokens = 0

    def counted() -> Iterator[Int32]:
        nonlocal num_tokens
        done = 0
        for tokens, num_words in text.blocks(unit, len(SPECIAL_WORDS), END_ID):
            num_tokens += int((tokens != END_ID).sum())
            yield tokens
            done += num_words
            on_progress(Work(f"counting {unit}", done, text.num_words, "words"))

    trained = train_ngrams(words, counted(), folder, options)
    path = model_path(folder, unit)
    save_model(path, trained.model)
    return UnitModel(
        num_tokens,
        len(words) - len(SPECIAL_WORDS),
        trained.num_unpruned,
        trained.model.counts,
        trained.discounts,
        trained.fallback_orders,
        path.stat().st_size,
    )


def _write_info(
    folder: Path, text: SpokenText | PieceText, trained: Mapping[Unit, UnitModel], num_pronunciations: int
) -> None:
    units: dict[str, UnitInfo] = {
        unit: UnitInfo(made.num_tokens, text.num_sentences, made.counts, made.discounts)
        for unit, made in trained.items()
    }
    created = datetime.datetime.now().astimezone().isoformat(timespec="seconds")
    write_info(folder, ModelInfo(created, tuple(text.sources), units, num_pronunciations))
