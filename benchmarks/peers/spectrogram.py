"""Compares ASRT's spectrogram of 10 s on one core by our layer and by a frame-by-frame SciPy loop.

python -m benchmarks.peers.spectrogram
"""

from __future__ import annotations

import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np
import scipy.fft
import tensorflow as tf

from asr.model.features.spectrogram import Spectrogram
from benchmarks.common import compare, show

tf.config.threading.set_intra_op_parallelism_threads(1)
tf.config.threading.set_inter_op_parallelism_threads(1)

AUDIO = np.random.default_rng(0).normal(0, 3000, (1, 160_000)).astype(np.int16)
NUM_SAMPLES = np.array([AUDIO.shape[1]], np.int32)
REPEATS = 20


def main() -> None:
    layer = Spectrogram()
    ours = tf.function(layer)
    difference = np.abs(ours(AUDIO, NUM_SAMPLES)[0].numpy()[0] - frame_by_frame(AUDIO[0])).max()

    ours_s, peer_s, ratio = compare(
        lambda: [ours(AUDIO, NUM_SAMPLES) for _ in range(REPEATS)],
        lambda: [frame_by_frame(AUDIO[0]) for _ in range(REPEATS)],
        runs=15,
    )
    show(
        "spectrogram of 10 s, one core",
        {
            "Spectrogram layer": f"{ours_s / REPEATS * 1e3:6.2f} ms",
            "frame-by-frame loop": f"{peer_s / REPEATS * 1e3:6.2f} ms",
            "ratio": f"{ratio:.2f}",
            "largest difference": f"{difference:.1e}",
        },
    )


def frame_by_frame(audio: np.ndarray) -> np.ndarray:
    window = 0.54 - 0.46 * np.cos(2 * np.pi * np.arange(400) / 399)
    num_frames = (len(audio) - 400) // 160 + 1
    features = np.zeros((num_frames, 200))
    for index in range(num_frames):
        frame = audio[index * 160 : index * 160 + 400] * window
        features[index] = np.abs(scipy.fft.fft(frame))[:200]
    return np.log(features + 1)


if __name__ == "__main__":
    main()
