"""Write recordings in the containers that phones, browsers and cameras write, by PyAV's encoders."""

from __future__ import annotations

import io
import os
import signal
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import av
import numpy as np
import numpy.typing as npt
import scipy.signal

from asr.audio.media import child, reader

RATE_HZ = 16000
VIDEO_HZ = 25


class Form(NamedTuple):
    """How a recording is written; see FFmpeg's names of muxers and encoders."""

    muxer: str
    encoder: str
    rate_hz: int
    layout: str = "mono"
    bit_rate: int = 0
    has_video: bool = False
    options: tuple[tuple[str, str], ...] = ()


FRAGMENTS = (("movflags", "frag_keyframe+empty_moov+default_base_moof"), ("frag_duration", "500000"))
AS_BROWSERS = (("live", "1"),)  # neither a duration nor sizes, as of MediaRecorder
FORMS = {
    "m4a": Form("ipod", "aac", 44100, bit_rate=64000),
    "alac.m4a": Form("ipod", "alac", 44100),
    "mp4": Form("mp4", "aac", 48000, "stereo", 128000, has_video=True),
    "fragments.mp4": Form("mp4", "aac", 44100, bit_rate=64000, options=FRAGMENTS),
    "mov": Form("mov", "aac", 44100, bit_rate=64000, has_video=True),
    "mkv": Form("matroska", "aac", 44100, bit_rate=64000, has_video=True),
    "webm": Form("webm", "libopus", 48000, bit_rate=32000),
    "browser.webm": Form("webm", "libopus", 48000, bit_rate=32000, options=AS_BROWSERS),
    "aac": Form("adts", "aac", 44100, bit_rate=64000),
    "wma": Form("asf", "wmav2", 44100, bit_rate=64000),
    "amr": Form("amr", "libopencore_amrnb", 8000, bit_rate=12200),
    "3gp": Form("3gp", "libopencore_amrnb", 8000, bit_rate=12200, has_video=True),
    "avi": Form("avi", "pcm_s16le", 44100, has_video=True),
    "flv": Form("flv", "aac", 44100, bit_rate=64000),
    "ts": Form("mpegts", "aac", 48000, bit_rate=64000, has_video=True),
    "mpg": Form("mpeg", "mp2", 44100, "stereo", 128000),
}


def written(waveform: npt.NDArray[Any], name: str) -> bytes:
    """Return the file of a waveform, (S,) int16 at 16 kHz, in a form of `FORMS`."""
    return encoded([waveform], FORMS[name])


def encoded(tracks: Sequence[npt.NDArray[Any]], form: Form, default: int | None = None) -> bytes:
    """Return a file with a track for each waveform, one of them marked as the default."""
    file = io.BytesIO()
    with av.open(file, "w", format=form.muxer, options=dict(form.options)) as container:
        if form.has_video:
            video = container.add_stream("mpeg4", rate=VIDEO_HZ)
            video.width, video.height, video.pix_fmt = 64, 48, "yuv420p"
        streams = []
        for number in range(len(tracks)):
            stream: Any = container.add_stream(form.encoder, rate=form.rate_hz)
            stream.layout = form.layout
            if form.bit_rate:
                stream.bit_rate = form.bit_rate
            if default is not None:
                stream.disposition = av.stream.Disposition.default if number == default else 0
            streams.append(stream)
        if form.has_video:
            for number in range(len(tracks[0]) * VIDEO_HZ // RATE_HZ):
                frame = av.VideoFrame.from_ndarray(
                    np.full((48, 64, 3), number % 256, np.uint8), format="rgb24"
                )
                frame.pts = number
                container.mux(video.encode(frame))
            container.mux(video.encode(None))
        for stream, waveform in zip(streams, tracks, strict=True):
            container.mux(stream.encode(_frame(waveform, form)))
            container.mux(stream.encode(None))
    return file.getvalue()


def _frame(waveform: npt.NDArray[Any], form: Form) -> av.AudioFrame:
    divisor = np.gcd(form.rate_hz, RATE_HZ)
    samples = scipy.signal.resample_poly(
        waveform.astype(np.float32) / 32768, form.rate_hz // divisor, RATE_HZ // divisor
    )
    num_channels = av.AudioLayout(form.layout).nb_channels
    planes = np.ascontiguousarray(np.repeat(samples[None].astype(np.float32), num_channels, axis=0))
    frame = av.AudioFrame.from_ndarray(planes, format="fltp", layout=form.layout)
    frame.sample_rate, frame.pts, frame.time_base = form.rate_hz, 0, Fraction(1, form.rate_hz)
    return frame


def lag_of(found: npt.NDArray[Any], source: npt.NDArray[Any]) -> int:
    """Return by how many samples a waveform is later than its source, by their cross-correlation."""
    size = 1 << (len(found) + len(source)).bit_length()
    spectrum = np.fft.rfft(found.astype(float), size) * np.fft.rfft(source.astype(float), size).conj()
    lag = int(np.argmax(np.fft.irfft(spectrum, size)))
    return lag if lag < size // 2 else lag - size


def serve_without_end(requests: Iterator[Any]) -> Iterator[Any]:
    """Serve as a process does whose decoder takes all the processor time there is."""

    def decode(*_: Any) -> None:
        while True:
            pass

    child.CPU_S, reader.Media = 1, decode
    yield from child._serve(requests)


def serve_without_measure(requests: Iterator[Any]) -> Iterator[Any]:
    """Serve as a process does whose decoder takes all the memory there is."""
    reader.Media = lambda *_: bytearray(8 << 30)
    yield from child._serve(requests)


def serve_until_killed(requests: Iterator[Any]) -> Iterator[Any]:
    """End as a process does whose decoder crashes."""
    for _ in requests:
        os.kill(os.getpid(), signal.SIGKILL)
    yield
