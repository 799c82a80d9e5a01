import json
import re
import shutil

import numpy as np
import pytest
from helpers.full_disk import largest_file
from helpers.random_run import trained_recognizer
from helpers.tiny import TINY

from asr.base.config import Config, DataConfig, ModelConfig
from asr.base.errors import UserError
from asr.base.vocabulary import Vocabulary
from asr.cli.main import main
from asr.model.acoustic_model import make_acoustic_model
from asr.runs.average import average_best, write_average
from asr.runs.checkpoint import read_checkpoint, write_checkpoint, write_weights
from asr.runs.origin import read_origin
from asr.runs.progress import EpochMetrics, Progress
from asr.runs.run import Run
from asr.transcription.recognizer import Recognizer
from data_pipeline.manifests.manifest import write_manifest

DEV_ERRORS = (0.9, 0.3, 0.5, 0.2, 0.4)


def history(dev_errors=DEV_ERRORS):
    return tuple(
        EpochMetrics(epoch, 1.0, 0.5, 1.0, rate, 1e-3, 100.0, 60.0 * epoch, best=True, chosen=True)
        for epoch, rate in enumerate(dev_errors, 1)
    )


def weights_of(epoch):
    random = np.random.default_rng(epoch)
    return {
        "net/kernel": random.normal(size=(3, 4)).astype(np.float32),
        "net/norm/moving_variance": random.uniform(1, 2, 4).astype(np.float32),
        "net/scale": np.float32(random.normal()),
        "net/count": np.array([epoch, 2**40 + 1]),
    }


@pytest.fixture
def run(tmp_path):
    """Make a run of five epochs with a few variables; all checkpoints but the third are kept."""
    run = Run.create(tmp_path / "demo", Config(), Vocabulary(("a1", "b1")))
    run.write_metrics(history())
    for epoch in (1, 2, 4, 5):
        write_weights(run.epoch_checkpoint(epoch), weights_of(epoch), Progress(history()[:epoch]))
    return run


def mean(name, epochs):
    values = [weights_of(epoch)[name].astype(np.float64) for epoch in epochs]
    return np.mean(values, axis=0).astype(np.float32)


def test_the_epochs_with_the_lowest_dev_error_are_averaged(run, caplog):
    for num_best, epochs in ((2, (4, 2)), (3, (4, 2, 5)), (4, (4, 2, 5, 1))):
        result = average_best(run, num_best)
        assert (result.epochs, caplog.text) == (epochs, "")
        assert list(result.weights) == list(weights_of(1))
        for name in ("net/kernel", "net/norm/moving_variance", "net/scale"):
            assert result.weights[name].dtype == np.float32
            np.testing.assert_allclose(result.weights[name], mean(name, epochs), rtol=1e-7)
        assert result.weights["net/count"].tolist() == [max(epochs), 2**40 + 1]
        assert result.progress.epochs_done == max(epochs)


def test_averages_keep_small_weights_precise(run):
    values = {4: 2.0**24, 2: 1.0, 5: 1.0}
    for epoch, value in values.items():
        weights = {"w": np.full(3, value, np.float32)}
        write_weights(run.epoch_checkpoint(epoch), weights, Progress(history()[:epoch]))
    result = average_best(run, 3)
    assert result.weights["w"].tolist() == [np.float32((2.0**24 + 2.0) / 3)] * 3


def test_the_moving_average_is_averaged_where_a_run_has_one(run):
    for epoch in (2, 4):
        arrays = {"model/w": np.ones(2, np.float32), "ema/w": np.full(2, epoch, np.float32)}
        write_checkpoint(run.epoch_checkpoint(epoch), arrays, Progress(history()[:epoch]))
    assert average_best(run, 2).weights["w"].tolist() == [3.0, 3.0]


def test_fewer_epochs_than_requested_are_logged_and_fewer_than_two_refused(run, caplog):
    result = average_best(run, 9)
    assert len(result.epochs) == 4
    assert "only 4 epochs have checkpoints" in caplog.text
    for epoch in (1, 2, 5):
        run.epoch_checkpoint(epoch).unlink()
    with pytest.raises(UserError, match=r"demo: expected the checkpoints of .*2 epochs .* received 1"):
        average_best(run, 2)


def test_a_damaged_checkpoint_is_logged_and_the_next_best_averaged(run, caplog):
    path = run.epoch_checkpoint(2)
    path.write_bytes(path.read_bytes()[:300])
    result = average_best(run, 2)
    assert result.epochs == (4, 5)
    assert f"skipped a checkpoint: {path}: damaged checkpoint" in caplog.text


def test_a_checkpoint_of_another_model_is_refused(run):
    for other in ({"net/kernel": np.zeros((3, 4), np.float32)}, {**weights_of(2), "net/scale": np.zeros(2)}):
        write_weights(run.epoch_checkpoint(2), other, Progress(history()[:2]))
        with pytest.raises(UserError, match=r"epoch-0002\.npz: holds other variables than .*epoch-0004\.npz"):
            average_best(run, 2)


