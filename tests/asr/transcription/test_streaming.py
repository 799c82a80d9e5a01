"""Checks that streaming gives the results of recognizing the whole recording."""

import numpy as np
import pytest
from asr.transcription.stream_decoders import GreedyStream, stream_decoder
from asr.transcription.streaming import NOTHING, StreamingRecognizer, next_partial
from helpers.small_conformer import use_small_conformer
from scipy.special import log_softmax

from asr.audio.recording import read_audio
from asr.base.config import Config, FeatureConfig, ModelConfig
from asr.base.decoder_settings import DecoderSettings
from asr.base.errors import UserError
from asr.base.vocabulary import Vocabulary
from asr.language.hanzi.converter import Converter
from asr.model.acoustic_model import make_acoustic_model
from asr.model.listener import Listener
from asr.transcription.decoder import BeamDecoder, GreedyDecoder, make_decoder
from asr.transcription.recognizer import Recognizer

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
    return Recognizer(Listener(acoustic_model), VOCABULARY)


@pytest.fixture(scope="module")
def bounded():
    return StreamingRecognizer(recognizer_of())


@pytest.fixture(scope="module")
def unbounded():
    return StreamingRecognizer(recognizer_of(normalize=True))


@pytest.fixture(scope="module")
def speech(clips):
    """Return a quarter of a minute of speech, of an odd number of samples."""
    waveforms = [read_audio(clip.audio_path) for clip in clips]
    return np.concatenate([*waveforms, np.arange(1, 78, dtype=np.int16)])


def streamed(recognizer, waveform, chunk_samples):
    stream = recognizer.stream("clip")
    for begin in range(0, len(waveform), chunk_samples):
        stream.feed(waveform[begin : begin + chunk_samples])
    return stream.finish()


def offline(recognizer, waveform):
    whole = Recognizer(Listener(recognizer.model), recognizer.vocabulary)
    return whole.transcribe_waveforms([waveform], ["clip"])[0]


def assert_same(streamed, whole):
    assert streamed.tokens == whole.tokens
    assert streamed.times_s == whole.times_s
    assert streamed.text == whole.text
    assert streamed.utterance_id == whole.utterance_id
    assert streamed.confidences == pytest.approx(whole.confidences, abs=1e-3)
    assert streamed.score == pytest.approx(whole.score, rel=1e-3, abs=1e-3)


@pytest.mark.parametrize("chunk_samples", [37, 1600, 7777, 5 * SECOND, 10**6])
def test_a_stream_in_chunks_of_any_size_equals_the_whole_recording(bounded, speech, chunk_samples):
    assert bounded.exact
    whole = offline(bounded, speech)
    assert len(whole.tokens) > 5
    assert_same(streamed(bounded, speech, chunk_samples), whole)


def test_a_stream_of_single_samples_equals_the_whole_recording(bounded, speech):
    waveform = speech[: SECOND + 11]
    assert_same(streamed(bounded, waveform, 1), offline(bounded, waveform))


@pytest.mark.parametrize(
    ("family", "size", "kind"),
    [("separable", "xs", "mfcc"), ("dcnn24", "xs", "spectrogram"), ("separable", "xs", "fbank")],
)
def test_streamed_logits_of_models_with_a_bounded_field_equal_the_whole_recording(family, size, kind, speech):
    assert_same_streamed_logits(StreamingRecognizer(recognizer_of(family, size, kind)), speech)


@pytest.mark.parametrize(
    "chunk_s", [0.64, *(pytest.param(chunk_s, marks=pytest.mark.slow) for chunk_s in (0.08, 4.8))]
)
def test_streamed_logits_of_a_conformer_in_chunks_equal_the_whole_recording(chunk_s, speech, monkeypatch):
    use_small_conformer(monkeypatch)
    recognizer = StreamingRecognizer(recognizer_of("conformer", chunk_s=chunk_s))
    assert recognizer.exact
    field = recognizer.model.receptive_field()
    assert field.chunk == round(chunk_s / 0.08)
    recording = np.tile(speech, 4 if chunk_s > 1 else 1)
    assert field.before < len(recording) // 2  # windows do not begin where the recording does
    assert_same_streamed_logits(recognizer, recording)


