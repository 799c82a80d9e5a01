"""Test that a stream gives the result of the whole recording, in segments that end at its pauses."""

import itertools

import numpy as np
import pytest
from helpers.clips import clip_segments
from helpers.small_conformer import use_small_conformer
from helpers.transcripts import streamed, tokens_of
from scipy.special import log_softmax

from asr.audio.recording import read_audio
from asr.base.config import Config, FeatureConfig, ModelConfig
from asr.base.errors import UserError
from asr.base.vocabulary import Vocabulary
from asr.export import export
from asr.export.runtimes.onnx.recognizer import ExportedModel
from asr.model.acoustic_model import make_acoustic_model
from asr.model.tensorflow_runner import TensorFlowRunner
from asr.transcription.decoder_choice import DecoderChoice
from asr.transcription.recognizer import Recognizer
from asr.transcription.streaming.stream import LONG_S
from asr.transcription.streaming.stream_logits import StreamingRunner
from asr.transcription.text_writer import TextWriter

VOCABULARY = Vocabulary(["a", "b", "c", "d", "e", "f", "g"])
SECOND = 16000


def recognizer_of(family="separable", size="xs", kind="log_mel", normalize=False, chunk_s=0.0):
    features = FeatureConfig(kind=kind, normalize=normalize)
    model = ModelConfig(family=family, size=size, chunk_s=chunk_s)
    acoustic_model = make_acoustic_model(Config(features=features, model=model), VOCABULARY)
    kernel, bias = acoustic_model.network.trainable_weights[-2:]
    noise = np.random.default_rng(5).normal(0, 2000, SECOND).astype(np.int16)
    values = acoustic_model(noise[None], np.array([SECOND], np.int32)).values.numpy()[0]
    scale = 2 / values.std(axis=0)  # no output wins always
    kernel.assign(kernel * scale)
    bias.assign((bias - values.mean(axis=0)) * scale)
    return Recognizer(TensorFlowRunner(acoustic_model), VOCABULARY)


@pytest.fixture(scope="module")
def bounded():
    return recognizer_of()


@pytest.fixture(scope="module")
def unbounded():
    return recognizer_of(normalize=True)


@pytest.fixture(scope="module")
def speech(clips):
    """Return a quarter of a minute of speech, of an odd number of samples."""
    waveforms = [read_audio(clip.audio_path) for clip in clips]
    return np.concatenate([*waveforms, np.arange(1, 78, dtype=np.int16)])


def assert_same(recognizer, waveform, num_samples):
    segments, _ = streamed(recognizer.stream(), waveform, num_samples)
    (whole,) = clip_segments(recognizer, [waveform])
    assert tokens_of(segments) == whole.tokens
    assert sum((segment.times_s for segment in segments), ()) == whole.times_s
    confidences = sum((segment.confidences for segment in segments), ())
    assert confidences == pytest.approx(whole.confidences, abs=1e-3)
    assert "".join(segment.text for segment in segments) == whole.text
    for before, after in itertools.pairwise(segments):
        assert before.start_s < before.end_s <= after.start_s
    assert segments[-1].end_s <= round(len(waveform) / SECOND, 3)
    return whole


@pytest.mark.parametrize("num_samples", [37, 1600, 7777, 5 * SECOND, 10**6])
def test_a_stream_in_parts_of_any_size_equals_the_whole_recording(bounded, speech, num_samples):
    assert len(assert_same(bounded, speech, num_samples).tokens) > 5


def test_a_stream_of_single_samples_equals_the_whole_recording(bounded, speech):
    assert_same(bounded, speech[: SECOND + 11], 1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "size", "kind"),
    [("separable", "xs", "mfcc"), ("dcnn24", "xs", "spectrogram"), ("separable", "xs", "fbank")],
)
def test_streamed_logits_of_models_with_a_bounded_field_equal_the_whole_recording(family, size, kind, speech):
    assert_same_streamed_logits(recognizer_of(family, size, kind), speech)


@pytest.mark.parametrize(
    "chunk_s", [0.64, *(pytest.param(chunk_s, marks=pytest.mark.slow) for chunk_s in (0.08, 4.8))]
)
def test_streamed_logits_of_a_conformer_in_chunks_equal_the_whole_recording(chunk_s, speech, monkeypatch):
    use_small_conformer(monkeypatch)
    recognizer = recognizer_of("conformer", chunk_s=chunk_s)
    field = recognizer.model.receptive_field()
    assert field.chunk == round(chunk_s / 0.08)
    recording = np.tile(speech, 4 if chunk_s > 1 else 1)
    assert field.before < len(recording) // 2  # windows do not begin where the recording does
    assert_same_streamed_logits(recognizer, recording)


