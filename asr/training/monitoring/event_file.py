"""Write event files for TensorBoard: points with a step, as records of a TFRecord file."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.plugins.audio import metadata as audio_metadata
from tensorboard.plugins.image import metadata as image_metadata
from tensorboard.plugins.text.summary_v2 import text_pb
from tensorboard.summary.writer.record_writer import RecordWriter
from tensorboard.util.tensor_util import make_tensor_proto

from asr.audio.recording import SAMPLE_RATE_HZ, Waveform
from asr.base.system.files import cannot_write, whole_file
from asr.pages.pictures import Picture, png_bytes

PREFIX = "events.out.tfevents"  # TensorBoard recognizes its files by "tfevents"
VERSION = "brain.Event:2"  # the first version in which TensorBoard respects the start of a session
FLUSH_S = 10.0


class EventFile:
    """The points of one session in a folder, which TensorBoard shows as one run.

    The file is created with its first point, and begins with a session start at that point's step.
    TensorBoard then drops points of earlier sessions from that step on, so that steps repeated after a resume
    appear once. Therefore all points in a folder must count the same kind of steps.

    Args:
        folder: of the run.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path = folder
        self._records: RecordWriter | None = None
        self._flushed_s = 0.0

    def write(self, step: int, values: Sequence[Any]) -> None:
        """Add the points of a step; they are in the file within seconds if further calls follow.

        Args:
            step: not lower than that of the previous call.
            values: from `scalar`, `image`, `audio` and `text`; an empty list only starts the session.

        Raises:
            UserError: the file cannot be written.
        """
        with self._errors_as_user_errors():
            if self._records is None:
                self._records = self._begin(step)
            if values:
                self._records.write(_record(step, summary=Summary(value=values)))
            if time.monotonic() - self._flushed_s > FLUSH_S:
                self._flush()

    def flush(self) -> None:
        """Flush all points to the file.

        Raises:
            UserError: the file cannot be written, or has been removed.
        """
        with self._errors_as_user_errors():
            self._flush()

    def close(self) -> None:
        """Write the remaining points and close the file.

        Raises:
            UserError: the remaining points cannot be written.
        """
        if self._records is not None:
            with self._errors_as_user_errors():
                self._records.close()
            self._records = None

    def _begin(self, step: int) -> RecordWriter:
        self._folder.parent.mkdir(exist_ok=True)  # fails if the run's directory has been removed
        self._folder.mkdir(exist_ok=True)
        # TensorBoard reads files in the order of their names: numbers keep it even if the clock is set back
        suffixes = [path.suffix[1:] for path in self._folder.glob(f"{PREFIX}.*")]
        numbers = [int(suffix) for suffix in suffixes if suffix.isdecimal()]
        self._path = self._folder / f"{PREFIX}.{max(numbers, default=0) + 1:06d}"
        records = RecordWriter(self._path.open("xb"))
        records.write(_record(step, file_version=VERSION))
        records.write(_record(step, session_log=SessionLog(status=SessionLog.START)))
        return records

    def _flush(self) -> None:
        if self._records is None:
            return
        self._records.flush()
        if not self._path.exists():  # Linux would continue to write to a removed file
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        self._flushed_s = time.monotonic()

    @contextlib.contextmanager
    def _errors_as_user_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise cannot_write(self._path, "TensorBoard file", error) from None


def write_once(path: Path, make_values: Callable[[], Sequence[Any]]) -> None:
    """Write an event file of points that hold for the whole run, unless it exists already.

    Args:
        path: its name is `PREFIX`, a dot and a suffix.
        make_values: makes the points with `scalar`, `image`, `audio` and `text`.

    Raises:
        UserError: the file cannot be written.
    """
    if path.exists():
        return
    with whole_file(path, "TensorBoard file") as file:
        records = RecordWriter(file)
        records.write(_record(0, file_version=VERSION))
        records.write(_record(0, summary=Summary(value=make_values())))


def scalar(tag: str, value: float) -> Any:
    """Return the point of a number."""
    return Summary.Value(tag=tag, simple_value=value)


def image(tag: str, picture: Picture, description: str = "") -> Any:
    """Return the point of a picture; its description is Markdown."""
    height, width, _ = picture.shape
    tensor = [str(width).encode(), str(height).encode(), png_bytes(picture)]
    return Summary.Value(
        tag=tag,
        tensor=make_tensor_proto(np.array(tensor, object)),
        metadata=image_metadata.create_summary_metadata(display_name="", description=description),
    )


def audio(tag: str, waveform: Waveform, description: str = "") -> Any:
    """Return the point of a recording at 16 kHz; its description is Markdown."""
    wav = io.BytesIO()
    soundfile.write(wav, waveform, SAMPLE_RATE_HZ, format="WAV", subtype="PCM_16")
    return Summary.Value(
        tag=tag,
        tensor=make_tensor_proto(np.array([[wav.getvalue(), b""]], object)),  # (clips, sound and label)
        metadata=audio_metadata.create_summary_metadata(
            display_name="", description=description, encoding=audio_metadata.Encoding.Value("WAV")
        ),
    )


def text(tag: str, markdown: str) -> Any:
    """Return the point of a Markdown text."""
    return text_pb(tag, markdown).value[0]


def _record(step: int, **content: Any) -> bytes:
    record: bytes = Event(wall_time=time.time(), step=step, **content).SerializeToString()
    return record
