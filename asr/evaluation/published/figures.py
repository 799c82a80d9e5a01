"""Find the published error rates of the test set that an evaluation is of.

A test set is recognized by its manifest: `asr prepare` writes beside it which corpus and which split it is.
The figures are in `figures.toml`; docs/guides/recipes.md has the same.
"""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

TABLE = "figures.toml"


@dataclass(frozen=True)
class Figure:
    """A published error rate.

    Attributes:
        system: toolkit and model.
        decoding: how its outputs become text.
        source: address of the page that states it.
        rate: in percent, with the digits that are stated.
    """

    system: str
    decoding: str
    source: str
    rate: str

    @property
    def toolkit(self) -> str:
        """Return the name of the toolkit."""
        return self.system.partition(",")[0]


@dataclass(frozen=True)
class PublishedSet:
    """A test set with published figures.

    Attributes:
        corpus: as `asr prepare` names it.
        split: of the corpus.
        name: for display.
        unit: of the errors, a name of `asr.evaluation.scores.Score`.
        num_utterances: of the whole set; 0 if it is not known.
        figures: of other systems.
    """

    corpus: str
    split: str
    name: str
    unit: str
    num_utterances: int
    figures: Sequence[Figure]


@functools.cache
def published_sets() -> tuple[PublishedSet, ...]:
    """Return all test sets with published figures."""
    table = tomllib.loads((files("asr.evaluation.published") / TABLE).read_text(encoding="utf-8"))
    return tuple(
        PublishedSet(**{**row, "figures": tuple(Figure(**figure) for figure in row["figures"])})
        for row in table["sets"]
    )


def published_set(manifest: Path) -> PublishedSet | None:
    """Return the set that a manifest was prepared as, None where it has no published figures."""
    from data_pipeline.preparation.description import set_beside

    prepared_as = set_beside(manifest)
    return next((one for one in published_sets() if (one.corpus, one.split) == prepared_as), None)
