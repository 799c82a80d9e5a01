"""Test the folders that sherpa-onnx loads, by running sherpa-onnx on real clips."""

import importlib.util
import json
import re
import shutil
import subprocess
import sys

import kaldifst
import numpy as np
import onnx
import pytest
from helpers.clips import clip_segments
from helpers.random_run import random_run, trained_recognizer

from asr.audio.recording import read_audio, write_wav
from asr.base.config import load_config
from asr.base.errors import UserError
from asr.base.vocabulary import WORD_BOUNDARY, Vocabulary
from asr.export import ParityError, export
from asr.export.format import TrainedModel
from asr.export.runtimes.sherpa import folder as sherpa_folder
from asr.export.runtimes.sherpa import waveform as sherpa_waveform
from asr.export.runtimes.sherpa.folder import write_tokens
from asr.export.runtimes.sherpa.runtime import SherpaRuntime
from asr.model.onnx.graph import Graph
from asr.runs.run import Run
from data_pipeline.manifests.manifest import write_manifest


@pytest.fixture(scope="module")
def fbank_run(separable_run, tmp_path_factory):
    """Return a copy of a run with features that sherpa-onnx computes itself, not normalised."""
    copy = tmp_path_factory.mktemp("fbank") / "run"
    shutil.copytree(separable_run, copy)
    config = copy / "config.toml"
    text = config.read_text("utf-8")
    for old, new in (
        ('"log_mel"', '"fbank"'),
        ("num_mels = 0", "num_mels = 64"),
        ("normalize = true", "normalize = false"),
    ):
        assert old in text
        text = text.replace(old, new)
    config.write_text(text, "utf-8")
    return copy


@pytest.fixture(scope="module")
def of_features(fbank_run, tmp_path_factory):
    return export(fbank_run, tmp_path_factory.mktemp("sherpa") / "out", "sherpa")


@pytest.fixture(scope="module")
def of_audio(separable_run, tmp_path_factory):
    return export(separable_run, tmp_path_factory.mktemp("sherpa") / "out", "sherpa")


def about(exported):
    return json.loads((exported.folder / "model.json").read_text("utf-8"))


def test_model_over_fbank_recognizes_the_same_in_sherpa_and_as_a_stream(of_features):
    parity = of_features.parity
    assert parity.num_clips == parity.num_same_tokens == 4
    assert parity.exported == parity.trained
    assert parity.max_logit_difference is None
    assert parity.max_time_difference_s < 1e-4
    assert abs(parity.written[0].errors - parity.written[1].errors) <= 3
    assert parity.streamed[1] == 4
    assert about(of_features)["sherpa"]["model"] == "zipformer_ctc"
    assert about(of_features)["parity"]["clips_with_same_tokens_streamed"] == parity.streamed[1]


@pytest.mark.slow
def test_model_with_features_of_the_pitch_takes_the_sound_itself(separable_config, clips, tmp_path):
    settings = ['features.kind="fbank"', "features.pitch=true", 'model.stem="2d_fast"']
    config = load_config(separable_config, overrides=settings)
    run = random_run(config, Vocabulary.of_utterances(clips), tmp_path / "run")
    exported = export(run, tmp_path / "out", "sherpa")
    assert about(exported)["sherpa"]["model"] == "omnilingual"
    assert exported.parity.num_same_tokens == exported.parity.num_clips == 4


def test_tokens_times_and_text_in_sherpa_are_those_of_the_recognizer(of_features, fbank_run, clips):
    recognizer, runtime = trained_recognizer(fbank_run), SherpaRuntime(of_features.folder)
    normalize = kaldifst.TextNormalizer(str(of_features.folder / "hanzi.fst"))
    num_tokens = 0
    for clip in clips[:4]:
        waveform = read_audio(clip.audio_path)
        (output,) = runtime.run([waveform])
        expected = clip_segments(recognizer, [waveform])[0]
        assert output.tokens == expected.tokens
        np.testing.assert_allclose(output.times_s, expected.times_s, atol=1e-4)
        assert output.text == normalize(" " + " ".join(expected.tokens))
        num_tokens += len(expected.tokens)
    assert num_tokens > 4


def test_model_over_audio_recognizes_the_same_in_sherpa(of_audio):
    assert of_audio.parity.num_same_tokens == 4
    assert of_audio.parity.max_time_difference_s < 1e-4
    assert of_audio.parity.streamed is None
    assert not (of_audio.folder / "stream.onnx").exists()
    assert about(of_audio)["sherpa"]["model"] == "omnilingual"
    assert 100 < about(of_audio)["sherpa"]["loudness"] < 10_000


def run_program(folder, text, tmp_path, wav):
    name = text.split("\n", 1)[0].removeprefix("# ")
    (tmp_path / name).write_text(text, "utf-8")
    command = [sys.executable, str(tmp_path / name), wav]
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=True, encoding="utf-8"
    ).stdout


@pytest.mark.parametrize("kind", ["of_features", "of_audio"])
def test_programs_of_the_readme_recognize_a_clip(kind, request, clips, tmp_path):
    folder = request.getfixturevalue(kind).folder
    readme = (folder / "README.md").read_text("utf-8")
    (output,) = SherpaRuntime(folder).run([read_audio(clips[0].audio_path)])
    program, *streams = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    printed = run_program(folder, program, tmp_path, clips[0].audio_path).split("\n")
    assert printed[0].strip() == output.text
    assert [line.split()[1] for line in printed[1:-1]] == list(output.tokens)
    assert len(streams) == (kind == "of_features")
    for stream in streams:
        assert run_program(folder, stream, tmp_path, clips[0].audio_path).count("\n") == 10


