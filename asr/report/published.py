"""Makes the report's table of published figures, with the run's own figure above them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from asr.evaluation.published.figures import Figure, PublishedSet
from asr.evaluation.scores import Score, Settings


@dataclass(frozen=True)
class PublishedTable:
    """The figures of others on a test set.

    Attributes:
        of: the set and its figures.
        rate: of this run in percent, with two digits; empty without a rate by the set's unit.
        decoding: how this run was decoded.
        num_utterances: of this report.
    """

    of: PublishedSet
    rate: str
    decoding: str
    num_utterances: int

    @property
    def is_part(self) -> bool:
        """Return whether this report is of fewer or more utterances than the figures of others."""
        return self.of.num_utterances not in (0, self.num_utterances)

    @property
    def figures(self) -> Sequence[Figure]:
        """Return the figures, the lowest error first."""
        return sorted(self.of.figures, key=lambda figure: float(figure.rate))


def published_table(of: PublishedSet, decoder: Settings, scores: Sequence[Score]) -> PublishedTable:
    """Return the table of a test set, beside the error rates of an evaluation."""
    rates = [f"{100 * score.total.rate:.2f}" for score in scores if score.name == of.unit]
    converts = of.unit == "character" != scores[0].name
    return PublishedTable(of, "".join(rates[:1]), decoding(decoder, converts), len(scores[0].edits))


def decoding(decoder: Settings, converts: bool = False) -> str:
    """Return how text was decoded, in the words of the published figures.

    Args:
        decoder: its settings.
        converts: whether the hanzi are made from syllables, by a language model.
    """
    beam = decoder.get("beam", 1)
    if beam == 1:
        search, extras = "CTC greedy", []
    else:
        search = f"CTC beam of {beam}"
        extras = [key.replace("_", " ") for key in ("language_model", "hot_words") if decoder.get(key)]
    return ", ".join([search, *extras, *(["hanzi from syllables by a language model"] if converts else [])])