def assert_same_streamed_logits(recognizer, speech):
    for num_samples in (len(speech), 5 * SECOND + 700):
        waveform = speech[:num_samples]
        log_probs = []
        logits = StreamingRunner(recognizer.runner, len(VOCABULARY)).stream()
        for begin in range(0, len(waveform), 9000):
            log_probs += logits.feed(waveform[begin : begin + 9000])
        log_probs = np.concatenate([*log_probs, *logits.finish()])
        whole = recognizer.model(waveform[None], np.array([len(waveform)], np.int32)).values.numpy()[0]
        assert log_probs.shape == whole.shape
        np.testing.assert_allclose(log_probs, log_softmax(whole, axis=-1), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("num_samples", [0, 1, 399, 400, 1700, 20000])
@pytest.mark.parametrize("kind", ["bounded", "unbounded"])
def test_very_short_streams_are_transcribed(kind, num_samples, request):
    segments, _ = streamed(request.getfixturevalue(kind).stream(), np.zeros(num_samples, np.int16), 300)
    if num_samples < 400:
        assert segments == []


@pytest.mark.parametrize("kind", ["bounded", "unbounded"])
def test_final_tokens_never_change_and_begin_the_result(kind, speech, request):
    pause = np.zeros(SECOND, np.int16)
    stream = request.getfixturevalue(kind).stream()
    segments, updates = streamed(stream, np.concatenate([speech, pause, speech]), 6000)
    ended, before = (), ()
    for update in updates:
        ended += tokens_of(update.segments)
        assert update.text == VOCABULARY.join(update.tokens)
        final = ended + update.tokens[: update.num_final]
        assert final[: len(before)] == before
        before = final
    assert len(before) > 5
    assert tokens_of(segments)[: len(before)] == before


def test_open_segment_has_the_tokens_of_the_sound_so_far(bounded, speech):
    update = bounded.stream().feed(speech)
    found = tokens_of(update.segments) + update.tokens
    assert found == clip_segments(bounded, [speech])[0].tokens


def test_a_stream_without_pauses_equals_the_whole_clip_for_a_normalising_model(unbounded, clips):
    assert unbounded.model.receptive_field() is None
    for clip in clips[:3]:
        assert_same(unbounded, read_audio(clip.audio_path), 1000)


def test_pauses_divide_a_stream_into_clips_for_a_normalising_model(unbounded, clips):
    one, other = (read_audio(clip.audio_path) for clip in clips[:2])
    pause = np.zeros(SECOND, np.int16)
    together, _ = streamed(unbounded.stream(), np.concatenate([one, pause, other]), 4000)
    times_s = [time_s for segment in together for time_s in segment.times_s]
    # each clip keeps a part of the pause: a tenth of a second, and what smoothing adds
    (first,) = clip_segments(unbounded, [np.concatenate([one, pause[:2240]])])
    near_end = [time_s for time_s in times_s if time_s < (len(one) + 2240) / SECOND]
    assert abs(len(near_end) - len(first.tokens)) <= 1
    begin_s = (len(one) + len(pause)) / SECOND
    assert any(time_s > begin_s - 0.3 for time_s in times_s)
    assert max(times_s) < begin_s + len(other) / SECOND


@pytest.mark.parametrize("num_samples", [555, 48000])
def test_the_size_of_parts_does_not_matter_for_a_normalising_model(unbounded, speech, num_samples):
    waveform = np.concatenate([speech, np.zeros(SECOND, np.int16), speech])
    (found, _), (expected, _) = (streamed(unbounded.stream(), waveform, num) for num in (num_samples, 5120))
    assert tokens_of(found) == tokens_of(expected)
    assert [one.times_s for one in found] == [one.times_s for one in expected]


def test_parts_of_all_sizes_share_one_compiled_graph(speech, monkeypatch):
    graphs, compiled = [], TensorFlowRunner.compiled
    monkeypatch.setattr(
        TensorFlowRunner, "compiled", lambda *args: graphs.append(compiled(*args)) or graphs[-1]
    )
    recognizer = recognizer_of()
    for num_samples in (3000, 8001, 40000):
        streamed(recognizer.stream(), speech[:60000], num_samples)
    assert {graph.experimental_get_tracing_count() for graph in graphs} == {1}
    assert len(graphs) == 1


@pytest.mark.parametrize("samples", [np.zeros(800, np.float32), np.zeros((800, 2), np.int16)])
def test_samples_of_another_type_or_shape_are_refused(bounded, samples):
    with pytest.raises(UserError, match=r"int16 samples of shape \(n,\)"):
        bounded.stream().feed(samples)


def test_text_is_written_again_only_when_tokens_change(bounded, speech, monkeypatch):
    written, write = [], TextWriter.text
    monkeypatch.setattr(
        TextWriter, "text", lambda self, tokens: written.append(tokens) or write(self, tokens)
    )
    _, updates = streamed(bounded.stream(), speech, 2560)
    shown = [tokens for tokens, _ in itertools.groupby(update.tokens for update in updates)]
    assert written == [tokens for tokens in shown if tokens or tokens is not shown[0]]


@pytest.fixture(scope="module")
def exact(bounded_run, tmp_path_factory):
    """Return an exported recognizer whose streams are exact."""
    model = ExportedModel.open(export(bounded_run, tmp_path_factory.mktemp("out") / "out", clips=1).folder)
    return model.recognizer(DecoderChoice(model.decoder_settings()))


@pytest.fixture(scope="module")
def by_pauses(exported):
    """Return an exported recognizer whose model needs whole clips."""
    model = ExportedModel.open(exported.folder)
    return model.recognizer(DecoderChoice(model.decoder_settings()))


@pytest.fixture(scope="module")
def sentences(clips):
    pause = np.zeros(SECOND, np.int16)
    return [np.concatenate([read_audio(clip.audio_path), pause]) for clip in clips[:4]]


@pytest.mark.parametrize("num_samples", [1600, 30_000])
def test_segments_of_an_exact_stream_have_the_tokens_and_times_of_the_whole(exact, sentences, num_samples):
    waveform = np.concatenate(sentences)
    segments, updates = streamed(exact.stream(), waveform, num_samples)
    (whole,) = clip_segments(exact, [waveform])
    assert tokens_of(segments) == whole.tokens
    assert sum((segment.times_s for segment in segments), ()) == whole.times_s
    assert any(update.text for update in updates)
    for before, after in itertools.pairwise(segments):
        assert before.start_s < before.end_s <= after.start_s


def test_each_sentence_is_a_segment_where_the_model_needs_the_whole_clip(by_pauses, sentences):
    segments, updates = streamed(by_pauses.stream(), np.concatenate(sentences), 3200)
    assert len(segments) == len(sentences)
    lengths = np.cumsum([0, *map(len, sentences)]) / SECOND
    for index, segment in enumerate(segments):
        assert lengths[index] - 0.3 <= segment.times_s[0] < lengths[index + 1]
        assert segment.text
        assert segment.times_s[-1] <= segment.end_s
    assert {update.text for update in updates} > {""}


def test_a_segment_without_a_pause_is_cut_when_it_is_long(by_pauses, sentences):
    speech = [sentence[:-SECOND] for sentence in sentences]
    waveform = np.concatenate(speech * 20)
    assert len(waveform) > 60 * SECOND
    segments, _ = streamed(by_pauses.stream(), waveform, 16_000)
    assert len(segments) > 1
    assert max(segment.end_s - segment.start_s for segment in segments) < 2 * LONG_S + 30


def test_silence_has_no_segments(by_pauses):
    segments, updates = streamed(by_pauses.stream(), np.zeros(3 * SECOND, np.int16), 1600)
    assert (segments, {update.text for update in updates}) == ([], {""})


def test_the_text_of_a_mandarin_stream_is_hanzi(trained_run, clips):
    recognizer = Recognizer.load(trained_run)
    waveform = np.concatenate([read_audio(clip.audio_path) for clip in clips[:3]])
    segments, updates = streamed(recognizer.stream(), waveform, 16_000)
    assert updates[-1].text == recognizer.decoder.writer.text(updates[-1].tokens)
    assert [segment.text for segment in segments] == [
        recognizer.decoder.writer.text(segment.tokens) for segment in segments
    ]
