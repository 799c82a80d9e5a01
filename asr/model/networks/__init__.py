"""Build the networks from features to logits, by name.

`asr.base.registry.NETWORKS` lists them; each is a subclass of `Network` in `network.py`.
"""

from __future__ import annotations

from asr.base.config import ModelConfig
from asr.base.registry import NETWORKS, load_part
from asr.base.types import UserError
from asr.base.vocabulary import Vocabulary
from asr.model.keras_internals import layers_of
from asr.model.networks.layers import MaskedBatchNorm
from asr.model.networks.network import Network

# Keras's name of each train.precision with float32 weights
POLICIES = {"float32": "float32", "bfloat16": "mixed_bfloat16", "float16": "mixed_float16"}


def make_network(
    config: ModelConfig, vocabulary: Vocabulary, seed: int = 1, precision: str = "float32"
) -> Network:
    """Return the network of a configuration, its weights not yet created.

    Args:
        config: configuration of the model.
        vocabulary: vocabulary of the outputs.
        seed: seed of the initial weights, and of everything drawn in training.
        precision: number format of the computations; weights and logits are float32.

    Raises:
        UserError: settings of the model contradict each other.
    """
    family: type[Network] = load_part(NETWORKS, config.family)
    if config.intermediate_ctc and not family.HAS_INTERMEDIATE:
        raise UserError(
            f"model.intermediate_ctc: networks of model.family={config.family} have no outputs in the "
            "middle; choose separable or conformer, or leave it out"
        )
    if config.chunk_s and not family.HAS_CHUNKS:
        raise UserError(
            f"model.chunk_s: networks of model.family={config.family} have no chunks; choose conformer, or "
            "leave it out"
        )
    if config.stem != "1d" and not family.HAS_STEM:
        raise UserError(
            f'model.stem: networks of model.family={config.family} have no choice of it; set it to "1d", or '
            "choose separable"
        )
    if config.self_conditioned and not config.intermediate_ctc:
        raise UserError(
            "model.self_conditioned: needs an output in the middle of the network, and "
            'model.intermediate_ctc names none; set it, for instance to "0.7"'
        )
    if config.intermediate_units == "phones" and not config.intermediate_ctc:
        raise UserError(
            "model.intermediate_units: phones need an output in the middle of the network, and "
            'model.intermediate_ctc names none; set that, for instance to "0.5", or this to tokens'
        )
    network = family.of(config, vocabulary, seed)
    for layer in layers_of(network):
        layer.dtype_policy = POLICIES[precision]
        if isinstance(layer, MaskedBatchNorm):
            layer.synchronized = config.synchronized_batch_norm
    return network
