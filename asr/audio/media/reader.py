"""Decode the audio track of a container by FFmpeg, at the times that the container states.

An encoder puts samples before the first one ("priming") and after the last one. What the container states of
them is left out; where it states nothing, what every encoder of that kind puts there. A long recording is
decoded in sections, each by a decoder of its own that begins a little earlier. So any part is decoded as in
the whole recording, to the sample, without decoding all that comes before it.
"""

from __future__ import annotations

import contextlib
import io
import math
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO, NamedTuple

import av
import numpy as np

from asr.audio.containers import cut_off_reason
from asr.audio.formats import conversion
from asr.audio.media.kinds import (
    ASF,
    AVI,
    MATROSKA,
    MP4,
    PROGRAM_STREAM,
    TRANSPORT_STREAM,
    Kind,
    MediaHeader,
    end_reason,
)
from asr.audio.media.placing import DELAYED, GAP_S, PlacedSamples, Placing, Samples
from asr.audio.mixing import MIXED_AT_ONCE
from asr.audio.wav import RATES_HZ
from asr.base.errors import UserError

SECTION_S = 30.0
PREROLL_S = 1.0  # decoders with memory converge in a fraction of it
MAX_GAP_S = 3600.0  # more is a new clock, as where two streams are joined
MAX_SILENCE_S = 4 * 3600.0  # in all gaps
MIN_BYTES_PER_S = 50  # of a file; of less, an edit list repeats the same audio
SLACK_S = 0.5  # by which a track may be shorter than its container states
PADDED_FRAMES = 2  # after the last sample, at most
PACKETS_PER_REPORT = 1000
MAX_CHANNELS = 64
READ_BYTES = 1 << 18
STREAMS = (PROGRAM_STREAM, TRANSPORT_STREAM)  # may be cut out of a longer one
# of which a decoder can be made from what the stream's header states
SECTIONED = {
    *("aac", "alac", "flac", "opus", "libopus", "vorbis", "mp3", "mp3float", "mp2", "mp2float"),
    *("amrnb", "amrwb", "libopencore_amrnb", "libopencore_amrwb", "pcm_s16le", "pcm_s16be"),
}
DECODERS = {
    *SECTIONED,
    *("aac_latm", "ac3", "eac3", "dca", "wmav1", "wmav2", "wmapro", "wmalossless", "wmavoice"),
    *("libspeex", "speex", "adpcm_ima_wav", "adpcm_ima_qt", "adpcm_ms", "adpcm_swf", "adpcm_g726"),
    *("gsm", "gsm_ms", "nellymoser", "pcm_alaw", "pcm_mulaw", "pcm_u8", "pcm_s8", "pcm_s24le"),
    *("pcm_s24be", "pcm_s32le", "pcm_s32be", "pcm_f32le", "pcm_f32be", "pcm_f64le", "pcm_f64be"),
    *("pcm_bluray", "pcm_dvd", "qdm2", "qdmc", "mace3", "mace6", "truespeech", "g729", "g723_1"),
    *("qcelp", "evrc", "ilbc", "cook", "ra_144", "ra_288", "sipr", "atrac3", "mp1", "mp1float"),
}


class TimedPacket(NamedTuple):
    """A packet with its times in seconds by a clock that never goes back.

    Attributes:
        packet: of PyAV.
        begin_s: of its first sample.
        end_s: of the last one.
        shift_s: from this clock to the container's.
    """

    packet: Any
    begin_s: float
    end_s: float
    shift_s: float


