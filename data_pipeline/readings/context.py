"""Choose the readings of polyphonic hanzi by a small network over the hanzi around them.

context.npz holds the network; benchmarks/polyphones.py makes it. The polyphone and six hanzi on each side are
looked up in one table of embeddings, seven pairs and triples of neighbours in another by their hash; a hidden
layer, gated by the polyphone, scores the polyphone's readings. The dictionary's reading is replaced where
another one's score is higher by a margin of the polyphone; few polyphones are replaced inside longer words.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from asr.base.hanzi_text import ONE_HANZI, is_hanzi

Float32 = npt.NDArray[np.float32]
Int64 = npt.NDArray[np.int64]

MODEL = Path(__file__).with_name("context.npz")
AROUND = 6  # hanzi on each side
OUTSIDE_ID, PAUSE_ID, UNKNOWN_ID = 0, 1, 2
NUM_SPECIAL_IDS = 3
# places of hanzi, relative to the polyphone, that are looked up together
NEIGHBOURS = ((-1, 0), (0, 1), (-2, -1), (1, 2), (-1, 0, 1), (-2, -1, 0), (0, 1, 2))
MULTIPLIER, ID_MULTIPLIER, OFFSET, MODULUS = 1000003, 7919, 12345, 2147483647  # of the hash
FIRST, SECOND = ([AROUND + offsets[i] for offsets in NEIGHBOURS] for i in (0, 1))
THIRD = [AROUND + offsets[2] for offsets in NEIGHBOURS if len(offsets) == 3]  # these are the last
KINDS = MULTIPLIER * np.arange(1, len(NEIGHBOURS) + 1)[:, None]
AT_ONCE = 4096  # polyphones
NO_READING = -1
NEVER = float("inf")  # a margin
IMPOSSIBLE = np.float32(-1e9)


def encode(text: str, ids: Mapping[str, int]) -> tuple[list[int], list[int]]:
    """Return the ids of a text's hanzi and pauses, and the index of each hanzi among them.

    White space within a line is ignored; a pause is a run of anything else but hanzi.

    Args:
        text: anything.
        ids: of the hanzi that the network knows.
    """
    found: list[int] = [OUTSIDE_ID] * AROUND
    places: list[int] = []
    for char in text:
        if known := ids.get(char):
            places.append(len(found))
            found.append(known)
        elif is_hanzi(char):
            places.append(len(found))
            found.append(UNKNOWN_ID)
        elif (char == "\n" or not char.isspace()) and places and found[-1] != PAUSE_ID:
            found.append(PAUSE_ID)
    return found + [OUTSIDE_ID] * AROUND, places


def windows_around(ids: Sequence[int], centres: Int64) -> Int64:
    """Return the ids around each centre, (N, 2 AROUND + 1)."""
    windows: Int64 = np.array(ids, np.int64)[centres[:, None] + np.arange(-AROUND, AROUND + 1)]
    return windows


def hashes(windows: Int64, num_rows: int) -> Int64:
    """Return the row of each pair or triple of neighbours in a table, (kinds of neighbours, N)."""
    columns = windows.T * ID_MULTIPLIER + OFFSET  # (2 AROUND + 1, N)
    hashed = (KINDS + columns[FIRST]) % MODULUS
    hashed = (hashed * MULTIPLIER + columns[SECOND]) % MODULUS
    triples = hashed[-len(THIRD) :]
    triples[:] = (triples * MULTIPLIER + columns[THIRD]) % MODULUS
    rows: Int64 = hashed % num_rows
    return rows


class Proposal(NamedTuple):
    """Holds a reading that is better than the dictionary's.

    Attributes:
        place: of the hanzi among the text's hanzi.
        hanzi: the polyphone.
        reading: its toned syllable.
        gain: how much higher its score is; infinite if the network does not know the dictionary's reading.
    """

    place: int
    hanzi: str
    reading: str
    gain: float


class ContextModel:
    """Scores the readings of polyphones in their context.

    Args:
        path: made by benchmarks/polyphones.py.
    """

    def __init__(self, path: Path = MODEL) -> None:
        with np.load(path) as stored:
            arrays = {name: stored[name] for name in stored.files}
        self._ids = {char: index for index, char in enumerate(str(arrays["hanzi"]), start=NUM_SPECIAL_IDS)}
        self._polyphones = {char: index for index, char in enumerate(str(arrays["polyphones"]))}
        self._margins: list[tuple[float, float]] = [
            tuple(row) for row in arrays["margins"].tolist()
        ]  # (P, 2): alone, in a word
        self._embeddings = _floats(arrays, "embeddings")  # (hanzi, D)
        self._hidden = _floats(arrays, "hidden").reshape(2 * AROUND + 1, self._embeddings.shape[1], -1)
        self._hidden_bias = arrays["hidden_bias"]  # (H,)
        self._pairs = _floats(arrays, "pairs")  # (rows, E)
        self._pairs_hidden = _floats(arrays, "pairs_hidden").reshape(
            len(NEIGHBOURS), self._pairs.shape[1], -1
        )
        self._gates = _floats(arrays, "gates")  # (P, H)
        names = str(arrays["readings"]).split()
        candidates = arrays["candidates"]  # (P, C) of readings, padded by NO_READING
        self._candidates = [[names[one] for one in row if one != NO_READING] for row in candidates]
        used = np.maximum(candidates, 0)
        self._output = _floats(arrays, "output")[used]  # (P, C, H)
        self._output_bias = np.where(candidates == NO_READING, IMPOSSIBLE, arrays["output_bias"][used])

    def __contains__(self, char: str) -> bool:
        return char in self._polyphones

    def corrections(
        self, text: str, readings: Sequence[str], in_words: Sequence[bool], decided: Collection[int] = ()
    ) -> Iterator[tuple[int, str]]:
        """Yield the readings that the context changes, with the place of their hanzi among the text's hanzi.

        Args:
            text: hanzi and anything else; see `encode`.
            readings: of the hanzi, by the dictionary.
            in_words: for each hanzi, whether it is part of a longer word of the dictionary.
            decided: places of hanzi whose readings stay as they are.
        """
        for proposal in self.proposals(text, readings, in_words, decided):
            if proposal.gain > self._margin(proposal.hanzi, in_words[proposal.place]):
                yield proposal.place, proposal.reading

    def proposals(
        self, text: str, readings: Sequence[str], in_words: Sequence[bool], decided: Collection[int] = ()
    ) -> Iterator[Proposal]:
        """Yield the best readings that are not the dictionary's; the arguments are those of `corrections`."""
        ids, centres = encode(text, self._ids)
        hanzi = ONE_HANZI.findall(text)
        places = [
            place
            for place, char in enumerate(hanzi)
            if char in self._polyphones
            and place not in decided
            and self._margin(char, in_words[place]) < NEVER
        ]
        for begin in range(0, len(places), AT_ONCE):
            some = places[begin : begin + AT_ONCE]
            windows = windows_around(ids, np.array([centres[place] for place in some]))
            polyphones = [self._polyphones[hanzi[place]] for place in some]
            scores = self._scores(windows, np.array(polyphones))  # (N, C)
            for place, polyphone, of_readings in zip(some, polyphones, scores, strict=True):
                candidates = self._candidates[polyphone]
                best = int(of_readings.argmax())
                current = readings[place]
                if candidates[best] == current or (current not in candidates and in_words[place]):
                    continue
                known = of_readings[candidates.index(current)] if current in candidates else -NEVER
                yield Proposal(place, hanzi[place], candidates[best], float(of_readings[best] - known))

    def _margin(self, polyphone: str, in_word: bool) -> float:
        return self._margins[self._polyphones[polyphone]][in_word]

    def _scores(self, windows: Int64, polyphones: Int64) -> Float32:
        """Return the score of each candidate, (N, C), very low where a polyphone has fewer."""
        # a product for each place is small enough that NumPy's library does not start threads for a sentence
        hidden = np.matmul(self._embeddings[windows.T], self._hidden).sum(0) + self._hidden_bias  # (N, H)
        rows = hashes(windows, len(self._pairs))
        hidden += np.matmul(self._pairs[rows], self._pairs_hidden).sum(0)
        hidden = np.maximum(hidden, 0) * (1 + self._gates[polyphones])
        scores: Float32 = np.matmul(self._output[polyphones], hidden[:, :, None])[:, :, 0]
        return scores + self._output_bias[polyphones]


@functools.cache
def context_model() -> ContextModel:
    """Return the network that comes along, loaded once."""
    return ContextModel()


def quantized(values: Float32) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.float16]]:
    """Return rows of weights as 8-bit integers with a scale for each row."""
    scales = np.maximum(np.abs(values).max(1) / 127, 1e-7).astype(np.float16)
    return np.round(values / scales.astype(np.float32)[:, None]).clip(-127, 127).astype(np.int8), scales


def _floats(arrays: dict[str, npt.NDArray[np.generic]], name: str) -> Float32:
    return arrays[name].astype(np.float32) * arrays[f"{name}_scales"].astype(np.float32)[:, None]