def assert_same_streamed_logits(recognizer, speech):
    for num_samples in (len(speech), 5 * SECOND + 700):
        waveform = speech[:num_samples]
        log_probs = []
        logits = recognizer.listener.stream()
        for begin in range(0, len(waveform), 9000):
            log_probs += logits.feed(waveform[begin : begin + 9000])
        log_probs = np.concatenate([*log_probs, *logits.finish()])
        whole = recognizer.model(waveform[None], np.array([len(waveform)], np.int32)).values.numpy()[0]
        assert log_probs.shape == whole.shape
        np.testing.assert_allclose(log_probs, log_softmax(whole, axis=-1), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("num_samples", [0, 1, 399, 400, 1700, 20000])
@pytest.mark.parametrize("kind", ["bounded", "unbounded"])
def test_very_short_streams_have_an_empty_hypothesis(kind, num_samples, request):
    recognizer = request.getfixturevalue(kind)
    hypothesis = streamed(recognizer, np.zeros(num_samples, np.int16), 300)
    assert hypothesis.utterance_id == "clip"
    if num_samples < 400:
        assert (hypothesis.tokens, hypothesis.text, hypothesis.score, hypothesis.times_s) == ((), "", 0.0, ())


@pytest.mark.parametrize("kind", ["bounded", "unbounded"])
def test_final_tokens_never_change_and_begin_the_result(kind, speech, request):
    stream = request.getfixturevalue(kind).stream()
    pause = np.zeros(SECOND, np.int16)
    before = ()
    waveform = np.concatenate([speech, pause, speech])
    for begin in range(0, len(waveform), 6000):
        partial = stream.feed(waveform[begin : begin + 6000])
        assert partial.final[: len(before)] == before
        assert partial.text == VOCABULARY.join(partial.final + partial.provisional)
        before = partial.final
    assert len(before) > 5
    assert stream.finish().tokens[: len(before)] == before


def test_partial_results_include_provisional_tokens(bounded, speech):
    partial = bounded.stream().feed(speech)
    assert partial.final + partial.provisional == offline(bounded, speech).tokens


def test_a_stream_without_pauses_equals_the_whole_clip_for_a_normalising_model(unbounded, clips):
    assert not unbounded.exact
    for clip in clips[:3]:
        waveform = read_audio(clip.audio_path)
        assert_same(streamed(unbounded, waveform, 1000), offline(unbounded, waveform))


def test_pauses_divide_a_stream_into_clips_for_a_normalising_model(unbounded, clips):
    one, other = (read_audio(clip.audio_path) for clip in clips[:2])
    pause = np.zeros(SECOND, np.int16)
    together = streamed(unbounded, np.concatenate([one, pause, other]), 4000)
    # each clip keeps a part of the pause: a tenth of a second, and what smoothing adds
    first = offline(unbounded, np.concatenate([one, pause[:2240]]))
    near_end = [t for t in together.times_s if t < (len(one) + 2240) / SECOND]
    assert abs(len(near_end) - len(first.tokens)) <= 1
    begin_s = (len(one) + len(pause)) / SECOND
    assert any(time_s > begin_s - 0.3 for time_s in together.times_s)
    assert max(together.times_s) < begin_s + len(other) / SECOND


@pytest.mark.parametrize("chunk_samples", [555, 48000])
def test_the_size_of_chunks_does_not_matter_for_a_normalising_model(unbounded, speech, chunk_samples):
    waveform = np.concatenate([speech, np.zeros(SECOND, np.int16), speech])
    assert_same(streamed(unbounded, waveform, chunk_samples), streamed(unbounded, waveform, 5120))


def test_chunks_of_all_sizes_share_one_compiled_graph(speech, monkeypatch):
    graphs, compiled = [], Listener.compiled
    monkeypatch.setattr(Listener, "compiled", lambda *args: graphs.append(compiled(*args)) or graphs[-1])
    recognizer = StreamingRecognizer(recognizer_of())
    for chunk_samples in (3000, 8001, 40000):
        streamed(recognizer, speech[:60000], chunk_samples)
    assert [graph.experimental_get_tracing_count() for graph in graphs] == [1]


@pytest.mark.parametrize("samples", [np.zeros(800, np.float32), np.zeros((800, 2), np.int16)])
def test_samples_of_another_type_or_shape_are_refused(bounded, samples):
    with pytest.raises(UserError, match=r"-: expected int16 samples of shape \(n,\)"):
        bounded.stream().feed(samples)


def test_greedy_decoding_merges_repeats_across_chunks():
    ids = np.array([0, 1, 1, 0, 1, 2, 2, 2, 3, 0, 0, 3])
    log_probs = np.log(np.full((len(ids), 8), 0.01) + 0.92 * np.eye(8)[ids]).astype(np.float32)
    decoder = stream_decoder(GreedyDecoder(VOCABULARY, 0.08))
    for cut in range(len(ids)):
        state = decoder.start()
        for part in (log_probs[:cut], log_probs[cut:]):
            decoder.feed(state, part)
        hypothesis = decoder.finish(state, "x")
        assert hypothesis.tokens == ("a", "a", "b", "c", "c")
        assert hypothesis.times_s == (0.08, 0.32, 0.4, 0.64, 0.88)


def test_beam_search_of_a_stream_equals_that_of_the_whole_recording(speech):
    settings = DecoderSettings(beam=8, n_best=3)
    greedy = recognizer_of()
    decoder = BeamDecoder(VOCABULARY, greedy.model.frame_s, settings)
    recognizer = Recognizer(greedy.listener, VOCABULARY, decoder)
    stream = StreamingRecognizer(recognizer).stream("clip")
    final = ()
    for begin in range(0, len(speech), 9000):
        partial = stream.feed(speech[begin : begin + 9000])
        assert partial.final[: len(final)] == final
        final = partial.final
    assert final
    result = stream.finish()
    (whole,) = recognizer.transcribe_waveforms([speech], ["clip"])
    assert_same(result, whole)
    assert [other.tokens for other in result.alternatives] == [other.tokens for other in whole.alternatives]


def test_the_text_of_a_mandarin_stream_is_hanzi():
    vocabulary = Vocabulary(["hao3", "ni3"])
    log_probs = np.log(np.full((4, 3), 0.01) + 0.96 * np.eye(3)[[2, 0, 1, 0]]).astype(np.float32)
    for settings in (DecoderSettings(), DecoderSettings(beam=4)):
        stream = stream_decoder(make_decoder(vocabulary, 0.08, settings, converter=Converter.load()))
        state = stream.start()
        stream.feed(state, log_probs[:2])
        assert stream.partial(state)[0] == ("ni3",)
        stream.feed(state, log_probs[2:])
        assert stream.text_of(stream.partial(state)[0]) == "你好"
        hypothesis = stream.finish(state, "clip")
        assert (hypothesis.text, hypothesis.times_s) == ("你好", (0.0, 0.16))
        empty = stream.finish(stream.start(), "clip")
        assert (empty.tokens, empty.text) == ((), "")


def test_text_is_written_again_only_when_tokens_change(monkeypatch):
    written = []
    monkeypatch.setattr(GreedyStream, "text_of", lambda _, tokens: written.append(tokens) or "-".join(tokens))
    decoder = GreedyStream(GreedyDecoder(VOCABULARY, 0.08))
    state, partial = decoder.start(), NOTHING
    for ids in ([1], [1, 0], [1, 0, 2], [1, 0, 2, 2]):
        partial = next_partial(decoder, state, frames_of(ids), partial)
        assert partial.text == "-".join(partial.provisional)
    assert written == [VOCABULARY.decode([1]), VOCABULARY.decode([1, 2])]


def frames_of(ids):
    """Return log probabilities in which these labels are the best of their frames."""
    return np.eye(len(VOCABULARY), dtype=np.float32)[ids] - 1
