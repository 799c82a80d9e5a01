"""Compose the acoustic model: audio -> features -> SpecAugment (in training) -> network -> logits."""

from __future__ import annotations

import dataclasses
from typing import Any

import keras
import numpy as np
from keras import ops
from typing_extensions import override

from asr.audio.recording import SAMPLE_RATE_HZ
from asr.base.config import Config
from asr.base.types import DeepLogits, Logits, Tensor
from asr.base.vocabulary import Vocabulary
from asr.ctc.forced_alignment import frames_needed
from asr.model.features import make_features
from asr.model.features.layer import HOP, FeatureLayer
from asr.model.features.spec_augment import SpecAugment
from asr.model.layer_names import refuse_unfixed_names
from asr.model.networks import make_network
from asr.model.networks.frozen import freeze_layers
from asr.model.networks.layers import BuildOnCall
from asr.model.networks.network import Network
from asr.model.networks.parts import NetworkPart, PartLayer, StageInputs
from asr.model.runner import ReceptiveField


def make_acoustic_model(
    config: Config, vocabulary: Vocabulary, *, for_training: bool = False
) -> AcousticModel:
    """Build the model of a configuration, with its initial weights.

    Args:
        config: configuration of the run.
        vocabulary: vocabulary of the labels.
        for_training: whether the network computes in `train.precision`, freezes the layers of `train.freeze`,
            and makes two views of clips for `train.consistency`; otherwise it computes in float32. The
            weights and their order are the same.

    Raises:
        UserError: `train.freeze` names a layer that does not exist, or leaves nothing to train; or, for
            training, a layer has no fixed name, or two have the same.
    """
    seed, train = config.train.seed, config.train
    num_views = train.num_views if for_training else 1

    def make() -> AcousticModel:
        features, augment = make_features(config.features), config.augment
        if not features.HAS_FREQUENCY_AXIS:
            augment = dataclasses.replace(augment, frequency_warp=0.0)
        time_mask_factor = train.consistency_mask_factor if num_views > 1 else 1.0
        precision = train.precision if for_training else "float32"
        model = AcousticModel(
            features,
            SpecAugment(augment, seed, time_mask_factor, features.num_pitch),
            make_network(config.model, vocabulary, seed, precision, features.num_pitch),
            num_views,
            name="acoustic_model",
        )
        model.make_weights()
        return model

    model = make()
    if for_training:
        refuse_unfixed_names(model, make)
        freeze_layers(model.network, train.freeze)
    return model


@keras.saving.register_keras_serializable("polyphone")
class AcousticModel(BuildOnCall, keras.Model):
    """A Keras model from int16 audio to logits, features included, so that training and serving share these.

    Args:
        features: maps audio to features.
        spec_augment: augments features in training.
        network: maps features to logits.
        num_views: number of views of each clip in training, each augmented by itself; not saved. The rows of
            the logits are then all first views, followed by all second ones.
    """

    def __init__(
        self,
        features: FeatureLayer,
        spec_augment: SpecAugment,
        network: Network,
        num_views: int = 1,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.features, self.spec_augment, self.network = features, spec_augment, network
        self.num_views = num_views

    def make_weights(self) -> None:
        """Create every weight, by calling the model on a second of silence."""
        self(np.zeros((1, SAMPLE_RATE_HZ), np.int16), np.array([SAMPLE_RATE_HZ], np.int32))

    def sample(self, num_clips: int = 4, duration_s: float = 4.0) -> tuple[Tensor, Tensor]:
        """Return what the model may be called with to measure it: noise, (B, S) int16, and (B,) int32."""
        num_samples = round(duration_s * SAMPLE_RATE_HZ)
        audio = np.random.default_rng(0).integers(-1000, 1000, (num_clips, num_samples), np.int16)
        return audio, np.full(num_clips, num_samples, np.int32)

    def num_output_frames(self, num_samples: Any) -> Any:
        """Return the frames of logits of a clip, for a number, an array or a tensor."""
        return self.network.num_output_frames(self.features.num_frames(num_samples))

    def fits(self, num_samples: int, labels: list[int]) -> bool:
        """Return whether a clip with this number of samples has enough frames for these labels."""
        return bool(frames_needed(labels) <= self.num_output_frames(num_samples))

    @property
    def frame_samples(self) -> int:
        """Return the samples from one frame of logits to the next."""
        return self.network.SUBSAMPLING * HOP

    @property
    def frame_s(self) -> float:
        """Return the seconds from one frame of logits to the next."""
        return self.frame_samples / SAMPLE_RATE_HZ

    @property
    def first_middle_s(self) -> float:
        """Return the second in the middle of the first window of features."""
        return self.features.FIRST_MIDDLE / SAMPLE_RATE_HZ

    @property
    def ignores_silence(self) -> bool:
        """Return whether features are normalised over speech, and the network sees no whole clips."""
        normalizes_speech = self.features.normalize and self.features.over_speech
        return normalizes_speech and self.network.receptive_field() is not None

    def receptive_field(self) -> ReceptiveField | None:
        """Return the samples that logits t depend on, around sample `frame_samples` t.

        Beyond the ends of a clip, padding replaces samples.

        Returns:
            the field; None if logits depend on the whole clip, as with normalised features or gates.
        """
        features, network = self.features.receptive_field(), self.network.receptive_field()
        if features is None or network is None:
            return None
        before, after = HOP * network.before + features.before, HOP * network.after + features.after
        return ReceptiveField(before, after, network.chunk)

    def call(self, audio: Tensor, num_samples: Tensor, training: bool = False) -> Logits | DeepLogits:
        """Map audio, (B, S) int16, and num_samples, (B,) int32, to logits."""
        features, num_frames = self.features(audio, num_samples)
        features, num_frames = self._augment(features, num_frames, training)
        logits: Logits | DeepLogits = self.network(features, num_frames, training=training)
        return logits

    def _augment(self, features: Tensor, num_frames: Tensor, training: bool) -> StageInputs:
        """Return features (B, T, F) and the frames of each row, in training those of every view."""
        if training and self.num_views > 1:
            features = ops.concatenate([features] * self.num_views)
            num_frames = ops.concatenate([num_frames] * self.num_views)
        return self.spec_augment(features, num_frames, training=training), num_frames

    def stages(self) -> list[keras.Layer]:
        """Return the model as layers that follow each other, by which `multigpu.StagedModel` cuts it.

        The first one takes (audio, num_samples), each other what the one before returned, and the last one
        returns logits. They share the model's weights, which must exist.
        """

        def extract(audio: Tensor, num_samples: Tensor, training: bool) -> StageInputs:
            features, num_frames = self.features(audio, num_samples)
            return features, num_frames

        before = [
            NetworkPart("features", [self.features], extract),
            NetworkPart("spec_augment", [self.spec_augment], self._augment),
        ]
        policy = self.network.dtype_policy
        parts = self.network.parts()
        return [*(PartLayer(part) for part in before), *(PartLayer(part, policy) for part in parts)]

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
        model.make_weights()  # Keras loads only weights that exist
        return model
