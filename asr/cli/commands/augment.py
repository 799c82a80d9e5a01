"""`asr augment`: hear what training hears."""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import TYPE_CHECKING

from asr.base.types import UserError
from asr.cli.commands import add_override_argument
from asr.cli.progress_bars import ProgressBars

if TYPE_CHECKING:
    from data_pipeline.augment.augmenter import Applied

HEADER: tuple[str, ...] = ("epoch", "speed", "reverberation", "noise", "SNR", "gain", "file")


def add_augment_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    parser.add_argument("file", type=Path, metavar="FILE", help="audio of any rate and container")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder for the WAV files")
    parser.add_argument(
        "--config", default="demo", help="a TOML file, or the name of one in configs/ (default: demo)"
    )
    add_override_argument(parser, "augment.noise=coloured")
    parser.add_argument("--num", type=int, default=5, help="number of versions, an epoch each (default: 5)")
    parser.add_argument(
        "--id", help="the utterance's id in its manifest (default: the file's name without its ending)"
    )


def augment_command(arguments: argparse.Namespace) -> int:
    """Write a recording as several epochs of training hear it; returns the exit status."""
    from asr.audio.recording import read_audio, write_wav
    from asr.base.config import load_config
    from asr.base.files import cannot_write
    from data_pipeline.augment.augmenter import Augmenter, speed_factors, utterance_keys

    if arguments.num < 1:
        raise UserError(f"--num {arguments.num}: expected a number of versions from 1")
    config = load_config(arguments.config, arguments.overrides)
    with ProgressBars() as bars:
        augmenter = Augmenter.load(config.augment, config.train.seed, on_progress=bars)
    if not augmenter.changes_anything:
        raise UserError(
            f"{arguments.config}: [augment] leaves waveforms as they are; switch something on, "
            "such as --set augment.noise=coloured"
        )
    waveform = read_audio(arguments.file)
    keys = utterance_keys([arguments.id or arguments.file.stem])
    rows = [HEADER]
    try:
        arguments.out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write(arguments.out, "folder", error) from None
    for epoch in range(arguments.num):
        speed = float(speed_factors(config.augment, config.train.seed, epoch, keys)[0])
        changed, applied = augmenter.apply_and_tell(waveform, epoch, int(keys[0]), speed)
        path = arguments.out / f"{arguments.file.stem}-epoch{epoch}{_suffix(applied)}.wav"
        write_wav(path, changed)
        rows.append(_row(epoch, applied, path))
    _print_table(rows)
    return 0


def _suffix(applied: Applied) -> str:
    """What was done, as a part of a file's name."""
    parts = []
    if applied.speed != 1:
        parts.append(f"speed{applied.speed:.2f}")
    if applied.response:
        parts.append("reverb")
    if applied.noise:
        parts.append(f"noise{applied.snr_db:.0f}dB")
    if round(applied.gain_db):
        parts.append(f"gain{applied.gain_db:+.0f}dB")
    return "".join(f"-{part}" for part in parts) or "-unchanged"


def _row(epoch: int, applied: Applied, path: Path) -> tuple[str, ...]:
    snr = f"{applied.snr_db:.1f} dB" if math.isfinite(applied.snr_db) else "-"
    gain = f"{applied.gain_db:+.1f} dB" if applied.gain_db else "-"
    speed = f"{applied.speed:.3f}" if applied.speed != 1 else "-"
    return str(epoch), speed, applied.response or "-", applied.noise or "-", snr, gain, str(path)


def _print_table(rows: list[tuple[str, ...]]) -> None:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
