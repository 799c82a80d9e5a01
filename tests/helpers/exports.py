"""Models and sound on which exported models are compared with trained ones."""

import numpy as np

from asr.base.config import load_config
from asr.base.registry import NETWORKS
from asr.base.vocabulary import Vocabulary
from asr.model.acoustic_model import make_acoustic_model

VOCABULARY = Vocabulary(["ni3", "hao3", "shi4", "jie4"])
FAMILIES = sorted(name for name, where in NETWORKS.items() if where.startswith("asr."))
CONFORMER = ('model.family="conformer"', 'model.size="xs"')
SELF_CONDITIONED = ('model.intermediate_ctc="0.3, 0.8"', "model.self_conditioned=true")
PHONES = (*SELF_CONDITIONED, 'model.intermediate_units="phones"')
NUM_SAMPLES = [23_457, 7_000, 15_999]


def speech():
    """Return (B, S) int16 samples of different loudness, with sound behind the end of each row."""
    rng = np.random.default_rng(1)
    samples = rng.normal(size=(3, max(NUM_SAMPLES))) * np.array([[3000], [30], [800]])
    return (samples * np.abs(np.sin(np.arange(samples.shape[1]) / 900))).astype(np.int16)


def loud_tone():
    """Return (4000,) samples of a tone beside which most bins of a spectrum are quiet, as whole numbers."""
    return np.round(30_000 * np.sin(2 * np.pi * 1000 / 16000 * np.arange(4000))).astype(np.float32)


def with_odd_statistics(model):
    """Return a model whose batch normalisation has other weights than those it starts with."""
    rng = np.random.default_rng(2)
    for weight in model.weights:
        if weight.path.rpartition("/")[2] in ("gamma", "moving_variance"):
            weight.assign(rng.uniform(0.5, 2.0, weight.shape))
        elif weight.path.rpartition("/")[2] in ("beta", "moving_mean", "bias"):
            weight.assign(rng.normal(size=weight.shape) * 0.3)
        elif "/pitch/pointwise/" in weight.path:  # 0 before training
            weight.assign(rng.normal(size=weight.shape) * 0.1)
    return model


def model_of(*overrides):
    """Return the model of a configuration that differs from "base"."""
    return with_odd_statistics(make_acoustic_model(load_config("base", overrides=overrides), VOCABULARY))


def expected_logits(model):
    """Return the logits of each clip of `speech` by the model itself, (T, V), from one padded batch."""
    values, num_frames = (np.asarray(part) for part in model(speech(), np.array(NUM_SAMPLES, np.int32)))
    return [row[:length] for row, length in zip(values, num_frames, strict=True)]
