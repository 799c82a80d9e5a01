"""Pack many recordings into a few large files, for large corpora and network disks that open files slowly.

packed/train.jsonl                  the manifest: train on it as on any other
packed/train.jsonl-00000.tfrecord   the recordings, sorted by length; or .tar
packed/train.left_out.tsv           unreadable recordings with the reason, if there are any
packed/labels.json                  how the labels were made from text, if `asr prepare` made the manifest

A record is a `tf.train.Example` of `audio` (a whole file: FLAC, Ogg Vorbis and Opus as they were, else 16-bit
mono WAV at 16 kHz), `id`, `text`, `tokens` and `speaker`, which `tf.data.TFRecordDataset` can read; a tar
file has the same as NAME.flac and NAME.json, which WebDataset can read. The manifest gives the position of
each recording in its file, so training can read them in any order: the batches equal those of the unpacked
files bit for bit. An interrupted command keeps the files that were complete.
"""

from __future__ import annotations

import contextlib
import dataclasses
import glob
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import soundfile

from asr.audio.recording import (
    PIECE,
    SAMPLE_RATE_HZ,
    audio_header,
    piece_of_file,
    read_audio,
    refuse_pipe,
    stored_bytes,
)
from asr.base.cluster import Cluster
from asr.base.errors import UserError
from asr.base.system.files import is_utf8
from asr.base.system.lock import exclusive_lock
from asr.base.system.shards import single_file
from asr.base.system.storage.address import is_address
from asr.base.system.storage.refusals import StorageError
from asr.base.types import Utterance
from asr.base.work import OnProgress, ignore_progress
from data_pipeline.batches.pack_files import (
    PackFile,
    PackFormat,
    fields_of,
    open_pack_file,
    pack_entries,
)
from data_pipeline.doctor.checked_files import file_state
from data_pipeline.doctor.quick import DURATION_TOLERANCE_S
from data_pipeline.manifests.left_out import write_left_out
from data_pipeline.manifests.manifest import read_manifest, write_manifest
from data_pipeline.manifests.utterances import Utterances, UtterancesById, is_remote
from data_pipeline.preparation.description import carry_labels, refuse_other_pieces
from data_pipeline.types import UNREADABLE_AUDIO, LeftOut
from data_pipeline.work import Threads, in_parallel

SHARD_BYTES = 512 << 20
AT_ONCE = 16  # recordings that a thread holds in memory
NOT_PACKED = -1
PLACE = np.dtype([("file", "i4"), ("begin", "i8"), ("num_bytes", "i8")])  # of a recording, as a file's number
KEPT_CONTAINERS = {"FLAC", "OGG"}


@dataclass(frozen=True)
class Packed:
    """The packed recordings of a manifest.

    Attributes:
        manifest: of the packed recordings.
        utterances: in the manifest.
        num_files: number of files with recordings.
        left_out: recordings that could not be read.
    """

    manifest: Path
    utterances: Sequence[Utterance]
    num_files: int
    left_out: Sequence[LeftOut]

    @property
    def list_path(self) -> Path:
        """Return the path of the list of unreadable recordings, which exists only if there are any."""
        return _list_path(self.manifest)


def pack_manifest(
    manifest: Path,
    folder: Path,
    shard_bytes: int = SHARD_BYTES,
    on_progress: OnProgress = ignore_progress,
    kind: PackFormat = "tfrecord",
    cluster: Cluster | None = None,
) -> Packed:
    """Pack the recordings of one manifest.

    Args:
        manifest: of recordings in any container and at any rate.
        folder: for the packed files and a manifest of the same name.
        shard_bytes: size at which a file is closed and the next one begun.
        on_progress: receives how many recordings are packed.
        kind: format of the files.
        cluster: reads the recordings, which this process writes; None for this machine.

    Raises:
        UserError: other utterances are packed there under this name, or the folder is not writable.
    """
    target = folder / single_file(manifest).name
    if folder.resolve() == manifest.resolve().parent and target.name == manifest.name:
        raise UserError(f"{folder}: the folder of the manifest itself; choose another folder to pack into")
    if not is_utf8(str(folder)):
        raise UserError(f"{folder}: name is not UTF-8; choose another folder")
    utterances = read_manifest(manifest)
    refuse_other_pieces(folder, [manifest])
    with exclusive_lock(folder, "asr pack"):
        if target.exists():
            packed = _packed_before(target, utterances, kind)
        else:
            shards = _Shards(folder, target.name, kind, shard_bytes)
            workers = cluster or Threads(waits=is_remote(utterances))
            packed = _pack(utterances, manifest, target, shards, on_progress, workers)
        carry_labels(folder, {target.name: manifest})
        return packed


