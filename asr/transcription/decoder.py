"""A decoder: the search for the tokens of logits, and the writer of their text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from asr.base.decoder_settings import DecoderSettings
from asr.base.vocabulary import Vocabulary
from asr.ctc.search import GreedySearch, NBestSearch, Reduced, Search
from asr.transcription.text_writer import TextWriter
from asr.transcription.transcript import Segment

if TYPE_CHECKING:
    from asr.ctc.hot_words import HotWords

SEARCH_BEAM = 16  # width of the search where hot words or alternatives replace greedy decoding


@dataclass(frozen=True)
class Decoder:
    """The search for the tokens of logits, and the writer of their text.

    Attributes:
        search: for the tokens.
        writer: of their text.
    """

    search: Search
    writer: TextWriter

    @classmethod
    def greedy(cls, vocabulary: Vocabulary, frame_s: float) -> Decoder:
        """Return the decoder that takes the best label of every frame, and writes the tokens."""
        return cls(GreedySearch(vocabulary, frame_s), TextWriter(vocabulary))

    @property
    def without_itn(self) -> Decoder:
        """Return the decoder that writes numbers as they are spoken."""
        return Decoder(self.search, self.writer.without_itn)

    def with_(self, hot_words: HotWords | None = None, n_best: int = 1) -> Decoder:
        """Return a decoder that favours other words and finds more hypotheses, by beam search.

        Args:
            hot_words: in place of its own; None to keep them.
            n_best: number of hypotheses, at least.
        """
        from asr.ctc.beam_search import BeamSearch

        usual = self.search
        if isinstance(usual, NBestSearch):
            beam, converter = usual.beam, usual.converter
            n_best = max(n_best, usual.n_best)
        else:
            settings = DecoderSettings(beam=SEARCH_BEAM)
            beam, converter = BeamSearch(usual.vocabulary, settings), self.writer.converter
        if hot_words is not None:
            beam = BeamSearch(beam.vocabulary, beam.settings, beam.language_model, hot_words)
        return Decoder(NBestSearch(beam, usual.frame_s, converter, n_best), self.writer)

    def segments(self, reduced: Reduced, durations_s: Sequence[float]) -> list[Segment]:
        """Return the transcript of each clip of a batch.

        Args:
            reduced: what `search.reduce` returned for the batch.
            durations_s: of the clips.
        """
        found = zip(self.search.hypotheses(reduced), durations_s, strict=True)
        return [self.writer.segment(hypotheses, 0.0, duration_s) for hypotheses, duration_s in found]
