"""Transcribes many recordings into a file; an interrupted call is resumed by repeating it.

recognizer = Recognizer.load("runs/demo")
num_failed = transcribe_to_file(recognizer, audio_files(["recordings"]), Path("out.jsonl"), "jsonl")
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import logging
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from asr.base.errors import UserError
from asr.base.system.files import whole_file
from asr.base.text.wording import counted, listed
from asr.base.work import OnProgress, Work, ignore_progress
from asr.transcription.file_recognizer import FileRecognizer, file_chunks
from asr.transcription.files import refuse_bad_out, write_list
from asr.transcription.formats import FileFormat, ListFormat, format_transcript
from asr.transcription.to_files.journal import (
    Journal,
    header_of,
    journal_path,
    model_digest,
    model_in,
    open_journal,
    read_journal,
    stamp_of,
)
from asr.transcription.to_files.shards import Shard, ShardInfo
from asr.transcription.transcript import Transcript

logger = logging.getLogger(__name__)

OnResults: TypeAlias = Callable[[Sequence[Path], Iterable[Transcript | UserError]], None]

MAX_LISTED = 3


def transcribe_to_file(
    recognizer: FileRecognizer,
    sources: Sequence[Path],
    out: Path,
    format_name: ListFormat = "text",
    on_progress: OnProgress = ignore_progress,
    shard: Shard | None = None,
) -> int:
    """Write the transcripts of recordings to a file, and return how many recordings could not be read.

    Results are kept beside the file until it is complete. To resume after an interruption, repeat the call
    with the same model: the file equals that of an uninterrupted call.

    Args:
        recognizer: as returned by `Recognizer.load` or `ClusterRecognizer.load`; with any other, nothing is
            resumed.
        sources: paths of the recordings; `-` for standard input.
        out: path of the file to write.
        format_name: "text", "jsonl" or "csv".
        on_progress: receives how many recordings are done.
        shard: the job of an array that this is: only its recordings are transcribed, to a file of its own.

    Raises:
        UserError: the file cannot be written, or another process is writing it.
    """
    refuse_bad_out(out, sources)
    mine = sources
    if shard:
        mine, out = shard.of(sources), shard.path(out)
    doubtful = DoubtfulTranscripts()

    def results(journal: Journal) -> Iterator[tuple[Path, Transcript | UserError]]:
        for source, result in zip(mine, journal.results(), strict=True):
            doubtful.add(source, result)
            yield source, result

    with resumable_transcripts(recognizer, mine, out, on_progress) as journal:
        write_list(out, format_name, results(journal), with_names=len(sources) > 1)
        doubtful.log()
        if shard:
            ShardInfo.of(out, sources, journal.model, format_name).write(out)
        return journal.num_failed


@contextlib.contextmanager
def resumable_transcripts(
    recognizer: FileRecognizer,
    sources: Sequence[Path],
    out: Path,
    on_progress: OnProgress = ignore_progress,
    on_results: OnResults = lambda *_: None,
) -> Iterator[Journal]:
    """Transcribe recordings into the journal beside a file, for a block that writes the file from it.

    To resume after an interruption, or after a block that failed, enter the context again with the same
    model.

    Args:
        recognizer: as returned by `Recognizer.load` or `ClusterRecognizer.load`; with any other, nothing is
            resumed.
        sources: paths of the recordings; `-` for standard input.
        out: path of the file; the journal is removed when the block is done.
        on_progress: receives how many recordings are done.
        on_results: receives recordings and their results as they come, those kept already first.

    Raises:
        UserError: the journal cannot be written, or another process is writing it.
    """

    def report(work: Work) -> None:
        on_progress(dataclasses.replace(work, done=num_before + work.done, total=len(sources)))

    with open_journal(out, _digest_of(recognizer) or secrets.token_hex(), sources) as journal:
        chunks = journal.remaining_chunks(file_chunks(sources, recognizer.num_devices))
        _log_resumed(journal, len(sources))
        num_before = journal.num_rows
        on_results(sources[:num_before], journal.results())
        results = recognizer.transcribe_files(sources[num_before:], report, list(map(len, chunks)))
        for chunk in chunks:
            of_chunk = list(itertools.islice(results, len(chunk)))
            for source, result in zip(chunk, of_chunk, strict=True):
                log_problem(source, result)
            journal.add(of_chunk)
            on_results(chunk, of_chunk)
        none_left = list(results)  # asking for more reports that the last chunk is done
        assert not none_left
        yield journal


def transcribe_to_files(
    recognizer: FileRecognizer,
    outs: Mapping[Path, Path],
    out: Path,
    format_name: FileFormat,
    on_progress: OnProgress = ignore_progress,
    shard: Shard | None = None,
) -> int:
    """Write a file of subtitles, or a TextGrid, for each recording that can be read; return how many cannot.

    Each file is written as soon as its recording is transcribed. To resume after an interruption, repeat the
    call with the same model. A file in the folder is never replaced, as it may be a label that somebody made:
    recordings that have one are left out.

    Args:
        recognizer: as returned by `Recognizer.load` or `ClusterRecognizer.load`; with any other, nothing is
            resumed.
        outs: the file of each recording; see `asr.transcription.files.files_of_recordings`.
        out: the folder of the files, in which results are kept until all are written; or the only file.
        format_name: of the files.
        on_progress: receives how many recordings are done.
        shard: the job of an array that this is: only its recordings are transcribed.

    Raises:
        UserError: a file cannot be written, another model or other settings made files of an interrupted
            call, or another process transcribes to the same place.
    """
    doubtful, is_only_file = DoubtfulTranscripts(), list(outs.values()) == [out]

    def write(done: Sequence[Path], results: Iterable[Transcript | UserError]) -> None:
        for source, result in zip(done, results, strict=True):
            doubtful.add(source, result)
            if isinstance(result, UserError) or (outs[source].exists() and not is_only_file):
                continue
            with whole_file(outs[source], "transcript") as file:
                file.write(format_transcript(result, format_name).encode())

    sources, kept = list(outs), out if is_only_file else out / "transcripts"
    if shard:
        sources, kept = shard.of(sources), shard.path(kept)
    if not is_only_file:
        done = {source: outs[source] for source in sources if outs[source].exists()}
        remaining = _without_done(recognizer, sources, done, journal_path(kept))
        _log_done(list(done), len(sources))
        sources = remaining
    if not sources:
        journal_path(kept).unlink(missing_ok=True)  # its recordings have changed, or have files now
        return 0
    with resumable_transcripts(recognizer, sources, kept, on_progress, write) as journal:
        doubtful.log()
        return journal.num_failed


def _without_done(
    recognizer: FileRecognizer, sources: Sequence[Path], done: Mapping[Path, Path], journal: Path
) -> list[Path]:
    """Return the recordings that have no file, after those of a journal if all its rows are still valid."""
    header, stamps = read_journal(journal)
    named = {str(source): source for source in sources}
    before = [named[name] for name in stamps if name in named]
    made = [str(done[source]) for source in before if source in done]
    digest = _digest_of(recognizer)
    if made and digest is not None and model_in(header) != digest:
        raise UserError(
            f"{journal}: another model or decoder made {listed(made, MAX_LISTED)}; choose another folder for "
            "`out`, or remove these files; or remove this one to keep them"
        )
    is_valid = digest is not None and header == header_of(digest)
    # a pipe has no stamp, since it can be read only once
    is_valid &= [stamp_of(source) or "" for source in before] == list(stamps.values())
    first = before if is_valid else []
    left_out = {*done, *first}
    return [*first, *(source for source in sources if source not in left_out)]


def _log_done(done: Sequence[Path], num_recordings: int) -> None:
    """Log how many recordings have a file already."""
    if done:
        logger.info(
            "%s of %s have a file already, which is kept (%s); for another transcript, choose another folder",
            f"{len(done):,}",
            counted(num_recordings, "recording"),
            listed(list(map(str, done)), MAX_LISTED),
        )


def log_problem(source: Path, result: Transcript | UserError) -> None:
    """Log why a recording could not be read, or that it contains no speech."""
    if isinstance(result, UserError):
        logger.error("%s", result)
    elif not result.segments:
        logger.warning("%s: no speech found", source)


class DoubtfulTranscripts:
    """Those of many transcripts that are probably wrong, by the model's own confidence."""

    def __init__(self) -> None:
        self._num_transcripts = 0
        self._doubtful: list[str] = []

    def add(self, source: Path, result: Transcript | UserError) -> None:
        """Take the result of a recording into account."""
        if isinstance(result, Transcript):
            self._num_transcripts += 1
            self._doubtful += [str(source)] * result.is_doubtful

    def log(self) -> None:
        """Log the doubtful ones of those so far, if there are any."""
        if not self._doubtful:
            return
        which = listed(self._doubtful, MAX_LISTED)
        if self._num_transcripts > 1:
            of_all = counted(self._num_transcripts, "recording")
            which = f"{len(self._doubtful):,} of {of_all} ({which})"
        logger.warning(
            "%s: half of the transcript or more is probably wrong, by its confidence; the model was probably "
            "trained on other speech, and learns this kind from examples with their text (`train.init_from`)",
            which,
        )


def _digest_of(recognizer: FileRecognizer) -> str | None:
    """Return a checksum of everything that affects the transcripts; None if that is unknown."""
    origin = recognizer.origin
    if origin is None or not all(path.is_file() for path in origin.files):
        return None
    return model_digest(origin.files, origin.decoder)


def _log_resumed(journal: Journal, num_recordings: int) -> None:
    """Log how many results of an interrupted call are reused, and why others are not."""
    reason = f"{journal.reason}; " if journal.reason else ""
    if journal.num_rows:
        failed = f" ({journal.num_failed:,} with errors)" if journal.num_failed else ""
        done = f"resuming after {journal.num_rows:,} of {counted(num_recordings, 'recording')}{failed}"
        logger.info("%s: %s%s", journal.path, reason, done)
    elif reason:
        logger.info("%s: %sstarting over", journal.path, reason)
