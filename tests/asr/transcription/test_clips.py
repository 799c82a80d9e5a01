import pytest

from asr.audio.recording import SAMPLE_RATE_HZ, read_audio
from asr.transcription import clips as clips_module
from asr.transcription.clips import ClipRecognizer
from asr.transcription.recognizer import Recognizer


@pytest.mark.parametrize("batch_s", [0.1, 5.0, 120.0])
def test_clips_of_all_lengths_have_their_own_transcripts_in_order(batch_s, clips, separable_run, monkeypatch):
    recognizer = Recognizer.load(separable_run)
    waveforms = [read_audio(clip.audio_path) for clip in clips]
    assert len({len(waveform) for waveform in waveforms}) > 3
    alone = [recognizer.transcribe(clip.audio_path).tokens for clip in clips]
    monkeypatch.setattr(clips_module, "BATCH_SAMPLES", round(batch_s * SAMPLE_RATE_HZ))
    segments = ClipRecognizer(recognizer.runner, recognizer.decoder).segments(waveforms)
    assert [segment.tokens for segment in segments] == alone
    assert len(set(alone)) > 3
    for segment, waveform in zip(segments, waveforms, strict=True):
        assert (segment.start_s, segment.end_s) == (0.0, len(waveform) / SAMPLE_RATE_HZ)


def test_no_clips_have_no_segments(separable_run):
    recognizer = Recognizer.load(separable_run)
    assert ClipRecognizer(recognizer.runner, recognizer.decoder).segments([]) == []
