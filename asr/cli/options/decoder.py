"""Declare the decoder's options, and combine them with the settings that `asr tune-decoder` wrote."""

from __future__ import annotations

import argparse
import dataclasses
import logging
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from asr.base.config import replaced
from asr.base.decoder_settings import GENERAL, DecoderSettings
from asr.base.errors import UserError
from asr.base.system.storage.address import refuse_to_read_address
from asr.transcription.decoder_choice import DecoderChoice

if TYPE_CHECKING:
    from asr.base.vocabulary import Vocabulary
    from asr.ctc.hot_words import HotWords
    from asr.export.runtimes.onnx.recognizer import ExportedModel
    from asr.runs.run import Run

logger = logging.getLogger(__name__)

BEAM = 16  # with a language model or hot words, which need a beam search
OF_LANGUAGE_MODEL = {"lm_weight", "token_bonus", "unknown_word"}


def add_decoder_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options that `decoder_choice` reads: those of the search and of its output."""
    add_search_arguments(parser)
    parser.add_argument("--n-best", type=int, metavar="N", help="write the N best hypotheses (as JSON)")
    written = parser.add_mutually_exclusive_group()
    written.add_argument("--tokens", action="store_true", help="write syllables, without hanzi conversion")
    add_hanzi_argument(written)
    parser.add_argument(
        "--itn",
        action="store_true",
        help="write numbers, dates and amounts in digits: 123 for 一百二十三 (inverse text normalisation; "
        "needs the extra normalize)",
    )


def add_hanzi_argument(parser: argparse._ActionsContainer) -> None:
    """Declare `--hanzi`, the model that converts syllables to hanzi."""
    parser.add_argument(
        "--hanzi",
        dest="hanzi_model",
        metavar="DIR",
        help="convert syllables to hanzi with the words of this folder that `asr lm train` made, besides "
        f"those of the built-in model, or, with `{GENERAL}`, by the built-in model alone; default: the "
        "folder of --lm if it has words, or else the built-in model alone",
    )


def add_search_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the search, without those of its output."""
    parser.set_defaults(n_best=None, tokens=False, hanzi_model=None, itn=False)
    group = parser.add_argument_group(
        "decoding",
        "default: the settings that `asr tune-decoder` wrote into the run, or else greedy decoding",
    )
    group.add_argument(
        "--lm",
        dest="language_model",
        type=Path,
        metavar="PATH",
        help="a folder that `asr lm train` made, or an ARPA or KenLM file over the model's units, or over "
        "the words that its pieces spell",
    )
    group.add_argument(
        "--hot-words",
        type=Path,
        metavar="FILE",
        help="words to expect, one per line; hanzi are matched by their pronunciation",
    )
    group.add_argument(
        "--beam",
        type=int,
        metavar="N",
        help=f"hypotheses kept in the search; 1 is greedy (default: {BEAM} with --lm or --hot-words)",
    )
    group.add_argument(
        "--decoder",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="change another setting of decoder.toml, such as beam_width=20; may be repeated",
    )


def given_search_options(arguments: argparse.Namespace) -> list[str]:
    """Return the options of `add_search_arguments` and `--hanzi` as they were given, for another command."""
    given = {
        "--lm": arguments.language_model,
        "--hot-words": arguments.hot_words,
        "--beam": arguments.beam,
        "--hanzi": arguments.hanzi_model,
    }
    once = [(option, str(value)) for option, value in given.items() if value is not None]
    return [word for pair in (*once, *(("--decoder", one) for one in arguments.decoder)) for word in pair]


def given_decoder_keys(arguments: argparse.Namespace) -> set[str]:
    """Return the settings that `--decoder` changes."""
    return {key for override in arguments.decoder for key in _parsed(override)}


def ask_for_stored_decoder(arguments: argparse.Namespace, run: Run) -> None:
    """Ask for the tuned decoder of a run by options, unless others were given, so that other runs have it."""
    given = arguments.language_model or arguments.decoder or arguments.beam is not None
    if given or not run.decoder_path.exists():
        return
    usual, stored = (dataclasses.asdict(one) for one in (DecoderSettings(), run.decoder_settings()))
    idle = set() if stored["language_model"] else OF_LANGUAGE_MODEL
    tuned = {key: value for key, value in stored.items() if value != usual[key] and key not in idle}
    arguments.language_model = tuned.pop("language_model", None)
    arguments.beam = tuned.pop("beam", None)
    arguments.decoder = [f"{key}={value}" for key, value in tuned.items()]


def decoder_choice(arguments: argparse.Namespace, run: Run | ExportedModel) -> DecoderChoice:
    """Return the decoder that the options of `add_decoder_arguments` ask for.

    Raises:
        UserError: options contradict each other, or a file cannot be used.
    """
    settings = _settings(arguments, run.decoder_settings(str(arguments.language_model or "")))
    hot_words = _hot_words(arguments.hot_words, run.vocabulary()) if arguments.hot_words else None
    hanzi_model = _hanzi_model(arguments.hanzi_model)
    return DecoderChoice(settings, hot_words, not arguments.tokens, hanzi_model, arguments.itn)


def _hanzi_model(named: str | None) -> Path | None:
    if named is None:
        return None
    if named != GENERAL:
        refuse_to_read_address(named, "--hanzi")
        return Path(named)
    from asr.language.hanzi.converter import GENERAL_MODEL

    return GENERAL_MODEL


def _settings(arguments: argparse.Namespace, settings: DecoderSettings) -> DecoderSettings:
    """Return the run's settings, overridden by those of the command line."""
    changes: dict[str, Any] = {}
    if arguments.language_model:
        refuse_to_read_address(arguments.language_model, "--lm")
        changes["language_model"] = str(arguments.language_model)
    if arguments.n_best is not None:
        changes["n_best"] = arguments.n_best
    if arguments.beam is not None:
        changes["beam"] = arguments.beam
    elif settings.beam == 1 and (arguments.language_model or arguments.hot_words or arguments.n_best):
        changes["beam"] = max(BEAM, arguments.n_best or 1)
    if arguments.beam == 1:
        settings = DecoderSettings()  # greedy decoding uses no tuned setting
    try:
        settings = replaced(settings, changes, "--")
    except UserError as error:  # which names the setting
        raise UserError(str(error).replace("--n_best", "--n-best")) from None
    for override in arguments.decoder:
        settings = replaced(settings, _parsed(override), "--decoder ")
    named = given_decoder_keys(arguments)
    if not settings.language_model and (idle := sorted(named & OF_LANGUAGE_MODEL)):
        if arguments.beam == 1:
            raise UserError(f"--decoder {idle[0]}: changes nothing with --beam 1; leave one of them out")
        raise UserError(f"--decoder {idle[0]}: changes nothing without a language model; name one by --lm")
    names_beam = arguments.beam is not None or "beam" in named
    if settings.beam == 1 and settings.language_model and not names_beam:
        settings = dataclasses.replace(settings, beam=BEAM)
    return settings


def _parsed(override: str) -> dict[str, Any]:
    try:
        return tomllib.loads(override)
    except tomllib.TOMLDecodeError:
        raise UserError(f"--decoder {override}: expected KEY=VALUE, such as beam_width=20") from None


def _hot_words(path: Path, vocabulary: Vocabulary) -> HotWords:
    from asr.cli.progress_bars import ProgressBars
    from asr.ctc.hot_words import HotWords
    from data_pipeline.labels.from_text import label

    with ProgressBars() as bars:
        hot_words = HotWords.load(path, vocabulary, label, bars)
    if hot_words.left_out:
        logger.warning("%s: %s", path, hot_words.left_out)
    return hot_words
