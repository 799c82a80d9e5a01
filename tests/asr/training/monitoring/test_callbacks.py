import dataclasses
import sys

import keras
import numpy as np
import pytest
from helpers.tiny import TINY

from asr.base.config import Config, ModelConfig
from asr.base.errors import UserError
from asr.base.vocabulary import Vocabulary
from asr.model.acoustic_model import make_acoustic_model
from asr.runs.progress import EpochMetrics
from asr.training.monitoring.callbacks import Callbacks, load_callbacks

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
)


@pytest.fixture(scope="module")
def model():
    return make_acoustic_model(Config(model=ModelConfig(family=TINY)), Vocabulary(["a1", "b1"]))


def make_optimizer(model, learning_rate=1e-3):
    optimizer = keras.optimizers.SGD(learning_rate)
    optimizer.build(model.trainable_variables)
    return optimizer


def loop(callbacks, dev_losses, num_steps=3, batch_loss=2.0):
    """Run the trainer's loop without its steps, and return the number of epochs that ended."""
    callbacks.train_begin()
    for epoch, dev_loss in enumerate(dev_losses):
        callbacks.epoch_begin(epoch)
        for batch in range(num_steps):
            callbacks.batch_begin(batch)
            callbacks.batch_end(batch, {"loss": batch_loss, "error": 0.5})
            if callbacks.stop_training:
                break
        learning_rate = float(callbacks.model.optimizer.learning_rate)
        metrics = dataclasses.replace(
            METRICS, epoch=epoch + 1, dev_loss=dev_loss, learning_rate=learning_rate
        )
        callbacks.epoch_end(epoch, metrics)
        if callbacks.stop_training:
            break
    callbacks.train_end()
    return epoch + 1


def test_early_stopping_ends_training_when_dev_does_not_improve(model):
    early = keras.callbacks.EarlyStopping(monitor="val_loss", patience=2)
    callbacks = Callbacks([early], model, make_optimizer(model), num_epochs=6, num_steps=3)
    assert not callbacks.stop_training
    assert loop(callbacks, [3.0, 2.0, 2.5, 2.4, 2.3, 1.0]) == 4
    assert callbacks.stop_training
    again = Callbacks([early], model, make_optimizer(model), num_epochs=6, num_steps=3)
    assert not again.stop_training  # the flag of an earlier session is reset


def test_callback_in_auto_mode_minimizes_error_rates(model):
    early = keras.callbacks.EarlyStopping(monitor="val_error", patience=1)  # it never falls: two epochs
    assert loop(Callbacks([early], model, make_optimizer(model), num_epochs=9, num_steps=3), [3.0] * 9) == 2


def test_nan_loss_ends_training_with_terminate_on_nan(model):
    terminate = keras.callbacks.TerminateOnNaN()
    callbacks = Callbacks([terminate], model, make_optimizer(model), num_epochs=2, num_steps=3)
    assert loop(callbacks, [3.0, 2.0], batch_loss=float("nan")) == 1


def test_model_checkpoint_callback_saves_a_model_that_loads(model, tmp_path):
    path = tmp_path / "best.keras"
    checkpoint = keras.callbacks.ModelCheckpoint(str(path), monitor="val_error", save_best_only=True)
    optimizer = make_optimizer(model)
    callbacks = Callbacks([checkpoint], model, optimizer, num_epochs=2, num_steps=3)
    variables = [variable.path for variable in model.variables]
    loop(callbacks, [3.0, 2.0])
    assert [variable.path for variable in model.variables] == variables  # without those of the optimiser
    loaded = keras.models.load_model(path)
    for one, other in zip(model.variables, loaded.variables, strict=True):
        np.testing.assert_array_equal(np.asarray(one), np.asarray(other))


def test_logs_of_callbacks_have_the_names_of_keras(model, tmp_path):
    logger = keras.callbacks.CSVLogger(str(tmp_path / "log.csv"))
    board = keras.callbacks.TensorBoard(str(tmp_path / "board"), update_freq="batch")
    loop(Callbacks([logger, board], model, make_optimizer(model), num_epochs=2, num_steps=3), [3.0, 2.0])
    header, *lines = (tmp_path / "log.csv").read_text().splitlines()
    assert set(header.split(",")) == {"epoch", "loss", "error", "val_loss", "val_error", "learning_rate"}
    assert len(lines) == 2
    assert lines[1].startswith("1,")
    assert {p.parent.name for p in (tmp_path / "board").rglob("*tfevents*")} == {"train", "validation"}


def test_callbacks_set_the_learning_rate_of_the_inner_optimizer(model):
    inner = keras.optimizers.SGD(1.0)
    scaling = keras.optimizers.LossScaleOptimizer(inner)
    scaling.build(model.trainable_variables)
    halve = keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate / 2)
    plateau = keras.callbacks.ReduceLROnPlateau(monitor="val_loss", factor=0.1, patience=1)
    loop(Callbacks([halve, plateau], model, scaling, num_epochs=2, num_steps=1), [3.0, 4.0])
    assert model.optimizer is inner
    assert float(inner.learning_rate) == pytest.approx(1 / 4 / 10)


