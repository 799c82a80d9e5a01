"""Convert an acoustic model to LiteRT: audio in, logits out, with the features inside."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tensorflow as tf

from asr.audio.recording import INT16_SCALE, SAMPLE_RATE_HZ
from asr.base.errors import UserError
from asr.base.system.files import cannot_write
from asr.base.text.wording import listed
from asr.export.quiet import silent_stderr
from asr.export.runtimes.litert.features import features_for_litert
from asr.export.runtimes.litert.flatbuffer import (
    MODEL_NAME,
    read_flatbuffer,
    short_name,
    shrink,
    write_flatbuffer,
)
from asr.export.runtimes.litert.folding import folded_copy
from asr.export.runtimes.litert.quantization import quantize
from asr.export.serving_graph import logits_of, save_with_signatures, variables_of
from asr.model.acoustic_model import AcousticModel

ANY_LENGTH = "any_length"
FIXED_S = (4, 8, 16)
# signatures by name, and the samples that each takes
SIGNATURES: Mapping[str, int | None] = {
    ANY_LENGTH: None,
    **{f"fixed_{seconds}s": seconds * SAMPLE_RATE_HZ for seconds in FIXED_S},
}


def litert_model(
    model: AcousticModel, *, quantized: bool = False, signatures: Mapping[str, int | None] = SIGNATURES
) -> bytes:
    """Return a model as a LiteRT file with built-in operators only.

    All signatures have the inputs `audio`, (1, S) float32 samples at 16 kHz from -1 to 1, and `num_samples`,
    (1,) int32, at most S; samples after it are padding. The outputs are `logits`, (1, T, V) float32, and
    `num_frames`, (1,) int32; logits after it are padding. S is free in the signature `any_length`.

    Args:
        model: with the weights to export.
        quantized: whether to store the network's weights as 8-bit integers.
        signatures: the samples that each takes, by name.

    Raises:
        UserError: LiteRT has no operator for a layer, which the message names; the temporary folder is full.
    """
    folded = folded_copy(model)
    features = features_for_litert(folded.features)
    converted = AcousticModel(features, folded.spec_augment, folded.network, name=MODEL_NAME)
    file = read_flatbuffer(_convert(converted, signatures))
    shrink(file)
    if quantized:
        quantize(file)
    return write_flatbuffer(file)


def _convert(model: AcousticModel, signatures: Mapping[str, int | None]) -> bytes:
    served = tf.Module()
    served.variables_held = variables_of(model)
    functions = {name: _signature(model, size) for name, size in signatures.items()}
    with tempfile.TemporaryDirectory() as folder:
        try:
            save_with_signatures(served, Path(folder), functions)
        except OSError as error:
            raise cannot_write(Path(folder), "temporary model", error) from None
        converter = tf.lite.TFLiteConverter.from_saved_model(folder, signature_keys=list(functions))
        converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS]
        try:
            with silent_stderr():
                return bytes(converter.convert())
        except Exception as error:  # ConverterError, which TensorFlow does not export
            if missing := _missing_operators(str(error)):
                raise UserError(missing) from None
            raise


def _missing_operators(message: str) -> str:
    """Return what the converter says about operations that LiteRT has no operator for; empty if nothing."""
    found = re.findall(r'fused\["\w+:", "([^"@]+)[^\n]*\'tf\.(\w+)\' op is neither', message)
    missing = [f"{short_name(path).rpartition('/')[0]} needs {name}" for path, name in dict.fromkeys(found)]
    return f"{listed(list(dict.fromkeys(missing)), 5)}, which LiteRT has no operator for" if missing else ""


def _signature(model: AcousticModel, size: int | None) -> Any:
    """Return the function of a signature that takes `size` samples."""

    @tf.function(
        input_signature=[
            tf.TensorSpec((1, size), tf.float32, name="audio"),
            tf.TensorSpec((1,), tf.int32, name="num_samples"),
        ]
    )
    def run(audio: Any, num_samples: Any) -> dict[str, Any]:
        logits = logits_of(model, audio * INT16_SCALE, num_samples)
        return {"logits": logits.values, "num_frames": logits.num_frames}

    return run
