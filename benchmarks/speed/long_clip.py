"""Measures the memory that a step of training takes for one clip, by its length.

    python -m benchmarks.speed.long_clip
    python -m benchmarks.speed.long_clip --set model.family=separable
    python -m benchmarks.speed.long_clip --set model.chunk_s=0.64

Each length is measured in a process of its own: its peak of resident memory over one step of the network of
`base` (loss and gradients, no optimizer), and how much of it a second of the clip adds to the shortest one.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys

from benchmarks.common import show

DURATIONS_S = (30, 75, 150, 300)
OUTPUTS = 1427
LABELS = 100  # of each clip: the memory of the CTC loss grows with the product of frames and labels


def main() -> None:
    parser = argparse.ArgumentParser(description="Memory of a step by the length of its clip.")
    parser.add_argument("--set", action="append", default=[], metavar="SECTION.KEY=VALUE")
    parser.add_argument("--measure", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    overrides = ["model.family=conformer", *arguments.set]
    if arguments.measure:
        print(json.dumps(peak_mb(arguments.measure, overrides)))
        return
    settings = [word for override in arguments.set for word in ("--set", override)]
    peaks = {}
    for duration_s in DURATIONS_S:
        command = [sys.executable, "-m", __spec__.name, "--measure", str(duration_s), *settings]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        peaks[duration_s] = float(json.loads(done.stdout.splitlines()[-1]))
    first = peaks[DURATIONS_S[0]]
    rows = {f"{DURATIONS_S[0]} s": f"{first:,.0f} MB"}
    for duration_s in DURATIONS_S[1:]:
        each = (peaks[duration_s] - first) / (duration_s - DURATIONS_S[0])
        rows[f"{duration_s} s"] = f"{peaks[duration_s]:,.0f} MB, {each:.1f} MB for each further second"
    show(f"peak memory of a step with one clip, {', '.join(overrides)}", rows)


def peak_mb(duration_s: int, overrides: list[str]) -> float:
    """Return the peak memory of this process, in MB, after a step with a clip of noise."""
    import numpy as np
    import tensorflow as tf

    from asr.base.config import load_config
    from asr.base.vocabulary import Vocabulary
    from asr.ctc.loss import ctc_loss
    from asr.model.acoustic_model import make_acoustic_model
    from asr.model.tensorflow_runner import BATCH_SIGNATURE

    vocabulary = Vocabulary([f"t{index}" for index in range(OUTPUTS)])
    settings = ["model.factored_output=false", *overrides]
    model = make_acoustic_model(load_config("base", settings), vocabulary, for_training=True)

    @tf.function(input_signature=BATCH_SIGNATURE, autograph=False)
    def step(audio, num_samples, labels, num_labels):  # type: ignore[no-untyped-def]
        with tf.GradientTape() as tape:
            logits = model(audio, num_samples, training=True)
            loss = tf.reduce_mean(ctc_loss(logits, labels, num_labels))
        return loss, tape.gradient(loss, [weight.value for weight in model.trainable_weights])

    audio, num_samples = model.sample(1, float(duration_s))
    labels = np.random.default_rng(1).integers(1, OUTPUTS, (1, LABELS), np.int32)
    step(audio, num_samples, labels, np.array([LABELS], np.int32))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
