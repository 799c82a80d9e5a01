"""Networks of ASRT: random weights, the files that Keras 2 wrote, and their outputs by formula in NumPy.

Everything here follows the published layer tables and formulas, not the code of this project.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

CHANNELS = {
    "251bn": (32, 32, 64, 64, 128, 128, 128, 128, 128, 128),
    "251": (32, 32, 64, 64, 128, 128, 128, 128, 128, 128),
    "25": (32, 32, 64, 64, 128, 128, 128, 128),
    "24": (32, 32, 64, 64, 128, 128),
}
NUM_FRAMES = 1600  # to which ASRT pads every clip, 16 s
NUM_BINS = 200
NORM_EPSILON = 2e-4
# between which random weights of batch normalisation are
NORM = {"gamma": (0.5, 1.5), "beta": (-0.3, 0.3), "moving_mean": (-1, 1), "moving_variance": (0.5, 2)}


class Layer(NamedTuple):
    """A layer with Keras's names of its weights."""

    name: str
    weights: dict[str, Array]


def random_layers(network: str, num_outputs: int, seed: int = 0) -> list[Layer]:
    """Return the layers of a network in the order of its graph, those without weights included."""
    random = np.random.default_rng(seed)
    has_norms = network == "251bn"
    numbers = itertools.count(17)  # Keras numbers layers on over the models of a process

    def weight(*shape: int) -> Array:
        return random.normal(0, np.sqrt(2 / np.prod(shape[:-1])), shape).astype(np.float32)

    def vector(size: int, low: float, high: float) -> Array:
        return random.uniform(low, high, size).astype(np.float32)

    layers = [Layer("the_input" if has_norms else "input_1", {})]
    for index, (before, width) in enumerate(itertools.pairwise((1, *CHANNELS[network]))):
        weights = {"kernel": weight(3, 3, before, width)}
        if has_norms or index:
            weights["bias"] = vector(width, -0.2, 0.2)
        layers.append(Layer(f"Conv{index}" if has_norms else f"conv2d_{next(numbers)}", weights))
        if has_norms:
            layers.append(Layer(f"BN{index}", {name: vector(width, *NORM[name]) for name in NORM}))
        layers.append(Layer(f"dropout_{index}", {}))
    for index, (inputs, units) in enumerate(((25 * CHANNELS[network][-1], 128), (128, num_outputs))):
        weights = {"kernel": weight(inputs, units), "bias": vector(units, -0.2, 0.2)}
        layers.append(Layer(f"Dense{index}" if has_norms else f"dense_{next(numbers)}", weights))
    return [*layers, Layer("ctc", {})]


def write_weights(path: Path, layers: list[Layer], names_at_once: int = 100, inside: str = "") -> None:
    """Write layers as `save_weights` of Keras 2 does.

    Args:
        path: of the file.
        layers: in the order of the model.
        names_at_once: number of names in an attribute; a longer list is divided.
        inside: group to write into, such as "model_weights" for a file of a whole model.
    """
    with h5py.File(path, "w") as file:
        root = file.create_group(inside) if inside else file
        _write_names(root, "layer_names", [layer.name for layer in layers], names_at_once)
        root.attrs["backend"] = b"tensorflow"
        root.attrs["keras_version"] = b"2.11.0"
        for layer in layers:
            group = root.create_group(layer.name)
            names = [f"{layer.name}/{name}:0" for name in layer.weights]
            _write_names(group, "weight_names", names, names_at_once)
            for name, values in zip(names, layer.weights.values(), strict=True):
                group.create_dataset(name, data=values)


def _write_names(group: Any, attribute: str, names: list[str], names_at_once: int) -> None:
    encoded = np.array([name.encode() for name in names])
    if len(names) <= names_at_once:
        group.attrs[attribute] = encoded
        return
    for number, begin in enumerate(range(0, len(names), names_at_once)):
        group.attrs[f"{attribute}{number}"] = encoded[begin : begin + names_at_once]


def features(audio: npt.NDArray[np.int16]) -> Array:
    """Return ASRT's spectrogram (T, 200) of a clip at 16 kHz."""
    window = 0.54 - 0.46 * np.cos(2 * np.pi * np.arange(400) / 399)
    num_windows = int(len(audio) / 16 - 25) // 10 + 1
    windows = np.stack([audio[160 * index : 160 * index + 400] * window for index in range(num_windows)])
    return np.log(np.abs(np.fft.fft(windows))[:, :NUM_BINS] + 1)


def logits(layers: list[Layer], inputs: Array, num_frames: int = NUM_FRAMES) -> Array:
    """Return what the last layer computes before its softmax, (num_frames // 8, V) with the blank last.

    Args:
        layers: of a network.
        inputs: features (T, 200) of a clip.
        num_frames: to which the clip is padded with zeros, which are not masked.
    """
    padded = np.zeros((num_frames, NUM_BINS), np.float32)
    padded[: len(inputs)] = inputs
    hidden, dense = padded[:, :, None], []
    weighted = [layer.weights for layer in layers if layer.weights]
    num_convolutions = 0
    for index, weights in enumerate(weighted):
        following = weighted[index + 1] if index + 1 < len(weighted) else {}
        if "kernel" in weights and weights["kernel"].ndim == 4:
            hidden = _convolution(hidden, weights["kernel"]) + weights.get("bias", 0.0)
            if "gamma" in following:
                hidden = _norm(hidden, following)
            hidden = np.maximum(hidden, 0)
            num_convolutions += 1
            if num_convolutions in (2, 4, 6):
                hidden = _pool(hidden)
        elif "kernel" in weights:
            dense.append(weights)
    first, last = dense
    flat = hidden.reshape(len(hidden), -1)  # frequency by frequency, all channels of each
    return np.maximum(flat @ first["kernel"] + first["bias"], 0) @ last["kernel"] + last["bias"]


def _convolution(inputs: Array, kernel: Array) -> Array:
    padded = np.pad(inputs, ((1, 1), (1, 1), (0, 0)))
    frames, bins, _ = inputs.shape
    shifted = itertools.product(range(3), range(3))
    return sum(padded[t : t + frames, f : f + bins] @ kernel[t, f] for t, f in shifted)


def _norm(inputs: Array, weights: dict[str, Array]) -> Array:
    scale = weights["gamma"] / np.sqrt(weights["moving_variance"] + NORM_EPSILON)
    return (inputs - weights["moving_mean"]) * scale + weights["beta"]


def _pool(inputs: Array) -> Array:
    frames, bins, channels = inputs.shape
    pairs = inputs[: frames // 2 * 2, : bins // 2 * 2].reshape(frames // 2, 2, bins // 2, 2, channels)
    return pairs.max(axis=(1, 3))


def dictionary_text(syllables: list[str]) -> str:
    """Return a dict.txt with these syllables."""
    return "".join(f"{syllable}\t字\n" for syllable in syllables)


def syllables_of(count: int) -> list[str]:
    """Return a list of syllables in which, as in ASRT's, `heng5` is twice, at its lines 388 and 1369.

    Args:
        count: number of lines, at least 1369.
    """
    from asr.base.text.pinyin import mandarin_syllables

    syllables = [syllable for syllable in mandarin_syllables() if syllable != "heng5"][: count - 2]
    syllables.insert(387, "heng5")
    syllables.insert(1368, "heng5")
    return syllables
