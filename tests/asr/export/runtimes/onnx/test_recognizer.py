"""Test that an exported folder is recognized with as the run that it is from."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from helpers.clips import clip_segments
from helpers.random_run import random_run, trained_recognizer
from helpers.transcripts import streamed, tokens_of

from asr.audio.recording import read_audio, write_wav
from asr.base.config import load_config
from asr.base.decoder_settings import DecoderSettings, save_settings
from asr.base.errors import UserError
from asr.base.vocabulary import Vocabulary
from asr.cli.main import make_parser
from asr.cli.options.decoder import decoder_choice
from asr.export import export
from asr.export.runtimes.onnx.recognizer import ExportedModel
from asr.runs.run import Run
from asr.transcription.decoder_choice import DecoderChoice

SPEECH = "features.normalize_over=speech"
SEARCHES = {"greedy": DecoderSettings(), "beam": DecoderSettings(beam=4, n_best=2)}


@pytest.fixture(scope="module")
def files(clips, tmp_path_factory):
    """Return two sentences, and a recording that is cut at its pauses."""
    pause = np.zeros(24_000, np.int16)
    long = np.concatenate([part for clip in clips[:8] for part in (read_audio(clip.audio_path), pause)])
    path = tmp_path_factory.mktemp("long") / "long.wav"
    write_wav(path, long)
    return [Path(clips[0].audio_path), Path(clips[5].audio_path), path]


@pytest.mark.parametrize("search", SEARCHES)
def test_exported_folder_gives_the_transcripts_of_its_run(exported, separable_run, files, search):
    model = ExportedModel.open(exported.folder)
    recognizer = model.recognizer(DecoderChoice(SEARCHES[search]))
    trained = trained_recognizer(separable_run, SEARCHES[search])
    for ours, theirs in zip(recognizer.transcribe_files(files), trained.transcribe_files(files), strict=True):
        assert ours.text
        assert (ours.text, ours.tokens, ours.times_s) == (theirs.text, theirs.tokens, theirs.times_s)
        assert ours.confidences == pytest.approx(theirs.confidences, abs=1e-3)
        assert [other.tokens for other in ours.alternatives] == [o.tokens for o in theirs.alternatives]


@pytest.mark.slow
def test_folder_of_a_model_that_ignores_silence_cuts_as_its_run_does(
    separable_config, clips, files, tmp_path
):
    vocabulary = Vocabulary.of_utterances(clips)
    run = random_run(load_config(separable_config, [SPEECH]), vocabulary, tmp_path / "run")
    folder = export(run, tmp_path / "out").folder
    model, trained = ExportedModel.open(folder), trained_recognizer(run)
    assert trained.model.ignores_silence
    recognizer = model.recognizer(DecoderChoice(DecoderSettings()))
    pause = np.zeros(32_000, np.int16)
    two = np.concatenate([read_audio(files[0]), pause, read_audio(files[1])])
    write_wav(tmp_path / "two.wav", two)
    expected = clip_segments(trained, [two])[0].tokens  # it is not cut
    for one in (recognizer, trained):
        assert one.transcribe(tmp_path / "two.wav").tokens == expected
        assert len(one.transcribe(files[2]).segments) > 2
    assert recognizer.transcribe(files[2]).tokens == trained.transcribe(files[2]).tokens
    script = subprocess.run(
        [sys.executable, "recognize.py", str(tmp_path / "two.wav"), str(files[2]), "--tokens"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    written = [line.split("\t")[-1] for line in script.stdout.splitlines()]
    assert written == [" ".join(trained.transcribe(path).tokens) for path in (tmp_path / "two.wav", files[2])]


def test_stream_of_an_exported_folder_equals_the_whole_recording(bounded_run, tmp_path, clips):
    model = ExportedModel.open(export(bounded_run, tmp_path / "out", clips=1).folder)
    recognizer = model.recognizer(DecoderChoice(model.decoder_settings()))
    assert recognizer.runner.model.receptive_field() is not None
    waveform = read_audio(clips[3].audio_path)
    segments, _ = streamed(recognizer.stream(), waveform, 7000)
    assert tokens_of(segments) == clip_segments(recognizer, [waveform])[0].tokens


@pytest.mark.parametrize(
    ("name", "contents", "reason"),
    [
        ("model.json", b"{", "expected JSON"),
        ("model.json", json.dumps({"format": "litert"}).encode(), "exported as onnx, received litert"),
        ("tokens.txt", b"<blank> 0\n", "expected the tokens"),
        ("model.onnx", b"no model", "cannot read it"),
    ],
)
def test_damaged_folder_is_named(exported, tmp_path, name, contents, reason):
    folder = tmp_path / "copy"
    shutil.copytree(exported.folder, folder)
    (folder / name).write_bytes(contents)
    with pytest.raises(UserError, match=reason) as caught:
        ExportedModel.open(folder).recognizer(DecoderChoice(DecoderSettings(), write_hanzi=False))
    assert str(folder) in str(caught.value)


@pytest.mark.parametrize(("key", "value"), [("frame_s", None), ("frame_s", "long"), ("frame_samples", {})])
def test_description_without_a_figure_is_named(exported, tmp_path, key, value):
    folder = tmp_path / "copy"
    shutil.copytree(exported.folder, folder)
    about = json.loads((folder / "model.json").read_text(encoding="utf-8")) | {key: value}
    if value is None:
        del about[key]
    (folder / "model.json").write_text(json.dumps(about), encoding="utf-8")
    with pytest.raises(UserError, match=re.escape(str(folder / "model.json"))):
        ExportedModel.open(folder).recognizer(DecoderChoice(DecoderSettings(), write_hanzi=False))


def test_folder_decodes_with_the_settings_that_were_tuned_for_its_run(bounded_run, tmp_path):
    run = Run(tmp_path / "run")
    shutil.copytree(bounded_run, run.directory)
    save_settings(run.decoder_path, DecoderSettings(beam=5, token_bonus=0.7, language_model="/tmp/lm"))
    model = ExportedModel.open(export(run.directory, tmp_path / "out", clips=1).folder)
    assert model.decoder_settings() == DecoderSettings()  # its language model is elsewhere
    for given in ([], ["--beam", "3"], ["--decoder", "token_bonus=0"]):
        arguments = make_parser().parse_args(["serve", "x", "--lm", "lm", *given])
        assert decoder_choice(arguments, model).settings == decoder_choice(arguments, run).settings
