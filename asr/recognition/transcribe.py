"""Transcribes many recordings into a file; what was interrupted is resumed by the same call.

recognizer = Recognizer.load("runs/demo")
num_failed = transcribe_to_file(recognizer, audio_files(["recordings"]), Path("out.jsonl"), "jsonl")
"""

from __future__ import annotations

import dataclasses
import logging
import secrets
from collections.abc import Sequence
from pathlib import Path

from asr.base.types import UserError
from asr.base.work import OnProgress, Work, ignore_progress
from asr.recognition.journal import Journal, model_digest, open_journal
from asr.recognition.recognizer import Recognizer
from asr.recognition.transcripts import Format, Result, refuse_bad_out, write_transcripts

logger = logging.getLogger(__name__)


def transcribe_to_file(
    recognizer: Recognizer,
    sources: Sequence[Path],
    out: Path,
    format_name: Format = "text",
    on_progress: OnProgress = ignore_progress,
) -> int:
    """Write what is said in recordings to a file, and return how many of them could not be read.

    Results are kept beside the file until all are there: an interrupted call is resumed by the same call
    with the same model, and the file is the one that would have been written without the interruption.

    Args:
        recognizer: of the audio; one that `Recognizer.load` returned, or else nothing is resumed.
        sources: paths of the recordings, `-` for standard input.
        out: path of the file.
        format_name: of the file.
        on_progress: receives how many recordings are done.

    Raises:
        UserError: the file cannot be written, or another process is writing it.
    """
    refuse_bad_out(out, sources)
    with open_journal(out, _digest_of(recognizer), sources) as journal:
        chunks = journal.left_of(recognizer.chunks(sources))
        _log_found(journal, len(sources))
        num_before = journal.num_rows

        def report(work: Work) -> None:
            on_progress(dataclasses.replace(work, done=num_before + work.done, total=len(sources)))

        for chunk, results in zip(chunks, recognizer.transcribe_chunks(chunks, report), strict=True):
            for source, result in zip(chunk, results, strict=True):
                log_trouble(source, result)
            journal.add(results)
        write_transcripts(out, format_name, sources, journal.results())
        return journal.num_failed


def log_trouble(source: Path, result: Result) -> None:
    """Log why a recording could not be read, or that nothing is said in it."""
    if isinstance(result, UserError):
        logger.error("%s", result)
    elif not result.tokens:
        logger.warning("%s: no speech was found in it", source)


def _digest_of(recognizer: Recognizer) -> str:
    """Return a checksum of all that decides what is recognized; no other call's where that is not known."""
    origin = recognizer.origin
    if origin is None or not all(path.is_file() for path in origin.files):
        return secrets.token_hex()
    return model_digest(origin.files, origin.decoder)


def _log_found(journal: Journal, num_recordings: int) -> None:
    """Log how much is there from a call that was interrupted."""
    reason = f"{journal.reason}; " if journal.reason else ""
    if journal.num_rows:
        failed = f", {journal.num_failed:,} of them as errors" if journal.num_failed else ""
        there = f"{journal.num_rows:,} of {num_recordings:,} recordings are there already{failed}; going on"
        logger.info("%s: %s%s", journal.path, reason, there)
    elif reason:
        logger.info("%s: %sbeginning anew", journal.path, reason)
