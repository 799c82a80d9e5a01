"""Write the folder of the format `saved_model`, as TensorFlow Serving takes it: a folder for each version."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator
from pathlib import Path

import tensorflow as tf

from asr.export.folder import write_readme, write_tokens
from asr.export.format import TrainedModel, Written
from asr.export.saved_model.runtime import VERSION
from asr.export.saved_model.signatures import ServedModel


def write_bundle(trained: TrainedModel, folder: Path) -> Written:
    """Write the model, its tokens and a README.

    Raises:
        OSError: the folder cannot be written.
    """
    vocabulary = trained.recognizer.vocabulary
    served = ServedModel(trained.recognizer.model, vocabulary)
    model = folder / VERSION
    with _file_errors(model):
        tf.saved_model.save(served, str(model), signatures=served.signatures())
    write_tokens(folder, vocabulary)
    write_readme(folder, "saved_model.md")
    files = [str(path.relative_to(folder)) for path in sorted(model.rglob("*")) if path.is_file()]
    return Written(files, {"signatures": list(served.signatures())})


@contextlib.contextmanager
def _file_errors(path: Path) -> Iterator[None]:
    """Raise TensorFlow's errors about files as those of the operating system."""
    try:
        yield
    except tf.errors.ResourceExhaustedError as error:
        raise OSError(errno.ENOSPC, "No space left on device", str(path)) from error
    except (tf.errors.UnknownError, tf.errors.PermissionDeniedError, tf.errors.DataLossError) as error:
        raise OSError(errno.EIO, error.message, str(path)) from error
