"""Transcribes recordings of any length into segments of text, in bounded memory.

A recording is read block by block and cut at pauses. Where there is no pause, two pieces overlap by a few
seconds, and the logits switch from one piece to the other at the frame where both give a blank the highest
probability: no token is lost, and none is recognized twice.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import numpy.typing as npt

from asr.audio.recording import SAMPLE_RATE_HZ, AudioSource, Waveform, audio_blocks, pad_waveforms
from asr.audio.voice_activity import BLOCK_S, Piece, pauses_for, speech_pieces
from asr.base.types import Hypothesis, Logits
from asr.ctc.posteriors import log_softmax
from asr.model.runner import BATCH_SAMPLES, ModelRunner
from asr.transcription.streaming.stream_logits import seam
from asr.transcription.transcript import Segment

if TYPE_CHECKING:
    from asr.transcription.decoder import Decoder

Item = TypeVar("Item")
FrameLogits = npt.NDArray[np.float32]  # (T, V)


class LongAudioRecognizer:
    """A recognizer of recordings of any length, one at a time.

    Args:
        runner: the model on its devices.
        decoder: of its logits.
        batch_samples: of a batch on one device, including padding.
    """

    def __init__(self, runner: ModelRunner, decoder: Decoder, batch_samples: int = BATCH_SAMPLES) -> None:
        self._decoder, self._frame_samples = decoder, runner.model.frame_samples
        self._pauses = pauses_for(runner.model.ignores_silence)
        self._batch_samples = batch_samples * runner.num_devices
        self._logits = runner.compiled(lambda logits: logits)

    def segments(
        self, source: AudioSource | Waveform, on_progress: Callable[[float], None] = lambda _: None
    ) -> Iterator[Segment]:
        """Yield the segments of speech of a recording, in order, as they are recognized.

        Args:
            source: see `asr.audio.recording.audio_blocks`; or a waveform, (S,) int16 at 16 kHz.
            on_progress: receives how many seconds have been read.

        Raises:
            UserError: it is not an audio recording; damage at its end is detected only there.
        """
        blocks = [source] if isinstance(source, np.ndarray) else audio_blocks(source, BLOCK_S)
        pieces = speech_pieces(_with_progress(blocks, on_progress), self._frame_samples, pauses=self._pauses)
        cuts = without_overlaps(self._logits_of(pieces), self._frame_samples)
        max_frames = self._batch_samples // self._frame_samples
        for batch in _batches(cuts, lambda cut: len(cut.logits), max_frames):
            found = self._search([cut.logits for cut in batch])
            for cut, hypotheses in zip(batch, found, strict=True):
                start_s, end_s = cut.begin / SAMPLE_RATE_HZ, cut.end / SAMPLE_RATE_HZ
                segment = self._decoder.writer.segment(hypotheses, start_s, end_s)
                if segment.words:
                    yield segment

    def _logits_of(self, pieces: Iterable[Piece]) -> Iterator[tuple[Piece, FrameLogits]]:
        """Yield each piece with its logits; pieces of similar length share a batch."""
        for batch in _batches(pieces, lambda piece: len(piece.waveform), self._batch_samples):
            audio, num_samples = pad_waveforms([piece.waveform for piece in batch])
            values, num_frames = (np.asarray(part) for part in self._logits(audio, num_samples))
            for piece, row, length in zip(batch, values, num_frames, strict=True):
                yield piece, row[:length]

    def _search(self, clips: Sequence[FrameLogits]) -> list[list[Hypothesis]]:
        num_frames = np.array([len(clip) for clip in clips], np.int32)
        values = np.zeros((len(clips), num_frames.max(), clips[0].shape[1]), np.float32)
        for row, clip in zip(values, clips, strict=True):
            row[: len(clip)] = clip
        search = self._decoder.search
        return search.hypotheses(search.reduce(Logits(values, num_frames)))


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
            next_first = seam(log_softmax(logits[shift:]), log_softmax(following[1]))
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
