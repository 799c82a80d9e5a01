"""`asr prepare` converts a downloaded corpus, or recordings of your own, to manifests."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path
from typing import get_args

from asr.base.errors import UserError
from asr.base.system.storage.address import path_of
from asr.cli.errors import with_options
from asr.cli.options.cluster import add_cluster_argument, chosen_cluster
from asr.cli.progress_bars import ProgressBars
from data_pipeline.labels.readings.tones import Tones


def add_prepare_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("corpus", nargs="?", metavar="CORPUS", help="a name that --list shows")
    parser.add_argument(
        "paths",
        nargs="*",
        metavar="DIR OUT",
        help="the folder of the unpacked corpus, and the folder for its manifests; of recordings of your own "
        "any number of folders or lists before it: `asr prepare folder clips more/list.xlsx OUT`",
    )
    parser.add_argument(
        "--units",
        metavar="UNITS",
        help="units of the labels: syllables, characters, words; bpe:N or unigram:N for N pieces of words, "
        "learned from the training text; mixed or mixed:N for syllables, and N pieces of Latin words (as "
        "many as the text allows, up to 200); or the units.model of other labels or of a run, for the same "
        "pieces, with mixed: before it for syllables too (default: the corpus's own labels, or else its "
        "usual units)",
    )
    parser.add_argument(
        "--tones",
        choices=get_args(Tones),
        default="citation",
        help="tones of syllables made from text: those of the dictionary, or those of fluent speech, in "
        "which third tones, 一 and 不 change (default: %(default)s)",
    )
    parser.add_argument(
        "--readings",
        type=Path,
        metavar="FILE",
        help="your own table, which wins over everything: in each line a word, and a toned syllable for each "
        "hanzi (行长 hang2 zhang3), or for mixed units a Latin word and how it is said (app A P P)",
    )
    parser.add_argument(
        "--normalize",
        action="store_true",
        help="write out digits and signs as they are spoken (2019年, 3.5%%), and list what was changed; "
        "needs `pip install 'polyphone[normalize]'`",
    )
    add_cluster_argument(parser, "cut long recordings and read headers")
    parser.add_argument("--list", action="store_true", help="list the known corpora and forms")


def prepare_command(arguments: argparse.Namespace) -> int:
    """Prepare one corpus, or list the known ones, and return the exit status."""
    if arguments.list:
        _print_list()
        return 0
    if not arguments.corpus:
        raise UserError("CORPUS: missing; `asr prepare --list` shows the known corpora")
    from data_pipeline.corpora import CORPORA, FORMS, find_corpus
    from data_pipeline.preparation.labeller import ReadingOptions
    from data_pipeline.preparation.prepare import prepare_corpus

    if Path(arguments.corpus).exists() and arguments.corpus not in {**CORPORA, **FORMS}:
        raise UserError(
            f"{arguments.corpus}: expected the name of a corpus or form before the folder, such as "
            f"`asr prepare folder {shlex.quote(arguments.corpus)} OUT`; `asr prepare --list` shows them"
        )
    if arguments.units is not None:
        _check_units(arguments.units)
    corpus = find_corpus(arguments.corpus)
    several = arguments.corpus in FORMS
    expected = ("DIR ... OUT" if several else "DIR OUT") if corpus.needs_source else "OUT"
    num_paths = 2 if corpus.needs_source else 1
    if len(arguments.paths) < num_paths or (len(arguments.paths) > num_paths and not several):
        raise UserError(
            f"asr prepare {arguments.corpus}: expected {expected} after it, received "
            f"{' '.join(arguments.paths) or 'nothing'}"
        )
    *sources, out = arguments.paths
    if len(sources) > 1:
        _refuse_recordings(Path(out))
    with chosen_cluster(arguments) as cluster, ProgressBars() as bars:
        prepared = prepare_corpus(
            arguments.corpus,
            sources[0] if sources else "",
            path_of(out),
            arguments.units,
            more_sources=sources[1:],
            reading=ReadingOptions(arguments.tones, arguments.readings, arguments.normalize),
            again=True,
            on_progress=bars,
            cluster=cluster,
        )
    from data_pipeline.labels.from_text import remedies

    print("\n".join(prepared.lines()))
    for remedy in remedies(prepared.left_out, is_normalized=arguments.normalize):
        print(with_options(remedy, arguments.parser))
    print("\nCheck the manifests, listen to outliers, and leave out unusable recordings:\n")
    from asr.runs.resume_command import asr_command

    print(f"    {asr_command()} doctor {shlex.join(str(path) for path in prepared.manifests.values())}")
    return 0


def _check_units(units: str) -> None:
    from asr.base.text.units import read_units

    try:
        read_units(units)
    except UserError as error:
        raise UserError(f"--units: {error}") from None


def _refuse_recordings(out: Path) -> None:
    """Raise a UserError if the last of several folders seems to be one more source."""
    from asr.audio.formats import AUDIO_SUFFIXES
    from data_pipeline.corpora.layout import PREPARED, files_below

    if not (out / PREPARED).exists() and next(files_below(out, AUDIO_SUFFIXES), None):
        raise UserError(
            f"{out}: this folder holds recordings, but the last one is for manifests; add a new one, such as "
            "data/mine"
        )


def _print_list() -> None:
    from data_pipeline.corpora import CORPORA, FORMS

    print("Corpora:\n")
    for name, corpus in CORPORA.items():
        hours = f"{corpus.hours:g} h, " if corpus.hours else ""
        size = f"{corpus.size_gb:g} GB, " if corpus.size_gb else ""
        fetched = f"asr download {name} DIR" if corpus.archives else corpus.address
        print(f"{name}\n    {corpus.about}\n    {hours}{size}{corpus.licence}")
        if fetched:
            print(f"    {fetched}" + (f"  ({corpus.address})" if corpus.archives else ""))
    print("\nForms for recordings of your own:\n")
    for name, form in FORMS.items():
        print(f"{name}\n    {form.about}")
        if form.layout:
            print(f"    {form.layout}")
