"""Define a network that is traced in a fraction of a real one's time, to test everything around it."""

from typing import Any

import keras
from keras import ops
from typing_extensions import override

from asr.base.config import ModelConfig
from asr.base.types import DeepLogits, Logits, Tensor
from asr.base.vocabulary import Vocabulary
from asr.model.features.layer import padding_mask
from asr.model.networks.intermediate import IntermediateOutput
from asr.model.networks.layers import MaskedBatchNorm
from asr.model.networks.network import INTERMEDIATE_OPTIONS, Network
from asr.model.networks.parts import NetworkPart, StageInputs, run_parts

NUM_CHANNELS = 48


@keras.saving.register_keras_serializable("polyphone")
class Tiny(Network):
    """Implements a convolution of stride 8, batch normalisation, dropout and an output layer.

    Args:
        num_outputs: V, the size of the vocabulary, blank counted.
        dropout: share of activations dropped in training.
        seed: of the initial weights and the dropout masks.
        intermediate: number of outputs before dropout; 0 for none.
        self_conditioned: whether what follows gets its probabilities.
    """

    SUBSAMPLING = 8
    OPTIONS = frozenset(INTERMEDIATE_OPTIONS)

    def __init__(
        self,
        num_outputs: int,
        dropout: float,
        seed: int = 1,
        intermediate: int = 0,
        self_conditioned: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.intermediate, self.self_conditioned = intermediate, self_conditioned
        self.num_outputs, self.dropout, self.seed = num_outputs, dropout, seed
        first, second = (keras.initializers.GlorotUniform(10 * seed + layer) for layer in range(2))
        self._convolution = keras.layers.Conv1D(
            NUM_CHANNELS, 8, strides=8, use_bias=False, kernel_initializer=first, name="convolution"
        )
        self._norm = MaskedBatchNorm(name="norm")
        self._dropout = keras.layers.Dropout(dropout, seed=seed, name="dropout")
        self._output = keras.layers.Dense(num_outputs, kernel_initializer=second, name="output")
        self._middle = (
            IntermediateOutput(intermediate, None, self_conditioned, seed, name="middle")
            if intermediate
            else None
        )

    @classmethod
    @override
    def of(cls, config: ModelConfig, vocabulary: Vocabulary, seed: int, num_pitch: int) -> "Tiny":
        units = vocabulary.phones() if config.intermediate_units == "phones" else vocabulary
        intermediate = len(units) if config.intermediate_ctc else 0
        return cls(len(vocabulary), config.dropout, seed, intermediate, config.self_conditioned)

    @override
    def num_output_frames(self, num_frames: Any) -> Any:
        return (num_frames + self.SUBSAMPLING - 1) // self.SUBSAMPLING

    @override
    def call(self, features: Tensor, num_frames: Tensor, training: bool = False) -> Logits | DeepLogits:
        logits = run_parts(self.parts(), features, num_frames, training)
        return logits if isinstance(logits, DeepLogits) else Logits(*logits)

    @override
    def parts(self) -> list[NetworkPart]:
        return [
            NetworkPart("convolution", [self._convolution], self._subsample),
            NetworkPart("norm", [self._norm, self._dropout], self._normalize),
            *([NetworkPart("middle", [self._middle], self._read)] if self._middle else []),
            NetworkPart("output", [self._output], self._to_logits),
        ]

    def _subsample(self, features: Tensor, num_frames: Tensor, training: bool) -> StageInputs:
        padded = ops.pad(features, [[0, 0], [0, self.SUBSAMPLING - 1], [0, 0]])
        return self._convolution(padded), self.num_output_frames(num_frames)  # (B, T // 8, C)

    def _normalize(self, hidden: Tensor, num_frames: Tensor, training: bool) -> StageInputs:
        mask = padding_mask(num_frames, ops.shape(hidden)[1], hidden.dtype)[..., None]
        hidden = ops.relu(self._norm(hidden * mask, mask, training=training))
        return self._dropout(hidden, training=training), num_frames

    def _read(self, hidden: Tensor, num_frames: Tensor, training: bool) -> StageInputs:
        mask = padding_mask(num_frames, ops.shape(hidden)[1], hidden.dtype)[..., None]
        hidden, logits = self._middle(hidden, mask, num_frames, training=training)
        return (hidden, num_frames, *logits)

    def _to_logits(self, hidden: Tensor, num_frames: Tensor, training: bool) -> Logits:
        return Logits(ops.cast(self._output(hidden), "float32"), num_frames)

    @override
    def get_config(self) -> dict[str, Any]:
        return {
            "num_outputs": self.num_outputs,
            "dropout": self.dropout,
            "seed": self.seed,
            "intermediate": self.intermediate,
            "self_conditioned": self.self_conditioned,
            "name": self.name,
        }
