"""Recordings of any length -> segments of text, in bounded memory.

A recording is read block by block and cut where nobody speaks. Where somebody speaks on and on, two pieces
share a few seconds, and the logits of one go over into those of the other where both are surest that no
token is there: none is lost, and none is heard twice.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt
from scipy.special import log_softmax

from asr.audio.recording import SAMPLE_RATE_HZ, AudioSource, Waveform, audio_blocks, pad_waveforms
from asr.audio.voice_activity import BLOCK_S, Piece, speech_pieces
from asr.base.types import Hypothesis, Logits
from asr.model.listener import BATCH_SAMPLES, Listener
from asr.recognition.decoding.decoder import Decoder
from asr.recognition.settled_logits import seam

Item = TypeVar("Item")
FrameLogits = npt.NDArray[np.float32]  # (T, V)


@dataclass(frozen=True)
class Segment:
    """What was heard between two pauses.

    Attributes:
        start_s: in the recording.
        end_s: in the recording.
        hypothesis: with times from the start of the recording.
    """

    start_s: float
    end_s: float
    hypothesis: Hypothesis


class LongAudioRecognizer:
    """Transcribes recordings of any length, one after the other.

    Args:
        listener: the model on its devices.
        decoder: of its logits.
    """

    def __init__(self, listener: Listener, decoder: Decoder) -> None:
        self.decoder, self._frame_samples = decoder, listener.model.frame_samples
        self._batch_samples = BATCH_SAMPLES * listener.num_devices
        self._logits = listener.compiled(lambda logits: logits)

    def segments(
        self, source: AudioSource | Waveform, name: str, on_progress: Callable[[float], None] = lambda _: None
    ) -> Iterator[Segment]:
        """What is said in a recording, in order, as it is heard; nothing where nothing is said.

        Args:
            source: of the sound, see `asr.audio.recording.audio_blocks`; or all of it, (S,) int16 at 16 kHz.
            name: for `Hypothesis.utterance_id`.
            on_progress: is told how many seconds have been read.

        Raises:
            UserError: it is no sound recording; what is wrong at its end shows there.
        """
        blocks = [source] if isinstance(source, np.ndarray) else audio_blocks(source, BLOCK_S)
        pieces = speech_pieces(_told(blocks, on_progress), self._frame_samples)
        cuts = without_seams(self._heard(pieces), self._frame_samples)
        most_frames = self._batch_samples // self._frame_samples
        for batch in _batches(cuts, lambda cut: len(cut.logits), most_frames):
            decoded = self._decode([cut.logits for cut in batch], name)
            for cut, hypothesis in zip(batch, decoded, strict=True):
                if hypothesis.tokens:
                    start_s, end_s = cut.begin / SAMPLE_RATE_HZ, cut.end / SAMPLE_RATE_HZ
                    yield Segment(start_s, end_s, _later(hypothesis, start_s))

    def _heard(self, pieces: Iterable[Piece]) -> Iterator[tuple[Piece, FrameLogits]]:
        """Each piece and its logits; those of like length share a batch."""
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
    """One hypothesis for a recording; empty where nothing was said.

    Args:
        segments: of it, in order.
        name: for `Hypothesis.utterance_id`.
    """
    heard = [segment.hypothesis for segment in segments]
    return Hypothesis(
        name,
        tuple(itertools.chain.from_iterable(h.tokens for h in heard)),
        " ".join(h.text for h in heard),
        sum(h.score for h in heard),
        tuple(itertools.chain.from_iterable(h.times_s for h in heard)),
        acoustic_score=sum(h.acoustic_score for h in heard),
        confidences=tuple(itertools.chain.from_iterable(h.confidences for h in heard)),
    )


@dataclass(frozen=True)
class Cut:
    """A piece's logits without what it shares with its neighbours; places are samples of the recording."""

    begin: int
    end: int
    logits: FrameLogits


def without_seams(heard: Iterable[tuple[Piece, FrameLogits]], frame_samples: int) -> Iterator[Cut]:
    """Divide what two pieces share between them.

    Args:
        heard: pieces and their logits, in order.
        frame_samples: from one frame to the next.
    """
    first = 0  # frame of the piece that is its own
    followed: Iterable[tuple[Piece, FrameLogits] | None] = itertools.chain(heard, [None])
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


def _batches(items: Iterable[Item], length: Callable[[Item], int], most: int) -> Iterator[list[Item]]:
    """Items in order, as many at a time as fill no more than so much when padded to the longest."""
    batch: list[Item] = []
    longest = 0
    for item in items:
        longest = max(longest, length(item))
        if batch and longest * (len(batch) + 1) > most:
            yield batch
            batch, longest = [], length(item)
        batch.append(item)
    if batch:
        yield batch


def _told(
    blocks: Iterable[npt.NDArray[np.int16]], on_progress: Callable[[float], None]
) -> Iterator[npt.NDArray[np.int16]]:
    num_samples = 0
    for block in blocks:
        yield block
        num_samples += len(block)
        on_progress(num_samples / SAMPLE_RATE_HZ)


def _later(hypothesis: Hypothesis, start_s: float) -> Hypothesis:
    return dataclasses.replace(
        hypothesis,
        times_s=tuple(round(time_s + start_s, 3) for time_s in hypothesis.times_s),
        alternatives=tuple(_later(alternative, start_s) for alternative in hypothesis.alternatives),
    )
