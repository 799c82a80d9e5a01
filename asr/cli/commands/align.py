"""`asr align`: when each syllable of a known text is said, for Praat, as subtitles or as JSON."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from asr.base.types import UserError
from asr.model.devices import start_devices
from asr.recognition.alignment.time_formats import (
    SUFFIXES,
    TimedToken,
    TimeFormat,
    formatted,
    write_formatted,
)

if TYPE_CHECKING:
    from asr.audio.recording import Waveform
    from asr.recognition.recognizer import Recognizer
    from data_pipeline.aligned_text import WrittenToken

LEAST_AMPLITUDE = 32  # of a recording with any sound: 60 dB below the loudest that a file holds


def add_align_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    parser.add_argument("run", type=Path, help="a run directory, such as runs/demo")
    parser.add_argument("audio", metavar="AUDIO", help="a recording of any rate, container and length")
    parser.add_argument(
        "text",
        metavar="TEXT",
        help="what is said in it, or a UTF-8 file that holds it: hanzi, or tokens separated by spaces",
    )
    parser.add_argument(
        "--out",
        type=Path,
        nargs="+",
        default=[],
        metavar="FILE",
        help="write there, each by the end of its name: .TextGrid, .srt, .json, .tsv; default: print a table",
    )
    parser.add_argument(
        "--format", choices=get_args(TimeFormat), help="of what is printed, or of files with other names"
    )


def align_command(arguments: argparse.Namespace) -> int:
    """Align one recording; returns the exit status."""
    outs = [(path, _format_of(path, arguments.format)) for path in arguments.out]
    if Path(arguments.audio).resolve() in {path.resolve() for path, _ in outs}:
        raise UserError(f"--out {arguments.audio}: the recording itself; choose another file")
    from data_pipeline.aligned_text import text_of, written_tokens

    text = text_of(arguments.text)
    from asr.audio.recording import SAMPLE_RATE_HZ, read_audio

    waveform = read_audio(arguments.audio)
    start_devices()
    from asr.base.decoder_settings import DecoderSettings
    from asr.recognition.recognizer import Recognizer

    # nothing is decoded: no language model, no hanzi
    recognizer = Recognizer.load(arguments.run, settings=DecoderSettings(), hanzi=False)
    written = written_tokens(text, recognizer.vocabulary)
    tokens, warnings = timed_tokens(recognizer, waveform, written, arguments.audio)
    for warning in warnings:
        print(f"warning: {arguments.audio}: {warning}", file=sys.stderr)
    duration_s, tier = len(waveform) / SAMPLE_RATE_HZ, recognizer.vocabulary.unit
    for path, format_name in outs:
        write_formatted(path, formatted(tokens, duration_s, format_name, tier))
    if not outs:
        print(formatted(tokens, duration_s, arguments.format or "table", tier), end="")
    return 0


def timed_tokens(
    recognizer: Recognizer, waveform: Waveform, written: Sequence[WrittenToken], name: str
) -> tuple[list[TimedToken], list[str]]:
    """When each token is said, and warnings of places where it seems not to be.

    Args:
        recognizer: its model.
        waveform: (S,) int16 at 16 kHz.
        written: the tokens.
        name: of the recording, for errors.

    Raises:
        UserError: the recording is silent, or too short for the tokens.
    """
    import numpy as np

    from asr.audio.recording import SAMPLE_RATE_HZ
    from asr.base.vocabulary import BLANK_ID
    from asr.recognition.alignment.fit import misfits
    from asr.recognition.alignment.forced import align_tokens
    from asr.recognition.alignment.intervals import quiet_steps, token_intervals
    from asr.recognition.alignment.windowed_logits import windowed_log_probs

    if np.abs(waveform.astype(np.int32)).max() < LEAST_AMPLITUDE:
        raise UserError(f"{name}: no sound in it; check the microphone, or choose another recording")
    ids = recognizer.vocabulary.encode([token.token for token in written])
    columns = [BLANK_ID, *sorted(set(ids))]  # of the others nothing need be kept
    frame_s = recognizer.model.frame_s
    log_probs = windowed_log_probs(recognizer, waveform, columns)
    try:
        alignment = align_tokens(log_probs, np.searchsorted(columns, ids))
    except UserError as error:
        raise UserError(f"{name}: {error}") from None
    quiet = quiet_steps(waveform)
    starts, ends = token_intervals(alignment, frame_s, len(waveform) / SAMPLE_RATE_HZ, quiet)
    confidences = np.exp(alignment.log_probs)
    tokens = [
        TimedToken(token.token, float(start), float(end), float(confidence), token.text)
        for token, start, end, confidence in zip(written, starts, ends, confidences, strict=True)
    ]
    return tokens, misfits(tokens, alignment, log_probs[:, 0], frame_s, quiet)


def _format_of(path: Path, format_name: TimeFormat | None) -> TimeFormat:
    found = SUFFIXES.get(path.suffix.lower(), format_name)
    if found is None:
        raise UserError(
            f"--out {path}: expected a name that ends in .TextGrid, .srt, .json or .tsv; "
            "rename it, or add --format"
        )
    if path.exists() and not path.is_file():
        raise UserError(f"--out {path}: a folder or a device, expected a file")
    return found
