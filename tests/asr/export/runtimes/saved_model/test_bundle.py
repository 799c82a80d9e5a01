"""Test the folder of the format `saved_model`, which TensorFlow runs without Polyphone."""

import json

import numpy as np
import pytest
import soundfile
import tensorflow as tf
from helpers.random_run import trained_recognizer
from helpers.recognize import run_isolated

from asr.base.errors import UserError
from asr.export import export
from asr.export.runtimes.saved_model.runtime import SavedModelRuntime

# what a program does that has TensorFlow alone, and prints the results as JSON
PROGRAM = """
import json, sys, wave
import numpy as np
import tensorflow as tf

folder, *paths = sys.argv[1:]
signatures = tf.saved_model.load(f"{folder}/1").signatures
clips = []
for path in paths:
    with wave.open(path) as file:
        clips.append(np.frombuffer(file.readframes(file.getnframes()), np.int16))
audio = np.zeros((len(clips), max(map(len, clips)) + 800), np.int16)
audio[:] = 5000  # what is behind the end of a clip
for row, clip in zip(audio, clips):
    row[: len(clip)] = clip
num_samples = np.array([len(clip) for clip in clips], np.int32)
by_samples = signatures["serving_default"](audio=tf.constant(audio), num_samples=tf.constant(num_samples))
by_files = signatures["wav"](wav=tf.constant([open(path, "rb").read() for path in paths]))


def plain(value):
    return np.char.decode(value.astype("S"), "utf-8").tolist() if value.dtype == object else value.tolist()


results = [{name: plain(value.numpy()) for name, value in one.items()} for one in (by_samples, by_files)]
print(json.dumps(results))
"""


@pytest.fixture(scope="module")
def exported(separable_run, tmp_path_factory):
    """Return the export of a run in the format `saved_model`, compared on its four test clips."""
    return export(separable_run, tmp_path_factory.mktemp("saved_model") / "out", "saved_model")


def test_exported_model_has_the_logits_and_tokens_of_the_trained_one(exported):
    parity = exported.parity
    assert 0 <= parity.max_logit_difference < 1e-3
    assert parity.num_same_tokens == parity.num_clips == 4
    assert parity.exported == parity.trained
    about = json.loads((exported.folder / "model.json").read_text("utf-8"))
    assert about["signatures"] == ["serving_default", "wav", "logits"]
    sizes = [path.stat().st_size for path in (exported.folder / "1").rglob("*") if path.is_file()]
    assert about["parity"]["size_bytes"] == sum(sizes)


@pytest.mark.slow
def test_another_program_transcribes_by_tensorflow_alone(exported, separable_run, clips, tmp_path):
    short = tmp_path / "short.wav"
    soundfile.write(short, np.zeros(300, np.int16), 16_000)
    paths = [*(clip.audio_path for clip in clips[:2]), str(short)]
    script = tmp_path / "program.py"
    script.write_text(PROGRAM, "utf-8")
    done = run_isolated(script, exported.folder, *paths, without=["asr", "keras"])
    assert done.returncode == 0, done.stderr.decode()
    recognizer = trained_recognizer(separable_run, write_hanzi=False)
    for result in json.loads(done.stdout):
        for row, path in enumerate(paths[:2]):
            expected, num_tokens = recognizer.transcribe(path), result["num_tokens"][row]
            assert expected.tokens
            assert result["text"][row] == expected.text
            assert tuple(result["tokens"][row][:num_tokens]) == expected.tokens
            assert result["times_s"][row][:num_tokens] == pytest.approx(expected.times_s, abs=1e-3)
            assert set(result["tokens"][row][num_tokens:]) <= {""}
        assert result["text"][2] == ""
        assert result["num_tokens"][2] == 0


def test_wav_files_of_another_rate_or_none_at_all_are_refused(exported, tmp_path):
    wav = tf.saved_model.load(str(exported.folder / "1")).signatures["wav"]
    soundfile.write(tmp_path / "fast.wav", np.zeros(8000, np.int16), 44_100)
    data = (tmp_path / "fast.wav").read_bytes()
    with pytest.raises(tf.errors.InvalidArgumentError, match="expected WAV files at 16000 Hz"):
        wav(wav=tf.constant([data]))
    with pytest.raises(tf.errors.InvalidArgumentError, match="Header mismatch"):
        wav(wav=tf.constant([b"not a WAV file at all, but long enough to hold the header of one"]))


def test_folder_without_a_model_is_refused(tmp_path):
    with pytest.raises(UserError, match="1: TensorFlow cannot load it"):
        SavedModelRuntime(tmp_path)


def test_quantization_is_refused(separable_run, tmp_path):
    with pytest.raises(
        UserError, match="`quantize`: expected none for the format saved_model, received 'int8'"
    ):
        export(separable_run, tmp_path / "out", "saved_model", quantize="int8")
