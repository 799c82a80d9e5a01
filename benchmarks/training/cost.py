"""Count what a second of audio costs a configuration: operations, and the memory of the forward pass.

    python -m benchmarks.training.cost thchs30 aishell1 librispeech mandarin_open

Nothing is computed: TensorFlow counts the operations of the graph, and the sizes of what they return. A step
takes about three times the operations, and keeps less than all results. A second in the batch
(`train.batch_s`) is counted, whether it is of the first view of a clip or of the second.
"""

from __future__ import annotations

import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"

import sys

import tensorflow as tf

from asr.audio.recording import SAMPLE_RATE_HZ
from asr.base.config import Config, load_config
from asr.base.text.pinyin import mandarin_syllables
from asr.base.vocabulary import Vocabulary
from asr.model.acoustic_model import make_acoustic_model
from benchmarks.common import show

NUM_CLIPS, CLIP_S = 4, 10
NUM_CHARACTERS = 4300  # of AISHELL-1
NUM_PIECES = 500
# what returns another operation's memory, or a weight's
WITHOUT_MEMORY = {"Const", "Placeholder", "ReadVariableOp", "Identity", "Reshape", "ExpandDims", "Squeeze"}


def main() -> None:
    for name in sys.argv[1:] or ["thchs30", "aishell1", "librispeech", "mandarin_open"]:
        config = load_config(name)
        model = make_acoustic_model(config, vocabulary_like(config), for_training=True)
        graph = graph_of(model)
        batch_s = NUM_CLIPS * CLIP_S * config.train.num_views
        show(
            name,
            {
                "weights": f"{model.count_params():,}",
                "operations, forward": f"{operations(model) / CLIP_S / 1e9:.2f} billion a second of audio",
                "their results": f"{memory_bytes(graph) / batch_s / 1e6:.0f} MB a second of audio",
            },
        )


def vocabulary_like(config: Config) -> Vocabulary:
    """Return as many outputs as the configuration's labels will have, about."""
    if config.data.units == "characters":
        return Vocabulary(chr(0x4E00 + number) for number in range(NUM_CHARACTERS))
    if config.data.units in ("", "syllables"):
        return Vocabulary(mandarin_syllables())
    return Vocabulary(f"piece{number}" for number in range(NUM_PIECES))


def graph_of(model: tf.Module, num_clips: int = NUM_CLIPS, *, training: bool = True) -> tf.Graph:
    audio = tf.TensorSpec((num_clips, CLIP_S * SAMPLE_RATE_HZ), tf.int16)
    function = tf.function(lambda audio, num_samples: model(audio, num_samples, training=training))
    return function.get_concrete_function(audio, tf.TensorSpec((num_clips,), tf.int32)).graph


def operations(model: tf.Module) -> int:
    """Return the number of operations for one clip, seen once."""
    options = tf.compat.v1.profiler.ProfileOptionBuilder.float_operation()
    options["output"] = "none"
    graph = graph_of(model, num_clips=1, training=False)
    return tf.compat.v1.profiler.profile(graph, options=options).total_float_ops


def memory_bytes(graph: tf.Graph) -> int:
    """Return the bytes of all results in a graph."""
    results = [
        output for op in graph.get_operations() if op.type not in WITHOUT_MEMORY for output in op.outputs
    ]
    return sum(
        result.shape.num_elements() * result.dtype.size
        for result in results
        if result.shape.is_fully_defined() and result.dtype.size
    )


if __name__ == "__main__":
    main()
