"""The weights of a decoder that make the fewest errors on a dev set.

The network listens once; then the search decodes its log probabilities again and again, first over a coarse
grid of the language model's weight and the bonus for every token, then in ever smaller steps around the best.
Last, where syllables become hanzi, it is tried whether their words have something to add.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from asr.base.decoder_settings import DecoderSettings
from asr.base.types import EditCounts, Logits
from asr.base.vocabulary import Vocabulary
from asr.evaluation.evaluator import EvaluationData
from asr.evaluation.metrics import total_edits
from asr.model.listener import Listener, log_probs_of
from asr.recognition.decoding.beam import BeamSearch
from asr.recognition.decoding.by_words import best_by_words
from asr.recognition.decoding.greedy import best_path, labels_of

if TYPE_CHECKING:
    from asr.language.hanzi.converter import Converter
    from asr.language.ngram.model import NGramModel
    from asr.recognition.decoding.beam import Candidate
    from asr.recognition.decoding.hot_words import HotWords

FIRST_WEIGHTS = (0.1, 0.3, 0.5, 0.8, 1.2)
FIRST_BONUSES = (-1.0, 0.0, 1.0, 2.0, 3.5)
FIRST_STEPS = (0.15, 0.5)  # of weight and bonus, halved in each round
ROUNDS = 3
HANZI_WEIGHTS = (0.1, 0.25, 0.5, 1.0)  # of the words, where syllables are converted
DIGITS = 3  # that weights are rounded to


class Heard(NamedTuple):
    """What the network makes of a batch."""

    log_probs: npt.NDArray[np.float32]  # (B, T, V)
    num_frames: npt.NDArray[np.int32]  # (B,)
    references: Sequence[tuple[str, ...]]  # (B,)


@dataclass(frozen=True)
class Trial:
    """Some weights and the errors they make."""

    lm_weight: float
    token_bonus: float
    hanzi_weight: float
    edits: EditCounts


def listen(listener: Listener, data: EvaluationData) -> Iterator[Heard]:
    """Yield the log probabilities and references of each batch of a set."""
    step = listener.compiled(log_probs_of)
    plan, batches = data.in_order()
    for places, batch in zip(plan, batches, strict=True):
        log_probs, num_frames = step(batch.audio, batch.num_samples)
        references = [data.utterances[place].tokens for place in places]
        yield Heard(log_probs.numpy(), num_frames.numpy(), references)


def greedy_edits(heard: Iterable[Heard], vocabulary: Vocabulary) -> EditCounts:
    """The errors of greedy decoding."""
    return total_edits(
        (reference, vocabulary.decode(ids))
        for batch in heard
        for reference, ids in zip(
            batch.references, labels_of(best_path(Logits(batch.log_probs, batch.num_frames))), strict=True
        )
    )


class DecoderTuner:
    """Tries weights; none twice.

    Args:
        heard: the dev set.
        vocabulary: of its log probabilities.
        settings: of the decoder, but for the weights.
        language_model: to weigh.
        hot_words: which the decoder favours.
        converter: whose words have their say; None where they have none.
        told: is called after each trial.
    """

    def __init__(
        self,
        heard: Sequence[Heard],
        vocabulary: Vocabulary,
        settings: DecoderSettings,
        language_model: NGramModel,
        hot_words: HotWords | None,
        converter: Converter | None,
        told: Callable[[Trial], object],
    ) -> None:
        self.heard, self.vocabulary, self.settings = heard, vocabulary, settings
        self.language_model, self.hot_words, self.converter = language_model, hot_words, converter
        self.told = told
        self.trials: dict[tuple[float, float, float], Trial] = {}

    def tune(self) -> DecoderSettings:
        """The settings with the weights that make the fewest errors."""
        for weight, bonus in itertools.product(FIRST_WEIGHTS, FIRST_BONUSES):
            self._try(weight, bonus)
        weight_step, bonus_step = FIRST_STEPS
        for _ in range(ROUNDS):
            centre = self.best
            for up, across in itertools.product((-1, 0, 1), repeat=2):
                self._try(centre.lm_weight + up * weight_step, centre.token_bonus + across * bonus_step)
            weight_step, bonus_step = weight_step / 2, bonus_step / 2
        if self.converter is not None:
            centre = self.best
            for hanzi_weight in HANZI_WEIGHTS:
                self._try(centre.lm_weight, centre.token_bonus, hanzi_weight)
        return self._settings_of(self.best.lm_weight, self.best.token_bonus, self.best.hanzi_weight)

    @property
    def best(self) -> Trial:
        """Of the trials so far; of equally good ones that amid the others."""
        fewest = min(trial.edits.errors for trial in self.trials.values())
        tied = [trial for trial in self.trials.values() if trial.edits.errors == fewest]
        centre = np.mean([_place(trial) for trial in tied], axis=0)
        return min(tied, key=lambda trial: (np.abs(_place(trial) - centre).sum(), trial.lm_weight))

    def _settings_of(self, lm_weight: float, token_bonus: float, hanzi_weight: float) -> DecoderSettings:
        return dataclasses.replace(
            self.settings, lm_weight=lm_weight, token_bonus=token_bonus, hanzi_weight=hanzi_weight
        )

    def _try(self, lm_weight: float, token_bonus: float, hanzi_weight: float = 0.0) -> None:
        weights = (round(max(lm_weight, 0.0), DIGITS), round(token_bonus, DIGITS), hanzi_weight)
        if weights in self.trials:
            return
        search = BeamSearch(self.vocabulary, self._settings_of(*weights), self.language_model, self.hot_words)
        edits = total_edits(
            (reference, self._chosen(candidates, hanzi_weight))
            for batch in self.heard
            for reference, candidates in zip(
                batch.references, search.decode(batch.log_probs, batch.num_frames), strict=True
            )
        )
        self.trials[weights] = Trial(*weights, edits)
        self.told(self.trials[weights])

    def _chosen(self, candidates: Sequence[Candidate], hanzi_weight: float) -> tuple[str, ...]:
        """The tokens that the decoder tells."""
        if self.converter is not None:
            candidates = best_by_words(candidates, self.vocabulary, self.converter, hanzi_weight)
        return self.vocabulary.decode(candidates[0].ids)


def _place(trial: Trial) -> npt.NDArray[np.float64]:
    return np.array([trial.lm_weight, trial.token_bonus, trial.hanzi_weight])
