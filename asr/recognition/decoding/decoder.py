"""Decoders: what each takes of a batch of logits in the graph, and the hypotheses it makes of that.

decoder = make_decoder(vocabulary, frame_s=0.08, settings=DecoderSettings(beam=16))
reduced = decoder.reduce(logits)                      # in a tf.function, on the device
hypotheses = decoder.hypotheses(reduced, ["a", "b"])  # on the host
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt
import tensorflow as tf
from typing_extensions import override

from asr.base.decoder_settings import DecoderSettings
from asr.base.types import Hypothesis, Logits, Tensor
from asr.base.vocabulary import Vocabulary
from asr.base.work import OnProgress, ignore_progress
from asr.recognition.decoding.by_words import best_by_words
from asr.recognition.decoding.greedy import BestPath, best_path, hypotheses_of, seconds

if TYPE_CHECKING:
    from asr.language.hanzi.converter import Converter
    from asr.recognition.decoding.beam import Candidate
    from asr.recognition.decoding.hot_words import HotWords

Reduced = tuple[Tensor, ...]  # tensors of B rows each


class Decoder(Protocol):
    """Logits -> hypotheses."""

    def reduce(self, logits: Logits) -> Reduced:
        """What is needed of a batch of logits; runs in the graph."""

    def hypotheses(self, reduced: Reduced, utterance_ids: Sequence[str]) -> list[Hypothesis]:
        """One hypothesis for each row of what `reduce` returned."""


def make_decoder(
    vocabulary: Vocabulary,
    frame_s: float,
    settings: DecoderSettings,
    hot_words: HotWords | None = None,
    converter: Converter | None = None,
    writes_hanzi: bool = True,
    on_progress: OnProgress = ignore_progress,
) -> Decoder:
    """The decoder of some settings.

    Args:
        vocabulary: of the logits.
        frame_s: seconds from one frame to the next.
        settings: greedy decoding, or beam search with or without a language model.
        hot_words: which beam search favours.
        converter: turns syllables into hanzi.
        writes_hanzi: whether the text is hanzi, where there is a converter.
        on_progress: receives how much of a language model has been read.

    Raises:
        UserError: the language model cannot be read, or is one of other units.
    """
    if settings.beam > 1:
        return BeamDecoder(vocabulary, frame_s, settings, hot_words, converter, writes_hanzi, on_progress)
    greedy = GreedyDecoder(vocabulary, frame_s)
    return HanziDecoder(greedy, converter) if converter is not None and writes_hanzi else greedy


class GreedyDecoder(Decoder):
    """The best label of every frame.

    Args:
        vocabulary: of the logits.
        frame_s: seconds from one frame to the next.
    """

    def __init__(self, vocabulary: Vocabulary, frame_s: float) -> None:
        self.vocabulary, self.frame_s = vocabulary, frame_s

    @override
    def reduce(self, logits: Logits) -> Reduced:
        return best_path(logits)

    @override
    def hypotheses(self, reduced: Reduced, utterance_ids: Sequence[str]) -> list[Hypothesis]:
        return hypotheses_of(BestPath(*reduced), utterance_ids, self.vocabulary, self.frame_s)


class BeamDecoder(Decoder):
    """Prefix beam search; times and confidences come from the best alignment of what it found.

    Args:
        vocabulary: of the logits.
        frame_s: seconds from one frame to the next.
        settings: of the search.
        hot_words: which it favours.
        converter: turns syllables into hanzi, and helps to choose among the search's hypotheses.
        writes_hanzi: whether the text is hanzi; else it is the tokens, chosen all the same.
        on_progress: receives how much of the language model has been read.

    Raises:
        UserError: see `make_decoder`.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        frame_s: float,
        settings: DecoderSettings,
        hot_words: HotWords | None = None,
        converter: Converter | None = None,
        writes_hanzi: bool = True,
        on_progress: OnProgress = ignore_progress,
    ) -> None:
        from asr.language.ngram.folder import fusion_model
        from asr.recognition.decoding.beam import BeamSearch

        path = settings.language_model
        model = fusion_model(Path(path), vocabulary, on_progress) if path else None
        self.vocabulary, self.frame_s, self.settings = vocabulary, frame_s, settings
        self.search = BeamSearch(vocabulary, settings, model, hot_words)
        self.converter, self.writes_hanzi = converter, writes_hanzi

    @override
    def reduce(self, logits: Logits) -> Reduced:
        return tf.nn.log_softmax(logits.values), logits.num_frames

    @override
    def hypotheses(self, reduced: Reduced, utterance_ids: Sequence[str]) -> list[Hypothesis]:
        log_probs, num_frames = (np.asarray(part) for part in reduced)
        found = self.search.decode(log_probs, num_frames)
        return [
            self.hypothesis(name, row[:length], candidates)
            for name, row, length, candidates in zip(utterance_ids, log_probs, num_frames, found, strict=True)
        ]

    def hypothesis(
        self, name: str, log_probs: npt.NDArray[np.float32], candidates: Sequence[Candidate]
    ) -> Hypothesis:
        """What was heard in one clip.

        Args:
            name: of the clip.
            log_probs: (T, V) natural logarithms.
            candidates: the beam at its end, best first.
        """
        from asr.recognition.decoding.confidence import token_confidences
        from asr.recognition.decoding.forced_alignment import align_tokens

        if self.converter is not None:
            weight = self.settings.hanzi_weight
            candidates = best_by_words(candidates, self.vocabulary, self.converter, weight)
        told: list[Hypothesis] = []
        for candidate in candidates[: self.settings.n_best]:
            tokens = self.vocabulary.decode(candidate.ids)
            alignment = align_tokens(log_probs, candidate.ids)
            hypothesis = Hypothesis(
                name,
                tokens,
                self.text_of(tokens),
                candidate.score,
                seconds(alignment.starts, self.frame_s),
                candidate.acoustic,
                () if told else token_confidences(candidates, alignment),
            )
            told.append(hypothesis)
        return dataclasses.replace(told[0], alternatives=tuple(told[1:]))

    def text_of(self, tokens: Sequence[str]) -> str:
        """Tokens as a person reads them."""
        if self.converter is None or not self.writes_hanzi:
            return self.vocabulary.join(tokens)
        return self.converter.convert(tokens).text


class HanziDecoder(Decoder):
    """Greedy decoding, with its text in hanzi.

    Args:
        decoder: greedy, of syllables.
        converter: of syllables to hanzi.
    """

    def __init__(self, decoder: GreedyDecoder, converter: Converter) -> None:
        self.decoder, self.converter = decoder, converter

    @override
    def reduce(self, logits: Logits) -> Reduced:
        return self.decoder.reduce(logits)

    @override
    def hypotheses(self, reduced: Reduced, utterance_ids: Sequence[str]) -> list[Hypothesis]:
        hypotheses = self.decoder.hypotheses(reduced, utterance_ids)
        conversions = self.converter.convert_all([hypothesis.tokens for hypothesis in hypotheses])
        return [
            dataclasses.replace(hypothesis, text=conversion.text)
            for hypothesis, conversion in zip(hypotheses, conversions, strict=True)
        ]
