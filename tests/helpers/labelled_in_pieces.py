"""Label the demo's clips by pieces of their syllables without tones, since it has no English."""

import dataclasses
from collections.abc import Sequence

from asr.base.text.pieces import learn_pieces
from asr.base.text.units import AS_MANY_AS_POSSIBLE, LearnedUnits
from asr.base.types import Utterance
from asr.base.vocabulary import Vocabulary


def labelled_in_pieces(clips: Sequence[Utterance]) -> tuple[list[Utterance], Vocabulary]:
    """Return clips with other labels, and the vocabulary: the longest byte pairs possible."""
    texts = [" ".join(token.rstrip("12345") for token in clip.tokens) for clip in clips]
    pieces = learn_pieces(texts, LearnedUnits("bpe", AS_MANY_AS_POSSIBLE))
    labelled = [
        dataclasses.replace(clip, tokens=pieces.encode(text)) for clip, text in zip(clips, texts, strict=True)
    ]
    return labelled, Vocabulary.of_pieces(pieces)
