"""`asr transcribe`: turn recordings into text."""

from __future__ import annotations

import argparse
import sys

from asr.commands import EXIT_MISTAKE
from asr.quiet import import_tensorflow
from asr.types import UserError


def transcribe_command(arguments: argparse.Namespace) -> int:
    """Transcribe files and folders; returns the exit status."""
    from asr.transcripts import audio_files, open_writer

    sources = audio_files(arguments.files)
    if arguments.out and arguments.out.resolve() in {source.resolve() for source in sources}:
        raise UserError(
            f"--out {arguments.out}: one of the recordings; choose another file for the transcripts"
        )

    import_tensorflow()
    from asr.recognizer import Recognizer

    recognizer = Recognizer.load(arguments.run)
    num_failed = 0
    with open_writer(arguments.format, arguments.out, num_files=len(sources)) as writer:
        for source, result in zip(sources, recognizer.transcribe_files(sources), strict=True):
            if isinstance(result, UserError):
                num_failed += 1
                print(f"error: {result}", file=sys.stderr)
            writer.write(str(source), result)
    return EXIT_MISTAKE if num_failed else 0
