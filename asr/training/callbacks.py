"""Plain Keras callbacks in our own loop.

    # my_callbacks.py
    def stop_early():
        return [keras.callbacks.EarlyStopping(monitor="val_error", patience=3)]

asr train demo --set train.callbacks=my_callbacks:stop_early

They are told of loss and error, in training and as val_loss and val_error on dev, and of the learning rate.
"""

from __future__ import annotations

import importlib
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import keras

from asr.base.config import TrainConfig, nearest
from asr.base.types import UserError
from asr.model.keras_internals import learning_rate_given_to
from asr.runs.progress import EpochMetrics

SETTING = "train.callbacks"
ERRORS = ("error", "val_error")


def load_callbacks(spec: str) -> list[keras.callbacks.Callback]:
    """Call the user's function.

    Args:
        spec: "module:function"; the module may lie in the current directory. "" for no callbacks.

    Raises:
        UserError: there is no such module or function, it fails, or it returns something else than a list
            of callbacks.
    """
    if not spec:
        return []
    make = _function(spec)
    try:
        callbacks = make()
    except Exception as error:
        raise UserError(f"{SETTING}: {spec} failed:\n{_told(error)}") from None
    advice = "return a list such as [keras.callbacks.TerminateOnNaN()]"
    if not isinstance(callbacks, list | tuple):
        raise UserError(f"{SETTING}: {spec}: expected a list of callbacks, received {callbacks!r}; {advice}")
    for callback in callbacks:
        if not isinstance(callback, keras.callbacks.Callback):
            raise UserError(f"{SETTING}: {spec}: expected Keras callbacks, received {callback!r}; {advice}")
    return list(callbacks)


def refuse_ruled(callbacks: Sequence[keras.callbacks.Callback], config: TrainConfig) -> None:
    """Raise a UserError where one would set a learning rate that a schedule rules."""
    if config.schedule == "constant" and not config.warmup_share:
        return
    setters = (keras.callbacks.ReduceLROnPlateau, keras.callbacks.LearningRateScheduler)
    for callback in callbacks:
        if isinstance(callback, setters):
            raise UserError(
                f"{SETTING}: {type(callback).__name__} sets the learning rate, which train.schedule = "
                f"{config.schedule} rules; set train.schedule=constant and train.warmup_share=0"
            )


class Callbacks:
    """Tells Keras callbacks of our loop what `Model.fit` would tell them.

    What they do to weights and learning rate is part of the run, and of its checkpoints; what they remember
    themselves (the epochs without progress of an `EarlyStopping`) is not: a resumed run begins with new ones.

    Args:
        callbacks: of the user; without any, every method returns at once.
        model: that they see, as the one they may save.
        optimizer: that they see as the model's; of one that scales the loss, the one within.
        num_epochs: of the run.
        num_steps: of an epoch.
    """

    def __init__(
        self,
        callbacks: Sequence[keras.callbacks.Callback],
        model: keras.Model,
        optimizer: keras.optimizers.Optimizer,
        num_epochs: int,
        num_steps: int,
    ) -> None:
        self.callbacks, self.model = list(callbacks), model
        if not callbacks:
            return
        if isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
            optimizer = optimizer.inner_optimizer
        self.optimizer = optimizer
        model.optimizer, model.stop_training = optimizer, False
        for callback in self.callbacks:
            if getattr(callback, "mode", "") == "auto" and getattr(callback, "monitor", "") in ERRORS:
                callback.mode = "min"  # of metrics that are not its own, Keras knows no direction
            callback.set_params({"verbose": 0, "epochs": num_epochs, "steps": num_steps})
            self._call(callback, "set_model", model)

    @property
    def stop_training(self) -> bool:
        """Whether one of them wants training to end, after the batch or the epoch that it was told of."""
        return bool(self.callbacks) and bool(self.model.stop_training)

    def train_begin(self) -> None:
        """Before the first batch of a session."""
        self._tell("on_train_begin")

    def epoch_begin(self, epoch: int) -> None:
        """Before an epoch, counted from 0."""
        self._tell("on_epoch_begin", epoch)

    def batch_begin(self, batch: int) -> None:
        """Before a batch, counted from 0 in every epoch."""
        self._tell("on_train_batch_begin", batch)

    def batch_end(self, batch: int, logs: Mapping[str, float]) -> None:
        """After a batch.

        Args:
            batch: from 0 in every epoch.
            logs: its numbers: loss, error.
        """
        self._tell("on_train_batch_end", batch, logs)

    def epoch_end(self, epoch: int, metrics: EpochMetrics) -> None:
        """After an epoch and its evaluation on dev.

        Args:
            epoch: from 0.
            metrics: of the epoch.
        """
        logs = {
            "loss": metrics.loss,
            "error": metrics.train_error,
            "val_loss": metrics.dev_loss,
            "val_error": metrics.dev_error,
            "learning_rate": metrics.learning_rate,
        }
        self._tell("on_epoch_end", epoch, logs)

    def train_end(self) -> None:
        """After the last batch of a session."""
        self._tell("on_train_end")

    def _tell(self, event: str, *about: Any) -> None:
        """Call a method of every callback; each may change the logs that the next one gets."""
        if not self.callbacks:
            return
        if about and isinstance(about[-1], Mapping):
            about = (*about[:-1], dict(about[-1]))
        for callback in self.callbacks:
            self._call(callback, event, *about)

    def _call(self, callback: keras.callbacks.Callback, event: str, *about: Any) -> None:
        try:
            getattr(callback, event)(*about)
        except UserError:
            raise
        except Exception as error:
            name = f"{SETTING}: {type(callback).__name__}"
            if self._is_scheduled() and "LearningRateSchedule" in str(error):
                raise UserError(
                    f"{name} sets the learning rate, which train.schedule rules; to leave it to the "
                    'callback, set train.schedule="constant" and train.warmup_share=0'
                ) from None
            raise UserError(f"{name} failed in {event}:\n{_told(error)}") from None

    def _is_scheduled(self) -> bool:
        rate = learning_rate_given_to(self.optimizer)
        return isinstance(rate, keras.optimizers.schedules.LearningRateSchedule)


def _function(spec: str) -> Callable[[], Any]:
    """The function that "module:function" names."""
    module_name, colon, function_name = spec.partition(":")
    if not (module_name and colon and function_name):
        raise UserError(f"{SETTING}: expected module:function, such as my_callbacks:make, received {spec!r}")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    importlib.invalidate_caches()
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        # a module that it imports may be what is missing
        if isinstance(error, ModuleNotFoundError) and f"{module_name}.".startswith(f"{error.name}."):
            raise UserError(
                f"{SETTING}: no module {module_name} in {here} nor among what is installed; "
                f"write {module_name.replace('.', '/')}.py there, or start from the folder that holds it"
            ) from None
        raise UserError(f"{SETTING}: importing {module_name} failed:\n{_told(error)}") from None
    function = getattr(module, function_name, None)
    if not callable(function):
        there = [name for name, value in vars(module).items() if callable(value)]
        raise UserError(
            f"{SETTING}: {getattr(module, '__file__', module_name)} has no function {function_name}"
            f"{nearest(function_name, there)}"
        )
    return function  # type: ignore[no-any-return]


def _told(error: Exception) -> str:
    """An error and where it came up, without the lines that lead to it here and in Python's import."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if f.filename != __file__ and "importlib" not in f.filename]
    lines = [*traceback.format_list(own), *traceback.format_exception_only(error)]
    return "".join(lines).rstrip()
