"""Label the sentences of texts, and choose which to say so that every toned syllable occurs often enough."""

from __future__ import annotations

import functools
import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from asr.base.errors import UserError
from asr.base.system.files import read_lines, whole_file
from asr.base.work import OnProgress, Work, ignore_progress, reported
from data_pipeline.labels.errors import UnlabelledError
from data_pipeline.labels.from_text import label_all
from data_pipeline.labels.normalization import Normalizer, has_numbers
from data_pipeline.recordings.kokoro.model import MAX_SYMBOLS
from data_pipeline.recordings.kokoro.phonemes import spelled
from data_pipeline.text.segmented_text import map_in, processes
from data_pipeline.text.sentences import sentence_key
from data_pipeline.text.whole_sentences import whole_sentences

MOST_SENTENCES = 100_000  # drawn from larger texts
AT_ONCE = 1000
REPORT_EVERY = 5000
CANDIDATES = 30  # of which the one that teaches most is said
ENOUGH = 50  # occurrences of a syllable, after which it counts no more

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Sentence:
    """A sentence to say.

    Attributes:
        text: as spoken, with punctuation.
        tokens: its toned syllables, one for each hanzi.
    """

    text: str
    tokens: tuple[str, ...]


@dataclass(frozen=True)
class SentencePool:
    """The different sentences of texts, in an order drawn by a seed.

    Attributes:
        sentences: that can be said.
        left_out: number of the others, by reason.
    """

    sentences: Sequence[Sentence]
    left_out: Counter[str]

    @classmethod
    def read(cls, paths: Sequence[str], seed: int, on_progress: OnProgress = ignore_progress) -> SentencePool:
        """Return the sentences of texts with their labels; of many, those that the seed draws.

        Args:
            paths: see `whole_sentences`.
            seed: of the draw and of the order.
            on_progress: called as sentences are read and labelled.

        Raises:
            UserError: a text cannot be read, or none has a sentence that can be said.
        """
        texts = _drawn(whole_sentences(paths), seed, on_progress)
        batches = [texts[begin : begin + AT_ONCE] for begin in range(0, len(texts), AT_ONCE)]
        left_out: Counter[str] = Counter()
        sentences: list[Sentence] = []
        with processes(sum(map(len, texts))) as children:
            labelled = map_in(children, _labelled, batches)
            for batch in reported(labelled, "reading hanzi", "thousand sentences", on_progress, len(batches)):
                left_out.update(one for one in batch if isinstance(one, str))
                sentences += [one for one in batch if isinstance(one, Sentence)]
        if not sentences:
            reasons = "; ".join(f"{count} with: {reason}" for reason, count in left_out.most_common())
            raise UserError(
                f"{', '.join(paths[:3])}: expected sentences in hanzi, found none that can be said"
                + (f" ({reasons})" if reasons else "; a sentence has 2 to 36 hanzi")
            )
        return cls(sentences, left_out)

    @classmethod
    def load(cls, path: Path) -> SentencePool:
        """Return the sentences that `save` has written.

        Raises:
            UserError: the file cannot be read, or is damaged.
        """
        rows = [line.split("\t") for line in read_lines(path, "list of sentences")]
        if not rows or any(len(row) != 2 for row in rows):
            raise UserError(f"{path}: damaged; choose another folder")
        return cls([Sentence(text, tuple(tokens.split())) for text, tokens in rows], Counter())

    def save(self, path: Path) -> None:
        """Write each sentence with its labels in a line."""
        with whole_file(path, "list of sentences") as file:
            for one in self.sentences:
                file.write(f"{one.text}\t{' '.join(one.tokens)}\n".encode(errors="backslashreplace"))

    def choose(self, seed: int) -> Iterator[Sentence]:
        """Yield sentences without end, each once before any is repeated.

        Of some drawn at random, it is the one with the most syllables that have not been said often enough,
        for its length. So sentences are as varied as the texts, and the oddest do not come first.
        """
        rng = np.random.default_rng(seed)
        ids = {token: index for index, token in enumerate({t: 0 for s in self.sentences for t in s.tokens})}
        syllables = [np.array([ids[token] for token in one.tokens]) for one in self.sentences]
        counts = np.zeros(len(ids), np.int64)
        while True:
            unsaid = np.arange(len(self.sentences))
            for num_unsaid in range(len(unsaid), 0, -1):
                drawn = rng.integers(num_unsaid, size=min(CANDIDATES, num_unsaid))
                best = drawn[np.argmax([_gain(syllables[index], counts) for index in unsaid[drawn]])]
                chosen = int(unsaid[best])
                unsaid[best] = unsaid[num_unsaid - 1]
                np.add.at(counts, syllables[chosen], 1)
                yield self.sentences[chosen]


def _gain(syllables: Numbers, counts: Numbers) -> float:
    """Return what a sentence teaches for its length; the square root prefers longer ones a little."""
    said = counts[syllables]
    gain: float = np.where(said < ENOUGH, 1 / (1 + said), 0).sum() / len(syllables) ** 0.5
    return gain


def _drawn(sentences: Iterable[str], seed: int, on_progress: OnProgress) -> list[str]:
    """Return different sentences in the order of numbers that the seed gives them, the first of very many."""
    ranked: dict[bytes, str] = {}
    for num_read, sentence in enumerate(sentences):
        if num_read % REPORT_EVERY == 0:
            on_progress(Work("reading texts", num_read, None, "sentences"))
        key = f"{seed} {sentence_key(sentence, ())}".encode(errors="backslashreplace")
        ranked.setdefault(hashlib.blake2b(key, digest_size=8).digest(), sentence)
        if len(ranked) >= 2 * MOST_SENTENCES:
            ranked = dict(sorted(ranked.items())[:MOST_SENTENCES])
    return [sentence for _, sentence in sorted(ranked.items())[:MOST_SENTENCES]]


def _labelled(texts: Sequence[str]) -> list[Sentence | str]:
    """Return each text as a sentence, or why it cannot be said."""
    spoken = [_written_out(text) if has_numbers(text) else text for text in texts]
    return [
        labels.reason if isinstance(labels, UnlabelledError) else _sayable(text, labels)
        for text, labels in zip(spoken, label_all(spoken, "syllables"), strict=True)
    ]


def _sayable(text: str, tokens: tuple[str, ...]) -> Sentence | str:
    text = " ".join(text.split())  # in one line
    try:
        spelling = spelled(text, tokens)
    except UserError:
        return "syllables that Kokoro cannot say"
    return Sentence(text, tokens) if len(spelling) <= MAX_SYMBOLS else "too much to say at once"


def _written_out(text: str) -> str:
    """Return a text with its numbers as spoken; unchanged if that is not known, or needs an extra."""
    normalizer = _normalizer()
    return normalizer.if_known(text) if normalizer else text


@functools.cache
def _normalizer() -> Normalizer | None:
    try:
        return Normalizer()
    except UserError:
        return None
