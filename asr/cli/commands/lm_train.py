"""`asr lm train`: n-gram language models and pronunciations from raw text."""

from __future__ import annotations

import argparse
import contextlib
import datetime
import itertools
import os
import shlex
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from asr.base.types import UserError

if TYPE_CHECKING:
    from asr.base.units import Unit
    from asr.language.ngram.model import Int32
    from asr.language.ngram.training import TrainingOptions
    from data_pipeline.spoken_text import SpokenText
    from data_pipeline.word_readings import Pronunciation

MB = 10**6
UNITS: tuple[Unit, ...] = ("syllables", "words", "characters")
LEAST_MEMORY_MB = 20
MOST_MB = 1e9  # a petabyte
DEFAULT_MEMORY_SHARE, MOST_DEFAULT_MEMORY_MB = 1 / 8, 2000


@dataclass(frozen=True)
class UnitResult:
    """What came of a unit.

    Attributes:
        num_tokens: in the text.
        vocabulary: different ones.
        num_unpruned: n-grams of each order before the size was limited.
        counts: n-grams of each order.
        discounts: see `Trained`.
        fallback_orders: see `Trained`.
        num_bytes: of the file.
    """

    num_tokens: int
    vocabulary: int
    num_unpruned: tuple[int, ...]
    counts: tuple[int, ...]
    discounts: tuple[tuple[float, ...], ...]
    fallback_orders: tuple[int, ...]
    num_bytes: int


def add_lm_train_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    parser.add_argument(
        "texts",
        nargs="+",
        metavar="TEXT",
        help="text files, plain or gzipped, manifests, folders of them, or - for standard input",
    )
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder for the models")
    parser.add_argument(
        "--units",
        default=",".join(UNITS),
        metavar="UNITS",
        help="what to make models over (default: %(default)s); hanzi conversion needs words",
    )
    parser.add_argument(
        "--order",
        type=int,
        default=3,
        metavar="N",
        help="length of the longest n-grams (default: %(default)s)",
    )
    parser.add_argument(
        "--prune",
        type=int,
        nargs="+",
        default=[0],
        metavar="COUNT",
        help="leave out n-grams that occur so often or less, for each order; such as 0 0 1",
    )
    parser.add_argument(
        "--max-size",
        type=float,
        metavar="MB",
        help="leave out n-grams that tell little until each model is at most so large",
    )
    parser.add_argument(
        "--memory",
        type=float,
        metavar="MB",
        help="what counting may take, more goes to disk; on top come all n-grams shorter than "
        "--order, pruned ones too, and the longest that --prune keeps "
        "(default: an eighth of the machine's, 2000 at most)",
    )


def lm_train_command(arguments: argparse.Namespace) -> int:
    """Read texts, write a folder of models; returns the exit status."""
    from asr.base.interrupt import stop_signals
    from asr.language.ngram.training import TrainingOptions

    units = _units(arguments.units)
    if arguments.max_size is not None and not 0 < arguments.max_size < MOST_MB:
        raise UserError(
            f"--max-size: expected megabytes, such as 20, received {arguments.max_size:g}; "
            "leave it out for models of any size"
        )
    memory_mb = arguments.memory if arguments.memory is not None else _default_memory_mb()
    if not LEAST_MEMORY_MB <= memory_mb < MOST_MB:
        raise UserError(
            f"--memory: expected at least {LEAST_MEMORY_MB} megabytes, and not more than a machine has, "
            f"received {memory_mb:g}; leave it out for the default"
        )
    options = TrainingOptions(
        arguments.order, tuple(arguments.prune), int((arguments.max_size or 0) * MB), int(memory_mb * MB)
    )
    with stop_signals():
        _train(arguments.texts, arguments.out, units, options)
    return 0


def _train(paths: Sequence[str], out: Path, units: Sequence[Unit], options: TrainingOptions) -> None:
    from data_pipeline.spoken_text import SpokenText

    started = time.monotonic()
    with _whole_folder(out) as folder:
        text = SpokenText(paths, folder)
        trained = {unit: _train_unit(text, unit, folder, options) for unit in units}
        readings = text.pronunciations()
        _write_pronunciations(folder, readings)
        _write_info(folder, text, trained, len(readings))
    _tell(out, text, trained, time.monotonic() - started)


def _units(text: str) -> tuple[Unit, ...]:
    names = list(dict.fromkeys(name.strip() for name in text.split(",")))
    if strangers := [name for name in names if name not in UNITS]:
        raise UserError(f"--units: expected some of {','.join(UNITS)}, received {strangers[0]!r}")
    return tuple(unit for unit in UNITS if unit in names)


def _default_memory_mb() -> float:
    try:
        machine_mb = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / MB
    except (AttributeError, ValueError, OSError):  # not every system tells
        return LEAST_MEMORY_MB * 10
    return max(LEAST_MEMORY_MB, min(MOST_DEFAULT_MEMORY_MB, machine_mb * DEFAULT_MEMORY_SHARE))


