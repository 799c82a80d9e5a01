"""Transcribes recordings of any length into segments of text, in bounded memory.

A recording is read block by block and cut at pauses. Where there is no pause, two pieces overlap by a few
seconds, and the logits switch from one piece to the other at the frame where both give a blank the highest
probability: no token is lost, and none is recognized twice.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import numpy.typing as npt
from scipy.special import log_softmax

from asr.audio.recording import SAMPLE_RATE_HZ, AudioSource, Waveform, audio_blocks, pad_waveforms
from asr.audio.voice_activity import BLOCK_S, Piece, pauses_for, speech_pieces
from asr.base.types import Hypothesis, Logits
from asr.model.listening import BATCH_SAMPLES, AudioListener
from asr.transcription.stream_logits import seam

if TYPE_CHECKING:
    from asr.transcription.decoder import Decoder

Item = TypeVar("Item")
FrameLogits = npt.NDArray[np.float32]  # (T, V)


@dataclass(frozen=True)
class Segment:
    """The transcript of a stretch of speech between two pauses.

    Attributes:
        start_s: seconds from the start of the recording.
        end_s: seconds from the start of the recording.
        hypothesis: with times from the start of the recording.
    """

    start_s: float
    end_s: float
    hypothesis: Hypothesis


class LongAudioRecognizer:
    """Transcribes recordings of any length, one at a time.

    Args:
        listener: the model on its devices.
        decoder: of its logits.
        batch_samples: of a batch on one device, including padding.
    """

    def __init__(self, listener: AudioListener, decoder: Decoder, batch_samples: int = BATCH_SAMPLES) -> None:
        self.decoder, self._frame_samples = decoder, listener.model.frame_samples
        self._pauses = pauses_for(listener.model.ignores_silence)
        self._batch_samples = batch_samples * listener.num_devices
        self._logits = listener.compiled(lambda logits: logits)

    def segments(
        self, source: AudioSource | Waveform, name: str, on_progress: Callable[[float], None] = lambda _: None
    ) -> Iterator[Segment]:
        """Yield the segments of speech of a recording, in order, as they are recognized.

        Args:
            source: see `asr.audio.recording.audio_blocks`; or a waveform, (S,) int16 at 16 kHz.
            name: for `Hypothesis.utterance_id`.
            on_progress: receives how many seconds have been read.

        Raises:
            UserError: it is not an audio recording; damage at its end is detected only there.
        """
        blocks = [source] if isinstance(source, np.ndarray) else audio_blocks(source, BLOCK_S)
        pieces = speech_pieces(_with_progress(blocks, on_progress), self._frame_samples, pauses=self._pauses)
        cuts = without_overlaps(self._logits_of(pieces), self._frame_samples)
        max_frames = self._batch_samples // self._frame_samples
        for batch in _batches(cuts, lambda cut: len(cut.logits), max_frames):
            decoded = self._decode([cut.logits for cut in batch], name)
            for cut, hypothesis in zip(batch, decoded, strict=True):
                if hypothesis.tokens:
                    start_s, end_s = cut.begin / SAMPLE_RATE_HZ, cut.end / SAMPLE_RATE_HZ
                    yield Segment(start_s, end_s, shifted(hypothesis, start_s))

    def _logits_of(self, pieces: Iterable[Piece]) -> Iterator[tuple[Piece, FrameLogits]]:
        """Yield each piece with its logits; pieces of similar length share a batch."""
        for batch in _batches(pieces, lambda piece: len(piece.waveform), self._batch_samples):
            audio, num_samples = pad_waveforms([piece.waveform for piece in batch])
            values, num_frames = (np.asarray(part) for part in self._logits(audio, num_samples))
            for piece, row, length in zip(batch, values, num_frames, strict=True):
                yield piece, row[:length]

    def _decode(self, clips: Sequence[FrameLogits], name: str) -> list[Hypothesis]:
        num_frames = np.array([len(clip) for clip in clips], np.int32)
        values = np.zeros((len(clips), num_frames.max(), clips[0].shape[1]), np.float32)
        for row, clip in zip(values, clips, strict=True):
            row[: len(clip)] = clip
        reduced = self.decoder.reduce(Logits(values, num_frames))
        return self.decoder.hypotheses(reduced, [name] * len(clips))


def joined(segments: Sequence[Segment], name: str) -> Hypothesis:
    """Return one hypothesis for a recording; it is empty if there is no speech.

    Args:
        segments: of the recording, in order.
        name: for `Hypothesis.utterance_id`.
    """
    parts = [segment.hypothesis for segment in segments]
    return Hypothesis(
        name,
        tuple(itertools.chain.from_iterable(h.tokens for h in parts)),
        " ".join(h.text for h in parts),
        sum((h.score for h in parts), 0.0),
        tuple(itertools.chain.from_iterable(h.times_s for h in parts)),
        acoustic_score=sum((h.acoustic_score for h in parts), 0.0),
        confidences=tuple(itertools.chain.from_iterable(h.confidences for h in parts)),
    )


@dataclass(frozen=True)
class Cut:
    """A piece's logits without the overlap with its neighbours; begin and end count samples."""

    begin: int
    end: int
    logits: FrameLogits


def without_overlaps(pieces: Iterable[tuple[Piece, FrameLogits]], frame_samples: int) -> Iterator[Cut]:
    """Yield the pieces with each overlap divided between the two pieces that share it.

    Args:
        pieces: with their logits, in order.
        frame_samples: from one frame to the next.
    """
    first = 0  # frame of the piece after the overlap with the previous piece
    followed: Iterable[tuple[Piece, FrameLogits] | None] = itertools.chain(pieces, [None])
    for current, following in itertools.pairwise(followed):
        assert current is not None
        piece, logits = current
        last, next_first, end = len(logits), 0, piece.begin + len(piece.waveform)
        if following is not None and following[0].overlap:
            shift = (following[0].begin - piece.begin) // frame_samples
            next_first = seam(log_softmax(logits[shift:], axis=-1), log_softmax(following[1], axis=-1))
            last = shift + next_first
            end = piece.begin + last * frame_samples
        yield Cut(piece.begin + first * frame_samples, end, logits[first:last])
        first = next_first


def _batches(items: Iterable[Item], length: Callable[[Item], int], max_size: int) -> Iterator[list[Item]]:
    """Yield items in order, in batches whose size, padded to the longest item, is at most `max_size`."""
    batch: list[Item] = []
    longest = 0
    for item in items:
        longest = max(longest, length(item))
        if batch and longest * (len(batch) + 1) > max_size:
            yield batch
            batch, longest = [], length(item)
        batch.append(item)
    if batch:
        yield batch


def _with_progress(
    blocks: Iterable[npt.NDArray[np.int16]], on_progress: Callable[[float], None]
) -> Iterator[npt.NDArray[np.int16]]:
    num_samples = 0
    for block in blocks:
        yield block
        num_samples += len(block)
        on_progress(num_samples / SAMPLE_RATE_HZ)


def shifted(hypothesis: Hypothesis, start_s: float) -> Hypothesis:
    """Return a hypothesis whose times begin later by this number of seconds."""
    return dataclasses.replace(
        hypothesis,
        times_s=tuple(round(time_s + start_s, 3) for time_s in hypothesis.times_s),
        alternatives=tuple(shifted(alternative, start_s) for alternative in hypothesis.alternatives),
    )
