"""`asr align` finds when each syllable of a known text is spoken, for Praat, as subtitles or as JSON."""

from __future__ import annotations

import argparse
import logging
from pathlib import Path

from asr.base.errors import UserError
from asr.base.system.files import whole_file
from asr.cli.options.run import RUN, run_and_rest
from asr.cli.progress_bars import ProgressBars
from asr.transcription.formats import SUFFIXES, TimeFormat, format_words

logger = logging.getLogger(__name__)


def add_align_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    run = parser.add_argument("run", metavar="[RUN]", help=f"{RUN} (default: the model `general`)")
    audio = parser.add_argument(
        "audio", metavar="AUDIO", help="a recording of any rate, container and length"
    )
    text = parser.add_argument(
        "text",
        metavar="TEXT",
        help="the transcript, or a file that contains it: hanzi, or tokens separated by spaces",
    )
    run.required = audio.required = text.required = False  # see `run_and_rest`
    parser.add_argument(
        "--out",
        type=Path,
        nargs="+",
        default=[],
        metavar="FILE",
        help="files to write, in the format of their suffix: .TextGrid, .srt, .vtt, .json, .tsv "
        "(default: print a table)",
    )
    parser.add_argument(
        "--format", choices=list(SUFFIXES), help="format of the output, or of files with other suffixes"
    )


def align_command(arguments: argparse.Namespace) -> int:
    """Align one recording and return the exit status."""
    run, audio, words = arguments.run, arguments.audio, arguments.text
    if words is None:
        run, (audio, words) = run_and_rest([run, audio], 2, "AUDIO TEXT", recognizes=False)
    outs = [(path, _format_of(path, arguments.format)) for path in arguments.out]
    for given, what in ((audio, "recording"), (words, "text")):
        if any(_are_one_file(given, path) for path, _ in outs):
            raise UserError(f"--out {given}: is the {what} itself; choose another file")
    from data_pipeline.labels.aligned_text import text_of, written_tokens

    text = text_of(words)
    from asr.audio.recording import read_audio

    waveform = read_audio(audio)
    from asr.transcription.alignment.aligner import align_recording
    from asr.transcription.recognizer import Recognizer

    recognizer = Recognizer.of_known_text(run)
    written = written_tokens(text, recognizer.vocabulary)
    with ProgressBars() as bars:
        aligned = align_recording(recognizer, waveform, written, audio, bars)
    for misfit in aligned.misfits:
        logger.warning("%s: %s", audio, misfit)
    about = aligned.words, aligned.duration_s
    unit = recognizer.vocabulary.unit
    for path, format_name in outs:
        with whole_file(path, "alignment") as file:
            file.write(format_words(*about, format_name, unit).encode())
    if not outs:
        print(format_words(*about, arguments.format or "table", unit), end="")
    return 0


def _are_one_file(given: str | Path, path: Path) -> bool:
    try:
        return path.samefile(given)
    except (OSError, ValueError):  # one of them is not there, or too long for a name
        return False


def _format_of(path: Path, format_name: TimeFormat | None) -> TimeFormat:
    by_suffix = {suffix.lower(): name for name, suffix in SUFFIXES.items()}
    found = by_suffix.get(path.suffix.lower(), format_name)
    if found is None:
        raise UserError(
            f"--out {path}: expected a name that ends in .TextGrid, .srt, .vtt, .json or .tsv; "
            "rename the file, or add --format"
        )
    if path.exists() and not path.is_file():
        raise UserError(f"--out {path}: expected a file, found a folder or a device")
    return found
