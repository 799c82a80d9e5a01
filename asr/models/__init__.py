"""The networks from features to logits, by name.

Every network is a Keras model called as `network(features (B, T, F), num_frames (B,)) -> Logits`, takes
clips of any length, and owns `num_output_frames(num_frames)`.
"""

from __future__ import annotations

from asr.config import ModelConfig
from asr.models.dcnn import Dcnn
from asr.models.layers import MaskedBatchNorm
from asr.models.separable import Separable
from asr.vocabulary import Vocabulary

Network = Dcnn | Separable


def make_network(config: ModelConfig, vocabulary: Vocabulary, seed: int = 1) -> Network:
    """The network of a configuration, its weights not yet made."""
    network = _make_network(config, vocabulary, seed)
    for layer in network._flatten_layers():
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
