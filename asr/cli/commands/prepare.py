"""`asr prepare`: turn a corpus as downloaded into manifests."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from asr.base.types import UserError
from asr.cli.progress_bars import ProgressBars


def add_prepare_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    parser.add_argument("corpus", nargs="?", metavar="CORPUS", help="a name that --list shows")
    parser.add_argument(
        "paths",
        nargs="*",
        metavar="DIR OUT",
        help="the corpus as downloaded and unpacked, and the folder for its manifests",
    )
    parser.add_argument(
        "--units",
        choices=("syllables", "characters", "words"),
        help="what its text is cut into (default: the labels that it brings, or else its usual units)",
    )
    parser.add_argument("--list", action="store_true", help="show the corpora and forms that are known")


def prepare_command(arguments: argparse.Namespace) -> int:
    """Prepare one corpus, or list those that are known; returns the exit status."""
    if arguments.list:
        _print_list()
        return 0
    if not arguments.corpus:
        raise UserError("CORPUS: which one? `asr prepare --list` shows those that are known")
    from data_pipeline.corpora import find_corpus
    from data_pipeline.prepare import prepare_corpus

    corpus = find_corpus(arguments.corpus)
    expected = "DIR OUT" if corpus.needs_source else "OUT"
    if len(arguments.paths) != len(expected.split()):
        raise UserError(f"asr prepare {arguments.corpus}: expected {expected} behind it")
    *source, out = arguments.paths
    with ProgressBars() as bars:
        prepared = prepare_corpus(
            arguments.corpus,
            source[0] if source else "",
            Path(out),
            arguments.units,
            again=True,
            on_progress=bars,
        )
    print("\n".join(prepared.lines()))
    print("\nCheck them, listen to what is odd, and leave out what is not sound:\n")
    from asr.runs.resume_command import asr_command

    print(f"    {asr_command()} doctor {shlex.join(str(path) for path in prepared.manifests.values())}")
    return 0


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
    print("\nForms, for recordings of your own:\n")
    for name, form in FORMS.items():
        print(f"{name}\n    {form.about}")
        if form.layout:
            print(f"    {form.layout}")
