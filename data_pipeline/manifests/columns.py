"""What planning needs of many utterances, in arrays: durations, random keys, labels, corpora."""

from __future__ import annotations

import hashlib
from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from asr.base.types import Utterance
from data_pipeline.manifests.rows import FOUND_AT_ONCE, Rows, looked_up, narrow

KEY_BYTES = 8


def utterance_keys(ids: Iterable[str]) -> npt.NDArray[np.uint64]:
    """Return a number for each id, (N,), the same in any process."""
    return _as_keys(b"".join(map(_key, ids)))


def _key(utterance_id: str) -> bytes:
    name = utterance_id.encode(errors="backslashreplace")
    return hashlib.blake2b(name, digest_size=KEY_BYTES).digest()


def _as_keys(digests: bytes | bytearray) -> npt.NDArray[np.uint64]:
    return np.frombuffer(digests, "<u8").astype(np.uint64)


@dataclass(frozen=True, eq=False)
class Columns:
    """Some fields of utterances, in arrays: a hundred bytes an utterance.

    Attributes:
        durations_s: (N,).
        keys: of the ids, see `utterance_keys`, (N,).
        tokens: of each utterance, as indices of `token_names`.
        token_names: all tokens of these utterances, and perhaps more.
        corpora: of each utterance, as an index of `corpus_names`, (N,).
        corpus_names: names of corpora, such as "" for a single one.
        by_machine: whether a model labelled the utterance, (N,).
    """

    durations_s: npt.NDArray[np.float64]
    keys: npt.NDArray[np.uint64]
    tokens: Rows
    token_names: Sequence[str]
    corpora: npt.NDArray[np.int32]
    corpus_names: Sequence[str]
    by_machine: npt.NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.keys)

    @classmethod
    def of(cls, utterances: Iterable[Utterance]) -> Columns:
        """Return the columns of utterances."""
        growing = GrowingColumns()
        for one in utterances:
            growing.append(one.id, one.duration_s, one.tokens, one.corpus, one.labelled_by is not None)
        return growing.columns()

    def take(self, indices: npt.NDArray[np.integer] | slice) -> Columns:
        """Return the columns of some of the utterances."""
        tokens = self.tokens[indices] if isinstance(indices, slice) else self.tokens.take(indices)
        return Columns(
            self.durations_s[indices],
            self.keys[indices],
            tokens,
            self.token_names,
            self.corpora[indices],
            self.corpus_names,
            self.by_machine[indices],
        )

    @property
    def duration_s(self) -> float:
        """Return the seconds of all utterances, added in their order."""
        return added_in_order(self.durations_s)

    def tokens_in_use(self) -> set[str]:
        """Return the tokens that these utterances have."""
        used = np.zeros(len(self.token_names), np.bool_)
        for begin in range(0, len(self.tokens.values), FOUND_AT_ONCE):
            used[self.tokens.values[begin : begin + FOUND_AT_ONCE]] = True
        return {name for name, is_used in zip(self.token_names, used, strict=True) if is_used}

    def token_counts(self) -> Counter[str]:
        """Return how often each token occurs, for those that do."""
        counts = np.zeros(len(self.token_names), np.int64)
        for begin in range(0, len(self.tokens.values), FOUND_AT_ONCE):
            values = self.tokens.values[begin : begin + FOUND_AT_ONCE]
            counts += np.bincount(values, minlength=len(counts))
        pairs = zip(self.token_names, counts.tolist(), strict=True)
        return Counter({name: count for name, count in pairs if count})

    def first_with(self, token: str) -> int:
        """Return the index of the first utterance that has a token."""
        is_token = self.tokens.values == self.token_names.index(token)
        return int(np.searchsorted(np.cumsum(self.tokens.lengths), is_token.argmax(), "right"))

    def corpora_in_use(self) -> list[str]:
        """Return the names of the corpora of these utterances, in the order in which they first appear."""
        used, first = np.unique(self.corpora, return_index=True)
        return [self.corpus_names[index] for index in used[np.argsort(first)]]


def added_in_order(values: npt.NDArray[np.float64]) -> float:
    """Return a sum that is the same, to the last bit, as that of a loop."""
    return float(np.cumsum(values)[-1]) if len(values) else 0.0


class GrowingColumns:
    """Columns to which utterances are added one after the other."""

    def __init__(self) -> None:
        self._durations_s, self._corpora, self._by_machine = array("d"), array("i"), array("b")
        self._keys = bytearray()
        self._tokens, self._begins = array("i"), array("q", [0])
        self._token_names, self._corpus_names = _Numbers(), _Numbers()

    def append(
        self, utterance_id: str, duration_s: float, tokens: Iterable[str], corpus: str, by_machine: bool
    ) -> None:
        """Add an utterance."""
        self._durations_s.append(duration_s)
        self._keys += _key(utterance_id)
        self._tokens.extend(map(self._token_names.__getitem__, tokens))
        self._begins.append(len(self._tokens))
        self._corpora.append(self._corpus_names[corpus])
        self._by_machine.append(by_machine)

    def columns(self) -> Columns:
        """Return the columns of the utterances added; no more can be added then."""
        return Columns(
            np.frombuffer(self._durations_s),
            _as_keys(self._keys),
            Rows(
                narrow(np.frombuffer(self._tokens, np.int32), len(self._token_names)),
                np.frombuffer(self._begins, np.int64),
            ),
            list(self._token_names),
            np.frombuffer(self._corpora, np.int32),
            list(self._corpus_names),
            np.frombuffer(self._by_machine, np.bool_),
        )


def joined_columns(parts: Sequence[Columns]) -> Columns:
    """Return the columns of several sets of utterances, one after the other."""
    token_names, corpus_names = _Numbers(), _Numbers()
    tables = [np.array([token_names[name] for name in part.token_names], np.int32) for part in parts]
    new_tokens = [
        looked_up(narrow(table, len(token_names)), part.tokens.values)
        for table, part in zip(tables, parts, strict=True)
    ]
    corpora = [
        np.array([corpus_names[name] for name in part.corpus_names], np.int32)[part.corpora] for part in parts
    ]
    lengths = np.concatenate([part.tokens.lengths for part in parts])
    begins = np.concatenate([[0], np.cumsum(lengths)])
    return Columns(
        np.concatenate([part.durations_s for part in parts]),
        np.concatenate([part.keys for part in parts]),
        Rows(np.concatenate(new_tokens), begins),
        list(token_names),
        np.concatenate(corpora),
        list(corpus_names),
        np.concatenate([part.by_machine for part in parts]),
    )


class _Numbers(dict[str, int]):
    """Numbers of names, in the order in which they are first asked for."""

    def __missing__(self, name: str) -> int:
        self[name] = number = len(self)
        return number
