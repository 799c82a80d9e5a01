"""`asr lm` trains, inspects and evaluates language models, and converts syllables to hanzi."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from asr.base.text.wording import counted, file_size
from asr.cli.commands.language.lm_convert import add_lm_convert_arguments, lm_convert_command
from asr.cli.commands.language.lm_train import add_lm_train_arguments, lm_train_command
from asr.cli.logs import add_log_arguments

if TYPE_CHECKING:
    from asr.language.ngram.model import NGramModel


class LanguageModelCommand(NamedTuple):
    """A command below `asr lm`: its name, its help, its arguments and its function."""

    name: str
    help: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]


def add_lm_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in COMMANDS:
        subparser = commands.add_parser(command.name, help=command.help)
        command.add_arguments(subparser)
        add_log_arguments(subparser, default=argparse.SUPPRESS)
        subparser.set_defaults(run_lm_command=command.run, parser=subparser)


def lm_command(arguments: argparse.Namespace) -> int:
    """Run the chosen command below `asr lm` and return its exit status."""
    status: int = arguments.run_lm_command(arguments)
    return status


def add_lm_info_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("model", type=Path, help="a folder that `asr lm train` made, an ARPA or a KenLM file")


def lm_info_command(arguments: argparse.Namespace) -> int:
    """Print what a language model contains, and return the exit status."""
    from asr.cli.progress_bars import ProgressBars
    from asr.language.ngram.folder import INFO, models_in, read_info, sample_words
    from asr.language.ngram.model_file import load_model

    info = read_info(arguments.model) if (arguments.model / INFO).exists() else None
    if info:
        made_of = {"made": info.created, "from": sample_words(info.texts)}
        _print_rows(str(arguments.model), made_of | {"pronunciations": f"{info.num_pronunciations:,}"})
    for path in models_in(arguments.model):
        made = info.units.get(path.stem) if info else None
        with ProgressBars() as bars:
            rows = _rows(path, load_model(path, bars), path.stem if made else None)
        if made:
            rows["trained on"] = f"{counted(made.num_sentences, 'sentence')}, {made.num_tokens:,} {path.stem}"
            for order, discounts in enumerate(made.discounts, start=1):
                rows[f"{order}-gram discounts"] = ", ".join(f"{discount:.3f}" for discount in discounts)
        _print_rows(str(path), rows)
    return 0


def add_lm_perplexity_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("model", type=Path, help="a folder that `asr lm train` made, an ARPA or a KenLM file")
    parser.add_argument(
        "texts",
        nargs="+",
        metavar="TEXT",
        help="text files, plain or gzipped, manifests, folders of them, or - for standard input",
    )
    parser.add_argument(
        "--tokenized",
        action="store_true",
        help="each line is a sentence of the model's words, separated by spaces, in any language; "
        "without it, Chinese text is split into sentences and words as `asr lm train` does",
    )


def lm_perplexity_command(arguments: argparse.Namespace) -> int:
    """Print the perplexity of models on a text, and return the exit status."""
    from asr.cli.progress_bars import ProgressBars
    from asr.evaluation.perplexity import measure_perplexity

    with ProgressBars() as bars:
        found = measure_perplexity(
            arguments.model, arguments.texts, tokenized=arguments.tokenized, on_progress=bars
        )
    for path, unit, fit in found.fits:
        rows = {
            "sentences": f"{fit.num_sentences:,}",
            unit: f"{fit.num_words:,}, {fit.num_unknown:,} of them unknown ({fit.unknown_rate:.2%})",
            "perplexity": f"{fit.perplexity:,.2f}",
            f"of known {unit}": f"{fit.known_perplexity:,.2f}",
        }
        _print_rows(str(path), rows)
    for reason, count in found.left_out.items():
        print(f"left out of the text: {count:,} {reason}")
    return 0


def add_lm_export_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("model", type=Path, help="an ARPA or a KenLM file, such as lm/syllables.klm")
    parser.add_argument("out", type=Path, help="a new file: .arpa for text, .klm for KenLM's binary")


def lm_export_command(arguments: argparse.Namespace) -> int:
    """Write a model in another format, and return the exit status."""
    from asr.cli.progress_bars import ProgressBars
    from asr.language.ngram.model_file import export_model

    with ProgressBars() as bars:
        export_model(arguments.model, arguments.out, bars)
    print(f"{arguments.out}: {file_size(arguments.out.stat().st_size)}")
    return 0


def _rows(path: Path, model: NGramModel, unit: str | None) -> dict[str, str]:
    from asr.base.text.units import unit_of
    from asr.language.ngram.folder import ordinary_words, sample_words
    from asr.language.ngram.model_file import kind_of

    words = ordinary_words(model.words)
    num_ngrams = (len(model.words), *model.counts[1:])  # KenLM may not count <unk>
    orders = [f"{count:,} of order {order}" for order, count in enumerate(num_ngrams, start=1)]
    return {
        "file": f"{kind_of(path)}, {file_size(path.stat().st_size)}",
        "order": str(model.order),
        "n-grams": ", ".join(orders),
        unit or unit_of(words): f"{len(words):,}, such as {sample_words(words)}",
    }


def _print_rows(title: str, rows: dict[str, str]) -> None:
    print(f"{title}:")
    for name, value in rows.items():
        print(f"  {name:<22} {value}")


COMMANDS = (
    LanguageModelCommand(
        "train", "train language models on raw text", add_lm_train_arguments, lm_train_command
    ),
    LanguageModelCommand(
        "info", "show what a language model contains", add_lm_info_arguments, lm_info_command
    ),
    LanguageModelCommand(
        "perplexity",
        "measure how well a language model predicts a text",
        add_lm_perplexity_arguments,
        lm_perplexity_command,
    ),
    LanguageModelCommand(
        "export",
        "write a language model as ARPA text or KenLM's binary",
        add_lm_export_arguments,
        lm_export_command,
    ),
    LanguageModelCommand("convert", "convert pinyin to hanzi", add_lm_convert_arguments, lm_convert_command),
)
