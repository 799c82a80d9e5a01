"""Makes the Keras layer that turns waveforms into features, the same one in training, decoding and export.

`asr.base.registry.FEATURE_KINDS` lists the kinds; each is a subclass of `FeatureLayer` in `layer.py`.
"""

from __future__ import annotations

from asr.base.config import FeatureConfig
from asr.base.registry import FEATURE_KINDS, load_part
from asr.model.features.layer import FeatureLayer


def make_features(config: FeatureConfig) -> FeatureLayer:
    """Return the feature layer of a configuration."""
    kind: type[FeatureLayer] = load_part(FEATURE_KINDS, config.kind)
    return kind.of(config)
