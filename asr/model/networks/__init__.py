"""The networks from features to logits, by name.

Every network is a Keras model called as `network(features (B, T, F), num_frames (B,)) -> Logits`, takes
clips of any length, and owns `num_output_frames(num_frames)`.
"""

from __future__ import annotations

from asr.base.config import ModelConfig
from asr.base.vocabulary import Vocabulary
from asr.model.keras_internals import layers_of
from asr.model.networks.dcnn import Dcnn
from asr.model.networks.layers import MaskedBatchNorm
from asr.model.networks.separable import Separable

Network = Dcnn | Separable
# of each train.precision, Keras's name for computing in it with weights in float32
POLICIES = {"float32": "float32", "bfloat16": "mixed_bfloat16", "float16": "mixed_float16"}


def make_network(
    config: ModelConfig, vocabulary: Vocabulary, seed: int = 1, precision: str = "float32"
) -> Network:
    """The network of a configuration, its weights not yet made.

    Args:
        config: which.
        vocabulary: of its outputs.
        seed: of the initial weights, and of what is drawn in training.
        precision: what its layers compute in; weights and logits are float32.
    """
    network = _make_network(config, vocabulary, seed)
    for layer in layers_of(network):
        layer.dtype_policy = POLICIES[precision]
        if isinstance(layer, MaskedBatchNorm):
            layer.synchronized = config.synchronized_batch_norm
    return network


def _make_network(config: ModelConfig, vocabulary: Vocabulary, seed: int) -> Network:
    if config.family != "separable":
        return Dcnn(config.family, num_outputs=len(vocabulary), seed=seed, name="network")
    parts = vocabulary.syllable_parts() if config.factored_output else None
    return Separable(
        config.size,
        num_outputs=len(vocabulary),
        dropout=config.dropout,
        output_parts=parts,
        seed=seed,
        name="network",
    )
