"""`asr lm`: train language models, look into them, measure them, and write syllables as hanzi."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from asr.base.types import UserError
from asr.cli.commands.lm_convert import add_lm_convert_arguments, lm_convert_command
from asr.cli.commands.lm_train import add_lm_train_arguments, lm_train_command

if TYPE_CHECKING:
    from asr.language.ngram.model import Int32, NGramModel
    from asr.language.ngram.perplexity import Fit
    from data_pipeline.spoken_text import SpokenText

NUM_SHOWN = 10


class LanguageModelCommand(NamedTuple):
    """One of the commands below `asr lm`."""

    name: str
    help: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]


def add_lm_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in COMMANDS:
        subparser = commands.add_parser(command.name, help=command.help)
        command.add_arguments(subparser)
        subparser.set_defaults(run_lm_command=command.run)


def lm_command(arguments: argparse.Namespace) -> int:
    """Run one of the commands below; returns its exit status."""
    status: int = arguments.run_lm_command(arguments)
    return status


def add_lm_info_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    parser.add_argument("model", type=Path, help="a folder that `asr lm train` made, an ARPA or a KenLM file")


def lm_info_command(arguments: argparse.Namespace) -> int:
    """Tell what a model holds; returns the exit status."""
    from asr.language.ngram.folder import INFO, read_info
    from asr.language.ngram.model_file import load_model

    info = read_info(arguments.model) if (arguments.model / INFO).exists() else None
    if info:
        _tell(
            str(arguments.model),
            {
                "made": info.created,
                "from": _some(info.texts),
                "pronunciations": f"{info.num_pronunciations:,}",
            },
        )
    for path in _models_in(arguments.model):
        made = info.units.get(path.stem) if info else None
        rows = _rows(path, load_model(path))
        if made:
            rows["trained on"] = f"{made.num_sentences:,} sentences, {made.num_tokens:,} {path.stem}"
            for order, discounts in enumerate(made.discounts, start=1):
                rows[f"{order}-gram discounts"] = ", ".join(f"{discount:.3f}" for discount in discounts)
        _tell(str(path), rows)
    return 0


def add_lm_perplexity_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
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
        help="each line is a sentence of the model's words, with spaces between them, in whatever language; "
        "without it, Chinese text is cut into sentences and words as `asr lm train` does",
    )


def lm_perplexity_command(arguments: argparse.Namespace) -> int:
    """Measure models on a text; returns the exit status."""
    from asr.base.units import unit_of
    from asr.language.ngram.model_file import load_model

    models = {path: load_model(path) for path in _models_in(arguments.model)}
    measure = _measure_tokenized if arguments.tokenized else _measure_chinese
    for path, fit in measure(models, arguments.texts):
        if not fit.num_words:
            raise UserError(f"{_some(arguments.texts)}: no words in there; name a text that holds some")
        rows = {
            "sentences": f"{fit.num_sentences:,}",
            unit_of(
                models[path].words
            ): f"{fit.num_words:,}, of which unknown {fit.num_unknown:,} ({fit.unknown_rate:.2%})",
            "perplexity": f"{fit.perplexity:,.2f}",
            "of known ones alone": f"{fit.known_perplexity:,.2f}",
        }
        _tell(str(path), rows)
    return 0


def add_lm_export_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    parser.add_argument("model", type=Path, help="an ARPA or a KenLM file, such as lm/syllables.klm")
    parser.add_argument("out", type=Path, help="a new file: .arpa for text, .klm for KenLM's binary")


def lm_export_command(arguments: argparse.Namespace) -> int:
    """Write a model in another format; returns the exit status."""
    from asr.language.ngram.arpa import write_arpa
    from asr.language.ngram.model_file import load_model, save_model

    write = {".arpa": write_arpa, ".klm": save_model}.get(arguments.out.suffix)
    if write is None:
        raise UserError(f"{arguments.out}: expected a name that ends in .arpa or .klm")
    if arguments.out.exists():
        raise UserError(f"{arguments.out}: is there already; name a new file, or remove it first")
    write(arguments.out, load_model(arguments.model))
    print(f"{arguments.out}: {arguments.out.stat().st_size / 1e6:,.1f} MB")
    return 0


def _measure_chinese(models: dict[Path, NGramModel], texts: Sequence[str]) -> Iterator[tuple[Path, Fit]]:
    from data_pipeline.spoken_text import SpokenText

    with tempfile.TemporaryDirectory() as folder:
        spoken = SpokenText(texts, Path(folder))
        for path, model in models.items():
            yield path, _measure_spoken(path, model, spoken)
        for reason, count in spoken.left_out.most_common():
            print(f"left out of the text: {count:,} {reason}")


def _measure_spoken(path: Path, model: NGramModel, spoken: SpokenText) -> Fit:
    import numpy as np
    from tqdm import tqdm

    from asr.base.units import unit_of
    from asr.language.ngram.model import SENTENCE_END
    from asr.language.ngram.perplexity import fit

    unit = unit_of(model.words)
    ids = model.ids_of([SENTENCE_END, *spoken.vocabulary(unit)])
    if len(ids) > 1 and not ids[1:].any():
        raise UserError(
            f"{path}: it knows none of the {len(ids) - 1:,} different {unit} of this text, but such as "
            f"{_some(_own(model.words))}; name a model of Chinese, or a text in its words and --tokenized"
        )

    def blocks() -> Iterator[Int32]:
        with tqdm(total=spoken.num_words, desc=path.name, unit=" words", unit_scale=True, delay=1) as bar:
            for tokens, num_words in spoken.blocks(unit, 1, 0):
                yield np.take(ids, tokens)
                bar.update(num_words)

    return fit(model, blocks())


def _measure_tokenized(models: dict[Path, NGramModel], texts: Sequence[str]) -> Iterator[tuple[Path, Fit]]:
    from tqdm import tqdm

    from asr.language.ngram.perplexity import Fit, fit
    from data_pipeline.text_files import find_text_files, read_blocks

    fits = dict.fromkeys(models, Fit())
    with tqdm(desc="reading", unit="B", unit_scale=True, delay=1) as bar:
        for source in find_text_files(texts):
            for block in read_blocks(source):
                lines = [words for line in block.text.split("\n") if (words := line.split())]
                for path, model in models.items():
                    fits[path] += fit(model, [_ids(model, lines)])
                bar.update(block.num_bytes)
    yield from fits.items()


def _ids(model: NGramModel, lines: Sequence[Sequence[str]]) -> Int32:
    from asr.language.ngram.model import SENTENCE_BEGIN, SENTENCE_END

    marks = (SENTENCE_BEGIN, SENTENCE_END)
    return model.ids_of(
        word for line in lines for word in (*(w for w in line if w not in marks), SENTENCE_END)
    )


def _models_in(path: Path) -> list[Path]:
    from asr.language.ngram.folder import model_path, units_in

    if not path.is_dir():
        return [path]
    paths = [model_path(path, unit) for unit in units_in(path)]
    if not paths:
        raise UserError(
            f"{path}: no language model in this folder; `asr lm train TEXT... --out {path}` makes them"
        )
    return paths


def _rows(path: Path, model: NGramModel) -> dict[str, str]:
    from asr.base.units import unit_of
    from asr.language.ngram.model_file import kind_of

    unit = unit_of(model.words)
    num_ngrams = (len(model.words), *model.counts[1:])  # KenLM may not count <unk>
    return {
        "file": f"{kind_of(path)}, {path.stat().st_size / 1e6:,.1f} MB",
        "order": str(model.order),
        "n-grams": ", ".join(f"{count:,} of {order}" for order, count in enumerate(num_ngrams, start=1)),
        unit: f"{len(_own(model.words)):,}, such as {_some(_own(model.words))}",
    }


def _own(words: Sequence[str]) -> list[str]:
    from asr.base.units import SPECIAL

    return [word for word in words if word not in SPECIAL]


def _some(values: Sequence[str]) -> str:
    shown = values[:: max(1, len(values) // NUM_SHOWN)][:NUM_SHOWN]
    return ", ".join(shown) + (", ..." if len(values) > len(shown) else "")


def _tell(title: str, rows: dict[str, str]) -> None:
    print(f"{title}:")
    for name, value in rows.items():
        print(f"  {name:<22} {value}")


COMMANDS = (
    LanguageModelCommand(
        "train", "make language models from raw text", add_lm_train_arguments, lm_train_command
    ),
    LanguageModelCommand("info", "show what a language model holds", add_lm_info_arguments, lm_info_command),
    LanguageModelCommand(
        "perplexity",
        "measure how well a language model foretells a text",
        add_lm_perplexity_arguments,
        lm_perplexity_command,
    ),
    LanguageModelCommand(
        "export",
        "write a language model as ARPA text or KenLM's binary",
        add_lm_export_arguments,
        lm_export_command,
    ),
    LanguageModelCommand("convert", "write pinyin as hanzi", add_lm_convert_arguments, lm_convert_command),
)
