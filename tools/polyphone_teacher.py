"""Computes the probabilities that g2pM gives to readings, for many sentences at once.

g2pM (Park and Lee, 2020, arXiv:2004.03136; Apache-2.0) reads a sentence with an LSTM in each direction and
two dense layers. Its package computes one sentence at a time; this is the same computation in batches.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from asr.base.text.hanzi_text import is_hanzi
from benchmarks.accuracy.labels import spelled

Float32 = npt.NDArray[np.float32]
BEGIN, END = "시", "끝"  # as g2pM marks the ends of a sentence
UNKNOWN = 1


class Teacher:
    """A reader of polyphones, the same as g2pM.

    Attributes:
        readings: toned syllables, in the order of the probabilities.
        polyphones: hanzi with several readings in g2pM's dictionary.
    """

    def __init__(self) -> None:
        import g2pM

        folder = Path(g2pM.__file__).parent
        weights, self._ids, classes, dictionary = (
            pickle.loads((folder / name).read_bytes())
            for name in ("np_ckpt.pkl", "char2idx.pkl", "class2idx.pkl", "digest_cedict.pkl")
        )
        self.readings = [spelled(name) for name in sorted(classes, key=classes.__getitem__)]
        self.polyphones = {char for char, found in dictionary.items() if len(found) > 1 and is_hanzi(char)}
        self._embeddings = weights["embedding.weight"]
        self._directions = [
            (
                weights[f"lstm.weight_ih_l0{end}"].T,
                weights[f"lstm.weight_hh_l0{end}"].T,
                weights[f"lstm.bias_ih_l0{end}"] + weights[f"lstm.bias_hh_l0{end}"],
            )
            for end in ("", "_reverse")
        ]
        self._dense = [
            (weights[f"logit_layer.{i}.weight"].T, weights[f"logit_layer.{i}.bias"]) for i in (0, 2)
        ]

    def __call__(self, texts: Sequence[str], places: Sequence[Sequence[int]]) -> Float32:
        """Return the probabilities of all readings, (N, K), of the hanzi at places of each text."""
        rows = [
            [self._ids[BEGIN], *(self._ids.get(char, UNKNOWN) for char in text), self._ids[END]]
            for text in texts
        ]
        lengths = np.array([len(row) for row in rows])
        ids = np.zeros((len(rows), lengths.max()), np.int64)
        for row, of_text in zip(ids, rows, strict=True):
            row[: len(of_text)] = of_text
        steps = np.arange(ids.shape[1])
        backwards = np.where(steps < lengths[:, None], lengths[:, None] - 1 - steps, steps)
        forward = self._lstm(ids, *self._directions[0])
        reverse = self._lstm(np.take_along_axis(ids, backwards, 1), *self._directions[1])
        hidden = np.concatenate([forward, np.take_along_axis(reverse, backwards[:, :, None], 1)], 2)
        text_of = np.repeat(np.arange(len(texts)), [len(of_text) for of_text in places])
        values = hidden[text_of, np.concatenate([np.array(p, np.int64) for p in places]) + 1]
        (first, first_bias), (last, last_bias) = self._dense
        logits = np.maximum(values @ first + first_bias, 0) @ last + last_bias
        probabilities: Float32 = np.exp(logits - logits.max(1, keepdims=True))
        return probabilities / probabilities.sum(1, keepdims=True)

    def _lstm(
        self, ids: npt.NDArray[np.int64], inwards: Float32, recurrent: Float32, bias: Float32
    ) -> Float32:
        inputs = self._embeddings[ids] @ inwards + bias  # (B, T, 4 H)
        size = recurrent.shape[0]
        output = np.zeros((len(ids), size), np.float32)
        cell = np.zeros_like(output)
        outputs = np.empty((*ids.shape, size), np.float32)
        for step in range(ids.shape[1]):
            gates = inputs[:, step] + output @ recurrent
            keep_in, forget, candidate, keep_out = np.split(gates, 4, 1)
            cell = sigmoid(forget) * cell + sigmoid(keep_in) * np.tanh(candidate)
            output = sigmoid(keep_out) * np.tanh(cell)
            outputs[:, step] = output
        return outputs


def sigmoid(values: Float32) -> Float32:
    return np.float32(1) / (1 + np.exp(-values))
