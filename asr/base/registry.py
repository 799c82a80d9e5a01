"""The parts that are chosen by name, and where each is: networks, feature kinds, export formats.

A line here is all that a new part needs besides its own file; CONTRIBUTING.md shows one of each. Parts are
named as "module:attribute", so that a configuration is checked without importing TensorFlow.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, TypeAlias

Parts: TypeAlias = Mapping[str, str]
"""Names, and "module:attribute" of what each one stands for."""

# of `model.family`; subclasses of asr.model.networks.network.Network
NETWORKS: Parts = {
    "separable": "asr.model.networks.separable:Separable",
    "conformer": "asr.model.networks.conformers.conformer:Conformer",
    "dcnn251bn": "asr.model.networks.dcnn:Dcnn",
    "dcnn251": "asr.model.networks.dcnn:Dcnn",
    "dcnn25": "asr.model.networks.dcnn:Dcnn",
    "dcnn24": "asr.model.networks.dcnn:Dcnn",
}

# those of them that come in the sizes of `model.size`
SIZED_NETWORKS = ("separable", "conformer")

# of `features.kind`; subclasses of asr.model.features.layer.FeatureLayer
FEATURE_KINDS: Parts = {
    "log_mel": "asr.model.features.log_mel:LogMel",
    "spectrogram": "asr.model.features.spectrogram:Spectrogram",
    "mfcc": "asr.model.features.mfcc:Mfcc",
    "fbank": "asr.model.features.fbank:Fbank",
}

# of `asr export`; each is an asr.export.format.Format
EXPORT_FORMATS: Parts = {
    "onnx": "asr.export.format:ONNX",
    "sherpa": "asr.export.format:SHERPA",
    "litert": "asr.export.format:LITERT",
    "saved_model": "asr.export.format:SAVED_MODEL",
    "polyphone": "asr.export.format:POLYPHONE",
}


def load_part(parts: Parts, name: str) -> Any:
    """Import and return the class or function that a name stands for."""
    return load(parts[name])


def load(address: str) -> Any:
    """Import and return the class or function at "module:name"."""
    module, _, attribute = address.partition(":")
    return getattr(importlib.import_module(module), attribute)
