"""Build the networks from features to logits, by name.

`asr.base.registry.NETWORKS` lists them; each is a subclass of `Network` in `network.py`.
"""

from __future__ import annotations

import json

from asr.base.config import ModelConfig
from asr.base.errors import UserError
from asr.base.registry import NETWORKS, load_part
from asr.base.vocabulary import Vocabulary
from asr.model.keras_internals import layers_of
from asr.model.networks.layers import MaskedBatchNorm
from asr.model.networks.network import OPTIONS_OF_SOME, Network

# Keras's name of each train.precision with float32 weights
POLICIES = {"float32": "float32", "bfloat16": "mixed_bfloat16", "float16": "mixed_float16"}


def make_network(
    config: ModelConfig,
    vocabulary: Vocabulary,
    seed: int = 1,
    precision: str = "float32",
    num_pitch: int = 0,
) -> Network:
    """Return the network of a configuration, its weights not yet created.

    Args:
        config: configuration of the model.
        vocabulary: vocabulary of the outputs.
        seed: seed of the initial weights, and of everything drawn in training.
        precision: number format of the computations; weights and logits are float32.
        num_pitch: number of features, the last ones of each frame, that are of the pitch.

    Raises:
        UserError: settings of the model contradict each other.
    """
    refuse_contradictions(config)
    family: type[Network] = load_part(NETWORKS, config.family)
    network = family.of(config, vocabulary, seed, num_pitch)
    for layer in layers_of(network):
        layer.dtype_policy = POLICIES[precision]
        if isinstance(layer, MaskedBatchNorm):
            layer.synchronized = config.synchronized_batch_norm
    return network


def refuse_contradictions(config: ModelConfig) -> None:
    """Check what needs no data, so that hours of preparing it need not come first.

    Raises:
        UserError: settings of the model contradict each other.
    """
    _refuse_unused_options(config)
    if config.self_conditioned and not config.intermediate_ctc:
        raise UserError(
            "model.self_conditioned: needs an output in the middle of the network, and "
            'model.intermediate_ctc names none; set it, for instance to "0.7"'
        )
    if config.intermediate_units == "phones" and not config.intermediate_ctc:
        raise UserError(
            "model.intermediate_units: phones need an output in the middle of the network, but "
            'model.intermediate_ctc is empty; set it to "0.5", or set model.intermediate_units to "tokens"'
        )


def _refuse_unused_options(config: ModelConfig) -> None:
    """Raise UserError, with what to set instead, if networks of a family ignore what a configuration sets."""
    family: type[Network] = load_part(NETWORKS, config.family)
    plain = ModelConfig()
    unused = [
        name
        for name in OPTIONS_OF_SOME
        if name not in family.OPTIONS and getattr(config, name) != getattr(plain, name)
    ]
    if unused:
        families = [name for name in NETWORKS if load_part(NETWORKS, name).OPTIONS.issuperset(unused)]
        settings = " and ".join(f"model.{name} = {json.dumps(getattr(plain, name))}" for name in unused)
        raise UserError(
            f"model.family={config.family}: these networks have no {', no '.join(unused)}; set {settings}"
            + (f", or choose {' or '.join(families)}" if families else "")
        )
