"""Turns the examples of polyphone_examples.py into arrays, with g2pM's readings where nobody knows better."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from tqdm import tqdm

from asr.base.text.hanzi_text import is_hanzi
from asr.base.text.pinyin import syllable_of_reading
from data_pipeline.labels.readings.context import AROUND, NUM_SPECIAL_IDS, encode, windows_around
from tools.polyphone_examples import Example
from tools.polyphone_teacher import Teacher

Float32 = npt.NDArray[np.float32]

MAX_OF_EACH = 6000  # examples of a polyphone, from sentences and words
MIN_COUNT = 3  # of a hanzi that the network knows
MIN_SHARE = 4e-4  # of a polyphone's readings, else it is not a candidate
NUM_KEPT = 4  # readings of an example: the known one and g2pM's best
WITH_PAUSES = 0.6  # of the examples; transcripts of speech have none
AT_ONCE = 512  # examples


class Instances(NamedTuple):
    """The examples as arrays.

    Attributes:
        hanzi: that the network knows, by id.
        counts: how often each occurs in sentences.
        windows: (N, 2 AROUND + 1) ids of hanzi.
        readings: (N, NUM_KEPT) indices of readings.
        shares: (N, NUM_KEPT) their probabilities.
        weights: (N,) how much an example counts.
        parts: (N,) of CPP; `NOT_CPP` for other sources.
    """

    hanzi: str
    counts: list[int]
    windows: npt.NDArray[np.int32]
    readings: npt.NDArray[np.int32]
    shares: Float32
    weights: Float32
    parts: npt.NDArray[np.int32]

    def without(self, parts: Collection[int]) -> Instances:
        """Return the examples without some parts of CPP."""
        kept = ~np.isin(self.parts, list(parts))
        arrays = {
            name: getattr(self, name)[kept] for name in ("windows", "readings", "shares", "weights", "parts")
        }
        return self._replace(**arrays)

    @classmethod
    def load(cls, path: Path) -> Instances:
        with np.load(path) as stored:
            arrays = {name: stored[name] for name in cls._fields}
        return cls(**{**arrays, "hanzi": str(arrays["hanzi"]), "counts": arrays["counts"].tolist()})


def to_instances(
    examples: Sequence[tuple[Example, float]], counts: Counter[str], teacher: Teacher
) -> Instances:
    """Return the examples' windows with the readings known and g2pM's.

    Args:
        examples: with their weights.
        counts: how often each hanzi occurs in sentences.
        teacher: g2pM.
    """
    in_all = Counter(char for example, _ in examples for char in example.text if is_hanzi(char))
    hanzi = "".join(char for char, count in in_all.most_common() if count >= MIN_COUNT)
    ids = {char: index for index, char in enumerate(hanzi, NUM_SPECIAL_IDS)}
    classes = {reading: index for index, reading in enumerate(teacher.readings)}
    total = Counter(example.text[place] for example, _ in examples for place in example.places)
    chooser = random.Random(2)
    columns: tuple[list[object], ...] = ([], [], [], [], [])
    some = []
    for example, weight in sorted(examples, key=lambda pair: len(pair[0].text)):
        shares_of = [MAX_OF_EACH / total[example.text[place]] for place in example.places]
        wanted = [weight > 1 or chooser.random() < share for share in shares_of]
        if any(wanted):
            some.append((example, weight, list(itertools.compress(example.places, wanted))))
    for begin in tqdm(range(0, len(some), AT_ONCE), desc="g2pM"):
        chosen = some[begin : begin + AT_ONCE]
        shares = iter(teacher([example.text for example, _, _ in chosen], [places for *_, places in chosen]))
        for example, weight, places in chosen:
            windows = windows_of(example.text, places, ids, with_pauses=chooser.random() < WITH_PAUSES)
            for place, window in zip(places, windows, strict=True):
                row = (window, *target(example.known.get(place), next(shares), classes), weight, example.part)
                for column, value in zip(columns, row, strict=True):
                    column.append(value)
    types = (np.int32, np.int32, np.float32, np.float32, np.int32)
    arrays = (np.array(column, kind) for column, kind in zip(columns, types, strict=True))
    return Instances(hanzi, [counts[char] for char in hanzi], *arrays)


def windows_of(
    text: str, places: Sequence[int], ids: Mapping[str, int], *, with_pauses: bool
) -> npt.NDArray[np.int64]:
    """Return the windows around some hanzi of a text, (N, 2 AROUND + 1)."""
    hanzi = [place for place, char in enumerate(text) if is_hanzi(char)]
    encoded, centres = encode(text if with_pauses else "".join(text[place] for place in hanzi), ids)
    return windows_around(encoded, np.array([centres[hanzi.index(place)] for place in places]))


def target(
    known: tuple[str, float] | None, shares: Float32, classes: Mapping[str, int]
) -> tuple[list[int], list[float]]:
    """Return the readings to learn from one example, and their shares, which add up to 1."""
    best = np.argsort(-shares)[: NUM_KEPT - 1]
    readings, of_readings = [0, *best.tolist()], [0.0, *(shares[best] / shares[best].sum()).tolist()]
    if known and known[0] in classes:
        readings[0] = classes[known[0]]
        of_readings = [known[1], *((1 - known[1]) * share for share in of_readings[1:])]
    return readings, of_readings


def candidates_of(instances: Instances, readings: Sequence[str]) -> npt.NDArray[np.bool_]:
    """Return which readings each hanzi may have, (hanzi, K): seen and in pypinyin's dictionary."""
    from pypinyin.pinyin_dict import pinyin_dict

    seen = np.zeros((len(instances.hanzi) + NUM_SPECIAL_IDS, len(readings)))
    centres = np.repeat(instances.windows[:, AROUND], NUM_KEPT)
    np.add.at(
        seen, (centres, instances.readings.ravel()), (instances.shares * instances.weights[:, None]).ravel()
    )
    allowed = (seen > 0) & (seen >= MIN_SHARE * seen.sum(1, keepdims=True))
    for i, char in enumerate(instances.hanzi, NUM_SPECIAL_IDS):
        if allowed[i].any():
            in_dictionary = {syllable_of_reading(one) for one in pinyin_dict[ord(char)].split(",")}
            in_dictionary |= {f"{one[:-1]}5" for one in in_dictionary}
            allowed[i] &= [reading in in_dictionary for reading in readings]
    return allowed
