"""Test the scripts of an exported folder, which run it without Polyphone."""

import io
import json
import math
import re
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest
import soundfile
from helpers.random_run import trained_recognizer
from helpers.recognize import recognize
from helpers.small_conformer import use_small_conformer
from helpers.transcripts import tokens_of

from asr.audio.recording import read_audio, resample
from asr.audio.voice_activity import pauses_for, speech_pieces
from asr.base.config import Config, FeatureConfig, ModelConfig
from asr.base.errors import UserError
from asr.base.types import Logits
from asr.base.vocabulary import Vocabulary
from asr.ctc.greedy import best_path, hypotheses_of
from asr.export import export
from asr.export.folder import SCRIPTS, script_text
from asr.language.hanzi.converter import Converter
from asr.model.acoustic_model import make_acoustic_model
from data_pipeline.corpora.public.mandarin_demo import ARCHIVE


@pytest.fixture
def scripts(monkeypatch):
    """Make the modules of the scripts importable."""
    for script in SCRIPTS:
        monkeypatch.syspath_prepend(script.parent)


@pytest.fixture(scope="module")
def sentences(clips):
    """Return a recording of sentences with pauses between them, about 20 s."""
    pause = np.zeros(24_000, np.int16)
    return np.concatenate([part for clip in clips[:8] for part in (read_audio(clip.audio_path), pause)])


def test_script_prints_what_asr_transcribe_prints(exported, separable_run, clips, sentences, tmp_path):
    long = tmp_path / "long.wav"
    soundfile.write(long, sentences, 16_000)
    other = tmp_path / "other.flac"
    samples, _ = soundfile.read(clips[2].audio_path)
    soundfile.write(other, np.stack([samples, samples], axis=1), 44_100)
    paths = [*(clip.audio_path for clip in clips[:4]), str(long), str(other)]
    done = recognize(exported.folder, *paths, "--format", "jsonl")
    assert done.returncode == 0, done.stderr.decode()
    printed = [json.loads(line) for line in done.stdout.decode().splitlines()]
    recognizer = trained_recognizer(separable_run)
    assert len(printed) == len(paths)
    assert printed[4]["tokens"]
    for path, record in zip(paths, printed, strict=True):
        expected = recognizer.transcribe(path)
        assert list(record) == ["file", "text", "tokens", "times_s", "confidences", "score"]
        assert record["file"] == path
        assert record["text"] == expected.text
        assert tuple(record["tokens"]) == expected.tokens
        assert tuple(record["times_s"]) == expected.times_s
        assert record["confidences"] == pytest.approx(expected.confidences, abs=2e-3)
        assert record["score"] == pytest.approx(expected.score, abs=1e-2)


def test_score_of_an_empty_transcript_is_that_of_its_best_path(exported, scripts):
    import recognize as script

    recognizer = script.Recognizer(exported.folder)
    num_tokens = len(recognizer.tokens)
    frames = np.full((10, num_tokens), np.log(0.25 / (num_tokens - 1)), np.float32)
    frames[:, recognizer.about["blank_id"]] = np.log(0.75)
    recognizer.log_probs = lambda _: frames
    transcript = recognizer.transcribe(np.zeros(16_000, np.int16))
    (expected,) = hypotheses_of(best_path(Logits(frames[None], np.array([10]))), Vocabulary("a"), 0.01)
    assert (transcript.text, transcript.tokens) == ("", [])
    assert transcript.score == pytest.approx(expected.score, abs=1e-3)
    assert expected.score == pytest.approx(10 * np.log(0.75), abs=1e-3)


def test_script_reads_standard_input_and_writes_syllables(exported, separable_run, clips):
    data = Path(clips[0].audio_path).read_bytes()
    done = recognize(exported.folder, "-", "--tokens", data=data)
    tokens = trained_recognizer(separable_run).transcribe(clips[0].audio_path).tokens
    assert done.stdout.decode() == " ".join(tokens) + "\n"


