"""The base class of all networks: what each of them takes, returns and must define."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
from typing_extensions import override

from asr.base.config import ModelConfig
from asr.base.types import DeepLogits, Logits, Tensor
from asr.base.vocabulary import Vocabulary
from asr.model.networks.layers import BuildOnCall
from asr.model.networks.parts import NetworkPart, StageInputs
from asr.model.runner import ReceptiveField

INTERMEDIATE_OPTIONS = ("intermediate_ctc", "intermediate_units", "self_conditioned")
OPTIONS_OF_SOME = ("stem", *INTERMEDIATE_OPTIONS, "chunk_s")  # keys of ModelConfig that not all networks use


class Network(BuildOnCall, keras.Model):
    """A network from features of clips of any length to logits.

    A clip may be shorter than SUBSAMPLING: it has `num_output_frames`, often 0, and must not raise an error.
    A clip's logits are the same alone and in a padded batch; weights and dropout masks follow from the seed.
    All weights are those of layers within the network. Checkpoints know them by the names of the layers.
    """

    SUBSAMPLING: int
    """Feature frames from one frame of logits to the next."""

    OPTIONS: frozenset[str] = frozenset()
    """Which of OPTIONS_OF_SOME `of` uses."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{"name": "network", **kwargs})

    @classmethod
    def of(cls, config: ModelConfig, vocabulary: Vocabulary, seed: int, num_pitch: int) -> Network:
        """Return the network of a configuration, its weights not yet created.

        Args:
            config: configuration of the model; networks use different keys of it.
            vocabulary: vocabulary of the outputs, including the blank.
            seed: seed of the initial weights, and of everything drawn in training.
            num_pitch: number of features, the last ones of each frame, that are of the pitch.
        """
        raise NotImplementedError

    def num_output_frames(self, num_frames: Any) -> Any:
        """Return the frames of logits that a clip yields, for a number, an array or a tensor."""
        raise NotImplementedError

    def receptive_field(self) -> ReceptiveField | None:
        """Return the feature frames that logits t depend on, around frame SUBSAMPLING * t.

        None means the whole clip and is right for any network. With a bounded field, results of streams
        equal those of whole recordings. A network whose frames depend on each other in chunks says so in
        `ReceptiveField.chunk`, and its clips always begin with a chunk.
        """
        return None

    def call(self, features: Tensor, num_frames: Tensor, training: bool = False) -> Logits | DeepLogits:
        """Map features (B, T, F), 0 on padding, and num_frames (B,) to float32 logits.

        `values` may have more frames than `num_output_frames` gives; those beyond it do not count.
        Only in training, a network may return `DeepLogits`.
        """
        raise NotImplementedError

    def parts(self) -> Sequence[NetworkPart]:
        """Return the network as parts, at whose ends it can be cut into stages on several devices.

        Run one after the other, they compute what `call` does. Many small parts can be distributed most
        evenly; a network that does not override this method is one part.
        """

        def whole(features: Tensor, num_frames: Tensor, training: bool) -> StageInputs:
            logits: Logits | DeepLogits = self(features, num_frames, training=training)
            return logits

        return [NetworkPart(self.name, [self], whole)]

    @override
    def get_config(self) -> dict[str, Any]:
        """Return the arguments of the constructor, from which Keras makes a saved network again."""
        raise NotImplementedError
