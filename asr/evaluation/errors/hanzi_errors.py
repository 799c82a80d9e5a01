"""Splits errors of hanzi by their cause: the syllable is wrong, or only the choice of the hanzi."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from asr.base.text.hanzi_text import hanzi_in
from asr.base.text.mixed import is_letter, is_toned
from asr.base.text.pinyin import is_syllable
from asr.base.text.units import WORD_BOUNDARY
from asr.base.types import Utterance
from asr.evaluation.errors.metrics import align
from asr.transcription.transcript import Segment


@dataclass(frozen=True)
class HanziErrors:
    """The errors of hanzi, counted along the alignment of their syllables.

    Attributes:
        num_said: hanzi of the references that were compared.
        syllable_right: wrong hanzi for a right syllable, caused by language model or conversion.
        syllable_wrong: hanzi that are wrong, missing or inserted like their syllable, caused by acoustics.
        saved: right hanzi for a wrong syllable.
        num_not_compared: utterances whose reference or hypothesis does not have one hanzi per syllable;
            Latin words of mixed labels are ignored.
        examples: (reference, hypothesis, syllable) of wrong hanzi for right syllables, and their counts, most
            frequent first.
    """

    num_said: int
    syllable_right: int
    syllable_wrong: int
    saved: int
    num_not_compared: int
    examples: Sequence[tuple[tuple[str, str, str], int]]


def hanzi_errors(results: Iterable[tuple[Utterance, Segment]]) -> HanziErrors | None:
    """Count the errors of hanzi by cause; return None if no syllables were converted to hanzi."""
    comparable, num_not_compared = [], 0
    for utterance, hypothesis in results:
        said, written = hanzi_in(utterance.text), hanzi_in(hypothesis.text)
        tokens, recognized = utterance.tokens, hypothesis.tokens
        if any(is_letter(token) or token.startswith(WORD_BOUNDARY) for token in (*tokens, *recognized)):
            tokens, recognized = (tuple(filter(is_toned, one)) for one in (tokens, recognized))
        fits = len(said) == len(tokens) and len(written) == len(recognized)
        if fits and (written or not recognized) and all(map(is_syllable, tokens)):
            comparable.append((tokens, said, recognized, written))
        else:
            num_not_compared += 1
    if not any(written for *_, written in comparable):
        return None
    counts, confused = Counter[str](), Counter[tuple[str, str, str]]()
    for tokens, said, hypothesis_tokens, written in comparable:
        of_reference, of_hypothesis = iter(said), iter(written)
        for edit, syllable, _ in align(tokens, hypothesis_tokens):
            one = "" if edit == "insertion" else next(of_reference)
            other = "" if edit == "deletion" else next(of_hypothesis)
            if one == other:
                counts["saved"] += edit != "equal"
            elif edit == "equal":
                counts["right"] += 1
                confused[one, other, syllable] += 1
            else:
                counts["wrong"] += 1
    return HanziErrors(
        num_said=sum(len(said) for _, said, *_ in comparable),
        syllable_right=counts["right"],
        syllable_wrong=counts["wrong"],
        saved=counts["saved"],
        num_not_compared=num_not_compared,
        examples=sorted(confused.items(), key=lambda item: (-item[1], item[0])),
    )
