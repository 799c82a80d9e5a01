"""Choose the readings of polyphonic hanzi by a small network over the hanzi around them.

context.npz holds the network; tools/polyphones.py makes it. The polyphone and six hanzi on each side are
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

from asr.base.text.hanzi_text import ONE_HANZI, is_hanzi

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
AT_ONCE = 16  # polyphones: their products are small enough that NumPy's library starts no threads
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


def windows_around(ids: Sequence[int] | Int64, centres: Int64) -> Int64:
    """Return the ids around each centre, (N, 2 AROUND + 1)."""
    windows: Int64 = np.asarray(ids, np.int64)[centres[:, None] + np.arange(-AROUND, AROUND + 1)]
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


class Draft(NamedTuple):
    """The readings of a text's hanzi before the context is asked.

    Attributes:
        syllables: toned, one for each hanzi.
        in_words: for each hanzi, whether it is part of a longer word of the dictionary.
        decided: places of hanzi whose readings rules decided.
    """

    syllables: Sequence[str]
    in_words: Sequence[bool]
    decided: Collection[int]


class Proposal(NamedTuple):
    """A reading that is better than the dictionary's.

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
    """A model of the readings of polyphones in their context.

    Args:
        path: made by tools/polyphones.py.
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

    def corrections(self, texts: Sequence[str], drafts: Sequence[Draft]) -> Iterator[tuple[int, int, str]]:
        """Yield the readings that the context changes: index of the text, place of the hanzi, syllable."""
        for index, proposal in self.proposals(texts, drafts):
            if proposal.gain > self._margin(proposal.hanzi, drafts[index].in_words[proposal.place]):
                yield index, proposal.place, proposal.reading

    def proposals(self, texts: Sequence[str], drafts: Sequence[Draft]) -> Iterator[tuple[int, Proposal]]:
        """Yield the best readings that are not the dictionary's, with the index of their text."""
        ids: list[int] = []
        asked: list[tuple[int, int, str]] = []  # text, place, hanzi
        centres: list[int] = []
        for index, (text, draft) in enumerate(zip(texts, drafts, strict=True)):
            hanzi = ONE_HANZI.findall(text)
            if places := [place for place, char in enumerate(hanzi) if self._is_open(char, place, draft)]:
                encoded, of_hanzi = encode(text, self._ids)
                centres += [len(ids) + of_hanzi[place] for place in places]
                asked += [(index, place, hanzi[place]) for place in places]
                ids += encoded
        known_ids = np.array(ids, np.int64)
        for begin in range(0, len(asked), AT_ONCE):
            some = asked[begin : begin + AT_ONCE]
            polyphones = [self._polyphones[char] for *_, char in some]
            windows = windows_around(known_ids, np.array(centres[begin : begin + AT_ONCE]))
            scores = self._scores(windows, np.array(polyphones))  # (N, C)
            bests = scores.argmax(1).tolist()
            for (index, place, char), polyphone, best, row in zip(
                some, polyphones, bests, scores.tolist(), strict=True
            ):
                candidates = self._candidates[polyphone]
                current = drafts[index].syllables[place]
                if candidates[best] == current:
                    continue
                if current in candidates:
                    gain = row[best] - row[candidates.index(current)]
                elif drafts[index].in_words[place]:
                    continue
                else:
                    gain = NEVER
                yield index, Proposal(place, char, candidates[best], gain)

    def _is_open(self, char: str, place: int, draft: Draft) -> bool:
        """Return whether the context may change a hanzi's reading."""
        return (
            char in self._polyphones
            and place not in draft.decided
            and self._margin(char, draft.in_words[place]) < NEVER
        )

    def _margin(self, polyphone: str, in_word: bool) -> float:
        return self._margins[self._polyphones[polyphone]][in_word]

    def _scores(self, windows: Int64, polyphones: Int64) -> Float32:
        """Return the score of each candidate, (N, C), very low where a polyphone has fewer."""
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
