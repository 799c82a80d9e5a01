"""Tunes the weights of a decoder for the fewest errors on a dev set.

The network runs once. The search then decodes its log probabilities with different weights: first over a
coarse grid of the language model's weight and the bonus per token, then in ever smaller steps around the best
trial. Then, if the language model is over words that pieces spell, several penalties of unknown words are
tried, and last, if syllables become hanzi, several weights for rescoring by words.

Fewest errors in tokens win, or in words where pieces spell them, among the trials that do not write more
wrong hanzi than greedy decoding with the general model. More means beyond chance: the whole 95 % interval of
the difference is above 0.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from asr.base.decoder_settings import DecoderSettings
from asr.base.errors import UserError
from asr.base.system.storage.address import path_of
from asr.base.text.pieces import text_of_pieces
from asr.base.text.wording import counted
from asr.base.types import EditCounts, Logits, Utterance
from asr.base.vocabulary import Vocabulary
from asr.base.work import OnProgress, Work, ignore_progress
from asr.ctc.beam_search import BeamSearch
from asr.ctc.greedy import best_path, labels_of
from asr.ctc.posteriors import log_posteriors
from asr.ctc.word_rescoring import WordChoice
from asr.evaluation.errors.language_errors import names_in
from asr.evaluation.errors.metrics import count_edits
from asr.evaluation.errors.significance import PairedTest, paired_test
from asr.evaluation.evaluator import EvaluationData
from asr.evaluation.written_text import characters_of
from asr.language.ngram.folder import is_over_words
from asr.model.runner import ModelRunner
from asr.runs.run import Run
from asr.transcription.text_writer import TextWriter

if TYPE_CHECKING:
    from asr.ctc.beam_search import Candidate
    from asr.language.hanzi.converter import Converter
    from asr.language.ngram.model import NGramModel
    from asr.model.devices import ModelDevices
    from asr.transcription.decoder_choice import DecoderChoice
    from data_pipeline.batches.dataset import Dataset

logger = logging.getLogger(__name__)

MAX_SET_S = 3600.0  # an hour is enough to find the weights, and its log probabilities fit into memory
FIRST_WEIGHTS = (0.1, 0.3, 0.5, 0.8, 1.2)
FIRST_BONUSES = (-1.0, 0.0, 1.0, 2.0, 3.5)
FIRST_STEPS = (0.15, 0.5)  # of weight and bonus, halved in each round
ROUNDS = 3
HANZI_WEIGHTS = (0.1, 0.25, 0.5, 1.0)  # of the words, where syllables are converted
UNKNOWN_WORDS = (0.0, -2.5, -5.0, -20.0)  # and the usual one, of a language model over words
WEIGHT_DECIMALS = 3


class Counted(NamedTuple):
    """The units whose errors are counted.

    Attributes:
        name: of one unit.
        of: returns the units of tokens.
    """

    name: str
    of: Callable[[Sequence[str]], Sequence[str]]


class LogProbBatch(NamedTuple):
    """The network's output for a batch, and what was said."""

    log_probs: npt.NDArray[np.float32]  # (B, T, V)
    num_frames: npt.NDArray[np.int32]  # (B,)
    utterances: Sequence[Utterance]  # (B,)


@dataclass(frozen=True)
class DecodedSet:
    """The errors of a decoder on the dev set.

    Attributes:
        tokens: of each utterance, or its words, see `counted_units`.
        characters: of each utterance that has a text, where syllables become hanzi.
    """

    tokens: Sequence[EditCounts]
    characters: Sequence[EditCounts]

    @functools.cached_property
    def edits(self) -> EditCounts:
        """Return the edits over all tokens."""
        return sum(self.tokens, EditCounts())

    @functools.cached_property
    def character_edits(self) -> EditCounts:
        """Return the edits over all characters."""
        return sum(self.characters, EditCounts())


@dataclass(frozen=True)
class WeightTrial(DecodedSet):
    """The errors with the weights of a trial.

    Attributes:
        lm_weight: of the language model.
        token_bonus: for each token.
        hanzi_weight: of rescoring by words.
        writes_worse: whether it writes more wrong hanzi than greedy decoding, beyond chance.
        unknown_word: added for a word that a language model over words does not know.
    """

    lm_weight: float
    token_bonus: float
    hanzi_weight: float
    writes_worse: bool
    unknown_word: float = DecoderSettings.unknown_word


