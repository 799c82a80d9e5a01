"""Trains a Keras model whose layers are assigned to devices by hand, as people try to do with `tf.device`.

    python -m multigpu.examples.layers_by_hand

Wrapping layers in `tf.device` leaves the backward pass and the optimiser wherever TensorFlow likes, mostly on
the first device. `StagedModel` takes the same assignment as lists of names, and respects it everywhere.
"""

from __future__ import annotations

from multigpu.start import start_devices


def main() -> None:
    """Assign the layers of a small network with a skip connection to three devices, and train it."""
    devices = start_devices("3", simulate=True)
    import keras
    import numpy as np

    from multigpu import StagedModel

    keras.utils.set_random_seed(1)
    layers = keras.layers
    inputs = keras.Input((28, 28, 1))
    stem = layers.Conv2D(16, 3, padding="same", activation="relu", name="stem")(inputs)
    x = layers.Conv2D(16, 3, padding="same", activation="relu", name="block0")(stem)
    x = layers.Conv2D(16, 3, padding="same", activation="relu", name="block1")(x)
    x = layers.GlobalAveragePooling2D(name="pool")(layers.Add(name="sum")([x, stem]))
    inner = keras.Model(inputs, layers.Dense(10, name="head")(x))

    stages = [["stem", "block0"], ["block1", "sum"], ["pool", "head"]]
    model = StagedModel(inner, stages, devices, num_micro_batches=4)
    for stage in model.placement():
        print(f"{', '.join(stage.devices)}  {stage.num_parameters:>6,} parameters  {', '.join(stage.layers)}")
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    rng = np.random.default_rng(1)
    y = rng.integers(10, size=256)
    x = rng.normal(size=(256, 28, 28, 1)).astype("float32") + y[:, None, None, None] / 5  # brighter by class
    model.fit(x, y, batch_size=32, epochs=3, verbose=2)


if __name__ == "__main__":
    main()
