import dataclasses
import html as html_module
import io
import logging
import shutil

import numpy as np
import pytest
import soundfile
from helpers.full_disk import largest_file
from helpers.tiny import TINY
from PIL import Image
from tensorboard.backend.event_processing.plugin_event_accumulator import EventAccumulator
from tensorboard.plugin_util import markdown_to_safe_html
from tensorboard.util.tensor_util import make_ndarray

from asr.audio.recording import SAMPLE_RATE_HZ, read_audio
from asr.base.config import AugmentConfig, Config, ModelConfig, dump_config
from asr.base.errors import UserError
from asr.base.vocabulary import Vocabulary
from asr.model.acoustic_model import make_acoustic_model
from asr.model.tensorflow_runner import TensorFlowRunner
from asr.pages.pictures import spectrogram_picture
from asr.runs.progress import EpochMetrics
from asr.training.monitoring.profiler import Profiler
from asr.training.monitoring.tensorboard import EPOCH_TAGS, TensorBoard, markdown_escaped, spread_over_lengths
from data_pipeline.batches.dataset import Dataset
from multigpu.engines import make_engine

CONFIG = Config(
    augment=AugmentConfig(frequency_masks=1, time_masks=1),  # random in training
    model=ModelConfig(family=TINY, dropout=0.2),
)
METRICS = EpochMetrics(
    epoch=1,
    loss=2.0,
    train_error=0.5,
    dev_loss=3.0,
    dev_error=0.6,
    learning_rate=1e-3,
    audio_s_per_s=100.0,
    train_s=10.0,
    best=True,
    chosen=True,
    step=7,
    gradient_norm=1.5,
    skipped=1,
    waiting_share=0.25,
    dev_s=0.5,
    corpora={"mine": 0.25, "yours": 0.95},
)
TAGS = [f"utterance {number}" for number in (1, 2)]


@pytest.fixture(scope="module")
def data(clips):
    return Dataset(clips[:5], Vocabulary.of_utterances(clips[:5]), batch_s=4.0)


@pytest.fixture(scope="module")
def runner(data):
    return TensorFlowRunner(make_acoustic_model(CONFIG, data.vocabulary))


@pytest.fixture(scope="module")
def board(runner, data, tmp_path_factory):
    """Return the event directory of a run of two epochs, whose first epoch was trained twice."""
    directory = tmp_path_factory.mktemp("board")
    for epochs in ((1,), (1, 2)):
        with TensorBoard(directory) as tensorboard:
            tensorboard.configuration(dump_config(CONFIG))
            for epoch in epochs:
                tensorboard.utterances(runner, data.vocabulary, data, num=2, epoch=epoch)
    return directory


def read(directory, tag):
    """Return (step, values) of all points, read by TensorBoard itself."""
    accumulator = EventAccumulator(str(directory), {"tensors": 0}).Reload()
    return [(point.step, make_ndarray(point.tensor_proto)) for point in accumulator.Tensors(tag)]


def points(directory, tag):
    return [(step, values.item()) for step, values in read(directory, tag)]


def pictures(directory, tag):
    """Return (step, pixels) of all pictures."""
    shown = []
    for step, (width, height, png) in read(directory, tag):
        image = Image.open(io.BytesIO(png)).convert("RGB")
        assert image.size == (int(width), int(height))
        shown.append((step, np.asarray(image)))
    return shown


def texts(directory, tag):
    return [(step, text.decode()) for step, text in points(directory, tag)]


def write_epochs(tensorboard, epochs, loss=2.0):
    for epoch in epochs:
        tensorboard.epoch(dataclasses.replace(METRICS, epoch=epoch, loss=loss))


def test_every_metric_of_an_epoch_has_a_curve(tmp_path):
    with TensorBoard(tmp_path) as tensorboard:
        write_epochs(tensorboard, (1, 2))
    for name, value in dataclasses.asdict(METRICS).items():
        if name not in ("epoch", "best", "chosen", "corpora"):
            curve = points(tmp_path / "epochs", EPOCH_TAGS[name])
            assert curve == [(1, pytest.approx(value)), (2, pytest.approx(value))]
    assert points(tmp_path / "epochs", "error/dev_mine") == [(1, 0.25), (2, 0.25)]
    assert {"loss/train", "loss/dev", "error/train", "error/dev"} <= set(EPOCH_TAGS.values())


def test_points_are_written_during_training(tmp_path):
    with TensorBoard(tmp_path) as tensorboard:
        tensorboard.step(10, 1.0, 1.0, 1.0)
        tensorboard.epoch(METRICS)
        assert points(tmp_path / "epochs", "loss/dev") == [(1, 3.0)]
        assert points(tmp_path / "steps", "batch/loss") == [(10, 1.0)]


