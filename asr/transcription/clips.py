"""Transcribes clips as wholes, in batches of similar length; `long_audio` cuts what is longer."""

from __future__ import annotations

from collections.abc import Sequence

from asr.audio.recording import SAMPLE_RATE_HZ, Waveform, pad_waveforms
from asr.model.runner import BATCH_SAMPLES, ModelRunner
from asr.transcription.decoder import Decoder
from asr.transcription.transcript import Segment


class ClipRecognizer:
    """A recognizer of clips, each of which becomes one segment.

    Args:
        runner: the model on its devices.
        decoder: of its logits.
    """

    def __init__(self, runner: ModelRunner, decoder: Decoder) -> None:
        self._decoder, self._num_devices = decoder, runner.num_devices
        self._reduced = runner.compiled(decoder.search.reduce)

    def segments(self, waveforms: Sequence[Waveform]) -> list[Segment]:
        """Return the transcript of each clip.

        Args:
            waveforms: (S,) int16 at 16 kHz each, at least 400 samples and at most some minutes.
        """
        by_length = sorted(range(len(waveforms)), key=lambda index: len(waveforms[index]))
        found: dict[int, Segment] = {}
        while by_length:
            longest = len(waveforms[by_length[-1]])
            size = self._num_devices * max(1, BATCH_SAMPLES // longest)
            indices, by_length = by_length[-size:], by_length[:-size]
            audio, num_samples = pad_waveforms([waveforms[index] for index in indices])
            reduced = self._reduced(audio, num_samples)
            durations_s = [len(waveforms[index]) / SAMPLE_RATE_HZ for index in indices]
            found.update(zip(indices, self._decoder.segments(reduced, durations_s), strict=True))
        return [found[index] for index in range(len(waveforms))]