def log_prob_batches(runner: ModelRunner, data: EvaluationData) -> Iterator[LogProbBatch]:
    """Yield the log probabilities and references of each batch of a set."""
    step = runner.compiled(log_posteriors)
    plan, batches = data.in_order()
    for indices, batch in zip(plan, batches, strict=True):
        log_probs, num_frames = map(np.asarray, step(batch.audio, batch.num_samples))
        utterances = [data.utterances[index] for index in indices]
        yield LogProbBatch(log_probs, num_frames, utterances)


def counted_units(vocabulary: Vocabulary, utterances: Iterable[Utterance]) -> Counted:
    """Return the units that a report counts first: words where pieces spell them, else tokens."""
    if vocabulary.unit == "mixed":
        return Counted("mixed", names_in)
    if vocabulary.unit == "pieces" and any(" " in text_of_pieces(one.tokens) for one in utterances):
        return Counted("word", lambda tokens: text_of_pieces(tokens).split())
    return Counted(vocabulary.token_name, tuple)


def decoded_set(
    batches: Sequence[LogProbBatch],
    tokens: Iterable[Sequence[str]],
    vocabulary: Vocabulary,
    writer: TextWriter | None,
) -> DecodedSet:
    """Count the errors of hypotheses.

    Args:
        batches: of the set.
        tokens: of the hypothesis of each utterance, in the order of the batches.
        vocabulary: of the tokens.
        writer: of their text; None to count no characters.
    """
    of_tokens, of_characters = [], []
    said = [utterance for batch in batches for utterance in batch.utterances]
    units = counted_units(vocabulary, said).of
    for utterance, hypothesis in zip(said, tokens, strict=True):
        of_tokens.append(count_edits(units(utterance.tokens), units(hypothesis)))
        if writer is not None and utterance.text:
            written = characters_of(writer.text(hypothesis))
            of_characters.append(count_edits(characters_of(utterance.text), written))
    return DecodedSet(of_tokens, of_characters)


def greedy_set(
    batches: Sequence[LogProbBatch], vocabulary: Vocabulary, converter: Converter | None
) -> DecodedSet:
    """Count the errors of greedy decoding."""
    labels = (labels_of(best_path(Logits(batch.log_probs, batch.num_frames))) for batch in batches)
    tokens = (vocabulary.decode(ids) for ids in itertools.chain.from_iterable(labels))
    return decoded_set(batches, tokens, vocabulary, TextWriter(vocabulary, converter) if converter else None)