def _packed_before(target: Path, utterances: Utterances, kind: PackFormat) -> Packed:
    """Return what an earlier command packed, if it packed the same utterances.

    What only the manifest has of them, such as the corpus, is updated.
    """
    packed, by_id = read_manifest(target), UtterancesById(utterances)
    is_current, indices, files = True, [], set()
    remedy = f"remove {target} and {target}-*.{kind}, or choose another folder"
    _refuse_damaged(packed, f"remove {target} and {target}-*.{kind}, then pack again")
    for one in packed:
        index = by_id.find(one.id)
        if index is None or not _is_same(own := utterances[index], one, kind):
            raise UserError(f"{target}: contains other utterances ({one.id}); {remedy}")
        if _is_newer(own, one.audio_path) and _as_file(own) != stored_bytes(one.audio_path):
            raise UserError(f"{target}: contains utterances whose recordings changed ({one.id}); {remedy}")
        is_current &= (own.corpus, own.labelled_by) == (one.corpus, one.labelled_by)
        indices.append(index)
        files.add(one.audio_path.rpartition("@")[0])
    if any(not file.endswith(f".{kind}") for file in files):
        raise UserError(f"{target}: is packed in another format; choose another folder")
    left_out = []
    for one in utterances.take(np.setdiff1d(np.arange(len(utterances)), indices)):
        if not isinstance(file := _as_file(one), LeftOut):
            raise UserError(f"{target}: lacks utterances that can be read ({one.id}); {remedy}")
        left_out.append(file)
    if not is_current:
        both = zip(utterances.take(np.array(indices)), packed, strict=True)
        write_manifest(target, (dataclasses.replace(own, audio_path=one.audio_path) for own, one in both))
        packed = read_manifest(target)
    return Packed(target, packed, len(files), left_out)


def _refuse_damaged(packed: Utterances, remedy: str) -> None:
    """Raise a UserError if a packed file is missing, or ends before the recordings that it should have."""
    ends: dict[str, int] = {}
    for one in packed:
        if piece := PIECE.fullmatch(one.audio_path):
            end = int(piece["begin"]) + int(piece["num_bytes"])
            ends[piece["path"]] = max(end, ends.get(piece["path"], 0))
    for path, end in ends.items():
        state = file_state(path)
        if state is None:
            raise UserError(f"{path}: this packed file is missing; {remedy}")
        if state.st_size < end:
            raise UserError(f"{path}: cut off: expected {end:,} bytes, found {state.st_size:,}; {remedy}")


def _is_same(one: Utterance, other: Utterance, kind: PackFormat) -> bool:
    is_as_long = round(one.duration_s, 4) == round(other.duration_s, 4)
    return is_as_long and fields_of(one, kind) == fields_of(other, kind)


def _is_newer(utterance: Utterance, packed: str) -> bool:
    """Return whether a recording's file on a disk is newer than the one in which it is packed."""
    if is_address(utterance.audio_path):
        return False  # to ask for the state of each would take long
    own, pack = file_state(utterance.audio_path), file_state(packed)
    return own is not None and pack is not None and own.st_mtime_ns > pack.st_mtime_ns


def _pack(
    utterances: Utterances,
    manifest: Path,
    target: Path,
    shards: _Shards,
    on_progress: OnProgress,
    workers: Threads | Cluster,
) -> Packed:
    # batches hold clips of similar length, so clips that are read together are stored together
    places = shards.finished_before(utterances)
    indices = np.flatnonzero(places["file"] == NOT_PACKED)
    indices = indices[np.argsort(utterances.columns.durations_s[indices], kind="stable")]
    by_length = utterances.take(indices)
    left_out: list[LeftOut] = []
    with shards:
        files = in_parallel(_as_file, by_length, f"packing {target.stem}", AT_ONCE, on_progress, workers)
        for index, utterance, file in zip(indices, by_length, files, strict=True):
            if isinstance(file, LeftOut):
                left_out.append(file)
            else:
                places[index] = shards.add(utterance, file)
    write_left_out(_list_path(target), left_out)
    if len(left_out) == len(utterances):
        raise UserError(
            f"{manifest}: no readable recording; the first is {left_out[0].what}: {left_out[0].detail}"
        )
    packed = (
        dataclasses.replace(one, audio_path=shards.audio_path(place))
        for one, place in zip(utterances, places, strict=True)
        if place["file"] != NOT_PACKED
    )
    write_manifest(target, packed)
    return Packed(target, read_manifest(target), shards.num_files, left_out)


def _list_path(target: Path) -> Path:
    return target.with_name(f"{target.stem}.left_out.tsv")


