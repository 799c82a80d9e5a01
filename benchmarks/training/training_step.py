"""Compares training steps of dcnn251bn on clips padded to their batch, by our CTC, with padding to 16 s.

    python -m benchmarks.training.training_step

The peers are the same network and optimiser with every clip padded to 16 s and Keras's own batch
normalisation, once with TensorFlow's CTC on dense labels and once on sparse ones (as ASRT pads, whose
`ctc_batch_cost` makes labels sparse). All use the same clips of 2 to 8 s, in batches of four of like length.
"""

from __future__ import annotations

import os
from collections.abc import Callable

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import keras
import numpy as np
import tensorflow as tf

from asr.audio.recording import SAMPLE_RATE_HZ, pad_waveforms
from asr.base.config import Config, FeatureConfig, ModelConfig
from asr.base.types import Logits, Tensor
from asr.base.vocabulary import Vocabulary
from asr.ctc.loss import ctc_loss
from asr.model.acoustic_model import AcousticModel
from asr.model.features import make_features
from asr.model.features.spec_augment import SpecAugment
from asr.model.networks import make_network
from benchmarks.common import compare, show
from benchmarks.peers.ctc import sparse_ctc

NUM_CLIPS, BATCH, LONGEST_S = 12, 4, 16
VOCABULARY = Vocabulary(f"t{index}" for index in range(1427))


class PlainBatchNorm(keras.layers.BatchNormalization):
    """Keras's own normalisation, which counts padding as speech."""

    def call(self, inputs: Tensor, mask: Tensor, training: bool = False) -> Tensor:
        return super().call(inputs, training=training)


def main() -> None:
    rng = np.random.default_rng(1)
    durations = rng.uniform(2, 8, NUM_CLIPS)
    clips = [rng.normal(0, 3000, int(s * SAMPLE_RATE_HZ)).astype(np.int16) for s in durations]
    labels = [rng.integers(1, 1428, int(s * 3.5)).astype(np.int32) for s in durations]
    order = sorted(range(NUM_CLIPS), key=lambda place: durations[place])
    batches = [order[first : first + BATCH] for first in range(0, NUM_CLIPS, BATCH)]
    audio_s = float(durations.sum())

    ours = make_step(plain=False, loss_of=ctc_loss)
    dense = make_step(plain=True, loss_of=dense_ctc)
    sparse = make_step(plain=True, loss_of=sparse_ctc)

    def run_ours() -> None:
        for places in batches:
            audio, num_samples = pad_waveforms([clips[p] for p in places])
            ours(audio, num_samples, *padded_labels([labels[p] for p in places]))

    def run_peer(step: Callable[..., Tensor]) -> None:
        for places in batches:
            audio = np.zeros((BATCH, LONGEST_S * SAMPLE_RATE_HZ), np.int16)
            for row, place in zip(audio, places, strict=True):
                row[: len(clips[place])] = clips[place]
            num_samples = np.array([len(clips[p]) for p in places], np.int32)
            step(audio, num_samples, *padded_labels([labels[p] for p in places]))

    ours_s, dense_s, dense_ratio = compare(run_ours, lambda: run_peer(dense), runs=3)
    _, sparse_s, sparse_ratio = compare(run_ours, lambda: run_peer(sparse), runs=3)
    show(
        "dcnn251bn training step, batch 4, clips of 2 to 8 s",
        {
            "padded to the batch, our CTC": f"{audio_s / ours_s:6.1f} s of audio per second",
            "padded to 16 s, dense CTC": f"{audio_s / dense_s:6.1f} s of audio per second",
            "padded to 16 s, sparse CTC": f"{audio_s / sparse_s:6.1f} s of audio per second",
            "ratio to dense": f"{dense_ratio:.2f}",
            "ratio to sparse": f"{sparse_ratio:.2f}",
        },
    )


def make_step(plain: bool, loss_of: Callable[[Logits, Tensor, Tensor], Tensor]) -> Callable[..., Tensor]:
    config = Config(features=FeatureConfig(kind="spectrogram"), model=ModelConfig(family="dcnn251bn"))
    network = make_network(config.model, VOCABULARY)
    if plain:
        network._norms = [PlainBatchNorm(epsilon=2e-4) for _ in network._norms]
    spec_augment = SpecAugment(config.augment, seed=1)
    model = AcousticModel(make_features(config.features), spec_augment, network)
    model.make_weights()
    optimizer = keras.optimizers.AdamW(1e-4)
    optimizer.build(model.trainable_variables)

    @tf.function(reduce_retracing=True)
    def step(audio: Tensor, num_samples: Tensor, labels: Tensor, num_labels: Tensor) -> Tensor:
        with tf.GradientTape() as tape:
            logits = model(audio, num_samples, training=True)
            loss = tf.reduce_mean(loss_of(logits, labels, num_labels))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply(gradients, model.trainable_variables)
        return loss

    return step


def dense_ctc(logits: Logits, labels: Tensor, num_labels: Tensor) -> Tensor:
    """Compute the same loss by TensorFlow's implementation for dense labels."""
    return tf.nn.ctc_loss(
        labels=labels,
        logits=logits.values,
        label_length=num_labels,
        logit_length=logits.num_frames,
        logits_time_major=False,
        blank_index=0,
    )


def padded_labels(rows):
    num_labels = np.array([len(row) for row in rows], np.int32)
    labels = np.zeros((len(rows), 64), np.int32)  # ASRT's label_max_string_length
    for padded, row in zip(labels, rows, strict=True):
        padded[: len(row)] = row
    return labels, num_labels


if __name__ == "__main__":
    main()
