"""Test that a stream is cut at its pauses, and that nothing is lost where it is cut."""

import itertools

import numpy as np
import pytest
from asr.transcription.segmented_stream import LONG_S, SegmentedStream
from asr.transcription.streaming import StreamingRecognizer

from asr.audio.recording import read_audio
from asr.export import export
from asr.export.onnx.recognizer import ExportedModel
from asr.transcription.decoder_choice import DecoderChoice

SECOND = 16_000


@pytest.fixture(scope="module")
def bounded(bounded_run, tmp_path_factory):
    """Return a recognizer whose streams are exact."""
    model = ExportedModel.open(export(bounded_run, tmp_path_factory.mktemp("out") / "out", clips=1).folder)
    return model.recognizer(DecoderChoice(model.decoder_settings()))


@pytest.fixture(scope="module")
def unbounded(exported):
    model = ExportedModel.open(exported.folder)
    return model.recognizer(DecoderChoice(model.decoder_settings()))


def streamed(recognizer, waveform, num_samples):
    """Return all segments of a stream, and the texts of its open segments."""
    stream = SegmentedStream(StreamingRecognizer(recognizer))
    segments, texts = [], []
    for begin in range(0, len(waveform), num_samples):
        update = stream.feed(waveform[begin : begin + num_samples])
        segments += update.segments
        texts.append(update.partial.text)
    return [*segments, *stream.finish()], texts


@pytest.fixture(scope="module")
def sentences(clips):
    pause = np.zeros(SECOND, np.int16)
    return [np.concatenate([read_audio(clip.audio_path), pause]) for clip in clips[:4]]


@pytest.mark.parametrize("num_samples", [1600, 30_000])
def test_segments_of_an_exact_stream_have_the_tokens_and_times_of_the_whole(bounded, sentences, num_samples):
    waveform = np.concatenate(sentences)
    segments, texts = streamed(bounded, waveform, num_samples)
    (whole,) = bounded.transcribe_waveforms([waveform], ["-"])
    assert sum((segment.hypothesis.tokens for segment in segments), ()) == whole.tokens
    assert sum((segment.hypothesis.times_s for segment in segments), ()) == whole.times_s
    assert any(texts)
    for before, after in itertools.pairwise(segments):
        assert before.start_s < before.end_s <= after.start_s


def test_each_sentence_is_a_segment_where_the_model_needs_the_whole_clip(unbounded, sentences):
    segments, texts = streamed(unbounded, np.concatenate(sentences), 3200)
    assert len(segments) == len(sentences)
    lengths = np.cumsum([0, *map(len, sentences)]) / SECOND
    for place, segment in enumerate(segments):
        assert lengths[place] - 0.3 <= segment.hypothesis.times_s[0] < lengths[place + 1]
        assert segment.hypothesis.text
        assert segment.hypothesis.times_s[-1] <= segment.end_s
    assert set(texts) > {""}


def test_a_segment_without_a_pause_is_cut_when_it_is_long(unbounded, sentences):
    speech = [sentence[:-SECOND] for sentence in sentences]
    waveform = np.concatenate(speech * 20)
    assert len(waveform) > 60 * SECOND
    segments, _ = streamed(unbounded, waveform, 16_000)
    assert len(segments) > 1
    assert max(segment.end_s - segment.start_s for segment in segments) < 2 * LONG_S + 30


def test_silence_has_no_segments(unbounded):
    assert streamed(unbounded, np.zeros(3 * SECOND, np.int16), 1600) == ([], [""] * 30)