def test_recordings_that_cannot_be_read_are_named_and_the_others_transcribed(exported, clips, tmp_path):
    whole = Path(clips[0].audio_path).read_bytes()
    for name, content in {
        "empty.wav": b"",
        "cut.wav": whole[: len(whole) // 2],
        "text.wav": b"hello",
        "short.wav": whole[:44].replace(whole[40:44], (200).to_bytes(4, "little")) + bytes(200),
    }.items():
        (tmp_path / name).write_bytes(content)
    names = ["none.wav", "empty.wav", "cut.wav", "text.wav", "short.wav"]
    done = recognize(exported.folder, *(tmp_path / name for name in names), clips[0].audio_path)
    assert done.returncode == 2
    errors = done.stderr.decode().splitlines()
    for line, name, part in zip(
        errors,
        names,
        ["No such file", "empty file", "cut off", "not audio", "expected at least 400 samples"],
        strict=True,
    ):
        assert line.startswith("error: ")
        assert name in line
        assert part in line
    assert len(done.stdout.decode().splitlines()) == 1


@pytest.mark.parametrize("container", ["AIFF", "AU", "W64", "RF64", "NIST", "VOC", "SVX", "CAF", "OGG"])
def test_containers_that_are_cut_off_are_refused_as_by_asr_transcribe(scripts, container, tmp_path):
    import recordings

    path = tmp_path / "a.sound"
    noise = np.random.default_rng(0).normal(0, 0.1, 30_000)
    soundfile.write(
        path, noise, 16000, format=container, subtype="VORBIS" if container == "OGG" else "PCM_16"
    )
    np.testing.assert_array_equal(recordings.read_recording(str(path)), read_audio(path))
    path.write_bytes(path.read_bytes()[:-7000])
    with pytest.raises(UserError, match="cut off") as refused:
        read_audio(path)
    with pytest.raises(recordings.RecordingError, match="cut off") as refused_there:
        recordings.read_recording(str(path))
    assert str(refused_there.value) == str(refused.value)


def bad_recordings():
    """Yield files whose header is wrong, or that have several recordings, with their names."""
    noise = np.random.default_rng(0).normal(0, 0.1, 30_000)
    for container, subtype, place, form in [
        ("WAV", "PCM_16", 40, "<I"),
        ("WAV", "PCM_24", 40, "<I"),
        ("AIFF", "PCM_16", 42, ">I"),
        ("AU", "PCM_16", 8, ">I"),
        ("RF64", "PCM_16", 28, "<Q"),
        ("CAF", "PCM_16", 4084, ">q"),
        ("FLAC", "PCM_16", 22, ">I"),
        ("OGG", "VORBIS", None, ""),
    ]:
        file = io.BytesIO()
        soundfile.write(file, noise, 16_000, format=container, subtype=subtype)
        data = file.getvalue()
        yield f"{container} twice", data + data
        yield f"{container} cut", data[:-5000]
        yield f"{container} with a tag in front", b"ID3\4" + bytes(16) + data
        yield f"{container} with a second chunk", data + data[36:]
        if place is not None:
            (size,) = struct.unpack_from(form, data, place)
            for other in (0, size // 2 // 4 * 4, size - 4000, size - 40, size + 40, size + 4000, 0x7FFFFFFF):
                value = struct.pack(form, other)
                yield f"{container} of {other}", data[:place] + value + data[place + len(value) :]
    for channels in (
        [noise, -noise],
        [noise, noise],
        [noise, 0 * noise],
        [3e3 * noise],
        [np.rint(30 * noise)],
    ):
        file = io.BytesIO()
        hum = 0.5 * np.sin(np.arange(30_000) / 50) * (len(channels) > 1)
        soundfile.write(
            file, np.stack(channels, axis=1) + hum[:, None], 16_000, format="WAV", subtype="FLOAT"
        )
        yield f"{len(channels)} channels", file.getvalue()


def test_recordings_with_wrong_headers_are_read_or_refused_as_by_asr_transcribe(scripts, tmp_path):
    import recordings

    path = tmp_path / "a"
    for name, data in bad_recordings():
        path.write_bytes(data)
        results = []
        for read in (read_audio, recordings.read_recording):
            try:
                results.append(read(str(path)).tobytes())
            except (UserError, recordings.RecordingError) as error:
                results.append(str(error))
        assert results[0] == results[1], name


def test_mp3_that_does_not_state_its_length_is_read_to_its_end(scripts, tmp_path):
    import recordings

    path = tmp_path / "a.mp3"
    noise = np.random.default_rng(0).normal(0, 0.3, 64_000) * np.repeat([1, 1e-3], 32_000)
    soundfile.write(path, noise, 16_000, bitrate_mode="VARIABLE", compression_level=0.5)
    data = path.read_bytes()
    path.write_bytes(data[data.index(data[:2], 2) :])  # without the frame that states it
    waveform = recordings.read_recording(str(path))
    assert len(waveform) >= 64_000
    np.testing.assert_array_equal(waveform, read_audio(path))


def test_wav_of_a_pipe_which_declares_no_length_is_read(scripts, clips, tmp_path):
    import recordings

    content = bytearray(Path(clips[0].audio_path).read_bytes())
    content[40:44] = b"\xff\xff\xff\xff"
    (tmp_path / "pipe.wav").write_bytes(content)
    waveform = recordings.read_recording(str(tmp_path / "pipe.wav"))
    np.testing.assert_array_equal(waveform, read_audio(clips[0].audio_path))


@pytest.mark.parametrize("rate_hz", [8000, 11_025, 22_050, 44_100, 48_000, 7999])
def test_resampling_without_scipy_is_that_of_training(scripts, rate_hz):
    import recordings

    for num_samples in (1, 5, 3000):
        samples = np.random.default_rng(3).normal(size=num_samples).astype(np.float32) * 5000
        expected = resample(samples, rate_hz).astype(int)
        received = recordings.to_int16(recordings.resampled(samples, rate_hz))
        assert len(received) == len(expected)
        assert np.abs(received - expected).max() <= 1  # rounded the other way


@pytest.mark.parametrize("ignores_silence", [False, True])
def test_pieces_of_long_recordings_are_those_of_asr_transcribe(scripts, sentences, ignores_silence):
    import recordings

    noise = np.random.default_rng(4).normal(size=4 * len(sentences)) * 20
    for waveform in (sentences, (np.tile(sentences, 4) + noise).astype(np.int16)):
        blocks = np.split(waveform, range(480_000, len(waveform), 480_000))
        blocks = blocks if len(waveform) > 60 * 16_000 else [waveform]
        expected = list(speech_pieces(blocks, 1280, pauses=pauses_for(ignores_silence)))
        received = recordings.pieces(waveform, ignores_silence)
        assert len(received) > 4
        assert [piece.begin for piece in received] == [piece.begin for piece in expected]
        assert [len(piece.waveform) for piece in received] == [len(piece.waveform) for piece in expected]


def test_hanzi_of_200_sentences_are_those_of_asr_transcribe(scripts, exported, demo_sentences):
    import hanzi

    converter = hanzi.Converter(exported.folder / "hanzi.npz")
    odd = [[], ["ni", "hao3"], ["fiao4", "xyz1", "lve4"], ["ni5"]]
    expected = [*map(Converter.load().convert, [*demo_sentences, *odd])]
    for syllables, conversion in zip([*demo_sentences, *odd], expected, strict=True):
        assert converter.convert(syllables) == conversion.text


@pytest.fixture(scope="module")
def demo_sentences():
    """Return the syllables of 200 sentences of the demo."""
    with zipfile.ZipFile(ARCHIVE) as archive:
        records = map(json.loads, archive.read("manifest.jsonl").decode().splitlines())
        return [record["pinyin"].split() for record in records][:200]


@pytest.mark.slow
def test_stream_gives_the_result_of_the_whole_recording(bounded_run, tmp_path, clips, scripts):
    folder = export(bounded_run, tmp_path / "out").folder
    waveform = np.concatenate([read_audio(clip.audio_path) for clip in clips[4:7]])
    import recognize as script

    recognizer = script.Recognizer(folder, write_hanzi=False)
    whole = recognizer.decode(recognizer.log_probs(waveform))
    assert whole.tokens
    stream, other = script.Stream(recognizer), trained_recognizer(bounded_run).stream()
    finals, ended, segments = [], [], []
    for begin in range(0, len(waveform), 5120):
        new, transcript = stream.feed(waveform[begin : begin + 5120])
        update = other.feed(waveform[begin : begin + 5120])
        ended, segments = ended + new, [*segments, *update.segments]
        if len(waveform) - begin >= 5120:
            so_far = script.joined([*ended, transcript])
            assert tuple(so_far.tokens) == (*tokens_of(segments), *update.tokens)
            finals.append(script.joined(ended).tokens + transcript.tokens[: stream.num_final])
    received = script.joined([*ended, transcript])
    assert received[:3] == whole[:3]
    assert received.confidences == pytest.approx(whole.confidences, abs=1e-4)
    assert received.score == pytest.approx(whole.score, abs=1e-3)
    assert all(whole.tokens[: len(tokens)] == tokens for tokens in finals)
    assert tuple(whole.tokens) == tokens_of([*segments, *other.finish()])
    assert len(stream._held) < len(waveform)
    done = recognize(folder, "--stream", "-", "--tokens", "--format", "jsonl", data=waveform.tobytes())
    assert json.loads(done.stdout.splitlines()[-1])["text"] == whole.text


@pytest.mark.parametrize("step", [5120, 70_000])
def test_segments_of_a_stream_end_at_pauses_or_where_they_are_long(scripts, capsys, monkeypatch, step):
    import recognize as script

    frame = 640
    recognizer = object.__new__(script.Recognizer)
    recognizer.tokens, recognizer._converter = ["<blank>", "a", "b", "c"], None
    recognizer.about = {
        "receptive_field_samples": {"before": 0, "after": 2 * frame - 1},
        "frame_samples": frame,
        "frame_s": 0.04,
        "blank_id": 0,
        "unit": "characters",
    }
    # a model whose best token is the number that the frame's samples are
    recognizer._model = lambda samples: (
        9 * np.eye(4, dtype=np.float32)[np.rint(samples[::frame] * 32768).astype(int)]
    )
    pause, breath = [0] * 18, [0] * 17  # 0.72 and 0.68 s
    long = [1, 2, 0] * 400  # 48 s without a pause
    ids = [*pause, 1, 1, *breath, 2, *pause, 0, 3, 3, *long, *pause * 2, 1]
    waveform = np.repeat(np.array(ids, np.int16), frame)
    stream, ended = script.Stream(recognizer), []
    for begin in range(0, len(waveform), step):
        new, transcript = stream.feed(waveform[begin : begin + step])
        ended += new
        assert len(stream._settled.ids) * 0.04 <= script.LONG_S + step / 16_000
        assert len(stream._held) <= step + 3 * frame
        assert len(transcript.tokens) - stream.num_final <= 2
    whole = recognizer.decode(recognizer.log_probs(waveform))
    assert script.joined([*ended, transcript])[1:4] == whole[1:4]
    assert script.joined([*ended, transcript]).score == pytest.approx(whole.score)
    texts = [segment.text for segment in ended if segment.text]
    assert texts[0] == "ab"
    assert texts[1].startswith("caba")
    assert len(texts) == 3
    assert "".join(texts[1:]) == "c" + "ab" * 400
    assert len(texts[1]) * 0.06 > script.LONG_S - 2
    assert transcript.text == "a"

    monkeypatch.setattr(
        script, "samples_of", lambda path: np.split(waveform, range(step, len(waveform), step))
    )
    script.print_stream(recognizer, "-", as_json=False)
    shown = capsys.readouterr().out.splitlines()
    lines = iter(shown)
    assert all(text in lines for text in texts)  # in this order
    assert shown[-1] == "a"
    script.print_stream(recognizer, "-", as_json=True)
    *changes, last = map(json.loads, capsys.readouterr().out.splitlines())
    assert last["tokens"] == whole.tokens
    assert changes[-1] == {"file": "-", "text": "a", "final": [], "provisional": ["a"], "ended": False}
    assert [change["text"] for change in changes if change["ended"]] == texts
    assert not any(change["provisional"] for change in changes if change["ended"])


def test_a_long_stretch_is_cut_before_a_word_or_anywhere_after_twice_the_time(scripts):
    import recognize as script

    recognizer = object.__new__(script.Recognizer)
    recognizer.tokens, recognizer._converter = ["<blank>", "▁h", "e", "y"], None
    recognizer.about = {"frame_s": 0.04, "frame_samples": 640, "blank_id": 0, "unit": "pieces"}
    recognizer.about["receptive_field_samples"] = {"before": 0, "after": 0}
    for ids, lengths in (([1, 0, 2, 0, 3, 0] * 200, [750, 750]), ([2, 0] * 800, [1501])):
        stream, ended = script.Stream(recognizer), []
        for place in range(len(ids)):
            frame = np.log(np.full((1, 4), 0.01, np.float32) + np.eye(4, dtype=np.float32)[ids[place]])
            stream._settled = stream._settled.followed_by(script.Best.of(frame))
            ended += stream._ended()
        assert [len(segment.tokens) > 100 for segment in ended] == [True] * len(ended)
        words = [segment.text for segment in ended]
        assert not any(word.startswith(("e", "y")) for word in words) or ids[0] == 2
        assert stream._first == sum(lengths[: len(ended)]) or abs(stream._first - sum(lengths)) < 12


@pytest.mark.parametrize("tokens", [["न", "म", "स्", "ते"], ["ni3", "hao3"], ["h", "▁", "i"]])
def test_tokens_are_joined_to_the_same_text_as_by_the_run(tokens, scripts):
    import recognize as script

    recognizer = object.__new__(script.Recognizer)
    recognizer.tokens, recognizer._converter = ["<blank>", *tokens], None
    recognizer.about = {"unit": Vocabulary(tokens).unit}
    assert recognizer.text_of(tokens) == Vocabulary(tokens).join(tokens)


@pytest.mark.slow
def test_stream_of_a_model_with_chunks_gives_the_result_of_the_whole_recording(monkeypatch, clips, scripts):
    use_small_conformer(monkeypatch)
    import recognize as script

    config = Config(
        model=ModelConfig(family="conformer", chunk_s=0.32), features=FeatureConfig(normalize=False)
    )
    model = make_acoustic_model(config, Vocabulary("abcdefg"))
    recognizer = object.__new__(script.Recognizer)  # no exported folder: the model itself
    recognizer.tokens, recognizer._converter = ["<blank>", *"abcdefg"], None
    recognizer._model = lambda samples: np.array(
        model((samples * 32768)[None], np.array([len(samples)], np.int32)).values[0]
    )
    recognizer.about = {
        "receptive_field_samples": model.receptive_field()._asdict(),
        "frame_samples": model.frame_samples,
        "frame_s": model.frame_s,
        "blank_id": 0,
        "unit": "characters",
    }
    waveform = np.concatenate([read_audio(clip.audio_path) for clip in clips[4:8]])
    monkeypatch.setattr(script, "PAUSE_S", math.inf)
    monkeypatch.setattr(script, "LONG_S", math.inf)
    stream = script.Stream(recognizer)
    for begin in range(0, len(waveform), 5120):
        _, transcript = stream.feed(waveform[begin : begin + 5120])
    assert len(stream._held) < len(waveform) - model.frame_samples
    scores, settled = recognizer.log_probs(waveform).max(axis=1), stream._settled.scores
    assert len(scores) > len(settled) > 40
    np.testing.assert_allclose(settled, scores[: len(settled)], rtol=1e-3, atol=1e-3)
    assert transcript.score == pytest.approx(scores.sum(), rel=1e-3)


def test_model_of_the_whole_recording_refuses_to_stream(exported, clips):
    done = recognize(exported.folder, "--stream", clips[0].audio_path)
    assert done.returncode == 2
    assert re.search(r"error: --stream: .*normalize = false", done.stderr.decode())


def test_scripts_import_nothing_of_polyphone():
    for path in [*SCRIPTS, *SCRIPTS[0].parent.glob("*.py")]:
        assert not re.search(r"^\s*(?:from|import) (?:asr|data_pipeline|multigpu)\b", script_text(path), re.M)
