"""Call plain Keras callbacks from the training loop.

    # my_callbacks.py
    def stop_early():
        return [keras.callbacks.EarlyStopping(monitor="val_error", patience=3)]

asr train demo --set train.callbacks=my_callbacks:stop_early

Their logs hold loss and error of training, val_loss and val_error on dev, and the learning rate.
"""

from __future__ import annotations

import importlib
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import keras

from asr.base.config import TrainConfig
from asr.base.errors import UserError
from asr.base.text.wording import did_you_mean
from asr.model.keras_internals import learning_rate_given_to
from asr.runs.progress import EpochMetrics

SETTING = "train.callbacks"
ERRORS = ("error", "val_error")


def load_callbacks(spec: str) -> list[keras.callbacks.Callback]:
    """Return the callbacks that the user's function makes.

    Args:
        spec: "module:function"; the module may be in the current directory. "" for no callbacks.

    Raises:
        UserError: there is no such module or function, it fails, or it returns anything but a list of
            callbacks.
    """
    if not spec:
        return []
    make = _function(spec)
    try:
        callbacks = make()
    except Exception as error:
        raise UserError(f"{SETTING}: {spec} failed:\n{_traceback_of(error)}") from None
    advice = "return a list such as [keras.callbacks.TerminateOnNaN()]"
    if not isinstance(callbacks, list | tuple):
        raise UserError(f"{SETTING}: {spec}: expected a list of callbacks, received {callbacks!r}; {advice}")
    for callback in callbacks:
        if not isinstance(callback, keras.callbacks.Callback):
            raise UserError(f"{SETTING}: {spec}: expected Keras callbacks, received {callback!r}; {advice}")
    return list(callbacks)


def refuse_rate_setters(callbacks: Sequence[keras.callbacks.Callback], config: TrainConfig) -> None:
    """Raise a UserError where a callback would set a learning rate that a schedule controls."""
    if config.schedule == "constant" and not config.warmup_share:
        return
    setters = (keras.callbacks.ReduceLROnPlateau, keras.callbacks.LearningRateScheduler)
    for callback in callbacks:
        if isinstance(callback, setters):
            raise UserError(
                f"{SETTING}: {type(callback).__name__} sets the learning rate, which train.schedule = "
                f"{config.schedule} controls; set train.schedule=constant and train.warmup_share=0"
            )


class Callbacks:
    """Keras callbacks, called as `Model.fit` would call them.

    Their changes to weights and learning rate are part of the run and of its checkpoints; their own state
    (the epochs without progress of an `EarlyStopping`) is not: a resumed run begins with new callbacks.

    Args:
        callbacks: of the user; without any, every method returns at once.
        model: that the callbacks receive, and may save.
        optimizer: that they see as the model's; if it scales the loss, they see its inner optimiser.
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
                callback.mode = "min"  # Keras knows the direction of its own metrics only
            callback.set_params({"verbose": 0, "epochs": num_epochs, "steps": num_steps})
            self._call(callback, "set_model", model)

    @property
    def stop_training(self) -> bool:
        """Return whether a callback has asked to end training after the batch or epoch it was called for."""
        return bool(self.callbacks) and bool(self.model.stop_training)

    def train_begin(self) -> None:
        """Call `on_train_begin` before the first batch of a session."""
        self._call_all("on_train_begin")

    def epoch_begin(self, epoch: int) -> None:
        """Call `on_epoch_begin` with the epoch, counted from 0."""
        self._call_all("on_epoch_begin", epoch)

    def batch_begin(self, batch: int) -> None:
        """Call `on_train_batch_begin` with the batch, counted from 0 in every epoch."""
        self._call_all("on_train_batch_begin", batch)

    def batch_end(self, batch: int, logs: Mapping[str, float]) -> None:
        """Call `on_train_batch_end` after a batch.

        Args:
            batch: from 0 in every epoch.
            logs: the batch's loss and error.
        """
        self._call_all("on_train_batch_end", batch, logs)

    def epoch_end(self, epoch: int, metrics: EpochMetrics) -> None:
        """Call `on_epoch_end` after an epoch and its evaluation on dev.

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
        self._call_all("on_epoch_end", epoch, logs)

    def train_end(self) -> None:
        """Call `on_train_end` after the last batch of a session."""
        self._call_all("on_train_end")

    def _call_all(self, event: str, *arguments: Any) -> None:
        """Call a method of every callback; each may change the logs that the next one receives."""
        if not self.callbacks:
            return
        if arguments and isinstance(arguments[-1], Mapping):
            arguments = (*arguments[:-1], dict(arguments[-1]))
        for callback in self.callbacks:
            self._call(callback, event, *arguments)

    def _call(self, callback: keras.callbacks.Callback, event: str, *arguments: Any) -> None:
        try:
            getattr(callback, event)(*arguments)
        except UserError:
            raise
        except Exception as error:
            name = f"{SETTING}: {type(callback).__name__}"
            rate = learning_rate_given_to(self.optimizer)
            is_scheduled = isinstance(rate, keras.optimizers.schedules.LearningRateSchedule)
            if is_scheduled and "LearningRateSchedule" in str(error):
                raise UserError(
                    f"{name} sets the learning rate, which train.schedule controls; to leave it to the "
                    'callback, set train.schedule="constant" and train.warmup_share=0'
                ) from None
            raise UserError(f"{name} failed in {event}:\n{_traceback_of(error)}") from None


def _function(spec: str) -> Callable[[], Any]:
    """Return the function that "module:function" names."""
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
        # the missing module may be one that it imports
        if isinstance(error, ModuleNotFoundError) and f"{module_name}.".startswith(f"{error.name}."):
            raise UserError(
                f"{SETTING}: no module {module_name} in {here} or among the installed packages; "
                f"write {module_name.replace('.', '/')}.py there, or start from the folder that contains it"
            ) from None
        raise UserError(f"{SETTING}: importing {module_name} failed:\n{_traceback_of(error)}") from None
    function = getattr(module, function_name, None)
    if not callable(function):
        functions = [name for name, value in vars(module).items() if callable(value)]
        raise UserError(
            f"{SETTING}: {getattr(module, '__file__', module_name)} has no function {function_name}"
            f"{did_you_mean(function_name, functions)}"
        )
    return function  # type: ignore[no-any-return]


def _traceback_of(error: Exception) -> str:
    """Return the traceback of an error, without the frames of this module and of Python's import."""
    frames = traceback.extract_tb(error.__traceback__)
    users = [f for f in frames if f.filename != __file__ and "importlib" not in f.filename]
    lines = [*traceback.format_list(users), *traceback.format_exception_only(error)]
    return "".join(lines).rstrip()
