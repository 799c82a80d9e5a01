"""Train CTC speech recognition, evaluate it, and recognize speech with the trained models.

from asr import Recognizer, evaluate, load_config, train

trained = train(load_config("demo", overrides=["train.epochs=2"]), name="x")
print(Recognizer.load("runs/x").transcribe("question.mp3").text)

The names below are imported on first use: importing `asr` does not import TensorFlow.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from asr.base.version import __version__

if TYPE_CHECKING:
    from asr.base.config import load_config
    from asr.base.decoder_settings import DecoderSettings
    from asr.base.errors import UserError
    from asr.evaluation.run_evaluation import evaluate
    from asr.export.asrt.importing import import_asrt
    from asr.model.devices import Devices
    from asr.training.train import resume, train
    from asr.transcription.recognizer import Recognizer

__all__ = [
    "DecoderSettings",
    "Devices",
    "Recognizer",
    "UserError",
    "__version__",
    "evaluate",
    "import_asrt",
    "load_config",
    "resume",
    "train",
]

_MODULES = {
    "DecoderSettings": "asr.base.decoder_settings",
    "Devices": "asr.model.devices",
    "Recognizer": "asr.transcription.recognizer",
    "UserError": "asr.base.errors",
    "evaluate": "asr.evaluation.run_evaluation",
    "import_asrt": "asr.export.asrt.importing",
    "load_config": "asr.base.config",
    "resume": "asr.training.train",
    "train": "asr.training.train",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(importlib.import_module(_MODULES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
