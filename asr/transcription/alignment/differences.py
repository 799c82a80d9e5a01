"""Finds the tokens of a text that were not said in a recording, or not as written, by a trained model.

    for difference in differences(recognizer, read_audio("a.wav"), ["ni3", "hao3"]):
        print(difference.kind, difference.start, difference.end, difference.recognized)

The greedy transcript proposes places where text and recording differ. Each is tested by itself: the best path
through the text with what was recognized at this place must be more probable than the best path through the
text as it is, by a likelihood ratio as for the goodness of pronunciation (Witt and Young, 2000). What the two
share cancels out, so that a noisy or long recording is not in doubt for being so.

Tones are not compared, since their errors are a model's more often than a reader's: a syllable is as probable
as all its tones together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from rapidfuzz.distance import Levenshtein

from asr.audio.recording import Waveform
from asr.base.text.pinyin import without_tone
from asr.base.vocabulary import Vocabulary
from asr.ctc.forced_alignment import align_tokens, frames_needed
from asr.ctc.greedy import collapse
from asr.transcription.alignment.aligner import log_probs_of_tokens
from asr.transcription.recognizer import Recognizer

Kind: TypeAlias = Literal["missing", "other", "extra"]
Float32 = npt.NDArray[np.float32]
Ids = npt.NDArray[np.int64]

# A place counts if its margin is above MIN_MARGIN, and this for each token: more where as many tokens were
# recognized as there are in the text, since models mistake sounds for similar ones.
MIN_MARGIN, MIN_OF_TOKEN, MIN_OF_SUBSTITUTED = 3.0, 2.5, 5.0
# Times these, where the model does not know the voice: half as many right takes are doubted.
OF_UNKNOWN_VOICE = 1.3
LEAST_PROBABLE = 1e-30  # of a frame, whose logarithm is finite


@dataclass(frozen=True)
class Difference:
    """A place where a recording differs from its text.

    Attributes:
        kind: "missing" tokens, "other" ones in their place, or "extra" ones before token `start`.
        start: index of the first token of the text.
        end: index after the last one; `start` if tokens are extra.
        recognized: the tokens in their place, with spaces between them.
        margin: natural logarithm of how many times as probable they are.
    """

    kind: Kind
    start: int
    end: int
    recognized: str
    margin: float


def differences(
    recognizer: Recognizer, waveform: Waveform, tokens: Sequence[str], knows_voice: bool = True
) -> tuple[Difference, ...]:
    """Return the places where a recording differs from its text, in order; none if it was said as written.

    Args:
        recognizer: provides the acoustic model; its decoder is not used.
        waveform: (S,) int16 at 16 kHz.
        tokens: of the text; those that the model does not know are not compared.
        knows_voice: whether the model was trained on this voice, or like ones; else it must be surer.
    """
    vocabulary = recognizer.vocabulary
    log_probs = log_probs_of_tokens(recognizer, waveform, range(len(vocabulary)))
    return sure_differences(proposed_differences(log_probs, vocabulary, tokens), knows_voice)


def sure_differences(proposed: Iterable[Difference], knows_voice: bool = True) -> tuple[Difference, ...]:
    """Return the differences whose margin is high enough to doubt what was said."""
    factor = 1.0 if knows_voice else OF_UNKNOWN_VOICE
    return tuple(one for one in proposed if one.margin >= factor * _least_margin(one))


def _least_margin(difference: Difference) -> float:
    num_recognized, num_written = len(difference.recognized.split()), difference.end - difference.start
    of_token = MIN_OF_SUBSTITUTED if num_recognized == num_written else MIN_OF_TOKEN
    return MIN_MARGIN + of_token * max(num_recognized, num_written)


def proposed_differences(
    log_probs: Float32, vocabulary: Vocabulary, tokens: Sequence[str]
) -> Iterator[Difference]:
    """Yield where the greedy transcript differs from the text, with margins that may be negative.

    Args:
        log_probs: (T, V) natural logarithm of the posteriors.
        vocabulary: of the V outputs.
        tokens: of the text.
    """
    sounds = _sounds(vocabulary)
    text = _known_part(tokens, vocabulary)
    of_sounds = _without_tones(log_probs, sounds)
    said = _greedy(log_probs, of_sounds, sounds)
    score = _score(of_sounds, text.ids)
    for place in _differing_places(sounds[text.ids], sounds[said]):
        start, end = text.span(place.begin, place.end)
        if end - start != place.end - place.begin:
            continue  # a token that the model does not know is among them
        recognized = said[place.said_begin : place.said_end]
        replaced = np.concatenate([text.ids[: place.begin], recognized, text.ids[place.end :]])
        kind: Kind = "missing" if not len(recognized) else "other" if end > start else "extra"
        words = " ".join(vocabulary.decode(recognized.tolist()))
        yield Difference(kind, start, end, words, _score(of_sounds, replaced) - score)


class _KnownPart(NamedTuple):
    """The tokens of a text that a model knows: their ids, and their indices in the text."""

    ids: Ids
    indices: Ids
    num_tokens: int

    def span(self, begin: int, end: int) -> tuple[int, int]:
        """Return the span of the text from one known token to before another, with unknown ones around it."""
        before = int(self.indices[begin - 1]) + 1 if begin else 0
        after = int(self.indices[end]) if end < len(self.indices) else self.num_tokens
        return before, after


class _Place(NamedTuple):
    """Where two sequences differ: a span of the text, and one of what was said."""

    begin: int
    end: int
    said_begin: int
    said_end: int


def _sounds(vocabulary: Vocabulary) -> Ids:
    """Return, for each id, (V,), the first id that differs from it in the tone at most."""
    first: dict[str, int] = {}
    return np.array([first.setdefault(without_tone(t), index) for index, t in enumerate(vocabulary.tokens)])


def _known_part(tokens: Sequence[str], vocabulary: Vocabulary) -> _KnownPart:
    """Return the tokens that a model knows; with another tone, if it does not know theirs."""
    by_sound = {without_tone(token): token for token in vocabulary.tokens[1:]}
    known = [
        (index, token if token in vocabulary else by_sound[without_tone(token)])
        for index, token in enumerate(tokens)
        if without_tone(token) in by_sound
    ]
    ids = vocabulary.encode([token for _, token in known])
    return _KnownPart(np.array(ids, np.int64), np.array([index for index, _ in known], np.int64), len(tokens))


def _without_tones(log_probs: Float32, sounds: Ids) -> Float32:
    """Return the log posterior, (T, V), of each token or any that differs from it only in the tone."""
    sums = np.zeros((log_probs.shape[1], len(log_probs)))
    np.add.at(sums, sounds, np.exp(log_probs.T.astype(np.float64)))
    found: Float32 = np.log(np.maximum(sums[sounds].T, LEAST_PROBABLE)).astype(np.float32)
    return found


def _greedy(log_probs: Float32, of_sounds: Float32, sounds: Ids) -> Ids:
    """Return the tokens of the most probable sounds, each in its most probable tone."""
    best, starts = collapse(of_sounds.argmax(axis=1))
    found: Ids = np.where(sounds == best[:, None], log_probs[starts], -np.inf).argmax(axis=1)
    return found


def _score(log_probs: Float32, ids: Ids) -> float:
    """Return the log probability of the best path; tokens that do not fit into the frames have none."""
    return align_tokens(log_probs, ids).score if frames_needed(ids) <= len(log_probs) else -np.inf


def _differing_places(text: Ids, said: Ids) -> list[_Place]:
    """Return the places at which two sequences differ by an alignment with the fewest edits."""
    places: list[_Place] = []
    for code in Levenshtein.opcodes(text.tolist(), said.tolist()):
        if code.tag == "equal":
            continue
        if places and places[-1].end == code.src_start and places[-1].said_end == code.dest_start:
            last = places.pop()
            places.append(_Place(last.begin, code.src_end, last.said_begin, code.dest_end))
        else:
            places.append(_Place(code.src_start, code.src_end, code.dest_start, code.dest_end))
    return places