class Media:
    """The audio track of a container: the one marked as the default, or else the first.

    Args:
        stream: seekable.
        kind: its container.
        name: for errors.

    Raises:
        UserError: the container is damaged or cut off, or it has no audio that can be decoded.
    """

    def __init__(self, stream: BinaryIO, kind: Kind, name: str) -> None:
        self._source, self._kind, self._name = stream, kind, name
        reason, is_stated = end_reason(stream, kind)
        if reason:
            raise UserError(f"{name}: {reason}")
        self._most_s = SECTION_S + stream.seek(0, io.SEEK_END) / MIN_BYTES_PER_S
        self._origin_s: float | None = None  # time of the first sample
        self._rate_hz = self._num_channels = 0
        self._frame_s = 0.0  # length of a packet that states none
        self._open()
        first = next(iter(self._pieces()), None)  # a header may state half of the rate (HE-AAC)
        if first is None:
            raise self._error("its audio track has no audio", "record it again")
        self._open()
        num_tracks = len(self._container.streams.audio)
        is_stated = is_stated and kind.states_length
        self.header = MediaHeader(self._rate_hz, self._num_channels, kind.name, is_stated, num_tracks)

    def _open(self) -> None:
        self._source.seek(0)
        with self._damage_named("cannot be opened"):
            self._container: Any = av.open(
                self._source,
                format=self._kind.demuxer,
                buffer_size=READ_BYTES,
                container_options={"codec_whitelist": ",".join(DECODERS)},
                metadata_errors="replace",
                io_open=_refuse_other_files,
            )
        self._stream = self._default_track()
        self._time_base_s = float(self._stream.time_base)

    def _default_track(self) -> Any:
        tracks = self._container.streams.audio
        if not tracks:
            raise self._error("has no audio track", "leave it out")
        track = next((one for one in tracks if one.disposition & av.stream.Disposition.default), tracks[0])
        codec = track.codec_context and track.codec_context.name
        if codec not in DECODERS:
            raise self._error(f"its audio ({codec or 'unknown or encrypted'}) cannot be decoded here")
        for other in self._container.streams:
            if other is not track:
                other.discard = av.stream.Discard.all
        track.codec_context.thread_count = 1
        if codec.startswith("wma"):  # FFmpeg leaves out two frames, of which the second one is audio
            track.codec_context.flags2 |= av.codec.context.Flags2.skip_manual
        return track

    def duration_s(self) -> Iterator[float]:
        """Yield the times at which some packets end, and at last the length in seconds; decode no more.

        Raises:
            UserError: see `blocks`.
        """
        end_s = 0.0
        for number, timed in enumerate(self._packets()):
            end_s = max(end_s, timed.end_s - self._first_s)
            if number % PACKETS_PER_REPORT == 0:
                yield end_s
        self._refuse_missing_end(end_s)
        stated_s = self._end_s()
        yield min(end_s, stated_s) if stated_s is not None and end_s < stated_s + SLACK_S else end_s

    def blocks(self, begin_s: float = 0.0, longest_s: float = math.inf) -> Iterator[Samples]:
        """Yield (S, channels) int16 or float32 samples in blocks; empty ones while others are skipped.

        Args:
            begin_s: of the first sample, in seconds.
            longest_s: of all blocks, in seconds.

        Raises:
            UserError: the audio is damaged, or ends before it should.
        """
        begin, first_section = round(begin_s * self._rate_hz), max(0, int(begin_s / SECTION_S) - 1)
        wanted = math.inf if longest_s == math.inf else begin + round(longest_s * self._rate_hz)
        held: list[Samples] = []
        num_held = end = 0
        for piece in self._trimmed(self._pieces(first_section)):
            if not len(piece.samples):
                yield piece.samples
                continue
            end = piece.begin + len(piece.samples)
            samples = piece.samples[max(0, begin - piece.begin) :]
            samples = samples[: len(samples) - int(max(0, min(len(samples), end - wanted)))]
            while len(samples):
                part, samples = np.split(samples, [MIXED_AT_ONCE - num_held])
                held.append(part)
                num_held += len(part)
                if num_held == MIXED_AT_ONCE:
                    yield np.concatenate(held)
                    held, num_held = [], 0
            if end >= wanted:
                break
        if held:
            yield np.concatenate(held)
        if begin <= end < wanted:
            self._refuse_missing_end(end / self._rate_hz)

    @property
    def _first_s(self) -> float:
        assert self._origin_s is not None
        return self._origin_s

    def _packets(self) -> Iterator[TimedPacket]:
        begin_s = end_s = None
        shift_s = audio_s = 0.0
        packets = self._container.demux(self._stream)
        while True:
            with self._damage_named("is broken", end_s):
                packet = next(packets, None)
            if packet is None:
                return
            if not packet.size:
                continue
            if packet.pts is not None:
                time_s = packet.pts * self._time_base_s
                if end_s is not None and begin_s is not None:
                    is_next = begin_s - GAP_S <= time_s - shift_s <= end_s + MAX_GAP_S
                    shift_s = shift_s if is_next else time_s - end_s
                begin_s = time_s - shift_s
            else:
                begin_s = end_s or 0.0
            end_s = begin_s + (packet.duration * self._time_base_s if packet.duration else self._frame_s)
            audio_s += end_s - begin_s
            if audio_s > self._most_s:
                raise self._error(f"unfolds to more than {self._most_s / 3600:.1f} hours: its index is wrong")
            yield TimedPacket(packet, begin_s, end_s, shift_s)

    def _pieces(self, first_section: int = 0) -> Iterator[PlacedSamples]:
        """Yield the samples of frame after frame; of section 0 and those from `first_section` on.

        Empty pieces are yielded now and then while sections are skipped.
        """
        decoder = self._stream.codec_context
        placing = Placing()
        section, held = 0, deque[TimedPacket]()
        for number, timed in enumerate(self._packets()):
            at_s = max(0.0, timed.begin_s - (timed.begin_s if self._origin_s is None else self._origin_s))
            begins = decoder.name in SECTIONED and int(at_s / SECTION_S) > section
            section = int(at_s / SECTION_S) if begins else section
            while held and held[0].begin_s < timed.begin_s - PREROLL_S:
                held.popleft()
            if 0 < section < first_section:
                held.append(timed)
                if number % PACKETS_PER_REPORT == 0:
                    yield PlacedSamples(0, np.zeros((0, self._num_channels), np.int16))
                continue
            if begins:
                decoder = self._new_decoder(held)
                placing.begin_section(follows_skipped=section == first_section > 1)
            if number == 0 and (timed.begin_s < 0 or timed.packet.has_sidedata("skip_samples")):
                placing.is_primed = True  # FFmpeg leaves out what the container states
            held.append(timed)
            for frame in self._decoded(decoder, timed):
                yield from self._placed(frame, timed, placing)
        for frame in self._decoded(decoder, None):
            yield from self._placed(frame, None, placing)

    def _new_decoder(self, before: Iterable[TimedPacket]) -> Any:
        """Return a decoder in the state that some packets leave it in."""
        old = self._stream.codec_context
        decoder = av.CodecContext.create(old.name, "r")
        decoder.extradata, decoder.thread_count = old.extradata, 1
        decoder.sample_rate, decoder.layout = old.sample_rate, old.layout
        for timed in before:
            with contextlib.suppress(av.FFmpegError):  # bits of a frame may be in packets before these
                decoder.decode(timed.packet)
        return decoder

    def _decoded(self, decoder: Any, timed: TimedPacket | None) -> Iterable[Any]:
        """Return the frames that a packet completes; those that are left, without one."""
        is_cut_out = self._origin_s is None and self._kind in STREAMS  # it may begin within a frame
        with self._damage_named("is broken", timed and timed.begin_s):
            try:
                frames: list[Any] = decoder.decode(timed and timed.packet)
            except av.FFmpegError:
                if not is_cut_out:
                    raise
                return []
            return frames

    def _placed(self, frame: Any, timed: TimedPacket | None, placing: Placing) -> Iterator[PlacedSamples]:
        """Yield the samples of a frame, after silence where the track has none for a time."""
        if not frame.samples:
            return
        samples = self._samples(frame)
        codec = self._stream.codec_context.name
        num_before = placing.num_priming(frame.samples, codec)
        samples = samples[num_before:]
        missing = 0
        if timed and frame.pts is not None:
            time_s = frame.pts * self._time_base_s - timed.shift_s
            time_s += 0.0 if codec in DELAYED else num_before / self._rate_hz
            if self._origin_s is None:
                begin_s = time_s if self._container.start_time is None else self._container.start_time / 1e6
                self._origin_s = begin_s if GAP_S < time_s - begin_s < MAX_GAP_S else time_s
            missing = placing.num_missing(time_s - self._origin_s, self._rate_hz)
        elif self._origin_s is None:
            self._origin_s = 0.0
        if placing.num_silent > MAX_SILENCE_S * self._rate_hz:
            raise self._error(f"has {MAX_SILENCE_S / 3600:g} hours without sound: its times are wrong")
        while missing > 0:
            silence = np.zeros((min(missing, MIXED_AT_ONCE), self._num_channels), samples.dtype)
            missing -= len(silence)
            yield placing.next_piece(silence)
        samples = samples[-missing:] if missing else samples
        if len(samples):
            yield placing.next_piece(samples)

    def _samples(self, frame: Any) -> Samples:
        """Return the samples of a frame, (S, channels), int16 or float32."""
        rate_hz, num_channels = frame.sample_rate, frame.layout.nb_channels
        if not self._rate_hz:
            if not RATES_HZ[0] <= rate_hz <= RATES_HZ[1] or not 1 <= num_channels <= MAX_CHANNELS:
                raise self._error(
                    f"expected a sample rate of {RATES_HZ[0]} to {RATES_HZ[1]} Hz and 1 to {MAX_CHANNELS} "
                    f"channels, received {rate_hz} Hz and {num_channels}"
                )
            self._rate_hz, self._num_channels = rate_hz, num_channels
            self._frame_s = max(frame.samples, self._stream.codec_context.frame_size) / rate_hz
        if (rate_hz, num_channels) != (self._rate_hz, self._num_channels):
            raise self._error(
                f"changes from {self._rate_hz} Hz and {self._num_channels} channels to {rate_hz} Hz and "
                f"{num_channels}"
            )
        with self._damage_named("cannot be decoded"):
            values = frame.to_ndarray()
        samples: Samples = values.T if frame.format.is_planar else values.reshape(-1, num_channels)
        if samples.dtype == np.uint8:
            return (samples.astype(np.float32) - 128) / 128
        if samples.dtype == np.int32:
            return samples.astype(np.float32) / np.float32(1 << 31)
        return samples if samples.dtype == np.int16 else samples.astype(np.float32)

    def _trimmed(self, pieces: Iterable[PlacedSamples]) -> Iterator[PlacedSamples]:
        """Yield pieces without what an encoder puts after the last sample of a track."""
        held = deque[PlacedSamples]()
        for piece in pieces:
            held.append(piece)
            if len(held) > PADDED_FRAMES:
                yield held.popleft()
        end_s = self._end_s()
        for piece in held:
            end = piece.begin + len(piece.samples)
            if end_s is not None and held[0].begin < (last := round(end_s * self._rate_hz)) < end:
                piece = PlacedSamples(piece.begin, piece.samples[: max(0, last - piece.begin)])
            yield piece

    def _end_s(self) -> float | None:
        """Return the time of the last sample where the track states it exactly."""
        track = self._stream
        if self._kind != MP4 or not track.duration:
            return None
        return float((track.start_time or 0) + track.duration) * self._time_base_s - self._first_s

    def _refuse_missing_end(self, found_s: float) -> None:
        track, stated_s = self._stream, 0.0
        if self._kind in (MP4, ASF, AVI) and track.duration:
            stated_s = track.duration * self._time_base_s
        elif self._kind == MATROSKA and len(self._container.streams) == 1 and self._container.duration:
            stated_s = self._container.duration / 1e6  # of the longest track
        if found_s < stated_s - SLACK_S:
            raise UserError(f"{self._name}: {cut_off_reason(stated_s, found_s)}")

    @contextlib.contextmanager
    def _damage_named(self, what: str, at_s: float | None = None) -> Iterator[None]:
        try:
            yield
        except (av.FFmpegError, ValueError, OverflowError, MemoryError) as error:
            where = "" if at_s is None else f" after {at_s:.1f} s"
            text = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise self._error(f"{what}{where} ({text.lower()})", "copy it again") from None

    def _error(self, reason: str, remedy: str = "") -> UserError:
        remedies = f"{remedy}, or convert it" if remedy else "convert it"
        return UserError(f"{self._name}: {reason}; {remedies}: {conversion(self._name)}")


def _refuse_other_files(*_: object) -> None:
    """Refuse what a container refers to outside itself: other files, addresses."""
    raise OSError("refers to another file")
