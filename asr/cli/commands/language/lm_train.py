"""`asr lm train` trains n-gram language models on raw text, and collects its pronunciations."""

from __future__ import annotations

import argparse
import itertools
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from asr.base.text.units import TEXT_UNITS
from asr.base.text.wording import counted, file_size

MIN_TIMED_S = 10.0  # in less, the speed is that of starting
WHOLE_SENTENCES = "sentences: "  # begins a reason to leave out sentences, and not only characters

if TYPE_CHECKING:
    from asr.training.language_model import TrainedModels


def add_lm_train_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "texts",
        nargs="+",
        metavar="TEXT",
        help="text files, plain or gzipped, manifests, folders of them, or - for standard input",
    )
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder for the models")
    parser.add_argument(
        "--units",
        type=lambda text: list(dict.fromkeys(name.strip() for name in text.split(","))),
        default=",".join(TEXT_UNITS),
        metavar="UNITS",
        help="units to train a model each over (default: %(default)s); hanzi conversion needs words. "
        "`pieces` is for models of pieces of words, and text of any language; `mixed` is for models of "
        "syllables and pieces of Latin words; `words` with --pieces, or `pieces,words` and `mixed,words`, "
        "is for these models as well, which are then decoded by whole words",
    )
    parser.add_argument(
        "--pieces",
        type=Path,
        metavar="FILE",
        help="the units.model of the run that the language model is for, with --units pieces, mixed or "
        "words (default, except for words alone: that beside the first text)",
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
        help="for each order, remove n-grams that occur at most this often, such as 0 0 1",
    )
    parser.add_argument(
        "--max-size",
        dest="max_size_mb",
        type=float,
        metavar="MB",
        help="remove the least informative n-grams until each model is at most this large",
    )
    parser.add_argument(
        "--memory",
        dest="memory_mb",
        type=float,
        metavar="MB",
        help="memory for counting, beyond which counts go to disk; in addition all n-grams shorter than "
        "--order are in memory, pruned ones too, and the longest that --prune keeps "
        "(default: an eighth of the machine's memory, 2000 at most)",
    )


def lm_train_command(arguments: argparse.Namespace) -> int:
    """Train language models on texts, write them as a folder, and return the exit status."""
    from asr.cli.progress_bars import ProgressBars
    from asr.training.language_model import NGramSettings, train_language_models

    settings = NGramSettings(arguments.order, arguments.prune, arguments.max_size_mb, arguments.memory_mb)
    with ProgressBars() as bars:
        trained = train_language_models(
            arguments.texts,
            arguments.out,
            arguments.units,
            pieces=arguments.pieces,
            settings=settings,
            on_progress=bars,
        )
    _print_text(trained)
    _print_models(trained)
    _print_next_steps(trained)
    return 0


def _print_text(trained: TrainedModels) -> None:
    size, speed = file_size(trained.num_bytes), ""
    if trained.taken_s >= MIN_TIMED_S:
        speed = f" ({file_size(trained.num_bytes * 60 / trained.taken_s)} per minute)"
    print(
        f"{counted(trained.num_sentences, 'sentence')}, {counted(trained.num_words, 'word')}, {size} of text "
        f"in {trained.taken_s:.1f} s{speed}"
    )
    for reason, count in trained.left_out.items():
        what = "left out" if reason.startswith(WHOLE_SENTENCES) else "left out, splitting the sentence"
        print(f"{what}: {count:,} {reason}")


def _print_models(trained: TrainedModels) -> None:
    from asr.base.text.terminal_table import align_columns

    longest = max(len(made.counts) for made in trained.units.values())
    rows = [["unit", "tokens", "different", *(f"{n}-grams" for n in range(2, longest + 1)), "size"]]
    for unit, made in trained.units.items():
        grams = [
            f"{kept:,}" if kept == found else f"{kept:,} of {found:,}"
            for kept, found in itertools.zip_longest(made.counts, made.num_unpruned, fillvalue=0)
        ]
        grams += [""] * (longest - len(grams))
        size = file_size(made.num_bytes)
        rows.append([unit, f"{made.num_tokens:,}", f"{made.num_different:,}", *grams[1:], size])
    print("\n" + "\n".join(align_columns(rows)))
    for unit, made in trained.units.items():
        if made.fallback_orders:
            orders = ", ".join(f"{order}-grams" for order in made.fallback_orders)
            print(
                f"{unit}: the text is too small or too repetitive to estimate the discounts of {orders}; "
                "default discounts are used"
            )


def _print_next_steps(trained: TrainedModels) -> None:
    from asr.language.ngram.folder import converts_to_hanzi
    from asr.runs.resume_command import asr_command

    first, folder = next(iter(trained.units)), shlex.quote(str(trained.folder))
    print(f"\n{trained.folder}: done. Measure its perplexity on a text that it was not trained on, ", end="")
    print("and decode with it:\n")
    print(f"    {asr_command()} lm perplexity {folder}/{first}.klm TEXT")
    print(f"    {asr_command()} transcribe RUN AUDIO --lm {folder}")
    if converts_to_hanzi(trained.folder):
        print(f"    {asr_command()} lm convert --model {folder} ni3 hao3")