def test_an_average_is_a_run_directory_of_its_own(run, tmp_path):
    result = average_best(run, 2)
    write_average(run, result, tmp_path / "below" / "mean")
    made = Run.open(tmp_path / "below" / "mean")
    assert made.config() == run.config()
    assert made.vocabulary().tokens == run.vocabulary().tokens
    stored = read_checkpoint(made.chosen_checkpoint()).decoding_weights
    assert list(stored) == list(result.weights)
    for name, value in stored.items():
        np.testing.assert_array_equal(value, result.weights[name])
    assert read_origin(made.directory).epochs == (4, 2)
    assert read_origin(run.directory) is None
    assert [path.name for path in (tmp_path / "below").iterdir()] == ["mean"]


def test_an_average_does_not_overwrite_an_existing_file(run, tmp_path, capsys):
    (tmp_path / "file").write_text("mine")
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for name in ("file", "empty", "link", "demo"):
        assert main(["average", str(run.directory), "--out", str(tmp_path / name)]) == 2
        assert f"{name}: already exists" in capsys.readouterr().err
    assert (tmp_path / "file").read_text() == "mine"
    assert list((tmp_path / "empty").iterdir()) == []


def test_a_full_disk_leaves_no_partial_average(run, tmp_path):
    result = average_best(run, 2)
    with largest_file(1000), pytest.raises(UserError, match="cannot write"):
        write_average(run, result, tmp_path / "mean")
    assert [path.name for path in tmp_path.iterdir()] == ["demo"]


def test_averaging_one_epoch_is_refused(run, capsys):
    assert main(["average", str(run.directory), "--best", "1"]) == 2
    assert "--best 1: expected 2 or more" in capsys.readouterr().err


@pytest.fixture(scope="module")
def spoken(clips, tmp_path_factory):
    """Make a run of a real model, with three epochs of random weights and a dev set of recordings."""
    folder = tmp_path_factory.mktemp("spoken")
    write_manifest(folder / "dev.jsonl", clips[:3])
    config = Config(data=DataConfig(dev=str(folder / "dev.jsonl")), model=ModelConfig(family=TINY))
    run = Run.create(folder / "demo", config, Vocabulary.of_utterances(clips))
    model = make_acoustic_model(config, run.vocabulary())
    run.write_metrics(history((0.5, 0.4, 0.3)))
    for epoch in (1, 2, 3):
        random = np.random.default_rng(epoch)
        weights = {
            variable.path: np.asarray(variable) + random.uniform(0, 0.1, variable.shape).astype(np.float32)
            for variable in model.weights
        }
        # the third recognizes one correct syllable in every clip; averaged with the others it recognizes none
        heard = run.vocabulary().encode(clips[0].tokens[:1])[0] if epoch == 3 else 0
        weights["acoustic_model/network/output/kernel"][:] = 0.0
        weights["acoustic_model/network/output/bias"][heard] = 10.0 if epoch == 3 else 30.0
        write_weights(run.epoch_checkpoint(epoch), weights, Progress(history((0.5, 0.4, 0.3))[:epoch]))
    return run


def test_asr_average_makes_a_model_that_decodes_and_reports_both_error_rates(spoken, clips, capsys):
    assert main(["average", str(spoken.directory), "--best", "2"]) == 0
    said = capsys.readouterr()
    printed, made = said.out, spoken.directory.with_name("demo-average2")
    assert f"{made}: the average of epochs 2, 3\n" in said.err
    rates = re.search(r"alone, 3 +([\d.]+)%.*average of 2 epochs +([\d.]+)%", printed, re.DOTALL)
    single, together = rates.groups()
    assert float(single) < 100 == float(together)
    assert "average is worse" in printed
    origin = read_origin(made)
    assert (origin.run, origin.epochs) == (str(spoken.directory), (3, 2))
    assert f"{origin.dev_error:.2%}" == f"{together}%"

    recognizer = trained_recognizer(made)
    for variable in recognizer.model.weights:
        parts = [read_checkpoint(spoken.epoch_checkpoint(e)).decoding_weights[variable.path] for e in (2, 3)]
        expected = ((parts[0].astype(np.float64) + parts[1]) / 2).astype(np.float32)
        np.testing.assert_array_equal(np.asarray(variable), expected)
    assert recognizer.transcribe(clips[0].audio_path).duration_s == clips[0].duration_s

    assert main(["evaluate", str(made), spoken.config().data.dev]) == 0
    assert f" {together}% " in capsys.readouterr().out


def test_asr_average_without_the_dev_set_averages_and_reports_that_it_is_missing(spoken, tmp_path, capsys):
    shutil.copytree(spoken.directory, tmp_path / "demo")
    config = tmp_path / "demo" / "config.toml"
    gone = str(tmp_path / "gone.jsonl")
    config.write_text(config.read_text().replace(json.dumps(spoken.config().data.dev), json.dumps(gone)))
    assert main(["average", str(tmp_path / "demo")]) == 2
    errors = capsys.readouterr().err
    mean = tmp_path / "demo-average3"  # after the epochs that there are, of five that were asked for
    assert f"{mean}: the average of epochs 1, 2, 3\n" in errors
    assert "only 3 epochs have checkpoints" in errors
    assert "gone.jsonl" in errors
    assert read_origin(mean).dev_error is None
    Recognizer.load(mean)
