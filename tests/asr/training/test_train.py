"""`train` and `resume` in a Python program do what `asr train` does."""

import dataclasses
import importlib
import json
import shutil

import pytest

from asr import Devices, evaluate, load_config, resume, train
from asr.base.errors import UserError
from asr.cli.main import main
from asr.runs.checkpoint import read_checkpoint
from asr.runs.checkpoint_store import trained_history
from asr.runs.progress import TIMES
from asr.runs.state import read_state
from asr.training import final_evaluation
from asr.training.monitoring.observer import TrainingObserver
from asr.training.train import _resume_hint_of_errors, run_directory
from asr.training.trainer import DivergedError
from data_pipeline.manifests.manifest import write_manifest

train_module = importlib.import_module("asr.training.train")  # whose function has its name


class Recorder(TrainingObserver):
    """Records the reports of training."""

    def __init__(self):
        self.start, self.epochs, self.audio_s, self.ended = None, [], 0.0, 0

    def on_start(self, start):
        self.start = start

    def on_step(self, audio_s, loss, edits):
        self.audio_s += audio_s

    def on_epoch(self, metrics, num_epochs):
        self.epochs.append((metrics.epoch, num_epochs))

    def on_session_end(self):
        self.ended += 1


@pytest.fixture(scope="module")
def config(clip_config, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    return load_config(clip_config, overrides=["train.epochs=2", f"train.runs_dir={folder}"])


@pytest.fixture(scope="module")
def recorder():
    return Recorder()


@pytest.fixture(scope="module")
def trained(config, recorder):
    return train(config, name="x", observer=recorder)


def metrics_of(run):
    lines = (run / "metrics.jsonl").read_text().splitlines()
    return [{k: v for k, v in json.loads(line).items() if k not in TIMES} for line in lines]


def test_train_function_gives_the_same_weights_as_the_command(trained, trained_run):
    assert metrics_of(trained.run.directory) == metrics_of(trained_run)
    ours, theirs = (
        read_checkpoint(path) for path in (trained.run.chosen_checkpoint(), trained_run_best(trained_run))
    )
    assert list(ours.arrays) == list(theirs.arrays)
    assert all((ours.arrays[name] == theirs.arrays[name]).all() for name in ours.arrays)


def trained_run_best(directory):
    from asr.runs.run import Run

    return Run(directory).chosen_checkpoint()


def test_train_function_returns_evaluation_and_report_files(trained):
    evaluated, files = trained.evaluation, trained.files
    assert len(evaluated.record.hypotheses) == 4
    assert evaluated.scores[0].total.reference_length == sum(
        len(u.tokens) for u in evaluated.record.utterances
    )
    assert files.page.exists()
    assert json.loads(files.record.read_text())["run"] == "x"


def test_observer_receives_the_progress_of_training(trained, recorder, clips):
    assert recorder.start.directory == trained.run.directory
    assert recorder.start.num_train == len(clips)
    assert recorder.epochs == [(1, 2), (2, 2)]
    assert recorder.audio_s == pytest.approx(2 * recorder.start.train_s)
    assert recorder.ended == 1


def test_state_of_a_run_names_the_command_that_resumes_it(trained):
    state = read_state(trained.run.directory)
    assert state.state == "finished"
    assert state.command.endswith(f"train {trained.run.directory} --resume")


def test_evaluate_function_gives_the_evaluation_at_the_end_of_training(trained, config):
    evaluated = evaluate(trained.run.directory, config.data.test)
    assert [s.total for s in evaluated.scores] == [s.total for s in trained.evaluation.scores]
    assert evaluated.num_left_out == 0


def test_library_errors_name_parameters_and_the_command_its_options(trained, config, clip_config, capsys):
    with pytest.raises(UserError, match=r"already contains a run; resume it \(`resume`\)"):
        train(config, name="x")
    assert (
        main(["train", str(clip_config), "--name", "x", f"--set=train.runs_dir={config.train.runs_dir}"]) == 2
    )
    error = capsys.readouterr().err
    assert "resume it (--resume)" in error
    assert "--name" in error
    with pytest.raises(UserError, match=r"`overrides=train.seed=9`: a resumed run keeps its settings"):
        resume(trained.run.directory, ["train.seed=9"])
    with pytest.raises(UserError, match=r"`name=a/b`: expected a name, not a path"):
        train(config, name="a/b")
    with pytest.raises(UserError, match=r"`devices`.*/CPU:7"):
        train(config, name="other", devices=Devices("0,7"))


def test_sampled_pieces_of_labels_without_pieces_are_refused_before_training(config, tmp_path):
    sampled = dataclasses.replace(
        config,
        augment=dataclasses.replace(config.augment, piece_sampling=0.1),
        train=dataclasses.replace(config.train, runs_dir=str(tmp_path)),
    )
    with pytest.raises(
        UserError, match=r"augment\.piece_sampling: .*syllables; set augment\.piece_sampling=0"
    ):
        train(sampled, name="other")
    assert not any(tmp_path.iterdir())


def test_metrics_that_a_killed_process_did_not_write_are_restored(trained):
    path = trained.run.directory / "metrics.jsonl"
    whole = path.read_text("utf-8")
    path.write_text(whole.splitlines(keepends=True)[0], encoding="utf-8")
    assert [metrics.epoch for metrics in trained_history(trained.run)] == [1, 2]
    assert main(["train", str(trained.run.directory), "--resume"]) == 0
    assert path.read_text("utf-8") == whole


def test_dev_set_whose_labels_do_not_fit_is_refused_before_training(config, clips, tmp_path):
    dev = tmp_path / "dev.jsonl"
    write_manifest(dev, [dataclasses.replace(clip, tokens=clip.tokens * 60) for clip in clips[:2]])
    longer = dataclasses.replace(config, data=dataclasses.replace(config.data, dev=str(dev)))
    with pytest.raises(
        UserError, match=r"dev.jsonl: each label has more tokens than its recording has frames"
    ):
        train(longer, name="longer")
    assert not run_directory(config, "longer").exists()


@pytest.mark.parametrize(
    ("module", "step"), [(train_module, "_read_data"), (final_evaluation, "train_run_language_model")]
)
def test_run_that_another_process_made_meanwhile_is_left_as_it_is(config, trained, monkeypatch, module, step):
    other, take_it = run_directory(config, f"late-{step}"), getattr(module, step)

    def take_it_slowly(*arguments):
        shutil.copytree(trained.run.directory, other)
        return take_it(*arguments)

    monkeypatch.setattr(module, step, take_it_slowly)
    with pytest.raises(UserError, match="already contains a run"):
        train(config, name=other.name)
    for path in trained.run.directory.glob("*.*"):
        assert (other / path.name).read_bytes() == path.read_bytes()


def test_run_that_has_diverged_is_not_to_be_resumed(trained):
    with pytest.raises(DivergedError) as error, _resume_hint_of_errors(trained.run, "asr train x --resume"):
        raise DivergedError("diverged")
    assert str(error.value) == "diverged"


def test_run_is_resumed_by_its_directory_alone(trained, capsys):
    before = {p.name: p.read_bytes() for p in trained.run.checkpoints()}
    assert main(["train", str(trained.run.directory), "--resume"]) == 0
    assert {p.name: p.read_bytes() for p in trained.run.checkpoints()} == before
    assert "syllable error rate" in capsys.readouterr().out
