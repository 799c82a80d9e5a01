"""Writes a recording as several epochs of training use it, to listen to."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from asr.audio.recording import read_audio, write_wav
from asr.base.errors import UserError
from asr.base.system.files import cannot_write
from data_pipeline.augment.augmenter import AppliedEffects, Augmenter, speed_factors
from data_pipeline.manifests.columns import utterance_keys


@dataclass(frozen=True)
class Version:
    """A recording as one epoch uses it.

    Attributes:
        epoch: number of the epoch, from 0.
        applied: the effects that were applied.
        path: path of the WAV file.
    """

    epoch: int
    applied: AppliedEffects
    path: Path


def write_versions(
    audio: Path, folder: Path, augmenter: Augmenter, num_versions: int, utterance_id: str = ""
) -> list[Version]:
    """Write a recording as the first epochs of training use it.

    Args:
        audio: path of the recording, of any rate and container.
        folder: folder of the WAV files; created if missing.
        augmenter: applies the effects.
        num_versions: number of versions, one for each epoch.
        utterance_id: id in the manifest, which determines the random effects; by default the file's name
            without its extension.

    Raises:
        UserError: the augmenter changes nothing, the recording cannot be read or the folder not written.
    """
    if num_versions < 1:
        raise UserError(f"`num_versions={num_versions}`: expected at least 1")
    if not augmenter.changes_anything:
        raise UserError(
            "[augment]: expected at least one effect, found none switched on; set one, such as "
            "augment.noise=coloured"
        )
    waveform = read_audio(audio)
    keys = utterance_keys([utterance_id or audio.stem])
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write(folder, "folder", error) from None
    versions = []
    for epoch in range(num_versions):
        speed = float(speed_factors(augmenter.config, augmenter.seed, epoch, keys)[0])
        changed, applied = augmenter.apply_with_effects(waveform, epoch, int(keys[0]), speed)
        path = folder / f"{audio.stem}-epoch{epoch}{_suffix(applied)}.wav"
        write_wav(path, changed)
        versions.append(Version(epoch, applied, path))
    return versions


def _suffix(applied: AppliedEffects) -> str:
    """Return the applied effects as a part of a file's name."""
    parts = []
    if applied.speed != 1:
        parts.append(f"speed{applied.speed:.2f}")
    if any(applied.pauses_s):
        parts.append("pauses")
    if applied.response:
        parts.append("reverb")
    if applied.noise:
        parts.append(f"noise{applied.snr_db:.0f}dB")
    if round(applied.gain_db):
        parts.append(f"gain{applied.gain_db:+.0f}dB")
    if applied.channel:
        parts.append(applied.channel.replace(" ", "").replace("/", "p"))
    return "".join(f"-{part}" for part in parts) or "-unchanged"
