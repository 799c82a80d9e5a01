"""Compares fbank features of 10 s on one core by our layer, by kaldi-native-fbank and with log_mel.

python -m benchmarks.peers.fbank      # needs kaldi-native-fbank
"""

from __future__ import annotations

import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["OMP_NUM_THREADS"] = "1"

import kaldi_native_fbank
import numpy as np
import tensorflow as tf

from asr.audio.recording import INT16_SCALE, SAMPLE_RATE_HZ
from asr.model.features.fbank import Fbank
from asr.model.features.log_mel import LogMel
from benchmarks.common import compare, show

tf.config.threading.set_intra_op_parallelism_threads(1)
tf.config.threading.set_inter_op_parallelism_threads(1)

AUDIO = np.random.default_rng(0).normal(0, 3000, (1, 160_000)).astype(np.int16)
NUM_SAMPLES = np.array([AUDIO.shape[1]], np.int32)
REPEATS = 20


def main() -> None:
    ours, log_mel = tf.function(Fbank()), tf.function(LogMel())
    ours_s, peer_s, peer_ratio = compare(
        lambda: [ours(AUDIO, NUM_SAMPLES) for _ in range(REPEATS)],
        lambda: [kaldi_fbank(AUDIO[0]) for _ in range(REPEATS)],
        runs=15,
    )
    _, log_mel_s, log_mel_ratio = compare(
        lambda: [ours(AUDIO, NUM_SAMPLES) for _ in range(REPEATS)],
        lambda: [log_mel(AUDIO, NUM_SAMPLES) for _ in range(REPEATS)],
        runs=15,
    )
    features = kaldi_fbank(AUDIO[0])
    expected = np.stack([features.get_frame(frame) for frame in range(features.num_frames_ready)])
    difference = np.abs(ours(AUDIO, NUM_SAMPLES)[0].numpy()[0] - expected).max()
    show(
        "fbank of 10 s, one core",
        {
            "Fbank layer": f"{ours_s / REPEATS * 1e3:6.2f} ms",
            "kaldi-native-fbank": f"{peer_s / REPEATS * 1e3:6.2f} ms, ratio {peer_ratio:.2f}",
            "LogMel layer": f"{log_mel_s / REPEATS * 1e3:6.2f} ms, ratio {log_mel_ratio:.2f}",
            "largest difference from kaldi-native-fbank": f"{difference:.1e}",
        },
    )


def kaldi_fbank(audio: np.ndarray) -> kaldi_native_fbank.OnlineFbank:
    options = kaldi_native_fbank.FbankOptions()
    options.frame_opts.dither = 0
    options.frame_opts.snip_edges = False
    options.mel_opts.num_bins = Fbank.NUM_MELS
    options.mel_opts.high_freq = -400
    features = kaldi_native_fbank.OnlineFbank(options)
    features.accept_waveform(SAMPLE_RATE_HZ, (audio / INT16_SCALE).astype(np.float32))
    features.input_finished()
    return features


if __name__ == "__main__":
    main()