class DecoderTuner:
    """The search for the best weights; the same weights are never tried twice.

    Args:
        batches: of the dev set.
        vocabulary: of its log probabilities; if Mandarin, words rescore, and hanzi are counted.
        choice: of the decoder; the weights in its settings are ignored.
        language_model: to weigh.
        greedy: errors of greedy decoding, which no choice may exceed in hanzi.
        on_trial: receives the number of trials after each.
    """

    def __init__(
        self,
        batches: Sequence[LogProbBatch],
        vocabulary: Vocabulary,
        choice: DecoderChoice,
        language_model: NGramModel,
        greedy: DecodedSet,
        on_trial: Callable[[int], object],
    ) -> None:
        self.batches, self.vocabulary, self.choice = batches, vocabulary, choice
        self.language_model = language_model
        self.converter = choice.converter if vocabulary.is_mandarin else None
        self.greedy, self.on_trial = greedy, on_trial
        self.trials: dict[tuple[float, ...], WeightTrial] = {}

    def tune(self) -> DecoderSettings | None:
        """Return the settings with the weights that make the fewest errors; None if all write hanzi worse."""
        for weight, bonus in itertools.product(FIRST_WEIGHTS, FIRST_BONUSES):
            self._try(weight, bonus)
        weight_step, bonus_step = FIRST_STEPS
        for _ in range(ROUNDS):
            centre = self.best
            for up, across in itertools.product((-1, 0, 1), repeat=2):
                self._try(centre.lm_weight + up * weight_step, centre.token_bonus + across * bonus_step)
            weight_step, bonus_step = weight_step / 2, bonus_step / 2
        centre = self.best
        if is_over_words(self.language_model, self.vocabulary):
            for unknown_word in UNKNOWN_WORDS:
                self._try(centre.lm_weight, centre.token_bonus, unknown_word=unknown_word)
        if self.converter is not None:
            centre = self.best
            for hanzi_weight in HANZI_WEIGHTS:
                self._try(centre.lm_weight, centre.token_bonus, hanzi_weight, centre.unknown_word)
        best = self.best
        if best.writes_worse:
            return None
        return self._settings_of(best.lm_weight, best.token_bonus, best.hanzi_weight, best.unknown_word)

    @property
    def best(self) -> WeightTrial:
        """Return the best trial so far; ties go to the trial nearest to the centre of the tied ones.

        Trials that write hanzi worse count only if all do.
        """
        allowed = [trial for trial in self.trials.values() if not trial.writes_worse]
        allowed = allowed or list(self.trials.values())
        fewest = min(trial.edits.errors for trial in allowed)
        tied = [trial for trial in allowed if trial.edits.errors == fewest]
        centre = np.mean([_place(trial) for trial in tied], axis=0)
        return min(tied, key=lambda trial: (np.abs(_place(trial) - centre).sum(), trial.lm_weight))

    def _settings_of(
        self, lm_weight: float, token_bonus: float, hanzi_weight: float, unknown_word: float
    ) -> DecoderSettings:
        return dataclasses.replace(
            self.choice.settings,
            lm_weight=lm_weight,
            token_bonus=token_bonus,
            hanzi_weight=hanzi_weight,
            unknown_word=unknown_word,
        )

    def _try(
        self,
        lm_weight: float,
        token_bonus: float,
        hanzi_weight: float = 0.0,
        unknown_word: float = DecoderSettings.unknown_word,
    ) -> None:
        weights = (
            round(max(lm_weight, 0.0), WEIGHT_DECIMALS),
            round(token_bonus, WEIGHT_DECIMALS),
            hanzi_weight,
            unknown_word,
        )
        if weights in self.trials:
            return
        settings, hot_words = self._settings_of(*weights), self.choice.hot_words
        search = BeamSearch(self.vocabulary, settings, self.language_model, hot_words)
        words = None if self.converter is None else WordChoice(search, self.converter)
        tokens = (
            self._best_tokens(candidates, log_probs[:num_frames], words)
            for batch in self.batches
            for candidates, log_probs, num_frames in zip(
                search.decode(batch.log_probs, batch.num_frames),
                batch.log_probs,
                batch.num_frames,
                strict=True,
            )
        )
        writer = TextWriter(self.vocabulary, self.converter) if self.converter else None
        decoded = decoded_set(self.batches, tokens, self.vocabulary, writer)
        worse = writes_worse(self.greedy, decoded)
        self.trials[weights] = WeightTrial(
            decoded.tokens, decoded.characters, *weights[:3], worse, unknown_word
        )
        self.on_trial(len(self.trials))

    def _best_tokens(
        self, candidates: Sequence[Candidate], log_probs: npt.NDArray[np.float32], words: WordChoice | None
    ) -> tuple[str, ...]:
        """Return the tokens of the hypothesis that the decoder would return."""
        if words is not None:
            candidates = words.best_first(candidates, log_probs)
        return self.vocabulary.decode(candidates[0].ids)


def writes_worse(greedy: DecodedSet, decoded: DecodedSet) -> bool:
    """Return whether a decoder writes more wrong hanzi than greedy decoding, beyond chance."""
    if decoded.character_edits.errors <= greedy.character_edits.errors:
        return False  # most often, and without the bootstrap
    test = gain(greedy.characters, decoded.characters)
    return test is not None and test.low > 0


def gain(before: Sequence[EditCounts], after: Sequence[EditCounts]) -> PairedTest | None:
    """Return the difference of two decoders' error rates with its interval; None if nothing was counted."""
    lengths = [counts.reference_length for counts in before]
    if not sum(lengths):
        return None
    errors_before, errors_after = ([counts.errors for counts in each] for each in (before, after))
    return paired_test(errors_before, errors_after, lengths)