def test_batches_and_epochs_trained_again_appear_once_in_tensorboard(tmp_path):
    # killed after batch 57 and epoch 3; the last checkpoint was of batch 34, in epoch 2
    for session, steps, epochs in ((1.0, range(1, 58), (1, 2, 3)), (2.0, range(35, 71), (2, 3, 4))):
        with TensorBoard(tmp_path) as tensorboard:
            for step in steps:
                tensorboard.step(step, loss=session, gradient_norm=session, learning_rate=session)
            write_epochs(tensorboard, epochs, loss=session)
    assert points(tmp_path / "epochs", "loss/train") == [(1, 1.0), (2, 2.0), (3, 2.0), (4, 2.0)]
    curve = [*((step, 1.0) for step in (10, 20, 30)), *((step, 2.0) for step in (40, 50, 60, 70))]
    for name in ("loss", "gradient_norm", "learning_rate"):
        assert points(tmp_path / "steps", f"batch/{name}") == curve


def test_points_beyond_a_resume_are_dropped_before_new_ones_reach_them(tmp_path):
    with TensorBoard(tmp_path) as tensorboard:
        for step in range(1, 101):
            tensorboard.step(step, 1.0, 1.0, 1.0)
    with TensorBoard(tmp_path) as tensorboard:
        tensorboard.step(42, 2.0, 2.0, 2.0)
    assert points(tmp_path / "steps", "batch/loss") == [(step, 1.0) for step in (10, 20, 30, 40)]


def test_sound_and_spectrogram_are_written_once_per_run(board, data):
    for tag, utterance in zip(TAGS, spread_over_lengths(data.utterances, 2), strict=True):
        waveform = read_audio(utterance.audio_path)
        ((_, (wav,)),) = read(board / "constants", f"{tag}/sound")
        samples, rate_hz = soundfile.read(io.BytesIO(wav), dtype="int16")
        assert rate_hz == SAMPLE_RATE_HZ
        np.testing.assert_array_equal(samples, waveform)
        ((_, pixels),) = pictures(board / "constants", f"{tag}/spectrogram")
        np.testing.assert_array_equal(pixels, spectrogram_picture(waveform))


def test_every_epoch_has_an_alignment_and_a_text(board, data):
    for tag, utterance in zip(TAGS, spread_over_lengths(data.utterances, 2), strict=True):
        assert [step for step, _ in pictures(board / "epochs", f"{tag}/alignment")] == [1, 2]
        (_, first), (_, second) = texts(board / "epochs", f"{tag}/reference and hypothesis")
        assert first == second  # the model did not change
        assert utterance.text in first
        assert all(token in first for token in utterance.tokens)


def test_tensorboard_shows_the_configuration_as_written(board):
    ((_, text),) = texts(board / "constants", "configuration")
    assert "\n".join(line.removeprefix("    ") for line in text.split("\n")) == dump_config(CONFIG).rstrip()


def test_showing_utterances_does_not_change_model_and_random_numbers(data, tmp_path):
    runner = TensorFlowRunner(make_acoustic_model(CONFIG, data.vocabulary))
    model = runner.model
    before = [np.asarray(variable).copy() for variable in model.variables]
    assert any("seed" in variable.path for variable in model.variables)
    with TensorBoard(tmp_path) as tensorboard:
        for epoch in (1, 2):
            tensorboard.utterances(runner, data.vocabulary, data, num=3, epoch=epoch)
        assert tensorboard._shown._probabilities.experimental_get_tracing_count() == 1
    for one, variable in zip(before, model.variables, strict=True):
        np.testing.assert_array_equal(one, np.asarray(variable))


def test_tensorboard_shows_the_same_with_several_devices_as_with_one(data, runner, tmp_path):
    with make_engine("mirrored", ["/CPU:0", "/CPU:1"]).scope():
        mirrored = make_acoustic_model(CONFIG, data.vocabulary)
    for target, source in zip(mirrored.variables, runner.model.variables, strict=True):
        target.assign(np.asarray(source))
    shown_by = []
    for name, shown in (("one", runner), ("two", TensorFlowRunner(mirrored))):
        with TensorBoard(tmp_path / name) as tensorboard:
            tensorboard.utterances(shown, data.vocabulary, data, num=1, epoch=1)
        ((_, picture),) = pictures(tmp_path / name / "epochs", "utterance 1/alignment")
        shown_by.append(picture)
    np.testing.assert_array_equal(*shown_by)