def _as_file(utterance: Utterance) -> bytes | LeftOut:
    """Return the file of a recording as it is if it is compressed, else as 16-bit WAV at 16 kHz."""
    path = utterance.audio_path
    try:
        refuse_pipe(path)
        waveform = read_audio(path)
        if audio_header(path).container in KEPT_CONTAINERS:
            return stored_bytes(path)
    except StorageError:
        raise
    except (UserError, OSError) as error:
        return LeftOut(path, UNREADABLE_AUDIO, str(error).removeprefix(f"{path}: "))
    wav = io.BytesIO()
    soundfile.write(wav, waveform, SAMPLE_RATE_HZ, format="WAV", subtype="PCM_16")
    return wav.getvalue()


class _Shards:
    """The files of a pack, written one after another; each gets its final name when it is complete."""

    def __init__(self, folder: Path, name: str, kind: PackFormat, shard_bytes: int) -> None:
        self._folder, self._name, self._kind, self._shard_bytes = folder, name, kind, shard_bytes
        self._file: PackFile | None = None
        self.num_files = self._num_recordings = 0

    def __enter__(self) -> _Shards:
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise self._cannot_write(error) from None
        return self

    def __exit__(self, kind: Any, *exception: object) -> None:
        if kind is None:
            self._finish_file()
            return
        if self._file is not None:
            with contextlib.suppress(Exception):  # the failure is reported already
                self._file.close()
        self._part.unlink(missing_ok=True)

    def finished_before(self, utterances: Utterances) -> npt.NDArray[np.void]:
        """Return where an interrupted command packed each utterance, of PLACE.

        Files are removed from the first one on that is damaged, missing, or has other utterances.
        """
        by_id = UtterancesById(utterances)
        places = np.zeros(len(utterances), PLACE)
        places["file"] = NOT_PACKED
        other = "tar" if self._kind == "tfrecord" else "tfrecord"
        if any(self._folder.glob(f"{glob.escape(self._name)}-*.{other}")):
            raise UserError(
                f"{self._folder}: has files of {self._name} in another format; choose another folder, or "
                f"remove {self._name}-*.{other}"
            )
        paths = sorted(self._folder.glob(f"{glob.escape(self._name)}-*.{self._kind}"))
        for number, path in enumerate(paths):
            found = None
            if path == self._path(number):
                found = _places_in(path, number, utterances, by_id, self._kind)
            if found is None:
                for stale in paths[number:]:
                    stale.unlink()
                break
            for index, place in found.items():
                places[index] = place
            self.num_files = number + 1
        self._num_recordings = int(np.count_nonzero(places["file"] != NOT_PACKED))
        return places

    def audio_path(self, place: np.void) -> str:
        """Return the path by which `read_audio` finds a recording."""
        number, begin, num_bytes = place.item()
        return piece_of_file(self._path(number), begin, num_bytes)

    def add(self, utterance: Utterance, audio: bytes) -> tuple[int, int, int]:
        """Write one recording, and return its place."""
        try:
            if self._file is None:
                self._file = open_pack_file(self._part, self._kind, self._num_recordings)
            place = (self.num_files, self._file.add(utterance, audio), len(audio))
        except _write_errors() as error:
            raise self._cannot_write(error) from None
        self._num_recordings += 1
        if self._file.num_bytes >= self._shard_bytes:
            self._finish_file()
        return place

    def _path(self, number: int) -> Path:
        return self._folder / f"{self._name}-{number:05d}.{self._kind}"

    @property
    def _part(self) -> Path:
        return self._path(self.num_files).with_suffix(".part")

    def _finish_file(self) -> None:
        if self._file is None:
            return
        try:
            self._file.close()
            self._part.replace(self._path(self.num_files))
        except _write_errors() as error:
            raise self._cannot_write(error) from None
        self._file = None
        self.num_files += 1

    def _cannot_write(self, error: Exception) -> UserError:
        reason = getattr(error, "strerror", None) or getattr(error, "message", str(error))
        return UserError(
            f"{self._folder}: cannot write packed files ({reason}); free space, or choose another folder"
        )


def _write_errors() -> tuple[type[Exception], ...]:
    import tensorflow as tf

    return OSError, tf.errors.OpError


def _places_in(
    path: Path, number: int, utterances: Utterances, by_id: UtterancesById, kind: PackFormat
) -> dict[int, tuple[int, int, int]] | None:
    """Return the place of each utterance in a packed file; None if it is damaged or has others than these."""
    places: dict[int, tuple[int, int, int]] = {}
    try:
        for entry in pack_entries(path):
            index = by_id.find(entry.fields["id"])
            if index is None or fields_of(utterances[index], kind) != entry.fields:
                return None
            packed = piece_of_file(path, entry.begin, entry.num_bytes)
            seconds_off = audio_header(packed).duration_s - utterances[index].duration_s
            if abs(seconds_off) > DURATION_TOLERANCE_S or _is_newer(utterances[index], packed):
                return None
            places[index] = (number, entry.begin, entry.num_bytes)
    except (ValueError, UserError):
        return None
    return places