def _place(trial: WeightTrial) -> npt.NDArray[np.float64]:
    return np.array([trial.lm_weight, trial.token_bonus, trial.hanzi_weight, trial.unknown_word])


@dataclass(frozen=True)
class TunedDecoder:
    """The result of tuning.

    Attributes:
        settings: with the best weights; None where all write hanzi worse than greedy decoding.
        path: of the run's decoder.toml, which `tune_decoder` leaves as it was.
        greedy: errors of greedy decoding, with the general model of hanzi if no other is named.
        best: the trial with the best weights.
        trials: all trials.
        unit: the name of what is counted, see `counted_units`.
    """

    settings: DecoderSettings | None
    path: Path
    greedy: DecodedSet
    best: WeightTrial
    trials: Sequence[WeightTrial]
    unit: str


def tune_decoder(
    run: str | Path,
    manifest: str | Path,
    choice: DecoderChoice,
    on_progress: OnProgress = ignore_progress,
    devices: ModelDevices | None = None,
) -> TunedDecoder:
    """Tune the weights of a run's decoder on a dev set; `Run.save_decoder_settings` saves them.

    Args:
        run: directory of the run.
        manifest: of the dev set, which must not be the test set.
        choice: the decoder, with a language model; its weights are ignored.
        on_progress: receives the progress of recognition and of the trials.
        devices: on which the trained model runs, if they are started already; None for the run's graph on a
            CPU, or for one GPU.

    Raises:
        UserError: the run, the set or the language model cannot be used.
    """
    from asr.evaluation.data import evaluation_data
    from asr.language.ngram.folder import fusion_model
    from asr.transcription.recognizer import Recognizer

    choice.require_language_model()
    opened = Run.open(run)
    if opened.is_copy:
        raise UserError(
            f"{run}: neither a model file nor a run at an address is changed; tune the run on the disk that "
            "it is from, or choose the decoder in each command (`decoder`)"
        )
    opened.refuse_moved_language_model(choice.settings.language_model)
    # an absolute path is found from any working directory
    lm_path = Path(choice.settings.language_model).resolve()
    settings = dataclasses.replace(choice.settings, language_model=str(lm_path))
    choice = dataclasses.replace(choice, settings=settings)
    vocabulary = opened.vocabulary()
    language_model = fusion_model(lm_path, vocabulary, on_progress)
    recognizer = Recognizer.trained(opened, devices=devices) if devices else Recognizer.of_run(opened)
    data = _up_to_an_hour(evaluation_data(path_of(manifest), vocabulary, on_progress)[0])
    outputs = []
    on_progress(Work("recognizing", 0, len(data.utterances), "utterances"))
    for output in log_prob_batches(recognizer.runner, data):
        outputs.append(output)
        done = sum(len(each.utterances) for each in outputs)
        on_progress(Work("recognizing", done, len(data.utterances), "utterances"))
    without = dataclasses.replace(choice, settings=DecoderSettings(), hot_words=None)
    greedy = greedy_set(outputs, vocabulary, without.converter if vocabulary.is_mandarin else None)
    tuner = DecoderTuner(
        outputs,
        vocabulary,
        choice,
        language_model,
        greedy,
        lambda num_trials: on_progress(Work("decoding", num_trials, unit="trials")),
    )
    best = tuner.tune()
    trials = list(tuner.trials.values())
    unit = counted_units(vocabulary, data.utterances).name
    return TunedDecoder(best, opened.decoder_path, greedy, tuner.best, trials, unit)


def _up_to_an_hour(data: Dataset) -> Dataset:
    """Return a set, or an evenly spaced sample of it that is at most about an hour long."""
    from data_pipeline.batches.dataset import Dataset

    total_s = sum(utterance.duration_s for utterance in data.utterances)
    if total_s <= MAX_SET_S:
        return data
    every = int(-(-total_s // MAX_SET_S))
    some = data.utterances[::every]
    logger.info("tuning on one in %d of the set, %s in all", every, counted(len(some), "utterance"))
    return Dataset(some, data.vocabulary, data.batch_s)
