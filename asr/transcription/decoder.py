"""Defines the decoders, which reduce a batch of logits in the graph and turn the rest into hypotheses.

decoder = make_decoder(vocabulary, frame_s=0.08, settings=DecoderSettings(beam=16))
reduced = decoder.reduce(logits)                      # in a tf.function, on the device
hypotheses = decoder.hypotheses(reduced, ["a", "b"])  # on the host
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt
from scipy.special import log_softmax
from typing_extensions import override

from asr.base.decoder_settings import DecoderSettings
from asr.base.types import Hypothesis, Logits, Tensor
from asr.base.vocabulary import Vocabulary
from asr.base.work import OnProgress, ignore_progress
from asr.ctc.greedy import BestPath, best_path, hypotheses_of, seconds
from asr.ctc.word_rescoring import rescore_by_words

if TYPE_CHECKING:
    from asr.ctc.beam_search import Candidate
    from asr.ctc.hot_words import HotWords
    from asr.language.hanzi.converter import Converter

SEARCH_BEAM = 16  # width of the search where hot words or alternatives replace greedy decoding

Reduced = tuple[Tensor, ...]  # tensors of B rows each


class Decoder(Protocol):
    """Turns logits into hypotheses.

    Attributes:
        vocabulary: of the logits.
    """

    vocabulary: Vocabulary

    def reduce(self, logits: Logits) -> Reduced:
        """Return the tensors that `hypotheses` needs from a batch of logits; runs in the graph."""

    def hypotheses(self, reduced: Reduced, utterance_ids: Sequence[str]) -> list[Hypothesis]:
        """Return one hypothesis for each row of what `reduce` returned."""


def make_decoder(
    vocabulary: Vocabulary,
    frame_s: float,
    settings: DecoderSettings,
    hot_words: HotWords | None = None,
    converter: Converter | None = None,
    writes_hanzi: bool = True,
    on_progress: OnProgress = ignore_progress,
) -> Decoder:
    """Return the decoder that the settings ask for.

    Args:
        vocabulary: of the logits.
        frame_s: seconds from one frame to the next.
        settings: greedy decoding, or beam search with or without a language model.
        hot_words: favoured by beam search.
        converter: turns syllables into hanzi.
        writes_hanzi: whether the text is hanzi, if there is a converter.
        on_progress: receives how much of a language model has been read.

    Raises:
        UserError: the language model cannot be read, or its units are not those of the vocabulary.
    """
    if settings.beam > 1:
        return BeamDecoder(vocabulary, frame_s, settings, hot_words, converter, writes_hanzi, on_progress)
    return in_hanzi(GreedyDecoder(vocabulary, frame_s), converter if writes_hanzi else None)


def in_hanzi(decoder: GreedyDecoder, converter: Converter | None) -> Decoder:
    """Return a decoder of syllables with its text in hanzi; the decoder itself without a converter."""
    return decoder if converter is None else HanziDecoder(decoder, converter)


def favouring(decoder: Decoder, hot_words: HotWords, frame_s: float) -> Decoder:
    """Return a decoder that favours words and is otherwise like another; greedy decoding becomes a search."""
    if isinstance(decoder, BeamDecoder):
        return decoder.with_hot_words(hot_words)
    settings = DecoderSettings(beam=SEARCH_BEAM)
    return BeamDecoder(decoder.vocabulary, frame_s, settings, hot_words, converter_of(decoder))


def with_alternatives(decoder: Decoder, n_best: int, frame_s: float) -> Decoder:
    """Return a decoder that looks for at least as many hypotheses, and is otherwise like another."""
    if n_best <= 1:
        return decoder
    if not isinstance(decoder, BeamDecoder):
        settings = DecoderSettings(beam=SEARCH_BEAM, n_best=n_best)
        return BeamDecoder(decoder.vocabulary, frame_s, settings, converter=converter_of(decoder))
    other = copy.copy(decoder)
    other.settings = dataclasses.replace(decoder.settings, n_best=max(n_best, decoder.settings.n_best))
    return other


def spoken(decoder: Decoder) -> Decoder:
    """Return a decoder that writes numbers as they are spoken, and is otherwise like another."""
    converter = converter_of(decoder)
    if converter is None or converter.spoken is converter:
        return decoder
    other = copy.copy(decoder)
    assert isinstance(other, BeamDecoder | HanziDecoder)
    other.converter = converter.spoken
    return other


def converter_of(decoder: Decoder) -> Converter | None:
    """Return the converter that wrote the text of a decoder's hypotheses; None where the text is tokens."""
    if isinstance(decoder, BeamDecoder):
        return decoder.converter if decoder.writes_hanzi else None
    return decoder.converter if isinstance(decoder, HanziDecoder) else None


class GreedyDecoder(Decoder):
    """Decodes greedily: the best label of every frame.

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
    """Decodes by prefix beam search; times and confidences come from forced alignment of the results.

    Args:
        vocabulary: of the logits.
        frame_s: seconds from one frame to the next.
        settings: of the search.
        hot_words: favoured by the search.
        converter: turns syllables into hanzi, and rescores the hypotheses of the search.
        writes_hanzi: whether the text is hanzi; else it is the tokens, rescored all the same.
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
        from asr.ctc.beam_search import BeamSearch
        from asr.language.ngram.folder import fusion_model

        path = settings.language_model
        self._model = fusion_model(Path(path), vocabulary, on_progress) if path else None
        self.vocabulary, self.frame_s, self.settings = vocabulary, frame_s, settings
        self.search = BeamSearch(vocabulary, settings, self._model, hot_words)
        self.converter, self.writes_hanzi = converter, writes_hanzi

    def with_hot_words(self, hot_words: HotWords) -> BeamDecoder:
        """Return a decoder that favours other words, and shares the language model and the converter."""
        from asr.ctc.beam_search import BeamSearch

        other = copy.copy(self)
        other.search = BeamSearch(self.vocabulary, self.settings, self._model, hot_words)
        return other

    @override
    def reduce(self, logits: Logits) -> Reduced:
        values, num_frames = logits
        if isinstance(values, np.ndarray):
            return log_softmax(values, axis=-1), num_frames
        import tensorflow as tf

        return tf.nn.log_softmax(values), num_frames

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
        """Return the hypothesis of one clip, with its alternatives.

        Args:
            name: of the clip.
            log_probs: (T, V) natural logarithms.
            candidates: the beam at the end of the clip, best first.
        """
        from asr.ctc.confidence import token_confidences
        from asr.ctc.forced_alignment import align_tokens

        if self.converter is not None:
            weight = self.settings.hanzi_weight
            candidates = rescore_by_words(candidates, self.vocabulary, self.converter, weight)
        hypotheses: list[Hypothesis] = []
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
                () if hypotheses else token_confidences(candidates, alignment),
            )
            hypotheses.append(hypothesis)
        return dataclasses.replace(hypotheses[0], alternatives=tuple(hypotheses[1:]))

    def text_of(self, tokens: Sequence[str]) -> str:
        """Return tokens as readable text."""
        if self.converter is None or not self.writes_hanzi:
            return self.vocabulary.join(tokens)
        return self.converter.convert(tokens).text


class HanziDecoder(Decoder):
    """Decodes syllables greedily and converts them to hanzi.

    Args:
        decoder: of syllables.
        converter: of syllables to hanzi.
    """

    def __init__(self, decoder: GreedyDecoder, converter: Converter) -> None:
        self.decoder, self.converter, self.vocabulary = decoder, converter, decoder.vocabulary

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
