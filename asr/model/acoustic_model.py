"""The whole acoustic model: audio -> features -> SpecAugment (in training) -> network -> logits."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
from typing_extensions import override

from asr.audio.recording import SAMPLE_RATE_HZ
from asr.base.config import Config
from asr.base.types import Logits, Tensor
from asr.base.vocabulary import Vocabulary
from asr.model.features import HOP, FeatureLayer, ReceptiveField, SpecAugment, make_features
from asr.model.loss import frames_needed
from asr.model.networks import Network, make_network
from asr.model.networks.frozen import freeze_layers
from asr.model.networks.layers import BuiltByCall


def make_acoustic_model(
    config: Config, vocabulary: Vocabulary, *, for_training: bool = False
) -> AcousticModel:
    """The model of a configuration, its weights made.

    Args:
        config: of the run.
        vocabulary: of the labels.
        for_training: whether the network computes in `train.precision` and has the layers of `train.freeze`
            frozen; else it computes in float32. The weights are the same, in the same order.

    Raises:
        UserError: `train.freeze` names a layer that is not there, or leaves nothing to train.
    """
    seed = config.train.seed
    precision = config.train.precision if for_training else "float32"
    model = AcousticModel(
        make_features(config.features),
        SpecAugment.from_augment(config.augment, seed),
        make_network(config.model, vocabulary, seed, precision),
        name="acoustic_model",
    )
    model.make_weights()
    if for_training:
        freeze_layers(model.network, config.train.freeze)
    return model


@keras.saving.register_keras_serializable("polyphone")
class AcousticModel(BuiltByCall, keras.Model):
    """int16 audio in, logits out: one Keras model, so that training and serving share its features.

    Args:
        features: audio -> features.
        spec_augment: features -> features, in training.
        network: features -> logits.
    """

    def __init__(
        self, features: FeatureLayer, spec_augment: SpecAugment, network: Network, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.features, self.spec_augment, self.network = features, spec_augment, network

    def make_weights(self) -> None:
        """Make every weight, by listening to a second of silence."""
        self(np.zeros((1, SAMPLE_RATE_HZ), np.int16), np.array([SAMPLE_RATE_HZ], np.int32))

    def num_output_frames(self, num_samples: Any) -> Any:
        """Logit frames of a clip, for a number, an array or a tensor."""
        return self.network.num_output_frames(self.features.num_frames(num_samples))

    def fits(self, num_samples: int, labels: list[int]) -> bool:
        """Whether a clip of so many samples has frames enough for these labels."""
        return bool(frames_needed(labels) <= self.num_output_frames(num_samples))

    @property
    def frame_samples(self) -> int:
        """Samples from one frame of logits to the next."""
        return self.network.SUBSAMPLING * HOP

    @property
    def frame_s(self) -> float:
        """Seconds from one frame of logits to the next."""
        return self.frame_samples / SAMPLE_RATE_HZ

    def receptive_field(self) -> ReceptiveField | None:
        """Samples that logits t depend on, around sample `frame_samples` t.

        At the ends of a clip, padding takes the place of samples.

        Returns:
            None where they depend on the whole clip, as normalised features and gates do.
        """
        features, network = self.features.receptive_field(), self.network.receptive_field()
        if features is None or network is None:
            return None
        return ReceptiveField(HOP * network.before + features.before, HOP * network.after + features.after)

    def call(self, audio: Tensor, num_samples: Tensor, training: bool = False) -> Logits:
        """(B, S) int16 and (B,) int32 -> Logits."""
        features, num_frames = self.features(audio, num_samples)
        features = self.spec_augment(features, num_frames, training=training)
        logits: Logits = self.network(features, num_frames, training=training)
        return logits

    @override
    def get_config(self) -> dict[str, Any]:
        parts = {"features": self.features, "spec_augment": self.spec_augment, "network": self.network}
        serialized = {key: keras.saving.serialize_keras_object(part) for key, part in parts.items()}
        return {**serialized, "name": self.name}

    @classmethod
    @override
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> AcousticModel:
        keys = ("features", "spec_augment", "network")
        parts = {key: keras.saving.deserialize_keras_object(config[key], custom_objects) for key in keys}
        model = cls(**parts, name=config["name"])
        model.make_weights()  # Keras fills in only those that are there
        return model