@contextlib.contextmanager
def _whole_folder(out: Path) -> Iterator[Path]:
    """A folder to write to, which takes its name when it is complete; an older one of this command goes."""
    from asr.base.files import cannot_write

    out = Path(os.path.realpath(out))  # a link stays, what it leads to is replaced
    _refuse_other_folders(out)
    part = out.with_name(f".{out.name}.part")
    try:
        shutil.rmtree(part, ignore_errors=True)  # of a run that was killed
        part.mkdir(parents=True)
    except OSError as error:
        raise cannot_write(out, "folder", error) from None
    try:
        yield part
        try:
            shutil.rmtree(out, ignore_errors=True)
            part.replace(out)
        except OSError as error:
            raise cannot_write(out, "folder", error) from None
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _refuse_other_folders(out: Path) -> None:
    from asr.base.units import UNITS
    from asr.language.ngram.folder import INFO, PRONUNCIATIONS, model_path, read_info

    if not os.path.lexists(out):
        return
    if not out.is_dir():
        raise UserError(f"--out {out}: a file; name a folder for the models")
    if Path.cwd().is_relative_to(out) or out.is_mount():
        raise UserError(
            f"--out {out}: expected a folder that can be replaced, received the current one, one above it "
            "or a whole disk; name a new folder in it"
        )
    ours = {INFO, PRONUNCIATIONS, *(model_path(out, unit).name for unit in UNITS)}
    names = {path.name for path in out.iterdir()}
    if names and (INFO not in names or names - ours):
        stranger = min(names - ours, default="no " + INFO)
        raise UserError(
            f"--out {out}: expected a new folder, an empty one, or one of this command to replace; "
            f"found {stranger} there; name another folder"
        )
    if names:
        read_info(out)


def _train_unit(text: SpokenText, unit: Unit, folder: Path, options: TrainingOptions) -> UnitResult:
    from tqdm import tqdm

    from asr.language.ngram.counting import END_ID
    from asr.language.ngram.folder import model_path
    from asr.language.ngram.model_file import save_model
    from asr.language.ngram.training import SPECIAL_WORDS, train_ngrams

    words = [*SPECIAL_WORDS, *text.vocabulary(unit)]
    blocks = text.blocks(unit, len(SPECIAL_WORDS), END_ID)
    num_tokens = 0

    def counted() -> Iterator[Int32]:
        nonlocal num_tokens
        with tqdm(
            total=text.num_words, desc=f"counting {unit}", unit=" words", unit_scale=True, delay=1
        ) as bar:
            for tokens, num_words in blocks:
                num_tokens += int((tokens != END_ID).sum())
                yield tokens
                bar.update(num_words)

    trained = train_ngrams(words, counted(), folder, options)
    path = model_path(folder, unit)
    save_model(path, trained.model)
    return UnitResult(
        num_tokens,
        len(words) - len(SPECIAL_WORDS),
        trained.num_unpruned,
        trained.model.counts,
        trained.discounts,
        trained.fallback_orders,
        path.stat().st_size,
    )


def _write_pronunciations(folder: Path, readings: Sequence[Pronunciation]) -> None:
    from asr.base.files import whole_file
    from asr.language.ngram.folder import pronunciations_path

    lines = (f"{word}\t{' '.join(reading)}\t{log_prob:.6f}\n" for word, reading, log_prob in readings)
    with whole_file(pronunciations_path(folder), "list of pronunciations") as file:
        file.writelines(line.encode() for line in lines)


def _write_info(
    folder: Path, text: SpokenText, trained: Mapping[Unit, UnitResult], num_pronunciations: int
) -> None:
    from asr.language.ngram.folder import ModelInfo, UnitInfo, write_info

    units: dict[str, UnitInfo] = {
        unit: UnitInfo(made.num_tokens, text.num_sentences, made.counts, made.discounts)
        for unit, made in trained.items()
    }
    created = datetime.datetime.now().astimezone().isoformat(timespec="seconds")
    write_info(folder, ModelInfo(created, tuple(text.sources), units, num_pronunciations))


def _tell(out: Path, text: SpokenText, trained: Mapping[Unit, UnitResult], taken_s: float) -> None:
    from asr.base.columns import in_columns
    from asr.runs.resume_command import asr_command

    print(
        f"{text.num_sentences:,} sentences, {text.num_words:,} words, {text.num_bytes / MB:.1f} MB of text "
        f"in {taken_s:.1f} s ({text.num_bytes / MB * 60 / taken_s:.0f} MB a minute)"
    )
    for reason, count in text.left_out.most_common():
        print(f"left out, sentences cut there: {count:,} {reason}")
    longest = max(len(made.counts) for made in trained.values())
    rows = [["unit", "tokens", "different", *(f"{n}-grams" for n in range(2, longest + 1)), "MB"]]
    for unit, made in trained.items():
        grams = [
            f"{kept:,}" if kept == found else f"{kept:,} of {found:,}"
            for kept, found in itertools.zip_longest(made.counts, made.num_unpruned, fillvalue=0)
        ]
        grams += [""] * (longest - len(grams))
        rows.append(
            [unit, f"{made.num_tokens:,}", f"{made.vocabulary:,}", *grams[1:], f"{made.num_bytes / MB:.1f}"]
        )
    print("\n" + "\n".join(in_columns(rows)))
    for unit, made in trained.items():
        if made.fallback_orders:
            orders = ", ".join(f"{order}-grams" for order in made.fallback_orders)
            print(
                f"{unit}: too small a text, or one that repeats itself, to tell the discounts of {orders}; "
                "usual ones were taken"
            )
    first = next(iter(trained))
    folder = shlex.quote(str(out))
    print(f"\n{out}: done. See how well it tells a text that it was not made of, and decode with it:\n")
    print(f"    {asr_command()} lm perplexity {folder}/{first}.klm TEXT")
    print(f"    {asr_command()} transcribe RUN AUDIO --lm {folder}")
    if "words" in trained:
        print(f"    {asr_command()} lm convert --model {folder} ni3 hao3")