def test_tensorboard_shows_no_utterances_if_zero_are_requested(data, runner, tmp_path):
    with TensorBoard(tmp_path) as tensorboard:
        tensorboard.utterances(runner, data.vocabulary, data, num=0, epoch=1)
    assert not list(tmp_path.rglob("*tfevents*"))


def test_shown_utterances_are_spread_over_the_lengths_in_any_order(clips):
    shown = spread_over_lengths(clips, 3)
    assert shown == spread_over_lengths(clips[::-1], 3)
    by_length = sorted(clips, key=lambda clip: clip.duration_s)
    thirds = [by_length[begin : begin + 4] for begin in (0, 4, 8)]
    assert all(clip in third for clip, third in zip(shown, thirds, strict=True))
    assert spread_over_lengths(clips, 100) == sorted(clips, key=lambda clip: (clip.duration_s, clip.id))
    assert spread_over_lengths([], 3) == []


def test_special_characters_of_markdown_are_escaped():
    for token in ("<unk>", "a|b", "*", "_x_", "`", "[1](x)", "l'été", "你", "#1", "&amp;"):
        html = markdown_to_safe_html(f"| said |\n| --- |\n| {markdown_escaped(token)} |")
        cell = html.partition("<td>")[2].partition("</td>")[0]
        assert html_module.unescape(cell) == token
        assert "<" not in cell


def test_full_disk_is_reported_and_written_points_are_kept(tmp_path):
    with (
        largest_file(20_000),
        pytest.raises(UserError, match=r"epochs/.*: cannot write this TensorBoard file .*free space there"),
        TensorBoard(tmp_path) as tensorboard,
    ):
        write_epochs(tensorboard, range(1, 1000))
    curve = points(tmp_path / "epochs", "loss/dev")
    assert curve == [(step, 3.0) for step in range(1, len(curve) + 1)]
    assert len(curve) > 20
    with TensorBoard(tmp_path) as tensorboard:  # there is space again for the next session
        write_epochs(tensorboard, [len(curve)])
    assert points(tmp_path / "epochs", "loss/dev") == curve


def test_recordings_that_do_not_fit_on_the_disk_are_written_by_the_next_session(data, runner, tmp_path):
    show = {"vocabulary": data.vocabulary, "data": data, "num": 1, "epoch": 1}
    with (
        largest_file(5000),
        pytest.raises(UserError, match=r"constants/.*cannot write this TensorBoard file"),
    ):
        TensorBoard(tmp_path).utterances(runner, **show)
    assert not list((tmp_path / "constants").iterdir())
    with TensorBoard(tmp_path) as tensorboard:
        tensorboard.utterances(runner, **show)
    assert len(read(tmp_path / "constants", "utterance 1/sound")) == 1


def test_removed_or_unwritable_event_directory_is_reported(tmp_path):
    with TensorBoard(tmp_path / "run") as tensorboard:
        tensorboard.epoch(METRICS)
        shutil.rmtree(tmp_path / "run")
        with pytest.raises(UserError, match=r"run/epochs/.*No such file or directory"):
            tensorboard.epoch(METRICS)
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="file/epochs: cannot write this TensorBoard file"):
        TensorBoard(tmp_path / "file").epoch(METRICS)


def test_profiler_profiles_the_given_steps(runner, tmp_path, caplog):
    caplog.set_level(logging.INFO)
    profiler = Profiler(tmp_path, first_step=3, num_steps=2)
    for num_done in range(1, 7):
        runner.model(np.zeros((1, 16000), np.int16), np.array([16000], np.int32))
        profiler.step()
        assert len(list(tmp_path.rglob("*.xplane.pb"))) == (num_done >= 4)
    profiler.close()
    [line] = caplog.messages
    assert f"profile of steps 3 to 4 written to {tmp_path}" in line
    assert "pip install tensorboard-plugin-profile" in line


def test_session_that_ends_early_has_a_shorter_profile_or_a_warning(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    for name, num_steps in (("some", 3), ("none", 1)):
        profiler = Profiler(tmp_path / name, first_step=3, num_steps=20)
        for _ in range(num_steps):
            profiler.step()
        profiler.close()
    assert [path.name for path in tmp_path.iterdir()] == ["some"]
    some, none = caplog.messages
    assert "steps 3 to 3" in some
    assert none == "no profile: it starts at step 3, but the session had only 1"


def test_profile_that_cannot_be_written_is_an_error(tmp_path):
    (tmp_path / "file").touch()
    profiler = Profiler(tmp_path / "file" / "x", first_step=2, num_steps=1)
    profiler.step()
    with pytest.raises(UserError, match=r"file/x: profiling failed .*train without `profile`"):
        profiler.step()
