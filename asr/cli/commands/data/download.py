"""`asr download` downloads and unpacks a corpus; the same command resumes an interrupted download."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from asr.base.text.wording import file_size
from asr.cli.progress_bars import ProgressBars


def add_download_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("corpus", metavar="CORPUS", help="a name that `asr prepare --list` shows")
    parser.add_argument("dir", type=Path, metavar="DIR", help="folder for its archives and their contents")
    parser.add_argument(
        "--mirror", metavar="HOST", help="another server with the same files, such as openslr.elda.org"
    )


def download_command(arguments: argparse.Namespace) -> int:
    """Download and unpack the archives of a corpus, and return the exit status."""
    from asr.runs.resume_command import asr_command
    from data_pipeline.corpora import find_corpus
    from data_pipeline.download.corpus import download_corpus

    name, corpus = arguments.corpus, find_corpus(arguments.corpus)
    if corpus.archives:
        terms = " ".join(text for text in (corpus.licence, corpus.address) if text)
        print(f"{name}: {corpus.about} {f'({terms})' if terms else ''}".rstrip(), flush=True)
    with ProgressBars() as bars:
        archives = download_corpus(name, corpus, arguments.dir, arguments.mirror, on_progress=bars)
    if archives:
        size = file_size(sum(path.stat().st_size for path in archives))
        print(f"The archives ({size}) are kept; they are unpacked, so you can remove them.")
    print(f"{name} is complete. Next: {asr_command()} prepare {name} {shlex.quote(str(arguments.dir))} OUT")
    return 0