def write_detector(path):
    """Write a voice activity detector for which loud is speech, with Silero's inputs and outputs."""
    graph = Graph()
    audio = graph.input("input", np.float32, ("batch", "samples"))
    state = graph.input("state", np.float32, (2, "batch", 128))
    graph.input("sr", np.int64, ())
    power = graph.op("ReduceMean", audio * audio, [1])
    probability = graph.op("Cast", graph.op("Greater", power, 1e-6), to=onnx.TensorProto.FLOAT)
    graph.output("output", probability, np.float32, ("batch", 1))
    graph.output("stateN", state, np.float32, (2, "batch", 128))
    onnx.save(graph.model("loud is speech"), path)


@pytest.mark.parametrize("kind", ["of_features", "of_audio"])
def test_program_of_the_readme_cuts_a_long_recording_at_its_pauses(kind, request, clips, tmp_path):
    folder = tmp_path / "folder"
    shutil.copytree(request.getfixturevalue(kind).folder, folder)
    write_detector(folder / "silero_vad.onnx")
    pause = np.zeros(10 * 16000, np.int16)
    waveforms = [read_audio(clip.audio_path) for clip in clips[:2]]
    write_wav(tmp_path / "long.wav", np.concatenate([pause, waveforms[0], pause, waveforms[1]]))
    program, *_ = re.findall(r"```python\n(.*?)```", (folder / "README.md").read_text("utf-8"), re.DOTALL)
    lines = run_program(folder, program, tmp_path, str(tmp_path / "long.wav")).splitlines()
    times_s = [float(line.split()[0]) for line in lines if re.match(r"\d+\.\d\d ", line)]
    assert len(lines) - len(times_s) == 2  # a text for each stretch of speech
    first, second = (len(waveform) / 16000 for waveform in waveforms)
    begins = (10 - 0.2, 20 + first - 0.2)  # the program keeps 0.2 s around what is found
    ends = (10 + first + 0.2, 20 + first + second)
    assert all(any(b <= time_s <= e for b, e in zip(begins, ends, strict=True)) for time_s in times_s)
    assert times_s


def test_spaces_between_tokens_are_marked_where_there_are_any(tmp_path):
    write_tokens(tmp_path / "tokens.txt", Vocabulary(["ni3", "hao3"]))
    assert (tmp_path / "tokens.txt").read_text("utf-8") == "<blank> 0\n▁ni3 1\n▁hao3 2\n"
    write_tokens(tmp_path / "tokens.txt", Vocabulary(["▁", "a", "b"]))
    assert (tmp_path / "tokens.txt").read_text("utf-8") == "<blank> 0\n▁ 1\na 2\nb 3\n"


def test_characters_and_spaces_between_words_are_those_of_the_vocabulary(of_features, clips, tmp_path):
    waveform = read_audio(clips[0].audio_path)
    (syllables,) = SherpaRuntime(of_features.folder).run([waveform])
    folder = tmp_path / "characters"
    shutil.copytree(of_features.folder, folder)
    (folder / "hanzi.fst").unlink()
    names = [line.split()[0].lstrip("▁") for line in (folder / "tokens.txt").read_text("utf-8").splitlines()]
    letters = {name: chr(ord("一") + place) for place, name in enumerate(names[1:])}
    letters[syllables.tokens[1]] = WORD_BOUNDARY
    write_tokens(folder / "tokens.txt", Vocabulary(letters.values()))
    (output,) = SherpaRuntime(folder).run([waveform])
    assert output.tokens == tuple(letters[token] for token in syllables.tokens)
    assert output.text == "".join(output.tokens).replace(WORD_BOUNDARY, " ").strip()


def test_loudness_is_that_of_the_clips_where_there_is_no_dev_set(separable_run, clips, tmp_path):
    recognizer, run = trained_recognizer(separable_run), Run(shutil.copytree(separable_run, tmp_path / "run"))
    config = run.directory / "config.toml"
    config.write_text(
        config.read_text("utf-8").replace(f'dev = "{run.config().data.dev}"', 'dev = ""'), "utf-8"
    )
    assert not run.config().data.dev
    write_manifest(tmp_path / "one.jsonl", clips[:1])
    trained = TrainedModel(run, recognizer, tmp_path / "one.jsonl", {})
    expected = np.std(read_audio(clips[0].audio_path).astype(np.float64))
    assert sherpa_folder._loudness(trained) == pytest.approx(expected, rel=1e-3)


def test_model_that_differs_is_not_written(separable_run, tmp_path, monkeypatch):
    monkeypatch.setattr(
        sherpa_waveform, "QUIETEST", sherpa_waveform.LOUDEST
    )  # every clip gets the usual loudness
    monkeypatch.setattr(sherpa_folder, "_loudness", lambda _: 1.0)
    with pytest.raises(ParityError, match="of the tokens differ"):
        export(separable_run, tmp_path / "out", "sherpa")
    assert not list(tmp_path.iterdir())


def test_missing_sherpa_is_an_error_that_names_what_to_install(separable_run, tmp_path, monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if "sherpa" in name else found(name))
    with pytest.raises(UserError, match=r"sherpa_onnx: not installed.*polyphone\[sherpa\]"):
        export(separable_run, tmp_path / "out", "sherpa")
    assert not list(tmp_path.iterdir())
