"""Trains Inception v3 with its layers on seven devices, for which one is too small.

    python -m multigpu.examples.inception_v3

The machine's one device is split into seven, so the program runs anywhere; on a machine with seven cards,
set `simulate=False`. The model is cut where measured time and memory are most even. Weights and
pictures are random: the program shows where layers and weights are, and what a step takes. The first
step is slow, because TensorFlow traces every layer once for each micro-batch.
"""

from __future__ import annotations

import time

from multigpu.start import start_devices

NUM_STAGES, NUM_MICRO_BATCHES, NUM_ROWS, NUM_STEPS = 7, 4, 8, 3
SIZE, NUM_CLASSES = 75, 10  # the smallest pictures that Inception v3 takes


def main() -> None:
    """Cut the model, show where its layers are, and train it for a few steps."""
    devices = start_devices(str(NUM_STAGES), simulate=True)
    import keras
    import numpy as np

    from multigpu import StagedModel

    keras.utils.set_random_seed(1)
    inner = keras.applications.InceptionV3(
        weights=None, input_shape=(SIZE, SIZE, 3), classes=NUM_CLASSES, classifier_activation=None
    )
    model = StagedModel(inner, NUM_STAGES, devices, num_micro_batches=NUM_MICRO_BATCHES)
    print("stage  device    layers  parameters  weights    first layer")
    for index, stage in enumerate(model.placement()):
        megabytes = stage.weight_bytes / 2**20
        print(
            f"{index:<5}  {stage.devices[0]:<8}  {len(stage.layers):>6}  {stage.num_parameters:>10,}  "
            f"{megabytes:>5.1f} MiB  {stage.layers[0]}",
            flush=True,
        )
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    rng = np.random.default_rng(1)
    x = rng.normal(size=(NUM_ROWS, SIZE, SIZE, 3)).astype("float32")
    y = rng.integers(NUM_CLASSES, size=NUM_ROWS)
    for step in range(NUM_STEPS):
        started = time.perf_counter()
        loss = float(model.train_on_batch(x, y))
        print(f"step {step + 1}: loss {loss:.3f}, {time.perf_counter() - started:.1f} s", flush=True)


if __name__ == "__main__":
    main()