def test_callbacks_are_called_in_the_order_of_keras_with_their_logs(model):
    class Recorder(keras.callbacks.Callback):
        def __init__(self):
            super().__init__()
            self.events = []

        def on_train_begin(self, logs=None):
            self.events.append(("train", self.params["epochs"], self.params["steps"]))

        def on_epoch_begin(self, epoch, logs=None):
            self.events.append(("epoch", epoch))

        def on_train_batch_begin(self, batch, logs=None):
            self.events.append(("batch", batch))

        def on_train_batch_end(self, batch, logs=None):
            self.events.append(("batch end", batch, logs))

        def on_epoch_end(self, epoch, logs=None):
            self.events.append(("epoch end", epoch, logs["val_error"]))

        def on_train_end(self, logs=None):
            self.events.append(("train end",))

    recorder, seen = Recorder(), []
    spy = keras.callbacks.LambdaCallback(on_batch_end=lambda batch, logs: seen.append(batch))
    loop(
        Callbacks([recorder, spy], model, make_optimizer(model), num_epochs=1, num_steps=1),
        [3.0],
        num_steps=1,
    )
    logs = {"loss": 2.0, "error": 0.5}
    assert recorder.events == [
        ("train", 1, 1),
        ("epoch", 0),
        ("batch", 0),
        ("batch end", 0, logs),
        ("epoch end", 0, 0.6),
        ("train end",),
    ]
    assert seen == [0]


def test_callback_that_sets_a_scheduled_learning_rate_is_refused_with_a_remedy(model):
    optimizer = make_optimizer(model, keras.optimizers.schedules.CosineDecay(1e-3, 10))
    scheduler = keras.callbacks.LearningRateScheduler(lambda epoch, rate: 1e-4)
    callbacks = Callbacks([scheduler], model, optimizer, num_epochs=1, num_steps=1)
    with pytest.raises(UserError, match=r'train\.schedule="constant" and train\.warmup_share=0'):
        loop(callbacks, [3.0])


def test_failing_callback_is_reported_with_its_line(model):
    def fail(epoch, logs):
        raise TypeError("no such thing")

    callbacks = Callbacks(
        [keras.callbacks.LambdaCallback(on_epoch_end=fail)],
        model,
        make_optimizer(model),
        num_epochs=1,
        num_steps=1,
    )
    with pytest.raises(UserError, match="LambdaCallback failed in on_epoch_end") as raised:
        loop(callbacks, [3.0])
    assert 'raise TypeError("no such thing")' in str(raised.value)
    assert str(raised.value).endswith("TypeError: no such thing")


def test_model_is_unchanged_without_callbacks(model):
    optimizer = model.optimizer = make_optimizer(model)
    callbacks = Callbacks([], model, make_optimizer(model), num_epochs=1, num_steps=1)
    loop(callbacks, [3.0])
    assert not callbacks.stop_training
    assert model.optimizer is optimizer


@pytest.fixture
def user_module(tmp_path, monkeypatch):
    """Return a function that writes my_callbacks.py into the current directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))

    def write(text):
        monkeypatch.delitem(sys.modules, "my_callbacks", raising=False)
        (tmp_path / "my_callbacks.py").write_text(text)

    yield write
    sys.modules.pop("my_callbacks", None)


def test_callbacks_are_made_by_a_function_in_the_current_directory(user_module):
    user_module("import keras\ndef make():\n    return [keras.callbacks.TerminateOnNaN()]\n")
    (callback,) = load_callbacks("my_callbacks:make")
    assert isinstance(callback, keras.callbacks.TerminateOnNaN)
    assert load_callbacks("") == []


@pytest.mark.parametrize(
    ("text", "spec", "message"),
    [
        ("", "my_callbacks", "expected module:function"),
        ("", ":make", "expected module:function"),
        ("", "nowhere:make", r"no module nowhere in .*write nowhere\.py there"),
        ("", "my_callbacks.deeper:make", r"no module my_callbacks\.deeper"),
        ("def make():\n    pass\n", "my_callbacks:mak", r"has no function mak \(did you mean make"),
        ("make = 3\n", "my_callbacks:make", "has no function make"),
        ("def make():\n    return None\n", "my_callbacks:make", "expected a list of callbacks, received"),
        ("def make():\n    return [3]\n", "my_callbacks:make", "expected Keras callbacks, received 3"),
        (
            "import keras\ndef make():\n    return [keras.callbacks.TerminateOnNaN]\n",
            "my_callbacks:make",
            "expected Keras callbacks, received <class",
        ),
        ("def make(a):\n    return []\n", "my_callbacks:make", r"missing 1 required positional argument"),
    ],
)  # fmt: skip
def test_wrong_callbacks_function_is_reported(user_module, text, spec, message):
    user_module(text)
    with pytest.raises(UserError, match=message):
        load_callbacks(spec)


@pytest.mark.parametrize(
    ("text", "line", "end"),
    [
        ("import keras\nimport no_such_thing\n", "line 2", "No module named 'no_such_thing'"),
        ("x = 1\ny = x / 0\n", "line 2", "ZeroDivisionError: division by zero"),
        ("def make(:\n", "line 1", "SyntaxError: invalid syntax"),
        ("def make():\n    raise OSError('gone')\n", "line 2", "OSError: gone"),
    ],
)
def test_error_in_the_users_module_shows_its_line_without_our_frames(user_module, text, line, end):
    user_module(text)
    with pytest.raises(UserError) as raised:
        load_callbacks("my_callbacks:make")
    message = str(raised.value)
    assert "my_callbacks.py" in message
    assert line in message
    assert message.endswith(end)
    assert "keras_callbacks.py" not in message
    assert "importlib" not in message
