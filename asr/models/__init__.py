"""The networks from features to logits, by name.

Every network is a Keras model called as `network(features (B, T, F), num_frames (B,)) -> Logits`, takes
clips of any length, and owns `num_output_frames(num_frames)`.
"""

from __future__ import annotations

from asr.config import ModelConfig
from asr.models.dcnn import DCNN_FAMILY, Dcnn
from asr.models.separable import SIZES, Separable
from asr.types import UserError
from asr.vocabulary import Vocabulary

Network = Dcnn | Separable


def make_network(config: ModelConfig, vocabulary: Vocabulary, seed: int = 1) -> Network:
    """The network of a configuration, its weights not yet made.

    Raises:
        UserError: there is no such family, or no such size.
    """
    if config.family in DCNN_FAMILY:
        return Dcnn(config.family, num_outputs=len(vocabulary), seed=seed, name="network")
    if config.family != "separable":
        known = ", ".join(["separable", *DCNN_FAMILY])
        raise UserError(f"model.family: expected one of {known}, received {config.family!r}")
    if config.size not in SIZES:
        raise UserError(f"model.size: expected one of {', '.join(SIZES)}, received {config.size!r}")
    parts = vocabulary.syllable_parts() if config.factored_output else None
    return Separable(
        config.size,
        num_outputs=len(vocabulary),
        dropout=config.dropout,
        output_parts=parts,
        seed=seed,
        name="network",
    )
